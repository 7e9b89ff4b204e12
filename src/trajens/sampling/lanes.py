"""Lanes: what each has seen of its pending proposal, what its test remembers, and what is counted of its decisions.

*Evidence.* What each lane has seen of its pending proposal: the minibatch of its loss differences.

*Memory.* What an acceptance test remembers: one entry per chain, kind of move and model, in arrays (chains, kinds,
tau).

A proposal has the entry of its kind and of the first model it changes.

*Counts.* What is counted while sampling: per decision (epoch), never per iteration.

Averages over iterations would weight a state by how much data its next decision needed, which is a bias.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from trajens.acceptance.base import AcceptanceTest, Reason, Verdict
from trajens.acceptance.minibatch import Minibatch, empty_minibatch
from trajens.moves.base import Site


class Lanes(NamedTuple):
    """Fields are (chains, lanes, ...).

    `losses` are sums over the batch, of the current and of the proposed models. `row` is the number of the model that
    is looked at among those that change, and `partial` the differences of those before it; both are None where a
    proposal changes one model.
    """

    row: jax.Array | None
    batch: Minibatch
    partial: jax.Array | None
    losses: tuple[jax.Array, jax.Array]

    def take(
        self,
        site: Site,
        losses: jax.Array,
        is_valid: jax.Array | None,
        ask: Callable[[Minibatch, jax.Array], Verdict],
    ) -> tuple[Lanes, Verdict]:
        """A chunk more, losses (chains, lanes, 2, m) of both models, and what is answered to it.

        Delta_i sums over all changed models before it is counted; `ask` is told whether it was of the last of them.
        """
        if is_valid is not None:
            losses = jnp.where(is_valid[:, :, None], losses, 0.0)
        old, new = losses[:, :, 0], losses[:, :, 1]
        differences = new - old
        sums = self.losses[0] + old.sum(-1), self.losses[1] + new.sum(-1)
        if self.row is None or self.partial is None:
            is_whole = jnp.ones(old.shape[:-1], bool)
            batch, verdict = self.batch.take(differences, is_valid, lambda grown: ask(grown, is_whole))
            return self._replace(batch=batch, losses=sums), verdict
        is_last_row = site.first + self.row + 1 >= site.stop
        differences = differences + self.partial
        batch, verdict = self.batch.take(differences, is_valid, lambda grown: ask(grown, is_last_row), is_last_row)
        row = jnp.where(is_last_row, 0, self.row + 1)
        partial = jnp.where(is_last_row[..., None], 0.0, differences)
        return Lanes(row, batch, partial, sums), verdict


def idle_lanes(chains: int, lanes: int, partial: int | None, stages: int) -> Lanes:
    """Lanes that have seen nothing; `partial` differences are kept where a proposal changes several models."""
    shape = (chains, lanes)
    whole, real = jnp.zeros(shape, jnp.int32), jnp.zeros(shape, jnp.float32)
    return Lanes(
        None if partial is None else whole,
        empty_minibatch(shape, stages),
        None if partial is None else jnp.zeros((*shape, partial), jnp.float32),
        (real, real),
    )


def lift(mask: jax.Array, leaf: jax.Array) -> jax.Array:
    """`mask` with as many axes as `leaf`, to choose by."""
    return mask.reshape(mask.shape + (1,) * (leaf.ndim - mask.ndim))


def view_of(test: AcceptanceTest, memory: Any, chains: int) -> Any:
    """What the decisions of every chain see of its memory."""
    return jax.vmap(test.view, axis_size=chains)(memory)


def entries_at(memory: Any, site: Site) -> Any:
    """The entries of the sites (chains, lanes), in the same arrangement."""

    def take(leaf: jax.Array) -> jax.Array:
        of_chain = leaf.shape[1] * leaf.shape[2]
        number = jnp.arange(leaf.shape[0])[:, None] * of_chain + _number(leaf, site)
        # One index into one axis: of several, XLA would make an array first, in a kernel of its own.
        return jnp.asarray(leaf).reshape(-1).at[number].get(mode="promise_in_bounds")

    return jax.tree.map(take, memory)


def remember(memory: Any, site: Site, old: Any, entries: Any, is_written: jax.Array) -> Any:
    """The memory with new entries (chains, lanes) where `is_written`; no two lanes of a chain share one.

    What is the very array of `old`, the entries as they were, was not changed and is not written.
    """

    def write(leaf: jax.Array, old: jax.Array, new: jax.Array) -> jax.Array:
        if new is old:
            return leaf
        flat = leaf.reshape(leaf.shape[0], -1)
        is_here = is_written[..., None] & (_number(leaf, site)[..., None] == jnp.arange(flat.shape[1]))
        # Selected instead of scattered, which XLA would make a loop of on a CPU.
        chosen = jnp.where(is_here, new[..., None], 0).sum(1, dtype=leaf.dtype)
        return jnp.where(is_here.any(1), chosen, flat).reshape(leaf.shape)

    return jax.tree.map(write, memory, old, entries)


def _number(leaf: jax.Array, site: Site) -> jax.Array:
    """Number of a site's entry in a memory whose kinds and models are flattened."""
    return site.kind * leaf.shape[2] + site.first


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
            proposals=self.proposals + is_decided,
            accepted=self.accepted + is_accepted,
            examples=self.examples + jnp.where(is_decided, batch, 0),
            evaluations=self.evaluations + jnp.where(is_decided, batch * changed, 0),
            loss_deciding=self.loss_deciding + jnp.where(is_clean, deciding, 0.0),
            reasons=tuple(count + (is_decided & (reason == value)) for value, count in enumerate(self.reasons)),
            steps=add_steps(self.steps, steps),
        )

    def of_chains(self) -> Tally:
        """Summed over the lanes of every chain."""
        return Tally(
            proposals=self.proposals.sum(1, dtype=jnp.int32),
            accepted=self.accepted.sum(1, dtype=jnp.int32),
            examples=self.examples.sum(1, dtype=jnp.int32),
            evaluations=self.evaluations.sum(1, dtype=jnp.int32),
            loss_deciding=_in_order(self.loss_deciding),
            reasons=jnp.stack([count.sum(1, dtype=jnp.int32) for count in self.reasons], axis=-1),
            steps=self.steps,
        )


