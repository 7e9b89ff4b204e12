"""An environment whose observations are noisy: for trying how robust policies are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax

from trajens.rl.environment import Box, Discrete, Environment


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
