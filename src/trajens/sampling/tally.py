"""What is counted while sampling: per decision (epoch), never per iteration.

Averages over iterations would weight a state by how much data its next decision needed, which is a bias.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from trajens.acceptance.base import Reason


class Tally(NamedTuple):
    """Sums per chain over the decisions of one call of the sampler.

    `examples` sums batch sizes; `evaluations` also counts each changed model of a proposal. `loss_deciding` sums
    the paper's loss: that of the model kept, on the minibatch that decided. `steps` (chains, 2) are those of losses
    that count some: of both models in every chunk that was evaluated, in two words of 32 bits, the low one first.
    """

    proposals: jax.Array
    accepted: jax.Array
    examples: jax.Array
    evaluations: jax.Array
    loss_deciding: jax.Array
    reasons: jax.Array
    steps: jax.Array


class LaneTally(NamedTuple):
    """The same sums for every lane (chains, lanes), one array for each reason; `steps` are those of chains.

    Inside the loop nothing is summed over lanes: on a GPU each such sum would be a kernel of its own.
    """

    proposals: jax.Array
    accepted: jax.Array
    examples: jax.Array
    evaluations: jax.Array
    loss_deciding: jax.Array
    reasons: tuple[jax.Array, ...]
    steps: jax.Array

    def plus(
        self,
        is_decided: jax.Array,
        is_accepted: jax.Array,
        reason: jax.Array,
        batch: jax.Array,
        changed: jax.Array,
        losses: tuple[jax.Array, jax.Array],
        steps: jax.Array,
    ) -> LaneTally:
        """Add the lanes (chains, lanes) that were decided; `losses` are sums over the batch, old and new.

        `steps` (chains,) are those that all lanes took, decided or not.
        """
        old, new = losses
        deciding = jnp.where(is_accepted, new, old) / jnp.maximum(batch * changed, 1)
        is_clean = is_decided & jnp.isfinite(deciding)
        return LaneTally(
            self.proposals + is_decided,
            self.accepted + is_accepted,
            self.examples + jnp.where(is_decided, batch, 0),
            self.evaluations + jnp.where(is_decided, batch * changed, 0),
            self.loss_deciding + jnp.where(is_clean, deciding, 0.0),
            tuple(count + (is_decided & (reason == value)) for value, count in enumerate(self.reasons)),
            added(self.steps, steps),
        )

    def of_chains(self) -> Tally:
        """Summed over the lanes of every chain."""
        return Tally(
            self.proposals.sum(1, dtype=jnp.int32),
            self.accepted.sum(1, dtype=jnp.int32),
            self.examples.sum(1, dtype=jnp.int32),
            self.evaluations.sum(1, dtype=jnp.int32),
            _in_order(self.loss_deciding),
            jnp.stack([count.sum(1, dtype=jnp.int32) for count in self.reasons], axis=-1),
            self.steps,
        )


def _in_order(of_lanes: jax.Array) -> jax.Array:
    """Sums over lanes (chains, lanes), one after the other: how many chains a device has must not change a bit."""
    return jax.lax.fori_loop(1, of_lanes.shape[1], lambda j, total: total + of_lanes[:, j], of_lanes[:, 0])


def empty_tally(chains: int, lanes: int = 1) -> LaneTally:
    """Nothing counted yet."""
    whole, real = jnp.zeros((chains, lanes), jnp.int32), jnp.zeros((chains, lanes), jnp.float32)
    steps = jnp.zeros((chains, 2), jnp.uint32)
    return LaneTally(whole, whole, whole, whole, real, tuple(whole for _ in Reason), steps)


def no_tally(chains: int) -> Tally:
    """Nothing counted yet, in the 64 bits of `add_tallies`."""
    zero, real = np.zeros(chains, np.int64), np.zeros(chains)
    reasons, steps = np.zeros((chains, len(Reason)), np.int64), np.zeros((chains, 2), np.int64)
    return Tally(zero, zero, zero, zero, real, reasons, steps)  # type: ignore[arg-type]


def add_tallies(first: Tally, *others: Tally) -> Tally:
    """Several tallies as one, in 64 bits."""

    def add(*leaves: Any) -> Any:
        column = np.stack([np.asarray(leaf) for leaf in leaves])
        return column.sum(0, dtype=np.float64 if column.dtype.kind == "f" else np.int64)

    total: Tally = jax.tree.map(add, first, *others)
    return total


def whole_steps(words: Any) -> np.ndarray:
    """Steps of two words (..., 2) as whole numbers (...) of 64 bits."""
    low, high = np.moveaxis(np.asarray(words, np.int64), -1, 0)
    return low + (high << 32)


def added(words: jax.Array, steps: jax.Array) -> jax.Array:
    """Steps more in two words (..., 2), the lower first."""
    low = words[..., 0] + steps
    return jnp.stack([low, words[..., 1] + (low < steps)], axis=-1)
