"""Search for the s at which a path predicts examples that are held out best.

What the models of a path weigh together is c likelihoods of the N examples, s = c N / (tau v). Where labels are noisy
one likelihood is best, where they are clean several are: no c suits all data. So c rises from `LOWEST` to `HIGHEST` in
the first part of a budget, and at every record the models of all chains are asked together for examples that are held
out: the mean of their densities of the label, p(y | x) = <exp(-l(theta) / v)> up to a factor, has the log loss

    H = -mean_i ln <exp(-l_i(theta) / v)>.

A cubic through H against ln c takes the noise out. The c that is kept is the most likely one, m H(c) with m examples
that are held out beside a normal prior of ln c: few examples say little, and then it is near `USUAL`.
"""

from __future__ import annotations

import math

import numpy as np

SEARCHING = 0.25
"""Of what a run by data reads after its start, the part in which c rises."""

LOWEST, HIGHEST = 0.5, 12.0
"""Likelihoods that are tried."""

USUAL, WIDTH = 2.0, 1.0
"""Middle and standard deviation (of the logarithm) of what is expected before."""

BINS = 16
"""Pieces of ln c in which H is averaged."""

_DEGREE = 3
_LEARNED = 1.0
"""Nats above the lowest H, from which on models are taken to have learned."""

_NEAR = 0.3
"""Of ln c, over which what depends on it smoothly is averaged."""
_NOISES = np.geomspace(0.25, 1.5, 13)
"""Variances of labels that are tried, in units of the mean squared error of a model."""


def no_search() -> np.ndarray:
    """Sums of H and records (2, bins), before any."""
    return np.zeros((2, BINS))


def likelihoods_at(part: float) -> float:
    """The c when this part of the search is over."""
    return LOWEST * (HIGHEST / LOWEST) ** min(max(part, 0.0), 1.0)


def add_record(search: np.ndarray, likelihoods: float, loss: float) -> np.ndarray:
    """Sums and records with one more, of log loss `loss` at c = `likelihoods`; what is not finite says nothing."""
    if not math.isfinite(loss):
        return search
    place = math.log(likelihoods / LOWEST) / math.log(HIGHEST / LOWEST) * BINS
    found = search.copy()
    found[:, min(max(int(place), 0), BINS - 1)] += loss, 1.0
    return found


def best_likelihoods(search: np.ndarray, examples: float) -> float:
    """The c that is most likely, after log losses on so many examples; `USUAL` where there are too few records."""
    sums, records = search
    is_known = records > 0
    means = np.where(is_known, sums / np.maximum(records, 1.0), math.inf)
    # Models learn at first, whatever c is: bins before H has come near its lowest say nothing of c.
    is_known &= np.arange(BINS) >= int(np.argmax(means <= means.min() + _LEARNED))
    if is_known.sum() <= _DEGREE:
        return USUAL
    logs = (math.log(LOWEST) + (np.arange(BINS) + 0.5) / BINS * math.log(HIGHEST / LOWEST))[is_known]
    weight = np.sqrt(records[is_known])
    found = np.polynomial.Polynomial.fit(logs, means[is_known], _DEGREE, w=weight)
    tried = np.linspace(logs[0], logs[-1], 201)
    prior = (tried - math.log(USUAL)) ** 2 / (2 * WIDTH**2)
    return float(np.exp(tried[np.argmin(examples * found(tried) + prior)]))


def at_likelihoods(likelihoods: np.ndarray, values: np.ndarray, c: float) -> float:
    """What was measured (records,) at these numbers of likelihoods, at `c`: the mean of those that are near."""
    values = np.asarray(values, np.float64)
    distance = np.log(np.asarray(likelihoods) / c) / _NEAR
    # In units of the nearest one, so that some weight is left however far they are.
    weight = np.exp(-0.5 * (distance**2 - np.min(distance**2))) * np.isfinite(values)
    return float(np.sum(weight * np.nan_to_num(values)) / weight.sum()) if weight.sum() > 0 else math.nan


def predictive_loss(losses: np.ndarray, is_noise_unknown: bool) -> float:
    """Log loss of the mean density of models with these losses (models, m); squared errors with the best variance."""
    losses = np.asarray(losses, np.float64)
    if not is_noise_unknown:
        return _mixed(losses)
    variances = 2 * losses.mean() * _NOISES
    return min((_mixed(losses / v) + 0.5 * math.log(2 * math.pi * v) for v in variances if v > 0), default=math.nan)


def _mixed(losses: np.ndarray) -> float:
    least = losses.min(0)
    return float((least - np.log(np.exp(least - losses).mean(0))).mean())
