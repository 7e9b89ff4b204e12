"""Two phases or one: numbers that tell coexistence from a crossover, with errors over independent runs.

Let l = L / tau be the loss per model of a path, and `fall` the difference of <l> between the ends of a ladder of s.

    bimodality  (skewness^2 + 1) / kurtosis of l (Sarle): 1 for two points, 5/9 for a flat distribution, 1/3 for a
                normal one
    binder      1 - <d^4> / (3 <d^2>^2), d = l - <l>: 2/3 for two phases of equal weight, 2/5 for a flat distribution,
                0 for a normal one
    share       Var l / (fall / 2)^2: 1 where the two ends coexist with equal weights, 1/3 for a distribution that is
                flat between them
    jump        2 (Var l)^1/2: no two phases of equal weight can be further apart, wherever they lie

A share well below 1/3 needs no well sampled histogram: since -d<l>/ds = tau Var l, it says that the fall is spread over
an interval of s much wider than 4 / (tau fall), which is all that two coexisting phases would take.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from trajens.records import mean_and_error
from trajens_paper.claims import Measured

FLAT_BIMODALITY = 5 / 9
FLAT_BINDER = 2 / 5
FLAT_SHARE = 1 / 3
"""Of a distribution that is flat between the two ends. A bimodality above is a mark of two peaks and no proof, since
skewed distributions with one peak can have it, nor does one below exclude two broad peaks; a share above is more than
one peak can have."""


def bimodality(loss: np.ndarray, weight: np.ndarray | None = None) -> float:
    """Sarle's coefficient of all values together."""
    second, third, fourth = _moments(loss, weight)
    return (third**2 / second**3 + 1) / (fourth / second**2)


def binder(loss: np.ndarray, weight: np.ndarray | None = None) -> float:
    """Binder's fourth-order cumulant of all values together, around their mean."""
    second, _, fourth = _moments(loss, weight)
    return 1 - fourth / (3 * second**2)


def _moments(loss: np.ndarray, weight: np.ndarray | None) -> tuple[float, ...]:
    """The second, third and fourth around the mean."""
    offset = loss - np.average(loss, weights=weight)
    return tuple(float(np.average(offset**k, weights=weight)) for k in (2, 3, 4))


def barrier(loss: np.ndarray, weight: np.ndarray, width: float) -> float:
    """How much rarer losses between two peaks are than those at the lower one, as a logarithm; 0 for one peak.

    Of the density smoothed over `width`, a standard deviation, and of peaks that are at least half as high as the
    highest: less is a few draws in a tail. At the s where both are equally high it is the barrier in free energy.
    """
    places = np.linspace(loss.min() - 4 * width, loss.max() + 4 * width, _PLACES)
    density, _ = np.histogram(loss, _edges(places), weights=weight)
    kernel = np.exp(-0.5 * ((places[:, None] - places) / width) ** 2)
    smooth = kernel @ density
    # From each side the highest so far: a valley is what is below both.
    lower = np.minimum(np.maximum.accumulate(smooth), np.maximum.accumulate(smooth[::-1])[::-1])
    return float(np.log(np.where(lower > smooth.max() / 2, lower / smooth, 1.0)).max())


_PLACES = 161


def _edges(places: np.ndarray) -> np.ndarray:
    half = (places[1] - places[0]) / 2
    return np.append(places - half, places[-1] + half)


def share(variance: float, fall: float) -> float:
    """Variance of l over that of two phases, half the `fall` from their mean."""
    return variance / (fall / 2) ** 2


def jump(variance: float) -> float:
    """How far two phases of equal weight could be apart at most."""
    return 2 * float(np.sqrt(variance))


def over_runs(statistic: Callable[..., float], *arrays: np.ndarray) -> Measured:
    """A number made of arrays (runs, ...), and its standard error by leaving out each run."""
    runs = len(arrays[0])
    without = [statistic(*(np.delete(a, r, axis=0) for a in arrays)) for r in range(runs)]
    error = np.sqrt((runs - 1) * np.var(without))
    return Measured(statistic(*arrays), float(error), runs - 1)


def mean(values: np.ndarray) -> Measured:
    """The mean of one number per run."""
    return Measured(*mean_and_error(values), len(values) - 1)


def exponent(taus: np.ndarray, values: list[Measured]) -> Measured:
    """The exponent a of value ~ tau^a by least squares of the logarithms; runs of different tau are independent."""
    x = np.log(taus) - np.log(taus).mean()
    weights = x / (x**2).sum()
    slope = float(sum(w * np.log(v.value) for w, v in zip(weights, values, strict=True)))
    parts = [(w * v.error / v.value) ** 2 for w, v in zip(weights, values, strict=True)]
    together = sum(parts)
    # Welch's degrees of freedom, as for a difference.
    dof = together**2 / sum(p**2 / (v.dof or np.inf) for p, v in zip(parts, values, strict=True))
    return Measured(slope, float(np.sqrt(together)), float(dof))
