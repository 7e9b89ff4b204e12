"""ln Z(s): by integration of the mean loss, or by MBAR over all s at once.

Integration takes <L> and its slope -Var L at both ends of every interval (Euler-Maclaurin, the integral of the cubic
through both), in ln s where all s > 0, as a perceptron's <L> ~ 1/s suggests, else in s:

    int f dx = h (f_0 + f_1)/2 + h^2 (f_0' - f_1')/12 + O(h^5).

With the second derivative, which is the third central moment of L, the rule is of order h^7; what it differs by is the
estimate of what the first one leaves out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from trajens.errors import choice, require
from trajens.thermo.curve import variance_of
from trajens.thermo.jackknife import Sample, estimate
from trajens.thermo.mbar import Solution, require_links, solve
from trajens.thermo.observed import Observed

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
        moments = [(loss.mean(), variance_of(loss), _third(loss)) for loss in observed_losses(observed)]
        left_out = np.abs(_integrated(observed.levels, *np.transpose(moments)) - value)
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


def observed_losses(observed: Observed) -> list[np.ndarray]:
    """Path losses (chains, draws) by level."""
    return [observed.path_loss[chains] for chains in observed.members]


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
