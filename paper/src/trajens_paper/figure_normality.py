"""Figure 4: is Delta* normal? Its values on all disjoint batches of 240, for one proposal, as a path learns.

    Delta*_k = mean over batch k of Delta_i,  Delta_i = -s (l_i(theta') - l_i(theta)),  k = 1 .. N / 240

in units of their standard error, with the normal curve; and what the paper lacks: a Q-Q panel, the skewness of Delta_i,
and |kappa_3| / 12 = rho^3 |skew| / (12 sqrt(b)), the error that skewness leaves in detailed balance.

The setup is the paper's: its network on MNIST, s = 50, sigma = 0.05, a mask of 25 %, chunk 240, its test,
and the flat prior that its moves imply.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from rich.table import Table

import trajens as tj
from trajens.files import write_atomically
from trajens.losses import compiled_losses_of_pairs
from trajens.moves.base import Site
from trajens.plots import style
from trajens.precision import single
from trajens.randomness import fold_in, key_of
from trajens_paper.claims import Claim, claim
from trajens_paper.frame import Job, Made, figure, kept_run, table_of

_S, _SIGMA, _BATCH = 50.0, 0.05, 240
_QUANTITY = r"$(\Delta^* - \Delta)/\rho$"
_LARGEST_KAPPA = 0.05
"""Error of the log-ratio of detailed balance that is taken as small: the usual `skew_tolerance` of a test."""


@dataclass(frozen=True)
class Scale:
    """Which paths are looked at, and after how many epochs."""

    taus: tuple[int, ...]
    epochs: tuple[int, ...]


class Point(NamedTuple):
    """One histogram; the names are the columns of the CSV file.

    `rho` is the standard error of Delta* on one batch, `spread` the measured one in units of it, and `p_normal` the
    probability of a Kolmogorov-Smirnov distance as large as the one found if the batches were normal.
    """

    tau: int
    epoch: int
    loss: float
    delta: float
    rho: float
    skewness: float
    kappa_3_over_12: float
    spread: float
    p_normal: float


SCALES = {
    "quick": Scale((2, 8), (1_000, 2_000, 4_000, 6_000)),
    "laptop": Scale((2, 16), (5_000, 10_000, 15_000, 20_000)),
    "paper": Scale((2, 16), (5_000, 10_000, 15_000, 20_000)),
}


@figure("normality", SCALES)
def figure_normality(job: Job[Scale]) -> Made:
    """A histogram for every tau and epoch."""
    sampled = list(_sample(job))
    points = [point for point, _ in sampled]
    remark = f"every histogram has {len(sampled[0][1])} disjoint batches of {_BATCH} images, of one proposal"
    return Made(_table(points), (remark,), points, _claims(sampled), lambda stem: _draw(job.scale, sampled, stem))


def batch_means(differences: np.ndarray, batch: int = _BATCH) -> np.ndarray:
    """Means over disjoint batches, in the order of the data, in units of their standard error around their mean."""
    means = differences[: len(differences) // batch * batch].reshape(-1, batch).mean(1)
    return np.asarray((means - differences.mean()) / standard_error(differences, batch))


def standard_error(differences: np.ndarray, batch: int = _BATCH) -> float:
    """Rho, that of the mean over one batch drawn without replacement."""
    return float(differences.std(ddof=1) * np.sqrt((1 / batch) * (1 - batch / len(differences))))


def _sample(job: Job[Scale]) -> Iterator[tuple[Point, np.ndarray]]:
    scale, seed = job.scale, job.seed
    folder = job.out / "runs" / f"normality-{job.scale_name}-seed{seed}"
    digits = tj.datasets.mnist()
    # In a random order, the same for all: batches of the stored order would not be random ones.
    order = np.random.default_rng(seed).permutation(len(digits.train_y))
    problem = tj.models.cnn().problem(digits.train_x[order], digits.train_y[order])
    for tau in scale.taus:
        target = tj.Target(problem, tau, _SIGMA, _S, prior=None)
        # One run, stopped at every epoch to look at it: a run of other epochs may not share its directory.
        run = folder / f"tau{tau}-epochs-{'-'.join(map(str, scale.epochs))}"
        for epoch in scale.epochs:
            loss, deltas = _kept_differences(run, target, epoch, seed, job.progress)
            means = batch_means(deltas)
            yield _point(tau, epoch, loss, deltas, means), means


def _kept_differences(
    folder: Path, target: tj.Target, epoch: int, seed: int, progress: bool
) -> tuple[float, np.ndarray]:
    """Loss per model at an epoch of the run in `folder`, and Delta_i of a proposal there; kept beside the run."""
    file = folder / f"differences-{epoch}.npz"
    if not file.exists():
        move = tj.SingleSite(0.25)
        settings: dict[str, Any] = {"move": move, "acceptance": tj.paper_test(_BATCH), "scan": "checkerboard"}
        run = kept_run(folder, target, epoch, progress, chains=1, seed=seed, burn_in=0, records=1, **settings)
        deltas = _differences(target, move, run.paths[0], seed, epoch)
        content = io.BytesIO()
        np.savez(content, allow_pickle=False, loss=run.records["loss"][0, -1], deltas=deltas)
        write_atomically(file, content.getvalue())
    with np.load(file, allow_pickle=False) as kept:
        return float(kept["loss"]), kept["deltas"]


@single
def _differences(target: tj.Target, move: tj.SingleSite, path: np.ndarray, seed: int, epoch: int) -> np.ndarray:
    """Delta_i of all examples, for one proposal to a model in the middle of the path."""
    t = len(path) // 2
    site = Site(np.int32(0), np.int32(t), np.int32(t + 1))  # type: ignore[arg-type]
    key = fold_in(key_of(seed), jnp.int32(epoch))
    new = np.asarray(jax.jit(move.propose)(key, path, site, target.law).models)[0]
    pairs = np.stack([path[t], new])[None]
    problem = target.problem
    indices = np.arange(problem.size, dtype=np.int32)[None]
    losses = compiled_losses_of_pairs(problem.loss, problem.data, pairs, indices, np.ones(1, bool))
    both = np.asarray(losses, np.float64)[0]
    return np.asarray(-_S * (both[1] - both[0]))


def _point(tau: int, epoch: int, loss: float, deltas: np.ndarray, means: np.ndarray) -> Point:
    from scipy import stats

    rho = standard_error(deltas)
    skewness = float(stats.skew(deltas))
    return Point(
        tau,
        epoch,
        loss,
        float(deltas.mean()),
        rho,
        skewness,
        float(abs(skewness) * rho**3 / np.sqrt(_BATCH) / 12),
        # Around the mean over all examples, which is known.
        float(np.sqrt(np.mean(means**2))),
        float(stats.kstest(means, "norm").pvalue),
    )


def _kappa_when_deciding(point: Point) -> float:
    """|kappa_3| / 12, which falls as b^-2, once the batch has grown until rho <= 1."""
    return point.kappa_3_over_12 / max(1.0, point.rho**2) ** 2


def _claims(sampled: list[tuple[Point, np.ndarray]]) -> tuple[Claim, ...]:
    points = [point for point, _ in sampled]
    batches = sum(len(means) for _, means in sampled)
    p = min(1.0, len(points) * min(point.p_normal for point in points))
    return (
        claim(
            "skewness",
            "Skewness of Delta* at this batch leaves detailed balance almost exact: largest |kappa_3| / 12.",
            max(point.kappa_3_over_12 for point in points),
            0.0,
            "<",
            _LARGEST_KAPPA,
        ),
        claim(
            "skewness when deciding",
            "The same at the batch at which the test decides, where rho is at most 1.",
            max(_kappa_when_deciding(point) for point in points),
            0.0,
            "<",
            _LARGEST_KAPPA,
        ),
        claim(
            "spread",
            "Delta* scatters by the standard error rho of one batch: spread over rho, root mean square.",
            float(np.sqrt(np.mean([point.spread**2 for point in points]))),
            (2 * (batches - len(points))) ** -0.5,
            "=",
            1.0,
        ),
        claim(
            "normality",
            "No histogram of Delta* is told from the normal law: smallest Kolmogorov-Smirnov p, times their number.",
            p,
            0.0,
            ">",
            0.05,
        ),
    )


def _draw(scale: Scale, sampled: list[tuple[Point, np.ndarray]], stem: Path) -> tuple[Path, Path]:
    from scipy import stats

    with style.journal_style():
        from matplotlib.figure import Figure

        columns = len(scale.epochs)
        rows = len(scale.taus)
        figure = Figure(figsize=(2 * style.COLUMN_WIDTH, 1.75 * (rows + 1)))
        grid = figure.add_gridspec(rows + 1, columns)
        z = np.linspace(-4, 4, 200)
        last = figure.add_subplot(grid[rows, :])
        for i, (point, means) in enumerate(sampled):
            row, column = divmod(i, columns)
            axes = figure.add_subplot(grid[row, column])
            axes.hist(np.clip(means, -4, 4), bins=list(np.linspace(-4, 4, 25)), density=True, color=style.COLOURS[5])
            axes.plot(z, stats.norm.pdf(z), color="black")
            axes.set(xlim=(-4, 4), ylim=(0, 0.6), title=rf"$\tau = {point.tau}$, epoch {point.epoch:,}")
            axes.title.set_fontsize(8.5)
            axes.set_xticks([-4, -2, 0, 2, 4], [] if row + 1 < rows else None)
            axes.set_yticks([0, 0.2, 0.4], [] if column else None)
            axes.set(xlabel=_QUANTITY if row + 1 == rows else None, ylabel=None if column else "density")
            ordered = np.sort(means)
            expected = stats.norm.ppf((np.arange(len(means)) + 0.5) / len(means))
            colour, marker = style.COLOURS[row], style.MARKERS[column]
            last.plot(expected, ordered, marker, color=colour, markersize=1.8, markerfacecolor="none")
        last.plot(z, z, color="black", linewidth=0.6)
        last.set(xlabel="normal quantiles", ylabel=_QUANTITY, xlim=(-4, 4))
        entries = [
            {"color": style.COLOURS[i], "marker": "o", "linestyle": "none", "label": rf"$\tau = {tau}$"}
            for i, tau in enumerate(scale.taus)
        ]
        style.legend(last, entries, "upper left")
        return style.save(figure, stem)


def _table(points: list[Point]) -> Table:
    headings = ("tau", "epoch", "loss", "Delta", "rho", "skew", "kappa_3/12", "spread", "p")
    table = table_of("figure 4, normality: shape of Delta*", *headings)
    for i, p in enumerate(points):
        is_last_of_tau = i + 1 < len(points) and points[i + 1].tau != p.tau
        numbers = (p.loss, p.delta, p.rho, p.skewness, p.kappa_3_over_12, p.spread, p.p_normal)
        table.add_row(str(p.tau), f"{p.epoch:,}", *(f"{n:.3g}" for n in numbers), end_section=is_last_of_tau)
    return table
