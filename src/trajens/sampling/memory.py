"""What an acceptance test remembers: one entry per chain, kind of move and model, in arrays (chains, kinds, tau).

A proposal has the entry of its kind and of the first model it changes.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from trajens.acceptance.base import AcceptanceTest
from trajens.moves.base import Site


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
