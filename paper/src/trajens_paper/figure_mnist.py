"""Figure 2: ensembles of digits. (a) digits, (b) loss against s, (c) accuracy of the vote, (d) batch against loss.

Points are means over the second half of the epochs and over independent runs, whose spread gives the errors; accuracies
are those of the last paths on the 10 000 test digits. What the paper claims: the loss per model falls with s for every
tau; longer paths reach a lower loss at the same s; at equal loss they need smaller batches; N / <b> exceeds 100.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.table import Table

import trajens as tj
from trajens.app.sweeps.directory import SweepDirectory
from trajens.app.sweeps.driver import Swept
from trajens.app.sweeps.plan import Plan, Planned
from trajens.ensemble import Ensemble, vote
from trajens.errors import require
from trajens.plots import style
from trajens.run.progress import SeveralRuns
from trajens.storage.options import parse_toml
from trajens_paper import digits
from trajens_paper.claims import Claim, Measured, claim, difference, least
from trajens_paper.digits import Group, Setup
from trajens_paper.frame import Job, Made, figure, table_of


@dataclass(frozen=True)
class Scale:
    """What is sampled: `runs` for every tau and every s in `tilts`, of `epochs` per model."""

    setup: Setup
    taus: tuple[int, ...]
    tilts: tuple[float, ...]
    runs: int
    epochs: int
    is_in_results: bool = False
    """Whether finished runs below paper/results/mnist are drawn where they exist, whatever their length."""

    def __post_init__(self) -> None:
        require(self.runs > 1, f"runs must be at least 2 for an error, got {self.runs}; take 6.")


class Point(NamedTuple):
    """One symbol of the figure; the names are the columns of the CSV file."""

    tau: int
    s: float
    runs: int
    epochs_per_model: float
    loss: float
    loss_stderr: float
    vote_accuracy: float
    vote_accuracy_stderr: float
    single_accuracy: float
    batch_size: float
    batch_size_stderr: float
    weight_rms: float


SCALES = {
    "quick": Scale(digits.SMALL, (1, 2, 8), (5.0, 20.0, 50.0, 200.0), 6, 4_000),
    "laptop": Scale(digits.PAPER, (1, 2, 4, 8), (5.0, 20.0, 50.0), 6, 5_000),
    "paper": Scale(digits.PAPER, (1, 2, 4, 8, 16, 32), (5.0, 10.0, 20.0, 50.0, 100.0), 6, 300_000, True),
}
_N = 60_000


@figure("mnist", SCALES, is_sweep=True)
def figure_mnist(job: Job[Scale]) -> Made:
    """Every tau and s; runs are found in paper/results/mnist, kept, or sampled."""
    setup = job.scale.setup
    folders = list(folders_of_runs(job))
    found = [group for here in folders for group in digits.groups(here, digits.evaluated(here, setup))]
    points = [_point(group) for group in found]
    places = ", ".join(sorted({str(folder.parent) for folder in folders}))
    remarks = (
        f"{setup.network}; errors are standard errors over runs; runs are in {places}",
        "runs of different tau may differ in length: epochs per model are in the table",
    )
    return Made(
        _table(points),
        remarks,
        points,
        tuple(_claims(found, points)),
        lambda stem: _draw(points, folders[-1], setup, stem),
    )


def folders_of_runs(job: Job[Scale]) -> Iterator[Path]:
    """The folder of every tau, sampled where it is missing or incomplete: here, or by a sweep."""
    scale, home = job.scale, _home(job)
    finished = {tau: digits.found_results(f"grid-{tau}") if scale.is_in_results else None for tau in scale.taus}
    missing = [tau for tau in scale.taus if finished[tau] is None]
    swept = SweepDirectory(home.with_name(f"{home.name}-sweep"))
    if job.sweep is not None and missing:
        _require_complete(job.sweep(Plan(tuple(_planned(job, tau) for tau in missing)), swept.path))
    total = sum(scale.epochs * tau for tau in scale.taus)
    with SeveralRuns(total, "digits", job.progress and job.sweep is None) as show:
        for tau in scale.taus:
            folder = finished[tau]
            if folder is None:
                planned = _planned(job, tau)
                is_swept = _is_complete(swept, planned)
                folder = (swept.runs if is_swept else home) / planned.name
                if not is_swept:
                    if scale.is_in_results:
                        digits.require_gpu()
                    digits.sampled(folder, planned.config, show)
            show.finish(scale.epochs * tau)
            yield folder


def _home(job: Job[Scale]) -> Path:
    return job.out / "runs" / f"digits-{job.scale_name}-seed-{job.seed}"


def _planned(job: Job[Scale], tau: int) -> Planned:
    """The run of one tau: its name and its options, wherever it is sampled."""
    scale, epochs = job.scale, job.scale.epochs * tau
    config = digits.config_of(
        _home(job),
        scale.setup,
        tau=tau,
        s=list(scale.tilts),
        chains=scale.runs,
        epochs=epochs,
        burn_in=epochs // 2,
        # Equal seeds would give runs of different tau the same random numbers.
        seed=int(np.random.SeedSequence([job.seed, tau]).generate_state(1)[0]),
    )
    return Planned(f"tau-{tau}", config)


def _is_complete(swept: SweepDirectory, planned: Planned) -> bool:
    """Whether a sweep has done this very run."""
    is_same = swept.is_begun and swept.options().get(planned.name) == parse_toml(planned.config.to_toml())
    return is_same and tj.StoredRun(swept.run(planned.name)).is_complete


def _require_complete(swept: Swept) -> None:
    failures = "".join(f", {name}: {sentence}" for name, sentence in swept.failed.items())
    require(
        swept.is_complete,
        f"all runs of a figure must be complete before it is drawn, got a sweep with some that are not{failures}; the "
        "same command goes on with them.",
    )


def _point(group: Group) -> Point:
    return Point(
        group.tau,
        group.s,
        group.runs,
        float(group.records["epoch"][0, -1]) / group.tau,
        *group.late("loss"),
        *group.score("vote_accuracy"),
        group.score("single_accuracy")[0],
        *group.late("batch_size"),
        group.late("weight_rms")[0],
    )


def _claims(groups: list[Group], points: list[Point]) -> Iterator[Claim]:
    taus, tilts = sorted({p.tau for p in points}), sorted({p.s for p in points})
    at = {(p.tau, p.s): p for p in points}
    group = {(g.tau, g.s): g for g in groups}
    for tau in taus if len(tilts) > 1 else []:
        step = least(_fall(at[tau, s], at[tau, larger]) for s, larger in pairwise(tilts))
        text = f"the loss falls with s, tau = {tau} (least certain step)"
        yield claim(f"loss falls with s, tau = {tau}", text, *step[:2], ">", 0.0, step.dof)
    for s in tilts if len(taus) > 1 else []:
        step = least(_fall(at[tau, s], at[longer, s]) for tau, longer in pairwise(taus))
        text = f"longer paths reach a lower loss, s = {s:g} (least certain step)"
        yield claim(f"longer paths, s = {s:g}", text, *step[:2], ">", 0.0, step.dof)
    for tau, longer in pairwise(taus):
        ratio = batch_ratio(*([_cell(group[t, s]) for s in tilts] for t in (tau, longer)))
        if ratio is not None:
            text = f"at equal loss, tau = {longer} needs smaller batches than tau = {tau} (ratio)"
            yield claim(f"smaller batches, tau = {tau} and {longer}", text, *ratio[:2], "<", 1.0, ratio.dof)
    for tau in taus:
        point = at[tau, nearest(tilts, 50.0)]
        value = _N / point.batch_size
        error = value * point.batch_size_stderr / point.batch_size
        text = f"N / <b> exceeds 100, tau = {tau}, s = {point.s:g}"
        yield claim(f"N / <b>, tau = {tau}", text, value, error, ">", 100.0, point.runs - 1)


def _fall(before: Point, after: Point) -> Measured:
    return difference((before.loss, before.loss_stderr), (after.loss, after.loss_stderr), after.runs)


def nearest(values: Sequence[float], value: float) -> float:
    """The one of `values` that is closest to `value`."""
    return min(values, key=lambda other: abs(other - value))


def _cell(group: Group) -> np.ndarray:
    """Log loss and log batch of every run, (2, runs)."""
    return np.log([group.late_by_run("loss"), group.late_by_run("batch_size")])


def batch_ratio(short: list[np.ndarray], long: list[np.ndarray]) -> Measured | None:
    """Batch of the longer path over that of the shorter one, at the lowest loss that both reach.

    Each path is a list over s of log loss and log batch of its runs, (2, runs); log b is interpolated linearly. The
    error is the jackknife's over runs. None where the losses of the two do not overlap.
    """
    cells = [*short, *long]
    place = max(_curve(path)[0][0] for path in (short, long))
    if place > min(_curve(path)[0][-1] for path in (short, long)):
        return None

    def ratio(cells: list[np.ndarray]) -> float:
        parts = cells[: len(short)], cells[len(short) :]
        before, after = (_interpolated(place, *_curve(part)) for part in parts)
        return float(np.exp(after - before))

    variance = 0.0
    for i, cell in enumerate(cells):
        runs = cell.shape[1]
        without = [ratio([*cells[:i], np.delete(cell, j, 1), *cells[i + 1 :]]) for j in range(runs)]
        variance += (runs - 1) * float(np.var(without))
    return Measured(ratio(cells), float(np.sqrt(variance)), cells[0].shape[1] - 1)


def _curve(path: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Means over runs, by increasing loss."""
    means = np.array([cell.mean(1) for cell in path])
    x, y = means[np.argsort(means[:, 0])].T
    return x, y


