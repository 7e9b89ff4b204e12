"""What the runs of the figure "transition" say: claims with errors over runs, and a verdict in words.

With a Gaussian distribution of the first model: coexistence, if the loss at the steepest point has the variance of two
phases; crossover, if it has not; and neither as long as the two branches of the annealing differ at rest, or levels are
too far apart. With a flat distribution: drift, if weights are larger when s is back.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from trajens.records import mean_and_error
from trajens.thermo.fluctuations import variance_of
from trajens_paper.claims import Claim, Measured, claim, difference, errors_apart
from trajens_paper.coexistence import (
    FLAT_BIMODALITY,
    FLAT_SHARE,
    bimodality,
    exponent,
    jump,
    mean,
    over_runs,
    share,
)
from trajens_paper.steepest import Gap, Ladders
from trajens_paper.transition_case import Case


def share_of_fall(ladders: Ladders) -> float:
    """`share` at the steepest point."""
    return share(ladders.law.variance, ladders.fall)


def share_of_jump(hole: np.ndarray) -> Measured:
    """The `share` of losses (runs, draws) that jump between 1 and 0."""
    return over_runs(lambda loss: share(variance_of(loss), 1.0), hole)


def hysteresis(s: np.ndarray, loss: np.ndarray) -> np.ndarray:
    """Area between the two branches (2, levels, runs) over the width of the ladder, in ln s: a loss, for every run."""
    return _mean_along(s, loss[0] - loss[1])


def _mean_along(s: np.ndarray, loss: np.ndarray) -> np.ndarray:
    """The mean of (levels, runs) over ln s."""
    place = np.log(s)
    return np.asarray(np.trapezoid(loss, place, axis=0) / (place[-1] - place[0]))


def claims_of(cases: list[Case], hole: np.ndarray) -> Iterator[Claim]:
    """All claims of the figure; `hole` are losses (runs, draws) of a distribution with two phases."""
    text = "a loss with two phases is found to have two peaks (bimodality)"
    yield _claim("two phases: peaks", text, over_runs(bimodality, hole), ">", FLAT_BIMODALITY)
    text = "and a variance of that size (share of the jump from 1 to 0)"
    yield _claim("two phases: variance", text, share_of_jump(hole), ">", FLAT_SHARE)
    for case in cases:
        yield from _of_flat(case) if case.is_flat else _of_rest(case)
    # A peak in a gap would be missed.
    whole = {case.tau: case.ladders for case in cases if not case.is_flat and not case.ladders.gaps}
    if len(whole) > 1:
        variances = [ladders.measured(lambda some: some.law.variance) for ladders in whole.values()]
        text = "Gaussian: Var(L / tau) at the steepest point falls with tau (exponent; 0: two phases, -1: many parts)"
        yield _claim("growth with tau", text, exponent(np.array(list(whole)), variances), "<", 0.0)


def _claim(name: str, text: str, number: Measured, relation: str, reference: float) -> Claim:
    return claim(name, text, number.value, number.error, relation, reference, number.dof)


def _of_rest(case: Case) -> Iterator[Claim]:
    """Claims with a Gaussian distribution."""
    rest, tau, ladders = case.rest, case.tau, case.ladders
    assert rest is not None
    yield from _meeting(ladders, rest.loss)
    text = f"Gaussian, tau = {tau}: slower annealing has less hysteresis (fast - slow)"
    loops = [hysteresis(seen.s, seen.loss) for seen in (case.fast, case.slow)]
    yield _claim(f"slower, tau = {tau}", text, _apart(*loops), ">", 0.0)
    text = f"Gaussian, tau = {tau}: the hysteresis of the annealing goes away at rest (slow - at rest)"
    up, down = (_mean_along(rest.s, way) for way in rest.loss.mean(-1))
    yield _claim(f"lag, tau = {tau}", text, _apart(loops[1], up - down), ">", 0.0)
    level = ladders.level
    text = f"{_here(ladders)}: the virial of paths at rest is that of equilibrium"
    yield _claim(f"virial, tau = {tau}", text, mean(rest.virial[:, level].ravel()), "=", 1.0)
    yield from _phases(ladders)


def claims_at_rest(ladders: Ladders) -> Iterator[Claim]:
    """Whether both branches have met, and whether there are two phases; of the runs, the first half are from below."""
    yield from _meeting(ladders, np.swapaxes(np.stack(np.split(ladders.loss, 2)), 1, 2))
    yield from _phases(ladders)


def _here(ladders: Ladders) -> str:
    return f"Gaussian, tau = {ladders.tau}, s = {ladders.s[ladders.level]:.4g}"


def _meeting(ladders: Ladders, loss: np.ndarray) -> Iterator[Claim]:
    """Of losses (2, levels, runs, draws): both branches agree, and nothing changes any more."""
    tau, level = ladders.tau, ladders.level
    text = f"Gaussian, tau = {tau}: at rest both branches agree (mean difference of their losses)"
    # At rest the two branches are chains of their own.
    up, down = (_mean_along(ladders.s, way) for way in loss.mean(-1))
    yield _claim(f"branches agree, tau = {tau}", text, _apart(up, down), "=", 0.0)
    text = f"{_here(ladders)}: at rest both branches agree at the level next to the steepest point"
    yield _claim(f"branches agree there, tau = {tau}", text, _apart(*loss[:, level].mean(-1)), "=", 0.0)
    text = f"Gaussian, tau = {tau}: at rest the loss stays (mean difference of an earlier and a later half)"
    early, late = np.split(loss[..., : loss.shape[-1] // 2 * 2].mean(1).reshape(2 * len(up), -1), 2, axis=-1)
    yield _claim(f"loss stays, tau = {tau}", text, mean((early - late).mean(1)), "=", 0.0)


def _phases(ladders: Ladders) -> Iterator[Claim]:
    """One phase or two."""
    tau, at = ladders.tau, f"Gaussian, tau = {ladders.tau}, s = {ladders.steepest:.4g}"
    if ladders.gaps:
        gap = _widest(ladders)
        text = (
            f"Gaussian, tau = {tau}, between s = {ladders.s[gap.low]:.4g} and {ladders.s[gap.high]:.4g}, which are not "
            "linked: the variance cannot be that of two phases (share of the fall at most)"
        )
        bound = ladders.measured(lambda some: (some.fall_in(gap) / some.fall) ** 2)
        yield _claim(f"variance at most, tau = {tau}", text, bound, "<", FLAT_SHARE)
        at += ", the steepest that was seen"
    text = f"{at}: the loss is less two-peaked than a flat law (bimodality; 1 for two phases, 1/3 for a normal law)"
    peaks = ladders.measured(lambda some: bimodality(*some.law))
    yield _claim(f"peaks, tau = {tau}", text, peaks, "<", FLAT_BIMODALITY)
    text = f"{at}: its variance is not that of two phases (share of the fall; 1 for two phases)"
    yield _claim(f"variance, tau = {tau}", text, ladders.measured(share_of_fall), "<", FLAT_SHARE)


def _widest(ladders: Ladders) -> Gap:
    """The gap in which the loss falls most."""
    return max(ladders.gaps, key=ladders.fall_in)


def at_most(number: Measured) -> float:
    """What it does not exceed, with the confidence of claims."""
    return number.value + errors_apart(number.dof) * number.error


def _apart(a: np.ndarray, b: np.ndarray) -> Measured:
    return difference(mean_and_error(a), mean_and_error(b), len(a))


def _of_flat(case: Case) -> Iterator[Claim]:
    """Claims with a flat distribution, at the smallest s: there and back."""
    at = f"flat, tau = {case.tau}"
    growth = [seen.weight_rms[1, 0] / seen.weight_rms[0, 0] for seen in (case.slow, case.fast)]
    text = f"{at}: weights are larger when s is back (ratio of their RMS)"
    yield _claim(f"weights grow, tau = {case.tau}", text, mean(growth[0]), ">", 1.0)
    text = f"{at}: the ratio is larger on the slower way (slow - fast)"
    yield _claim(f"ratio by speed, tau = {case.tau}", text, _apart(*growth), ">", 0.0)
    text = f"{at}: weights at the end are larger on the slower way (slow - fast)"
    apart = _apart(case.slow.weight_rms[1, 0], case.fast.weight_rms[1, 0])
    yield _claim(f"weights by speed, tau = {case.tau}", text, apart, ">", 0.0)
    text = f"{at}: the loss at the same s is higher when s is back (difference)"
    yield _claim(f"loss has risen, tau = {case.tau}", text, mean(case.slow.loss[1, 0] - case.slow.loss[0, 0]), ">", 0.0)
    text = f"{at}: the virial is below that of equilibrium"
    yield _claim(f"flat virial, tau = {case.tau}", text, mean(case.virial[1, 0]), "<", 1.0)


def verdict_of(case: Case) -> str:
    """Coexistence, crossover or drift, in words; or that it is not settled."""
    verdicts = {c.name.split(",")[0]: c.verdict for c in (_of_flat(case) if case.is_flat else _of_rest(case))}
    if case.is_flat:
        is_drift = verdicts["weights grow"] == "confirmed"
        return "drift of the weights, no equilibrium to have phases in" if is_drift else "not settled"
    if verdicts["virial"] != "consistent":
        return _unmet(verdicts) or "not settled, the virial is not that of equilibrium"
    return _phases_in_words(case.ladders, verdicts)


def verdict_at_rest(ladders: Ladders) -> str:
    """Coexistence or crossover, of ladders whose first half is the branch up; or that it is not settled."""
    return _phases_in_words(ladders, {c.name.split(",")[0]: c.verdict for c in claims_at_rest(ladders)})


def _unmet(verdicts: dict[str, str]) -> str | None:
    """Why there is no equilibrium yet."""
    if "refuted" in (verdicts["branches agree"], verdicts["branches agree there"]):
        return "not settled, the branches still differ at rest"
    if verdicts["loss stays"] != "consistent":
        return "not settled, the loss still changes at rest"
    return None


def _phases_in_words(ladders: Ladders, verdicts: dict[str, str]) -> str:
    unmet = _unmet(verdicts)
    if unmet is not None:
        return unmet
    if verdicts["variance"] == "refuted":
        return "coexistence"
    largest = at_most(ladders.measured(lambda some: jump(some.law.variance)))
    hidden = {gap: at_most(ladders.measured(partial(Ladders.fall_in, gap=gap))) for gap in ladders.gaps}
    if max(hidden.values(), default=0.0) > largest:
        where = " and between ".join(f"{ladders.s[gap.low]:.4g} and {ladders.s[gap.high]:.4g}" for gap in hidden)
        apart = " and ".join(f"{fall:.2g}" for fall in hidden.values())
        return (
            f"not settled between s = {where}, which are not linked; two phases there would be less than {apart} apart"
        )
    if verdicts["variance"] != "confirmed":
        return "undecided"
    words = f"crossover; two phases of equal weight would be less than {largest:.2g} apart"
    if verdicts["peaks"] == "confirmed":
        return words
    is_open = "undecided" if verdicts["peaks"] == "undecided" else "possible"
    return f"{words}, and two peaks are {is_open}"
