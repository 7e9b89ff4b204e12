"""Free energy ln Z(s): by integration of the mean loss, or by MBAR over all s at once.

*Integration.* It takes <L> and its slope -Var L at both ends of every interval (Euler-Maclaurin, the integral of the
cubic through both), in ln s where all s > 0, as a perceptron's <L> ~ 1/s suggests, else in s:

    int f dx = h (f_0 + f_1)/2 + h^2 (f_0' - f_1')/12 + O(h^5).

With the second derivative, which is the third central moment of L, the rule is of order h^7; what it differs by is the
estimate of what the first one leaves out.

*MBAR.* Free energies of all s at once, from all draws at all s (Shirts and Chodera 2008).

f_k = -ln Z(s_k) are where, with N_k draws at s_k and n over the draws of all of them,

    N_k = sum_n p_nk,   p_nk = N_k exp(f_k - s_k L_n) / sum_j N_j exp(f_j - s_j L_n).

That is the minimum of the convex function sum_n ln sum_k N_k exp(f_k - s_k L_n) - sum_k N_k f_k, found by Newton steps,
and by a step of f_k <- f_k - ln(sum_n p_nk / N_k) wherever one of them does not lead down. An average at any s, also
one in between, has weights w_n ~ exp(-s L_n) / sum_j N_j exp(f_j - s_j L_n). All in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from trajens.errors import InputError, choice, require
from trajens.thermo.estimate import Sample, estimate
from trajens.thermo.fluctuations import variance_of
from trajens.thermo.observation import Observed

_PIECE = 2**20
_STEPS, _CLOSE = 100, 1e-7
LEAST_EXCHANGE = 0.01
"""Between neighbouring s: draws that are hardly ever exchanged say nothing of each other."""
_SOME = 512


class Solution(NamedTuple):
    """f (levels,), relative to the first, for losses less `shift`; ``log_z`` are those for the losses themselves."""

    s: np.ndarray
    counts: np.ndarray
    f: np.ndarray
    shift: float

    @property
    def log_z(self) -> np.ndarray:
        """The ln Z(s), relative to the first."""
        return np.asarray(0.0 - (self.f + (self.s - self.s[0]) * self.shift))

    def log_mixture(self, loss: np.ndarray) -> np.ndarray:
        """The ln sum_j N_j exp(f_j - s_j (L - shift)) of every loss."""
        return _log_sum_exp(_exponents(self.f, self.s, self.counts, loss - self.shift))[1]

    def weights(self, loss: np.ndarray, s: float) -> np.ndarray:
        """Normalised weights of draws with such losses for averages at s."""
        log_w = -s * (loss - self.shift) - self.log_mixture(loss)
        w = np.exp(log_w - log_w.max())
        return np.asarray(w / w.sum())


def solve(sample: Sample, start: Solution | None = None) -> Solution:
    """The free energies of a sample, from `start` where something near is known."""
    s, counts = sample.s, np.array([loss.size for loss in sample.loss], np.float64)
    every = np.concatenate([loss.ravel() for loss in sample.loss])
    # Around their mean, so that large losses that all have in common cost no digits.
    shift = float(every.mean()) if start is None else start.shift
    loss = every - shift
    f = _by_trapezoid(sample, shift) if start is None else start.f - start.f[0]
    if len(f) == 1:
        return Solution(s, counts, f, shift)
    objective, sums, hessian = _derivatives(f, s, counts, loss)
    for _ in range(_STEPS):
        step = np.zeros_like(f)
        step[1:] = np.linalg.lstsq(hessian[1:, 1:], (counts - sums)[1:], rcond=None)[0]
        trial = _derivatives(f + step, s, counts, loss)
        is_newton = bool(trial[0] <= objective + 1e-12 * abs(objective))
        if not is_newton:
            step = _self_consistent(f, s, counts, loss) - f
            trial = _derivatives(f + step, s, counts, loss)
        f, (objective, sums, hessian) = f + step, trial
        # What is left after a Newton step is of the order of its square.
        if is_newton and np.abs(step).max() < _CLOSE:
            return Solution(s, counts, f, shift)
    raise InputError(
        f"free energies must come to rest within {_STEPS} steps, got some that did not; sample at s in between."
    )


def _derivatives(
    f: np.ndarray, s: np.ndarray, counts: np.ndarray, loss: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray]:
    """The objective, sum_n p_nk (levels,), and the matrix of second derivatives; so many draws at a time."""
    objective, sums, products = -float(counts @ f), np.zeros_like(f), np.zeros((len(f), len(f)))
    rows = max(1, _PIECE // len(f))
    for begin in range(0, len(loss), rows):
        p, log_sum = _log_sum_exp(_exponents(f, s, counts, loss[begin : begin + rows]))
        objective += float(log_sum.sum())
        sums += p.sum(1)
        products += p @ p.T
    return objective, sums, np.diag(sums) - products


def _self_consistent(f: np.ndarray, s: np.ndarray, counts: np.ndarray, loss: np.ndarray) -> np.ndarray:
    """The -ln of sums over draws of exp(-s_k L) / mixture; by logarithms, as some may have no share in any draw."""
    mixture = _log_sum_exp(_exponents(f, s, counts, loss))[1]
    found = -np.array([_log_sum_exp((-one * loss - mixture)[:, None])[1][0] for one in s])
    return np.asarray(found - found[0])


def _exponents(f: np.ndarray, s: np.ndarray, counts: np.ndarray, loss: np.ndarray) -> np.ndarray:
    return (np.log(counts) + f)[:, None] - s[:, None] * loss


def _log_sum_exp(exponents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Shares of every term (levels, n), and the logarithm of their sum (n,)."""
    top = exponents.max(0)
    terms = np.exp(exponents - top)
    total = terms.sum(0)
    return terms / total, top + np.log(total)


