"""What an environment is: pure functions of keys and states, and what is known of its observations and returns.

An episode of a policy is reset, then steps until one of them says that it is over, `max_steps` at most. Its return is
the sum of its rewards. All that is random comes of the keys, so an episode is a function of one key and of the policy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import jax


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
