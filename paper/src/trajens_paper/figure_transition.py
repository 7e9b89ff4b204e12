"""Figure "transition": is the fall of the loss with s a transition between two phases?

The paper leaves it open: "there appears to be a transition from high to low loss with s which could indicate
(dynamical) phase coexistence". Here paths are annealed up and down through a ladder of s, slowly and four times as
fast, for a flat and a Gaussian distribution of the first model. With the Gaussian one, which has an equilibrium, both
branches then rest at every s until they agree. Two phases that coexist make the loss of a path bimodal where it falls
most steeply, with a variance that is the square of half the jump; a crossover does not (`trajens_paper.coexistence`).
The same numbers of a loss that has two phases, `trajens_paper.golf_hole`, are drawn beside them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.table import Table

from trajens.records import mean_and_error
from trajens.run.progress import SeveralRuns
from trajens_paper import digits, transition_picture
from trajens_paper.annealing import Branches
from trajens_paper.escape import papers_runs, still_growing
from trajens_paper.exchanging import Exchanging
from trajens_paper.frame import RESULTS, Job, Made, figure, table_of
from trajens_paper.golf_hole import sampled_hole
from trajens_paper.resting import Rested
from trajens_paper.transition_case import Case, Sampling
from trajens_paper.transition_claims import claims_of, verdict_at_rest, verdict_of
from trajens_paper.transition_hypotheses import in_words, round_trips
from trajens_paper.transition_scale import LADDERS, SCALES, Scale


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


_HOLES, _HOLE_EPOCHS = 24, 4_000


@figure("transition", SCALES)
def figure_transition(job: Job[Scale]) -> Made:
    """Both distributions of the first model, every tau, and the loss that has two phases."""
    scale = job.scale
    home = job.out / "runs" / f"transition-{job.scale_name}-seed-{job.seed}"
    cases = list(_cases(job, home))
    hole = sampled_hole(home / "golf-hole", _HOLES, _HOLE_EPOCHS, job.seed)
    points = [point for case in cases for point in _points(case)]
    verdicts = [f"{_name(case)}: {verdict_of(case)}" for case in cases]
    remarks = (
        f"{scale.seen.network}, {scale.seen.images} images, sigma = {scale.seen.sigma:g}, Gaussian prior of "
        f"{scale.seen.prior:g}; errors are standard errors over {scale.runs} runs",
        *verdicts,
        *in_words([case.ladders for case in cases if not case.is_flat]),
        *(_of_sittings(job.scale_name) if scale.is_in_results else ()),
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
    """Every distribution of the first model and every tau, sampled where it is missing."""
    scale = job.scale
    each = [Sampling(home, scale, job.seed, prior, tau) for prior in (scale.seen.prior, None) for tau in scale.taus]
    folders = (home, Path.cwd() / RESULTS / "transition") if scale.is_in_results else (home,)
    found = [sampling.kept(*folders) for sampling in each]
    if job.scale_name == "paper" and None in found:
        digits.require_gpu()
    with SeveralRuns(sum(sampling.length for sampling in each), "annealing", job.progress) as show:
        for sampling, case in zip(each, found, strict=True):
            if case is not None:
                show.finish(sampling.length)
            yield sampling.sampled(show) if case is None else case


def _of_sittings(scale: str) -> Iterator[str]:
    """What is said of ladders whose paths exchange, of the controls and of this scale, as far as they were sampled."""
    for name, asked in (LADDERS["control"] | LADDERS.get(scale, {})).items():
        sittings = Exchanging(Path.cwd() / RESULTS / "transition", name, asked)
        if sittings.has_begun:
            found = sittings.found()
            trips, ladders = round_trips(found), found.ladders
            yield f"exchange, {name}: {verdict_at_rest(ladders)}; {trips.value:.2g} +- {trips.error:.1g} round trips"
            yield from in_words([ladders])


def _name(case: Case) -> str:
    return f"{'flat' if case.is_flat else f'Gaussian {case.prior:g}'}, tau = {case.tau}"


def _points(case: Case) -> Iterator[Point]:
    prior = "flat" if case.is_flat else f"{case.prior:g}"
    nothing = (float("nan"),) * 2

    def of(kind: str, seen: Branches | Rested, loss: np.ndarray, virial: np.ndarray | None) -> Iterator[Point]:
        for way, w in (("up", 0), ("down", 1)):
            for k, s in enumerate(seen.s):
                numbers = (*mean_and_error(loss[w, k]), *mean_and_error(seen.weight_rms[w, k]))
                of_virial = nothing if virial is None else mean_and_error(virial[w, k])
                yield Point(prior, case.tau, kind, way, float(s), *numbers, *of_virial, *nothing, nothing[0])

    yield from of("fast", case.fast, case.fast.loss, None)
    yield from of("slow", case.slow, case.slow.loss, case.virial)
    rest = case.rest
    if rest is None:
        return
    yield from of("rest", rest, rest.loss.mean(-1), rest.virial)
    curve, response = rest.curve, -np.gradient(rest.curve.loss * case.tau, rest.s)
    both = (np.concatenate(values, axis=-1) for values in (rest.weight_rms, rest.virial))
    weights, virials = both
    for k, s in enumerate(rest.s):
        yield Point(
            prior,
            case.tau,
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
                "flat" if case.is_flat else f"{case.prior:g}",
                str(case.tau),
                f"{s:g}",
                f"{slow[0, k]:.3f}",
                f"{slow[1, k]:.3f}",
                *settled,
                f"{weights:.2f}",
                end_section=k + 1 == len(case.slow.s),
            )
    return table
