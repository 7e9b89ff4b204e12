"""Starts of paths: a random walk from a first model, or from a model that an evolution strategy has found.

*Random walk.* Where paths start: a first model, and the rest diffused from it with steps of sigma.

*Evolution.* A start without gradients: an evolution strategy, which asks for losses of pairs of models as the sampler
does.

Every generation draws K noises z_k and evaluates the models theta +- spread z_k on one common minibatch,

    g = sum_k w_k z_k / K,   w_k = (L(theta + spread z_k) - L(theta - spread z_k)) / 2,  divided by their RMS,

and takes a step of Adam along -g; spread and step fall geometrically. A loss that counts wrong answers tells little
where few of them change: there L is its guide (`trajens.losses.Guided`), the cross-entropy of the same outputs. theta
is at the end of a smooth way to a low loss: a path all of whose models are theta is where sampling starts. It has no
part in the distribution that is sampled.

*Its curve.* How the loss falls in a start by evolution: what its generations were told anyway, averaged over pieces of
them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from trajens.errors import require
from trajens.host import External, require_alone
from trajens.losses import CountingLoss, Loss, compiled_losses_of_pairs, guide_of, losses_of_pairs
from trajens.population import Population
from trajens.precision import as_single, single
from trajens.problem import Problem
from trajens.randomness import Key, Purpose, fold_in, key_of, normal, words
from trajens.records import Records
from trajens.target import Target

_CHECKED = 256
"""Examples on which the loss of a start must be finite."""
_ALONE = 0.9
"""Share of the losses that must be the same in another batch; where a loss jumps, rounding moves a few."""


def chain_keys(seed: int | Sequence[int], chains: int) -> Key:
    """One key per chain, on the host, by its seed and its number among the chains of that seed."""
    seeds = np.broadcast_to(np.asarray(seed, np.uint32), chains)
    counts: Counter[int] = Counter()
    numbers = np.zeros(chains, np.int32)
    for chain, one in enumerate(seeds.tolist()):
        numbers[chain] = counts[one]
        counts[one] += 1
    return fold_in(key_of(seeds), numbers)


def initial_paths(target: Target, key: Key, initial: Any = None) -> np.ndarray:
    """Paths (chains, tau, dim) to start from, checked to be finite and to have a finite loss.

    Parameters
    ----------
    target : Target
    key : Key
        One per chain.
    initial : array or None
        A model (dim,) to diffuse from, a path (tau, dim) for all chains, or paths (chains, tau, dim). None: another
        random model for every chain, with the initial model and spread of the problem (or `Problem.apart`, of all but
        the first), or else from the prior (standard deviation dim^-1/2 if that is flat).
    """
    chains, tau, dim = key.first.shape[0], target.tau, target.problem.dim
    if initial is None:
        centre, spread = _first_model(target)
        if target.problem.spread is None and target.problem.apart is not None:
            # The first chain begins at the model that was given.
            spread = target.problem.apart * (np.arange(chains) > 0)[:, None, None]
        path = np.asarray(_random_walk(key, centre, np.asarray(spread, np.float32), target.sigma, tau))
    else:
        given = as_single("initial", initial).astype(np.float32)
        accepted = {(dim,), (tau, dim), (chains, tau, dim)}
        require(
            given.shape in accepted,
            f"initial must have shape ({dim},), ({tau}, {dim}) or ({chains}, {tau}, {dim}), got {given.shape}; it is "
            "(dim,), (tau, dim) or (chains, tau, dim).",
        )
        path = np.asarray(_random_walk(key, given, np.float32(0.0), target.sigma, tau)) if given.ndim == 1 else given
        path = np.broadcast_to(path, (chains, tau, dim))
    _check_losses(target, path)
    return path


def _first_model(target: Target) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of first models."""
    problem = target.problem
    centre = np.zeros(problem.dim, np.float32) if problem.initial is None else problem.initial
    if problem.spread is not None:
        return centre, problem.spread
    if problem.initial is not None:
        return centre, np.zeros((), np.float32)
    return centre, np.asarray(problem.dim**-0.5 if target.prior is None else target.prior, np.float32)


