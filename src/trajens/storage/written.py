"""What a run writes down for people to read: its options and its plan. Neither can be changed without being noticed."""

from __future__ import annotations

import json
import tomllib
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from trajens.errors import InputError, require
from trajens.sampling.adapted import MAX_EPOCHS

CONFIG, PLAN = "config.toml", "plan.json"
_FREE = ("ahead", "checkpoint_seconds")
"""Options that change nothing in what comes out."""


def read_toml(file: Path, name: str = "config") -> dict[str, Any]:
    """The options in a TOML file, which is called `name` where it is refused; a dash may stand for an underscore."""
    try:
        return parsed(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{name} must be a file that can be read, got '{file}': {error.strerror}; check it.") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name} must be TOML, got '{file}': {error}; write lines like tau = 8.") from None


def parsed(text: str) -> dict[str, Any]:
    """The options in a text in TOML."""
    return {name.replace("-", "_"): value for name, value in tomllib.loads(text).items()}


def noted(options: dict[str, Any]) -> str:
    """Options as a checkpoint keeps them."""
    return json.dumps(options, default=str)


def require_unchanged(noted_options: str, options: dict[str, Any], file: Path) -> None:
    """Refuse options that are not those the run was begun with; its data may have been moved."""
    before, now = json.loads(noted_options), json.loads(noted(options))
    changed = [
        f"{name} {_shown(now.get(name))} for {_shown(before.get(name))}"
        for name in sorted({*before, *now})
        if json.dumps(before.get(name)) != json.dumps(now.get(name))
        and not (name in _FREE and name in now)
        and not (name == "problem" and _is_path(before.get(name)) and _is_path(now.get(name)))
    ]
    require(
        not changed,
        f"'{file}' must hold the options the run was begun with, got {', '.join(changed[:3])}; undo the change, or "
        "remove the file: the checkpoint knows the options too.",
    )


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


def _is_path(value: Any) -> bool:
    return isinstance(value, str) and Path(value).is_absolute()


def _shown(value: Any) -> str:
    text = "nothing" if value is None else json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."
