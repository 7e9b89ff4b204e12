"""Names of runs: what is a run's own, as text that every file system takes and people can read."""

from __future__ import annotations

import hashlib
import re
from typing import Any

ONLY = "run"
"""The name of a run that has nothing of its own."""
_LONGEST_VALUE, _LONGEST_NAME, _DIGITS = 32, 160, 6
_STRANGE = re.compile(r"[^A-Za-z0-9._+-]")


def name_of(own: dict[str, Any]) -> str:
    """``s=20,seed=1,tau=4``: options in the order of the alphabet; what is long or strange is cut, with a sum of it."""
    name = ",".join(f"{key}={_text(value)}" for key, value in sorted(own.items()))
    if len(name) > _LONGEST_NAME:
        name = f"{name[:_LONGEST_NAME]}~{_sum(name)}"
    return name or ONLY


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return _safe("+".join(_number(part) for part in value))
    return _safe(_number(value))


def _number(value: Any) -> str:
    """A number as short as it can be said without becoming another; anything else as a text."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() and abs(value) < 1e15 else str(value)


def _safe(text: str) -> str:
    safe = _STRANGE.sub("_", text)
    if safe == text and 0 < len(text) <= _LONGEST_VALUE:
        return text
    # The end of a path says more than its beginning.
    return f"{safe[-_LONGEST_VALUE:].strip('._')}~{_sum(text)}"


def _sum(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
