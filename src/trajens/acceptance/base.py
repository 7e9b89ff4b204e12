"""What an acceptance test is: it looks at loss differences and answers continue, accept or reject.

    Delta = -s (pathloss' - pathloss) = mean_i Delta_i

A test never learns how the proposal was made. It sees running moments of Delta_i on a growing minibatch and
decides with the random words it is handed; it may remember a little of every model to plan its batches: `init`,
`decide(state, evidence, words)`, `learn`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import IntEnum
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from trajens.acceptance.moments import Moments
from trajens.errors import integer, number

FEW_DATA = 4096
CHUNK_OF_FEW, CHUNK_OF_MANY = 32, 240
"""Examples a minibatch grows by, unless another number is asked for, of up to `FEW_DATA` examples and of more."""


class Reason(IntEnum):
    """Why a decision was taken."""

    TESTED = 0
    CUT_OFF = 1
    ALL_DATA = 2
    NOT_FINITE = 3
    CURRENT_NOT_FINITE = 4

    @property
    def label(self) -> str:
        """The name of the reason in records."""
        return self.name.lower()


class Evidence(NamedTuple):
    """What is known of Delta after b of `size` examples drawn without replacement.

    `moments` are those of the loss differences l_i' - l_i, without s; `log_ratio` is what the move adds to Delta.
    """

    moments: Moments
    s: jax.Array
    log_ratio: jax.Array
    size: int

    @property
    def b(self) -> jax.Array:
        """Examples seen."""
        return self.moments.n

    @property
    def delta(self) -> jax.Array:
        """Delta*, the estimate of Delta."""
        return self.log_ratio - self.s * self.moments.mean

    @property
    def variance(self) -> jax.Array:
        """S^2, the sample variance of Delta_i."""
        return self.s**2 * self.moments.variance

    @property
    def skewness(self) -> jax.Array:
        """Third standardised moment of Delta_i."""
        return -self.moments.skewness

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

    def init(self, kinds: int, tau: int) -> Any:
        """What the test remembers of one chain: a pytree of arrays (kinds, tau), one entry per kind of move and model.

        Empty for a test that remembers nothing.
        """
        return ()

    def view(self, state: Any) -> Any:
        """What decisions see of `state`, of all entries (kinds, tau) of a chain at once; default: each its own."""
        return state

    @abstractmethod
    def decide(self, state: Any, evidence: Evidence, words: jax.Array) -> Verdict:
        """Continue, accept or reject; `state` is the entry of the model that is to change, `words` are random.

        After all data the answer is taken whether the test wants to continue or not.
        """

    def learn(self, state: Any, evidence: Evidence) -> Any:
        """The entry after a decision. It is asked during burn-in only: averages are taken with a fixed kernel."""
        return state


def check_chunk(chunk: int, size: int) -> int:
    """`chunk` if it fits a data set of `size` examples."""
    return integer("chunk", chunk, 2, f"the data set has N = {size} examples", maximum=size)


def minibatch_chunk(chunk: int | None, size: int) -> int:
    """Examples a minibatch grows by: the given number, or one that suits so many data."""
    if chunk is not None:
        return check_chunk(chunk, size)
    return min(size, CHUNK_OF_FEW if size <= FEW_DATA else CHUNK_OF_MANY)


def given_chunk(chunk: int | None) -> int | None:
    """A chunk as the user gave it, before the data are known."""
    return None if chunk is None else integer("chunk", chunk, 2, "try 32 for small models, 240 for networks")


def check_rho(rho: float) -> float:
    """The accepted noise of Delta*."""
    return number("rho", rho, "1.0 is the paper's, 1.35 uses half the data", above=0.0, at_most=1.5)
