"""Evaluation of policies: returns over fresh episodes, of single models and of a path that acts together.

All act in the same episodes, those of `seed`, which no decision of a run has seen: keys of a run come of its own seed
by another way. An error is the standard error over episodes.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from trajens.errors import integer, require
from trajens.precision import as_single, single
from trajens.rl.environment import Environment
from trajens.rl.policy import Policy
from trajens.rl.problem import episode

EPISODES = 1000
"""Of an evaluation."""

_FRESH = 0xE9150DE
"""Keeps the keys of an evaluation apart from all others."""
_AT_ONCE = 2**14
"""Episodes times models that act at a time."""


class Score(NamedTuple):
    """A mean return, its standard error, and the mean length of episodes."""

    mean: float
    stderr: float
    steps: float


def single_returns(
    environment: Environment, policy: Policy, path: Any, episodes: int = EPISODES, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Returns and steps (tau, episodes) of every model of a path (tau, dim) by itself."""
    path, keys = _checked(policy, path), fresh_keys(episodes, seed)
    at_once = max(1, _AT_ONCE // len(keys))
    parts = [_alone(environment, policy, path[k : k + at_once], keys) for k in range(0, len(path), at_once)]
    total, steps = (np.concatenate([np.asarray(part[k]) for part in parts]) for k in (0, 1))
    return total, steps


def joint_returns(
    environment: Environment, policy: Policy, path: Any, how: str, episodes: int = EPISODES, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Returns and steps (episodes,) of all models of a path acting together, by vote or by mean."""
    path, keys = _checked(policy, path), fresh_keys(episodes, seed)
    total, steps = _together(environment, policy, policy.require_way(how), path, keys)
    return np.asarray(total), np.asarray(steps)


def scores(
    environment: Environment, policy: Policy, path: Any, episodes: int = EPISODES, seed: int = 0
) -> dict[str, Score]:
    """Single models, the best of them, and the ensemble in all ways it can act, on the same episodes.

    ``single`` is the mean over models, with the error of its mean over episodes. ``best`` is the model that is best in
    *these* episodes, and so too good by chance.
    """
    total, steps = single_returns(environment, policy, path, episodes, seed)
    best = int(total.mean(1).argmax())
    found = {"single": _score(total.mean(0), steps), "best": _score(total[best], steps[best])}
    for how in policy.ways:
        found[how] = _score(*joint_returns(environment, policy, path, how, episodes, seed))
    return found


@single
def fresh_keys(episodes: int, seed: int) -> jax.Array:
    """Keys (episodes,) of an evaluation."""
    count = integer("episodes", episodes, 2, f"try {EPISODES}")
    key = jax.random.fold_in(jax.random.key(integer("seed", seed, 0, "any whole number will do", 2**32 - 1)), _FRESH)
    return jax.random.split(key, count)


def _score(total: np.ndarray, steps: np.ndarray) -> Score:
    error = float(total.std(ddof=1) / np.sqrt(len(total)))
    return Score(float(total.mean()), error, float(steps.mean()))


def _checked(policy: Policy, path: Any) -> jax.Array:
    given = as_single("path", path)
    dim = policy.network.dim
    require(
        given.ndim == 2 and given.shape[1] == dim and len(given) > 0,
        f"path must have shape (tau, {dim}), got {given.shape}; pass one chain of run.paths.",
    )
    return jnp.asarray(given, jnp.float32)


@single
@partial(jax.jit, static_argnums=(0, 1))
def _alone(environment: Environment, policy: Policy, path: jax.Array, keys: jax.Array) -> tuple[jax.Array, jax.Array]:
    def one(theta: jax.Array, key: jax.Array) -> Any:
        return episode(environment, lambda seen: policy.alone(theta, seen), key)

    found = jax.vmap(jax.vmap(one, (None, 0)), (0, None))(path, keys)
    return found.total, found.steps


@single
@partial(jax.jit, static_argnums=(0, 1, 2))
def _together(
    environment: Environment, policy: Policy, how: str, path: jax.Array, keys: jax.Array
) -> tuple[jax.Array, jax.Array]:
    found = jax.vmap(lambda key: episode(environment, lambda seen: policy.together(path, seen, how), key))(keys)
    return found.total, found.steps
