"""Fluctuations of the loss: its mean and susceptibility as functions of s, and its correlation times.

    -d ln Z / ds = <L>,   d^2 ln Z / ds^2 = Var L,   L = sum_t L(theta_t)

Var L is estimated without bias from R chains of any length and any correlation between their draws: with m_c the mean
of chain c and q the mean of L^2 over all draws,

    Var L = q - mean over pairs c != c' of m_c m_c',

since means of different chains are independent. The variance within chains alone would be too small by that of m_c,
which for chains shorter than their correlation time is nearly all of it.

*Correlation times* are along epochs, and along t.

Along epochs, T = 1 + 2 sum_k rho_k, rho_k the correlation of path losses k records apart, averaged over chains of
equal s around their common mean, and cut off at the first k >= 5 T (Sokal); R chains of n draws are worth R n / T
independent ones. Along t a path ends soon, and there is no window to choose:

    xi = Var L / sum_t Var L(theta_t),

1 where the losses of the models of a path are independent, tau where all are the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import fft

from trajens.errors import require
from trajens.thermo.estimate import Sample, estimate
from trajens.thermo.observation import Observed


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
    """Variance of the distribution that chains (chains, draws) were drawn from, unbiased where there are several."""
    offset = loss - loss.mean()
    within = float((offset**2).mean())
    if len(loss) == 1:
        return within * loss.size / max(loss.size - 1, 1)
    # Around the mean over all draws, pairs of different chains have the mean product -(variance of that mean).
    return within + float(offset.mean(1).var(ddof=1)) / len(loss)


_WINDOW = 5.0
_IN_ALL, _EACH = 50.0, 10.0
"""Correlation times that all chains of one s, and each, must be long."""


@dataclass(frozen=True)
class CorrelationTimes:
    """By s, ascending.

    Attributes
    ----------
    s : (levels,)
    records, records_stderr : (levels,)
        T along epochs, counted in records.
    epochs, epochs_stderr : (levels,)
        The same in epochs; NaN where those of the draws are not known, or not evenly spaced.
    along_t, along_t_stderr : (levels,)
        xi, in models.
    effective : (levels,)
        Independent draws that all chains of an s are worth.
    """

    s: np.ndarray
    records: np.ndarray
    records_stderr: np.ndarray
    epochs: np.ndarray
    epochs_stderr: np.ndarray
    along_t: np.ndarray
    along_t_stderr: np.ndarray
    effective: np.ndarray


def correlation_times(observed: Observed) -> CorrelationTimes:
    """How long the loss remembers, along epochs and along t, at every s.

    Refused where the chains of an s are not 50 correlation times long together, or not 10 each: what comes out of
    shorter ones is too small, and nothing in it tells so.
    """

    def both(sample: Sample) -> np.ndarray:
        along = [_along_t(losses) for losses in sample.values]
        return np.array([[_integrated(loss) for loss in sample.loss], along])

    (times, along), (times_error, along_error) = estimate(observed, both, lambda losses: losses)
    counts = np.array([len(chains) for chains in observed.members])
    for s, chains, time in zip(observed.levels, counts, times, strict=True):
        need = max(_IN_ALL * time / chains, _EACH * time)
        require(
            observed.draws >= need,
            f"chains must have {need:.0f} draws at least to tell their correlation time, of about {time:.1f} records "
            f"at s = {s:g}, got {observed.draws}; run them longer, or record less often.",
        )
    spacing = np.nan if observed.epochs is None else _spacing(observed.epochs)
    return CorrelationTimes(
        s=observed.levels,
        records=times,
        records_stderr=times_error,
        epochs=times * spacing,
        epochs_stderr=times_error * spacing,
        along_t=along,
        along_t_stderr=along_error,
        effective=counts * observed.draws / times,
    )


def _integrated(loss: np.ndarray) -> float:
    """T of chains (chains, draws) of one distribution."""
    draws = loss.shape[1]
    offset = loss - loss.mean()
    spectrum = fft.rfft(offset, 2 * draws, axis=1)
    products = fft.irfft(np.abs(spectrum) ** 2, 2 * draws, axis=1)[:, :draws].mean(0) / np.arange(draws, 0, -1)
    if not products[0] > 0:
        return 1.0
    times = 2.0 * np.cumsum(products / products[0]) - 1.0
    inside = np.arange(draws) >= _WINDOW * times
    return float(times[np.argmax(inside) if inside.any() else -1])


def _along_t(losses: np.ndarray) -> float:
    """The xi of losses (chains, draws, tau)."""
    each = sum(variance_of(losses[..., t]) for t in range(losses.shape[-1]))
    return variance_of(losses.sum(-1)) / each if each > 0 else 1.0


def _spacing(epochs: np.ndarray) -> float:
    """Epochs between draws; NaN where they are not evenly spaced."""
    steps = np.diff(epochs)
    is_even = len(steps) > 0 and np.ptp(steps) <= 1e-3 * steps.mean() + 1
    return float(steps.mean()) if is_even else float("nan")
