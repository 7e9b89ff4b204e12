"""A start without gradients: an evolution strategy, which asks for losses of pairs of models as the sampler does.

Every generation draws K noises z_k and evaluates the models theta +- spread z_k on one common minibatch,

    g = sum_k w_k z_k / K,   w_k = (L(theta + spread z_k) - L(theta - spread z_k)) / 2,  divided by their RMS,

and takes a step of Adam along -g; spread and step fall geometrically. theta is at the end of a smooth way to a low
loss: a path all of whose models are theta is where sampling starts. It has no part in the law that is sampled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from trajens.losses import Loss, losses_of_pairs
from trajens.population import Population
from trajens.precision import single
from trajens.problem import Problem
from trajens.randomness import Key, Purpose, fold_in, normal, words

_MEMORY, _SQUARES, _TINY = 0.9, 0.999, 1e-8
"""beta_1, beta_2 and epsilon of Adam."""

_LEAST = 1e-30
"""Of the RMS of losses that are all alike, to divide by."""

_GENERATIONS = 64
"""Per call."""
_TOLD = 64
"""Losses of generations that a call has room for: of one shape, however many it has."""

_USUAL, _MORE = 8000, 0.3
"""Generations of a usual budget, and the power of the budget by which a larger one has more."""


@dataclass(frozen=True)
class Evolution:
    """Settings of the strategy.

    Parameters
    ----------
    pairs, examples : int
        Of a generation: models theta +- spread z, and examples each is evaluated on.
    spread, step : (float, float)
        First and last, in units of `scale`.
    scale : float
        The size of the parameters.
    """

    pairs: int = 32
    examples: int = 60
    spread: tuple[float, float] = (0.1, 0.03)
    step: tuple[float, float] = (0.033, 0.0033)
    scale: float = 0.3

    def within(self, budget: float, size: int) -> tuple[Evolution, int]:
        """The strategy for a budget of pairs of losses, and its generations.

        A larger budget is for more generations, and for larger ones, of more pairs and more examples alike.
        """
        generations = _USUAL * max(budget / (_USUAL * self.pairs * self.examples), 1.0) ** _MORE
        growth = max(budget / (generations * self.pairs * self.examples), 1.0) ** 0.5
        how = replace(self, pairs=round(self.pairs * growth), examples=min(round(self.examples * growth), size))
        return how, int(budget // (how.pairs * how.examples))


class _Means(NamedTuple):
    """Per chain: the model, and the moments of Adam."""

    model: Any
    slope: Any
    square: Any


class Evolving(NamedTuple):
    """Strategies on their way: generations done, the model and the moments of Adam of every chain (chains, dim)."""

    done: int
    model: np.ndarray
    slope: np.ndarray
    square: np.ndarray

    @staticmethod
    def of(models: np.ndarray) -> Evolving:
        """Before the first generation."""
        models = np.asarray(models, np.float32)
        return Evolving(0, models, np.zeros_like(models), np.zeros_like(models))


Watch = Callable[[Evolving, np.ndarray], bool]
"""Told after every call: where the strategies stand, and the mean losses (n, chains) in the last n generations, of all
models that were tried; True stops."""


@single
def evolved(
    problem: Problem, key: Key, begin: Evolving, generations: int, how: Evolution, watch: Watch | None = None
) -> Evolving:
    """Strategies after so many generations in all, one independent of the others per chain."""
    now = begin
    examples = min(how.examples, problem.population.most)
    compiled: Any = (problem.loss, problem.population, how.pairs, examples)
    while now.done < generations:
        span = np.array([now.done, min(now.done + _GENERATIONS, generations), generations], np.int32)
        carried = _Means(*now[1:]), np.zeros((_TOLD, len(now.model)), np.float32)
        means, losses = _generations(*compiled, problem.data, key, carried, span, _course(how))
        now = Evolving(int(span[1]), *(np.asarray(leaf) for leaf in means))
        if watch is not None and watch(now, np.asarray(losses)[: span[1] - span[0]]):
            break
    return now


def _course(how: Evolution) -> np.ndarray:
    return np.array([*how.spread, *how.step], np.float32) * np.float32(how.scale)


@partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _generations(
    loss: Loss,
    population: Population,
    pairs: int,
    examples: int,
    data: Any,
    key: Key,
    carried: tuple[_Means, jax.Array],
    span: jax.Array,
    course: jax.Array,
) -> tuple[_Means, jax.Array]:
    """Generations span[0]..span[1] - 1 of span[2], and the mean loss (n, chains) in each of them."""
    chains, dim = carried[0].model.shape

    def one(number: jax.Array, carried: tuple[_Means, jax.Array]) -> tuple[_Means, jax.Array]:
        (model, slope, square), told = carried
        done = number / jnp.maximum(span[2] - 1, 1)
        spread = course[0] * (course[1] / course[0]) ** done
        step = course[2] * (course[3] / course[2]) ** done
        of_now = fold_in(key, jnp.broadcast_to(number, (chains,)))
        noise = normal(words(of_now, Purpose.START, pairs * dim)).reshape(chains, pairs, dim)
        word = words(of_now, Purpose.BATCH, 2)
        positions = jnp.broadcast_to(jnp.arange(examples), (chains, examples))
        batch = population.draw(Key(word[:, 0], word[:, 1]), positions)
        both = jnp.stack([model[:, None] + spread * noise, model[:, None] - spread * noise], axis=2)
        losses = losses_of_pairs(
            loss,
            data,
            both.reshape(-1, 2, dim),
            jnp.repeat(batch, pairs, axis=0),
            jnp.ones(chains * pairs, bool),
        ).reshape(chains, pairs, 2, examples)
        mean = losses.mean(3)
        weight = (mean[..., 0] - mean[..., 1]) / 2
        # What is not finite says nothing.
        weight = jnp.where(jnp.isfinite(weight), weight, 0.0)
        weight = weight / jnp.maximum(jnp.sqrt((weight**2).mean(1, keepdims=True)), _LEAST)
        gradient = jnp.einsum("cp,cpd->cd", weight, noise) / pairs
        slope = _MEMORY * slope + (1 - _MEMORY) * gradient
        square = _SQUARES * square + (1 - _SQUARES) * gradient**2
        corrected = slope / (1 - _MEMORY ** (number + 1))
        scale = jnp.sqrt(square / (1 - _SQUARES ** (number + 1))) + _TINY
        model = model - step * corrected / scale
        told = jax.lax.dynamic_update_index_in_dim(told, mean.mean((1, 2)), number - span[0], 0)
        return _Means(model, slope, square), told

    return jax.lax.fori_loop(span[0], span[1], one, carried)
