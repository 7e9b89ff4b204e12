"""What minibatches are drawn from: N examples without replacement, or a stream of fresh ones that never ends.

A *member* is what a loss is asked about: the number of an example in 0..N-1, or, of a stream, a key of its own as two
words of 32 bits. Members of a decision are a function of its key and of their positions in its batch.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from trajens.randomness import Key, fold_in, key_of
from trajens.subsample import permute


@dataclass(frozen=True)
class Population(ABC):
    """Hashable, as it is compiled in.

    Parameters
    ----------
    most : int
        The most members that a decision may read.
    """

    most: int

    @property
    @abstractmethod
    def size(self) -> int | float:
        """N, or infinity."""

    @property
    @abstractmethod
    def limit(self) -> int | None:
        """Members after which a decision must do without more although there are some; None where there are none."""

    @abstractmethod
    def draw(self, key: Key, positions: jax.Array) -> jax.Array:
        """The members at `positions` (..., m) of the order that belongs to `key` (...,)."""

    @abstractmethod
    def at(self, positions: Any) -> Any:
        """The members at `positions` of an order that is always the same."""

    @abstractmethod
    def some(self, count: int) -> np.ndarray:
        """`count` members from all over, always the same."""


@dataclass(frozen=True)
class Finite(Population):
    """`most` examples, drawn without replacement; members are their numbers, (..., m) int32."""

    @property
    def size(self) -> int:
        return self.most

    @property
    def limit(self) -> None:
        return None

    def draw(self, key: Key, positions: jax.Array) -> jax.Array:
        return permute(key, self.at(positions), self.size)

    def at(self, positions: Any) -> Any:
        # Only the last chunks can reach beyond the data; what does is not counted.
        return (np if isinstance(positions, np.ndarray) else jnp).minimum(positions, self.size - 1)

    def some(self, count: int) -> np.ndarray:
        return np.linspace(0, self.size - 1, count).astype(np.int32)


@dataclass(frozen=True)
class Endless(Population):
    """Fresh examples without an end, of which a decision reads `most`; members are keys, (..., m, 2) uint32."""

    @property
    def size(self) -> float:
        return math.inf

    @property
    def limit(self) -> int:
        return self.most

    def draw(self, key: Key, positions: jax.Array) -> jax.Array:
        lifted = Key(key.first[..., None], key.second[..., None])
        return jnp.stack(fold_in(lifted, positions), axis=-1)

    def at(self, positions: Any) -> Any:
        return self.draw(key_of(0), jnp.asarray(positions))

    def some(self, count: int) -> np.ndarray:
        return np.asarray(self.at(np.arange(count)))


def keys_of(members: jax.Array) -> jax.Array:
    """The members (..., m, 2) of a stream as keys of ``jax.random``, (..., m)."""
    return jax.random.wrap_key_data(members, impl="threefry2x32")
