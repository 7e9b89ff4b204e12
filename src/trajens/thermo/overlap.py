"""Overlaps: how much models have in common, along a path and between chains.

With averages over the draws of one s, and Q_tt' per parameter,

    Q_tt' = <theta_t . theta_t'> / dim          of one path             (along)
    Q_tt' = <theta_t . theta'_t'> / dim         of two chains           (between)
    overlap = Q_tt' / (Q_tt Q_t't')^1/2         with Q_tt those of one path
    distance = Q_tt + Q_t't' - 2 Q_tt'          mean squared, per parameter

Nothing is centred: models of independent chains have the product of their means in common, so that
(along - between) (Q_tt Q_t't')^1/2 is the connected part, the trace of Cov(theta_t, theta_t') / dim. Chains that stay
in different valleys, or symmetric copies of one network, have small overlaps between them and large ones along a path.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from trajens.errors import require
from trajens.exact import ExactPaths
from trajens.precision import numbers
from trajens.run.run import Run
from trajens.run.stored import StoredRun
from trajens.thermo.observation import kept_paths


@dataclass(frozen=True)
class Overlap:
    """By s, ascending, then t and t'.

    Attributes
    ----------
    s : (levels,)
        NaN where nothing is known of it.
    along, between : (levels, tau, tau)
        Overlaps of one path, 1 at t = t', and of chains of equal s; NaN between where there is one chain.
    distance_along, distance_between : (levels, tau, tau)
        Mean squared distances per parameter.
    along_stderr, between_stderr, distance_along_stderr, distance_between_stderr : (levels, tau, tau)
        From chains; NaN of fewer than 2, and between of fewer than 3.
    """

    s: np.ndarray
    along: np.ndarray
    between: np.ndarray
    distance_along: np.ndarray
    distance_between: np.ndarray
    along_stderr: np.ndarray
    between_stderr: np.ndarray
    distance_along_stderr: np.ndarray
    distance_between_stderr: np.ndarray


def overlap(paths: Any, s: Any = None, burn_in: int | None = None) -> Overlap:
    """Overlaps between models along t, and between chains of equal s.

    Parameters
    ----------
    paths : Run, StoredRun, array (chains, draws, tau, dim) or ExactPaths
        A run must have kept its paths; `trajens.exact.perceptron` gives those of its distribution, without an error.
    s : array (chains,), optional
        The tilt of every chain of an array; default, all are of one.
    burn_in : int, optional
        Epochs of a run to leave out; default its own.

    Returns
    -------
    Overlap
    """
    if isinstance(paths, ExactPaths):
        return _exact(paths)
    if isinstance(paths, (Run, StoredRun)):
        kept = kept_paths(paths, burn_in)
        history, tilts = kept.history, kept.s
    else:
        history = numbers("paths", paths)
        tilts = np.full(len(history), np.nan) if s is None else numbers("s", s).astype(np.float64)
    require(
        history.ndim == 4 and tilts.shape == history.shape[:1],
        f"paths must have shape (chains, draws, tau, dim) and s shape (chains,), got {history.shape} and "
        f"{tilts.shape}; give a run, or its history.",
    )
    levels = np.unique(tilts)
    along, mean = _by_chain(history)
    parts = [_level(along[c], mean[c]) for c in (np.flatnonzero((tilts == one) | np.isnan(one)) for one in levels)]
    value, stderr = (np.stack(part, 1) for part in zip(*parts, strict=True))
    return Overlap(levels, *value, *stderr)


def _by_chain(history: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of every chain: Q (chains, tau, tau) along its paths, and its mean path (chains, tau, dim); draw by draw."""
    chains, draws, tau, dim = history.shape
    along, mean = np.zeros((chains, tau, tau)), np.zeros((chains, tau, dim))
    for draw in range(draws):
        path = np.asarray(history[:, draw], np.float64)
        along += path @ path.swapaxes(1, 2)
        mean += path
    return along / (draws * dim), mean / draws


def _level(along: np.ndarray, mean: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both overlaps and both distances (4, tau, tau) of chains of one s, and their errors by leaving out each."""
    chains, _, dim = mean.shape
    total = mean.sum(0)
    own = mean @ mean.swapaxes(1, 2)
    with_others = mean @ (total - mean).swapaxes(1, 2)
    pairs = (total @ total.T - own.sum(0)) / dim
    value = _measures(along.mean(0), _per(pairs, chains * (chains - 1)))
    left = [
        _measures(
            (along.sum(0) - along[r]) / max(chains - 1, 1),
            _per(pairs - (with_others[r] + with_others[r].T) / dim, (chains - 1) * (chains - 2)),
        )
        for r in range(chains)
    ]
    stderr = np.sqrt((chains - 1) / chains * ((left - np.mean(left, 0)) ** 2).sum(0))
    return value, stderr if chains > 1 else np.full_like(value, np.nan)


def _per(total: np.ndarray, count: int) -> np.ndarray:
    return total / count if count > 0 else np.full_like(total, np.nan)


def _measures(along: np.ndarray, between: np.ndarray) -> np.ndarray:
    """Overlaps and distances (4, tau, tau) from Q along and between."""
    size = np.diag(along)
    scale = np.sqrt(np.outer(size, size))
    if not (scale > 0).all():
        # A chain that is left out may have been the only one; its measures are not used.
        scale = np.where(scale > 0, scale, np.nan)
    both = size[:, None] + size
    return np.stack([along / scale, between / scale, both - 2 * along, both - 2 * between])


def _exact(exact: ExactPaths) -> Overlap:
    """Of a Gaussian distribution: between chains the product of means, along a path the covariance besides."""
    dim = exact.mean.shape[1]
    between = exact.mean @ exact.mean.T / dim
    along = between + np.einsum("tdud->tu", exact.covariance) / dim
    value = _measures(along, between)[:, None]
    return Overlap(np.array([np.nan]), *value, *np.zeros_like(value))
