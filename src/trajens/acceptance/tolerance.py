"""Plans within a tolerance: of those whose audited error of s is small enough, the one that moves furthest per example.

The error falls fast with the batch, so its size is looked for on a ladder of noise levels rho, a factor sqrt(2) apart,
for the sample variance and for the mixed one. A level counts as within the tolerance if |beta| plus its standard error
is, and the next one too: an error that only changes its sign there is not small.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from trajens.acceptance.audit import Acceptances, Looked, acceptances, balance
from trajens.acceptance.penalty import Penalty

MIXES = (0.0, 0.6)
"""Parts of the variance that may be taken from the means; 0.6 cancels what the fourth cumulant does."""

LEVELS = 10
_STEP = math.sqrt(2.0)
_FEWEST, _MOST = 4, 64
"""Orders that batches are drawn in: more where it is open whether an error is within the tolerance."""


class Level(NamedTuple):
    """A noise level: the bound on its error, and the squared distance moved per example."""

    rho: float
    bound: float
    gain: float


def within_tolerance(
    test: Penalty, chunk: int, entries: Any, looked: Looked, tolerance: float, rng: np.random.Generator
) -> tuple[float, float]:
    """The noise rho and the mix of the best plan; the proposals would be decided with `entries` (proposals,)."""
    found: list[tuple[Level, float]] = []
    for mix in MIXES:
        best = max((level.gain for level, _ in found), default=0.0)
        level = _largest(_ladder(test, chunk, entries, looked, mix, rng, tolerance, best), tolerance)
        if level is not None:
            found.append((level, mix))
    if not found:
        assert test.rho is not None
        return test.rho * _STEP**-LEVELS, MIXES[0]
    level, mix = max(found, key=lambda pair: pair[0].gain)
    return level.rho, mix


def _ladder(
    test: Penalty,
    chunk: int,
    entries: Any,
    looked: Looked,
    mix: float,
    rng: np.random.Generator,
    tolerance: float,
    best: float,
) -> list[Level]:
    """Levels from the largest rho downwards, until two in a row are within the tolerance or none could be the best."""
    levels: list[Level] = []
    assert test.rho is not None
    for k in range(LEVELS):
        rho = test.rho * _STEP**-k
        plan = entries._replace(rho=np.full_like(entries.rho, rho), mix=np.full_like(entries.mix, mix))
        levels.append(_level(test, chunk, plan, looked, rng, tolerance))
        is_small = [level.bound <= tolerance for level in levels[-2:]]
        if (len(is_small) == 2 and all(is_small)) or levels[-1].gain < best:
            break
    return levels


def _level(test: Penalty, chunk: int, plan: Any, looked: Looked, rng: np.random.Generator, tolerance: float) -> Level:
    """A plan, looked at until its error is surely larger or surely smaller than the tolerance, or long enough."""
    orders, found = _FEWEST, acceptances(test, chunk, plan, looked, rng, _FEWEST)
    beta, error = balance(found).slope()
    while orders < _MOST and abs(beta) - 2 * error <= tolerance < abs(beta) + error:
        found = found.plus(acceptances(test, chunk, plan, looked, rng, orders))
        beta, error = balance(found).slope()
        orders *= 2
    return Level(float(plan.rho[0]), abs(beta) + error, gain(found, looked))


def gain(found: Acceptances, looked: Looked) -> float:
    """Squared distance moved per example read."""
    return float((found.forward * looked.distance).sum() / found.examples.sum())


def _largest(levels: list[Level], tolerance: float) -> Level | None:
    """The largest rho within the tolerance, between two levels where the error grows through it."""
    is_small = [level.bound <= tolerance for level in levels]
    first = next((k for k in range(len(levels) - 1) if is_small[k] and is_small[k + 1]), None)
    if first is None:
        return None
    level = levels[first]
    if first == 0:
        return level
    above = levels[first - 1]
    # In logarithms, in which errors, costs and noise are nearly straight lines.
    t = math.log(tolerance / level.bound) / math.log(above.bound / level.bound)
    between = lambda a, b: a * (b / a) ** t  # noqa: E731
    return Level(between(level.rho, above.rho), tolerance, between(level.gain, above.gain))