def _by_trapezoid(sample: Sample, shift: float) -> np.ndarray:
    """Where to begin: f from the mean losses alone."""
    means = np.array([loss.mean() for loss in sample.loss]) - shift
    return np.concatenate([[0.0], np.cumsum(np.diff(sample.s) * (means[1:] + means[:-1]) / 2)])


def exchange_rates(sample: Sample) -> np.ndarray:
    """<min(1, exp((s_a - s_b)(L_a - L_b)))> of neighbouring s, (levels - 1,): how much their draws have in common."""
    ends = [np.quantile(loss, (np.arange(_SOME) + 0.5) / _SOME) for loss in sample.loss]
    steps = zip(np.diff(sample.s), ends[:-1], ends[1:], strict=True)
    return np.array([np.exp(np.minimum(0.0, step * (b - a[:, None]))).mean() for step, a, b in steps])


def require_links(sample: Sample) -> None:
    """Refuse neighbouring s whose draws have too little in common."""
    rates = exchange_rates(sample)
    if (rates < LEAST_EXCHANGE).any():
        at = int(rates.argmin())
        raise InputError(
            f"neighbouring s must have losses in common, so that at least {LEAST_EXCHANGE:.0%} of exchanges between "
            f"them would be accepted, got {rates[at]:.2g} between {sample.s[at]:g} and {sample.s[at + 1]:g}; sample "
            "at an s in between, or use method='integration'."
        )


METHODS = ("mbar", "integration")


@dataclass(frozen=True)
class LogZ:
    """ln Z(s) - ln Z(s_1), s_1 the smallest.

    Attributes
    ----------
    s, log_z, stderr : (levels,)
        `stderr` is the statistical error, from chains and from the choice of examples.
    discretisation : (levels,)
        Of the integration, an estimate of what is left out between the s, which is not part of `stderr`; from noisy
        third moments, so rather too large. 0 for MBAR, which leaves out nothing.
    """

    s: np.ndarray
    log_z: np.ndarray
    stderr: np.ndarray
    discretisation: np.ndarray


def log_z(observed: Observed, method: str = "mbar") -> LogZ:
    """The logarithm of Z at every s, relative to the smallest.

    Parameters
    ----------
    observed : Observed
        Of two s at least.
    method : "mbar" or "integration"
        MBAR uses all draws at all s, and is refused where neighbouring s have too few losses in common; integration
        does not need that, but leaves something out between the s.

    Returns
    -------
    LogZ
    """
    function = log_z_by(observed, method)
    value, stderr = estimate(observed, function)
    left_out = np.zeros_like(value)
    if method == "integration":
        path_loss = observed.path_loss
        levels = [path_loss[chains] for chains in observed.members]
        mean, variance, third = np.transpose([(loss.mean(), variance_of(loss), _third(loss)) for loss in levels])
        more, less = (_integrated(observed.levels, mean, variance, bend) for bend in (third, None))
        left_out = np.abs(more - less)
    return LogZ(observed.levels, value, stderr, left_out)


def log_z_by(observed: Observed, method: str) -> Callable[[Sample], np.ndarray]:
    """The function of a sample that gives ln Z (levels,), relative to the first."""
    choice("method", method, METHODS)
    count = len(observed.levels)
    require(count > 1, f"two different s are needed at least, got {count}; sample with one s for every chain.")
    return _by_integration if method == "integration" else Mbar()


class Mbar:
    """ln Z of a sample by MBAR, from where the first one ended: later ones have some draws less."""

    def __init__(self) -> None:
        self.first: Solution | None = None

    def __call__(self, sample: Sample) -> np.ndarray:
        return self.solution(sample).log_z

    def solution(self, sample: Sample) -> Solution:
        """The free energies."""
        if self.first is None:
            require_links(sample)
            self.first = solve(sample)
            return self.first
        return solve(sample, self.first)


def _by_integration(sample: Sample) -> np.ndarray:
    moments = np.array([(loss.mean(), variance_of(loss)) for loss in sample.loss])
    return _integrated(sample.s, *moments.T)


def _integrated(s: np.ndarray, mean: np.ndarray, variance: np.ndarray, third: np.ndarray | None = None) -> np.ndarray:
    """-int <L> ds from the first s to every other, with the third central moment to one order more."""
    x, f, slope, bend = s, mean, -variance, third
    if (s > 0).all():
        # f ds = f s d(ln s), and each derivative by ln s is s d/ds.
        x, f, slope = np.log(s), s * mean, s * mean - s**2 * variance
        bend = None if third is None else s * mean - 3 * s**2 * variance + s**3 * third
    h = np.diff(x)
    parts = h * (f[1:] + f[:-1]) / 2
    if bend is None:
        parts += h**2 * (slope[:-1] - slope[1:]) / 12
    else:
        parts += h**2 * (slope[:-1] - slope[1:]) / 10 + h**3 * (bend[:-1] + bend[1:]) / 120
    return np.concatenate([[0.0], -np.cumsum(parts)])


def _third(loss: np.ndarray) -> float:
    return float(((loss - loss.mean()) ** 3).mean())
