"""The penalty test (Ceperley and Dewing 1999): noise costs acceptance instead of correctness.

    accept iff ln V < Delta* - u,   u = rho^2/2 + rho^4/(4(b+1)) + rho^6/(3(b+1)(b+3))

For Gaussian noise of known variance, u = rho^2/2 is exactly detailed balanced:

    A(Delta) = Phi((Delta - rho^2/2)/rho) + exp(Delta) Phi(-(Delta + rho^2/2)/rho)

and the further terms account for rho^2 being estimated. The batch is *planned before looking*: per model
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

from trajens.acceptance.base import AcceptanceTest, Evidence, Reason, Verdict, check_rho, given_chunk, minibatch_chunk
from trajens.errors import require
from trajens.randomness import uniform

_RATE = 0.01
_PILOT_CHUNKS = 4


class Plan(NamedTuple):
    """Running mean of the variance of loss differences, without s, and how many were averaged."""

    variance: jax.Array
    seen: jax.Array


@dataclass(frozen=True)
class Penalty(AcceptanceTest):
    """The recommended test: no table, most accepted moves per example, no bias from stopping.

    Parameters
    ----------
    chunk : int, optional
        Batches are whole multiples of this; default 32, or 240 where there are more than 4096 examples.
    rho : float in (0, 1.5]
        rho_t, the noise of Delta* the plan aims at.
    plan : bool
        Choose b before looking; False grows b until the estimated rho is small enough (biased, for comparison).
    pool : bool
        Plan one b for all models of a path, from their mean v. The lanes of a checkerboard then decide together and
        none waits for another, which pays on a GPU; models whose v is above the mean are accepted less often.
    """

    chunk: int | None = None
    rho: float = 1.35
    plan: bool = True
    pool: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "chunk", given_chunk(self.chunk))
        object.__setattr__(self, "rho", check_rho(self.rho))
        require(self.plan or not self.pool, "pool must be False without a plan, got True; use plan=True.")

    def chunk_size(self, size: int) -> int:
        return minibatch_chunk(self.chunk, size)

    def init(self, kinds: int, tau: int) -> Any:
        if not self.plan:
            return ()
        return Plan(jnp.zeros((kinds, tau), jnp.float32), jnp.zeros((kinds, tau), jnp.int32))

    def view(self, state: Any) -> Any:
        if not self.pool:
            return state
        is_seen = state.seen > 0
        mean = state.variance.mean(1, keepdims=True, where=is_seen)
        # A kind without a past has no mean: the pilot batch is taken whatever stands there.
        mean = jnp.where(is_seen.any(1, keepdims=True), mean, 0.0)
        pooled = Plan(mean, state.seen.max(1, keepdims=True))
        return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, state.seen.shape), pooled)

    def planned_batch(self, state: Plan, s: jax.Array, size: int) -> jax.Array:
        """Examples to take before deciding."""
        variance = s**2 * state.variance
        wanted = size * variance / (size * self.rho**2 + variance)
        # A model without a past takes a fixed pilot batch: any b is valid as long as it does not depend on the data.
        chunk = self.chunk_size(size)
        chunks = jnp.where(state.seen > 0, jnp.ceil(wanted / chunk), _PILOT_CHUNKS).astype(jnp.int32)
        return jnp.clip(chunks * chunk, chunk, size)

    def decide(self, state: Any, evidence: Evidence, words: jax.Array) -> Verdict:
        rho2 = evidence.noise()
        b = evidence.b.astype(jnp.float32)
        u = rho2 / 2 + rho2**2 / (4 * (b + 1)) + rho2**3 / (3 * (b + 1) * (b + 3))
        is_accepted = jnp.log(uniform(words[0])) < evidence.delta - u
        if self.plan:
            is_ready = evidence.b >= self.planned_batch(state, evidence.s, evidence.size)
        else:
            is_ready = rho2 <= self.rho**2
        reason = jnp.where(evidence.is_complete, Reason.ALL_DATA, Reason.TESTED).astype(jnp.int32)
        return Verdict(is_ready | evidence.is_complete, is_accepted, reason)

    def learn(self, state: Any, evidence: Evidence) -> Any:
        if not self.plan:
            return state
        seen = jnp.minimum(state.seen + 1, round(1 / _RATE))
        # Without s, which may be annealed.
        variance = evidence.moments.variance
        return Plan(state.variance + (variance - state.variance) / seen, seen)
