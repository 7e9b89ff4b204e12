"""Plans within a tolerance: of batches whose audited error of s is small enough, those that move furthest per example.

The error beta falls fast with the batch, like rho^3.4 or faster wherever it was looked at, and where it is small it is
lost in noise. So it is measured on a ladder of noise levels, a factor sqrt(2) apart, down to the first where it is
within the tolerance or no longer seen, and the rho of the plan follows from the last level where it is seen, by a power
of rho with the exponent found above it, or a smaller one.

An error that is measured can be taken out: beta is nearly linear in a factor of u, and the plan takes the one at which
it vanishes. An audit predicts an error to first order, so that only most of it is taken out: what is corrected counts
with a quarter, and plans may so be made for four times the tolerance, if beta is well known there, and for a tenth of
s at most. The plan is then looked at itself.

The same proposals tell the shift of means (`trajens.acceptance.audit`), in posterior standard deviations as far as
these are known, with a larger error. No factor takes it out: where it is surely beyond the tolerance, which is the same
number, rho is made smaller.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from trajens.acceptance.audit import Acceptances, Looked, acceptances, balance
from trajens.acceptance.penalty import FIRST, Penalty

LEVELS = 12
_STEP = math.sqrt(2.0)
_FEWEST, _NUMBERS = 2, 2**24
"""Orders that batches are drawn in, and the most loss differences in all: more until the error is well known."""
_KNOWN, _PART, _CLOSE = 0.2, 0.5, 1 / 3
"""Part of beta, or of the tolerance, with which beta is known well enough for a ladder, and part for a correction."""
_AIM = 0.75
"""Of the tolerance that a plan aims at, since the error is known with an error of its own."""
_SLOWEST, _FASTEST = 2.5, 4.0
"""Exponents by which the error may fall with rho."""
_LEFT, _MOST = 0.25, 0.1
"""Part of an error that a correction may leave, and the largest error that is corrected."""
_NUDGE = 0.1
"""Change of the factor of u by which its effect is found."""
_SURELY = 3.0
"""Standard errors by which a shift of means is beyond the tolerance before batches are made larger for it."""
_SMALLER, _HOPELESS = (FIRST / 2, FIRST / 4, FIRST / 8), 0.2
"""Further parts of Delta for a first stage, tried where so few proposals are accepted that most are hopeless."""


class Level(NamedTuple):
    """A plan, its audited error of s with a standard error, its acceptance, and the squared distance per example.

    `shift` is what the shift of means along one of the directions surely is at least, in standard deviations.
    """

    rho: float
    first: float
    factor: float
    beta: float
    error: float
    shift: float
    acceptance: float
    gain: float

    @property
    def bound(self) -> float:
        """What |beta| surely does not exceed by much."""
        return abs(self.beta) + self.error

    def is_within(self, tolerance: float) -> bool:
        """Whether the error of s surely is, and the shift of means may be."""
        return self.bound <= tolerance and self.shift <= tolerance

    def may_be_within(self, tolerance: float) -> bool:
        """Whether neither is clearly beyond it."""
        return abs(self.beta) - self.error <= tolerance and self.shift <= tolerance


def within_tolerance(
    test: Penalty, chunk: int, entries: Any, looked: Looked, tolerance: float, rng: np.random.Generator
) -> dict[str, float]:
    """`rho`, `first` and `factor` of a plan; proposals are decided with `entries` (proposals,)."""
    found = []
    for first in (FIRST, 0.0)[2 - test.stages :]:

        def look(rho: float, factor: float = 1.0, is_close: bool = False, first: float = first) -> Level:
            values = {"rho": rho, "first": first, "factor": factor}
            plan = entries._replace(**{name: np.full_like(entries.rho, value) for name, value in values.items()})
            known = (_CLOSE * tolerance, 0.0) if is_close else (_PART * tolerance, _KNOWN)
            found, beta, error = _looked_at(test, chunk, plan, looked, rng, known)
            shift, chance = least_shift(found, looked), float(found.forward.mean())
            return Level(**values, beta=beta, error=error, shift=shift, acceptance=chance, gain=gain(found, looked))

        found.append(_largest(test, look, tolerance))
        if first > 0 and found[0].acceptance < _HOPELESS:
            smaller = (look(found[0].rho, found[0].factor, first=part) for part in _SMALLER)
            found += [level for level in smaller if level.is_within(tolerance)]
    best = max(found, key=lambda level: level.gain)
    return {"rho": best.rho, "first": best.first, "factor": best.factor}


def gain(found: Acceptances, looked: Looked) -> float:
    """Squared distance moved per example read."""
    return float((found.forward * looked.distance).sum() / found.examples.sum())


def least_shift(found: Acceptances, looked: Looked) -> float:
    """What the shift of means surely is at least, along the worst direction: `_SURELY` errors nearer to 0."""
    slopes = (balance(found, along).slope() for along in looked.shifts.T)
    return max((abs(shift) - _SURELY * error for shift, error in slopes if error > 0), default=0.0)


def _largest(test: Penalty, look: Any, tolerance: float) -> Level:
    """The plan with the largest rho whose error is within the tolerance."""
    assert test.rho is not None
    levels = [look(test.rho)]
    while len(levels) < LEVELS and levels[-1].bound > tolerance and abs(levels[-1].beta) > 3 * levels[-1].error:
        levels.append(look(levels[-1].rho / _STEP))
    if levels[0].is_within(tolerance):
        return levels[0]
    last = levels[-1]
    above = last if len(levels) == 1 or abs(last.beta) > 3 * last.error else levels[-2]
    power = _SLOWEST
    if len(levels) > 2:
        power = math.log(levels[-3].bound / levels[-2].bound) / math.log(_STEP)
    power = min(max(power, _SLOWEST), _FASTEST)

    def aimed(error: float) -> float:
        """The rho that should have an error of so much, by the last level that is seen to have a larger one."""
        larger = [level for level in levels if level.rho >= above.rho and level.bound > _AIM * error]
        near = larger[-1] if larger else levels[0]
        return min(near.rho, near.rho * (_AIM * error / near.bound) ** (1 / power))

    most = min(tolerance / _LEFT, _MOST)
    plan = _corrected(look, aimed(most), tolerance) if most > tolerance else None
    if plan is not None:
        return plan
    plan = look(aimed(tolerance))
    # What was expected of it holds, unless it is clearly otherwise.
    for _ in range(LEVELS):
        if plan.may_be_within(tolerance):
            break
        plan = look(plan.rho / math.sqrt(_STEP))
    return plan


def _corrected(look: Any, rho: float, tolerance: float) -> Level | None:
    """A plan of about this noise with its error taken out, or None where the error is not known well enough."""
    for _ in range(LEVELS):
        plan = look(rho, is_close=True)
        if plan.error > tolerance / 2:
            return None
        slope = (look(rho, 1.0 + _NUDGE, is_close=True).beta - plan.beta) / _NUDGE
        if not slope > 0:
            return None
        corrected: Level = look(rho, 1.0 - plan.beta / slope, is_close=True)
        if corrected.error > tolerance / 2:
            return None
        left = abs(plan.beta) * _LEFT + abs(corrected.beta) - corrected.error
        if left <= tolerance and corrected.shift <= tolerance:
            return corrected
        rho /= math.sqrt(_STEP)
    return None


def _looked_at(
    test: Penalty, chunk: int, plan: Any, looked: Looked, rng: np.random.Generator, known: tuple[float, float]
) -> tuple[Acceptances, float, float]:
    """What a plan does, and beta, looked at until that is known to so much, or to this part of it, or long enough."""
    orders, found = _FEWEST, acceptances(test, chunk, plan, looked, rng, _FEWEST)
    beta, error = balance(found).slope()
    while error > max(known[0], known[1] * abs(beta)) and 2 * orders * looked.differences.size <= _NUMBERS:
        found = found.plus(acceptances(test, chunk, plan, looked, rng, orders))
        beta, error = balance(found).slope()
        orders *= 2
    return found, beta, error
