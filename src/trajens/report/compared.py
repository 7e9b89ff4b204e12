"""Several runs side by side: what differs between them, their scores, and their curves in one chart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trajens.columns import BY_NAME, COLUMNS
from trajens.report import history, numerals, quality
from trajens.report.chart import Series
from trajens.report.html import Markup, joined, left_out, panel, section, table, tag
from trajens.report.scores import scores_of
from trajens.report.seen import Seen
from trajens.report.settings import settings
from trajens.report.verdicts import mark, sentence

_ALWAYS = ("tilt, s", "epochs", "time")
"""Settings that are shown even where they are all the same."""


def comparison(several: Sequence[Seen]) -> Markup:
    """All sections of a page on several runs."""
    names = [seen.name for seen in several]
    return joined(
        [
            section("verdict", "Verdict", _verdicts(several, names)),
            section("scores", "Scores", _scores(several, names)),
            section("run", "What differs", _differences(several, names)),
            section("course", "How they went", tag("div", *_curves(several), class_="panels")),
        ]
    )


def _verdicts(several: Sequence[Seen], names: list[str]) -> Markup:
    of_each = [{finding.name: finding for finding in seen.findings} for seen in several]
    rows = []
    for name in dict.fromkeys(name for found in of_each for name in found):
        cells = [
            tag("span", mark(found[name]), tag("span", sentence(found[name]), class_="small")) if name in found else ""
            for found in of_each
        ]
        rows.append((name, *cells))
    return table(rows, ["", *names], "Verdicts of all runs")


def _scores(several: Sequence[Seen], names: list[str]) -> Markup:
    def of_records(words: str, told: Callable[[dict[str, Any]], str]) -> tuple[str, ...]:
        return (words, *("not yet" if seen.summary is None else told(seen.summary) for seen in several))

    rows: list[tuple[Any, ...]] = [
        of_records(BY_NAME["loss"].title, lambda found: numerals.with_error(found["loss"], found["loss_stderr"])),
        of_records(BY_NAME["acceptance"].title, lambda found: numerals.percent(found["acceptance"])),
        of_records(BY_NAME["batch_size"].title, lambda found: numerals.number(found["batch_size"])),
    ]
    of_each = [{} if seen.trial is None else {s.words: text for s, text in scores_of(seen.trial)} for seen in several]
    for words in dict.fromkeys(words for found in of_each for words in found):
        rows.append((words, *(found.get(words, "") for found in of_each)))
    where = ["not tried" if seen.trial is None else seen.trial.where for seen in several]
    rows.append(("tried on", *where))
    return table(rows, ["", *names], "Scores of all runs")


def _differences(several: Sequence[Seen], names: list[str]) -> Markup:
    of_each = [settings(seen.stored, seen.facts) for seen in several]
    rows = []
    for name in dict.fromkeys(name for found in of_each for name in found):
        values = [found.get(name, "") for found in of_each]
        if len(set(values)) > 1 or name in _ALWAYS:
            rows.append((name, *values))
    return table(rows, ["", *names], "Settings that differ")


def _curves(several: Sequence[Seen]) -> list[Markup]:
    begun = [seen for seen in several if seen.facts.records]
    if not begun:
        return [left_out(BY_NAME["loss"].anchor, BY_NAME["loss"].heading, "None of the runs has a record yet.")]
    found = []
    for column in history.results_first(column for column in COLUMNS if column.compare):
        series = [_mean(seen, column.name, k) for k, seen in enumerate(begun) if column.name in seen.facts.records]
        if series:
            chart = history.over_epochs(None, column, series)
            found.append(panel(column.anchor, column.heading, chart, column.compare))
    for is_classes in (True, False):
        alike = [(s.name, s.trial) for s in several if s.trial is not None and (s.trial.said is not None) is is_classes]
        if alike:
            found.append(quality.by_members(alike, is_compared=True))
    return found


def _mean(seen: Seen, name: str, look: int) -> Series:
    records = seen.facts.records
    values = records[name].astype(float)
    return Series(seen.name, records["epoch"][0].astype(float), np.asarray(values.mean(0)), look=look)
