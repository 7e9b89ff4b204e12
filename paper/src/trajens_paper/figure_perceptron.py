"""Figure 1(c): loss per model of the linear perceptron against s, for several tau, with the exact curves.

    <L>/tau = L_min + (1 / 2 tau) sum_dk h_d / (s h_d + kappa_k / sigma^2)

Sampled twice: with the paper's acceptance test and with the penalty test of this library. A second panel shows the
relative deviation from the exact loss, as a mean over tau.

The slowest motion is that of the centre of the path. Redrawing single models moves it by about sigma tau^-1/2 per
sweep, against a spread of (s h_d tau)^-1/2: of the order of 1 / (s h_min sigma^2) sweeps, thousands at small s. So
where s is small, one phase in `_SHIFT_EVERY` shifts the whole path instead, by the spread that the centre has at the
smallest s. At large s shifts are refused, and plain sweeps are fast enough.

Values of s are sampled in groups, the chains of a group side by side in one program. Lengths are counted in phases of
the checkerboard, tau / 2 epochs each. s is no part of the program, so groups with the same moves share its compilation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

import trajens as tj
from trajens.acceptance import AcceptanceTest
from trajens.plots import style
from trajens.run.progress import SeveralRuns
from trajens_paper.frame import Job, Made, figure, kept_run, table_of
from trajens_paper.numbers_perceptron import Point, claims_of, mean_deviation, remarks

_SIGMA = 0.1
_CHUNK = 32
_SHIFT_EVERY = 8
_SHIFT_BELOW = 30.0
_TAUS = (1, 2, 4, 8, 16)


@dataclass(frozen=True)
class Scale:
    """How much is sampled.

    Attributes
    ----------
    taus : tuple of int
    groups : tuple of (phases, tuple of s)
        Values of s that are sampled together, and for how long; a quarter of it is burn-in.
    chains : int
        Independent chains per value of s; the standard error comes from their spread.
    records : int
        Measurements of the loss per chain, burn-in included.
    """

    taus: tuple[int, ...]
    groups: tuple[tuple[int, tuple[float, ...]], ...]
    chains: int = 24
    records: int = 80

    @property
    def all_s(self) -> tuple[float, ...]:
        """All values of s."""
        return tuple(s for _, group in self.groups for s in group)

    def epochs(self, tau: int, phases: int) -> int:
        """Proposals per chain."""
        return max(1, tau // 2) * phases


def _decades(phases: tuple[int, int, int]) -> tuple[tuple[int, tuple[float, ...]], ...]:
    """Four decades of s, two values in each, in three groups."""
    values = (10.0 ** np.linspace(0.0, 4.0, 9)).reshape(3, 3)
    return tuple((n, tuple(float(s) for s in group)) for n, group in zip(phases, values, strict=True))


SCALES = {
    "quick": Scale(_TAUS, _decades((4_000, 4_000, 4_000))),
    "laptop": Scale(_TAUS, _decades((16_000, 12_000, 12_000)), chains=96, records=320),
    # At least the paper's 2e7 epochs of burn-in and 2e7 after it for every point, shared between many chains, because a
    # GPU takes hardly longer for more of them.
    "paper": Scale(_TAUS, _decades((40_000, 40_000, 40_000)), chains=2400, records=60),
}


def tests() -> dict[str, AcceptanceTest]:
    """The paper's test and ours, by the name in the CSV file."""
    return {"ours": tj.Penalty(_CHUNK), "paper": tj.paper_test(_CHUNK)}


@figure("perceptron", SCALES)
def figure_perceptron(job: Job[Scale]) -> Made:
    """Both tests, for every tau and s."""
    data = tj.datasets.perceptron()
    size = job.scale
    points = sorted(_sample(data, job))
    return Made(
        _table(points),
        remarks(points, size.chains),
        points,
        claims_of(points, size.chains),
        lambda stem: _draw(data, size, points, stem),
    )


def _sample(data: tj.datasets.PerceptronData, job: Job[Scale]) -> Iterator[Point]:
    problem, scale = data.problem(), job.scale
    folder = job.out / "runs" / f"perceptron-{job.scale_name}-seed{job.seed}"
    runs = [
        (name, test, tau, scale.epochs(tau, phases), s)
        for name, test in tests().items()
        for tau in scale.taus
        for phases, s in scale.groups
    ]
    # Equal seeds would give runs of different tau or s the same random numbers.
    seeds = np.random.SeedSequence(job.seed).generate_state(len(runs))
    with SeveralRuns(sum(epochs for *_, epochs, _ in runs), "figure perceptron", job.progress) as show:
        for (name, test, tau, epochs, s), run_seed in zip(runs, seeds, strict=True):
            run = kept_run(
                folder / f"{name}-tau{tau}-s{s[0]:g}-{s[-1]:g}-{epochs}-epochs",
                tj.Target(problem, tau, _SIGMA, np.repeat(s, scale.chains)),
                epochs,
                show,
                chains=scale.chains * len(s),
                seed=int(run_seed),
                burn_in=epochs // 4,
                move=_move(data, tau, s),
                acceptance=test,
                scan="checkerboard",
                records=scale.records,
            )
            show.finish(epochs)
            for i, value in enumerate(s):
                yield _point(data, run, tau, value, name, np.arange(scale.chains) + i * scale.chains)


