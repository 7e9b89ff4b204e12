"""Page about a run, the verdict first, or about several side by side: what differs, their scores and their curves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trajens.app.report import history, numerals, quality, returns
from trajens.app.report.chart import Series
from trajens.app.report.html import Markup, document, joined, left_out, panel, section, table, tag, tile
from trajens.app.report.quality import doubts
from trajens.app.report.run_view import Seen
from trajens.app.report.words import headline, listed, loss_unit, mark, scores_of, sentence, settings, verdicts
from trajens.columns import BY_NAME, COLUMNS
from trajens.records import chains_by_s
from trajens.run.advice import audited_error
from trajens.run.stored import summary_of

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


def page(several: Sequence[Seen], renewed_every: float | None = None) -> str:
    """One page about a run, or about several side by side; nothing in it is loaded from elsewhere.

    Parameters
    ----------
    several : sequence of Seen
    renewed_every : float, optional
        Seconds after which the page loads itself again; for one that is renewed while a run goes on.
    """
    is_one = len(several) == 1
    title = several[0].name if is_one else f"{len(several)} runs compared"
    body = _sections(several[0]) if is_one else comparison(several)
    lead = headline(several[0].findings) if is_one else ", ".join(seen.name for seen in several)
    return document(title, lead, body, "the directory of the run alone", renewed_every)


def _sections(seen: Seen) -> Markup:
    """All of a page on one run."""
    examples, found = seen.stored.identity.get("examples"), seen.returned
    course = history.panels(seen.facts, examples, loss_unit(seen.stored))
    if found is not None:
        course = [*returns.panels(found, seen.facts.records), *course]
    course = [*history.learning_panels(seen.facts, loss_unit(seen.stored)), *course]
    parts = [
        section("verdict", "Verdict", verdicts(seen.findings)),
        section("scores", "At a glance", *_glance(seen)),
        section("run", "What was run", listed(seen.stored, seen.facts)),
        section("course", "How it went", tag("div", *course, class_="panels")),
    ]
    if found is not None:
        where = f"{found.models} models of one ensemble, in {returns.EPISODES} fresh episodes, the same for all."
        parts.append(section("quality", "What came out", tag("p", where, class_="where"), returns.tried(found)))
    elif seen.trial is not None:
        panels = [*quality.panels(seen.trial), *doubts(seen.trial)]
        parts.append(section("quality", "What came out", _tried(seen), tag("div", *panels, class_="panels")))
    else:
        parts.append(section("quality", "What came out", tag("p", seen.why, class_="why")))
    return joined(parts)


def _tried(seen: Seen) -> Markup:
    """On what the ensemble was tried."""
    assert seen.trial is not None
    models = "1 model" if seen.trial.models == 1 else f"{seen.trial.models:,} models"
    words = f"{models}, tried on {seen.trial.where}."
    if not seen.trial.is_fresh:
        words += " They were trained on these: on others they will be worse. Use --data FILE for data kept aside."
    return tag("p", words, class_="where" if seen.trial.is_fresh else "where trained")


def _glance(seen: Seen) -> list[Markup]:
    """The numbers that one asks for first."""
    tiles = []
    if seen.returned is not None:
        tiles = returns.tiles(seen.returned)
    if seen.trial is not None:
        tiles = [tile(score.words, text, score.meaning) for score, text in scores_of(seen.trial)]
    if seen.summary is not None:
        found = seen.summary
        tiles += _losses(seen)
        if not seen.facts.is_exact:
            text = audited_error(found).replace("% +- ", " ±\u00a0").replace("%", "\u00a0%")
            tiles.append(tile(BY_NAME["tilt_error"].title, text, "the run samples s (1 + error)"))
    if not tiles:
        return [tag("p", "There is nothing to say before a record after burn-in.", class_="why")]
    where = Markup("") if seen.trial is None else _tried(seen)
    return [where, tag("div", *tiles, class_="tiles")]


def _losses(seen: Seen) -> list[Markup]:
    """The loss, of chains of one s each, where these are few."""
    facts = seen.facts
    s, title = facts.records["s"][:, -1], BY_NAME["loss"].title
    several = [(f", s = {value:g}", chains) for value, chains in chains_by_s(s, history.DIGITS)]
    if not 1 < len(several) <= history.LINES:
        several = [("", np.arange(len(s)))]
    tiles = []
    for words, chains in several:
        found = summary_of(facts.records, facts.burn_in, facts.epochs, seen.stored.seconds, chains)
        text = numerals.with_error(found["loss"], found["loss_stderr"])
        error = "mean after burn-in, standard error over chains" if len(chains) > 1 else "mean after burn-in"
        tiles.append(tile(f"{title}{words}", text, error))
    return tiles
