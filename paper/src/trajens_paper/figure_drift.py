"""Figure "drift": weight RMS and accuracy against epochs, for a flat and a Gaussian distribution of the first model.

With a classification loss, which stays bounded while weights grow, a flat distribution, which the paper's moves imply,
gives a target that cannot be normalised: weights diffuse outwards for ever. A Gaussian first model, N(0, sigma_0^2),
makes it proper, and weights settle.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.table import Table

import trajens as tj
from trajens.errors import require
from trajens.files import write_atomically
from trajens.plots import style
from trajens.records import Records, mean_and_error
from trajens.run.progress import SeveralRuns
from trajens_paper import digits
from trajens_paper.claims import Claim, claim, difference, read_table
from trajens_paper.digits import Setup
from trajens_paper.frame import Job, Made, figure, table_of

_S = 50.0


@dataclass(frozen=True)
class Scale:
    """`runs` of `epochs` per model for each distribution of the first model, looked at `looks` times on the way."""

    setup: Setup
    tau: int
    runs: int
    epochs: int
    looks: int
    prior: float = 0.3

    def __post_init__(self) -> None:
        require(self.runs > 1, f"runs must be at least 2 for an error, got {self.runs}; take 6.")
        require(self.looks > 1, f"looks must be at least 2, got {self.looks}; take 8.")

    @property
    def priors(self) -> tuple[str | float, ...]:
        """The distributions of the first model: flat, and Gaussian of this width."""
        return "flat", self.prior


class Point(NamedTuple):
    """One look; the names are the columns of the CSV file. `growth` is that of the RMS since half as many epochs."""

    prior: str
    epoch: int
    weight_rms: float
    weight_rms_stderr: float
    vote_accuracy: float
    vote_accuracy_stderr: float
    loss: float
    loss_stderr: float
    growth: float
    growth_stderr: float


SCALES = {
    "quick": Scale(digits.SMALL, 4, 6, 8_000, 8, prior=1.0),
    "laptop": Scale(digits.PAPER, 8, 6, 5_000, 10),
    "paper": Scale(digits.PAPER, 16, 6, 250_000, 20),
}


@figure("drift", SCALES)
def figure_drift(job: Job[Scale]) -> Made:
    """Both distributions of the first model."""
    size = job.scale
    if job.scale_name == "paper":
        digits.require_gpu()
    points = list(_sample(job))
    remark = f"{size.setup.network}, tau = {size.tau}, s = {_S:g}; errors are standard errors over {size.runs} runs"
    return Made(_table(points), (remark,), points, tuple(_claims(points, size.runs)), lambda stem: _draw(points, stem))


def _sample(job: Job[Scale]) -> Iterator[Point]:
    scale = job.scale
    folder = job.out / "runs" / f"drift-{job.scale_name}-seed-{job.seed}"
    epochs = scale.epochs * scale.tau
    marks = [epochs * (k + 1) // scale.looks for k in range(scale.looks)]
    with SeveralRuns(epochs * len(scale.priors), "drift", job.progress) as show:
        for prior in scale.priors:
            here = folder / f"prior-{prior}"
            votes = _votes(here, scale, job.seed, prior, marks, show)
            show.finish(epochs)
            records = tj.StoredRun(here).records
            for mark in marks:
                yield _point(str(prior), mark, records, np.array(votes[mark]))


def _votes(
    folder: Path, scale: Scale, seed: int, prior: str | float, marks: list[int], show: SeveralRuns
) -> dict[int, list[float]]:
    """Accuracy of every run's vote at every mark; what was looked at before is kept beside the run."""
    file = folder / "votes.json"
    kept = read_table(file, "the votes of a run") if file.exists() else {}
    votes = {int(epoch): accuracies for epoch, accuracies in kept.items()}
    # The run is asked for its last look even if all are kept: that it is this run, and no other, is checked there.
    for mark in [mark for mark in marks if mark not in votes] or marks[-1:]:
        require(
            mark >= max(votes, default=0),
            f"'{folder}' must be a run with looks at {marks[0]}, {marks[1]}, .., got another; remove it.",
        )
        _go_on(folder, scale, seed, prior, mark, show)
        scores = digits.evaluated(folder, scale.setup)
        found = [float(score["vote_accuracy"]) for score in scores]
        if votes.get(mark) != found:
            votes[mark] = found
            write_atomically(file, json.dumps(votes).encode())
    return votes


