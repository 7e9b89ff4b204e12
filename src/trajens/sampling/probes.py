"""Probes: proposals as the sampler makes them, with the loss differences of many examples; what an audit looks at.

Nothing here enters a decision. The proposals have random numbers of their own, so that looking at them leaves a run as
it is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from trajens.moves.base import Proposal, Site, changes
from trajens.moves.scan import site_of_lane
from trajens.randomness import Key, Purpose, below, fold_in, words
from trajens.sampling.kernel import State, proposer
from trajens.sampling.program import Inputs, Program

PLANNING = 1024
"""Proposals of all chains together that are looked at before plans are made."""

MOST_EXAMPLES = 8192
"""Looked at of a proposal, at most, where nobody asks for more."""

CHUNK = 512
"""Examples that are looked at together."""
_PHASES = 2**15
_FEW = 16
_ROOM = 2**24
"""Loss differences that there may be room for without need."""


class Proposed(NamedTuple):
    """Proposals (chains, k, ...) that were looked at, as an `Evidence` knows them.

    `differences` (chains, k, examples) are l_i' - l_i, summed over the models that change; `shifts` (chains, k,
    directions) are what the projections of the mean model change by; `steps` (chains, parts) are those that the losses
    took, where they count some.
    """

    site: Site
    s: Any
    log_ratio: Any
    distance: Any
    shifts: Any
    differences: Any
    steps: Any


class Room(NamedTuple):
    """Shapes that are compiled in: groups of so many proposals of every chain, and chunks of so many examples."""

    groups: int
    at_once: int
    chunks: int
    chunk: int

    @staticmethod
    def of(program: Program, chains: int, proposals: int, examples: int) -> Room:
        """For the chains of a device; for as many proposals as any audit asks for, so that all share a compilation."""
        at_once, chunk = proposals_at_once(program, chains, proposals), min(CHUNK, examples)
        usual = max(proposals, -(-PLANNING // chains))
        most = max(examples, int(min(program.population.size, MOST_EXAMPLES))) if chunk == CHUNK else examples
        if chains * usual * most > _ROOM:
            usual, most = proposals, examples
        return Room(-(-usual // at_once), at_once, -(-most // chunk), chunk)


class Wanted(NamedTuple):
    """Proposals to look at: their epoch, keys (chains, room), and how many groups and chunks of the room are used.

    `directions` (directions, dim) are those that they are projected on.
    """

    epoch: Any
    key: Key
    groups: Any
    chunks: Any
    directions: Any

    @staticmethod
    def at(key: Key, epoch: int, proposals: int, examples: int, room: Room, directions: Any) -> Wanted:
        """Those of an epoch, from the key of every chain; made on the host."""
        chains = len(key.first)
        of_chain = fold_in(jax.tree.map(np.asarray, key), np.full(chains, epoch))
        pair = words(of_chain, Purpose.AUDIT, 2 * proposals).reshape(chains, proposals, 2)
        # What is left of the room has the key of the last, and is dropped.
        pair = pair[:, np.minimum(np.arange(room.groups * room.at_once), proposals - 1)]
        groups, chunks = -(-proposals // room.at_once), -(-examples // room.chunk)
        return Wanted(np.int32(epoch), Key(pair[..., 0], pair[..., 1]), np.int32(groups), np.int32(chunks), directions)


def propose_and_look(program: Program, inputs: Inputs, state: State, wanted: Wanted, room: Room) -> Proposed:
    """Proposals of every chain, and their loss differences on examples drawn afresh; zeros where none were asked for.

    They are looked at in groups, so that an audit takes about the memory that the sampler itself takes.
    """
    chains, size = len(state.path), room.at_once
    s = jnp.broadcast_to(inputs.s, (chains,))
    if program.schedule is not None:
        s = s * program.schedule(wanted.epoch)

    def group(number: jax.Array, found: Proposed) -> Proposed:
        begin = number * size
        some = lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, begin, size, 1)  # noqa: E731
        put = lambda into, leaf: jax.lax.dynamic_update_slice_in_dim(into, leaf.astype(into.dtype), begin, 1)  # noqa: E731
        key: Key = jax.tree.map(some, wanted.key)
        site, proposal, moved, shifts = _propose(program, inputs, state, key, wanted.directions)
        found = found._replace(
            site=jax.tree.map(put, found.site, site),
            log_ratio=put(found.log_ratio, proposal.log_ratio),
            distance=put(found.distance, moved),
            shifts=put(found.shifts, shifts),
        )
        some_of_them = _Group(key, site, proposal, number, wanted.chunks)
        return _look_at_group(program, inputs, state, some_of_them, found, room)

    return jax.lax.fori_loop(0, wanted.groups, group, _empty(chains, s, room, len(wanted.directions)))


def _empty(chains: int, s: jax.Array, room: Room, directions: int) -> Proposed:
    """Room for proposals, with their s."""
    shape = (chains, room.groups * room.at_once)
    whole, real = jnp.zeros(shape, jnp.int32), jnp.zeros(shape, jnp.float32)
    differences = jnp.zeros((*shape, room.chunks * room.chunk), jnp.float32)
    steps = jnp.zeros((chains, room.groups * room.chunks), jnp.uint32)
    shifts = jnp.zeros((*shape, directions), jnp.float32)
    s = jnp.broadcast_to(s[:, None], shape)
    return Proposed(
        Site(whole, whole, whole), s, log_ratio=real, distance=real, shifts=shifts, differences=differences, steps=steps
    )


def proposals_at_once(program: Program, chains: int, proposals: int) -> int:
    """Proposals of every chain that are looked at together: as many as the sampler has lanes, or a few."""
    return min(proposals, max(program.lanes, -(-_FEW // chains)))


def _propose(
    program: Program, inputs: Inputs, state: State, key: Key, directions: jax.Array
) -> tuple[Site, Proposal, jax.Array, jax.Array]:
    """Proposals of every chain with keys (chains, k) of their own, how far they go, and their projections."""
    propose = proposer(program, inputs)

    def one(key: Key, path: jax.Array, sizes: Any) -> tuple[Site, Proposal, jax.Array, jax.Array]:
        site = _site(program, key, sizes)
        proposal = propose(key, path, site, sizes)
        change = changes(path, site, proposal)
        return site, proposal, (change**2).sum(), directions @ change.sum(0) / program.tau

    made: tuple[Site, Proposal, jax.Array, jax.Array] = jax.vmap(jax.vmap(one, (0, None, None)))(
        key, state.path, state.sizes
    )
    return made


class _Group(NamedTuple):
    """Proposals that are looked at together: their keys, sites and models, the number of the group, and its chunks."""

    key: Key
    site: Site
    proposal: Proposal
    number: jax.Array
    chunks: jax.Array


def _look_at_group(
    program: Program, inputs: Inputs, state: State, group: _Group, found: Proposed, room: Room
) -> Proposed:
    """With the loss differences of a group of proposals."""
    (chains, tau, dim), size, m = state.path.shape, room.at_once, room.chunk
    rows = group.site.first[..., None] + jnp.arange(program.span)
    old = jnp.take_along_axis(state.path[:, None], jnp.minimum(rows, tau - 1)[..., None], axis=2)
    is_changed = rows < group.site.stop[..., None]
    pairs = jnp.stack([old, group.proposal.models], axis=3).reshape(-1, 2, dim)
    word = words(group.key, Purpose.BATCH, 2)
    order = Key(word[..., 0], word[..., 1])

    def look(number: jax.Array, so_far: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        positions = jnp.broadcast_to(number * m + jnp.arange(m), (chains, size, m))
        # In an order of its own for every proposal, also of all data: then their batches are independent.
        members = program.population.draw(order, positions)
        flat = jnp.repeat(members.reshape(-1, *members.shape[2:]), program.span, axis=0)
        losses, steps = inputs.losses(program.loss, pairs, flat, is_changed.reshape(-1))
        per_row = (losses[:, 1] - losses[:, 0]).reshape(chains, size, program.span, m)
        per_proposal = jnp.where(is_changed[..., None], per_row, 0.0).sum(2)
        of_chains = steps.reshape(chains, -1).sum(1, dtype=jnp.uint32)
        here = (jnp.int32(0), group.number * size, number * m)
        return (
            jax.lax.dynamic_update_slice(so_far[0], per_proposal, here),
            jax.lax.dynamic_update_slice_in_dim(so_far[1], of_chains[:, None], group.number * room.chunks + number, 1),
        )

    differences, steps = jax.lax.fori_loop(0, group.chunks, look, (found.differences, found.steps))
    return found._replace(differences=differences, steps=steps)


def _site(program: Program, key: Key, sizes: Any) -> Site:
    """A site of a random phase."""
    size = sizes.size if program.is_tuned else None
    word = words(key, Purpose.SITE, 2)
    phase = below(word[0], _PHASES).astype(jnp.int32)
    lanes = jnp.arange(program.lanes)
    sites, exists = jax.vmap(
        lambda lane: site_of_lane(program.scan, program.move, key, phase, lane, program.tau, size)
    )(lanes)
    # Lanes without a site come last.
    count = exists.sum(dtype=jnp.uint32)
    lane = ((word[1] >> 16) * count >> 16).astype(jnp.int32)
    return jax.tree.map(lambda leaf: leaf[lane], sites)
