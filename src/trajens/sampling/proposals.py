"""Proposals as the sampler makes them, with the loss differences of many examples: what an audit looks at.

Nothing here enters a decision. The proposals have random numbers of their own, so that looking at them leaves a run as
it is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from trajens.moves.base import Proposal, Site, distance
from trajens.randomness import Key, Purpose, below, fold_in, words
from trajens.sampling.program import Inputs, Program
from trajens.sampling.sampler import State, proposer
from trajens.scan import site_of_lane

PLANNING = 1024
"""Proposals of all chains together that are looked at before plans are made."""

CHUNK = 512
"""Examples that are looked at together."""
_PHASES = 2**15
_FEW = 16


class Proposed(NamedTuple):
    """Proposals (chains, k, ...) that were looked at, as an `Evidence` knows them.

    `differences` (chains, k, examples) are l_i' - l_i, summed over the models that change; `steps` (chains, parts) are
    those that the losses took, where they count some.
    """

    site: Site
    s: jax.Array
    log_ratio: jax.Array
    distance: jax.Array
    differences: jax.Array
    steps: jax.Array


def propose_and_look(
    program: Program, inputs: Inputs, state: State, epoch: jax.Array, proposals: int, examples: int
) -> Proposed:
    """Proposals of every chain at `epoch`, and their loss differences on `examples` examples drawn afresh.

    They are looked at in groups, so that an audit takes about the memory that the sampler itself takes.
    """
    chains = len(state.path)
    of_chain = fold_in(state.key, jnp.broadcast_to(epoch, (chains,)))
    pair = words(of_chain, Purpose.AUDIT, 2 * proposals).reshape(chains, proposals, 2)
    size = proposals_at_once(program, chains, proposals)
    # The last group is filled with one of its own, which is dropped.
    order = jnp.minimum(jnp.arange(-(-proposals // size) * size), proposals - 1).reshape(-1, size)
    s = jnp.broadcast_to(inputs.s, (chains,))
    if program.schedule is not None:
        s = s * program.schedule(epoch)

    def group(some: jax.Array) -> Proposed:
        key = Key(pair[:, some, 0], pair[:, some, 1])
        return _look_at_group(program, inputs, state, key, s, examples)

    found = jax.lax.map(group, order)
    flat = lambda leaf: jnp.moveaxis(leaf, 0, 1).reshape(chains, -1, *leaf.shape[3:])[:, :proposals]  # noqa: E731
    looked: Proposed = jax.tree.map(flat, found._replace(steps=()))
    # Steps of what is dropped were taken too.
    return looked._replace(steps=jnp.moveaxis(found.steps, 0, 1).reshape(chains, -1))


def proposals_at_once(program: Program, chains: int, proposals: int) -> int:
    """Proposals of every chain that are looked at together: as many as the sampler has lanes, or a few."""
    return min(proposals, max(program.lanes, -(-_FEW // chains)))


def _look_at_group(program: Program, inputs: Inputs, state: State, key: Key, s: jax.Array, examples: int) -> Proposed:
    """Proposals of every chain with keys (chains, k) of their own."""
    (chains, tau, dim), proposals = state.path.shape, key.first.shape[1]
    propose = proposer(program, inputs)

    def one(key: Key, path: jax.Array, sizes: Any) -> tuple[Site, Proposal, jax.Array]:
        site = _site(program, key)
        proposal = propose(key, path, site, sizes)
        return site, proposal, distance(path, site, proposal)

    site, proposal, moved = jax.vmap(jax.vmap(one, (0, None, None)))(key, state.path, state.sizes)
    rows = site.first[..., None] + jnp.arange(program.span)
    old = jnp.take_along_axis(state.path[:, None], jnp.minimum(rows, tau - 1)[..., None], axis=2)
    is_changed = rows < site.stop[..., None]
    pairs = jnp.stack([old, proposal.models], axis=3).reshape(-1, 2, dim)
    word = words(key, Purpose.BATCH, 2)
    order, m = Key(word[..., 0], word[..., 1]), min(CHUNK, examples)

    def look(start: jax.Array) -> tuple[jax.Array, jax.Array]:
        positions = jnp.broadcast_to(start + jnp.arange(m), (chains, proposals, m))
        # In an order of its own for every proposal, also of all data: then their batches are independent.
        members = program.population.draw(order, positions)
        flat = jnp.repeat(members.reshape(-1, *members.shape[2:]), program.span, axis=0)
        losses, steps = inputs.losses(program.loss, pairs, flat, is_changed.reshape(-1))
        per_row = (losses[:, 1] - losses[:, 0]).reshape(chains, proposals, program.span, m)
        of_chains = steps.reshape(chains, -1).sum(1, dtype=jnp.uint32)
        return jnp.where(is_changed[..., None], per_row, 0.0).sum(2), of_chains

    found, steps = jax.lax.map(look, jnp.arange(0, examples, m))
    differences = jnp.moveaxis(found, 0, 2).reshape(chains, proposals, -1)[..., :examples]
    s = jnp.broadcast_to(s[:, None], (chains, proposals))
    return Proposed(site, s, proposal.log_ratio, moved, differences, steps.T)


def _site(program: Program, key: Key) -> Site:
    """A site of a random phase."""
    word = words(key, Purpose.SITE, 2)
    phase = below(word[0], _PHASES).astype(jnp.int32)
    lanes = jnp.arange(program.lanes)
    sites, exists = jax.vmap(lambda lane: site_of_lane(program.scan, program.move, key, phase, lane, program.tau))(
        lanes
    )
    # Lanes without a site come last.
    count = exists.sum(dtype=jnp.uint32)
    lane = ((word[1] >> 16) * count >> 16).astype(jnp.int32)
    return jax.tree.map(lambda leaf: leaf[lane], sites)
