"""The plan of a run on disk: the epochs at which is recorded, those to come included, with a checksum."""

from __future__ import annotations

import json
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from trajens.records import MAX_EPOCHS


def plan_text(marks: np.ndarray) -> str:
    """The epochs at which is recorded, with a checksum."""
    epochs = marks.tolist()
    return json.dumps({"epochs": epochs, "crc32": _checksum(epochs)})


def read_plan(file: Path) -> np.ndarray:
    """What `plan_text` wrote, or the list of epochs of runs of before.

    One that is missing or, with a warning, damaged counts for nothing.
    """
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        epochs = found["epochs"] if isinstance(found, dict) else found
        plan = np.array(epochs, np.int64)
        is_growing = plan.ndim == 1 and bool((np.diff(plan, prepend=0) > 0).all() and (plan <= MAX_EPOCHS).all())
        is_whole = not isinstance(found, dict) or found["crc32"] == _checksum(epochs)
        if is_growing and is_whole:
            return plan
        reason = "its checksum does not match" if is_growing else f"it must list growing epochs up to {MAX_EPOCHS}"
    except FileNotFoundError:
        return np.zeros(0, np.int64)
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        reason = str(error)
    warnings.warn(f"the plan '{file}' is damaged ({reason}); going by the checkpoint alone.", stacklevel=2)
    return np.zeros(0, np.int64)


def _checksum(epochs: Any) -> int:
    return zlib.crc32(json.dumps(epochs).encode())
