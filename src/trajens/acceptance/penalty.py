"""The penalty test (Ceperley and Dewing 1999): noise costs acceptance instead of correctness.

    accept iff ln V < Delta* - u,   u = rho^2/2 + rho^4/(4(b+1)) + rho^6/(3(b+1)(b+3))

For Gaussian noise of known variance, u = rho^2/2 is exactly detailed balanced:

    A(Delta) = Phi((Delta - rho^2/2)/rho) + exp(Delta) Phi(-(Delta + rho^2/2)/rho)

and the further terms account for rho^2 being estimated. The batch is *planned before looking*: per model
the test keeps a running mean v of the variance of past loss differences, takes

    b = ceil(N S^2 / (N rho_t^2 + S^2)),  S^2 = s^2 v,  in whole chunks,

and decides with whatever rho comes out, so nothing selects batches by their outcome. The plan adapts during
burn-in and is frozen after it: averages are taken with a fixed kernel.

Skewness. Means of few skewed differences are skewed, and u, which is made of the same differences, is correlated with
them. Both change sign with the move, which makes a force: means of parameters move where the loss is right. With a
tolerance the test takes it out to first order,

    u -> u - c T + 3 c^2 rho^6 / b^2,   T = (k_3 / b^2) (1 - b/N),   c = c(r) - b/(6N),   r^2 = rho^2 + v,
    c(r) = 1/3 - phi(r/2) / (4 r Phi(-r/2)),

k_3 the unbiased third cumulant of the batch, v = 2 the variance of Delta between proposals; the last term is for the
noise of k_3. A stage tests lambda Delta with lambda^3 T and lambda^2 v; a factor f of u adds (f - 1)(1 - b/N)(2 c(r) -
1/6) to c. All of it vanishes for b = N.

Stages. Delta = lambda Delta + (1 - lambda) Delta; a first stage tests lambda Delta on lambda b examples (on more, up to
all, where b is much of the data), a second one the rest on b others, and a proposal is accepted when both say yes. For
normal noise their estimates are independent and each has A_j(Delta) = exp(lambda_j Delta) A_j(-Delta), so the product
is detailed balanced; a hopeless proposal is refused after the first few examples. Where the first stage would be less
than half a chunk, all is tested at once.

Tolerance. Means of few heavy-tailed differences are not normal. How far the decisions are from detailed balance is
audited (`trajens.acceptance.audit`), and the plan takes the larger of the b that noise asks for and the b at which the
error of s, or what is left of it when u gets a factor that takes it out, is within the tolerance
(`trajens.acceptance.planning`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np

from trajens.acceptance.base import (
    AcceptanceTest,
    Evidence,
    Judgement,
    Reason,
    Verdict,
    check_rho,
    given_chunk,
    minibatch_chunk,
)
from trajens.errors import integer, number, require
from trajens.population import MAX_SIZE
from trajens.randomness import uniform

TOLERANCE = 0.01
"""Error of s that a plan keeps, unless another is asked for."""

RHO_LARGEST = 2.38
"""Noise at which small steps cost the fewest examples per accepted move, 1 / (rho^2 2 Phi(-rho/2))."""
RHO_FIXED, RHO_UNAUDITED = 1.35, 1.0
"""Noise without a tolerance, and noise until an audit allows more."""

FIRST = 0.3
"""lambda, the part of Delta that a first stage tests, with so large a part of b."""

_RATE = 0.01
_PILOT_CHUNKS = 4

_ENDLESS = MAX_SIZE
"""More examples of a stream than are ever planned, in 32 bits."""

_SPREAD = 2.0
"""v, the variance of Delta between proposals; c depends on it little."""


class PenaltyMemory(NamedTuple):
    """What a plan is made of, per kind of move and model.

    Running mean of the variance of loss differences, without s, and how many were averaged; the noise rho that is aimed
    at, the part lambda of Delta that is tested first, and the factor of u that takes the audited error out.
    """

    variance: jax.Array
    seen: jax.Array
    rho: jax.Array
    first: jax.Array
    factor: jax.Array


@dataclass(frozen=True)
class Penalty(AcceptanceTest):
    """The recommended test: it keeps a stated tolerance, and moves furthest per example.

    Parameters
    ----------
    chunk : int, optional
        Batches are whole multiples of this; default 32, or 240 where there are more than 4096 examples.
    rho : float in (0, 2.5], optional
        rho_t, the largest noise of Delta* the plan aims at; default 2.38, or 1.35 without a tolerance.
    plan : bool
        Choose b before looking; False grows b until the estimated rho is small enough (biased, for comparison). It has
        one stage and no tolerance.
    pool : bool
        Plan one b for all models of a path, from their mean v. The lanes of a checkerboard then decide together and
        none waits for another, which pays on a GPU; models whose v is above the mean are accepted less often.
    tolerance : float or None
        Largest audited error of s: the run samples at s (1 + error). Batches are made larger than rho asks
        for until it is kept. None keeps rho as it is.
    stages : 1 or 2
        With two, a part of Delta is tested on a part of the examples first, so that hopeless proposals cost little,
        unless the audit finds that one stage moves further per example.
    """

    chunk: int | None = None
    rho: float | None = None
    plan: bool = True
    pool: bool = False
    tolerance: float | None = TOLERANCE
    stages: int = 2

    def __post_init__(self) -> None:
        object.__setattr__(self, "chunk", given_chunk(self.chunk))
        require(self.plan or not self.pool, "pool must be False without a plan, got True; use plan=True.")
        if self.tolerance is not None:
            advice = "0.01 is one per cent of s; None keeps rho as it is"
            object.__setattr__(self, "tolerance", number("tolerance", self.tolerance, advice, above=0.0, at_most=1.0))
        advice = "2 refuse hopeless proposals early"
        object.__setattr__(self, "stages", integer("stages", self.stages, 1, advice, 2))
        if not self.plan:
            object.__setattr__(self, "tolerance", None)
            object.__setattr__(self, "stages", 1)
        usual = RHO_FIXED if self.tolerance is None else RHO_LARGEST
        object.__setattr__(self, "rho", usual if self.rho is None else check_rho(self.rho, 2.5))

    @property
    def num_stages(self) -> int:  # type: ignore[override]
        return self.stages

    def chunk_size(self, size: int) -> int:
        return minibatch_chunk(self.chunk, size)

    def resolved(self, size: int) -> Self:
        return replace(self, chunk=self.chunk_size(size))

    def init(self, kinds: int, tau: int) -> Any:
        if not self.plan:
            return ()
        assert self.rho is not None
        real = jnp.zeros((kinds, tau), jnp.float32)
        rho = self.rho if self.tolerance is None else min(self.rho, RHO_UNAUDITED)
        first = FIRST if self.stages > 1 else 0.0
        return PenaltyMemory(real, real.astype(jnp.int32), *(jnp.full_like(real, value) for value in (rho, first, 1.0)))

    def view(self, state: Any) -> Any:
        if not self.pool:
            return state
        is_seen = state.seen > 0
        mean = state.variance.mean(1, keepdims=True, where=is_seen)
        # A kind without a past has no mean: the pilot batch is taken whatever stands there.
        mean = jnp.where(is_seen.any(1, keepdims=True), mean, 0.0)
        to_all = lambda leaf: jnp.broadcast_to(leaf, state.seen.shape)  # noqa: E731
        return state._replace(variance=to_all(mean), seen=to_all(state.seen.max(1, keepdims=True)))

    def planned_batch(
        self, state: PenaltyMemory, s: jax.Array, size: int | float, stage: jax.Array | int = 0
    ) -> jax.Array:
        """Examples to take in a stage before deciding, of `size`, which may be infinite."""
        if self.stages == 1:
            return self._in_chunks(state, self._wanted(state, s, size, 1.0), size)
        share = jnp.where(self._is_undivided(state, s, size), 1.0, state.first)
        first = self._in_chunks(state, self._wanted(state, s, size, share), size)
        second = self._wanted(state, s, size, 1.0)
        if size < math.inf:
            # A second stage estimates what the first did not see, (1 - b1/N) of Delta, from what is left.
            left = jnp.maximum(size - first, 1)
            second = self._wanted(state, s, left, (left / size) ** 2)
        return jnp.where(jnp.asarray(stage) == 0, first, self._in_chunks(state, second, size))

    def _in_chunks(self, state: PenaltyMemory, wanted: jax.Array, size: int | float) -> jax.Array:
        chunk, most = self._chunk_of(size), min(size, _ENDLESS)
        # A model without a past takes a fixed pilot batch: any b is valid as long as it does not depend on the data.
        chunks = jnp.where(state.seen > 0, jnp.ceil(jnp.minimum(wanted, most) / chunk), _PILOT_CHUNKS)
        return jnp.clip(chunks.astype(jnp.int32) * chunk, chunk, int(most))

    def _chunk_of(self, size: int | float) -> int:
        return self.chunk_size(int(min(size, _ENDLESS)))

    def _wanted(self, state: PenaltyMemory, s: jax.Array, size: Any, share: jax.Array | float) -> jax.Array:
        """The b of `size` at which the noise of `share` of Delta is share^1/2 rho, before it is divided into chunks.

        It is `share` of the b for all of Delta where that is few of the data, and all data where that is.
        """
        variance = share * s**2 * state.variance
        if isinstance(size, float):
            return variance / state.rho**2
        return size * variance / (size * state.rho**2 + variance)

    def _is_undivided(self, state: PenaltyMemory, s: jax.Array, size: int | float) -> jax.Array:
        """Whether the first stage would be so small that it is not worth a chunk of its own."""
        return (state.seen > 0) & (self._wanted(state, s, size, state.first) < self._chunk_of(size) / 2)

    def decide(self, state: Any, evidence: Evidence, words: jax.Array) -> Verdict:
        is_ready, log_chance, is_last = self.judge(state, evidence)
        word = words[0] if self.stages == 1 else jnp.where(jnp.asarray(evidence.stage) == 0, words[0], words[1])
        is_passed = jnp.log(uniform(word)) < log_chance
        reason = jnp.where(evidence.is_complete, Reason.ALL_DATA, Reason.TESTED)
        if evidence.limit is not None:
            planned = self.most_examples(state, evidence.s, evidence.size)
            is_short = evidence.seen < planned if self.plan else ~is_ready
            reason = jnp.where(evidence.is_exhausted & is_short, Reason.CAPPED, reason)
        return Verdict(
            is_ready & (is_last | ~is_passed),
            is_passed & is_last,
            reason.astype(jnp.int32),
            is_ready & is_passed & ~is_last,
        )

    def judge(self, state: Any, evidence: Evidence) -> Judgement:
        part, is_last = self._part(state, evidence)
        rho2, b = part**2 * evidence.noise(), evidence.b.astype(jnp.float32)
        u = rho2 / 2 + rho2**2 / (4 * (b + 1)) + rho2**3 / (3 * (b + 1) * (b + 3))
        if self.plan:
            u = state.factor * u
            if self.tolerance is not None:
                u = u - _taken_off(evidence, part, rho2, state.factor)
            is_ready = evidence.b >= self.planned_batch(state, evidence.s, evidence.size, evidence.stage)
        else:
            assert self.rho is not None
            is_ready = rho2 <= self.rho**2
        return Judgement(is_ready | evidence.is_complete, part * evidence.delta - u, is_last)

    def _part(self, state: Any, evidence: Evidence) -> tuple[Any, Any]:
        """The part of Delta that is tested now, and whether it is the last."""
        if self.stages == 1:
            return 1.0, jnp.ones_like(evidence.is_complete)
        # With all at hand that there will be, what is left of Delta is tested at once.
        is_second = jnp.asarray(evidence.stage) == 1
        is_at_once = evidence.is_exhausted | self._is_undivided(state, evidence.s, evidence.size)
        part = jnp.where(is_second, 1 - state.first, jnp.where(is_at_once, 1.0, state.first))
        return part, is_second | is_at_once

    def while_rising(self, memory: Any) -> Any:
        """As much noise as moves furthest; audits will tell what is within the tolerance."""
        return memory._replace(rho=np.full_like(memory.rho, self.rho)) if memory else memory

    def most_examples(self, state: Any, s: jax.Array, size: int | float) -> Any:
        if not self.plan:
            return super().most_examples(state, s, size)
        stages = [self.planned_batch(state, s, size, stage) for stage in range(self.stages)]
        return jnp.minimum(jnp.where(self._is_undivided(state, s, size), stages[0], sum(stages)), size)

    def plan_within(
        self, chunk: int, entries: Any, looked: Any, tolerance: float, rng: np.random.Generator
    ) -> dict[str, float]:
        from trajens.acceptance.planning import within_tolerance

        return within_tolerance(self, chunk, entries, looked, tolerance, rng)

    def learn(self, state: Any, evidence: Evidence) -> Any:
        if not self.plan:
            return state
        seen = jnp.minimum(state.seen + 1, round(1 / _RATE))
        # Without s, which may be annealed.
        variance = state.variance + (evidence.moments.variance - state.variance) / seen
        return state._replace(variance=variance, seen=seen)


def _taken_off(evidence: Evidence, part: Any, rho2: jax.Array, factor: jax.Array) -> jax.Array:
    """C T, by which skewness lowers u, less what the noise of its estimate costs where Delta_i are normal."""
    b, read = jnp.maximum(evidence.b, 1).astype(jnp.float32), evidence.share_read
    # 1/3 - phi(r/2) / (4 r Phi(-r/2)), to 2 % for r > 1.
    r2 = rho2 + _SPREAD * part**2
    c = 5 / 24 - 1 / (2 * r2 + 3 * jnp.sqrt(r2) + 1.25)
    c = c - read / 6 + (factor - 1.0) * (1.0 - read) * (2 * c - 1 / 6)
    return c * part**3 * evidence.skew() - 3 * c**2 * rho2**3 / b**2
