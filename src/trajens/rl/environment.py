"""Environments: pure functions of keys and states, and what is known of their observations and returns.

An episode of a policy is reset, then steps until one of them says that it is over, `max_steps` at most. Its return is
the sum of its rewards. All that is random comes of the keys, so an episode is a function of one key and of the policy.

Environments and networks that no episode can be made of are refused, with a sentence each, before one is tried. `Noisy`
is an environment with noisy observations, for trying how robust policies are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import jax
import jax.numpy as jnp

from trajens.ensemble import Predictor
from trajens.errors import InputError, first_line, integer, require


@dataclass(frozen=True)
class Discrete:
    """Actions 0..n-1."""

    n: int


@dataclass(frozen=True)
class Box:
    """Arrays of a shape, with bounds of every entry in the order of the flattened array; infinite where there is none.

    Attributes
    ----------
    low, high : tuple of float
    shape : tuple of int
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    shape: tuple[int, ...]


class Environment(Protocol):
    """Anything with pure JAX ``reset`` and ``step``, named as gymnax has it.

    Environments must be hashable, and equal where they mean the same (frozen dataclasses are): they are compiled in.
    """

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def observation_space(self) -> Box:
        """Of observations; where entries have finite bounds, policies see them scaled to -1..1."""

    @property
    def action_space(self) -> Discrete | Box:
        """Of actions."""

    @property
    def max_steps(self) -> int:
        """Steps after which an episode is over in any case."""

    @property
    def returns(self) -> tuple[float, float]:
        """The range of returns: the loss of an episode is 1 at its low end and 0 at its high end."""

    def reset(self, key: jax.Array) -> tuple[jax.Array, Any]:
        """The first observation, and a state of any form."""

    def step(self, key: jax.Array, state: Any, action: jax.Array) -> tuple[jax.Array, Any, jax.Array, jax.Array]:
        """Observation, state, reward and whether the episode is over."""


_MEMBERS = ("name", "observation_space", "action_space", "max_steps", "reset", "step")
_ASKED = "see trajens.rl.Environment"


def require_environment(environment: Any) -> None:
    """Refuse what is no environment, or one whose steps are not what they should be; nothing is computed."""
    missing = [name for name in _MEMBERS if not hasattr(environment, name)]
    require(
        not missing,
        f"environment must have {', '.join(_MEMBERS)}, got {environment!r} without {', '.join(missing)}; make one of a "
        "name with tj.rl.environment('CartPole-v1'), or write one.",
    )
    try:
        hash(environment)
    except TypeError:
        raise InputError(
            f"environment must be hashable, as it is compiled in, got {type(environment).__name__}; make it a frozen "
            "dataclass, with tuples in place of arrays."
        ) from None
    integer(f"max_steps of {environment.name}", environment.max_steps, 1, "an episode has at least one step")
    _require_steps(environment)


def require_network(network: Any, inputs: int, outputs: int, name: str) -> None:
    """Refuse a network that does not take an observation of so many numbers to so many outputs."""
    require(
        all(hasattr(network, member) for member in ("dim", "outputs", "apply")),
        f"network must have dim, outputs and apply, got {network!r}; try tj.models.linear({inputs}, {outputs}), or "
        "give a function as apply, with its params.",
    )
    require(
        network.outputs == outputs,
        f"the network must have {outputs} outputs, one for every action of {name}, got {network.outputs}; change its "
        "last layer.",
    )
    shape = _tried(
        lambda: _applied(network, inputs),
        f"the network must take observations of {name}, {inputs} numbers each",
        f"try tj.models.linear({inputs}, {outputs})",
    )
    require(
        shape == (1, outputs),
        f"the network must give {outputs} outputs for every observation, shape (1, {outputs}) for one, got {shape}; "
        "change its last layer.",
    )


def _require_steps(environment: Environment) -> None:
    name, key = environment.name, jax.random.key(0)
    space = environment.action_space
    action = jnp.int32(0) if isinstance(space, Discrete) else jnp.zeros(space.shape, jnp.float32)
    first = _tried(lambda: jax.eval_shape(environment.reset, key), f"reset of {name} must work on a key")
    require(
        isinstance(first, tuple) and len(first) == 2,
        f"reset of {name} must return an observation and a state, got {_count(first)}; {_ASKED}.",
    )
    found = _tried(
        lambda: jax.eval_shape(environment.step, key, first[1], action),
        f"step of {name} must work on a key, a state and an action",
    )
    require(
        isinstance(found, tuple) and len(found) == 4,
        f"step of {name} must return observation, state, reward and whether the episode is over, got {_count(found)}; "
        f"{_ASKED}.",
    )
    seen = environment.observation_space.shape
    for where, observation in (("reset", first[0]), ("step", found[0])):
        require(
            getattr(observation, "shape", None) == tuple(seen),
            f"observations of {name} must have the shape {tuple(seen)} of its observation_space, got "
            f"{_shape(observation)} of {where}; change one of them.",
        )
    for what, number in (("reward", found[2]), ("end", found[3])):
        require(
            getattr(number, "shape", None) == (),
            f"the {what} of a step of {name} must be one number, got {_shape(number)}; sum it, or take one of it.",
        )
    before, after = (jax.tree.map(lambda leaf: leaf.shape, state) for state in (first[1], found[1]))
    require(
        before == after,
        f"the state of {name} must keep its form, got {before} of reset and {after} of step; make both alike.",
    )


def _applied(network: Predictor, inputs: int) -> tuple[int, ...]:
    like = jax.ShapeDtypeStruct
    found = jax.eval_shape(network.apply, like((network.dim,), jnp.float32), like((1, inputs), jnp.float32))
    return tuple(found.shape)


def _tried(call: Any, claim: str, advice: str = _ASKED) -> Any:
    try:
        return call()
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{claim}, got {first_line(error)}; {advice}.") from error


def _count(found: Any) -> str:
    return f"{len(found)} things" if isinstance(found, tuple) else type(found).__name__


def _shape(found: Any) -> str:
    return f"shape {found.shape}" if hasattr(found, "shape") else type(found).__name__


@dataclass(frozen=True)
class Noisy:
    """Normal noise added to every number of every observation.

    Parameters
    ----------
    environment : Environment
    std : float
        Standard deviation, in the units of observations.
    """

    environment: Environment
    std: float

    @property
    def name(self) -> str:
        return self.environment.name

    @property
    def observation_space(self) -> Box:
        return self.environment.observation_space

    @property
    def action_space(self) -> Discrete | Box:
        return self.environment.action_space

    @property
    def max_steps(self) -> int:
        return self.environment.max_steps

    @property
    def returns(self) -> tuple[float, float]:
        return self.environment.returns

    def reset(self, key: jax.Array) -> tuple[jax.Array, Any]:
        """The first observation with noise."""
        key_reset, key_noise = jax.random.split(key)
        observation, state = self.environment.reset(key_reset)
        return self._noisy(key_noise, observation), state

    def step(self, key: jax.Array, state: Any, action: jax.Array) -> tuple[jax.Array, Any, jax.Array, jax.Array]:
        """A step, whose observation has noise; the state has none."""
        key_step, key_noise = jax.random.split(key)
        observation, state, reward, is_over = self.environment.step(key_step, state, action)
        return self._noisy(key_noise, observation), state, reward, is_over

    def _noisy(self, key: jax.Array, observation: jax.Array) -> jax.Array:
        return observation + self.std * jax.random.normal(key, observation.shape)
