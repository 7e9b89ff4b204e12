"""Panels on a run on episodes: what its policies return, against steps of the environment, and in fresh episodes."""

from __future__ import annotations

from typing import NamedTuple

from trajens.app.evaluation import WORDS, acting, curve
from trajens.app.report import numerals
from trajens.app.report.chart import Chart, Series
from trajens.app.report.history import group_records
from trajens.app.report.html import Markup, left_out, panel, table, tile
from trajens.records import Records
from trajens.rl.evaluation import Score
from trajens.rl.problem import Episodes
from trajens.run.stored import StoredRun

EPISODES = 500
"""Fresh ones, in which policies are tried."""


class Returned(NamedTuple):
    """The loss of a run on episodes, how many models it has, and what they return in fresh episodes."""

    episodes: Episodes
    models: int
    scores: dict[str, Score]


def evaluate_policies(stored: StoredRun, chain: int | str | None = None, draws: bool | None = None) -> Returned:
    """The policies of a run, tried in fresh episodes."""
    found = acting(stored, chain, draws)
    return Returned(found.episodes, len(found.path), found.scores(EPISODES))


def panels(found: Returned, records: Records) -> list[Markup]:
    """Return against steps, and episodes per decision against s."""
    if not records:
        return [left_out("return", "Return", "The run has no record yet.")]
    steps, returns, error = curve(found.episodes, records)
    series, batches = [], []
    for k, group in enumerate(group_records(records)):
        mean = returns[group.chains].mean(0)
        several = len(group.chains) > 1
        # Between chains where there are some: that of measuring alone is a part of it.
        around = returns[group.chains].std(0, ddof=1) / len(group.chains) ** 0.5 if several else error[group.chains[0]]
        x = steps[group.chains].mean(0).astype(float)
        series.append(Series(group.label, x, mean, mean - around, mean + around, look=k))
        s, batch = (records[name][group.chains].mean(0) for name in ("s", "batch_size"))
        batches.append(Series(group.label, s, batch, is_points=True, look=k))
    return [
        panel(
            "return",
            "Return against steps of the environment",
            Chart("Return against steps", "steps of the environment, per chain", "return per model", series).svg(),
            "Mean over the models of a path, in fresh episodes; bands are standard errors. Steps are those of "
            "decisions, of both models of every proposal; those to measure and to audit are counted apart.",
        ),
        panel(
            "episodes",
            "Episodes per decision against s",
            Chart("Episodes per decision against s", "s", "episodes per decision", batches, x_log=True).svg(),
            "A decision reads as many episodes as its noise asks for. Look for few at small s, and more as s rises.",
        ),
    ]


def tiles(found: Returned) -> list[Markup]:
    """The returns that one asks for first; that of the best of them is too good by chance."""
    meaning = f"in {EPISODES} fresh episodes"
    return [
        tile(f"return, {WORDS[how]}", numerals.with_error(score.mean, score.stderr), meaning)
        for how, score in found.scores.items()
        if how != "best"
    ]


def returns_table(found: Returned) -> Markup:
    """Who returns how much."""
    rows = [
        (WORDS[how], numerals.with_error(score.mean, score.stderr), numerals.number(score.steps))
        for how, score in found.scores.items()
    ]
    return table(rows, ["", "return", "steps"], "Returns in fresh episodes")
