"""The penalty test (Ceperley and Dewing 1999): noise costs acceptance instead of correctness.

    accept iff ln V < Delta* - u,   u = rho^2/2 + rho^4/(4(b+1)) + rho^6/(3(b+1)(b+3))

For Gaussian noise of known variance, u = rho^2/2 is exactly detailed balanced:

    A(Delta) = Phi((Delta - rho^2/2)/rho) + exp(Delta) Phi(-(Delta + rho^2/2)/rho)

and the further terms account for rho^2 being estimated. The batch is *planned before looking*: per model slot
the test keeps a running mean v of the variance of past loss differences, takes

    b = ceil(N S^2 / (N rho_t^2 + S^2)),  S^2 = s^2 v,  in whole chunks,

and decides with whatever rho comes out, so nothing selects batches by their outcome. The plan adapts during
burn-in and is frozen after it: averages are taken with a fixed kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from trajens.acceptance.base import AcceptanceTest, Evidence, Reason, Verdict, check_chunk, check_rho
from trajens.errors import integer, require
from trajens.randomness import uniform

_RATE = 0.01
_PILOT_CHUNKS = 4


class Plan(NamedTuple):
    """Running mean of the variance of loss differences, and how many were averaged."""

    variance: jax.Array
    seen: jax.Array


@dataclass(frozen=True)
class Penalty(AcceptanceTest):
    """The recommended test: no table, most accepted moves per example, no bias from stopping.

    Parameters
    ----------
    chunk : int
        Batches are whole multiples of this.
    rho : float in (0, 1.5]
        rho_t, the noise of Delta* the plan aims at.
    plan : bool
        Choose b before looking; False grows b until the estimated rho is small enough (biased, for comparison).
    pool : bool
        Plan one b for all models of a path, from their mean v. The lanes of a checkerboard then decide together and
        none waits for another, which pays on a GPU; models whose v is above the mean are accepted less often.
    """

    chunk: int
    rho: float = 1.35
    plan: bool = True
    pool: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "chunk", integer("chunk", self.chunk, 2, "try 32 for small models, 240 for networks"))
        object.__setattr__(self, "rho", check_rho(self.rho))
        require(self.plan or not self.pool, "pool must be False without a plan, got True; use plan=True.")

    def chunk_size(self, size: int) -> int:
        return check_chunk(self.chunk, size)

    def initial_state(self, slots: int) -> Any:
        if not self.plan:
            return ()
        return Plan(jnp.zeros(slots, jnp.float32), jnp.zeros(slots, jnp.int32))

    def planned_batch(self, state: Any, s: jax.Array, size: int) -> jax.Array:
        if not self.plan:
            return jnp.int32(0)
        variance = s**2 * state.variance
        wanted = size * variance / (size * self.rho**2 + variance)
        # A slot without a past takes a fixed pilot batch: any b is valid as long as it does not depend on the data.
        chunks = jnp.where(state.seen > 0, jnp.ceil(wanted / self.chunk), _PILOT_CHUNKS).astype(jnp.int32)
        return jnp.clip(chunks * self.chunk, self.chunk, size)

    def shared(self, state: Any, kinds: int) -> Any:
        if not self.pool:
            return state
        chains, slots = state.seen.shape
        by_kind = jax.tree.map(lambda leaf: leaf.reshape(chains, kinds, slots // kinds), state)
        is_seen = by_kind.seen > 0
        mean = by_kind.variance.mean(2, keepdims=True, where=is_seen)
        # A kind without a past has no mean: the pilot batch is taken whatever stands there.
        mean = jnp.where(is_seen.any(2, keepdims=True), mean, 0.0)
        pooled = Plan(mean, by_kind.seen.max(2, keepdims=True))
        return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, by_kind.seen.shape).reshape(chains, slots), pooled)

    def learn(self, state: Any, variance: jax.Array) -> Any:
        if not self.plan:
            return state
        seen = jnp.minimum(state.seen + 1, round(1 / _RATE))
        return Plan(state.variance + (variance - state.variance) / seen, seen)

    def decide(self, evidence: Evidence, planned: jax.Array, words: jax.Array) -> Verdict:
        rho2 = evidence.noise()
        b = evidence.b.astype(jnp.float32)
        u = rho2 / 2 + rho2**2 / (4 * (b + 1)) + rho2**3 / (3 * (b + 1) * (b + 3))
        is_accepted = jnp.log(uniform(words[0])) < evidence.delta - u
        is_ready = evidence.b >= planned if self.plan else rho2 <= self.rho**2
        reason = jnp.where(evidence.is_complete, Reason.ALL_DATA, Reason.TESTED).astype(jnp.int32)
        return Verdict(is_ready | evidence.is_complete, is_accepted, reason)