def _in_order(of_lanes: jax.Array) -> jax.Array:
    """Sums over lanes (chains, lanes), one after the other: how many chains a device has must not change a bit."""
    return jax.lax.fori_loop(1, of_lanes.shape[1], lambda j, total: total + of_lanes[:, j], of_lanes[:, 0])


def empty_tally(chains: int, lanes: int = 1) -> LaneTally:
    """Nothing counted yet."""
    whole, real = jnp.zeros((chains, lanes), jnp.int32), jnp.zeros((chains, lanes), jnp.float32)
    steps = jnp.zeros((chains, 2), jnp.uint32)
    return LaneTally(
        proposals=whole,
        accepted=whole,
        examples=whole,
        evaluations=whole,
        loss_deciding=real,
        reasons=tuple(whole for _ in Reason),
        steps=steps,
    )


def no_tally(chains: int) -> Tally:
    """Nothing counted yet, in the 64 bits of `add_tallies`."""
    zero: Any = np.zeros(chains, np.int64)
    real: Any = np.zeros(chains)
    reasons: Any = np.zeros((chains, len(Reason)), np.int64)
    steps: Any = np.zeros((chains, 2), np.int64)
    return Tally(
        proposals=zero, accepted=zero, examples=zero, evaluations=zero, loss_deciding=real, reasons=reasons, steps=steps
    )


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


def add_steps(words: jax.Array, steps: jax.Array) -> jax.Array:
    """Steps more in two words (..., 2), the lower first."""
    low = words[..., 0] + steps
    return jnp.stack([low, words[..., 1] + (low < steps)], axis=-1)
