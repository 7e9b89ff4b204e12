"""What the records of a run show against its epochs: loss, acceptance, batches, s, audits, weights."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trajens.records import Records
from trajens.report import numerals
from trajens.report.chart import Chart, Series
from trajens.report.html import Markup, left_out, panel
from trajens.report.scales import is_logarithmic
from trajens.run.advice import RunFacts

EPOCH = "epoch (proposals per chain)"
LINES = 6
"""Chains, or values of s, that have a curve of their own at most."""


_ROOM = 1.3
"""How far the axis of an error reaches, in units of its tolerance, so that its ends are seen."""


class Group(NamedTuple):
    """Chains that are drawn as one curve."""

    label: str
    chains: np.ndarray


def grouped(records: Records) -> list[Group]:
    """Chains one by one where they are few; by their s where that differs; else all together."""
    s = np.array([float(f"{value:.4g}") for value in records["s"][:, -1]])
    values = np.unique(s)
    if 1 < len(values) < len(s) or len(values) > LINES:
        chosen = values[np.unique(np.linspace(0, len(values) - 1, LINES).round().astype(int))]
        return [Group(f"s = {value:g}", np.flatnonzero(s == value)) for value in chosen]
    if len(s) == 1:
        return [Group("one chain", np.arange(1))]
    if len(s) <= LINES:
        of_s = [f", s = {value:g}" if len(values) > 1 else "" for value in s]
        return [Group(f"chain {k}{of_s[k]}", np.array([k])) for k in range(len(s))]
    return [Group(f"mean of {len(s)} chains", np.arange(len(s)))]


def curves(records: Records, name: str, groups: list[Group]) -> list[Series]:
    """One curve of every group, with the error of its mean where it is of several chains."""
    epoch, found = records["epoch"][0].astype(float), []
    for k, group in enumerate(groups):
        values = records[name][group.chains].astype(float)
        low, high = _around(values, records, name, group)
        found.append(Series(group.label, epoch, values.mean(0), low, high, look=k))
    return found


def panels(facts: RunFacts, examples: int | None, loss_unit: str) -> list[Markup]:
    """Everything that records show; a sentence in its place where there is none."""
    records = facts.records
    if not records:
        return [left_out("loss", "Loss", "The run has no record yet.")]
    groups = grouped(records)
    return [
        panel(
            "loss",
            "Loss per model",
            over_epochs(facts, "Loss per model", f"loss ({loss_unit})", curves(records, "loss", groups)),
            "Measured on fresh examples, or on all. Look for a level that it keeps after burn-in, alike in all chains; "
            "bands are standard errors.",
        ),
        panel(
            "acceptance",
            "Acceptance",
            over_epochs(facts, "Acceptance", "accepted", curves(records, "acceptance", groups), is_share=True),
            "Share of proposals accepted since the record before. Look for something between a tenth and nine tenths.",
        ),
        panel(
            "batch",
            "Batch size",
            over_epochs(facts, "Batch size", "examples per decision", curves(records, "batch_size", groups)),
            "Mean number of examples that a decision took"
            + ("." if examples is None else f", of {examples:,}.")
            + (
                " Look for fewer than max_batch: decisions that are cut off there are noisier."
                if "capped" in records
                else " Look for far fewer than all: else minibatches no longer pay at this s."
            ),
        ),
        panel(
            "tilt",
            "Tilt s",
            over_epochs(facts, "Tilt s", "s (per unit of mean loss)", curves(records, "s", groups)),
            "How strongly low losses are preferred. Look for a constant after burn-in, where averages are made.",
        ),
        _audits(facts),
        panel(
            "weights",
            "Size of the weights",
            over_epochs(facts, "Size of the weights", "root mean square", curves(records, "weight_rms", groups)),
            "Of all parameters of the path, in the units of the model. Look for no drift after burn-in: weights that "
            "grow and grow have no equilibrium.",
        ),
    ]


def over_epochs(
    facts: RunFacts | None, title: str, y_label: str, series: list[Series], is_share: bool = False
) -> Markup:
    """A chart against epochs, with burn-in shaded."""
    values = np.concatenate([one.y for one in series])
    shade = None
    last = max(float(one.x[-1]) for one in series)
    if facts is not None and facts.burn_in > 0:
        shade = (0.0, min(float(facts.burn_in), last), "burn-in")
    return Chart(
        title,
        EPOCH,
        y_label,
        series,
        x_range=(0.0, last),
        y_range=(0.0, 1.0) if is_share else None,
        y_shown=numerals.short_percent if is_share else numerals.short,
        y_told=numerals.percent if is_share else numerals.number,
        y_log=not is_share and is_logarithmic(values),
        shade=shade,
    ).svg()


def audited(facts: RunFacts) -> Series | None:
    """The audited error of s at every record that has one, all chains together; None where there is none."""
    records = facts.records
    if not {"tilt_error", "tilt_weight"} <= set(records):
        return None
    weight = np.where(np.isfinite(records["tilt_error"]), records["tilt_weight"], 0.0)
    after = records["epoch"][0] > facts.burn_in
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


def _audits(facts: RunFacts) -> Markup:
    name, title = "audit", "Audited error of s"
    if facts.is_exact:
        return left_out(name, title, "Every decision was made on all data: there is no error to audit.")
    found = audited(facts)
    if found is None:
        return left_out(name, title, "The run was too short for an audit, so the error of s is not known.")
    tolerance = facts.tolerance
    band = None if tolerance is None else (-tolerance, tolerance, f"tolerance, ± {100 * tolerance:g} %")
    chart = Chart(
        title,
        EPOCH,
        "error of s",
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
    caption = "Small batches make the run sample s (1 + error). Look for points that scatter about 0, "
    return panel(name, title, chart.svg(), caption + ("inside the band." if band else "closer than matters to you."))


def _around(
    values: np.ndarray, records: Records, name: str, group: Group
) -> tuple[np.ndarray, np.ndarray] | tuple[None, None]:
    """One standard error below and above the mean: over chains, or of measuring the loss."""
    mean, count = values.mean(0), len(values)
    if count > 1:
        error = values.std(0, ddof=1) / np.sqrt(count)
    elif name == "loss" and "loss_error" in records:
        error = np.nan_to_num(records["loss_error"][group.chains[0]].astype(float))
    else:
        return None, None
    return (mean - error, mean + error) if (error > 0).any() else (None, None)
