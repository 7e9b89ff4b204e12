"""Growing minibatches: take a chunk of loss differences, ask the test, and walk on through its stages.

The sampler, exchanges of paths and audits decide by this code; they differ in how they come by loss differences and in
what they ask.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeVar

import jax
import jax.numpy as jnp

from trajens.acceptance.base import Evidence, Past
from trajens.acceptance.moments import Moments, merge, moments_of, no_moments
from trajens.population import Population


class Answer(Protocol):
    """What is made of a minibatch: whether it is decided, or else a stage is passed; `Verdict` is one."""

    @property
    def is_decided(self) -> jax.Array:
        """Whether no more examples are needed."""

    @property
    def is_passed(self) -> jax.Array | bool:
        """Whether the next stage begins, unless it is decided."""


A = TypeVar("A", bound=Answer)


class Minibatch(NamedTuple):
    """What pending decisions (...,) have seen: moments of their stage, all before it, and its number.

    `past` is None for tests of one stage.
    """

    moments: Moments
    past: Past | None
    stage: jax.Array

    @property
    def seen(self) -> jax.Array:
        """Examples seen in all stages."""
        return self.moments.n if self.past is None else self.moments.n + self.past.n

    def take(
        self,
        differences: jax.Array,
        is_valid: jax.Array | None,
        ask: Callable[[Minibatch], A],
        is_counted: jax.Array | None = None,
    ) -> tuple[Minibatch, A]:
        """Return what follows a chunk (..., m) more, and what `ask` answers to it.

        Parameters
        ----------
        differences : (..., m)
            Loss differences l_i' - l_i, 0 where not valid.
        is_valid : (..., m), optional
            Which of the examples exist; default all.
        ask : function
            From the grown minibatch to an answer.
        is_counted : (...,), optional
            Decisions whose chunk is complete; default all.
        """
        moments = merge(self.moments, moments_of(differences, is_valid))
        if is_counted is not None:
            moments = jax.tree.map(lambda a, b: jnp.where(is_counted, a, b), moments, self.moments)
        grown = self._replace(moments=moments)
        answer = ask(grown)
        return grown._after(answer), answer

    def _after(self, answer: Answer) -> Minibatch:
        """What has passed a stage stands at the beginning of the next."""
        if self.past is None:
            return self
        is_passed = answer.is_passed & ~answer.is_decided
        past, moments = self.past.plus(self.moments, is_passed)
        return Minibatch(moments, past, self.stage + is_passed)

    def ask(
        self, function: Callable[..., Any], population: Population, s: jax.Array, log_ratio: jax.Array, *more: Any
    ) -> Any:
        """Return `function(evidence, *more)` of every decision; `s`, `log_ratio` and `more` are (..., *)."""

        def one(batch: Minibatch, s: jax.Array, log_ratio: jax.Array, *more: Any) -> Any:
            evidence = Evidence(
                moments=batch.moments,
                s=s,
                log_ratio=log_ratio,
                size=population.size,
                past=batch.past,
                stage=batch.stage,
                limit=population.limit,
            )
            return function(evidence, *more)

        for _ in self.stage.shape:
            one = jax.vmap(one)
        return one(self, s, log_ratio, *more)


def empty_minibatch(shape: tuple[int, ...], stages: int) -> Minibatch:
    """Decisions that have seen nothing, by a test of so many stages."""
    whole, real = jnp.zeros(shape, jnp.int32), jnp.zeros(shape, jnp.float32)
    return Minibatch(no_moments(shape), Past(whole, real) if stages > 1 else None, whole)
