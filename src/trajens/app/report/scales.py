"""Scales of a chart: from numbers to places, the numbers beside an axis, and curves of many points as curves of few."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_LOGARITHMIC = 20.0
"""Ratio of the largest to the smallest number from which on a logarithmic axis is easier to read."""
_MARGIN = 0.06


@dataclass(frozen=True)
class Scale:
    """From numbers in low..high to places in start..stop."""

    low: float
    high: float
    start: float
    stop: float
    is_log: bool = False

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """Places; those of numbers beyond the ends are at the ends."""
        ends, given = np.array([self.low, self.high]), np.clip(values, self.low, self.high)
        if self.is_log:
            ends, given = np.log(ends), np.log(given)
        return self.start + (given - ends[0]) / (ends[1] - ends[0]) * (self.stop - self.start)

    def ticks(self, about: int = 5, is_whole: bool = False) -> list[float]:
        """Round numbers between the ends."""
        if self.is_log:
            return _log_ticks(self.low, self.high)
        width = (self.high - self.low) / about
        power = 10.0 ** math.floor(math.log10(width))
        step = next(s * power for s in _STEPS if s * power >= width * 0.999)
        step = max(1.0, float(round(step))) if is_whole else step
        first = math.ceil(self.low / step - 1e-9)
        count = math.floor(self.high / step + 1e-9) - first + 1
        return [float(f"{(first + k) * step:.12g}") for k in range(count)]


def is_logarithmic(values: np.ndarray, ratio: float = _LOGARITHMIC) -> bool:
    """Whether positive numbers differ by so large a factor, `ratio`, that their logarithms are easier to read."""
    values = values[np.isfinite(values)]
    return bool(values.size and values.min() > 0 and values.max() > ratio * values.min())


def limits(values: np.ndarray, is_log: bool = False, holds: tuple[float, ...] = ()) -> tuple[float, float]:
    """Ends of an axis that hold finite `values`, and `holds`, with a margin."""
    values = np.concatenate([values[np.isfinite(values)], np.array(holds, float)])
    if values.size == 0:
        return 0.0, 1.0
    low, high = float(values.min()), float(values.max())
    if is_log:
        room = max((high / low) ** _MARGIN, 1.02)
        return low / room, high * room
    room = _MARGIN * (high - low)
    if room < 1e-6 * max(abs(low), abs(high)) or room == 0:
        # A constant, up to rounding: ticks must be told apart.
        room, holds = 0.1 * max(abs(low), abs(high)) or 1.0, ()
    ends = low - room, high + room
    # An end that was asked for, or 0 of what cannot be negative, is the end itself.
    return (low if low in holds or (low >= 0 > ends[0]) else ends[0]), (high if high in holds else ends[1])


def _log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten, of few decades also twice and five times these."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    each = 1 if len(decades) < 7 else math.ceil(len(decades) / 6)
    factors = (1, 2, 5) if math.log10(high / low) < 2 else (1,)
    found = [k * 10.0**d for d in decades if d % each == 0 for k in factors]
    return [float(f"{tick:.12g}") for tick in found if low <= tick <= high]


POINTS = 240
"""That a curve has at most; more could not be told apart on a screen."""


def thin(y: np.ndarray, most: int = POINTS) -> np.ndarray:
    """Places (at most `most`) of values to draw: the first, the last, and of every piece the lowest and the highest."""
    count = len(y)
    if count <= most:
        return np.arange(count)
    pieces = np.array_split(np.arange(1, count - 1), (most - 2) // 2)
    finite = np.where(np.isfinite(y), y, np.nan)
    kept = [0, count - 1]
    for piece in pieces:
        values = finite[piece]
        if np.isnan(values).all():
            kept.append(int(piece[0]))
        else:
            kept += [int(piece[np.nanargmin(values)]), int(piece[np.nanargmax(values)])]
    return np.unique(kept)


def some(count: int, most: int) -> np.ndarray:
    """At most `most` of `count` places, evenly."""
    return np.unique(np.linspace(0, count - 1, min(most, count)).round().astype(int))
