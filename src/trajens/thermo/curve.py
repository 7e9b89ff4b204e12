"""The mean loss and the susceptibility as functions of s.

    -d ln Z / ds = <L>,   d^2 ln Z / ds^2 = Var L,   L = sum_t L(theta_t)

Var L is estimated without bias from R chains of any length and any correlation between their draws: with m_c the mean
of chain c and q the mean of L^2 over all draws,

    Var L = q - mean over pairs c != c' of m_c m_c',

since means of different chains are independent. The variance within chains alone would be too small by that of m_c,
which for chains shorter than their correlation time is nearly all of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trajens.thermo.jackknife import Sample, estimate
from trajens.thermo.observed import Observed


@dataclass(frozen=True)
class Curve:
    """By s, ascending: mean loss per model and variance of the path loss, with standard errors.

    Attributes
    ----------
    s : (levels,)
    loss, loss_stderr : (levels,)
        ``<L> / tau``.
    variance, variance_stderr : (levels,)
        Var L, the susceptibility -d<L>/ds. Of a single chain it is that around its own mean, which is too small by
        about 2 T / draws of it, T the correlation time in records.
    """

    s: np.ndarray
    loss: np.ndarray
    loss_stderr: np.ndarray
    variance: np.ndarray
    variance_stderr: np.ndarray


def curve(observed: Observed) -> Curve:
    """<L> and Var L at every s, with errors from chains and from the choice of examples."""

    def both(sample: Sample) -> np.ndarray:
        return np.array([[loss.mean() / observed.tau, variance_of(loss)] for loss in sample.loss])

    value, stderr = estimate(observed, both)
    return Curve(observed.levels, value[:, 0], stderr[:, 0], value[:, 1], stderr[:, 1])


def variance_of(loss: np.ndarray) -> float:
    """The variance of the law that chains (chains, draws) were drawn from, without bias where there are several."""
    offset = loss - loss.mean()
    within = float((offset**2).mean())
    if len(loss) == 1:
        return within * loss.size / max(loss.size - 1, 1)
    # Around the mean over all draws, pairs of different chains have the mean product -(variance of that mean).
    return within + float(offset.mean(1).var(ddof=1)) / len(loss)
