"""Environments and networks that no episode can be made of are refused, with a sentence each, before one is tried."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from trajens.ensemble import Predictor
from trajens.errors import InputError, first_line, integer, require
from trajens.rl.environment import Discrete, Environment

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
