"""A square matrix of numbers as a picture, with a bar of its colours."""

from __future__ import annotations

import numpy as np

from trajens.report import numerals
from trajens.report.heat_map import SIDE, HeatMap
from trajens.report.html import Markup


def matrix(values: np.ndarray, names: np.ndarray, title: str, words: str) -> Markup:
    """A matrix with the names of its rows and columns; `words` are "{a}", "{b}" and "{v}" in a sentence."""
    # Everyone is like himself, which would take the colours from the others.
    others = values[~np.eye(len(values), dtype=bool)]
    finite = others[np.isfinite(others)]
    if finite.size == 0 or finite.min() == finite.max():
        finite = np.append(finite, [0.0, 1.0])
    low, high = float(finite.min()), float(finite.max())
    told = [["-" if not np.isfinite(v) else f"{100 * v:.4g}" for v in row] for row in values]
    labels = [str(name) for name in names]
    return HeatMap(
        title, values, labels, labels, told, "member", "member", low, high, words, numerals.percent, width=SIDE
    ).svg()
