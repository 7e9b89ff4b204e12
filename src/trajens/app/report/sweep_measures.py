"""What is drawn of a sweep, with its error: over seeds where settings were repeated, else over the chains of a run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from trajens.app.report import numerals
from trajens.app.report.chart import Shown
from trajens.app.report.words import CLASSIFIER
from trajens.app.sweeps.directory import TaskState
from trajens.app.sweeps.results import RunRow
from trajens.columns import COLUMNS, Average, Column
from trajens.records import mean_and_error


class Quantity(NamedTuple):
    """A number of every run: its key in a summary, what it is called, its axis, and what to look for."""

    key: str
    title: str
    y_label: str
    look_for: str
    is_share: bool = False
    samples: str = "chains"

    @classmethod
    def of(cls, column: Column) -> Quantity:
        """The average of a column of records."""
        samples = "audits" if column.average is Average.AUDITS else "chains"
        return cls(column.name, column.heading, column.unit, column.sweep, column.is_share, samples)

    @property
    def shown(self) -> Shown:
        """How it is written beside an axis."""
        return numerals.short_percent if self.is_share else numerals.short

    @property
    def told(self) -> Shown:
        """How it is written where the mouse is."""
        return numerals.percent if self.is_share else numerals.number

    def with_error(self, value: float, error: float) -> str:
        """A number and its standard error, where that is known."""
        if not self.is_share:
            return numerals.with_error(value, error)
        return numerals.percent(value) + (f" ±\u00a0{numerals.percent(error)}" if math.isfinite(error) else "")


_VOTE = CLASSIFIER[0]

QUANTITIES = (
    *(Quantity.of(column) for column in COLUMNS if column.sweep),
    Quantity(
        _VOTE.key,
        _VOTE.words[:1].upper() + _VOTE.words[1:],
        "accuracy",
        "Of the last paths on a test set, as it was kept beside the runs.",
        True,
    ),
)


class Measured(NamedTuple):
    """A number of all runs of one setting.

    Attributes
    ----------
    value, error : float
        The error is NaN where there is none.
    runs : int
        With different seeds.
    samples : int
        What the error is over: seeds if there are several, else the chains of the run; 0 where there is none.
    """

    value: float
    error: float
    runs: int
    samples: int

    def told(self, quantity: Quantity) -> str:
        """In words."""
        seeds = f" ({self.runs} seeds)" if self.runs > 1 else ""
        return f"{quantity.with_error(self.value, self.error)}{seeds}"


def is_drawn(look: RunRow) -> bool:
    """Whether a run is complete and has a summary: what is under way would change."""
    return look.outcome.state is TaskState.COMPLETE and bool(look.summary)


def measure(looks: Iterable[RunRow], quantity: Quantity) -> Measured | None:
    """Of runs that differ in nothing but the seed; None where none of them has the number."""
    found = [
        (look.summary[quantity.key], look.summary.get(f"{quantity.key}_stderr", math.nan), look.summary["chains"])
        for look in looks
        if is_drawn(look) and math.isfinite(look.summary.get(quantity.key, math.nan))
    ]
    if not found:
        return None
    if len(found) > 1:
        value, error = mean_and_error(np.array([value for value, _, _ in found]))
        return Measured(value, error, len(found), len(found))
    value, error, chains = found[0]
    return Measured(value, error, 1, chains if math.isfinite(error) else 0)


def errors_said(points: Sequence[Measured], quantity: Quantity) -> str:
    """Which error is drawn, of points that may have different ones."""
    if not points:
        return ""
    repeated = sorted({point.runs for point in points if point.runs > 1})
    alone = [point for point in points if point.runs == 1]
    samples = sorted({point.samples for point in alone if point.samples})
    parts = []
    if repeated:
        parts.append(f"standard errors over {_range(repeated)} seeds, of the means of their runs")
    if samples and quantity.samples == "chains":
        parts.append(f"{_of(alone, points)}standard errors over the {_range(samples)} chains of one run")
    elif samples:
        parts.append(f"{_of(alone, points)}standard errors over the {quantity.samples} of one run")
    without = [point for point in alone if not point.samples]
    if without:
        parts.append(f"{_of(without, points)}none, since one chain of one run has no error")
    return f"Errors: {'; '.join(parts)}."


def _of(some: Sequence[Measured], points: Sequence[Measured]) -> str:
    return "" if len(some) == len(points) else f"of {len(some)} of {len(points)} points "


def _range(counts: Sequence[int]) -> str:
    return str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
