"""Charts as SVG: curves, points, bands and bars against two axes, drawn once and coloured by the style of the page.

A curve has the numbers of its points beside it (``data-v``), which the script of the page shows; without the script all
of it is there but these. Points are segments of length 0 with round ends, which is the shortest way to say them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from trajens.app.report import numerals
from trajens.app.report.html import Markup, join, tag
from trajens.app.report.scales import POINTS, Scale, limits, some, thin

WIDTH, HEIGHT = 440.0, 270.0
LEFT, RIGHT, TOP, BOTTOM = 74.0, 12.0, 12.0, 44.0
CHARACTER = 7.5
"""How wide a letter beside an axis is, about."""
LOOKS = 7
"""Colours, each with a dash of its own; the style of the page has as many."""
_BARS = 60
"""Points with error bars at most."""

Shown = Callable[[float], str]


@dataclass(frozen=True)
class Series:
    """One curve, or points.

    Attributes
    ----------
    label : str
    x, y : (n,)
        Not finite where there is nothing to draw.
    low, high : (n,), optional
        A band around a curve, or error bars of points.
    is_points, is_stairs, is_marked : bool
        Points, or levels of bins of equal width with middles `x`, or a line through points; else a line.
    look : int
        Colour and dash.
    """

    label: str
    x: np.ndarray
    y: np.ndarray
    low: np.ndarray | None = None
    high: np.ndarray | None = None
    is_points: bool = False
    look: int = 0
    is_stairs: bool = False
    is_marked: bool = False

    def thinned(self) -> Series:
        """The same of few points."""
        x, y = np.asarray(self.x, float), np.asarray(self.y, float)
        kept = some(len(y), _BARS if self.low is not None else POINTS) if self.is_points else thin(y)
        ends = [None if end is None else np.asarray(end, float)[kept] for end in (self.low, self.high)]
        return replace(self, x=x[kept], y=y[kept], low=ends[0], high=ends[1])


@dataclass(frozen=True)
class Chart:
    """Series against two axes.

    Attributes
    ----------
    title : str
        What is drawn, for those who cannot see it.
    x_label, y_label : str
        With units.
    series : sequence of Series
    x_range, y_range : pair, optional
        Ends of the axes; default what the series need.
    x_shown, y_shown : callable
        How numbers are written beside the axes.
    x_told, y_told : callable
        How they are written where the mouse is.
    x_log, y_log : bool
    x_whole : bool
        Whether only whole numbers are written beside the axis.
    x_ticks : sequence of (place, text), optional
        What is written beside it instead, as far as there is room.
    holds : tuple of float
        What the y axis must hold too.
    band : (low, high, label), optional
        Of y, across the chart.
    shade : (low, high, label), optional
        Of x.
    lines : sequence of (y, label)
        Across the chart, dotted.
    is_diagonal : bool
        Whether y = x is drawn.
    is_cloud : bool
        Whether the nearest point is meant in both directions, and not by its x.
    """

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None
    x_shown: Shown = numerals.short
    y_shown: Shown = numerals.short
    x_told: Shown = numerals.number
    y_told: Shown = numerals.number
    x_log: bool = False
    y_log: bool = False
    x_whole: bool = False
    x_ticks: Sequence[tuple[float, str]] | None = None
    holds: tuple[float, ...] = ()
    band: tuple[float, float, str] | None = None
    shade: tuple[float, float, str] | None = None
    lines: Sequence[tuple[float, str]] = field(default=())
    is_diagonal: bool = False
    is_cloud: bool = False

    def svg(self) -> Markup:
        """The chart, with a list of what is drawn below it."""
        few = [series.thinned() for series in self.series]
        x_scale, y_scale = self._scales(few)
        parts = [
            *self._behind(x_scale, y_scale),
            *_axes(x_scale, y_scale, self),
            *(self._drawn(series, x_scale, y_scale) for series in few),
            tag("line", class_="cross", x1="0", x2="0", y1=f"{TOP:g}", y2=f"{HEIGHT - BOTTOM:g}"),
        ]
        drawing = tag(
            "svg",
            tag("title", self.title),
            *parts,
            class_="chart",
            viewBox=f"0 0 {WIDTH:g} {HEIGHT:g}",
            role="img",
            aria_label=f"{self.title}: {self.y_label} against {self.x_label}",
            data_x=self.x_label,
            data_cloud="" if self.is_cloud else None,
        )
        return join([drawing, self._legend(few)])

    def _scales(self, few: Sequence[Series]) -> tuple[Scale, Scale]:
        xs = np.concatenate([series.x for series in few] or [np.zeros(0)])
        values = [end for series in few for end in (series.y, series.low, series.high) if end is not None]
        ys = np.concatenate(values or [np.zeros(0)])
        ys = ys[ys > 0] if self.y_log else ys
        more = (*self.holds, *(y for y, _ in self.lines))
        x_range = self.x_range or limits(xs, self.x_log)
        y_range = self.y_range or limits(ys, self.y_log, tuple(y for y in more if np.isfinite(y)))
        return (
            Scale(*x_range, LEFT, WIDTH - RIGHT, self.x_log),
            Scale(*y_range, HEIGHT - BOTTOM, TOP, self.y_log),
        )

    def _behind(self, x: Scale, y: Scale) -> list[Markup]:
        found = []
        if self.shade is not None:
            left, right = x(np.array(self.shade[:2], float))
            found.append(_box("shade", left, TOP, right, HEIGHT - BOTTOM, self.shade[2]))
        if self.band is not None:
            bottom, top = y(np.array(self.band[:2], float))
            found.append(_box("band", LEFT, top, WIDTH - RIGHT, bottom, self.band[2]))
        if self.is_diagonal:
            low, high = max(x.low, y.low), min(x.high, y.high)
            (x1, x2), (y1, y2) = x(np.array([low, high])), y(np.array([low, high]))
            found.append(tag("path", class_="rule", d=f"M{x1:.1f},{y1:.1f}L{x2:.1f},{y2:.1f}"))
        for k, (value, _) in enumerate(self.lines):
            at = float(y(np.array([value]))[0])
            found.append(tag("path", class_=f"rule r{k}", d=f"M{LEFT:g},{at:.1f}H{WIDTH - RIGHT:g}"))
        return found

    def _drawn(self, series: Series, x: Scale, y: Scale) -> Markup:
        is_there = np.isfinite(series.x) & np.isfinite(series.y)
        if self.y_log:
            is_there &= series.y > 0
        px, py = x(series.x), y(np.where(is_there, series.y, y.low))
        told = " ".join(
            f"{_unspaced(self.x_told(a))}|{_unspaced(self.y_told(b) + self._spread(series, k))}"
            for k, (a, b) in enumerate(zip(series.x, series.y, strict=True))
            if is_there[k]
        )
        parts = []
        if series.low is not None and series.high is not None:
            low, high = (y(np.where(np.isfinite(end), end, series.y)) for end in (series.low, series.high))
            around = _bars if series.is_points or series.is_marked else _band
            parts.append(around(px, low, high, is_there))
        if series.is_marked:
            parts.append(tag("path", class_="curve", d=_line(px, py, is_there)))
        if series.is_points or series.is_marked:
            d = "".join(f"M{a:.1f},{b:.1f}h0" for a, b in zip(px[is_there], py[is_there], strict=True))
            parts.append(tag("path", class_="points", d=d))
        elif series.is_stairs:
            parts.append(tag("path", class_="spots", d=_line(px, py, is_there)))
            parts.append(tag("path", class_="curve", d=_stairs(px, py, HEIGHT - BOTTOM)))
        else:
            parts.append(tag("path", class_="curve", d=_line(px, py, is_there)))
        return tag("g", *parts, class_=f"series look{series.look % LOOKS}", data_label=series.label, data_v=told)

    def _spread(self, series: Series, place: int) -> str:
        if series.low is None or series.high is None:
            return ""
        half = (series.high[place] - series.low[place]) / 2
        return f" ± {self.y_told(half)}" if np.isfinite(half) and half > 0 else ""

    def _legend(self, few: Sequence[Series]) -> Markup:
        """What is what; a single curve needs no name beside that of its axis."""
        is_alone = len(few) == 1 and not self.lines and self.band is None
        items = [
            tag("li", _swatch(series.is_points, f"look{series.look % LOOKS}"), series.label)
            for series in few
            if not is_alone
        ]
        items += [tag("li", _rule_swatch(f"rule r{k}"), label) for k, (_, label) in enumerate(self.lines)]
        areas = [("band", self.band), ("shade", self.shade)]
        items += [tag("li", _area_swatch(name), area[2]) for name, area in areas if area is not None]
        return tag("ul", *items, class_="legend") if items else Markup("")


def _axes(x: Scale, y: Scale, chart: Chart) -> list[Markup]:
    """Lines, numbers and names of both axes."""
    bottom, parts = HEIGHT - BOTTOM, []
    for tick in y.ticks():
        at = float(y(np.array([tick]))[0])
        parts.append(tag("path", class_="grid", d=f"M{LEFT:g},{at:.1f}H{WIDTH - RIGHT:g}"))
        parts.append(tag("text", chart.y_shown(tick), class_="tick end", x=f"{LEFT - 6:g}", y=f"{at + 4:.1f}"))
    ticks = chart.x_ticks
    free = -np.inf
    for tick, text in [(tick, chart.x_shown(tick)) for tick in x.ticks(4, chart.x_whole)] if ticks is None else ticks:
        at = float(x(np.array([tick]))[0])
        parts.append(tag("path", class_="stroke", d=f"M{at:.1f},{bottom:g}v4"))
        half = CHARACTER * len(text) / 2
        if ticks is None or at - half > free:
            parts.append(tag("text", text, class_="tick middle", x=f"{at:.1f}", y=f"{bottom + 17:g}"))
            free = at + half
    middle = (TOP + bottom) / 2
    return [
        *parts,
        tag("path", class_="stroke", d=f"M{LEFT:g},{TOP:g}V{bottom:g}H{WIDTH - RIGHT:g}"),
        tag("text", chart.x_label, class_="name middle", x=f"{(LEFT + WIDTH - RIGHT) / 2:g}", y=f"{HEIGHT - 8:g}"),
        tag("text", chart.y_label, class_="name middle", transform=f"translate(13 {middle:g}) rotate(-90)"),
    ]


def _line(px: np.ndarray, py: np.ndarray, is_there: np.ndarray) -> str:
    """A path that is broken where points are missing."""
    before = np.concatenate([[False], is_there[:-1]])
    return "".join(
        f"{'L' if was else 'M'}{a:.1f},{b:.1f}"
        for a, b, here, was in zip(px, py, is_there, before, strict=True)
        if here
    )


def _stairs(px: np.ndarray, py: np.ndarray, bottom: float) -> str:
    """Levels over bins, from the bottom and back to it."""
    half = (px[1] - px[0]) / 2 if len(px) > 1 else 0.0
    steps = "".join(f"V{b:.1f}H{a + half:.1f}" for a, b in zip(px, py, strict=True))
    return f"M{px[0] - half:.1f},{bottom:g}{steps}V{bottom:g}"


def _band(px: np.ndarray, low: np.ndarray, high: np.ndarray, is_there: np.ndarray) -> Markup:
    there = np.flatnonzero(is_there)
    around = [*((px[k], high[k]) for k in there), *((px[k], low[k]) for k in there[::-1])]
    return tag("path", class_="area", d="M" + "L".join(f"{a:.1f},{b:.1f}" for a, b in around) if around else "")


def _bars(px: np.ndarray, low: np.ndarray, high: np.ndarray, is_there: np.ndarray) -> Markup:
    d = "".join(f"M{px[k]:.1f},{low[k]:.1f}V{high[k]:.1f}" for k in np.flatnonzero(is_there))
    return tag("path", class_="bars", d=d)


def _box(name: str, left: float, top: float, right: float, bottom: float, label: str) -> Markup:
    size = {"x": f"{left:.1f}", "y": f"{top:.1f}", "width": f"{right - left:.1f}", "height": f"{bottom - top:.1f}"}
    return tag("rect", tag("title", label), class_=name, **size)


def _swatch(is_points: bool, look: str) -> Markup:
    mark = tag("path", class_="points", d="M13,5h0") if is_points else tag("path", class_="curve", d="M1,5H25")
    return _small(tag("g", mark, class_=look))


def _rule_swatch(name: str) -> Markup:
    return _small(tag("path", class_=name, d="M1,5H25"))


def _area_swatch(name: str) -> Markup:
    return _small(tag("rect", class_=name, x="1", y="0", width="24", height="10"))


def _small(mark: Any) -> Markup:
    return tag("svg", mark, class_="swatch", viewBox="0 0 26 10", aria_hidden="true")


def _unspaced(text: str) -> str:
    """A number as one word among those of a curve."""
    return text.replace("\u00a0", "_").replace(" ", "_")
