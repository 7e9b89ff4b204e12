"""Options of a run from the command line, as its directory has them in TOML, and as a checkpoint notes them."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from trajens.errors import InputError, require

_FREE_OPTIONS = ("ahead", "checkpoint_seconds")
"""They change nothing in what comes out."""


def read_toml(file: Path, name: str = "config") -> dict[str, Any]:
    """The options in a TOML file, which is called `name` where it is refused; a dash may stand for an underscore."""
    try:
        return parse_toml(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{name} must be a file that can be read, got '{file}': {error.strerror}; check it.") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name} must be TOML, got '{file}': {error}; write lines like tau = 8.") from None


def parse_toml(text: str) -> dict[str, Any]:
    """The options in a text in TOML."""
    return {name.replace("-", "_"): value for name, value in tomllib.loads(text).items()}


def as_json(options: dict[str, Any]) -> str:
    """Options as a checkpoint keeps them."""
    return json.dumps(options, default=str)


def require_unchanged(noted_options: str, options: dict[str, Any], file: Path) -> None:
    """Refuse options that are not those the run was begun with; its data may have been moved."""
    before, now = json.loads(noted_options), json.loads(as_json(options))
    changed = [
        f"{name} {_shown(now.get(name))} for {_shown(before.get(name))}"
        for name in sorted({*before, *now})
        if json.dumps(before.get(name)) != json.dumps(now.get(name))
        and not (name in _FREE_OPTIONS and name in now)
        and not (name == "problem" and all(Path(str(one.get(name))).is_absolute() for one in (before, now)))
    ]
    require(
        not changed,
        f"'{file}' must hold the options the run was begun with, got {', '.join(changed[:3])}; undo the change, or "
        "remove the file: the checkpoint knows the options too.",
    )


def _shown(value: Any) -> str:
    text = "nothing" if value is None else json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."