def _go_on(folder: Path, scale: Scale, seed: int, prior: str | float, epoch: int, show: SeveralRuns) -> None:
    config = digits.config_of(
        folder.parent,
        scale.setup,
        tau=scale.tau,
        s=_S,
        prior=prior,
        chains=scale.runs,
        epochs=epoch,
        burn_in=0,
        records=max(1, scale.setup.records // scale.looks),
        seed=seed,
    )
    run = digits.sampled(folder, config, show)
    require(run.epochs == epoch, f"'{folder}' must hold a run of {epoch} epochs, got {run.epochs}; remove it.")


def _point(prior: str, epoch: int, records: Records, votes: np.ndarray) -> Point:
    def at(name: str, where: float) -> np.ndarray:
        return np.array([np.interp(where, records["epoch"][0], values) for values in records[name]])

    growth = at("weight_rms", epoch) / at("weight_rms", epoch / 2) - 1
    rms, loss = at("weight_rms", epoch), at("loss", epoch)
    return Point(
        prior, epoch, *mean_and_error(rms), *mean_and_error(votes), *mean_and_error(loss), *mean_and_error(growth)
    )


def _claims(points: list[Point], runs: int) -> Iterator[Claim]:
    flat = [p for p in points if p.prior == "flat"][-1]
    proper = [p for p in points if p.prior != "flat"][-1]
    text = "with a flat law, weights grow in the second half of the run (relative growth of their RMS)"
    yield claim("flat grows", text, flat.growth, flat.growth_stderr, ">", 0.0, runs - 1)
    text = "with a Gaussian law they grow less (difference of the growths)"
    less = difference((flat.growth, flat.growth_stderr), (proper.growth, proper.growth_stderr), runs)
    yield claim("Gaussian grows less", text, *less[:2], ">", 0.0, less.dof)
    text = "with a Gaussian law they are smaller at the end (ratio of the RMS)"
    ratio = proper.weight_rms / flat.weight_rms
    error = ratio * float(
        np.hypot(proper.weight_rms_stderr / proper.weight_rms, flat.weight_rms_stderr / flat.weight_rms)
    )
    yield claim("Gaussian is smaller", text, ratio, error, "<", 1.0, runs - 1)


def _draw(points: list[Point], stem: Path) -> tuple[Path, Path]:
    with style.journal_style():
        figure, (left, right) = style.panels(2)
        for i, prior in enumerate(dict.fromkeys(p.prior for p in points)):
            here = [p for p in points if p.prior == prior]
            label = "flat" if prior == "flat" else rf"Gaussian, $\sigma_0 = {prior}$"
            for axes, name in ((left, "weight_rms"), (right, "vote_accuracy")):
                values, errors = ([getattr(p, column) for p in here] for column in (name, f"{name}_stderr"))
                epochs = [p.epoch for p in here]
                axes.errorbar(epochs, values, errors, markerfacecolor="white", label=label, **style.look(i))
        left.set(xlabel=r"epochs $E$", ylabel="RMS weight", ylim=(0, None))
        right.set(xlabel=r"epochs $E$", ylabel="accuracy of the vote")
        left.legend(loc="best")
        for axes, letter in ((left, "a"), (right, "b")):
            axes.ticklabel_format(style="sci", axis="x", scilimits=(-3, 4), useMathText=True)
            axes.set_title(f"({letter})", loc="left", fontsize=9)
        return style.save(figure, stem)


def _table(points: list[Point]) -> Table:
    headings = ("prior", "epochs", "RMS weight", "error", "vote", "error", "loss")
    table = table_of("drift: a flat and a Gaussian law of the first model", *headings)
    for i, p in enumerate(points):
        numbers = (f"{p.weight_rms:.3f}", f"{p.weight_rms_stderr:.1g}", f"{p.vote_accuracy:.4f}")
        is_last = i + 1 < len(points) and points[i + 1].prior != p.prior
        table.add_row(
            p.prior, f"{p.epoch:,}", *numbers, f"{p.vote_accuracy_stderr:.1g}", f"{p.loss:.3f}", end_section=is_last
        )
    return table
