"""Numbers on their way in (``2e5`` is a whole number) and out (JSON has no NaN)."""

from __future__ import annotations

import math
from typing import Any

import typer


def whole(text: Any) -> int | float:
    """The number in `text`, as an int when it is whole; others are left for the library to refuse."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        value = float(text)
    except ValueError:
        raise typer.BadParameter(f"must be a whole number such as 200000 or 2e5, got {text!r}.") from None
    return int(value) if value.is_integer() else value


def finite(value: Any) -> Any:
    """`value` with every NaN and infinity inside replaced by None."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
