"""Plans within a tolerance: of those whose audited error of s is small enough, the one that moves furthest per example.

The error beta falls fast with the batch, like rho^3.4 or faster wherever it was looked at, and where it is small it is
lost in noise. So it is measured on a ladder of noise levels, a factor sqrt(2) apart, down to the first where it is
within the tolerance or no longer seen, and the rho of the plan follows from the last level where it is seen, by a power
law with the exponent found above it, or a smaller one. The plan is then looked at itself.
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
_KNOWN = 0.2
"""Relative error with which beta is known well enough to plan by."""
_AIM = 0.75
"""Of the tolerance that a plan aims at, since the error is known with an error of its own."""
_SLOWEST, _FASTEST = 2.5, 4.0
"""Exponents by which the error may fall with rho."""


class Level(NamedTuple):
    """A plan: its audited error of s with a standard error, and the squared distance moved per example."""

    rho: float
    beta: float
    error: float
    gain: float

    @property
    def bound(self) -> float:
        """What |beta| surely does not exceed by much."""
        return abs(self.beta) + self.error


def within_tolerance(
    test: Penalty, chunk: int, entries: Any, looked: Looked, tolerance: float, rng: np.random.Generator
) -> tuple[float, float]:
    """The noise rho and the part of Delta in the first stage; proposals are decided with `entries` (proposals,)."""
    found: list[tuple[Level, float]] = []
    for first in (FIRST, 0.0)[2 - test.stages :]:

        def look(rho: float, first: float = first) -> Level:
            plan = entries._replace(rho=np.full_like(entries.rho, rho), first=np.full_like(entries.first, first))
            return _level(test, chunk, plan, looked, rng, tolerance)

        found.append((_largest(test, look, tolerance), first))
    level, first = max(found, key=lambda pair: pair[0].gain)
    return level.rho, first


def gain(found: Acceptances, looked: Looked) -> float:
    """Squared distance moved per example read."""
    return float((found.forward * looked.distance).sum() / found.examples.sum())


def _largest(test: Penalty, look: Any, tolerance: float) -> Level:
    """The plan with the largest rho whose error is within the tolerance."""
    assert test.rho is not None
    levels = [look(test.rho)]
    while len(levels) < LEVELS and levels[-1].bound > tolerance and abs(levels[-1].beta) > 3 * levels[-1].error:
        levels.append(look(levels[-1].rho / _STEP))
    if levels[0].bound <= tolerance:
        return levels[0]
    last = levels[-1]
    above = last if len(levels) == 1 or abs(last.beta) > 3 * last.error else levels[-2]
    power = _SLOWEST
    if len(levels) > 2:
        power = math.log(levels[-3].bound / levels[-2].bound) / math.log(_STEP)
    power = min(max(power, _SLOWEST), _FASTEST)
    plan = look(min(above.rho, above.rho * (_AIM * tolerance / above.bound) ** (1 / power)))
    # What was expected of it holds, unless it is clearly otherwise.
    for _ in range(LEVELS):
        if abs(plan.beta) - plan.error <= tolerance:
            break
        plan = look(plan.rho / math.sqrt(_STEP))
    return plan


def _level(test: Penalty, chunk: int, plan: Any, looked: Looked, rng: np.random.Generator, tolerance: float) -> Level:
    """A plan, looked at until its error is well known, or long enough."""
    orders, found = _FEWEST, acceptances(test, chunk, plan, looked, rng, _FEWEST)
    beta, error = balance(found).slope()
    while 2 * orders * looked.differences.size <= _NUMBERS and error > max(_KNOWN * abs(beta), 0.5 * tolerance):
        found = found.plus(acceptances(test, chunk, plan, looked, rng, orders))
        beta, error = balance(found).slope()
        orders *= 2
    return Level(float(plan.rho[0]), beta, error, gain(found, looked))
