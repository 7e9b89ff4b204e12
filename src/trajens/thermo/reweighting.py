"""Reweighting: averages at an s that was not sampled, and the rate function of the loss.

*Averages.* From draws at the s that were sampled, with the weights of `trajens.thermo.free_energy`,

    <A>_s = sum_n w_n A_n,   effective sample size = 1 / sum_n w_n^2.

*Rate function.* The rate function of the loss: how unlikely it is, at one s, that a path has the loss that is usual at
another.

    I(L) = max_s' [-(s' - s_0) L - ln Z(s') + ln Z(s_0)],   P(L) ~ exp(-I(L)) at s_0

to leading order in long paths and many parameters. At L = <L>_s the maximum is at s' = s, which gives the curve
parametrically; it is convex by construction, also where ln P(L) is not, and 0 at its minimum at s_0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from trajens.errors import require
from trajens.precision import numbers
from trajens.thermo.estimate import Sample, estimate, sample_of
from trajens.thermo.fluctuations import variance_of
from trajens.thermo.free_energy import Mbar, log_z_by
from trajens.thermo.observation import Observed

LEAST = 50.0
"""Draws that an average must be worth."""
_BEYOND = 1.0
"""Outside of the ladder, in (s - s_end) times the standard deviation of L at its end."""


@dataclass(frozen=True)
class Reweighted:
    """An average at other s.

    Attributes
    ----------
    s : float or array
        As it was given; all else has its shape.
    mean, stderr : float or array
        With the error from chains, in which correlations between draws count.
    ess : float or array
        Draws that it is worth, as if they were all independent.
    """

    s: Any
    mean: Any
    stderr: Any
    ess: Any


def reweight(observed: Observed, s: Any, values: Any = None) -> Reweighted:
    """The mean of an observable at `s`, a number or several, in between those that were sampled.

    Parameters
    ----------
    observed : Observed
    s : float or array of floats
        Refused where draws are worth fewer than 50 there, or farther outside of the ladder than one standard deviation
        of the loss can tell.
    values : array (chains, draws), optional
        The observable for every draw; default the loss per model.

    Returns
    -------
    Reweighted
    """
    wanted = np.atleast_1d(numbers("s", s).astype(np.float64))
    require(wanted.ndim == 1 and bool(np.isfinite(wanted).all()), f"s must be finite, got {s!r}; give one or several.")
    shape = observed.losses.shape[:2]
    given = None if values is None else numbers("values", values).astype(np.float64)
    require(
        given is None or given.shape == shape,
        f"values must be one for each of {shape[0]} chains and {shape[1]} draws, got "
        f"{None if given is None else given.shape}; average over models first.",
    )
    of_losses = (lambda losses: losses.mean(-1)) if given is None else (lambda _: given)
    whole, mbar = sample_of(observed, observed.losses, of_losses), Mbar()
    solution = mbar.solution(whole)
    every = np.concatenate([loss.ravel() for loss in whole.loss])
    ess = np.array([1.0 / (solution.weights(every, one) ** 2).sum() for one in wanted])
    for one, worth in zip(wanted, ess, strict=True):
        _require_near(whole, one, worth)

    def means(sample: Sample) -> np.ndarray:
        found, loss, value = (
            mbar.solution(sample),
            *(np.concatenate([level.ravel() for level in levels]) for levels in (sample.loss, sample.values)),
        )
        return np.array([found.weights(loss, one) @ value for one in wanted])

    mean, stderr = estimate(observed, means, of_losses)
    if np.ndim(s) == 0:
        return Reweighted(float(wanted[0]), float(mean[0]), float(stderr[0]), float(ess[0]))
    return Reweighted(wanted, mean, stderr, ess)


def _require_near(sample: Sample, s: float, worth: float) -> None:
    """Refuse an s that draws say too little of."""
    low, high = sample.s[0], sample.s[-1]
    end, beyond = (0, low - s) if s < low else (-1, s - high)
    far = beyond * np.sqrt(variance_of(sample.loss[end]))
    require(
        far <= _BEYOND,
        f"s must be within {low:g} to {high:g}, or little outside, got {s:g}, {far:.1f} standard deviations of the "
        "loss beyond; sample there.",
    )
    require(
        worth >= LEAST,
        f"s must be one that draws are worth {LEAST:g} at least at, got {s:g}, where they are worth {worth:.0f}; "
        "sample more, or nearer to it.",
    )


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
        return np.stack([mean / observed.tau, (s[at] - s) * mean - (free - free[at])])

    value, stderr = estimate(observed, both)
    return RateFunction(s, value[0], stderr[0], value[1], stderr[1], float(s[at]))
