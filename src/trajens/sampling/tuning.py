"""Tuning of move sizes: larger where more than a target share is accepted, smaller where less.

    ln size <- ln size + (accepted / decided - ACCEPTANCE),   after DECISIONS decisions or a few more

per chain and kind of move, between two phases of a scan, when no proposal is pending; frozen after burn-in, so that
averages are taken with a fixed kernel. The size is the share of many parameters that is redrawn, or the refresh of few.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from trajens.moves.base import FEW_PARAMETERS, Proposer, usual_fraction

ACCEPTANCE = 0.35
"""At which annealed paths moved furthest per example, in a flat maximum."""

DECISIONS = 64
"""Averaged over before a size is changed."""


_LEAST = 1000
"""One in so many, or one parameter, is the smallest size."""


class Sizes(NamedTuple):
    """ln size, and what was decided and accepted since it was changed; fields are (chains, kinds)."""

    log_size: jax.Array
    decided: jax.Array
    accepted: jax.Array

    @property
    def size(self) -> jax.Array:
        """Of the moves of every chain and kind."""
        return jnp.exp(self.log_size)

    def plus(self, kind: jax.Array, is_decided: jax.Array, is_accepted: jax.Array) -> Sizes:
        """With the decisions of lanes (chains, lanes)."""
        is_of = kind[..., None] == jnp.arange(self.log_size.shape[1])
        count = lambda these: (these[..., None] & is_of).sum(1, dtype=jnp.int32)  # noqa: E731
        return self._replace(decided=self.decided + count(is_decided), accepted=self.accepted + count(is_accepted))

    def tuned(self, may_tune: jax.Array, dim: int) -> Sizes:
        """Changed where enough was decided, in chains (chains,) that may."""
        is_due = may_tune[:, None] & (self.decided >= DECISIONS)
        step = self.accepted / jnp.maximum(self.decided, 1) - ACCEPTANCE
        log_size = jnp.clip(self.log_size + step, -math.log(max(dim, _LEAST)), 0.0)
        return Sizes(
            jnp.where(is_due, log_size, self.log_size),
            jnp.where(is_due, 0, self.decided),
            jnp.where(is_due, 0, self.accepted),
        )


def initial_sizes(chains: int, kinds: int, dim: int, share: float | None = None) -> Sizes:
    """Those that change a share of a model; default what moves do unless they are tuned."""
    zero: Any = np.zeros((chains, kinds), np.int32)
    size = usual_fraction(dim)
    if share is not None:
        size = min(size, max(share**0.5 if dim <= FEW_PARAMETERS else share, 1 / max(dim, _LEAST)))
    log_size: Any = np.full((chains, kinds), math.log(size), np.float32)
    return Sizes(log_size, zero, zero)


def mean_sizes(sizes: Any, move: Proposer, chains: int) -> np.ndarray:
    """The mean size (chains,) of the kinds of moves that are tuned; NaN without."""
    is_tuned = [component.is_sized for _, component in move.components]
    if not isinstance(sizes, Sizes) or not any(is_tuned):
        return np.full(chains, np.nan)
    return np.exp(np.asarray(sizes.log_size, np.float64)[:, is_tuned]).mean(1)


def share_renewed(sizes: Any, move: Proposer, dim: int) -> float:
    """The part of a model that an accepted move renews, on average over chains and kinds of moves."""
    chains = np.exp(np.asarray(sizes.log_size, np.float64)) if isinstance(sizes, Sizes) else [None]
    return float(np.mean([_share_of_chain(size, move, dim) for size in chains]))


def _share_of_chain(size: np.ndarray | None, move: Proposer, dim: int) -> float:
    is_tuned = [size is not None and component.is_sized for _, component in move.components]
    weights = np.asarray(move.weights(size), np.float64)
    shares = [
        component.renewed_share(float(size[kind]) if is_tuned[kind] else None, dim)
        for kind, (_, component) in enumerate(move.components)
    ]
    return float(weights @ shares / weights.sum())
