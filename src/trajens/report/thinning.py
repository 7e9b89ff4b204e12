"""Curves of many points as curves of few, with their peaks."""

from __future__ import annotations

import numpy as np

POINTS = 240
"""That a curve has at most; more could not be told apart on a screen."""


def thinned(y: np.ndarray, most: int = POINTS) -> np.ndarray:
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
