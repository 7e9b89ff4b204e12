"""The rate function of the loss: how unlikely it is, at one s, that a path has the loss that is usual at another.

    I(L) = max_s' [-(s' - s_0) L - ln Z(s') + ln Z(s_0)],   P(L) ~ exp(-I(L)) at s_0

to leading order in long paths and many parameters. At L = <L>_s the maximum is at s' = s, which gives the curve
parametrically; it is convex by construction, also where ln P(L) is not, and 0 at its minimum at s_0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trajens.errors import require
from trajens.thermo.free_energy import log_z_by
from trajens.thermo.jackknife import Sample, estimate
from trajens.thermo.observed import Observed


@dataclass(frozen=True)
class RateFunction:
    """Along s: the mean loss per model, and the rate there.

    Attributes
    ----------
    s : (levels,)
    loss, loss_stderr : (levels,)
        ``<L> / tau``.
    rate, rate_stderr : (levels,)
        I in nats per path; 0 at the reference.
    reference : float
        s_0.
    """

    s: np.ndarray
    loss: np.ndarray
    loss_stderr: np.ndarray
    rate: np.ndarray
    rate_stderr: np.ndarray
    reference: float


def rate_function(observed: Observed, reference: float | None = None, method: str = "mbar") -> RateFunction:
    """The rate function of the path loss at the s `reference`, the smallest unless another one is given.

    Parameters
    ----------
    observed : Observed
    reference : float, optional
        One of the s that were sampled.
    method : "mbar" or "integration"
        See `log_z`.

    Returns
    -------
    RateFunction
    """
    s = observed.levels
    zero = s[0] if reference is None else reference
    require(zero in s, f"reference must be one of the s that were sampled, {s}, got {reference!r}; take one of them.")
    at, log_z = int(np.searchsorted(s, zero)), log_z_by(observed, method)

    def both(sample: Sample) -> np.ndarray:
        mean, free = np.array([loss.mean() for loss in sample.loss]), log_z(sample)
        return np.stack([mean / observed.tau, -(s - s[at]) * mean - (free - free[at])])

    value, stderr = estimate(observed, both)
    return RateFunction(s, value[0], stderr[0], value[1], stderr[1], float(s[at]))
