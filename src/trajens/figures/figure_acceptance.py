"""Figure "acceptance": what every acceptance test of the library costs and how far its law is from the exact one.

(a) Bias of the excess loss <L>/tau - L_min on the noisy-label perceptron, whose exact value is known.
(b) Examples read per accepted move.
(c) Error of the acceptance curves: A(Delta) of a minibatch Barker test, with its table for X_corr and noise rho,
    against the logistic 1 / (1 + exp(-Delta)).

The perceptron: N = 256 points, labels with noise 1, tau = 4, sigma = 0.1, s = 150. Batches are a large part of the data
there, so every shortcut shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich import box
from rich.table import Table

import trajens as tj
from trajens.acceptance import AcceptanceTest
from trajens.acceptance.correction import correction_table
from trajens.figures import style
from trajens.figures.drawn import Drawn, prepared, write_csv
from trajens.progress import SeveralRuns

_TAU, _SIGMA, _S, _CHUNK = 4, 0.1, 150.0, 16
_CURVES = (("ridge", 1.0), ("lp", 1.0), ("lp", 1.2), ("lp", 1.3))


@dataclass(frozen=True)
class Scale:
    """How much is sampled: chains of so many epochs, a fifth of it burn-in."""

    chains: int
    epochs: int


class Point(NamedTuple):
    """One test; the names are the columns of the CSV file. Biases are relative to the exact excess loss."""

    test: str
    bias: float
    bias_stderr: float
    bias_deciding: float
    acceptance: float
    batch_size: float
    data_per_accepted: float


SCALES = {"quick": Scale(512, 6000), "laptop": Scale(4096, 16_000)}


def tests() -> dict[str, AcceptanceTest]:
    """Every test of the library, by the name it has in the figure."""
    return {
        "full-data Metropolis": tj.Metropolis(),
        "full-data Barker": tj.Barker(),
        "the paper's scheme": tj.paper_test(_CHUNK),
        "minibatch Barker, rho = 1": tj.MinibatchBarker(_CHUNK),
        "penalty, sequential, rho = 1.35": tj.Penalty(_CHUNK, plan=False),
        "penalty, planned, rho = 1": tj.Penalty(_CHUNK, rho=1.0),
        "penalty, planned, rho = 1.35": tj.Penalty(_CHUNK, rho=1.35),
    }


def figure_acceptance(out: Path, scale: str | Scale = "quick", seed: int = 0, progress: bool = False) -> Drawn:
    """Sample the figure and write figure_acceptance.png, .pdf and .csv into `out`.

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
    points = list(_sample(size, seed, progress))
    files = (*_draw(points, out / "figure_acceptance"), write_csv(points, out / "figure_acceptance.csv"))
    remark = f"biases are relative to the exact excess loss; errors are standard errors over {size.chains} chains"
    return Drawn(_table(points), (remark,), files)


def curve_error(method: str, rho: float, delta: np.ndarray) -> np.ndarray:
    """A(Delta) of a minibatch Barker test less the logistic."""
    from scipy.special import expit

    return np.asarray(correction_table(rho, method).acceptance(delta) - expit(delta))


def _sample(scale: Scale, seed: int, progress: bool) -> Iterator[Point]:
    data = tj.datasets.perceptron(seed=0, noise=1.0)
    exact = tj.exact.perceptron(data.x, data.y, _TAU, _SIGMA, _S)
    target = tj.Target(data.problem(), _TAU, _SIGMA, _S)
    runs = tests()
    with SeveralRuns(scale.epochs * len(runs), "acceptance", progress) as report:
        for name, test in runs.items():
            run = tj.sample(
                target,
                scale.epochs,
                chains=scale.chains,
                seed=seed,
                burn_in=scale.epochs // 5,
                move=tj.SingleSite(),
                test=test,
                records=max(2, scale.epochs // 100),
                progress=report,
            )
            report.finish(scale.epochs)
            m = run.summary()
            yield Point(
                name,
                (m["loss"] - exact.loss) / exact.excess,
                m["loss_stderr"] / exact.excess,
                (m["loss_deciding"] - exact.loss) / exact.excess,
                m["acceptance"],
                m["batch_size"],
                m["batch_size"] / m["acceptance"],
            )


def _draw(points: list[Point], stem: Path) -> tuple[Path, Path]:
    with style.journal_style():
        figure, (left, middle, right) = style.panels(3)
        rows = np.arange(len(points))[::-1]
        colours = [style.COLOURS[i % len(style.COLOURS)] for i in range(len(points))]
        left.axvline(0.0, color="black", linewidth=0.6)
        for row, point, colour in zip(rows, points, colours, strict=True):
            left.errorbar(100 * point.bias, row, xerr=100 * point.bias_stderr, color=colour, marker="o", capsize=2)
            middle.barh(row, point.data_per_accepted, color=colour, height=0.6)
        left.set(xlabel="bias of the excess loss (%)", yticks=rows, yticklabels=[p.test for p in points])
        middle.set(xlabel="examples per accepted move", yticks=rows, yticklabels=[])
        delta = np.linspace(-10.0, 10.0, 401)
        for (method, rho), colour, line in zip(_CURVES, style.COLOURS, ("-", "-", "--", ":"), strict=False):
            label = f"{'the paper' if method == 'ridge' else 'linear program'}, $\\rho = {rho:g}$"
            right.plot(delta, np.abs(curve_error(method, rho, delta)), color=colour, linestyle=line, label=label)
        right.set(xlabel=r"$\Delta$", ylabel=r"$|A(\Delta) - $ logistic$|$", yscale="log", ylim=(1e-9, 1e-1))
        right.legend(loc="upper right", fontsize=7)
        return style.save(figure, stem)


def _table(points: list[Point]) -> Table:
    table = Table(title="acceptance tests on the noisy-label perceptron", box=box.SIMPLE_HEAD)
    for heading in ("test", "bias, %", "error", "acceptance", "mean\nbatch", "per\naccepted"):
        table.add_column(heading, justify="left" if heading == "test" else "right", no_wrap=True)
    for p in points:
        table.add_row(
            p.test,
            f"{100 * p.bias:+.2f}",
            f"{100 * p.bias_stderr:.2f}",
            f"{p.acceptance:.3f}",
            f"{p.batch_size:.1f}",
            f"{p.data_per_accepted:.0f}",
        )
    return table
