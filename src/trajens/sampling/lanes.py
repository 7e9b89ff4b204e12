"""What each lane has seen of its pending proposal: moments of its loss differences, stage by stage."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from trajens.acceptance.base import Past, Verdict
from trajens.acceptance.moments import Moments, merge, moments_of, no_moments
from trajens.moves.base import Site


class Lanes(NamedTuple):
    """Fields are (chains, lanes, ...); `past` is None for tests of one stage.

    `losses` are sums over the batch, of the current and of the proposed models. `row` is the number of the model that
    is looked at among those that change, and `partial` the differences of those before it; both are None where a
    proposal changes one model.
    """

    row: jax.Array | None
    moments: Moments
    partial: jax.Array | None
    losses: tuple[jax.Array, jax.Array]
    past: Past | None
    stage: jax.Array

    @property
    def seen(self) -> jax.Array:
        """Examples seen in all stages."""
        return self.moments.n if self.past is None else self.moments.n + self.past.n

    def plus(self, site: Site, losses: jax.Array, is_valid: jax.Array | None) -> tuple[Lanes, jax.Array]:
        """A chunk more, losses (chains, lanes, 2, m) of both models, and whether it was of the last model that changes.

        Delta_i sums over all changed models before it is counted.
        """
        if is_valid is not None:
            losses = jnp.where(is_valid[:, :, None], losses, 0.0)
        old, new = losses[:, :, 0], losses[:, :, 1]
        differences = new - old
        sums = self.losses[0] + old.sum(-1), self.losses[1] + new.sum(-1)
        if self.row is None or self.partial is None:
            moments = merge(self.moments, moments_of(differences, is_valid))
            return self._replace(moments=moments, losses=sums), jnp.ones(old.shape[:-1], bool)
        is_last_row = site.first + self.row + 1 >= site.stop
        differences = differences + self.partial
        merged = merge(self.moments, moments_of(differences, is_valid))
        moments = jax.tree.map(lambda a, b: jnp.where(is_last_row, a, b), merged, self.moments)
        row = jnp.where(is_last_row, 0, self.row + 1)
        partial = jnp.where(is_last_row[..., None], 0.0, differences)
        return self._replace(row=row, moments=moments, partial=partial, losses=sums), is_last_row

    def after(self, verdict: Verdict) -> Lanes:
        """Lanes that passed a stage stand at the beginning of the next."""
        if self.past is None:
            return self
        is_passed = verdict.is_passed & ~verdict.is_decided
        past, moments = self.past.plus(self.moments, is_passed)
        return self._replace(past=past, moments=moments, stage=self.stage + is_passed)


def idle_lanes(chains: int, lanes: int, partial: int | None, stages: int) -> Lanes:
    """Lanes that have seen nothing; `partial` differences are kept where a proposal changes several models."""
    shape = (chains, lanes)
    whole, real = jnp.zeros(shape, jnp.int32), jnp.zeros(shape, jnp.float32)
    return Lanes(
        None if partial is None else whole,
        no_moments(shape),
        None if partial is None else jnp.zeros((*shape, partial), jnp.float32),
        (real, real),
        Past(whole, real) if stages > 1 else None,
        whole,
    )


def lift(mask: jax.Array, leaf: jax.Array) -> jax.Array:
    """`mask` with as many axes as `leaf`, to choose by."""
    return mask.reshape(mask.shape + (1,) * (leaf.ndim - mask.ndim))
