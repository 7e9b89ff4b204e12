"""Tests on all data, with exact detailed balance.

Metropolis   accept iff ln V < Delta, V ~ U(0, 1):            min(1, exp(Delta))
Barker       accept iff Delta + X > 0, X standard logistic:   S(Delta) = 1 / (1 + exp(-Delta))
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from trajens.acceptance.base import AcceptanceTest, Evidence, Reason, Verdict, check_chunk, given_chunk
from trajens.randomness import logistic, uniform


@dataclass(frozen=True)
class FullData(AcceptanceTest):
    """A test that waits for all data, so that the order of examples is irrelevant.

    Parameters
    ----------
    chunk : int, optional
        Examples evaluated at a time; default all where that is little.
    """

    chunk: int | None = None
    takes_all_data = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "chunk", given_chunk(self.chunk))

    def chunk_size(self, size: int) -> int:
        return min(size, 1024) if self.chunk is None else check_chunk(self.chunk, size)

    def decide(self, state: Any, evidence: Evidence, words: jax.Array) -> Verdict:
        return Verdict(evidence.is_complete, self.accepts(evidence.delta, words), jnp.int32(Reason.ALL_DATA))

    @abstractmethod
    def accepts(self, delta: jax.Array, words: jax.Array) -> jax.Array:
        """Whether a change of Delta is accepted."""


class Metropolis(FullData):
    """min(1, exp(Delta))."""

    def accepts(self, delta: jax.Array, words: jax.Array) -> jax.Array:
        return jnp.log(uniform(words[0])) < delta


class Barker(FullData):
    """1 / (1 + exp(-Delta))."""

    def accepts(self, delta: jax.Array, words: jax.Array) -> jax.Array:
        return delta + logistic(words[0]) > 0
