"""Metropolis on all data: accept iff ln V < Delta, V ~ U(0, 1). Exact detailed balance."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from trajens.acceptance.base import AcceptanceTest, Evidence, Reason, Verdict, full_data_chunk
from trajens.randomness import uniform


@dataclass(frozen=True)
class Metropolis(AcceptanceTest):
    """min(1, exp(Delta)).

    Parameters
    ----------
    chunk : int, optional
        Examples evaluated at a time; the decision waits for all of them.
    """

    chunk: int | None = None
    takes_all_data = True

    def chunk_size(self, size: int) -> int:
        return full_data_chunk(self.chunk, size)

    def decide(self, evidence: Evidence, planned: jax.Array, words: jax.Array) -> Verdict:
        is_accepted = jnp.log(uniform(words[0])) < evidence.delta
        return Verdict(evidence.is_complete, is_accepted, jnp.int32(Reason.ALL_DATA))
