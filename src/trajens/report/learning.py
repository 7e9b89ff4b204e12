"""The loss from the first models on: of a start by evolution and of the path after it, against what they took."""

from __future__ import annotations

import numpy as np

from trajens.records import learning_curve
from trajens.report import numerals
from trajens.report.chart import Chart, Series
from trajens.report.history import Group, grouped
from trajens.report.html import Markup, panel
from trajens.report.scales import is_logarithmic
from trajens.run.advice import RunFacts

PAIRS = "pairs of losses evaluated (per chain)"
_STEEP = 4.0
"""Ratio of the first loss to the last from which on the end would look flat on a linear axis."""


def is_steep(loss: np.ndarray) -> bool:
    """Whether a loss falls so far that a logarithmic axis shows it better."""
    return is_logarithmic(loss, _STEEP)


def panels(facts: RunFacts, loss_unit: str) -> list[Markup]:
    """One chart with the start shaded; none where there was no start, or nothing was written down of it."""
    begun = facts.started()
    if begun is None:
        return []
    share, series = numerals.whole_percent(begun.share), curves(facts)
    chart = Chart(
        "Learning",
        PAIRS,
        f"loss ({loss_unit})",
        series,
        x_range=(0.0, max(float(one.x[-1]) for one in series)),
        y_log=is_steep(np.concatenate([one.y for one in series])),
        shade=(0.0, begun.pairs, f"start by evolution, {share} of the budget"),
    )
    caption = (
        f"The first {share} of the budget are for an evolution strategy, which looks for a model to start from; its "
        "loss is the mean over all models it tries, on its minibatches. Then the path begins, and its loss is measured "
        "on fresh examples. Look for a start that has levelled off, and a path that stays there or falls further."
    )
    return [panel("learning", "Learning: the start, then the path", chart.svg(), caption)]


def curves(facts: RunFacts) -> list[Series]:
    """One curve of every chain, or of all together where they are many."""
    groups = (
        grouped(facts.records) if facts.records else [Group("mean of all chains", np.arange(len(facts.start["loss"])))]
    )
    return [
        Series(group.label, *learning_curve(facts.start, facts.records, group.chains), look=k)
        for k, group in enumerate(groups)
    ]