def _move(data: tj.datasets.PerceptronData, tau: int, s: tuple[float, ...]) -> tj.moves.Proposer:
    if max(s) > _SHIFT_BELOW:
        return tj.SingleSite()
    h = float(np.mean(data.x**2))
    shift = tj.CentreOfMass((min(s) * tau * h) ** -0.5)
    return tj.Mixture([(_SHIFT_EVERY - 1, tj.SingleSite()), (1, shift)])


def _point(data: tj.datasets.PerceptronData, run: tj.Run, tau: int, s: float, test: str, chains: np.ndarray) -> Point:
    summary = run.summary(chains)
    loss, error = summary["loss"], summary["loss_stderr"]
    law = tj.exact.perceptron(data.x, data.y, tau, _SIGMA, s)
    exact = law.loss
    return Point(
        tau,
        s,
        test,
        loss,
        error,
        exact,
        (loss - exact) / error,
        (loss - exact) / exact,
        error / exact,
        (tau * exact) ** 2 / law.variance,
        summary["acceptance"],
        summary["batch_size"],
    )


def _draw(data: tj.datasets.PerceptronData, scale: Scale, points: list[Point], stem: Path) -> tuple[Path, Path]:
    with style.journal_style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(style.COLUMN_WIDTH, 4.2))
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(2.0, 1.0))
        _losses(upper, data, scale, points)
        _deviations(lower, scale, points)
        for axes, letter in ((upper, "(a)"), (lower, "(b)")):
            axes.text(-0.2, 1.0, letter, transform=axes.transAxes, va="top")
        return style.save(figure, stem)


def _losses(axes: Any, data: tj.datasets.PerceptronData, scale: Scale, points: list[Point]) -> None:
    """Exact curves, with the measurements on top of them: open symbols are ours, crosses the paper's."""
    entries = []
    grid = np.geomspace(min(scale.all_s), max(scale.all_s), 100)
    for tau, colour, marker in zip(scale.taus, style.COLOURS, style.MARKERS, strict=False):
        exact = [tj.exact.perceptron(data.x, data.y, tau, _SIGMA, s).loss for s in grid]
        axes.plot(grid, exact, color=colour)
        for test, look in (("ours", {"marker": marker, "markerfacecolor": "white"}), ("paper", {"marker": "x"})):
            here = [p for p in points if (p.tau, p.test) == (tau, test)]
            s, loss, error = ([getattr(p, name) for p in here] for name in ("s", "loss", "loss_stderr"))
            axes.errorbar(s, loss, error, color=colour, linestyle="none", **look)
        entries.append({"color": colour, "marker": marker, "label": rf"$\tau = {tau}$"})
    axes.set(xscale="log", yscale="log", ylabel=r"$\langle L\rangle/\tau$")
    style.legend(axes, entries, "lower left")
    symbol = {"color": "black", "linestyle": "none"}
    kinds = [
        {**symbol, "marker": "o", "label": "penalty test"},
        {**symbol, "marker": "x", "label": "the paper's test"},
        {"color": "black", "label": "exact"},
    ]
    style.legend(axes, kinds, "upper right")


def _deviations(axes: Any, scale: Scale, points: list[Point]) -> None:
    """Relative deviations, a mean over tau; the tests are set apart a little."""
    axes.axhline(0.0, color="black", linewidth=0.6)
    for test, shift, look in (
        ("ours", 0.93, {"marker": "o", "markerfacecolor": "white"}),
        ("paper", 1.07, {"marker": "x"}),
    ):
        colour = style.COLOURS[0 if test == "ours" else 1]
        for s in scale.all_s:
            mean, error = mean_deviation([p for p in points if (p.s, p.test) == (s, test)])
            axes.errorbar(shift * s, 100 * mean, 100 * error, color=colour, linestyle="none", **look)
    bound = 1.1 * max(abs(value) for value in axes.get_ylim())
    axes.set(xscale="log", xlabel=r"$s$", ylabel="deviation from\nexact loss (%)", ylim=(-bound, bound))


def _table(points: list[Point]) -> Table:
    per_test = [heading for name in ("ours", "paper's") for heading in (f"{name}\ndeviation", "\nz", "mean\nbatch")]
    table = table_of("figure 1(c), perceptron: loss per model of the perceptron", "\ntau", "\ns", "\nexact", *per_test)
    by_place: dict[tuple[int, float], dict[str, Point]] = {}
    for p in points:
        by_place.setdefault((p.tau, p.s), {})[p.test] = p
    for (tau, s), pair in by_place.items():
        numbers = []
        for name in ("ours", "paper"):
            p = pair[name]
            numbers += [
                f"{100 * p.deviation:+.2f} ± {100 * p.deviation_stderr:.2f}",
                f"{p.z:+.2f}",
                f"{p.batch_size:.0f}",
            ]
        is_last_of_tau = s == max(p.s for p in points)
        table.add_row(str(tau), f"{s:.4g}", f"{pair['ours'].exact:.4g}", *numbers, end_section=is_last_of_tau)
    return table
