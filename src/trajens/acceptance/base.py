"""What an acceptance test is: it looks at loss differences and answers continue, accept or reject.

    Delta = -s (pathloss' - pathloss) = mean_i Delta_i

A test never learns how the proposal was made. It sees running moments of Delta_i on a growing minibatch and
decides with the random words it is handed; it may keep a small state per model slot to plan its batches.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import IntEnum
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from trajens.errors import integer, number


class Reason(IntEnum):
    """Why a decision was taken."""

    TESTED = 0
    CUT_OFF = 1
    ALL_DATA = 2
    NOT_FINITE = 3
    CURRENT_NOT_FINITE = 4

    @property
    def label(self) -> str:
        """The reason in words."""
        return self.name.lower().replace("_", " ")


class Evidence(NamedTuple):
    """What is known of Delta after `b` of `size` examples drawn without replacement."""

    delta: jax.Array
    variance: jax.Array
    skewness: jax.Array
    b: jax.Array
    size: int

    @property
    def is_complete(self) -> jax.Array:
        """Whether every example has been seen."""
        return self.b >= self.size

    def noise(self, finite_population: bool = True) -> jax.Array:
        """rho^2 = Var(Delta*) = (S^2 / b) (1 - b/N); the paper leaves the last factor out."""
        rho2 = self.variance / jnp.maximum(self.b, 1)
        if not finite_population:
            return rho2
        # A rounded quotient b / N would leave a tiny negative variance at b = N.
        return rho2 * ((self.size - self.b).astype(jnp.float32) / self.size)

    def third_cumulant(self) -> jax.Array:
        """kappa_3 of Delta*; kappa_3 / 12 is what it adds to the log-ratio of detailed balance."""
        return self.noise() ** 1.5 * self.skewness / jnp.sqrt(jnp.maximum(self.b, 1).astype(jnp.float32))


class Verdict(NamedTuple):
    """Continue (not decided), accept or reject, and why."""

    is_decided: jax.Array
    is_accepted: jax.Array
    reason: jax.Array


class AcceptanceTest(ABC):
    """One way to decide; subclasses are frozen dataclasses, so that equal tests compile once."""

    takes_all_data = False
    """Whether the test always reads the whole data set, so that the order of examples is irrelevant."""

    num_words = 4
    """Random words a decision may use."""

    @abstractmethod
    def chunk_size(self, size: int) -> int:
        """Examples taken at a time from a data set of `size`; refuses what does not fit."""

    @abstractmethod
    def decide(self, evidence: Evidence, planned: jax.Array, words: jax.Array) -> Verdict:
        """Continue, accept or reject."""

    def initial_state(self, slots: int) -> Any:
        """State per model slot, a pytree of arrays (slots,); empty when the test keeps none."""
        return ()

    def planned_batch(self, state: Any, s: jax.Array, size: int) -> jax.Array:
        """Examples to take before deciding, from the state of one slot; 0 when the test does not plan."""
        return jnp.int32(0)

    def shared(self, state: Any, kinds: int) -> Any:
        """The state that plans are made from, of all slots (chains, kinds * tau) at once."""
        return state

    def learn(self, state: Any, variance: jax.Array) -> Any:
        """New state of a slot after a decision; `variance` is that of the loss differences, without s."""
        return state


def check_chunk(chunk: int, size: int) -> int:
    """`chunk` if it fits a data set of `size` examples."""
    return integer("chunk", chunk, 2, f"the data set has N = {size} examples", maximum=size)


def check_rho(rho: float) -> float:
    """The accepted noise of Delta*."""
    return number("rho", rho, "1.0 is the paper's, 1.35 uses half the data", above=0.0, at_most=1.5)


def full_data_chunk(chunk: int | None, size: int) -> int:
    """Chunk of a full-data test: the given one, or all data at once where that is little."""
    return min(size, 1024) if chunk is None else check_chunk(chunk, size)
