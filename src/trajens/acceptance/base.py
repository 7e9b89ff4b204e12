"""Acceptance tests: what they are asked, and how they answer: continue, accept or reject.

    Delta = -s (pathloss' - pathloss) = mean_i Delta_i

A test never learns how the proposal was made. It sees running moments of Delta_i on a growing minibatch and
decides with the random words it is handed; it may remember a little of every model to plan its batches: `init`,
`decide(state, evidence, words)`, `learn`. A test may have several stages, each with examples of its own: what passes
one goes on to the next.

NaN never enters a path: a proposal that is not finite is rejected, and a current model that is not finite is left for
a finite one, whatever the test.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import IntEnum
from typing import Any, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np

from trajens.acceptance.moments import Moments
from trajens.errors import integer, number

FEW_DATA = 4096
CHUNK_OF_FEW, CHUNK_OF_MANY = 32, 240
"""Examples a minibatch grows by, unless another number is asked for, of up to `FEW_DATA` examples and of more."""


class Reason(IntEnum):
    """Why a decision was taken; `CAPPED`: a stream has more, but no more may be read, and the test had asked for it."""

    TESTED = 0
    CUT_OFF = 1
    ALL_DATA = 2
    NOT_FINITE = 3
    CURRENT_NOT_FINITE = 4
    CAPPED = 5

    @property
    def label(self) -> str:
        """The name of the reason in records."""
        return self.name.lower()


class Past(NamedTuple):
    """The examples of earlier stages: their number B, and the mean M of their loss differences."""

    n: jax.Array
    mean: jax.Array

    def plus(self, moments: Moments, is_passed: jax.Array) -> tuple[Past, Moments]:
        """The past, and the moments of the stage that begins, where the stage of `moments` `is_passed`."""
        n = self.n + moments.n
        mean = self.mean + (moments.mean - self.mean) * (moments.n / jnp.maximum(n, 1)).astype(jnp.float32)
        past = Past(jnp.where(is_passed, n, self.n), jnp.where(is_passed, mean, self.mean))
        return past, jax.tree.map(lambda leaf: jnp.where(is_passed, 0, leaf).astype(leaf.dtype), moments)


class Evidence(NamedTuple):
    """What is known of Delta after b of `size` examples drawn without replacement.

    `moments` are those of the loss differences l_i' - l_i, without s; `log_ratio` is what the move adds to Delta.
    Of a stream, N is infinite: 1 - b/N is 1 whatever b is, and no more than `limit` examples may be read.
    In a later stage `moments` are of its own examples, and with the mean m of those

        Delta* = -s ((N - B) m + B M) / N,   Var(Delta*) = (1 - B/N)^2 S^2 (1/b - 1/(N - B)),

    which given all that was seen before is unbiased for Delta, and so uncorrelated with it.
    """

    moments: Moments
    s: jax.Array
    log_ratio: jax.Array
    size: int | float
    past: Past | None = None
    stage: jax.Array | int = 0
    limit: int | None = None

    @property
    def b(self) -> jax.Array:
        """Examples seen in this stage."""
        return self.moments.n

    @property
    def seen(self) -> jax.Array:
        """Examples seen in all stages."""
        return self.b if self.past is None else self.b + self.past.n

    @property
    def delta(self) -> jax.Array:
        """Delta*, the estimate of Delta."""
        mean = self.moments.mean
        if self.past is not None:
            mean = self.past.mean + (mean - self.past.mean) * self._share_left
        return self.log_ratio - self.s * mean

    @property
    def _share_left(self) -> jax.Array | float:
        """(N - B) / N, the share of the examples that this stage can draw from."""
        if self.past is None or self.limit is not None:
            return 1.0
        return (self.size - self.past.n).astype(jnp.float32) / self.size

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
        """Whether every example has been seen, so that nothing is left to chance."""
        return self.seen >= self.size

    @property
    def is_exhausted(self) -> jax.Array:
        """Whether no more examples can be read: all have been, or as many as may be of a stream."""
        return self.is_complete if self.limit is None else self.seen >= self.limit

    def noise(self, finite_population: bool = True) -> jax.Array:
        """rho^2 = Var(Delta*), in a first stage (S^2 / b) (1 - b/N); the paper's authors leave the last factor out."""
        rho2 = self.variance / jnp.maximum(self.b, 1)
        if not finite_population or self.limit is not None:
            return rho2
        # A rounded quotient b / N would leave a tiny negative variance at b = N.
        return rho2 * ((self.size - self.seen).astype(jnp.float32) / self.size) * self._share_left

    @property
    def share_read(self) -> jax.Array | float:
        """B / (N - B), the share that this stage has read of what it can draw from."""
        if self.limit is not None:
            return 0.0
        left = self.size if self.past is None else jnp.maximum(self.size - self.past.n, 1)
        return self.b.astype(jnp.float32) / left

    def skew(self) -> jax.Array:
        """T = (K_3 / b^2) (1 - b/N), K_3 the third cumulant of Delta_i, estimated without bias.

        Without replacement T (1 - 2b/N) is the third cumulant of Delta*, and T (1 - b/N) its covariance with rho^2; in
        a later stage with N - B for N, and with ((N - B)/N)^3.
        """
        spread = -self.s * self._share_left * jnp.sqrt(self.moments.variance)
        b = jnp.maximum(self.b, 1).astype(jnp.float32)
        return (spread / b) * (spread**2 / b) * self.moments.third_cumulant * (1.0 - self.share_read)

    def third_cumulant(self) -> jax.Array:
        """kappa_3 of Delta*; kappa_3 / 12 is what it adds to the log-ratio of detailed balance."""
        return self.noise() ** 1.5 * self.skewness / jnp.sqrt(jnp.maximum(self.b, 1).astype(jnp.float32))


