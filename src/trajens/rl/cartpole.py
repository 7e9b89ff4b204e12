"""CartPole-v1: a pole on a cart that is pushed to the left or to the right, 500 steps at most (Barto et al. 1983).

    a = (F + m l w^2 sin) / M,   w' = (g sin - a cos) / (l (4/3 - m cos^2 / M)),   v' = a - m l w' cos / M

with the angle and its velocity w, the cart's velocity v, the mass m and the half length l of the pole and the whole
mass M; steps of 0.02 s by Euler's method. Every step is a reward of 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from trajens.rl.environment import Box, Discrete

_FASTEST = 3.0
"""Velocities that observations are scaled by; they have no bounds."""


class Pole(NamedTuple):
    """Position and velocity of the cart, angle of the pole and its velocity."""

    x: jax.Array
    v: jax.Array
    angle: jax.Array
    w: jax.Array


@dataclass(frozen=True)
class CartPole:
    """The standard physics; others by its fields.

    Parameters
    ----------
    gravity, cart_mass, pole_mass : float
    length : float
        Half of the pole.
    force : float
        Of a push.
    seconds : float
        Of a step.
    """

    gravity: float = 9.8
    cart_mass: float = 1.0
    pole_mass: float = 0.1
    length: float = 0.5
    force: float = 10.0
    seconds: float = 0.02
    max_steps: int = 500

    farthest = 2.4
    steepest = 12 * math.pi / 180

    @property
    def name(self) -> str:
        return "CartPole-v1"

    @property
    def observation_space(self) -> Box:
        high = (self.farthest, _FASTEST, self.steepest, _FASTEST)
        return Box(tuple(-bound for bound in high), high, (4,))

    @property
    def action_space(self) -> Discrete:
        return Discrete(2)

    @property
    def returns(self) -> tuple[float, float]:
        return 0.0, float(self.max_steps)

    def reset(self, key: jax.Array) -> tuple[jax.Array, Pole]:
        """All four numbers uniform in -0.05..0.05."""
        observation = jax.random.uniform(key, (4,), minval=-0.05, maxval=0.05)
        return observation, Pole(*observation)

    def step(self, key: jax.Array, state: Pole, action: jax.Array) -> tuple[jax.Array, Pole, jax.Array, jax.Array]:
        """Push to the right for action 1, to the left for 0; over where the cart or the pole is beyond its bound."""
        mass = self.cart_mass + self.pole_mass
        moment = self.pole_mass * self.length
        force = jnp.where(action == 1, self.force, -self.force)
        cos, sin = jnp.cos(state.angle), jnp.sin(state.angle)
        push = (force + moment * state.w**2 * sin) / mass
        turn = (self.gravity * sin - cos * push) / (self.length * (4 / 3 - self.pole_mass * cos**2 / mass))
        pull = push - moment * turn * cos / mass
        now = Pole(
            state.x + self.seconds * state.v,
            state.v + self.seconds * pull,
            state.angle + self.seconds * state.w,
            state.w + self.seconds * turn,
        )
        is_over = (jnp.abs(now.x) > self.farthest) | (jnp.abs(now.angle) > self.steepest)
        return jnp.stack(now), now, jnp.float32(1.0), is_over
