"""History of a run: its records against its epochs, and its loss from the first models on.

Loss, acceptance, batches, s, audits and weights are drawn against epochs; the loss of a start by evolution and of the
path after it against what they took.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from trajens.app.report import numerals
from trajens.app.report.chart import Chart, Series
from trajens.app.report.html import Markup, left_out, panel
from trajens.app.report.scales import is_logarithmic
from trajens.columns import BY_NAME, COLUMNS, Average, Column
from trajens.records import EVOLUTION, SEARCH, Records, after_burn_in, chains_by_s, learning_curve, of_few
from trajens.run.advice import RunFacts

EPOCH = BY_NAME["epoch"].unit
LINES = 6
"""Chains, or values of s, that have a curve of their own at most."""
DIGITS = 4
"""Significant digits of s on the page, by which chains are told apart."""


_ROOM = 1.3
"""How far the axis of an error reaches, in units of its tolerance, so that its ends are seen."""


class ChainGroup(NamedTuple):
    """Chains that are drawn as one curve."""

    label: str
    chains: np.ndarray


def group_records(records: Records) -> list[ChainGroup]:
    """Chains one by one where they are few; by their s where that differs; else all together."""
    s = records["s"][:, -1]
    groups = [ChainGroup(f"s = {value:g}", chains) for value, chains in chains_by_s(s, DIGITS)]
    if 1 < len(groups) < len(s) or len(groups) > LINES:
        return [groups[k] for k in np.unique(np.linspace(0, len(groups) - 1, LINES).round().astype(int))]
    if len(s) == 1:
        return [ChainGroup("one chain", np.arange(1))]
    if len(s) <= LINES:
        of_s = [f", s = {value:.{DIGITS}g}" if len(groups) > 1 else "" for value in s]
        return [ChainGroup(f"chain {k}{of_s[k]}", np.array([k])) for k in range(len(s))]
    return [ChainGroup(f"mean of {len(s)} chains", np.arange(len(s)))]


def curves(records: Records, name: str, groups: list[ChainGroup]) -> list[Series]:
    """One curve of every group, with the error of its mean where it is of several chains."""
    epoch, found = records["epoch"][0].astype(float), []
    for k, group in enumerate(groups):
        values = records[name][group.chains].astype(float)
        low, high = _around(values, records, name, group)
        found.append(Series(group.label, epoch, values.mean(0), low, high, look=k))
    return found


def panels(facts: RunFacts, examples: int | None, loss_unit: str) -> list[Markup]:
    """Everything that records show; a sentence in its place where there is none."""
    records, loss = facts.records, BY_NAME["loss"]
    if not records:
        return [left_out(loss.anchor, loss.heading, "The run has no record yet.")]
    groups, found = group_records(records), []
    for column in results_first(column for column in COLUMNS if column.look_for):
        if column.average is Average.AUDITS:
            found.append(_audits(facts, column))
        elif column.name in records:
            unit = f"{column.unit} ({loss_unit})" if column is loss else column.unit
            chart = over_epochs(facts, column, curves(records, column.name, groups), unit)
            found.append(panel(column.anchor, column.heading, chart, _caption(column, records, examples)))
    return found


def results_first(columns: Iterable[Column]) -> list[Column]:
    """Columns in the order of panels: what came out, then what was set and has no average."""
    return sorted(columns, key=lambda column: column.average is Average.NONE)


def _caption(column: Column, records: Records, examples: int | None) -> str:
    """What a panel shows, and what to look for."""
    if column.name != "batch_size":
        return f"{column.what} {column.look_for}"
    what = column.what if examples is None else f"{column.what.removesuffix('.')}, of {examples:,}."
    if "capped" not in records:
        return f"{what} {column.look_for}"
    return f"{what} Look for fewer than max_batch: decisions that are cut off there are noisier."


def over_epochs(facts: RunFacts | None, column: Column, series: list[Series], unit: str = "") -> Markup:
    """A chart of a column against epochs, with burn-in shaded; `unit` in place of that of the column."""
    values = np.concatenate([one.y for one in series])
    shade = None
    last = max(float(one.x[-1]) for one in series)
    if facts is not None and facts.burn_in > 0:
        shade = (0.0, min(float(facts.burn_in), last), "burn-in")
    return Chart(
        column.heading,
        EPOCH,
        unit or column.unit,
        series,
        x_range=(0.0, last),
        y_range=(0.0, 1.0) if column.is_share else None,
        y_shown=numerals.short_percent if column.is_share else numerals.short,
        y_told=numerals.percent if column.is_share else numerals.number,
        y_log=not column.is_share and is_logarithmic(values),
        shade=shade,
    ).svg()


def audit_series(facts: RunFacts) -> Series | None:
    """The audited error of s at every record that has one, all chains together; None where there is none."""
    records = facts.records
    if not {"tilt_error", "tilt_weight"} <= set(records):
        return None
    weight = np.where(np.isfinite(records["tilt_error"]), records["tilt_weight"], 0.0)
    after = after_burn_in(records, facts.burn_in)
    has = weight.sum(0) > 0
    # In burn-in batches are still planned, and errors of another size would hide the tolerance.
    has = has & after if (has & after).any() else has
    if not has.any():
        return None
    weight, total = weight[:, has], weight[:, has].sum(0)
    found = np.where(weight > 0, records["tilt_error"][:, has], 0.0)
    errors = np.nan_to_num(records["tilt_stderr"][:, has]) if "tilt_stderr" in records else np.zeros_like(found)
    mean = (weight * found).sum(0) / total
    error = np.sqrt(((weight * errors) ** 2).sum(0)) / total
    return Series(
        "audit, with its error", records["epoch"][0, has].astype(float), mean, mean - error, mean + error, True
    )


def _audits(facts: RunFacts, column: Column) -> Markup:
    name, title = column.anchor, column.heading
    if facts.is_exact:
        return left_out(name, title, "Every decision was made on all data: there is no error to audit.")
    found = audit_series(facts)
    if found is None:
        return left_out(name, title, "The run was too short for an audit, so the error of s is not known.")
    tolerance = facts.tolerance
    band = None if tolerance is None else (-tolerance, tolerance, f"tolerance, ± {100 * tolerance:g} %")
    chart = Chart(
        title,
        EPOCH,
        column.unit,
        [found],
        x_range=(0.0, float(facts.records["epoch"][0, -1])),
        y_shown=numerals.short_percent,
        y_told=numerals.percent,
        holds=(0.0,) if tolerance is None else (-_ROOM * tolerance, _ROOM * tolerance),
        band=band,
        shade=(0.0, min(float(facts.burn_in), float(facts.records["epoch"][0, -1])), "burn-in")
        if facts.burn_in
        else None,
    )
    near = "inside the band." if band else "closer than matters to you."
    return panel(name, title, chart.svg(), f"{column.what} {column.look_for.removesuffix('.')}, {near}")


def _around(
    values: np.ndarray, records: Records, name: str, group: ChainGroup
) -> tuple[np.ndarray, np.ndarray] | tuple[None, None]:
    """One standard error below and above the mean: over chains, or of measuring the loss."""
    mean, count = values.mean(0), len(values)
    if count > 1:
        error = values.std(0, ddof=1) / np.sqrt(count) * of_few(count)
    elif name == "loss" and "loss_error" in records:
        error = np.nan_to_num(records["loss_error"][group.chains[0]].astype(float))
    else:
        return None, None
    return (mean - error, mean + error) if (error > 0).any() else (None, None)


PAIRS = "pairs of losses evaluated (per chain)"
_STEEP = 4.0
"""Ratio of the first loss to the last from which on the end would look flat on a linear axis."""


def is_steep(loss: np.ndarray) -> bool:
    """Whether a loss falls so far that a logarithmic axis shows it better."""
    return is_logarithmic(loss, _STEEP)


_CAPTIONS = {
    EVOLUTION: (
        "an evolution strategy, which looks for a model to start from; its "
        "loss is the mean over all models it tries, on its minibatches. Then the path begins, and its loss is measured "
        "on fresh examples. Look for a start that has levelled off, and a path that stays there or falls further."
    ),
    SEARCH: (
        "a search: s rises step by step, and a fifth of the examples, which is held out, says which is best. Then the "
        "path goes on at that s, with all examples. Look for a path whose loss stays where it is."
    ),
}
"""What a start is, and what to look for."""


def learning_panels(facts: RunFacts, loss_unit: str) -> list[Markup]:
    """One chart with the start shaded; none where there was no start, or nothing was written down of it."""
    begun = facts.started()
    if begun is None:
        return []
    share, series = numerals.whole_percent(begun.share), learning_curves(facts)
    chart = Chart(
        "Learning",
        PAIRS,
        f"loss ({loss_unit})",
        series,
        x_range=(0.0, max(float(one.x[-1]) for one in series)),
        y_log=is_steep(np.concatenate([one.y for one in series])),
        shade=(0.0, begun.pairs, f"start by {begun.way}, {share} of the budget"),
    )
    caption = f"The first {share} of the budget are for {_CAPTIONS[begun.way]}"
    return [panel("learning", "Learning: the start, then the path", chart.svg(), caption)]


def learning_curves(facts: RunFacts) -> list[Series]:
    """One curve of every chain, or of all together where they are many."""
    groups = (
        group_records(facts.records)
        if facts.records
        else [ChainGroup("mean of all chains", np.arange(len(facts.start["loss"])))]
    )
    return [
        Series(group.label, *learning_curve(facts.start, facts.records, group.chains), look=k)
        for k, group in enumerate(groups)
    ]
