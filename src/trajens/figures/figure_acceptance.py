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
from typing import Any, NamedTuple

import numpy as np
from rich.table import Table

import trajens as tj
from trajens.acceptance import AcceptanceTest
from trajens.acceptance.correction import correction_table
from trajens.figures import style
from trajens.figures.claims import Claim, claim
from trajens.figures.frame import Job, Made, figure, kept_run, table_of
from trajens.progress import SeveralRuns

_TAU, _SIGMA, _S, _CHUNK = 4, 0.1, 150.0, 16
_PAPERS, _OURS = "the paper's scheme", "planned penalty, 1.35"
_CURVES = (("ridge", 1.0), ("lp", 1.0), ("lp", 1.2), ("lp", 1.3))


@dataclass(frozen=True)
class Scale:
    """How much is sampled: chains of so many epochs, a fifth of it burn-in, with so many records."""

    chains: int
    epochs: int
    records: int = 60


class Point(NamedTuple):
    """One test; the names are the columns of the CSV file. Biases are relative to the exact excess loss."""

    test: str
    bias: float
    bias_stderr: float
    bias_deciding: float
    acceptance: float
    batch_size: float
    data_per_accepted: float
    data_per_accepted_stderr: float


SCALES = {"quick": Scale(512, 6000), "laptop": Scale(2048, 20_000, 80), "paper": Scale(4096, 40_000, 80)}


def tests() -> dict[str, AcceptanceTest]:
    """Every test of the library, by the name it has in the figure; the number in it is rho_t."""
    return {
        "full-data Metropolis": tj.Metropolis(),
        "full-data Barker": tj.Barker(),
        _PAPERS: tj.paper_test(_CHUNK),
        "minibatch Barker, 1": tj.MinibatchBarker(_CHUNK),
        "sequential penalty, 1.35": tj.Penalty(_CHUNK, plan=False),
        "planned penalty, 1": tj.Penalty(_CHUNK, rho=1.0),
        _OURS: tj.Penalty(_CHUNK, rho=1.35),
    }


@figure("acceptance", SCALES)
def figure_acceptance(job: Job[Scale]) -> Made:
    """Every test of the library."""
    points = list(_sample(job))
    remark = f"biases are relative to the exact excess loss; errors are standard errors over {job.scale.chains} chains"
    return Made(
        _table(points),
        (remark, "the number in the name of a test is rho_t"),
        points,
        _claims(points),
        lambda stem: _draw(points, stem),
    )


def curve_error(method: str, rho: float, delta: np.ndarray) -> np.ndarray:
    """A(Delta) of a minibatch Barker test less the logistic."""
    from scipy.special import expit

    return np.asarray(correction_table(rho, method).acceptance(delta) - expit(delta))


def _sample(job: Job[Scale]) -> Iterator[Point]:
    scale = job.scale
    folder = job.out / "runs" / f"acceptance-{job.scale_name}-seed{job.seed}"
    data = tj.datasets.perceptron(seed=0, noise=1.0)
    exact = tj.exact.perceptron(data.x, data.y, _TAU, _SIGMA, _S)
    target = tj.Target(data.problem(), _TAU, _SIGMA, _S)
    runs = tests()
    with SeveralRuns(scale.epochs * len(runs), "acceptance", job.progress) as show:
        for name, test in runs.items():
            run = kept_run(
                folder / f"{_slug(name)}-{scale.chains}-chains-{scale.epochs}-epochs",
                target,
                scale.epochs,
                show,
                chains=scale.chains,
                seed=job.seed,
                burn_in=scale.epochs // 5,
                move=tj.SingleSite(),
                acceptance=test,
                scan="random",
                records=scale.records,
            )
            show.finish(scale.epochs)
            yield _point(name, run, exact)


def _slug(name: str) -> str:
    return name.replace("'", "").replace(", ", "-").replace(" ", "-")