class Verdict(NamedTuple):
    """Continue (not decided), accept or reject, and why; `is_passed` ends a stage, and the next takes new examples."""

    is_decided: jax.Array
    is_accepted: jax.Array
    reason: jax.Array
    is_passed: jax.Array | bool = False


class Judgement(NamedTuple):
    """A stage before the draw: whether it is over, ln of the probability of passing it, whether that is to accept."""

    is_ready: jax.Array
    log_chance: jax.Array
    is_last: jax.Array


class AcceptanceTest(ABC):
    """One way to decide; subclasses are frozen dataclasses, so that equal tests compile once."""

    takes_all_data = False
    """Whether the test always reads the whole data set, so that the order of examples is irrelevant."""

    num_words = 4
    """Random words a decision may use, in all its stages."""

    num_stages = 1
    """The most stages a decision has."""

    tolerance: float | None = None
    """The error of s that plans keep; None for a test that keeps none."""

    @abstractmethod
    def chunk_size(self, size: int) -> int:
        """Examples taken at a time where a decision reads `size` at most; refuses what does not fit."""

    def resolved(self, size: int) -> Self:
        """The same test with its chunk for `size` examples, however many it is then told there are."""
        return self

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

        Where there is no more to read the answer is taken whether the test wants to continue or not.
        """

    def answer(self, state: Any, evidence: Evidence, words: jax.Array) -> Verdict:
        """What is made of `decide`: where there is nothing more to wait for, its answer is taken as it is."""
        verdict = self.decide(state, evidence, words)
        is_decided = verdict.is_decided | evidence.is_exhausted
        is_passed, reason = jnp.broadcast_to(verdict.is_passed, is_decided.shape), verdict.reason
        if evidence.limit is not None:
            reason = jnp.where(verdict.is_decided, reason, Reason.CAPPED).astype(jnp.int32)
        return verdict._replace(is_decided=is_decided, is_passed=is_passed, reason=reason)

    def while_rising(self, memory: Any) -> Any:
        """What the test remembers while s still rises, before any audit; default what it remembers anyway."""
        return memory

    def judge(self, state: Any, evidence: Evidence) -> Judgement | None:
        """`decide` before the draw, for a test whose draw can be averaged over; audits are less noisy with it."""
        return None

    def most_examples(self, state: Any, s: jax.Array, size: int | float) -> Any:
        """The most examples that decisions with the entries `state` would read of `size`, which may be infinite."""
        return jnp.full(s.shape, size)

    def plan_within(
        self, chunk: int, entries: Any, looked: Any, tolerance: float, rng: np.random.Generator
    ) -> dict[str, float]:
        """Fields of the memory to change so that an audited error of s stays within `tolerance`; default none.

        It is asked in burn-in only, with proposals that were looked at and the entries they would be decided with.
        """
        return {}

    def learn(self, state: Any, evidence: Evidence) -> Any:
        """The entry after a decision. It is asked during burn-in only: averages are taken with a fixed kernel."""
        return state


def check_chunk(chunk: int, size: int) -> int:
    """`chunk` if a decision can read so many examples, of `size` at most."""
    return integer("chunk", chunk, 2, f"a decision can read {size} examples at most", maximum=size)


def minibatch_chunk(chunk: int | None, size: int) -> int:
    """Examples a minibatch grows by: the given number, or one that suits so many data."""
    if chunk is not None:
        return check_chunk(chunk, size)
    return min(size, CHUNK_OF_FEW if size <= FEW_DATA else CHUNK_OF_MANY)


def given_chunk(chunk: int | None) -> int | None:
    """A chunk as the user gave it, before the data are known."""
    return None if chunk is None else integer("chunk", chunk, 2, "try 32 for small models, 240 for networks")


def check_rho(rho: float, at_most: float = 1.5) -> float:
    """The accepted noise of Delta*."""
    return number("rho", rho, "1.0 is the paper's, 1.35 uses half the data", above=0.0, at_most=at_most)


def refuse_what_is_not_finite(
    verdict: Verdict, is_last_row: jax.Array, losses: jax.Array, is_valid: jax.Array | None, new: jax.Array
) -> Verdict:
    """The verdict of a test, unless a loss or a proposed parameter is not finite.

    Parameters
    ----------
    verdict : Verdict
        Fields (chains, lanes), as all that follows without further axes.
    is_last_row : bool
        Whether all models of the proposal have been seen; there is no verdict before.
    losses : (chains, lanes, 2, m)
        Of the current and the proposed model.
    is_valid : (chains, lanes, m), optional
        Which of the examples exist.
    new : (chains, lanes, dim)
    """
    is_bad = ~jnp.isfinite(losses)
    if is_valid is not None:
        is_bad &= is_valid[:, :, None]
    is_bad_old, is_bad_new = is_bad[:, :, 0].any(-1), is_bad[:, :, 1].any(-1) | ~jnp.isfinite(new).all(-1)
    is_bad_any = is_bad_old | is_bad_new
    reason = jnp.where(is_bad_new, Reason.NOT_FINITE, Reason.CURRENT_NOT_FINITE)
    return Verdict(
        (verdict.is_decided & is_last_row) | is_bad_any,
        jnp.where(is_bad_any, ~is_bad_new, verdict.is_accepted),
        jnp.where(is_bad_any, reason, verdict.reason).astype(jnp.int32),
        verdict.is_passed & is_last_row & ~is_bad_any,
    )
