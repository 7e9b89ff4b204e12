"""Environments and networks by name, for the command line: CartPole, or any of gymnax.

gymnax is installed with ``pip install 'trajens[rl]'``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from trajens.errors import InputError, first_line, number, require
from trajens.models import ACTIVATION, Mlp, linear, mlp
from trajens.rl.cartpole import CartPole
from trajens.rl.environment import Box, Discrete, Environment
from trajens.rl.policy import inputs_of, outputs_of

RETURNS: dict[str, tuple[float, float]] = {
    "CartPole-v1": (0.0, 500.0),
    "Acrobot-v1": (-500.0, 0.0),
    "MountainCar-v0": (-200.0, 0.0),
    # The worst of its rewards, 200 times.
    "Pendulum-v1": (-200 * (np.pi**2 + 0.1 * 8.0**2 + 0.001 * 2.0**2), 0.0),
    # 999 steps of the full force, and 100 for the goal.
    "MountainCarContinuous-v0": (-99.9, 100.0),
}
"""The range of returns of those whose rewards say it."""

SEEN: dict[str, Box] = {
    "Acrobot-v1": Box((0.50, -0.87, -0.25, -1.2, -2.5, -4.1), (1.26, 0.87, 1.56, 1.2, 2.5, 4.1), (6,)),
    "MountainCar-v0": Box((-0.68, -0.013), (-0.37, 0.013), (2,)),
}
"""What is seen where actions are random, mean -+ 2 standard deviations, of those whose bounds are much wider."""


@dataclass(frozen=True)
class Gymnax:
    """An environment of gymnax by its name, for instance ``Acrobot-v1``.

    Parameters
    ----------
    name : str
    physics : tuple of (str, float)
        Parameters of the environment that are to be other than usual, for instance ``(("g", 12.0),)``.
    """

    name: str
    physics: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        _, usual = _made(self.name)
        for name, value in self.physics:
            known = [str(field) for field in vars(usual)]
            require(
                name in known,
                f"physics of {self.name} must be among {', '.join(known)}, got {name}; check the spelling.",
            )
            number(name, value, "give a number")

    @property
    def observation_space(self) -> Box:
        if self.name in SEEN:
            return SEEN[self.name]
        space = _made(self.name)[0].observation_space(self._params)
        found = _box(space)
        require(
            found is not None,
            f"observations of {self.name} must be arrays of numbers, got {type(space).__name__}; wrap the environment.",
        )
        assert found is not None
        return found

    @property
    def action_space(self) -> Discrete | Box:
        space = _made(self.name)[0].action_space(self._params)
        found = Discrete(int(space.n)) if hasattr(space, "n") else _box(space)
        is_known = isinstance(found, Discrete) or (
            found is not None and bool(np.isfinite([found.low, found.high]).all())
        )
        require(
            is_known,
            f"actions of {self.name} must be choices or numbers between bounds, got {space}; wrap the environment.",
        )
        assert found is not None
        return found

    @property
    def max_steps(self) -> int:
        return int(self._params.max_steps_in_episode)

    @property
    def returns(self) -> tuple[float, float]:
        require(
            self.name in RETURNS,
            f"returns must be given for {self.name}, whose range of returns is not known here; give the returns of "
            "loss 1 and of loss 0, returns=(low, high) or --returns LOW,HIGH.",
        )
        return RETURNS[self.name]

    def reset(self, key: jax.Array) -> tuple[jax.Array, Any]:
        """The first observation and state."""
        observation, state = _made(self.name)[0].reset_env(key, self._params)
        return jnp.asarray(observation, jnp.float32), state

    def step(self, key: jax.Array, state: Any, action: jax.Array) -> tuple[jax.Array, Any, jax.Array, jax.Array]:
        """A step, without the reset that gymnax adds to it."""
        environment, params = _made(self.name)[0], self._params
        observation, state, reward, is_terminated, _ = environment.step_env(key, state, action, params)
        is_over = is_terminated | environment.is_truncated(state, params)
        return jnp.asarray(observation, jnp.float32), state, jnp.asarray(reward, jnp.float32), is_over

    @property
    def _params(self) -> Any:
        return _made(self.name)[1].replace(**dict(self.physics))


@cache
def _made(name: str) -> tuple[Any, Any]:
    """The environment and its usual parameters."""
    try:
        gymnax = import_module("gymnax")
    except ImportError as error:
        raise InputError(
            f"{name} must come from gymnax, which is not installed ({error}); pip install 'trajens[rl]', or use "
            "CartPole-v1, which needs nothing."
        ) from None
    require(
        name in gymnax.registered_envs,
        f"the environment must be one of {', '.join(gymnax.registered_envs)}, got '{name}'; check the spelling.",
    )
    # What is made while something is compiled must not belong to it.
    try:
        with jax.ensure_compile_time_eval():
            made: tuple[Any, Any] = gymnax.make(name)
    except Exception as error:
        raise InputError(
            f"{name} must be one that gymnax can make here, got {first_line(error)}; some load data when they are made."
        ) from error
    return made


def _box(space: Any) -> Box | None:
    if not hasattr(space, "low") or not hasattr(space, "shape"):
        return None
    with jax.ensure_compile_time_eval():
        low, high = (np.asarray(bound, np.float64) for bound in (space.low, space.high))
    shape = tuple(int(n) for n in space.shape)
    # The largest number means that there is no bound.
    largest = float(np.finfo(np.float32).max)
    bounds = [np.broadcast_to(np.where(np.abs(b) >= largest, np.copysign(np.inf, b), b), shape) for b in (low, high)]
    low_, high_ = (tuple(float(value) for value in bound.reshape(-1)) for bound in bounds)
    return Box(low_, high_, shape)


_NAME = re.compile(r"[A-Za-z]\w*-(v\d+|MinAtar|bsuite|misc)")


def is_environment(name: str) -> bool:
    """Whether a text looks like the name of an environment."""
    return _NAME.fullmatch(name) is not None


def environment(name: str) -> Environment:
    """CartPole-v1, which is written here, or an environment of gymnax."""
    return CartPole() if name == CartPole().name else Gymnax(name)


def network(environment: Environment, hidden: Sequence[int] = (), activation: str = ACTIVATION) -> Mlp:
    """A network for a policy: linear, or with hidden layers."""
    inputs, outputs = inputs_of(environment), outputs_of(environment)
    return mlp((inputs, *hidden, outputs), activation) if hidden else linear(inputs, outputs)
