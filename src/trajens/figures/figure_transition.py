"""Figure "transition": is the fall of the loss with s a transition between two phases?

The paper leaves it open: "there appears to be a transition from high to low loss with s which could indicate
(dynamical) phase coexistence". Here paths are annealed up and down through a ladder of s, slowly and four times as
fast, for a flat and a Gaussian law of the first model. With the Gaussian one, which has an equilibrium, both branches
then rest at every s until they agree. Two phases that coexist make the loss of a path bimodal where it falls most
steeply, with a variance that is the square of half the jump; a crossover does not (`trajens.figures.coexistence`). The
same numbers of a loss that has two phases, `trajens.figures.golf_hole`, are drawn beside them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.table import Table

import trajens as tj
from trajens.errors import require
from trajens.figures import digits, transition_picture
from trajens.figures.annealing import Branches, Digits, Ladder, annealed
from trajens.figures.escape import papers_runs, still_growing
from trajens.figures.frame import Job, Made, figure, table_of
from trajens.figures.golf_hole import sampled_hole
from trajens.figures.resting import Rested, rested
from trajens.figures.transition_claims import Case, claims_of, verdict_of
from trajens.progress import SeveralRuns
from trajens.records import mean_and_error


@dataclass(frozen=True)
class Scale:
    """What is annealed: `runs` for every law of the first model, every tau and two speeds.

    Attributes
    ----------
    seen : Digits
    taus : tuple of int
    strengths : tuple of float
        Levels of s tau, which is what counts for short paths: their models move together.
    runs : int
    epochs : int
        Per model at every level on the slow way, a quarter of it on the fast one.
    rest : int
        Epochs per model at every level from then on, half of which count.
    looks : int
        Records at every level of an annealing, and twice as many of a rest.
    """

    seen: Digits
    taus: tuple[int, ...]
    strengths: tuple[float, ...]
    runs: int
    epochs: int
    rest: int
    looks: int = 20
    is_in_results: bool = False
    """Whether the paper's runs below results/mnist are looked at besides, where they exist."""

    def __post_init__(self) -> None:
        require(self.runs > 1, f"runs must be at least 2 for an error, got {self.runs}; take 6.")
        require(len(self.strengths) > 2, f"strengths must be 3 or more, got {len(self.strengths)}; take 6.")
        require(self.epochs % FASTER == 0, f"epochs must be a multiple of {FASTER}, got {self.epochs}; take 480.")

    def ladder(self, tau: int, is_slow: bool) -> Ladder:
        """The levels of one tau, and how long at each."""
        return Ladder(tuple(x / tau for x in self.strengths), self.epochs // (1 if is_slow else FASTER), self.looks)


class Point(NamedTuple):
    """One level of s; the names are the columns of the CSV file.

    `kind` is "fast", "slow" (annealing) or "rest", `way` is "up", "down" or "both"; variances are those of a rest, and
    `response` is -d<L>/ds between the levels next to it.
    """

    prior: str
    tau: int
    kind: str
    way: str
    s: float
    loss: float
    loss_stderr: float
    weight_rms: float
    weight_rms_stderr: float
    virial: float
    virial_stderr: float
    variance: float
    variance_stderr: float
    response: float


FASTER = 4
_STRENGTHS = (15.0, 25.0, 40.0, 55.0, 75.0, 110.0)
_HOLES, _HOLE_EPOCHS = 24, 4_000
SCALES = {
    "quick": Scale(Digits(64, 4, 3, sigma=0.3, prior=1.0), (1, 2, 4), (15.0, 25.0, 40.0, 60.0, 85.0), 6, 160, 8_000),
    "laptop": Scale(Digits(512, 28, 0, sigma=0.05, prior=0.3), (1, 2), _STRENGTHS, 6, 160, 4_000, is_in_results=True),
    "paper": Scale(
        Digits(60_000, 28, 0, sigma=0.05, prior=0.3),
        (1, 2, 4, 8, 16, 32),
        _STRENGTHS,
        8,
        2_000,
        40_000,
        is_in_results=True,
    ),
}


@figure("transition", SCALES)
def figure_transition(job: Job[Scale]) -> Made:
    """Both laws of the first model, every tau, and the loss that has two phases."""
    scale = job.scale
    if job.scale_name == "paper":
        digits.require_gpu()
    home = job.out / "runs" / f"transition-{job.scale_name}-seed-{job.seed}"
    hole = sampled_hole(home / "golf-hole", _HOLES, _HOLE_EPOCHS, job.seed)
    cases = list(_cases(job, home))
    points = [point for case in cases for point in _points(case)]
    verdicts = [f"{_name(case)}: {verdict_of(case)}" for case in cases]
    remarks = (
        f"{scale.seen.network}, {scale.seen.images} images, sigma = {scale.seen.sigma:g}, Gaussian prior of "
        f"{scale.seen.prior:g}; errors are standard errors over {scale.runs} runs",
        *verdicts,
    )
    claims = [*claims_of(cases, hole), *(still_growing(papers_runs()) if scale.is_in_results else ())]
    return Made(
        _table(cases),
        remarks,
        points,
        tuple(claims),
        lambda stem: transition_picture.draw(cases, hole, stem),
    )


def _cases(job: Job[Scale], home: Path) -> Iterator[Case]:
    """Every law of the first model and every tau, sampled where it is missing."""
    scale, seen, problem = job.scale, job.scale.seen, job.scale.seen.problem
    lengths = [scale.ladder(1, is_slow).length for is_slow in (True, False)]
    total = sum(scale.taus) * (2 * sum(lengths) + scale.rest)
    with SeveralRuns(total, "annealing", job.progress) as show:
        for i, prior in enumerate((seen.prior, None)):
            for tau in scale.taus:
                # Equal seeds would give them the same random numbers.
                seeds = np.random.SeedSequence([job.seed, i, tau]).generate_state(3).tolist()
                target = tj.Target(problem, tau, seen.sigma, 1.0, prior)
                stem = f"{'flat' if prior is None else prior}-tau-{tau}"
                found: dict[str, Any] = {}
                for speed, seed in zip(("slow", "fast"), seeds, strict=False):
                    is_slow = speed == "slow"
                    ladder = scale.ladder(tau, is_slow)
                    settings = {"chains": scale.runs, "seed": seed, "progress": show}
                    found[speed] = annealed(home / f"{stem}-{speed}", target, seen, ladder, is_slow, **settings)
                    show.finish(ladder.length * tau)
                rest = None
                if prior is not None:
                    settings = {"seed": seeds[-1], "progress": show}
                    looks = 2 * scale.looks
                    rest = rested(home / f"{stem}-rest", target, seen, found["slow"], scale.rest, looks, **settings)
                    show.finish(scale.rest * tau)
                yield Case(target, found["slow"], found["fast"], rest)


def _name(case: Case) -> str:
    return f"{'flat' if case.is_flat else f'Gaussian {case.target.prior:g}'}, tau = {case.target.tau}"


def _points(case: Case) -> Iterator[Point]:
    prior = "flat" if case.target.prior is None else f"{case.target.prior:g}"
    nothing = (float("nan"),) * 2

    def of(kind: str, seen: Branches | Rested, loss: np.ndarray, virial: np.ndarray | None) -> Iterator[Point]:
        for way, w in (("up", 0), ("down", 1)):
            for k, s in enumerate(seen.s):
                numbers = (*mean_and_error(loss[w, k]), *mean_and_error(seen.weight_rms[w, k]))
                of_virial = nothing if virial is None else mean_and_error(virial[w, k])
                yield Point(prior, case.target.tau, kind, way, float(s), *numbers, *of_virial, *nothing, nothing[0])

    yield from of("fast", case.fast, case.fast.loss, None)
    yield from of("slow", case.slow, case.slow.loss, case.virial)
    rest = case.rest
    if rest is None:
        return
    yield from of("rest", rest, rest.loss.mean(-1), rest.virial)
    curve, response = rest.curve, -np.gradient(rest.curve.loss * case.target.tau, rest.s)
    both = (np.concatenate(values, axis=-1) for values in (rest.weight_rms, rest.virial))
    weights, virials = both
    for k, s in enumerate(rest.s):
        yield Point(
            prior,
            case.target.tau,
            "rest",
            "both",
            float(s),
            float(curve.loss[k]),
            float(curve.loss_stderr[k]),
            *mean_and_error(weights[k]),
            *mean_and_error(virials[k]),
            float(curve.variance[k]),
            float(curve.variance_stderr[k]),
            float(response[k]),
        )


def _table(cases: list[Case]) -> Table:
    headings = ("prior", "tau", "s", "loss up", "down", "at rest", "from up", "from down", "Var L", "RMS")
    table = table_of("transition: the loss through a ladder of s", *headings)
    for case in cases:
        slow, rest = case.slow.loss.mean(-1), case.rest
        for k, s in enumerate(case.slow.s):
            settled = ["", "", "", ""]
            if rest is not None:
                ends = rest.loss.mean((-2, -1))[:, k]
                settled = [f"{value:.3f}" for value in (rest.curve.loss[k], *ends)] + [f"{rest.curve.variance[k]:.3g}"]
            weights = (case.slow if rest is None else rest).weight_rms[:, k].mean()
            table.add_row(
                "flat" if case.is_flat else f"{case.target.prior:g}",
                str(case.target.tau),
                f"{s:g}",
                f"{slow[0, k]:.3f}",
                f"{slow[1, k]:.3f}",
                *settled,
                f"{weights:.2f}",
                end_section=k + 1 == len(case.slow.s),
            )
    return table