@partial(jax.jit, static_argnames="tau")
def _random_walk(key: Key, centre: jax.Array, spread: jax.Array, sigma: float, tau: int) -> jax.Array:
    """First models N(centre, spread^2), one per key, and steps N(0, sigma^2) from there."""
    dim = centre.shape[0]
    noise = normal(words(key, Purpose.START, tau * dim)).reshape(-1, tau, dim)
    size = jnp.where(jnp.arange(tau)[:, None] == 0, spread, sigma)
    return centre + jnp.cumsum(size * noise, axis=1)


def _check_losses(target: Target, path: np.ndarray) -> None:
    """Refuse a start whose loss is not finite, on some of the examples (before the sampler is compiled)."""
    problem = target.problem
    models = path[:8].reshape(-1, path.shape[-1])[:64]
    pairs = np.concatenate([models, models[: len(models) % 2]]).reshape(-1, 2, path.shape[-1])
    some = np.asarray(problem.population.at(np.arange(min(problem.population.most, _CHECKED), dtype=np.int32)))

    def losses_on(members: np.ndarray) -> np.ndarray:
        of_pairs = np.repeat(members[None], len(pairs), axis=0)
        active = np.ones(len(pairs), bool)
        return np.asarray(compiled_losses_of_pairs(problem.loss, problem.data, pairs, of_pairs, active))

    losses = losses_on(some)
    bad = int((~np.isfinite(losses)).sum())
    require(
        bad == 0,
        f"the loss of the initial path must be finite, got {bad} NaN or infinite values of {losses.size}; start from "
        "smaller weights or make the loss finite on all data.",
    )
    if isinstance(problem.loss, (External, CountingLoss)):
        # The first was tried when the problem was made; examples of the second are dear, and simulated one by one.
        return
    # The first half of them, twice and backwards: of one shape, so that nothing is compiled.
    again = np.resize(np.arange(max(len(some) // 2, 1)), len(some))[::-1]
    require_alone(losses[..., again], losses_on(some[again]), _ALONE)
    _require_same_when_traced_again(problem, pairs)


def _require_same_when_traced_again(problem: Problem, pairs: np.ndarray) -> None:
    """Refuse a loss that holds numbers which were drawn when it was traced: every program would have others."""
    members = np.asarray(problem.population.at(np.arange(2, dtype=np.int32)))[None]
    given = problem.data, pairs[:1], members, np.ones(1, bool)

    def traced() -> Any:
        return jax.make_jaxpr(lambda *given: losses_of_pairs(problem.loss, *given))(*given)

    first, second = traced(), traced()
    if _ADDRESS.sub("", str(first)) == _ADDRESS.sub("", str(second)) and _are_same(first.consts, second.consts):
        return
    # Texts may differ where numbers do not.
    one, other = (np.asarray(jax.jit(lambda *g: losses_of_pairs(problem.loss, *g))(*given)) for _ in range(2))
    require(
        np.allclose(one, other, rtol=1e-3, equal_nan=True),
        "loss must give the same losses for the same arguments, got others when traced again; leave out what is "
        "random, or make it of the example, for instance of a seed in data.",
    )


_ADDRESS = re.compile("0x[0-9a-f]+")


def _are_same(before: Sequence[Any], now: Sequence[Any]) -> bool:
    pairs = zip(before, now, strict=False)
    return len(before) == len(now) and all(a is b or np.array_equal(a, b) for a, b in pairs)


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
def evolve(
    problem: Problem, key: Key, begin: Evolving, generations: int, how: Evolution, watch: Watch | None = None
) -> Evolving:
    """Strategies after so many generations in all, one independent of the others per chain."""
    now = begin
    examples = min(how.examples, problem.population.most)
    compiled = _Compiled(problem.loss, problem.population, how.pairs, examples)
    while now.done < generations:
        span = np.array([now.done, min(now.done + _GENERATIONS, generations), generations], np.int32)
        carried = _Means(*now[1:]), np.zeros((_TOLD, len(now.model)), np.float32)
        means, losses = _generations(compiled, problem.data, key, carried, span, _course(how))
        now = Evolving(int(span[1]), *(np.asarray(leaf) for leaf in means))
        if watch is not None and watch(now, np.asarray(losses)[: span[1] - span[0]]):
            break
    return now


def _course(how: Evolution) -> np.ndarray:
    return np.array([*how.spread, *how.step], np.float32) * np.float32(how.scale)


class _Compiled(NamedTuple):
    """What is compiled into the program of a start."""

    loss: Loss
    population: Population
    pairs: int
    examples: int


@partial(jax.jit, static_argnums=0)
def _generations(
    compiled: _Compiled,
    data: Any,
    key: Key,
    carried: tuple[_Means, jax.Array],
    span: jax.Array,
    course: jax.Array,
) -> tuple[_Means, jax.Array]:
    """Generations span[0]..span[1] - 1 of span[2], and the mean loss (n, chains) in each of them."""
    (loss, population, pairs, examples), (chains, dim) = compiled, carried[0].model.shape

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

        def mean_of(loss: Loss) -> jax.Array:
            members, active = jnp.repeat(batch, pairs, axis=0), jnp.ones(chains * pairs, bool)
            losses = losses_of_pairs(loss, data, both.reshape(-1, 2, dim), members, active)
            return losses.reshape(chains, pairs, 2, examples).mean(3)

        guide, mean = guide_of(loss), mean_of(loss)
        # Of the same outputs, which are computed once.
        guiding = mean if guide == loss else mean_of(guide)
        weight = (guiding[..., 0] - guiding[..., 1]) / 2
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


RECORDS = 128
"""Pieces of a start, at most."""

_SUMS, _COUNTS = "losses", "counted"


class StartCurve:
    """Losses of a start against the pairs that it took; nothing is evaluated for it.

    The loss of a generation is the mean over all models theta +- spread z that it tried, on its minibatch.

    Parameters
    ----------
    generations, chains : int
        Of the whole start.
    kept : dict of arrays, optional
        What `arrays` were when it was interrupted. Where these are missing, generations before are not known.
    """

    def __init__(self, generations: int, chains: int, kept: dict[str, np.ndarray] | None = None):
        self._generations = generations
        self._piece = max(1, -(-generations // RECORDS))
        pieces = -(-generations // self._piece)
        self._sums, self._counts = np.zeros((pieces, chains)), np.zeros(pieces, np.int64)
        if kept is not None and kept.get(_SUMS, self._counts).shape == self._sums.shape:
            self._sums, self._counts = kept[_SUMS].copy(), kept[_COUNTS].copy()

    def add(self, done: int, losses: np.ndarray) -> None:
        """Count the losses (n, chains) of the last n of `done` generations."""
        pieces = np.arange(done - len(losses), done) // self._piece
        # One after the other, so that sums do not depend on how many come at a time.
        np.add.at(self._sums, pieces, losses)
        np.add.at(self._counts, pieces, 1)

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """All that is needed to go on with it."""
        return {_SUMS: self._sums, _COUNTS: self._counts}

    def records(self, pairs: int) -> Records:
        """Pairs so far (``data_used``) and the mean loss since the record before, as arrays (chains, records).

        `pairs` are those of a generation, per chain.
        """
        is_known = self._counts > 0
        ends = np.minimum(self._piece * np.arange(1, len(self._counts) + 1), self._generations)[is_known]
        loss = (self._sums[is_known] / self._counts[is_known, None]).T
        return {"data_used": np.broadcast_to(pairs * ends, loss.shape).copy(), "loss": np.ascontiguousarray(loss)}
