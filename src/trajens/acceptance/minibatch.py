"""Minibatch Barker (Seita et al. 2018, the paper's test): the noise of the minibatch becomes the logistic.

Grow b until rho^2 <= rho_t^2, the cut-off fires or b = N; then accept iff

    b = N:      Delta + X_log > 0                  (exact Barker)
    cut off:    Delta* > 0
    otherwise:  Delta* + X_nc + X_corr > 0,  X_nc ~ N(0, rho_t^2 - rho^2),  X_corr ~ C_{rho_t}

where N(0, rho_t^2) + X_corr is logistic up to the error of the table. Growing until the *estimated* rho is
small enough selects batches with low estimates, which biases the sampled law by some per cent (`Penalty` with
a plan does not).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import jax
import jax.numpy as jnp

from trajens.acceptance.base import AcceptanceTest, Evidence, Reason, Verdict, check_rho, given_chunk, minibatch_chunk
from trajens.acceptance.correction import correction_table
from trajens.errors import choice, number, require
from trajens.randomness import logistic, normal


@dataclass(frozen=True)
class MinibatchBarker(AcceptanceTest):
    """The paper's adaptive test, with the table and the variance put right.

    Parameters
    ----------
    chunk : int, optional
        Examples the batch grows by; default 32, or 240 where there are more than 4096 examples.
    rho : float in (0, 1.5]
        rho_t, the noise of Delta* at which growing stops.
    table : "lp" or "ridge"
        Law of X_corr: the linear program (logit error below 1e-6 at rho = 1) or the paper's ridge regression.
    cutoff : (c_0, c_1) or None
        Decide by the sign of Delta* once |Delta*| > c_0 + c_1 rho.
    finite_population : bool
        Whether rho^2 has the factor 1 - b/N.
    skew_tolerance : float, optional
        Keep growing while |kappa_3| / 12 is above this.
    """

    chunk: int | None = None
    rho: float = 1.0
    table: str = "lp"
    cutoff: tuple[float, float] | None = (10.0, 5.0)
    finite_population: bool = True
    skew_tolerance: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "chunk", given_chunk(self.chunk))
        object.__setattr__(self, "rho", check_rho(self.rho))
        choice("table", self.table, ("lp", "ridge"))
        if self.cutoff is not None:
            require(
                isinstance(self.cutoff, (tuple, list)) and len(self.cutoff) == 2,
                f"cutoff must be None or two numbers (c_0, c_1), got {self.cutoff!r}; try (10.0, 5.0).",
            )
            pair = tuple(number("cutoff", c, "try (10.0, 5.0)", at_least=0.0) for c in self.cutoff)
            object.__setattr__(self, "cutoff", pair)
        if self.skew_tolerance is not None:
            number("skew_tolerance", self.skew_tolerance, "try 0.05, or None for no limit", above=0.0)

    def chunk_size(self, size: int) -> int:
        return minibatch_chunk(self.chunk, size)

    def resolved(self, size: int) -> Self:
        return replace(self, chunk=self.chunk_size(size))

    def decide(self, state: Any, evidence: Evidence, words: jax.Array) -> Verdict:
        delta = evidence.delta
        rho2 = evidence.noise(self.finite_population)
        is_quiet = rho2 <= self.rho**2
        if self.skew_tolerance is not None:
            is_quiet &= jnp.abs(evidence.third_cumulant()) <= 12.0 * self.skew_tolerance
        is_cut_off = jnp.zeros_like(is_quiet)
        if self.cutoff is not None:
            is_cut_off = jnp.abs(delta) > self.cutoff[0] + self.cutoff[1] * jnp.sqrt(rho2)
        x_nc = jnp.sqrt(jnp.maximum(self.rho**2 - rho2, 0.0)) * normal(words[0])
        x_corr = correction_table(self.rho, self.table).sample(words[1], words[2])
        is_accepted = jnp.where(
            evidence.is_complete,
            delta + logistic(words[3]) > 0,
            jnp.where(is_cut_off, delta > 0, delta + x_nc + x_corr > 0),
        )
        reason = jnp.where(evidence.is_complete, Reason.ALL_DATA, jnp.where(is_cut_off, Reason.CUT_OFF, Reason.TESTED))
        return Verdict(evidence.is_complete | is_cut_off | is_quiet, is_accepted, reason.astype(jnp.int32))


def paper_test(chunk: int | None = None) -> MinibatchBarker:
    """The paper's own scheme: rho_t = 1, ridge table, no finite-population factor."""
    return MinibatchBarker(chunk, rho=1.0, table="ridge", finite_population=False)
