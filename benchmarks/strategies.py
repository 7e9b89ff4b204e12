"""Evolution strategies, many at once in one program: Open_ES and PGPE with antithetic pairs, centred ranks and Adam.

In a generation every strategy draws z ~ N(0, 1) (pairs, dim) and one minibatch, and asks for the losses of mean + std z
and mean - std z on it: what `losses_of_pairs` computes, with strategies x pairs lanes. With w+ and w- the centred ranks
of the losses and n = 2 pairs, Adam is given

    Open_ES   sum_i (w+_i - w-_i) z_i / (n sigma)      std = sigma, the same for all coordinates
    PGPE      sum_i (w+_i - w-_i) std z_i / n          std = sigma times a factor of every coordinate, which adapts:
              factor <- factor (1 - 0.1 sum_i (w+_i + w-_i) (z_i^2 - 1) / n), by at most a fifth in a generation

as in evosax (``evosax_agreement.py`` compares the two): ranks in -1/2..1/2, equal losses share theirs, no weight decay.
Sigma and the step of Adam fall geometrically over the generations; sigma one generation late, as evosax has it.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from trajens.losses import Loss, losses_of_pairs

KINDS = ("open_es", "pgpe")
SIGMA_FALLS_TO, STEP_FALLS_TO = 0.2, 0.1
BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8
STD_RATE, STD_CHANGE = 0.1, 0.2
"""How fast PGPE's standard deviations adapt, and by how much of themselves at most: evosax's defaults."""


class Plan(NamedTuple):
    """What a program is compiled for."""

    kind: str
    pairs: int
    batch: int

    def evaluations(self, members: int, generations: int) -> int:
        """Losses of one example that so many strategies ask for."""
        return 2 * self.pairs * self.batch * members * generations


class Strategies(NamedTuple):
    """All (members, dim): the means, Adam's running means of gradients and squares, and PGPE's factors."""

    mean: jax.Array
    first: jax.Array
    second: jax.Array
    factor: jax.Array


class Evolved(NamedTuple):
    """Means (members, dim) of the strategies after their last generation, and what they cost."""

    means: np.ndarray
    evaluations: int
    seconds: float
    compile_seconds: float


def started(means: Any) -> Strategies:
    """Strategies before their first generation."""
    mean = jnp.asarray(means, jnp.float32)
    zero = jnp.zeros_like(mean)
    return Strategies(mean, zero, zero, jnp.ones_like(mean))


def falling(first: Any, share: float, generation: Any, generations: Any) -> Any:
    """Geometric: `first` at generation 0, `share` of it after the last."""
    return first * share ** (generation / generations)


def sigma_at(sigma: Any, generation: Any, generations: Any) -> Any:
    """What evosax's `std_schedule` makes of it: that of the generation before."""
    return falling(sigma, SIGMA_FALLS_TO, jnp.maximum(generation - 1, 0), generations)


def step_at(step: Any, generation: Any, generations: Any) -> Any:
    """The step of Adam."""
    return falling(step, STEP_FALLS_TO, generation, generations)


def centred_ranks(losses: jax.Array) -> jax.Array:
    """Ranks of losses (..., n) along the last axis, from -1/2 for the smallest to 1/2; equal ones share theirs."""
    losses = jnp.where(jnp.isnan(losses), jnp.inf, losses)
    mine, other = losses[..., :, None], losses[..., None, :]
    below, equal = (other < mine).sum(-1), (other == mine).sum(-1)
    return (below + 0.5 * (equal - 1)) / (losses.shape[-1] - 1) - 0.5


