"""Figure 1(c): loss per model of the linear perceptron against s, for several tau, with the exact curves.

    <L>/tau = L_min + (1 / 2 tau) sum_dk h_d / (s h_d + kappa_k / sigma^2)

The slowest motion is that of the centre of the path. Redrawing single models moves it by about sigma tau^-1/2
per sweep, against a spread of (s h_d tau)^-1/2: of the order of 1 / (s h_min sigma^2) sweeps, thousands at small
s. So one phase in `_SHIFT_EVERY` shifts the whole path instead, by the spread that the centre has at the smallest
s. There the centre then forgets its start within some tens of shifts. At large s, shifts are refused and plain
sweeps are fast enough; paths start at random models, far from the solution.

Values of s are sampled in groups, the chains of a group side by side in one program, and groups of smaller s for
more epochs. s is no part of the program, so all groups of one tau share its compilation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich import box
from rich.table import Table

import trajens as tj
from trajens.figures import style
from trajens.figures.drawn import Drawn, prepared, write_csv
from trajens.progress import SeveralRuns

_SIGMA = 0.1
_CHUNK = 32
_SHIFT_EVERY = 32


@dataclass(frozen=True)
class Scale:
    """How much is sampled.

    Attributes
    ----------
    taus : tuple of int
    groups : tuple of (epochs, tuple of s)
        Values of s that are sampled together, and for how long; a third of it is burn-in.
    chains : int
        Independent chains per value of s; the standard error comes from their spread.
    """

    taus: tuple[int, ...]
    groups: tuple[tuple[int, tuple[float, ...]], ...]
    chains: int = 24

    @property
    def all_s(self) -> tuple[float, ...]:
        """All values of s."""
        return tuple(s for _, group in self.groups for s in group)


class Point(NamedTuple):
    """One symbol of the figure; the names are the columns of the CSV file."""

    tau: int
    s: float
    loss: float
    loss_stderr: float
    exact: float
    z: float
    acceptance: float
    batch_size: float


def _decades(first: float, last: float, per_group: int, epochs: tuple[int, ...]) -> Any:
    values = np.geomspace(first, last, per_group * len(epochs)).reshape(len(epochs), per_group)
    return tuple((e, tuple(float(s) for s in group)) for e, group in zip(epochs, values, strict=True))


SCALES = {"quick": Scale((1, 2, 4, 8, 16), _decades(1.0, 1000.0, 3, (80_000, 16_000, 10_000)))}


def figure_1c(out: Path, scale: str | Scale = "quick", seed: int = 0, progress: bool = False) -> Drawn:
    """Sample the figure and write figure_1c.png, .pdf and .csv into `out`.

    Parameters
    ----------
    out : Path
        Folder, made if need be.
    scale : str or Scale
        A name in `SCALES`, or one of your own.
    seed : int
    progress : bool
        Show a progress bar on stderr.

    Returns
    -------
    Drawn
    """
    out, size, seed = prepared(out, scale, SCALES, seed)
    data = tj.datasets.perceptron()
    points = sorted(_sample(data, size, seed, progress))
    files = (*_draw(data, size, points, out / "figure_1c"), write_csv(points, out / "figure_1c.csv"))
    chi2 = float(np.mean([point.z**2 for point in points]))
    # z has Student's law: its error is itself measured, on few chains.
    expected = f"{(size.chains - 1) / (size.chains - 3):.2f}" if size.chains > 3 else "not defined"
    remark = f"sum of z^2 / points = {chi2:.2f} for {len(points)} points; expected for {size.chains} chains: {expected}"
    return Drawn(_table(points), (remark,), files)


def _sample(data: tj.datasets.PerceptronData, scale: Scale, seed: int, progress: bool) -> Iterator[Point]:
    problem = data.problem()
    runs = [(tau, epochs, s) for tau in scale.taus for epochs, s in scale.groups]
    # Equal seeds would give runs of different tau or s the same random numbers.
    seeds = np.random.SeedSequence(seed).generate_state(len(runs))
    with SeveralRuns(sum(epochs for _, epochs, _ in runs), "figure 1(c)", progress) as report:
        for (tau, epochs, s), run_seed in zip(runs, seeds, strict=True):
            run = tj.sample(
                tj.Target(problem, tau, _SIGMA, np.repeat(s, scale.chains)),
                epochs,
                chains=scale.chains * len(s),
                seed=int(run_seed),
                burn_in=epochs // 3,
                move=_move(data, tau, min(scale.all_s)),
                test=tj.Penalty(_CHUNK),
                scan="checkerboard",
                records=60,
                progress=report,
            )
            report.finish(epochs)
            for i, value in enumerate(s):
                yield _point(data, run, tau, value, np.arange(scale.chains) + i * scale.chains)


def _move(data: tj.datasets.PerceptronData, tau: int, smallest_s: float) -> tj.Mixture:
    h = float(np.mean(data.x**2))
    shift = tj.CentreOfMass((smallest_s * tau * h) ** -0.5)
    return tj.Mixture([(_SHIFT_EVERY - 1, tj.SingleSite()), (1, shift)])


def _point(data: tj.datasets.PerceptronData, run: tj.Run, tau: int, s: float, chains: np.ndarray) -> Point:
    summary = run.summary(chains)
    loss, error = summary["loss"], summary["loss_stderr"]
    exact = tj.exact.perceptron(data.x, data.y, tau, _SIGMA, s).loss
    return Point(tau, s, loss, error, exact, (loss - exact) / error, summary["acceptance"], summary["batch_size"])


def _draw(data: tj.datasets.PerceptronData, scale: Scale, points: list[Point], stem: Path) -> tuple[Path, Path]:
    with style.journal_style():
        figure, (axes,) = style.panels()
        _losses(axes, data, scale, points)
        return style.save(figure, stem)


def _losses(axes: Any, data: tj.datasets.PerceptronData, scale: Scale, points: list[Point]) -> None:
    """Exact curves, with the measurements on top of them."""
    entries = []
    grid = np.geomspace(min(scale.all_s), max(scale.all_s), 100)
    for tau, colour, marker in zip(scale.taus, style.COLOURS, style.MARKERS, strict=False):
        exact = [tj.exact.perceptron(data.x, data.y, tau, _SIGMA, s).loss for s in grid]
        axes.plot(grid, exact, color=colour)
        here = [point for point in points if point.tau == tau]
        axes.errorbar(
            [point.s for point in here],
            [point.loss for point in here],
            [point.loss_stderr for point in here],
            color=colour,
            marker=marker,
            markerfacecolor="white",
            linestyle="none",
        )
        entries.append({"color": colour, "marker": marker, "label": rf"$\tau = {tau}$"})
    axes.set(xscale="log", yscale="log", xlabel=r"$s$", ylabel=r"$\langle L\rangle/\tau$")
    style.legend(axes, entries, "lower left")
    sampled = {"color": "black", "marker": "o", "linestyle": "none", "label": "sampled"}
    style.legend(axes, [sampled, {"color": "black", "label": "exact"}], "upper right")


def _table(points: list[Point]) -> Table:
    table = Table(title="figure 1(c): loss per model of the perceptron", box=box.SIMPLE_HEAD)
    for heading in ("tau", "s", "measured", "standard\nerror", "exact", "z", "acceptance", "mean\nbatch"):
        table.add_column(heading, justify="right", no_wrap=True)
    for i, p in enumerate(points):
        is_last_of_tau = i + 1 < len(points) and points[i + 1].tau != p.tau
        numbers = (f"{p.s:.4g}", f"{p.loss:.4g}", f"{p.loss_stderr:.2g}", f"{p.exact:.4g}", f"{p.z:+.2f}")
        table.add_row(str(p.tau), *numbers, f"{p.acceptance:.2f}", f"{p.batch_size:.0f}", end_section=is_last_of_tau)
    return table
