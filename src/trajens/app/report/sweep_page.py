"""The page about a sweep: where it stands, what varies, what came out, and all runs."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from trajens.app.report import numerals
from trajens.app.report.html import NAME, Markup, document, join, section, table, tag, tile
from trajens.app.report.sweep_charts import charts
from trajens.app.report.sweep_design import Axis, Design, value_of, write_value
from trajens.app.report.sweep_measures import QUANTITIES, errors_said, is_drawn, measure
from trajens.app.report.words import mark_word
from trajens.app.sweeps.directory import ORDER, Outcome, SweepDirectory, TaskState, spoken
from trajens.app.sweeps.results import RunRow, looks_at
from trajens.files import in_shell
from trajens.run.advice import ATTENTION, OK, UNKNOWN

_ROWS = 1000
"""Runs in the table, at most."""
_SENTENCES, _NAMES, _VALUES = 12, 3, 12
"""Kinds of failures, runs of each, and values of an option that are listed, at most."""
_MARKS = {TaskState.COMPLETE: OK, TaskState.FAILED: ATTENTION}


@dataclass(frozen=True)
class SweepView:
    """A sweep at one moment: its directory, and all its runs in the order of the plan."""

    path: Path
    looks: tuple[RunRow, ...]

    @property
    def outcomes(self) -> dict[str, Outcome]:
        """The state of every run."""
        return {look.run: look.outcome for look in self.looks}


def load_sweep_view(path: Path, known: dict[str, list[RunRow]] | None = None) -> SweepView:
    """The sweep in a directory, which may go on meanwhile; runs that are complete are kept in `known`."""
    directory = SweepDirectory(path)
    return SweepView(directory.path, tuple(looks_at(directory, known)))


def sweep_page(view: SweepView, folder: Path, renewed_every: float | None = None) -> str:
    """One page about a sweep; nothing in it is loaded from elsewhere.

    Parameters
    ----------
    view : SweepView
    folder : Path
        Where the page will be: pages of its runs are linked from there.
    renewed_every : float, optional
        Seconds after which the page loads itself again; for one that is renewed while the sweep goes on.
    """
    design = Design.of(view.looks)
    body = join(
        [
            section("states", "Where it stands", *_states(view)),
            section("varied", "What varies", *_varied(design, view)),
            section("results", "What came out", *_results(view, design)),
            section("runs", "All runs", *_runs(view, design, folder)),
        ]
    )
    lead = f"{spoken(view.outcomes)}."
    return document(view.path.name, lead, body, "the directory of the sweep alone", renewed_every)


def _states(view: SweepView) -> list[Markup]:
    """How many runs are in every state, and what failed with what sentence."""
    outcomes = view.outcomes
    counts = Counter(outcome.state for outcome in outcomes.values())
    order = (TaskState.COMPLETE, *(state for state in ORDER if state is not TaskState.COMPLETE))
    tiles = [tile(state, f"{counts[state]:,}", _MEANINGS[state]) for state in order if counts[state]]
    found = [tag("div", *tiles, class_="tiles")]
    if counts[TaskState.COMPLETE] < len(outcomes):
        found.append(tag("p", "Only runs that are complete are drawn below.", class_="where below"))
    sentences: dict[str, list[str]] = {}
    for name, outcome in outcomes.items():
        if outcome.state is TaskState.FAILED:
            sentences.setdefault(outcome.sentence, []).append(name)
    if sentences:
        found.append(tag("ul", *(_failure(*item) for item in list(sentences.items())[:_SENTENCES]), class_="verdicts"))
        if len(sentences) > _SENTENCES:
            status = f"trajens sweep status {in_shell(view.path.name)}"
            more = f"and {len(sentences) - _SENTENCES} other sentences; {status} has all"
            found.append(tag("p", more, class_="why"))
    return found


_MEANINGS = {
    TaskState.COMPLETE: "nothing is left to do",
    TaskState.RUNNING: "a process works on them",
    TaskState.STOPPED: "begun; the same command goes on",
    TaskState.WAITING: "not begun",
    TaskState.FAILED: "tried again by the same command",
}


def _failure(sentence: str, names: list[str]) -> Markup:
    more = f", and {len(names) - _NAMES:,} more" if len(names) > _NAMES else ""
    title = "1 run failed" if len(names) == 1 else f"{len(names):,} runs failed"
    said = tag("p", sentence or "It left no sentence.")
    which = tag("p", f"{'; '.join(names[:_NAMES])}{more}", class_="small")
    return tag("li", tag("h3", title), mark_word(ATTENTION, "failed"), said, which, class_=f"verdict {ATTENTION}")


def _varied(design: Design, view: SweepView) -> list[Markup]:
    """Every option that varies, its values, and what it is to the charts."""
    if not design.varied:
        return [tag("p", "No option varies.", class_="why")]
    axes = {axis.name for axis in design.axes}
    rows = [(axis.name, _values(axis), _role(axis.name, axes, design)) for axis in design.varied]
    return [table(rows, ["option", "values", ""], "Options that vary")]


def _role(name: str, axes: set[str], design: Design) -> str:
    if name in axes:
        return "drawn over"
    if name in design.tied:
        return f"goes with {' and '.join(design.tied[name])}" if design.tied[name] else "goes with the rest"
    return "repeats: runs that differ in nothing else are drawn as one point"


def _values(axis: Axis) -> str:
    labels = axis.labels
    if len(labels) <= _VALUES:
        return ", ".join(labels)
    half = _VALUES // 2
    return f"{', '.join(labels[:half])}, …, {', '.join(labels[-half:])} ({len(labels):,} values)"


def _results(view: SweepView, design: Design) -> list[Markup]:
    """The lowest loss, and charts."""
    drawn = [look for look in view.looks if is_drawn(look)]
    if not drawn:
        return [tag("p", "No run is complete and has a record after burn-in.", class_="why")]
    if not design.axes:
        return [_alone(drawn)]
    best = min(drawn, key=lambda look: look.summary["loss"])
    text = numerals.with_error(best.summary["loss"], best.summary["loss_stderr"])
    where = ", ".join(f"{axis.name} = {write_value(value_of(best, axis.name))}" for axis in design.varied)
    lowest = f"The lowest loss of a run is {text}, at {where}. The lowest of many is lower than it would be again."
    return [tag("p", lowest, class_="where"), tag("div", *charts(view.looks, design), class_="panels")]


def _alone(drawn: Sequence[RunRow]) -> Markup:
    """Where nothing varies but the seed: one number each."""
    tiles = []
    for quantity in QUANTITIES:
        found = measure(drawn, quantity)
        if found is not None:
            tiles.append(tile(quantity.title, found.told(quantity), errors_said([found], quantity)))
    return tag("div", *tiles, class_="tiles")


def _runs(view: SweepView, design: Design, folder: Path) -> list[Markup]:
    """A row for every run, and for every s of one with several, by what varies."""
    places = {axis.name: {value: k for k, value in enumerate(axis.values)} for axis in design.varied}
    order = [axis for axis in design.varied if axis.name not in design.tied]
    looks = sorted(view.looks, key=lambda look: [places[axis.name][value_of(look, axis.name)] for axis in order])
    quantities = [one for one in QUANTITIES if any(one.key in look.summary for look in looks)]
    has_remarks = any(look.outcome.sentence for look in looks[:_ROWS])
    head = ["run", "state", *(axis.name for axis in design.varied), *(one.title for one in quantities)]
    rows = []
    for look in looks[:_ROWS]:
        row: list[Any] = [
            _linked(view, look, folder),
            mark_word(_MARKS.get(look.outcome.state, UNKNOWN), look.outcome.state),
        ]
        row += [write_value(value_of(look, axis.name)) for axis in design.varied]
        for one in quantities:
            value, error = (look.summary.get(name, math.nan) for name in (one.key, f"{one.key}_stderr"))
            row.append(one.with_error(value, error) if math.isfinite(value) else "")
        rows.append([*row, look.outcome.sentence] if has_remarks else row)
    words = f"Sorted by {', '.join(axis.name for axis in order)}. " if order else ""
    words += "Errors are over the chains of one run. Pages of single runs, made by trajens report, are linked."
    parts = [tag("p", words, class_="where"), _table(rows, [*head, "remark"] if has_remarks else head)]
    if len(looks) > _ROWS:
        more = f"The first {_ROWS:,} of {len(looks):,} rows. All of them: trajens sweep gather DIR --out table.csv"
        parts.append(tag("p", more, class_="why"))
    return parts


def _table(rows: list[list[Any]], head: list[str]) -> Markup:
    return tag("div", table(rows, head, "All runs"), class_="many")


def _linked(view: SweepView, look: RunRow, folder: Path) -> Markup | str:
    """The name of a run, and the way to its page where there is one."""
    file = SweepDirectory(view.path).run(look.run) / NAME
    if not file.is_file():
        return look.run
    way = Path(os.path.relpath(file, folder.absolute())).as_posix()
    return tag("a", look.run, href=quote(way))