def _interpolated(place: float, x: np.ndarray, y: np.ndarray) -> float:
    """Linear between points, and beyond the ends as between the two nearest."""
    i = int(np.clip(np.searchsorted(x, place), 1, len(x) - 1))
    return float(y[i - 1] + (y[i] - y[i - 1]) * (place - x[i - 1]) / (x[i] - x[i - 1]))


def _draw(points: list[Point], folder: Path, setup: Setup, stem: Path) -> tuple[Path, Path]:
    with style.journal_style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(2 * style.COLUMN_WIDTH, 5.0))
        (upper_left, upper_right), (lower_left, lower_right) = figure.subplots(2, 2)
        _draw_digits(upper_left, folder, setup)
        _draw_points(upper_right, points, "s", "loss")
        upper_right.set(xscale="log", yscale="log", xlabel=r"$s$", ylabel=r"$\langle L\rangle/\tau$")
        _draw_points(lower_left, points, "s", "vote_accuracy")
        lower_left.set(xscale="log", xlabel=r"$s$", ylabel="accuracy of the vote", ylim=(0, 1))
        _draw_points(lower_right, points, "loss", "batch_size")
        lower_right.set(xscale="log", yscale="log", xlabel=r"$\langle L\rangle/\tau$", ylabel=r"$\langle b\rangle$")
        for axis in (upper_right.xaxis, upper_right.yaxis, lower_left.xaxis, lower_right.xaxis, lower_right.yaxis):
            style.plain_logarithm(axis)
        taus = sorted({p.tau for p in points})
        entries = [style.look(i) | {"label": rf"$\tau = {tau}$"} for i, tau in enumerate(taus)]
        style.legend(upper_right, entries, "lower left", columns=2 if len(taus) > 3 else 1)
        # Room for the legend below the curves.
        low, high = upper_right.get_ylim()
        upper_right.set_ylim(low * (low / high) ** 0.25, high)
        for axes, letter in zip((upper_left, upper_right, lower_left, lower_right), "abcd", strict=True):
            axes.set_title(f"({letter})", loc="left", fontsize=9)
        return style.save(figure, stem)


