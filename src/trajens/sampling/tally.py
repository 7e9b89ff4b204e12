"""What is counted while sampling: per decision (epoch), never per iteration.

Averages over iterations would weight a state by how much data its next decision needed, which is a bias.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from trajens.acceptance.base import Reason


class Tally(NamedTuple):
    """Sums per chain over the decisions of one call of the sampler.

    `examples` sums batch sizes; `evaluations` also counts each changed model of a proposal. `loss_deciding` sums
    the paper's loss: that of the model kept, on the minibatch that decided.
    """

    proposals: jax.Array
    accepted: jax.Array
    examples: jax.Array
    evaluations: jax.Array
    loss_deciding: jax.Array
    reasons: jax.Array

    def plus(
        self,
        is_decided: jax.Array,
        is_accepted: jax.Array,
        reason: jax.Array,
        batch: jax.Array,
        changed: jax.Array,
        losses: jax.Array,
    ) -> Tally:
        """Add the lanes (chains, lanes) that were decided; `losses` are sums over the batch, old and new."""
        deciding = jnp.where(is_accepted, losses[..., 1], losses[..., 0]) / jnp.maximum(batch * changed, 1)
        is_clean = is_decided & jnp.isfinite(deciding)
        reasons = is_decided[..., None] & (reason[..., None] == jnp.arange(len(Reason)))
        return Tally(
            self.proposals + is_decided.sum(1, dtype=jnp.int32),
            self.accepted + is_accepted.sum(1, dtype=jnp.int32),
            self.examples + jnp.where(is_decided, batch, 0).sum(1),
            self.evaluations + jnp.where(is_decided, batch * changed, 0).sum(1),
            self.loss_deciding + jnp.where(is_clean, deciding, 0.0).sum(1),
            self.reasons + reasons.sum(1, dtype=jnp.int32),
        )


def empty_tally(chains: int) -> Tally:
    """Nothing counted yet."""
    whole, real = jnp.zeros(chains, jnp.int32), jnp.zeros(chains, jnp.float32)
    return Tally(whole, whole, whole, whole, real, jnp.zeros((chains, len(Reason)), jnp.int32))