def _point(name: str, run: tj.Run, exact: tj.exact.ExactPaths) -> Point:
    m = run.summary()
    per_chain = [run.summary(chain) for chain in range(run.settings.chains)]
    batch, acceptance = np.array([[c["batch_size"], c["acceptance"]] for c in per_chain]).T
    ratio = m["batch_size"] / m["acceptance"]
    # Of a ratio of two means: the spread of what is left of one after the other is taken off.
    rest = (batch - ratio * acceptance) / m["acceptance"]
    return Point(
        name,
        (m["loss"] - exact.loss) / exact.excess,
        m["loss_stderr"] / exact.excess,
        (m["loss_deciding"] - exact.loss) / exact.excess,
        m["acceptance"],
        m["batch_size"],
        ratio,
        float(rest.std(ddof=1) / np.sqrt(len(rest))),
    )


def _claims(points: list[Point]) -> tuple[Claim, ...]:
    found = [
        claim(f"bias: {p.test}", f"The excess loss has no bias, {p.test}.", p.bias, p.bias_stderr, "=", 0.0)
        for p in points
    ]
    costs = {p.test: (p.data_per_accepted, p.data_per_accepted_stderr) for p in points}
    papers, ours = costs[_PAPERS], costs[_OURS]
    ratio = ours[0] / papers[0]
    error = ratio * np.hypot(ours[1] / ours[0], papers[1] / papers[0])
    text = "Examples per accepted move, planned penalty at rho_t = 1.35 over the paper's scheme."
    found.append(claim("data per accepted move", text, ratio, error, "<", 1.0))
    delta = np.linspace(-14.0, 14.0, 561)
    at_paper = np.abs(curve_error("ridge", 1.0, delta)).max()
    for rho in (1.0, 1.3):
        text = (
            f"Largest error of the acceptance curve, linear program at rho = {rho:g}, against the paper's table at 1."
        )
        largest = np.abs(curve_error("lp", rho, delta)).max()
        found.append(claim(f"acceptance curve at {rho:g}", text, largest, 0.0, "<", at_paper))
    return tuple(found)


def _draw(points: list[Point], stem: Path) -> tuple[Path, Path]:
    with style.journal_style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(2 * style.COLUMN_WIDTH, 4.6))
        grid = figure.add_gridspec(2, 2)
        left = figure.add_subplot(grid[0, 0])
        right = figure.add_subplot(grid[0, 1], sharey=left)
        below = figure.add_subplot(grid[1, :])
        _draw_tests(left, right, points)
        _draw_curves(below)
        for axes, letter in ((left, "(a)"), (right, "(b)"), (below, "(c)")):
            axes.set_title(letter, loc="left", fontsize=9)
        return style.save(figure, stem)


def _draw_tests(left: Any, right: Any, points: list[Point]) -> None:
    rows = np.arange(len(points))[::-1]
    left.axvline(0.0, color="black", linewidth=0.6)
    for row, point, colour, marker in zip(rows, points, style.COLOURS, style.MARKERS, strict=True):
        left.errorbar(100 * point.bias, row, xerr=100 * point.bias_stderr, color=colour, marker=marker, capsize=2)
        right.barh(row, point.data_per_accepted, color=colour, height=0.6)
    left.set(xlabel="bias of the excess loss (%)", ylim=(-0.6, len(points) - 0.4))
    left.set_yticks(rows, [p.test for p in points])
    right.set(xlabel="examples per accepted move")
    right.tick_params(labelleft=False)


def _draw_curves(axes: Any) -> None:
    delta = np.linspace(-10.0, 10.0, 401)
    for (method, rho), colour, line in zip(_CURVES, style.COLOURS, ("-", "-", "--", ":"), strict=False):
        label = f"{'the paper' if method == 'ridge' else 'linear program'}, $\\rho_t = {rho:g}$"
        axes.plot(delta, np.abs(curve_error(method, rho, delta)), color=colour, linestyle=line, label=label)
    axes.set(xlabel=r"$\Delta$", ylabel=r"$|A(\Delta) - $ logistic$|$", yscale="log", xlim=(-10, 10), ylim=(1e-9, 1e-1))
    axes.legend(loc="upper center", ncols=2)


def _table(points: list[Point]) -> Table:
    headings = ("test", "bias, %", "error", "accep-\ntance", "mean\nbatch", "examples per\naccepted")
    table = table_of("acceptance tests on the noisy-label perceptron", *headings, left=("test",))
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
