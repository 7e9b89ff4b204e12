"""Policies: from observations to actions, by the outputs of a network; alone, or many together.

Of n actions that of the largest output (logit) is taken. Where actions are numbers between bounds, every output f
becomes middle + width/2 tanh(f). The models of a path act together

- by *vote*: the action that most models would take, of equals the first;
- by *mean*: the action of the largest mean logit, or the mean of the actions where these are numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from trajens.ensemble import Predictor
from trajens.errors import choice
from trajens.rl.environment import Box, Discrete, Environment, require_network

VOTE, MEAN = "vote", "mean"


@dataclass(frozen=True)
class Policy:
    """A network that acts.

    Parameters
    ----------
    network : Predictor
        One of `tj.models`, or anything with ``dim``, ``outputs`` and ``apply(theta, x)``, hashable.
    observation_space : Box
    action_space : Discrete or Box
    """

    network: Predictor
    observation_space: Box
    action_space: Discrete | Box

    @classmethod
    def of(cls, environment: Environment, network: Predictor) -> Policy:
        """For an environment; refused where the network has not one output per action, or cannot see."""
        require_network(network, inputs_of(environment), outputs_of(environment), environment.name)
        return cls(network, environment.observation_space, environment.action_space)

    def outputs(self, theta: jax.Array, observation: jax.Array) -> jax.Array:
        """What the network `theta` (dim,) says of one observation, (outputs,)."""
        low, high = (np.array(bound) for bound in (self.observation_space.low, self.observation_space.high))
        with np.errstate(over="ignore", invalid="ignore"):
            middle, half = (high + low) / 2, (high - low) / 2
        is_bounded = np.isfinite(half) & (half > 0)
        middle, half = np.where(is_bounded, middle, 0.0), np.where(is_bounded, half, 1.0)
        flat = (jnp.asarray(observation).reshape(-1) - middle.astype(np.float32)) / half.astype(np.float32)
        return self.network.apply(theta, flat[None])[0]

    def action(self, outputs: jax.Array) -> jax.Array:
        """What is done after `outputs`."""
        space = self.action_space
        if isinstance(space, Discrete):
            return jnp.argmax(outputs)
        low, high = (jnp.array(bound, jnp.float32) for bound in (space.low, space.high))
        return ((high + low) / 2 + (high - low) / 2 * jnp.tanh(outputs)).reshape(space.shape)

    def alone(self, theta: jax.Array, observation: jax.Array) -> jax.Array:
        """The action of one model."""
        return self.action(self.outputs(theta, observation))

    def together(self, path: jax.Array, observation: jax.Array, how: str = VOTE) -> jax.Array:
        """The action of the models of a path (tau, dim)."""
        outputs = jax.vmap(self.outputs, (0, None))(path, observation)
        if not isinstance(self.action_space, Discrete):
            return jax.vmap(self.action)(outputs).mean(0)
        if how == MEAN:
            return jnp.argmax(outputs.mean(0))
        votes = jax.nn.one_hot(jnp.argmax(outputs, axis=1), self.action_space.n)
        return jnp.argmax(votes.sum(0))

    @property
    def ways(self) -> tuple[str, ...]:
        """The ways in which models can act together."""
        return (VOTE, MEAN) if isinstance(self.action_space, Discrete) else (MEAN,)

    def require_way(self, how: str) -> str:
        """`how`, or an `InputError`."""
        return choice("how", how, self.ways)


def outputs_of(environment: Environment) -> int:
    """Outputs that a policy needs: one per action, or per number of it."""
    space = environment.action_space
    return space.n if isinstance(space, Discrete) else math.prod(space.shape)


def inputs_of(environment: Environment) -> int:
    """Numbers of an observation."""
    return math.prod(environment.observation_space.shape)
