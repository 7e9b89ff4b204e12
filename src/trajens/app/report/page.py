"""Page about a run, the verdict first, or about several side by side: what differs, their scores and their curves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trajens.app.report import history, numerals, quality, returns
from trajens.app.report.chart import Series
from trajens.app.report.html import NAME, Markup, document, join, left_out, panel, section, table, tag, tile
from trajens.app.report.quality import doubts
from trajens.app.report.run_view import RunView, load_view, view_of
from trajens.app.report.words import headline, loss_unit, mark, scores_of, sentence, settings, settings_table, verdicts
from trajens.columns import BY_NAME, COLUMNS
from trajens.datasets import Labelled
from trajens.errors import require
from trajens.files import path_of, write_with_folder
from trajens.records import chains_by_s
from trajens.run.outcome import audited_error, audited_shift
from trajens.run.run import Run
from trajens.run.stored import StoredRun, summary_of

_ALWAYS = ("tilt, s", "epochs", "time")
"""Settings that are shown even where they are all the same."""


def comparison(several: Sequence[RunView]) -> Markup:
    """All sections of a page on several runs."""
    names = [view.name for view in several]
    return join(
        [
            section("verdict", "Verdict", _verdicts(several, names)),
            section("scores", "Scores", _scores(several, names)),
            section("run", "What differs", _differences(several, names)),
            section("course", "How they went", tag("div", *_curves(several), class_="panels")),
        ]
    )


def _verdicts(several: Sequence[RunView], names: list[str]) -> Markup:
    of_each = [{finding.name: finding for finding in view.findings} for view in several]
    rows = []
    for name in dict.fromkeys(name for found in of_each for name in found):
        cells = [
            tag("span", mark(found[name]), tag("span", sentence(found[name]), class_="small")) if name in found else ""
            for found in of_each
        ]
        rows.append((name, *cells))
    return table(rows, ["", *names], "Verdicts of all runs")


def _scores(several: Sequence[RunView], names: list[str]) -> Markup:
    def of_records(words: str, told: Callable[[dict[str, Any]], str]) -> tuple[str, ...]:
        return (words, *("not yet" if view.summary is None else told(view.summary) for view in several))

    rows: list[tuple[Any, ...]] = [
        of_records(BY_NAME["loss"].title, lambda found: numerals.with_error(found["loss"], found["loss_stderr"])),
        of_records(BY_NAME["acceptance"].title, lambda found: numerals.percent(found["acceptance"])),
        of_records(BY_NAME["batch_size"].title, lambda found: numerals.number(found["batch_size"])),
    ]
    of_each = [
        {} if view.evaluation is None else {s.words: text for s, text in scores_of(view.evaluation)} for view in several
    ]
    for words in dict.fromkeys(words for found in of_each for words in found):
        rows.append((words, *(found.get(words, "") for found in of_each)))
    where = ["not tried" if view.evaluation is None else view.evaluation.where for view in several]
    rows.append(("tried on", *where))
    return table(rows, ["", *names], "Scores of all runs")


def _differences(several: Sequence[RunView], names: list[str]) -> Markup:
    of_each = [settings(view.stored, view.facts) for view in several]
    rows = []
    for name in dict.fromkeys(name for found in of_each for name in found):
        values = [found.get(name, "") for found in of_each]
        if len(set(values)) > 1 or name in _ALWAYS:
            rows.append((name, *values))
    return table(rows, ["", *names], "Settings that differ")


def _curves(several: Sequence[RunView]) -> list[Markup]:
    begun = [view for view in several if view.facts.records]
    if not begun:
        return [left_out(BY_NAME["loss"].anchor, BY_NAME["loss"].heading, "None of the runs has a record yet.")]
    found = []
    for column in history.results_first(column for column in COLUMNS if column.compare):
        series = [_mean(view, column.name, k) for k, view in enumerate(begun) if column.name in view.facts.records]
        if series:
            chart = history.over_epochs(None, column, series)
            found.append(panel(column.anchor, column.heading, chart, column.compare))
    for is_classes in (True, False):
        alike = [
            (s.name, s.evaluation)
            for s in several
            if s.evaluation is not None and (s.evaluation.predictions is not None) is is_classes
        ]
        if alike:
            found.append(quality.by_members(alike, is_compared=True))
    return found


def _mean(view: RunView, name: str, look: int) -> Series:
    records = view.facts.records
    values = records[name].astype(float)
    return Series(view.name, records["epoch"][0].astype(float), np.asarray(values.mean(0)), look=look)


def page(several: Sequence[RunView], renewed_every: float | None = None) -> str:
    """One page about a run, or about several side by side; nothing in it is loaded from elsewhere.

    Parameters
    ----------
    several : sequence of RunView
    renewed_every : float, optional
        Seconds after which the page loads itself again; for one that is renewed while a run goes on.
    """
    is_one = len(several) == 1
    title = several[0].name if is_one else f"{len(several)} runs compared"
    body = _sections(several[0]) if is_one else comparison(several)
    lead = headline(several[0].findings) if is_one else ", ".join(view.name for view in several)
    is_stored = all(isinstance(view.stored, StoredRun) for view in several)
    source = "the directory of the run alone" if is_stored else "a run in memory"
    return document(title, lead, body, source, renewed_every)


def write_page(file: Path, text: str) -> None:
    """Write a page, whole or not at all, into a folder that is made if need be."""
    require(
        file.suffix.lower() in (".html", ".htm"), f"out must end in .html, got '{file}'; choose a name such as {NAME}."
    )
    # The name of a directory need not be UTF-8.
    write_with_folder(file, text.encode(errors="backslashreplace"))


def report(
    run: Run | StoredRun | str | Path,
    file: str | Path = NAME,
    x: Any = None,
    y: Any = None,
    *,
    draws: bool | None = None,
) -> Path:
    """Write one HTML page about a run: verdict, settings, curves, and what its ensemble says of labelled data.

    The page needs nothing but itself. It is what ``trajens report`` writes.

    Parameters
    ----------
    run : Run, StoredRun or directory of a run
        One in memory needs no directory.
    file : path
        The page, which is replaced where there is one.
    x, y : arrays, optional
        Inputs and labels that the ensemble of a run in memory is tried on; a network of `trajens.models` is needed.
        Runs of ``trajens train`` know their data.
    draws : bool, optional
        Try all paths after burn-in that were kept, or the last ones; default some of those that were kept, if any.

    Returns
    -------
    Path
        The file.
    """
    require((x is None) == (y is None), "x and y must be given together, got one of them; give both or none.")
    path = Path(file)
    if isinstance(run, Run):
        labelled = None if x is None else Labelled(np.asarray(x), np.asarray(y))
        view = view_of(run, path.stem, labelled, draws)
    else:
        require(x is None, "x and y are for a run in memory, got them with a directory; use trajens report --data.")
        view = load_view(run.path if isinstance(run, StoredRun) else path_of(run), draws=draws)
    write_page(path, page([view]))
    return path


def _sections(view: RunView) -> Markup:
    """All of a page on one run."""
    examples, found = view.stored.identity.get("examples"), view.returned
    course = history.panels(view.facts, examples, loss_unit(view.stored))
    if found is not None:
        course = [*returns.panels(found, view.facts.records), *course]
    course = [*history.learning_panels(view.facts, loss_unit(view.stored)), *course]
    parts = [
        section("verdict", "Verdict", verdicts(view.findings)),
        section("scores", "At a glance", *_glance(view)),
        section("run", "What was run", settings_table(view.stored, view.facts)),
        section("course", "How it went", tag("div", *course, class_="panels")),
    ]
    if found is not None:
        where = f"{found.models} models of one ensemble, in {returns.EPISODES} fresh episodes, the same for all."
        parts.append(section("quality", "What came out", tag("p", where, class_="where"), returns.returns_table(found)))
    elif view.evaluation is not None:
        panels = [*quality.panels(view.evaluation), *doubts(view.evaluation)]
        parts.append(section("quality", "What came out", _tried(view), tag("div", *panels, class_="panels")))
    else:
        parts.append(section("quality", "What came out", tag("p", view.why, class_="why")))
    return join(parts)


def _tried(view: RunView) -> Markup:
    """On what the ensemble was tried."""
    assert view.evaluation is not None
    models = "1 model" if view.evaluation.models == 1 else f"{view.evaluation.models:,} models"
    words = f"{models}, tried on {view.evaluation.where}."
    if not view.evaluation.is_fresh:
        words += " They were trained on these: on others they will be worse. Use --data FILE for data kept aside."
    return tag("p", words, class_="where" if view.evaluation.is_fresh else "where trained")


def _glance(view: RunView) -> list[Markup]:
    """The numbers that one asks for first."""
    tiles = []
    if view.returned is not None:
        tiles = returns.tiles(view.returned)
    if view.evaluation is not None:
        tiles = [tile(score.words, text, score.meaning) for score, text in scores_of(view.evaluation)]
    if view.summary is not None:
        found = view.summary
        tiles += _losses(view)
        if not view.facts.is_exact:
            text = audited_error(found).replace("% +- ", " ±\u00a0").replace("%", "\u00a0%")
            tiles.append(tile(BY_NAME["tilt_error"].title, text, "the run samples s (1 + error)"))
            text = audited_shift(found).replace(" +- ", " ±\u00a0").replace(" sd", "\u00a0sd")
            tiles.append(tile(BY_NAME["mean_shift"].title, text, "of the mean model, in posterior standard deviations"))
    if not tiles:
        return [tag("p", "There is nothing to say before a record after burn-in.", class_="why")]
    where = Markup("") if view.evaluation is None else _tried(view)
    return [where, tag("div", *tiles, class_="tiles")]


def _losses(view: RunView) -> list[Markup]:
    """The loss, of chains of one s each, where these are few."""
    facts = view.facts
    s, title = facts.records["s"][:, -1], BY_NAME["loss"].title
    several = [(f", s = {value:g}", chains) for value, chains in chains_by_s(s, history.DIGITS)]
    if not 1 < len(several) <= history.LINES:
        several = [("", np.arange(len(s)))]
    tiles = []
    for words, chains in several:
        found = summary_of(facts.records, facts.burn_in, facts.epochs, view.stored.seconds, chains)
        text = numerals.with_error(found["loss"], found["loss_stderr"])
        error = "mean after burn-in, standard error over chains" if len(chains) > 1 else "mean after burn-in"
        tiles.append(tile(f"{title}{words}", text, error))
    return tiles