def _draw_points(axes: Any, points: list[Point], x: str, y: str) -> None:
    """One column against another with error bars, a line for every tau."""
    for i, tau in enumerate(sorted({p.tau for p in points})):
        here = [p for p in points if p.tau == tau]
        values = {name: [getattr(p, name) for p in here] for name in (x, y)}
        errors = [[getattr(p, f"{name}_stderr", 0.0) for p in here] for name in (x, y)]
        axes.errorbar(values[x], values[y], errors[1], errors[0], markerfacecolor="white", **style.look(i))


def _draw_digits(axes: Any, folder: Path, setup: Setup) -> None:
    """The first test digit of every class, with the vote of the longest path at the largest s."""
    seen, (x, y) = tj.datasets.mnist(), digits.test_data(setup)
    first = np.array([int(np.flatnonzero(y == k)[0]) for k in range(10)])
    proba = Ensemble.load(folder, chain=tj.StoredRun(folder).chains - 1).member_proba(x[first])
    chosen = vote(proba)
    agreement = (proba.argmax(-1) == chosen).mean(0)
    axes.set_axis_off()
    for k, i in enumerate(first):
        row, column = divmod(k, 5)
        tile = axes.inset_axes((column / 5, 0.5 - 0.5 * row, 0.18, 0.38))
        tile.imshow(seen.test_x[i], cmap="gray_r", interpolation="nearest")
        tile.set(xticks=[], yticks=[])
        colour = "black" if chosen[k] == y[i] else style.COLOURS[1]
        tile.set_title(f"{chosen[k]} ({agreement[k]:.0%})", fontsize=7.5, pad=2, color=colour)


def _table(points: list[Point]) -> Table:
    headings = ("tau", "s", "epochs\n/model", "loss", "error", "vote", "error", "single", "batch", "RMS\nweight")
    table = table_of("figure 2, mnist: ensembles of digits", *headings)
    for i, p in enumerate(points):
        table.add_row(
            str(p.tau),
            f"{p.s:g}",
            f"{p.epochs_per_model:,.0f}",
            f"{p.loss:.4g}",
            f"{p.loss_stderr:.1g}",
            f"{p.vote_accuracy:.4f}",
            f"{p.vote_accuracy_stderr:.1g}",
            f"{p.single_accuracy:.4f}",
            f"{p.batch_size:.0f}",
            f"{p.weight_rms:.2f}",
            end_section=i + 1 < len(points) and points[i + 1].tau != p.tau,
        )
    return table
