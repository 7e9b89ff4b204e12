"""MBAR: free energies of all s at once, from all draws at all s (Shirts and Chodera 2008).

f_k = -ln Z(s_k) are where, with N_k draws at s_k and n over the draws of all of them,

    N_k = sum_n p_nk,   p_nk = N_k exp(f_k - s_k L_n) / sum_j N_j exp(f_j - s_j L_n).

That is the minimum of the convex function sum_n ln sum_k N_k exp(f_k - s_k L_n) - sum_k N_k f_k, found by Newton steps,
and by a step of f_k <- f_k - ln(sum_n p_nk / N_k) wherever one of them does not lead down. An average at any s, also
one in between, has weights w_n ~ exp(-s L_n) / sum_j N_j exp(f_j - s_j L_n). All in float64.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trajens.errors import InputError
from trajens.thermo.jackknife import Sample

_PIECE = 2**20
_STEPS, _CLOSE = 100, 1e-11
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
        return -self.f - (self.s - self.s[0]) * self.shift

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
    f = _by_trapezoid(sample, shift) if start is None else start.f.copy()
    if len(f) == 1:
        return Solution(s, counts, f, shift)
    objective, sums, hessian = _derivatives(f, s, counts, loss)
    for _ in range(_STEPS):
        step = np.zeros_like(f)
        step[1:] = np.linalg.lstsq(hessian[1:, 1:], (counts - sums)[1:], rcond=None)[0]
        trial = _derivatives(f + step, s, counts, loss)
        if not trial[0] <= objective + 1e-12 * abs(objective):
            step = np.log(counts / sums)
            step -= step[0]
            trial = _derivatives(f + step, s, counts, loss)
        f, (objective, sums, hessian) = f + step, trial
        if np.abs(step).max() < _CLOSE * max(1.0, np.abs(f).max()):
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
        sums += p.sum(0)
        products += p.T @ p
    return objective, sums, np.diag(sums) - products


def _exponents(f: np.ndarray, s: np.ndarray, counts: np.ndarray, loss: np.ndarray) -> np.ndarray:
    return np.log(counts) + f - loss[:, None] * s


def _log_sum_exp(exponents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Shares of every term (n, levels), and the logarithm of their sum (n,)."""
    top = exponents.max(1, keepdims=True)
    terms = np.exp(exponents - top)
    total = terms.sum(1, keepdims=True)
    return terms / total, (top + np.log(total))[:, 0]


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