def updated(
    kind: str, state: Strategies, z: jax.Array, losses: jax.Array, sigma: jax.Array, step: jax.Array, generation: Any
) -> Strategies:
    """One generation further.

    Parameters
    ----------
    kind : "open_es" or "pgpe"
    state : Strategies
    z : (members, pairs, dim)
    losses : (members, pairs, 2)
        Of mean + std z and mean - std z.
    sigma, step : (members,)
    generation : int
        From 0.
    """
    members, pairs, _ = losses.shape
    weights = centred_ranks(losses.reshape(members, -1)).reshape(losses.shape)
    over_pairs = partial(jnp.einsum, "kp,kpd->kd", precision="highest")
    gradient = over_pairs(weights[..., 0] - weights[..., 1], z) / (2 * pairs)
    factor = state.factor
    if kind == "pgpe":
        gradient = gradient * sigma[:, None] * factor
        growth = over_pairs(weights.sum(-1), z**2 - 1.0) / (2 * pairs)
        factor = factor * jnp.clip(1.0 - STD_RATE * growth, 1.0 - STD_CHANGE, 1.0 + STD_CHANGE)
    else:
        gradient = gradient / sigma[:, None]
    first = BETA_1 * state.first + (1 - BETA_1) * gradient
    second = BETA_2 * state.second + (1 - BETA_2) * gradient**2
    count = generation + 1
    direction = first / (1 - BETA_1**count) / (jnp.sqrt(second / (1 - BETA_2**count)) + EPSILON)
    return Strategies(state.mean - step[:, None] * direction, first, second, factor)


def losses_of_members(
    loss: Loss, data: Any, state: Strategies, z: jax.Array, sigma: jax.Array, indices: jax.Array
) -> jax.Array:
    """Mean losses (members, pairs, 2) of mean + std z and mean - std z on the minibatches `indices` (members, m)."""
    members, pairs, dim = z.shape
    away = (sigma[:, None] * state.factor)[:, None] * z
    theta = jnp.stack([state.mean[:, None] + away, state.mean[:, None] - away], axis=2)
    lanes = members * pairs
    losses = losses_of_pairs(
        loss, data, theta.reshape(lanes, 2, dim), jnp.repeat(indices, pairs, axis=0), jnp.ones(lanes, bool)
    )
    return losses.mean(-1).reshape(members, pairs, 2)


@partial(jax.jit, static_argnums=(0, 1))
def _evolved(
    plan: Plan,
    loss: Loss,
    data: Any,
    means: jax.Array,
    sigma: jax.Array,
    step: jax.Array,
    keys: jax.Array,
    examples: jax.Array,
    generations: jax.Array,
) -> jax.Array:
    """Means after all generations; everything a generation draws is a function of its number."""
    dim = means.shape[1]

    def drawn(key: jax.Array, generation: jax.Array) -> tuple[jax.Array, jax.Array]:
        noise, batch = jax.random.split(jax.random.fold_in(key, generation))
        indices = jax.random.randint(batch, (plan.batch,), 0, examples)
        return jax.random.normal(noise, (plan.pairs, dim), jnp.float32), indices

    def generation_of(generation: jax.Array, state: Strategies) -> Strategies:
        z, indices = jax.vmap(drawn, in_axes=(0, None))(keys, generation)
        now = sigma_at(sigma, generation, generations)
        losses = losses_of_members(loss, data, state, z, now, indices)
        return updated(plan.kind, state, z, losses, now, step_at(step, generation, generations), generation)

    return jax.lax.fori_loop(0, generations, generation_of, started(means)).mean


def evolve(
    plan: Plan,
    loss: Loss,
    data: Any,
    means: np.ndarray,
    sigma: Any,
    step: Any,
    generations: int,
    seed: int,
    examples: int,
) -> Evolved:
    """Run independent strategies side by side, each with its own noise and its own minibatches.

    Parameters
    ----------
    plan : Plan
    loss : callable
    data : pytree of arrays (N, ...)
    means : (members, dim)
        Where they start.
    sigma, step : float or (members,)
        In the first generation.
    generations : int
    seed : int
    examples : int
        Minibatches are drawn from the first so many of the data, with replacement.
    """
    members = len(means)
    each = [jnp.broadcast_to(jnp.asarray(value, jnp.float32), (members,)) for value in (sigma, step)]
    numbers = jnp.int32(examples), jnp.int32(generations)
    arguments = (
        data,
        jnp.asarray(means, jnp.float32),
        *each,
        jax.random.split(jax.random.key(seed), members),
        *numbers,
    )
    begin = time.perf_counter()
    program = _evolved.lower(plan, loss, *arguments).compile()
    compile_seconds, begin = time.perf_counter() - begin, time.perf_counter()
    found = np.asarray(program(*arguments))
    seconds = time.perf_counter() - begin
    return Evolved(found, plan.evaluations(members, generations), seconds, compile_seconds)
