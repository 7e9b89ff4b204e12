"""A square matrix of numbers as a picture, with a bar of its colours."""

from __future__ import annotations

import numpy as np

from trajens.report import numerals
from trajens.report.html import Markup, tag
from trajens.report.images import coloured, data_address

_SIDE, _LEFT, _TOP = 230.0, 60.0, 12.0
_WIDTH, _HEIGHT = 440.0, 290.0
_BAR = 335.0


def matrix(values: np.ndarray, names: np.ndarray, title: str, words: str) -> Markup:
    """A matrix with the names of its rows and columns; `words` are "{a}", "{b}" and "{v}" in a sentence."""
    # Everyone is like himself, which would take the colours from the others.
    others = values[~np.eye(len(values), dtype=bool)]
    finite = others[np.isfinite(others)]
    if finite.size == 0 or finite.min() == finite.max():
        finite = np.append(finite, [0.0, 1.0])
    low, high = float(finite.min()), float(finite.max())
    span = high - low
    size = {"x": f"{_LEFT:g}", "y": f"{_TOP:g}", "width": f"{_SIDE:g}", "height": f"{_SIDE:g}"}
    places = np.unique(np.linspace(0, len(names) - 1, min(5, len(names))).round().astype(int))
    ticks = []
    for k in places:
        at = (k + 0.5) / len(names) * _SIDE
        ticks.append(tag("text", names[k], class_="tick middle", x=f"{_LEFT + at:.1f}", y=f"{_TOP + _SIDE + 15:g}"))
        ticks.append(tag("text", names[k], class_="tick end", x=f"{_LEFT - 6:g}", y=f"{_TOP + at + 4:.1f}"))
    bar = np.linspace(1, 0, 64)[:, None]
    bar_size = {"x": f"{_BAR:g}", "y": f"{_TOP:g}", "width": "16", "height": f"{_SIDE:g}"}
    ends = [
        tag("text", numerals.percent(low + part * span), class_="tick", x=f"{_BAR + 22:g}", y=f"{y:.1f}")
        for part, y in ((1.0, _TOP + 10), (0.5, _TOP + _SIDE / 2 + 4), (0.0, _TOP + _SIDE))
    ]
    return tag(
        "svg",
        tag("title", title),
        _image(coloured((values - low) / span), size),
        *ticks,
        tag("text", "member", class_="name middle", x=f"{_LEFT + _SIDE / 2:g}", y=f"{_HEIGHT - 12:g}"),
        tag("text", "member", class_="name middle", transform=f"translate(13 {_TOP + _SIDE / 2:g}) rotate(-90)"),
        _image(coloured(bar), bar_size),
        *ends,
        class_="chart matrix",
        viewBox=f"0 0 {_WIDTH:g} {_HEIGHT:g}",
        role="img",
        aria_label=f"{title}, from {numerals.percent(low)} to {numerals.percent(high)}",
        data_box=f"{_LEFT:g} {_TOP:g} {_SIDE:g}",
        data_names=" ".join(map(str, names)),
        data_values=" ".join("-" if not np.isfinite(v) else f"{100 * v:.4g}" for v in values.ravel()),
        data_words=words,
    )


def _image(colours: np.ndarray, size: dict[str, str]) -> Markup:
    return tag("image", href=data_address(colours), preserveAspectRatio="none", class_="pixels", **size)
