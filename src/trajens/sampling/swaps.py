"""Exchanges of paths, decided: pairs of whole paths and the differences of their path losses, chunk by chunk.

For the chain at the upper s an exchange is a change of its path from Theta_j to Theta_i, weighed with s_j - s_i:

    Delta = -(s_j - s_i) mean_n d_n,   d_n = sum_t l_n(theta_i,t) - l_n(theta_j,t).

Pairs that exchange at the same time have minibatches of their own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from trajens.acceptance.base import AcceptanceTest, Evidence, Verdict
from trajens.acceptance.minibatch import Minibatch, empty_minibatch
from trajens.randomness import Key, Purpose, words
from trajens.sampling.lanes import add_steps
from trajens.sampling.program import Inputs, Program

CHUNK = 256
"""Examples that are looked at together."""


class SwapProposals(NamedTuple):
    """Exchanges to decide: paths (pairs, 2, tau, dim), that of the upper chain first; (pairs,) all else.

    `s` is the difference of the two s, `entries` what the test remembers of every pair.
    """

    paths: Any
    s: Any
    key: Key
    entries: Any


class SwapDecisions(NamedTuple):
    """Of every pair: whether paths are exchanged, examples read, what the test has learnt, steps in two words."""

    is_accepted: Any
    seen: Any
    entries: Any
    steps: Any


_Carried = tuple[Minibatch, jax.Array, jax.Array, jax.Array]
"""Of every pair: its minibatch, whether it is decided, whether accepted, and its steps."""


def decide(program: Program, test: AcceptanceTest, inputs: Inputs, asked: SwapProposals) -> SwapDecisions:
    """Read examples for every pair until the test has decided."""
    count = len(asked.s)
    order, draws = _order(asked.key), words(asked.key, Purpose.EXCHANGE, 2 + test.num_words)[:, 2:]
    population, m = program.population, test.chunk_size(program.population.most)
    weighed = population, asked.s, jnp.zeros_like(asked.s)

    def answer(evidence: Evidence, entry: Any, draw: jax.Array) -> Verdict:
        return test.answer(entry, evidence, draw)

    def ask(batch: Minibatch) -> Verdict:
        verdict: Verdict = batch.ask(answer, *weighed, asked.entries, draws)
        return verdict

    def take(carried: _Carried) -> _Carried:
        batch, is_decided, is_accepted, steps = carried
        positions = batch.seen[:, None] + jnp.arange(m)
        members = population.at(positions) if test.takes_all_data else population.draw(order, positions)
        found, more = _differences(program, inputs, asked.paths, members, ~is_decided)
        is_valid = positions < population.most
        grown, verdict = batch.take(jnp.where(is_valid, found, 0.0), is_valid, ask)
        grown = jax.tree.map(lambda new, old: jnp.where(is_decided, old, new), grown, batch)
        is_taken = verdict.is_decided & ~is_decided & jnp.isfinite(grown.moments.mean)
        return (
            grown,
            is_decided | verdict.is_decided,
            is_accepted | (is_taken & verdict.is_accepted),
            add_steps(steps, more),
        )

    no = jnp.zeros(count, bool)
    begin = empty_minibatch((count,), test.num_stages), no, no, jnp.zeros((count, 2), jnp.uint32)
    batch, _, is_accepted, steps = jax.lax.while_loop(lambda carried: ~carried[1].all(), take, begin)
    learnt = batch.ask(lambda evidence, entry: test.learn(entry, evidence), *weighed, asked.entries)
    is_sound = jnp.isfinite(batch.moments.variance)
    entries = jax.tree.map(lambda new, old: jnp.where(is_sound, new, old), learnt, asked.entries)
    return SwapDecisions(is_accepted, batch.seen, entries, steps)


def look(program: Program, examples: int, inputs: Inputs, paths: jax.Array, key: Key) -> tuple[jax.Array, jax.Array]:
    """Differences of path losses (pairs, examples) on examples drawn afresh, and the steps (parts, pairs)."""
    order, m = _order(key), min(CHUNK, examples)

    def part(start: jax.Array) -> tuple[jax.Array, jax.Array]:
        positions = jnp.broadcast_to(start + jnp.arange(m), (len(paths), m))
        members = program.population.draw(order, positions)
        return _differences(program, inputs, paths, members, jnp.ones(len(paths), bool))

    found, steps = jax.lax.map(part, jnp.arange(0, examples, m))
    return jnp.moveaxis(found, 0, 1).reshape(len(paths), -1)[:, :examples], steps


def _differences(
    program: Program, inputs: Inputs, paths: jax.Array, members: jax.Array, is_active: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """d_n (pairs, m) on the members of every pair, and the steps (pairs,) that its losses took."""
    count, _, tau, dim = paths.shape
    pairs = jnp.moveaxis(paths, 1, 2).reshape(-1, 2, dim)
    each = lambda leaf: jnp.repeat(leaf, tau, axis=0)  # noqa: E731
    losses, steps = inputs.losses(program.loss, pairs, each(members), each(is_active))
    of_pairs = jnp.where(is_active, steps.reshape(count, tau).sum(1, dtype=jnp.uint32), 0)
    return (losses[:, 1] - losses[:, 0]).reshape(count, tau, -1).sum(1), of_pairs


def _order(key: Key) -> Key:
    pair = words(key, Purpose.EXCHANGE, 2)
    return Key(pair[..., 0], pair[..., 1])
