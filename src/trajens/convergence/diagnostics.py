"""Whether chains that were started apart agree, and how many independent draws theirs are worth.

Of values x (chains, draws), each chain cut into two halves, with the variance W within halves, averaged, and the
variance of their n-draw means B / n:

    R-hat = sqrt((n - 1) / n + B / (n W))

computed for normal scores of the ranks of x, and of |x - median|, of which the larger counts; and

    ESS = M n / (1 + 2 sum_t rho_t),   rho_t = 1 - (W - mean autocovariance at t) / (W (n - 1) / n + B / n)

with Geyer's initial monotone sequence, for the scores (bulk), for being below the quantiles of 5 % and 95 % (tail, the
smaller), or for x itself, by which the standard error of its mean is sd(x) / sqrt(ESS).
(Vehtari, Gelman, Simpson, Carpenter and Buerkner, Bayesian Analysis 16, 667, 2021; Geyer, Statistical Science 7, 473,
1992.)

All of it agrees with ArviZ, but for a single chain, whose halves are compared too. Where there are fewer than four
draws of a chain, or one is not finite, the answer is NaN. Values that never change count as independent draws, and
their R-hat is NaN.
"""

from __future__ import annotations

import numpy as np

from trajens.errors import require
from trajens.randomness import normal_quantile

FEWEST = 4
"""Draws of a chain that anything can be said of."""

_TAILS = 0.05, 0.95


def rhat(values: np.ndarray) -> float:
    """Rank-normalised split R-hat of `values` (chains, draws): bulk or folded, whichever is larger."""
    values = _checked(values)
    if not _is_sound(values):
        return np.nan
    halves = _halves(values)
    return float(max(_rhat(_scores(halves)), _rhat(_scores(np.abs(halves - np.median(halves))))))


def nested_rhat(values: np.ndarray, superchains: int) -> float:
    """Nested R-hat, for many short chains, of which those of a superchain started from a common point.

    With K superchains of M chains, B between the means of superchains, and W, the mean over superchains of the
    variance between the means of their chains and of that within chains, averaged:

        R-hat = sqrt(1 + B / W)

    Chains may be too short to forget their start each by itself, as R-hat would have it; here M of them together are
    asked. Those of one superchain must stand next to each other. (Margossian et al., Bayesian Analysis, 2024.)

    Parameters
    ----------
    values : (chains, draws)
        Not split, and not ranked.
    superchains : int
        At least 2, a divisor of the chains.
    """
    values = _checked(values)
    chains = len(values)
    require(
        2 <= superchains <= chains and chains % superchains == 0,
        f"superchains must be a divisor of the {chains} chains from 2 on, got {superchains}; chains of one superchain "
        "start from a common point.",
    )
    if not np.isfinite(values).all() or (chains == superchains and values.shape[1] < 2):
        return np.nan
    grouped = values.reshape(superchains, chains // superchains, -1)
    means = grouped.mean(2)
    within = grouped.var(2, ddof=1).mean(1) if grouped.shape[2] > 1 else np.zeros(superchains)
    between = means.var(1, ddof=1) if means.shape[1] > 1 else np.zeros(superchains)
    return float(np.sqrt(1.0 + _ratio(means.mean(1).var(ddof=1), (between + within).mean())))


def ess_bulk(values: np.ndarray) -> float:
    """Independent draws that `values` (chains, draws) are worth in the bulk of their distribution."""
    values = _checked(values)
    return _ess(_scores(_halves(values))) if _is_sound(values) else np.nan


def ess_tail(values: np.ndarray) -> float:
    """The same for the quantiles of 5 % and of 95 %: the smaller one."""
    values = _checked(values)
    if not _is_sound(values):
        return np.nan
    return min(_ess(_halves((values <= np.quantile(values, part)).astype(float))) for part in _TAILS)


def ess_mean(values: np.ndarray) -> float:
    """The same for the mean."""
    values = _checked(values)
    return _ess(_halves(values)) if _is_sound(values) else np.nan


def mcse(values: np.ndarray) -> float:
    """The standard error of the mean of `values` (chains, draws), which depend on each other within a chain."""
    values = _checked(values)
    return float(values.std(ddof=1) / np.sqrt(ess_mean(values))) if _is_sound(values) else np.nan


def drift(values: np.ndarray) -> float:
    """By how many standard errors the mean of second halves is above that of first halves; 0 where nothing changes."""
    values = _checked(values)
    half = values.shape[1] // 2
    if half < FEWEST or not _is_sound(values):
        return np.nan
    first, second = values[:, :half], values[:, -half:]
    # Each half has an error of its own: that of all would grow with what is looked for.
    return _in_errors(float(second.mean() - first.mean()), float(np.hypot(mcse(first), mcse(second))))


def _in_errors(apart: float, error: float) -> float:
    if apart == 0:
        return 0.0
    return apart / error if error > 0 else float(np.copysign(np.inf, apart))


def _checked(values: np.ndarray) -> np.ndarray:
    values = np.asarray(values, np.float64)
    require(values.ndim == 2, f"values must have the shape (chains, draws), got {values.shape}; reshape them.")
    return values


def _is_sound(values: np.ndarray) -> bool:
    return values.shape[0] > 0 and values.shape[1] >= FEWEST and bool(np.isfinite(values).all())


def _halves(values: np.ndarray) -> np.ndarray:
    """Twice the chains; the draw in the middle of an odd number is left out."""
    half = values.shape[1] // 2
    return np.concatenate([values[:, :half], values[:, -half:]])


def _scores(values: np.ndarray) -> np.ndarray:
    """Normal scores of ranks, by Blom's rule."""
    # Those that are equal share the mean of their ranks.
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place].reshape(values.shape)
    return normal_quantile((ranks - 0.375) / (values.size + 0.25))


