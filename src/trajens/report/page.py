"""The page itself: the verdict first, then what was run, how it went, and what came out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trajens.columns import BY_NAME
from trajens.records import chains_by_s
from trajens.report import history, learning, numerals, quality, returns
from trajens.report.compared import comparison
from trajens.report.document import document
from trajens.report.doubts import doubts
from trajens.report.html import Markup, joined, section, tag, tile
from trajens.report.scores import scores_of
from trajens.report.seen import Seen
from trajens.report.settings import listed, loss_unit
from trajens.report.verdicts import headline, verdicts
from trajens.run.advice import audited_error
from trajens.run.stored import summary_of


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
    course = [*learning.panels(seen.facts, loss_unit(seen.stored)), *course]
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
