"""Figure 3, training curves at s = 50: loss per model (a) against the data used per model, D / tau, (b) against epochs.

D counts examples times models evaluated. The runs are those of the figure mnist; at the paper's scale, longer ones at
s = 50 take their place where they exist. The loss is measured on fresh examples; the paper's own estimate, the loss on
the batches that decided, is in the CSV file too.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.table import Table

from trajens.plots import style
from trajens.records import mean_and_error
from trajens_paper import digits
from trajens_paper.claims import Claim, claim, difference
from trajens_paper.digits import Group
from trajens_paper.figure_mnist import SCALES, Scale, folders_of_runs, nearest
from trajens_paper.frame import Job, Made, figure, table_of

_S = 50.0


class Point(NamedTuple):
    """One point of a curve; the names are the columns of the CSV file."""

    tau: int
    epoch: int
    data_per_model: float
    loss: float
    loss_stderr: float
    loss_deciding: float


@figure("curves", SCALES)
def figure_curves(job: Job[Scale]) -> Made:
    """The runs of the figure mnist with s = 50, or longer ones."""
    found = [_training(folder, job.scale) for folder in folders_of_runs(job)]
    curves = [_curve(group) for group in found]
    remark = f"{job.scale.setup.network}; s = {found[0].s:g}; errors are standard errors over runs"
    return Made(
        _table(curves),
        (remark,),
        [point for curve in curves for point in curve],
        tuple(_claims(found)),
        lambda stem: _draw(curves, found[0].s, stem),
    )


def _training(folder: Path, scale: Scale) -> Group:
    """The runs at s = 50 (or the nearest s there is) of one tau."""
    groups = digits.groups(folder)
    tau = groups[0].tau
    longer = digits.found_results(f"paper-{tau}") if scale.is_in_results else None
    if longer is not None:
        groups = digits.groups(longer)
    s = nearest([group.s for group in groups], _S)
    return next(group for group in groups if group.s == s)


def _curve(group: Group) -> list[Point]:
    records = group.records
    points = []
    for k, epoch in enumerate(records["epoch"][0]):
        used = records["data_used"][:, k].mean() / group.tau
        loss = mean_and_error(records["loss"][:, k])
        points.append(Point(group.tau, int(epoch), float(used), *loss, float(records["loss_deciding"][:, k].mean())))
    return points


def _claims(found: list[Group]) -> Iterator[Claim]:
    short, long = found[0], found[-1]
    place = min(_data(group)[:, -1].min() for group in (short, long))
    means = [mean_and_error(_at_data(group, place)) for group in (short, long)]
    gain = difference(means[0], means[1], short.runs)
    text = f"at equal data per model, tau = {long.tau} has a lower loss than tau = {short.tau} (difference)"
    yield claim("equal data", text, *gain[:2], ">", 0.0, gain.dof)


def _data(group: Group) -> np.ndarray:
    return np.asarray(group.records["data_used"] / group.tau)


def _at_data(group: Group, place: float) -> np.ndarray:
    """Loss of every run where it has used `place` examples per model."""
    return np.array([np.interp(place, d, loss) for d, loss in zip(_data(group), group.records["loss"], strict=True)])


def _draw(curves: list[list[Point]], s: float, stem: Path) -> tuple[Path, Path]:
    with style.journal_style():
        figure, (left, right) = style.panels(2)
        inset = left.inset_axes((0.58, 0.6, 0.4, 0.37))
        for axes, x in ((left, "data_per_model"), (inset, "data_per_model"), (right, "epoch")):
            for i, curve in enumerate(curves):
                _draw_curve(axes, curve, x, style.look(i), is_marked=axes is not inset)
        left.set(xscale="log", yscale="log", xlabel=r"$D/\tau$", ylabel=r"$\langle L\rangle/\tau$")
        right.set(xscale="log", yscale="log", xlabel=r"epochs $E$", ylabel=r"$\langle L\rangle/\tau$")
        inset.tick_params(labelsize=6.5)
        inset.ticklabel_format(style="sci", axis="x", scilimits=(0, 0), useMathText=True)
        inset.xaxis.get_offset_text().set_fontsize(6.5)
        # Room for the inset above the curves.
        low, high = left.get_ylim()
        left.set_ylim(low, high * (high / low) ** 1.3)
        for axes in (left, right):
            style.plain_logarithm(axes.yaxis)
        entries = [style.look(i) | {"label": rf"$\tau = {curve[0].tau}$"} for i, curve in enumerate(curves)]
        style.legend(left, entries, "upper left", columns=2)
        for axes, letter in ((left, "a"), (right, "b")):
            axes.set_title(f"({letter})  $s = {s:g}$", loc="left", fontsize=9)
        return style.save(figure, stem)


def _draw_curve(axes: Any, curve: list[Point], x: str, look: dict[str, Any], is_marked: bool) -> None:
    loss, error = np.array([p.loss for p in curve]), np.array([p.loss_stderr for p in curve])
    place = [getattr(p, x) for p in curve]
    axes.fill_between(place, loss - error, loss + error, color=look["color"], alpha=0.25, linewidth=0)
    marks = {"marker": look["marker"], "markevery": max(1, len(curve) // 8), "markerfacecolor": "white"}
    axes.plot(place, loss, color=look["color"], **(marks if is_marked else {}))


def _table(curves: list[list[Point]]) -> Table:
    headings = ("tau", "epochs", "D / tau", "loss", "error", "loss, deciding")
    table = table_of("figure 3, curves: training, first and last record", *headings)
    for curve in curves:
        for p in (curve[0], curve[-1]):
            numbers = (f"{p.loss:.4g}", f"{p.loss_stderr:.2g}", f"{p.loss_deciding:.4g}")
            table.add_row(str(p.tau), f"{p.epoch:,}", f"{p.data_per_model:.3g}", *numbers, end_section=p is curve[-1])
    return table
