"""What the last path of every chain of a run was worth, kept beside it: ``evaluation.json``."""

from __future__ import annotations

import contextlib
import json
from typing import Any

from trajens.files import write_atomically
from trajens.storage.stored import StoredRun

_FILE = "evaluation.json"

Scores = list[dict[str, Any]]


def kept_scores(stored: StoredRun) -> Scores | None:
    """The scores of every chain; None where there are none of these paths, whatever else is there."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        kept = json.loads((stored.path / _FILE).read_text())
        if kept["epoch"] == stored.epoch and len(kept["chains"]) == stored.chains:
            return list(kept["chains"])
    return None


def keep_scores(stored: StoredRun, scores: Scores) -> None:
    """Write down the scores of every chain."""
    content = json.dumps({"epoch": stored.epoch, "chains": scores})
    write_atomically(stored.path / _FILE, content.encode())
