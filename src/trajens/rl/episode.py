"""One episode: reset, then steps until it is over.

The loop ends with the episode. Mapped over many, it goes on until the last of them is over, and those that are over
stay as they are: JAX does so with any ``while_loop`` that is mapped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from trajens.rl.environment import Environment

Act = Callable[[jax.Array], jax.Array]
"""From an observation to an action."""


class Episode(NamedTuple):
    """What an episode came to: the sum of its rewards, and its steps."""

    total: jax.Array
    steps: jax.Array


class _Now(NamedTuple):
    observation: jax.Array
    state: Any
    total: jax.Array
    steps: jax.Array
    is_over: jax.Array


def episode(environment: Environment, act: Act, key: jax.Array, is_active: Any = True) -> Episode:
    """The episode of `key`; one that is not active has no step, and one that acts on a NaN has no return, but NaN."""
    key_reset, key_steps = jax.random.split(key)
    observation, state = environment.reset(key_reset)

    def go_on(now: _Now) -> jax.Array:
        return ~now.is_over & (now.steps < environment.max_steps)

    def step(now: _Now) -> _Now:
        # Not carried along: an environment that needs no key then computes none.
        key_step = jax.random.fold_in(key_steps, now.steps)
        observation, state, reward, is_over = environment.step(key_step, now.state, act(now.observation))
        # Types of a state may be weak, or wider after a step than before it.
        state = jax.tree.map(lambda new, old: jnp.asarray(new).astype(jnp.result_type(old)), state, now.state)
        observation = observation.astype(now.observation.dtype)
        # The largest of outputs that are no numbers is an action like any other: nobody would notice.
        is_blind = jnp.isnan(now.observation).any()
        total = jnp.where(is_blind, jnp.nan, now.total + reward)
        return _Now(observation, state, total, now.steps + 1, jnp.asarray(is_over, bool))

    begin = _Now(
        observation, jax.tree.map(jnp.asarray, state), jnp.float32(0.0), jnp.int32(0), ~jnp.asarray(is_active, bool)
    )
    end = jax.lax.while_loop(go_on, step, begin)
    return Episode(end.total, end.steps)
