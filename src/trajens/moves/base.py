"""What a move is: a way to redraw a span of models that leaves the untilted path law invariant.

Moves know the geometry of a path and never the loss. Because they preserve the untilted law, only
Delta = -s (pathloss' - pathloss) plus the move's own `log_ratio` enters the acceptance test.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import jax
import jax.numpy as jnp

from trajens.errors import number
from trajens.randomness import Key, Purpose, words
from trajens.subsample import permute
from trajens.target import PathLaw


class Site(NamedTuple):
    """Models first..stop-1 of a path, and which move of a mixture changes them."""

    kind: jax.Array
    first: jax.Array
    stop: jax.Array


class Proposal(NamedTuple):
    """New models for a site; row j replaces model first + j, rows from `stop` on are not used.

    `log_ratio` is what the move adds to Delta: 0 when it preserves the whole untilted law by itself.
    """

    models: jax.Array
    log_ratio: jax.Array


class Move(ABC):
    """One way to propose; subclasses are frozen dataclasses, so that equal moves compile once."""

    @property
    def kinds(self) -> int:
        """How many different moves this one is made of."""
        return 1

    @abstractmethod
    def check(self, tau: int) -> None:
        """Refuse a path length this move cannot work on."""

    @abstractmethod
    def span(self, tau: int) -> int:
        """The most models one proposal changes."""

    @abstractmethod
    def lanes(self, tau: int) -> int:
        """The most sites that can be pending at once in one phase of the checkerboard."""

    @abstractmethod
    def site(self, key: Key, tau: int) -> Site:
        """A random site, drawn independently of the path."""

    @abstractmethod
    def site_in_phase(self, key: Key, phase: jax.Array, lane: jax.Array, tau: int) -> tuple[Site, jax.Array]:
        """Site number `lane` of a phase, and whether there is one.

        Sites of one phase are separated by at least one model that no lane of the phase changes.
        """

    @abstractmethod
    def propose(self, key: Key, path: jax.Array, site: Site, law: PathLaw) -> Proposal:
        """Draw new models for `site` of a path (tau, dim)."""


def check_redraw(fraction: float, refresh: float) -> tuple[float, float]:
    """The two numbers every redrawing move has, in their accepted ranges."""
    return (
        number("fraction", fraction, "1 redraws every parameter, 0.25 a quarter of them", above=0.0, at_most=1.0),
        number("refresh", refresh, "1 redraws completely, 0.5 keeps most of the old value", above=0.0, at_most=1.0),
    )


def partially_refreshed(old: jax.Array, mean: jax.Array, noise: jax.Array, refresh: float) -> jax.Array:
    """Theta' = m + sqrt(1 - beta^2) (theta - m) + beta xi: reversible for N(m, Cov xi) (pCN)."""
    if refresh == 1.0:
        return mean + noise
    kept = (1.0 - refresh**2) ** 0.5
    # Nested, so that a compiler has no choice of roundings between device counts.
    return mean + kept * ((old - mean) + (refresh / kept) * noise)


def masked(key: Key, new: jax.Array, old: jax.Array, fraction: float) -> jax.Array:
    """`new` in exactly round(fraction * dim) (at least one) random coordinates, `old` in the others.

    One mask for all rows. It is drawn independently of the state and the untilted chain factorises over
    coordinates, so a masked move is as reversible as the move itself.
    """
    dim = old.shape[-1]
    count = max(1, round(fraction * dim))
    if count == dim:
        return new
    return jnp.where(_ranks(key, dim) < count, new, old)


def _ranks(key: Key, dim: int) -> jax.Array:
    """A random permutation of 0..dim-1."""
    if dim > 32:
        pair = words(key, Purpose.MASK, 2)
        return permute(Key(pair[0], pair[1]), jnp.arange(dim), dim)
    # Few numbers are ranked faster by comparing all pairs; equal ones keep their order.
    word, index = words(key, Purpose.MASK, dim), jnp.arange(dim)
    is_before = (word[:, None] < word) | ((word[:, None] == word) & (index[:, None] < index))
    return is_before.sum(0)
