"""Measurements of a path at a record: its loss on examples that decided nothing, and its projections.

*Loss.* Measuring the loss of a path honestly: on the full data set, or on fresh examples, as always those of a stream.

The minibatch that decided a step was selected by that decision, and the loss on it is low by about 0.14 / s; a batch
that grew until its estimated noise was small was selected twice, and is lower still.
The loss that is reported and compared with theory is measured on examples that had no part in a decision.

*Projections.* Fixed random directions in the space of models, on which paths are projected at every record.

    projection_k = u_k . (mean over t of theta_t),   u_k a unit vector drawn evenly from the sphere

Losses may agree where models do not: they are what chains of one s are compared by besides. The directions depend on
the number of parameters only, so that projections of any two runs of one network can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from trajens.acceptance.moments import Moments, merge, moments_of, no_moments
from trajens.columns import PROJECTIONS
from trajens.losses import Loss, compiled_losses_of_pairs, counted_losses_of_pairs, losses_of_pairs
from trajens.population import Population
from trajens.precision import single
from trajens.problem import Problem
from trajens.randomness import Key, Purpose, fold_in, key_of, normal_quantile, words
from trajens.sampling.kernel import State
from trajens.sampling.program import Inputs, Program

HELD_OUT_EXAMPLES = 1024
"""Examples that are held out of which the loss is measured at a record, at most."""

CHUNK = 256
"""Examples that a path is measured on together."""
_FEW, _MANY = 1024, 8192
_LEAST, _MOST = 64, 4096
SHARE_OF_MEASURING = 0.1
"""Of what sampling takes, that measuring may."""
_OFFSET = 64.0
"""Spreads between examples from which on losses are taken about a reference, so that 32 bits carry their mean."""


class Measurement(NamedTuple):
    """Per chain: mean loss per model, its standard error from using few examples, RMS weight, records of one's own.

    `steps` are those that the losses took, where they count some; `projections` (chains, directions) those of the mean
    model, see `trajens.sampling.measure`. On a device the loss is less `reference`, which is 0 but for losses that are
    far from 0 compared with how they differ; on the host it is in `loss`, then in 64 bits.
    """

    loss: jax.Array
    loss_error: jax.Array
    weight_rms: jax.Array
    observed: dict[str, jax.Array]
    steps: jax.Array
    projections: jax.Array
    reference: jax.Array

    @property
    def whole(self) -> Measurement:
        """The same on the host, with the reference in the loss."""
        reference = np.asarray(self.reference)
        if not reference.any():
            return self
        loss: Any = reference.astype(np.float64) + np.asarray(self.loss, np.float64)
        return self._replace(loss=loss, reference=np.zeros_like(reference))  # type: ignore[arg-type]


class MeasureAt(NamedTuple):
    """When a path is measured, the directions (directions, dim) it is projected on, and on how many examples.

    `factor` takes the sum of squares of their losses to the variance of the mean.
    """

    epoch: Any
    directions: Any
    examples: Any
    factor: Any

    @staticmethod
    def of(population: Population, examples: int, epoch: int, directions: Any) -> MeasureAt:
        """On so many of a population; numbers that are not compiled in, so that all looks share a compilation."""
        # One factor: what a compiler makes of several quotients differs by one bit between device counts.
        factor = (1.0 - examples / population.size) / (examples * max(examples - 1, 1))
        return MeasureAt(np.int32(epoch), directions, np.int32(examples), np.float32(factor))


def examples_per_measurement(size: int | float, tau: int, evaluations: float = math.inf) -> int:
    """How many examples a record may cost, given the evaluations of a chain since the one before.

    All data where that is little; else as many as keep measuring at a tenth of what sampling took, in powers of two,
    at least 64 and at most 4096 (or all of up to 8192). Two models share a pair, so a path costs tau / 2 for each.
    """
    most = int(size) if size <= _MANY else _MOST
    affordable = SHARE_OF_MEASURING * evaluations / (tau / 2)
    if size <= _FEW or affordable >= most:
        return most
    return min(most, 2 ** int(math.log2(max(affordable, _LEAST))))


def measure(
    program: Program,
    inputs: Inputs,
    state: State,
    look: MeasureAt,
    chunk: int,
    is_all: bool,
    observe: tuple[tuple[str, Callable[[jax.Array], jax.Array]], ...] = (),
) -> Measurement:
    """Loss of every chain's path on examples drawn afresh for its epoch, or on all, and numbers of one's own."""
    chains, tau, dim = state.path.shape
    population = program.examples
    # Two models share a pair, as in the sampler, so that a kernel for pairs serves here too.
    models = jnp.concatenate([state.path, state.path[:, : tau % 2]], axis=1).reshape(chains, -1, 2, dim)
    pairs = models.shape[1]
    pair = words(fold_in(state.key, look.epoch), Purpose.MEASURE, 2)
    key = Key(pair[:, 0], pair[:, 1])

    def take(number: jax.Array, carried: tuple[Moments, jax.Array, jax.Array]) -> tuple[Moments, jax.Array, jax.Array]:
        moments, so_far, reference = carried
        positions = number * chunk + jnp.arange(chunk)
        is_valid = jnp.broadcast_to(positions < look.examples, (chains, chunk))
        positions = jnp.broadcast_to(jnp.minimum(positions, look.examples - 1), (chains, chunk))
        members = population.at(positions) if is_all else population.draw(key, positions)
        # Drawn once, and not again for all that reads an example: XLA of JAX 0.12 compiles that for minutes.
        members = jax.lax.optimization_barrier(members)
        losses, steps = counted_losses_of_pairs(
            program.loss,
            inputs.data,
            models.reshape(-1, 2, dim),
            jnp.repeat(members, pairs, axis=0),
            jnp.ones(chains * pairs, bool),
        )
        losses = losses.reshape(chains, 2 * pairs, chunk)[:, :tau]
        reference = jnp.where(number == 0, _reference(losses), reference)
        per_example = (losses - reference[:, None, None]).mean(1)
        if program.counts_steps:
            so_far = so_far + steps.reshape(chains, pairs).sum(1, dtype=jnp.uint32)
        return merge(moments, moments_of(per_example, is_valid)), so_far, reference

    begin = no_moments((chains,)), jnp.zeros(chains, jnp.uint32), jnp.zeros(chains, jnp.float32)
    chunks = (look.examples + chunk - 1) // chunk
    moments, steps, reference = jax.lax.fori_loop(0, chunks, take, begin)
    error = jnp.sqrt(moments.m2 * look.factor)
    observed = {name: jax.vmap(lambda path, f=f: jnp.asarray(f(path)))(state.path) for name, f in observe}
    # No product of matrices: how that adds up depends on how many chains there are on a device.
    projections = (state.path.mean(1)[:, None] * look.directions).sum(-1)
    return Measurement(
        loss=moments.mean,
        loss_error=error,
        weight_rms=jnp.sqrt((state.path**2).mean((1, 2))),
        observed=observed,
        steps=steps,
        projections=projections,
        reference=reference,
    )


def _reference(losses: jax.Array) -> jax.Array:
    """A number (chains,) near the losses (chains, ...) of the first examples, or 0 where they are near enough to 0."""
    flat = losses.reshape(len(losses), -1)
    first = flat[:, 0]
    is_far = jnp.abs(first) > _OFFSET * jnp.abs(flat - first[:, None]).max(1)
    return jnp.where(is_far & jnp.isfinite(first), first, 0.0)


def losses_of_examples(loss: Loss, data: Any, models: jax.Array, size: int) -> jax.Array:
    """Losses (size,) of every example, averaged over `models` (k, dim), k even."""
    pairs = models.reshape(-1, 2, models.shape[-1])

    def take(start: jax.Array) -> jax.Array:
        some = jnp.minimum(start + jnp.arange(CHUNK), size - 1)
        indices = jnp.broadcast_to(some, (len(pairs), CHUNK))
        return losses_of_pairs(loss, data, pairs, indices, jnp.ones(len(pairs), bool)).mean((0, 1))

    return jax.lax.map(take, jnp.arange(0, size, CHUNK)).reshape(-1)[:size]


def losses_of_models(loss: Loss, data: Any, models: jax.Array, members: jax.Array) -> jax.Array:
    """Sums (chunks, k) of the losses of every one of `models` (k, dim), k even, over the `members` (m, ...) in chunks.

    All are measured on the same examples. Sums of a chunk are exact enough in float32; add them in float64.
    """
    pairs = models.reshape(-1, 2, models.shape[-1])
    size = len(members)
    m = min(CHUNK, size)

    def take(start: jax.Array) -> jax.Array:
        positions = start + jnp.arange(m)
        some = members[jnp.minimum(positions, size - 1)]
        indices = jnp.broadcast_to(some, (len(pairs), *some.shape))
        losses = losses_of_pairs(loss, data, pairs, indices, jnp.ones(len(pairs), bool))
        return jnp.where(positions < size, losses, 0.0).sum(-1).reshape(-1)

    return jax.lax.map(take, jnp.arange(0, size, m))


compiled_losses_of_models = single(jax.jit(losses_of_models, static_argnums=0))
"""`losses_of_models` for use outside of a compiled program."""


def losses_of_each(problem: Problem, paths: np.ndarray, examples: int) -> np.ndarray:
    """Losses (models, m) of all models of `paths` on m fixed examples, at most so many."""
    models = paths.reshape(-1, paths.shape[-1])
    pairs = np.concatenate([models, models[: len(models) % 2]]).reshape(-1, 2, models.shape[-1])
    members = problem.population.some(min(examples, problem.population.most))
    every = np.repeat(members[None], len(pairs), axis=0)
    losses = compiled_losses_of_pairs(problem.loss, problem.data, pairs, every, np.ones(len(pairs), bool))
    return np.asarray(losses).reshape(-1, len(members))[: len(models)]


def mean_losses(problem: Problem, paths: np.ndarray, examples: int) -> np.ndarray:
    """Mean losses (chains, tau) of the models of `paths` on fixed examples, at most so many."""
    models = paths.reshape(-1, paths.shape[-1])
    if len(models) % 2:
        models = np.concatenate([models, models[-1:]])
    members = problem.population.some(min(examples, problem.population.most))
    sums = np.asarray(compiled_losses_of_models(problem.loss, problem.data, models, members), np.float64).sum(0)
    return np.asarray(sums[: np.prod(paths.shape[:2])].reshape(paths.shape[:2]) / len(members))


@lru_cache(maxsize=8)
def directions(dim: int) -> np.ndarray:
    """Unit vectors (projections, dim); the first `dim` normal numbers of the keys 0, 1, 2, normalised."""
    # On the host, in 64 bits: the same on all devices.
    drawn = words(key_of(np.arange(len(PROJECTIONS))), Purpose.PROJECT, dim)
    normal = normal_quantile(np.asarray(((drawn >> 9) + 0.5) * 2.0**-23))
    return np.asarray(normal / np.linalg.norm(normal, axis=1, keepdims=True), np.float32)


def project(models: np.ndarray) -> np.ndarray:
    """Projections (..., projections) of models (..., dim)."""
    return np.asarray(np.asarray(models, np.float64) @ directions(models.shape[-1]).T.astype(np.float64))
