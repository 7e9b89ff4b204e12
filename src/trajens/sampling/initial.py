"""Where paths start: a first model, and the rest diffused from it with steps of sigma."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from trajens.errors import require
from trajens.losses import compiled_losses_of_pairs
from trajens.precision import as_single
from trajens.randomness import Key, Purpose, fold_in, key_of, normal, words
from trajens.target import Target

_CHECKED = 256
"""Examples on which the loss of a start must be finite."""


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
        random model for every chain, with the initial model and spread of the problem, or else from the prior (standard
        deviation dim^-1/2 if that is flat).
    """
    chains, tau, dim = key.first.shape[0], target.tau, target.problem.dim
    if initial is None:
        path = np.asarray(_random_walk(key, *_first_model(target), target.sigma, tau))
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
    members = np.repeat(some[None], len(pairs), axis=0)
    losses = np.asarray(compiled_losses_of_pairs(problem.loss, problem.data, pairs, members, np.ones(len(pairs), bool)))
    bad = int((~np.isfinite(losses)).sum())
    require(
        bad == 0,
        f"the loss of the initial path must be finite, got {bad} NaN or infinite values of {losses.size}; start from "
        "smaller weights or make the loss finite on all data.",
    )