def _rhat(values: np.ndarray) -> float:
    draws = values.shape[1]
    ratio = _ratio(values.mean(1).var(ddof=1), values.var(1, ddof=1).mean())
    return float(np.sqrt(ratio + (draws - 1) / draws))


def _ratio(above: float, below: float) -> float:
    """NaN where nothing ever changes, infinite where chains are stuck apart."""
    if below > 0:
        return float(above / below)
    return np.inf if above > 0 else np.nan


def _ess(values: np.ndarray) -> float:
    if np.ptp(values) < np.finfo(float).resolution:
        return float(values.size)
    chains, draws = values.shape
    covariances = _autocovariances(values)
    within = covariances[0] * draws / (draws - 1)
    in_all = covariances[0] + (values.mean(1).var(ddof=1) if chains > 1 else 0.0)
    rho = _initial_monotone(1.0 - (within - covariances) / in_all)
    # Draws that repel each other are worth more than independent ones, but it cannot be said how much more.
    return float(values.size / max(2.0 * rho.sum() - 1.0 - rho[-1], 1.0 / np.log10(values.size)))


def _autocovariances(values: np.ndarray) -> np.ndarray:
    """At lags 0..draws - 1, averaged over chains."""
    draws = values.shape[1]
    length = 2 ** (2 * draws - 1).bit_length()
    spectrum = np.fft.rfft(values - values.mean(1, keepdims=True), n=length, axis=1)
    return np.fft.irfft((np.abs(spectrum) ** 2).mean(0), n=length)[:draws] / draws


def _initial_monotone(rho: np.ndarray) -> np.ndarray:
    """Autocorrelations by Geyer: while sums of two neighbours are positive, none larger than those before; then one.

    The last one is that of the even lag after them, 0 where it is negative.
    """
    draws = len(rho)
    kept = np.zeros(draws)
    kept[:2] = 1.0, rho[1]
    even, odd, t = 1.0, float(rho[1]), 1
    while t < draws - 3 and even + odd > 0.0:
        even, odd = float(rho[t + 1]), float(rho[t + 2])
        if even + odd >= 0.0:
            kept[t + 1 : t + 3] = even, odd
        t += 2
    last = t - 2
    if even > 0.0:
        kept[last + 1] = even
    for t in range(1, last - 1, 2):
        if kept[t + 1] + kept[t + 2] > kept[t - 1] + kept[t]:
            kept[t + 1 : t + 3] = (kept[t - 1] + kept[t]) / 2.0
    return kept[: last + 2]
