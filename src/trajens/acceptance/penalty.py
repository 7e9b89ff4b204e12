"""The penalty test (Ceperley and Dewing 1999): noise costs acceptance instead of correctness.

    accept iff ln V < Delta* - u,   u = rho^2/2 + rho^4/(4(b+1)) + rho^6/(3(b+1)(b+3))

For Gaussian noise of known variance, u = rho^2/2 is exactly detailed balanced:

    A(Delta) = Phi((Delta - rho^2/2)/rho) + exp(Delta) Phi(-(Delta + rho^2/2)/rho)

and the further terms account for rho^2 being estimated. The batch is *planned before looking*: per model
the test keeps a running mean v of the variance of past loss differences, takes

    b = ceil(N S^2 / (N rho_t^2 + S^2)),  S^2 = s^2 v,  in whole chunks,

and decides with whatever rho comes out, so nothing selects batches by their outcome. The plan adapts during
burn-in and is frozen after it: averages are taken with a fixed kernel.

Stages. Delta = sum_j lambda_j Delta; stage j tests lambda_j Delta on examples of its own, and a proposal is accepted
when all stages say yes. For normal noise their estimates are independent and each has A_j(Delta) = exp(lambda_j Delta)
A_j(-Delta), so the product is detailed balanced; a hopeless proposal is refused after the first few examples. Where the
first stage would be less than half a chunk, all of Delta is tested at once.

Tolerance. Means of few heavy-tailed differences are not normal. How far the decisions are from detailed balance is
audited (`trajens.acceptance.audit`), and the plan takes the larger of the b that noise asks for and the b at which the
error of s is within the tolerance. Part of that error is of the fourth cumulant, with opposite signs for the sample
variance and for the true one. A part `mix` of the variance can be taken from what does not depend on the batch, the
running mean times |theta' - theta|^2 over its own mean, which cancels that error where it is a good estimate: the audit
finds out. All of it is the same for a step and for its reverse.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

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
from trajens.randomness import uniform

TOLERANCE = 0.01
"""Error of s that a plan keeps, unless another is asked for."""

RHO_LARGEST = 2.38
"""Noise at which small steps cost the fewest examples per accepted move, 1 / (rho^2 2 Phi(-rho/2))."""
RHO_FIXED, RHO_UNAUDITED = 1.35, 1.0
"""Noise without a tolerance, and noise until an audit allows more."""

STAGES: dict[int, tuple[tuple[float, float], ...]] = {1: ((1.0, 1.0),), 2: ((0.25, 0.25), (0.75, 1.0))}
"""Of every number of stages: the parts lambda_j of Delta, and the examples of each stage in units of b."""

_RATE = 0.01
_PILOT_CHUNKS = 4


class Plan(NamedTuple):
    """What a plan is made of, per kind of move and model.

    Running means of the variance of loss differences, without s, and of |theta' - theta|^2, and how many were averaged;
    the noise rho that is aimed at, and the part `mix` of the variance that is taken from the means.
    """

    variance: jax.Array
    distance: jax.Array
    seen: jax.Array
    rho: jax.Array
    mix: jax.Array


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
        Largest audited error of s: the run samples the law of s (1 + error). Batches are made larger than rho asks
        for until it is kept. None keeps rho as it is.
    stages : 1 or 2
        With two, a quarter of Delta is tested on a fifth of the examples first: hopeless proposals cost little.
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
        object.__setattr__(self, "stages", integer("stages", self.stages, 1, advice, max(STAGES)))
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

    def init(self, kinds: int, tau: int) -> Any:
        if not self.plan:
            return ()
        assert self.rho is not None
        real = jnp.zeros((kinds, tau), jnp.float32)
        rho = self.rho if self.tolerance is None else min(self.rho, RHO_UNAUDITED)
        return Plan(real, real, real.astype(jnp.int32), jnp.full_like(real, rho), real)

    def view(self, state: Any) -> Any:
        if not self.pool:
            return state
        is_seen = state.seen > 0

        def mean(leaf: jax.Array) -> jax.Array:
            # A kind without a past has no mean: the pilot batch is taken whatever stands there.
            pooled = jnp.where(is_seen.any(1, keepdims=True), leaf.mean(1, keepdims=True, where=is_seen), 0.0)
            return jnp.broadcast_to(pooled, leaf.shape)

        seen = jnp.broadcast_to(state.seen.max(1, keepdims=True), state.seen.shape)
        return state._replace(variance=mean(state.variance), distance=mean(state.distance), seen=seen)

    def planned_batch(self, state: Plan, s: jax.Array, size: int, stage: jax.Array | int = 0) -> jax.Array:
        """Examples to take in a stage before deciding."""
        chunk = self.chunk_size(size)
        share = self._of_stage([share for _, share in STAGES[self.stages]], stage)
        share = jnp.where(self._is_undivided(state, s, size), 1.0, share)
        # A model without a past takes a fixed pilot batch: any b is valid as long as it does not depend on the data.
        planned = jnp.ceil(share * self._wanted(state, s, size) / chunk)
        chunks = jnp.where(state.seen > 0, planned, _PILOT_CHUNKS).astype(jnp.int32)
        return jnp.clip(chunks * chunk, chunk, size)

    def _wanted(self, state: Plan, s: jax.Array, size: int) -> jax.Array:
        """The b of the plan, before it is divided into stages and chunks."""
        variance = s**2 * state.variance
        return size * variance / (size * state.rho**2 + variance)

    def _is_undivided(self, state: Plan, s: jax.Array, size: int) -> jax.Array:
        """Whether the first stage would be so small that it is not worth a chunk of its own."""
        first = STAGES[self.stages][0][1] * self._wanted(state, s, size)
        return (state.seen > 0) & (first < self.chunk_size(size) / 2)

    def decide(self, state: Any, evidence: Evidence, words: jax.Array) -> Verdict:
        is_ready, log_chance, is_last = self.judge(state, evidence)
        is_passed = jnp.log(uniform(self._of_stage(words, evidence.stage))) < log_chance
        reason = jnp.where(evidence.is_complete, Reason.ALL_DATA, Reason.TESTED).astype(jnp.int32)
        return Verdict(is_ready & (is_last | ~is_passed), is_passed & is_last, reason, is_ready & is_passed & ~is_last)

    def judge(self, state: Any, evidence: Evidence) -> Judgement:
        parts = [part for part, _ in STAGES[self.stages]]
        left = [sum(parts[j:]) for j in range(self.stages)]
        # With all data at hand, what is left of Delta is tested at once.
        is_last = evidence.is_complete | (jnp.asarray(evidence.stage) == self.stages - 1)
        if self.plan:
            is_last |= self._is_undivided(state, evidence.s, evidence.size)
        part = jnp.where(is_last, self._of_stage(left, evidence.stage), self._of_stage(parts, evidence.stage))
        mix = self._mix(state)
        rho2 = part**2 * self._noise(state, evidence, mix)
        b, spread = evidence.b.astype(jnp.float32), (1 - mix) * rho2
        u = rho2 / 2 + spread**2 / (4 * (b + 1)) + spread**3 / (3 * (b + 1) * (b + 3))
        if self.plan:
            is_ready = evidence.b >= self.planned_batch(state, evidence.s, evidence.size, evidence.stage)
        else:
            assert self.rho is not None
            is_ready = rho2 <= self.rho**2
        return Judgement(is_ready | evidence.is_complete, part * evidence.delta - u, is_last)

    def most_examples(self, state: Any, s: jax.Array, size: int) -> Any:
        if not self.plan:
            return super().most_examples(state, s, size)
        stages = [self.planned_batch(state, s, size, stage) for stage in range(self.stages)]
        return jnp.minimum(jnp.where(self._is_undivided(state, s, size), stages[0], sum(stages)), size)

    def _noise(self, state: Any, evidence: Evidence, mix: jax.Array | float) -> jax.Array:
        """Var(Delta*), its S^2 mixed with what the means expect of so large a step."""
        if self.tolerance is None:
            return evidence.noise()
        expected = evidence.s**2 * state.variance * evidence.distance / jnp.maximum(state.distance, 1e-30)
        return evidence.noise(variance=(1 - mix) * evidence.variance + mix * expected)

    def _mix(self, state: Any) -> jax.Array | float:
        return 0.0 if self.tolerance is None else jnp.where(state.seen > 0, state.mix, 0.0)

    def _of_stage(self, values: Any, stage: jax.Array | int) -> Any:
        """The one of few `values` that belongs to a stage."""
        chosen = values[0]
        for j in range(1, self.stages):
            # Selected instead of indexed, which XLA would make a gather of for every lane.
            chosen = jnp.where(jnp.asarray(stage) == j, values[j], chosen)
        return chosen

    def plan_within(
        self, chunk: int, entries: Any, looked: Any, tolerance: float, rng: np.random.Generator
    ) -> dict[str, float]:
        from trajens.acceptance.tolerance import within_tolerance

        rho, mix = within_tolerance(self, chunk, entries, looked, tolerance, rng)
        return {"rho": rho, "mix": mix}

    def learn(self, state: Any, evidence: Evidence) -> Any:
        if not self.plan:
            return state
        seen = jnp.minimum(state.seen + 1, round(1 / _RATE))
        # Without s, which may be annealed.
        towards = lambda mean, value: mean + (value - mean) / seen  # noqa: E731
        variance = towards(state.variance, evidence.moments.variance)
        return state._replace(variance=variance, distance=towards(state.distance, evidence.distance), seen=seen)
