"""Curves over one option and heat maps over two; of more, one chart for every value of the rest.

Nothing is averaged but repeats with other seeds. Where settings were drawn at random, so that charts would have a point
or two each, every setting is a point in one chart for every option.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np

from trajens.app.report.chart import CHARACTER, LEFT, LOOKS, RIGHT, WIDTH, Chart, Series
from trajens.app.report.heat_map import HeatMap, cut
from trajens.app.report.html import Markup, join, panel, tag
from trajens.app.report.scales import POINTS, is_logarithmic, limits, some
from trajens.app.report.sweep_design import Axis, Design, value_of, write_value
from trajens.app.report.sweep_measures import QUANTITIES, Measured, Quantity, errors_said, is_drawn, measure
from trajens.app.sweeps.results import RunRow

SLICES = 12
"""Charts of one quantity, at most."""
_DENSE = 0.2
"""Share of all combinations of the axes that must be settings of the sweep, or these are taken to be scattered."""
_MARGIN = 0.05
_CELLS = 64
"""Rows or columns of a map, at most."""
_TICKS = 9
"""Numbers that are written beside an axis each, at most."""

Cells = dict[tuple[Any, ...], Measured]


@dataclass(frozen=True)
class Layout:
    """Which option is drawn how.

    Attributes
    ----------
    x : Axis
        Along the axis.
    lines : Axis or None
        A curve, and a row of a map, for every value.
    rest : tuple of Axis
        A chart for every value of these.
    """

    x: Axis
    lines: Axis | None
    rest: tuple[Axis, ...]

    @classmethod
    def of(cls, axes: Sequence[Axis]) -> Layout:
        """Numbers and many values along the axis, then the one with most values: so few charts are enough."""
        left = sorted(axes, key=lambda axis: (not axis.is_number, -len(axis.values)))
        x, others = left[0], sorted(left[1:], key=lambda axis: -len(axis.values))
        rest = tuple(axis for axis in axes if axis in others[1:])
        return cls(x, others[0] if others else None, rest)


def charts(looks: Sequence[RunRow], design: Design) -> list[Markup]:
    """Everything that can be drawn of the runs that are complete."""
    if not any(is_drawn(look) for look in looks) or not design.axes:
        return []
    layout = Layout.of(design.axes)
    by_setting: dict[tuple[Any, ...], list[RunRow]] = {}
    for look in looks:
        by_setting.setdefault(tuple(value_of(look, axis.name) for axis in design.axes), []).append(look)
    is_scattered = len(by_setting) < _DENSE * prod(len(axis.values) for axis in design.axes)
    found = []
    for quantity in QUANTITIES:
        every = {key: measure(several, quantity) for key, several in by_setting.items()}
        cells = {key: point for key, point in every.items() if point is not None}
        if cells:
            drawn = _scatters(cells, design, quantity) if is_scattered else _slices(cells, design, layout, quantity)
            found.append(drawn)
    return found


def _slices(cells: Cells, design: Design, layout: Layout, quantity: Quantity) -> Markup:
    """Charts of one quantity, all to one scale."""
    slices = _by_rest(cells, design, layout)
    keys = [key for key in product(*(axis.values for axis in layout.rest)) if key in slices]
    kept = [keys[k] for k in some(len(keys), SLICES)]
    panels: list[Markup] = []
    for number, key in enumerate(kept):
        held = ", ".join(f"{axis.name} = {write_value(value)}" for axis, value in zip(layout.rest, key, strict=True))
        anchor = quantity.key.replace("_", "-") + (f"-{number}" if layout.rest else "")
        panels += _both(slices[key], cells, layout, quantity, held, anchor)
    left_out = ""
    if len(kept) < len(keys):
        left_out = f" An even choice of {len(kept)} of {len(keys)} charts is drawn; all numbers are in the table below."
    if not layout.rest:
        return join(panels)
    names = " and ".join(axis.name for axis in layout.rest)
    words = f"{quantity.look_for} One chart for every value of {names}, all to one scale.{left_out}"
    return join([tag("h3", quantity.title, class_="across"), tag("p", words, class_="small across"), *panels])


def _by_rest(cells: Cells, design: Design, layout: Layout) -> dict[tuple[Any, ...], Cells]:
    """The cells of every slice, by what is along the axis and what has a curve."""
    names = [axis.name for axis in design.axes]
    inner = [names.index(axis.name) for axis in (layout.x, layout.lines) if axis is not None]
    outer = [names.index(axis.name) for axis in layout.rest]
    found: dict[tuple[Any, ...], Cells] = {}
    for where, point in cells.items():
        found.setdefault(tuple(where[k] for k in outer), {})[tuple(where[k] for k in inner)] = point
    return found


def _both(inside: Cells, cells: Cells, layout: Layout, quantity: Quantity, held: str, anchor: str) -> Iterator[Markup]:
    """A chart of curves, and a map where there are two options."""
    title = f"{quantity.title}, {held}" if held else quantity.title
    said = errors_said(list(inside.values()), quantity)
    look_for = said if held else f"{quantity.look_for} {said}"
    x, lines = layout.x, layout.lines
    if lines is None:
        series = [_curve(x, inside, (), quantity.title, 0)]
    else:
        kept = some(len(lines.values), LOOKS)
        values = [lines.values[k] for k in kept]
        labels = [f"{lines.name} = {write_value(value)}" for value in values]
        curves = [
            _curve(x, inside, (value,), label, k) for k, (value, label) in enumerate(zip(values, labels, strict=True))
        ]
        series = [curve for curve in curves if np.isfinite(curve.y).any()]
        if len(kept) < len(lines.values):
            look_for += f" {len(kept)} of {len(lines.values)} values of {lines.name} have a curve; the map has all."
    yield panel(anchor, title, over(x, series, list(cells.values()), quantity, title), look_for)
    if lines is not None:
        words = f"{quantity.title} over {x.name} and {lines.name}{f', {held}' if held else ''}"
        yield panel(f"{anchor}-map", words, _map(x, lines, inside, cells, quantity, words), _said_of_map(x, lines))


def _curve(x: Axis, cells: Cells, other: tuple[Any, ...], label: str, look: int) -> Series:
    """One line, or points where the values of the axis are names."""
    points = [cells.get((value, *other)) for value in x.values]
    y = np.array([np.nan if point is None else point.value for point in points])
    error = np.array([np.nan if point is None else point.error for point in points])
    has_errors = bool(np.isfinite(error).any())
    error = np.nan_to_num(error)
    low, high = (y - error, y + error) if has_errors else (None, None)
    return Series(label, _places(x), y, low, high, is_points=not x.is_number, look=look, is_marked=x.is_number)


def over(x: Axis, series: Sequence[Series], points: Sequence[Measured], quantity: Quantity, title: str) -> Markup:
    """A chart over the values of an option, with room for all `points`."""
    values = np.array([point.value for point in points])
    errors = np.nan_to_num(np.array([point.error for point in points]))
    ends = values - errors, values + errors
    holds = (0.0,) if quantity.key == "tilt_error" else ()
    is_log = not quantity.is_share and is_logarithmic(values) and bool((ends[0] > 0).all())
    labels = dict(zip(_places(x).tolist(), x.labels, strict=True))
    is_log_x = x.is_number and is_logarithmic(_places(x))
    count = len(x.values)
    room = 99 if x.is_number else int((WIDTH - LEFT - RIGHT) / count / CHARACTER)
    has_ticks = not x.is_number or count <= _TICKS
    return Chart(
        title,
        x.name,
        quantity.y_label,
        series,
        x_range=_ends(x, is_log_x),
        y_range=limits(np.concatenate([values, *ends]), is_log, holds),
        y_shown=quantity.shown,
        y_told=quantity.told,
        x_told=lambda place: labels.get(place, f"{place:g}"),
        x_log=is_log_x,
        y_log=is_log,
        x_ticks=[(place, cut(text, max(room, 4))) for place, text in labels.items()] if has_ticks else None,
        lines=[(0.0, "s as asked for")] if holds else (),
    ).svg()


def _places(axis: Axis) -> np.ndarray:
    """Where the values of an axis are: at their numbers, or one beside the other."""
    return np.array(axis.values if axis.is_number else range(len(axis.values)), float)


def _ends(axis: Axis, is_log: bool) -> tuple[float, float]:
    """Of the axis of a chart, so that no point is on its edge."""
    places = _places(axis)
    if is_log:
        return limits(places, is_log)
    room = _MARGIN * float(np.ptp(places)) if axis.is_number else 0.5
    return float(places.min()) - room, float(places.max()) + room


def _map(x: Axis, lines: Axis, inside: Cells, cells: Cells, quantity: Quantity, title: str) -> Markup:
    """A column for every value of one option, a row for every value of the other, the largest at the top."""
    columns, rows = some(len(x.values), _CELLS), some(len(lines.values), _CELLS)[::-1]
    points = [[inside.get((x.values[c], lines.values[r])) for c in columns] for r in rows]
    values = np.array([[np.nan if point is None else point.value for point in row] for row in points])
    every = np.array([point.value for point in cells.values()])
    is_log = not quantity.is_share and is_logarithmic(every)
    low, high = float(every.min()), float(every.max())
    if high - low <= 1e-9 * abs(high):
        low, high = limits(every)
        is_log = is_log and low > 0
    return HeatMap(
        title=title,
        values=values,
        rows=[lines.labels[r] for r in rows],
        columns=[x.labels[c] for c in columns],
        told=[["nothing complete" if point is None else point.told(quantity) for point in row] for row in points],
        x_label=x.name,
        y_label=lines.name,
        low=low,
        high=high,
        words=f"{x.name} = {{b}}, {lines.name} = {{a}}: {{v}}",
        shown=lambda value: quantity.shown(float(f"{value:.4g}")),
        is_log=is_log,
        is_written=True,
    ).svg()


def _said_of_map(x: Axis, lines: Axis) -> str:
    words = "The same numbers as colours; what is crossed out has no complete run."
    for axis in (x, lines):
        if len(axis.values) > _CELLS:
            words += f" {_CELLS} of {len(axis.values)} values of {axis.name} are drawn, an even choice."
    return words


def _scatters(cells: Cells, design: Design, quantity: Quantity) -> Markup:
    """Every setting as a point, once over every option."""
    kept = [list(cells.items())[k] for k in some(len(cells), POINTS)]
    points = [point for _, point in kept]
    choice = f" An even choice of {len(kept)} of {len(cells)} settings is drawn." if len(kept) < len(cells) else ""
    words = (
        f"{quantity.look_for} Every point is one setting. The other options differ from point to point: nothing is "
        f"held fixed, and nothing averaged but seeds.{choice}"
    )
    panels = []
    for number, axis in enumerate(design.axes):
        places = dict(zip(axis.values, _places(axis).tolist(), strict=True))
        x = np.array([places[key[number]] for key, _ in kept])
        series = Series("settings", x, np.array([point.value for point in points]), is_points=True)
        title = f"{quantity.title} over {axis.name}"
        chart = over(axis, [series], points, quantity, title)
        panels.append(panel(f"{quantity.key.replace('_', '-')}-{number}", title, chart, f"Of {len(kept)} settings."))
    return join([tag("h3", quantity.title, class_="across"), tag("p", words, class_="small across"), *panels])
