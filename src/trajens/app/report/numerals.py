"""Numbers as they are read on the page."""

from __future__ import annotations

import math

_ABSENT = "n/a"
_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def number(value: float) -> str:
    """Four digits, or all of a large whole number."""
    if not math.isfinite(value):
        return _ABSENT
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:.4g}"


def percent(value: float) -> str:
    """A share in per cent, with two decimals."""
    return f"{value:.2%}".replace("%", "\u00a0%") if math.isfinite(value) else _ABSENT


def whole_percent(value: float) -> str:
    """A share in whole per cent."""
    return f"{value:.0%}".replace("%", "\u00a0%")


def with_error(value: float, error: float) -> str:
    """A number and its standard error, where that is known."""
    return f"{number(value)} ±\u00a0{error:.2g}" if math.isfinite(error) else number(value)


def duration(seconds: float) -> str:
    """Seconds, or minutes and hours of many."""
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def short(value: float) -> str:
    """On an axis: thousands and millions by their prefix."""
    for size, prefix in _PREFIXES:
        if abs(value) >= size and abs(value) >= 1e4:
            return f"{value / size:g}{prefix}"
    return "0" if value == 0 else f"{value:.6g}"


def short_percent(value: float) -> str:
    """On an axis that is in per cent."""
    return f"{100 * value:.6g}\u00a0%"
