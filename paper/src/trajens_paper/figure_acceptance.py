"""Figure "acceptance": what every acceptance test of the library costs, and how far from exact its distribution is.

(a) Bias of the excess loss <L>/tau - L_min on two perceptrons, whose exact value is known.
(b) Examples read per accepted move.
(c) Error of the acceptance curves: A(Delta) of a minibatch Barker test, with its table for X_corr and noise rho,
    against the logistic 1 / (1 + exp(-Delta)).
(d) The bias that the audit of the decisions predicts, beta d ln(excess) / d ln s, against the measured one.

"noisy labels": N = 256 points, labels with noise 1, tau = 4, sigma = 0.1, s = 150. Batches are a large part of the data
there, so every shortcut shows. "heavy tails": 4 parameters, N = 300 points, inputs and noise of Student's t
distribution with 4 degrees of freedom, tau = 10, sigma = 0.15, s = 40, half of the parameters redrawn at a time: means
of few such loss differences are far from normal.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.table import Table

import trajens as tj
from trajens.acceptance import AcceptanceTest
from trajens.acceptance.barker import correction_table
from trajens.plots import style
from trajens.run.progress import SeveralRuns
from trajens_paper.claims import Claim, claim
from trajens_paper.frame import Job, Made, figure, kept_run, table_of

_CHUNK = 16
_PAPERS, _OURS = "the paper's scheme", "tolerance 0.01"
_CURVES = (("ridge", 1.0), ("lp", 1.0), ("lp", 1.2), ("lp", 1.3))
_NOISY, _HEAVY = "noisy labels", "heavy tails"


@dataclass(frozen=True)
class Scale:
    """How much is sampled: chains of so many epochs, a fifth of it burn-in, with so many records."""

    chains: int
    epochs: int
    records: int = 60


class Case(NamedTuple):
    """A perceptron and how it is sampled."""

    x: np.ndarray
    y: np.ndarray
    tau: int
    sigma: float
    s: float
    fraction: float

    def exact(self, factor: float = 1.0) -> tj.exact.ExactPaths:
        """The exact distribution, also of another s."""
        return tj.exact.perceptron(self.x, self.y, self.tau, self.sigma, self.s * factor)

    @property
    def response(self) -> float:
        """The derivative d ln(excess) / d ln s."""
        step = 0.01
        return float(np.log(self.exact(1 + step).excess / self.exact(1 - step).excess) / (2 * step))


class Point(NamedTuple):
    """One test; the names are the columns of the CSV file. Biases are relative to the exact excess loss."""

    problem: str
    test: str
    bias: float
    bias_stderr: float
    bias_deciding: float
    tilt_error: float
    tilt_error_stderr: float
    bias_predicted: float
    acceptance: float
    batch_size: float
    data_per_accepted: float
    data_per_accepted_stderr: float


SCALES = {"quick": Scale(384, 4000), "laptop": Scale(2048, 12_000), "paper": Scale(4096, 16_000)}


def cases() -> dict[str, Case]:
    """The problems, by name."""
    data = tj.datasets.perceptron(seed=0, noise=1.0)
    rng = np.random.default_rng(3)
    x = rng.standard_t(4, (300, 4))
    y = x @ rng.standard_normal(4) + rng.standard_t(4, 300)
    return {
        _NOISY: Case(data.x, data.y, 4, 0.1, 150.0, 1.0),
        _HEAVY: Case(x.astype(np.float32), y.astype(np.float32), 10, 0.15, 40.0, 0.5),
    }


def tests() -> dict[str, AcceptanceTest]:
    """Every test of the library, by the name it has in the figure; a number without a name is rho_t."""
    return {
        "full-data Metropolis": tj.Metropolis(),
        "full-data Barker": tj.Barker(),
        _PAPERS: tj.paper_test(_CHUNK),
        "minibatch Barker, 1": tj.MinibatchBarker(_CHUNK),
        "sequential penalty, 1.35": tj.Penalty(_CHUNK, plan=False),
        "planned penalty, 1.35": tj.Penalty(_CHUNK, rho=1.35, tolerance=None, stages=1),
        "two stages, 1.35": tj.Penalty(_CHUNK, rho=1.35, tolerance=None),
        "tolerance 0.03": tj.Penalty(_CHUNK, tolerance=0.03),
        _OURS: tj.Penalty(_CHUNK),
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
    scale, runs = job.scale, tests()
    folder = job.out / "runs" / f"acceptance-{job.scale_name}-seed{job.seed}"
    with SeveralRuns(scale.epochs * len(runs) * len(cases()), "acceptance", job.progress) as show:
        for problem, case in cases().items():
            data = tj.datasets.PerceptronData(case.x, case.y)
            target = tj.Target(data.problem(), case.tau, case.sigma, case.s)
            for name, test in runs.items():
                run = kept_run(
                    folder / f"{_slug(problem)}-{_slug(name)}-{scale.chains}-chains-{scale.epochs}-epochs",
                    target,
                    scale.epochs,
                    show,
                    chains=scale.chains,
                    seed=job.seed,
                    burn_in=scale.epochs // 5,
                    move=tj.SingleSite(case.fraction),
                    acceptance=test,
                    scan="random",
                    records=scale.records,
                    # Near the best model, from where it is not far to equilibrium.
                    initial=np.linalg.lstsq(case.x, case.y, rcond=None)[0],
                )
                show.finish(scale.epochs)
                yield _point(problem, name, run, case)


def _slug(name: str) -> str:
    return name.replace("'", "").replace(", ", "-").replace(" ", "-")


def _point(problem: str, name: str, run: tj.Run, case: Case) -> Point:
    m, exact = run.summary(), case.exact()
    per_chain = [run.summary(chain) for chain in range(run.settings.chains)]
    batch, acceptance = np.array([[c["batch_size"], c["acceptance"]] for c in per_chain]).T
    ratio = m["batch_size"] / m["acceptance"]
    # Of a ratio of two means: the spread of what is left of one after the other is taken off.
    rest = (batch - ratio * acceptance) / m["acceptance"]
    return Point(
        problem,
        name,
        (m["loss"] - exact.loss) / exact.excess,
        m["loss_stderr"] / exact.excess,
        (m["loss_deciding"] - exact.loss) / exact.excess,
        m["tilt_error"],
        m["tilt_error_stderr"],
        m["tilt_error"] * case.response,
        m["acceptance"],
        m["batch_size"],
        ratio,
        float(rest.std(ddof=1) / np.sqrt(len(rest))),
    )


def _claims(points: list[Point]) -> tuple[Claim, ...]:
    found = [
        claim(
            f"bias: {p.problem}, {p.test}",
            f"The excess loss has no bias: {p.problem}, {p.test}.",
            p.bias,
            p.bias_stderr,
            "=",
            0.0,
        )
        for p in points
    ]
    for problem, group in _by_problem(points).items():
        of = {p.test: p for p in group}
        papers, ours = of[_PAPERS], of[_OURS]
        text = f"The excess loss is off by less than the tolerance: {problem}, {_OURS}."
        found.append(claim(f"within tolerance: {problem}", text, abs(ours.bias), ours.bias_stderr, "<", 0.01))
        ratio = ours.data_per_accepted / papers.data_per_accepted
        error = ratio * math.hypot(*(p.data_per_accepted_stderr / p.data_per_accepted for p in (ours, papers)))
        text = f"Examples per accepted move, {_OURS} over the paper's scheme: {problem}."
        found.append(claim(f"data per accepted move: {problem}", text, ratio, error, "<", 1.0))
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

        figure = Figure(figsize=(2 * style.COLUMN_WIDTH, 5.4))
        grid = figure.add_gridspec(2, 2)
        left = figure.add_subplot(grid[0, 0])
        right = figure.add_subplot(grid[0, 1], sharey=left)
        curves, audits = figure.add_subplot(grid[1, 0]), figure.add_subplot(grid[1, 1])
        _draw_tests(left, right, points)
        _draw_curves(curves)
        _draw_audits(audits, points)
        for axes, letter in ((left, "(a)"), (right, "(b)"), (curves, "(c)"), (audits, "(d)")):
            axes.set_title(letter, loc="left", fontsize=9)
        return style.save(figure, stem)


def _by_problem(points: list[Point]) -> dict[str, list[Point]]:
    return {
        problem: [p for p in points if p.problem == problem] for problem in dict.fromkeys(p.problem for p in points)
    }


def _draw_tests(left: Any, right: Any, points: list[Point]) -> None:
    left.axvline(0.0, color="black", linewidth=0.6)
    groups = _by_problem(points)
    for i, (problem, group) in enumerate(groups.items()):
        rows = np.arange(len(group))[::-1] + 0.2 - 0.4 * i
        kind = {"linestyle": "none", "capsize": 2, "label": problem, **style.look(i)}
        left.errorbar([100 * p.bias for p in group], rows, xerr=[100 * p.bias_stderr for p in group], **kind)
        right.barh(rows, [p.data_per_accepted for p in group], color=style.COLOURS[i], height=0.35)
    names = [p.test for p in next(iter(groups.values()))]
    left.set(xlabel="bias of the excess loss (%)", ylim=(-0.6, len(names) - 0.4))
    left.set_yticks(np.arange(len(names))[::-1], names)
    left.legend(loc="lower right", fontsize=7)
    right.set(xlabel="examples per accepted move")
    right.tick_params(labelleft=False)


def _draw_audits(axes: Any, points: list[Point]) -> None:
    for i, (problem, group) in enumerate(_by_problem(points).items()):
        audited = [p for p in group if np.isfinite(p.tilt_error_stderr)]
        x = [100 * p.bias_predicted for p in audited]
        xerr = [100 * abs(p.bias_predicted / p.tilt_error) * p.tilt_error_stderr for p in audited]
        y, yerr = ([100 * getattr(p, name) for p in audited] for name in ("bias", "bias_stderr"))
        axes.errorbar(x, y, yerr, xerr, linestyle="none", label=problem, **style.look(i))
    axes.axline((0.0, 0.0), slope=1.0, color="black", linewidth=0.6)
    axes.set(xlabel="bias predicted by the audit (%)", ylabel="measured (%)")
    axes.legend(loc="upper left", fontsize=7)


def _draw_curves(axes: Any) -> None:
    delta = np.linspace(-10.0, 10.0, 401)
    for (method, rho), colour, line in zip(_CURVES, style.COLOURS, ("-", "-", "--", ":"), strict=False):
        label = f"{'the paper' if method == 'ridge' else 'linear program'}, $\\rho_t = {rho:g}$"
        axes.plot(delta, np.abs(curve_error(method, rho, delta)), color=colour, linestyle=line, label=label)
    axes.set(xlabel=r"$\Delta$", ylabel=r"$|A(\Delta) - $ logistic$|$", yscale="log", xlim=(-10, 10), ylim=(1e-9, 1e-1))
    axes.legend(loc="upper center", fontsize=6.5)


def _table(points: list[Point]) -> Table:
    headings = ("test", "bias, %", "error", "pre-\ndicted", "accep-\ntance", "mean\nbatch", "examples per\naccepted")
    table = table_of("acceptance tests on two perceptrons", *headings, left=("test",))
    for problem, group in _by_problem(points).items():
        table.add_section()
        table.add_row(problem, style="italic")
        for p in group:
            table.add_row(
                p.test,
                f"{100 * p.bias:+.2f}",
                f"{100 * p.bias_stderr:.2f}",
                f"{100 * p.bias_predicted:+.2f}" if np.isfinite(p.bias_predicted) else "",
                f"{p.acceptance:.3f}",
                f"{p.batch_size:.1f}",
                f"{p.data_per_accepted:.0f}",
            )
    return table
