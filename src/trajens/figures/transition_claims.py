"""What the runs of the figure "transition" say: claims with errors over runs, and a verdict in words.

With a Gaussian law of the first model: coexistence, if the loss at the steepest point has two peaks or a variance of
that size; crossover, if it has not; and neither as long as the two branches of the annealing differ at rest. With a
flat law: drift, if weights grow on the way and the slower the way, the more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from trajens.figures.claims import Claim, Measured, claim, difference
from trajens.figures.coexistence import (
    FLAT_BIMODALITY,
    FLAT_SHARE,
    bimodality,
    exponent,
    jump,
    mean,
    over_runs,
    share,
)
from trajens.figures.steepest import Ladders, Law
from trajens.figures.transition_case import Case
from trajens.records import mean_and_error
from trajens.thermo.curve import variance_of


def ladders_of(case: Case) -> Ladders:
    """Losses of paths at rest, both branches together."""
    assert case.rest is not None
    # From (2, levels, runs, draws) to (2 runs, levels, draws).
    return Ladders(case.rest.s, np.concatenate(np.swapaxes(case.rest.loss, 1, 2)), case.tau)


def fall_of(loss: np.ndarray) -> float:
    """Of the mean of losses (runs, levels, draws) from one end of the ladder to the other."""
    return float(loss[:, 0].mean() - loss[:, -1].mean())


def at_steepest(ladders: Ladders, statistic: Callable[[Law, float], float]) -> Measured:
    """A number made of the law at the steepest point and of the fall, with its error over runs."""
    s = ladders.steepest
    return over_runs(lambda loss: statistic(ladders.law_at(s, loss), fall_of(loss)), ladders.loss)


def share_of_fall(law: Law, fall: float) -> float:
    """`share` of a law."""
    return share(law.variance, fall)


def share_of_jump(hole: np.ndarray) -> Measured:
    """The same of losses (runs, draws) that jump between 1 and 0."""
    return over_runs(lambda loss: share(variance_of(loss), 1.0), hole)


def hysteresis(s: np.ndarray, loss: np.ndarray) -> np.ndarray:
    """Area between the two branches (2, levels, runs) over the width of the ladder, in ln s: a loss, for every run."""
    place = np.log(s)
    return np.asarray(np.trapezoid(loss[0] - loss[1], place, axis=0) / (place[-1] - place[0]))


def claims_of(cases: list[Case], hole: np.ndarray) -> Iterator[Claim]:
    """All claims of the figure; `hole` are losses (runs, draws) of a law with two phases."""
    text = "a loss with two phases is found to have two peaks (bimodality)"
    yield _claim("two phases: peaks", text, over_runs(bimodality, hole), ">", FLAT_BIMODALITY)
    text = "and a variance of that size (share of the jump from 1 to 0)"
    yield _claim(
        "two phases: variance", text, over_runs(lambda loss: share(variance_of(loss), 1.0), hole), ">", FLAT_SHARE
    )
    for case in cases:
        yield from _of_flat(case) if case.is_flat else _of_rest(case)
    whole = {case.tau: ladders_of(case) for case in cases if case.rest is not None}
    # A peak in a gap would be missed.
    whole = {tau: ladders for tau, ladders in whole.items() if ladders.gap is None}
    if len(whole) > 1:
        variances = [at_steepest(ladders, lambda law, _: law.variance) for ladders in whole.values()]
        text = "Gaussian: Var(L / tau) at the steepest point falls with tau (exponent; 0: two phases, -1: many parts)"
        yield _claim("growth with tau", text, exponent(np.array(list(whole)), variances), "<", 0.0)


def _claim(name: str, text: str, number: Measured, relation: str, reference: float) -> Claim:
    return claim(name, text, number.value, number.error, relation, reference, number.dof)


def _of_rest(case: Case) -> Iterator[Claim]:
    """Claims with a Gaussian law."""
    rest, tau = case.rest, case.tau
    assert rest is not None
    ladders = ladders_of(case)
    at = f"tau = {tau}, s = {ladders.steepest:.4g}"
    text = f"Gaussian, tau = {tau}: at rest both branches agree (mean difference of their losses)"
    # At rest the two branches are chains of their own.
    up, down = (hysteresis(rest.s, way[None].repeat(2, 0) * [[[1]], [[0]]]) for way in rest.loss.mean(-1))
    yield _claim(f"branches agree, tau = {tau}", text, _apart(up, down), "=", 0.0)
    text = f"Gaussian, tau = {tau}: at rest the loss stays (mean difference of an earlier and a later half)"
    early, late = np.split(rest.loss[..., : rest.loss.shape[-1] // 2 * 2].mean(1).reshape(2 * len(up), -1), 2, axis=-1)
    yield _claim(f"loss stays, tau = {tau}", text, mean((early - late).mean(1)), "=", 0.0)
    text = f"Gaussian, tau = {tau}: slower annealing has less hysteresis (fast - slow)"
    loops = [hysteresis(seen.s, seen.loss) for seen in (case.fast, case.slow)]
    yield _claim(f"slower, tau = {tau}", text, _apart(*loops), ">", 0.0)
    text = f"Gaussian, tau = {tau}: the hysteresis of the annealing goes away at rest (slow - at rest)"
    yield _claim(f"lag, tau = {tau}", text, _apart(loops[1], up - down), ">", 0.0)
    level = int(np.argmin(np.abs(rest.s - ladders.steepest)))
    text = f"Gaussian, tau = {tau}, s = {rest.s[level]:.4g}: the virial of paths at rest is that of equilibrium"
    yield _claim(f"virial, tau = {tau}", text, mean(rest.virial[:, level].ravel()), "=", 1.0)
    text = f"Gaussian, {at}: the loss has one peak (bimodality; 1 for two phases, 1/3 for a normal law)"
    yield _claim(
        f"one peak, tau = {tau}", text, at_steepest(ladders, lambda law, _: bimodality(*law)), "<", FLAT_BIMODALITY
    )
    text = f"Gaussian, {at}: its variance is not that of two phases (share of the fall; 1 for two phases)"
    yield _claim(f"variance, tau = {tau}", text, at_steepest(ladders, share_of_fall), "<", FLAT_SHARE)


def _apart(a: np.ndarray, b: np.ndarray) -> Measured:
    return difference(mean_and_error(a), mean_and_error(b), len(a))


def _of_flat(case: Case) -> Iterator[Claim]:
    """Claims with a flat law, at the smallest s: there and back."""
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
    ladders = ladders_of(case)
    largest, gap = jump(ladders.law_at(ladders.steepest).variance), ladders.gap
    if verdicts["branches agree"] != "consistent":
        return "not settled, the branches still differ at rest"
    if verdicts["loss stays"] != "consistent":
        return "not settled, the loss still changes at rest"
    if "refuted" in (verdicts["one peak"], verdicts["variance"]):
        return "coexistence"
    if gap is not None and gap.fall > largest:
        return (
            f"not settled between s = {gap.low:.4g} and {gap.high:.4g}, which have no losses in common; two phases "
            f"would be less than {gap.fall:.2g} apart"
        )
    if verdicts["variance"] != "confirmed":
        return "undecided"
    words = f"crossover; two phases would be less than {largest:.2g} apart"
    return words if verdicts["one peak"] == "confirmed" else f"{words}, whether there are two peaks is undecided"
