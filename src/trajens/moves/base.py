"""What a move is: a way to redraw a span of models that leaves the untilted path distribution invariant.

Moves know the geometry of a path and never the loss. Because they preserve the untilted distribution, only
Delta = -s (pathloss' - pathloss) plus the move's own `log_ratio` enters the acceptance test.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np

from trajens.errors import number
from trajens.population import permute
from trajens.randomness import Key, Purpose, words
from trajens.target import PathLaw

FEW_PARAMETERS, FRACTION_OF_MANY = 32, 0.25
"""All of few parameters are redrawn at a time, and this share of many, unless another is asked for."""


Share = float | jax.Array
"""A number in (0, 1] that is compiled in, or one that is tuned while the sampler runs."""

_KEPT = 1e-3
"""Of the old value, the least that a tuned refresh keeps, so that nothing is divided by 0."""


class Site(NamedTuple):
    """Models first..stop-1 of a path, and which move of a mixture changes them."""

    kind: jax.Array
    first: jax.Array
    stop: jax.Array


class Proposal(NamedTuple):
    """New models for a site; row j replaces model first + j, rows from `stop` on are not used.

    `log_ratio` is what the move adds to Delta: 0 when it preserves the whole untilted distribution by itself.
    """

    models: jax.Array
    log_ratio: jax.Array


class MoveContext(NamedTuple):
    """What a move may know of the paths it is made for: models of a path, parameters of a model, slices of layers.

    `layers` are empty where a problem does not know them.
    """

    tau: int
    dim: int
    layers: Mapping[str, slice]


class Proposer(ABC):
    """What the sampler asks of a move, or of a random choice of moves; equal ones compile once."""

    @property
    @abstractmethod
    def components(self) -> tuple[tuple[float, Move], ...]:
        """Weights and moves; the kind of a `Site` is the number of a move here."""

    @abstractmethod
    def check(self, tau: int) -> None:
        """Refuse a path length this move cannot work on."""

    @abstractmethod
    def span(self, tau: int) -> int:
        """The most models one proposal changes."""

    @abstractmethod
    def propose(self, key: Key, path: jax.Array, site: Site, law: PathLaw) -> Proposal:
        """Draw new models for `site` of a path (tau, dim), by the distribution that is left invariant."""

    def weights(self, size: jax.Array | np.ndarray | None) -> np.ndarray | jax.Array:
        """How often the components are made, up to a factor, where tuned ones have the `size` (components,)."""
        return np.array([weight for weight, _ in self.components])

    def resolved(self, context: MoveContext) -> Self:
        """The same move for the paths of `context`, asked before anything is compiled; refuses what does not fit."""
        return self

    @property
    def is_sized(self) -> bool:
        """Whether the size of its changes may be tuned, because nobody has fixed it."""
        return False

    def propose_sized(self, key: Key, path: jax.Array, site: Site, law: PathLaw, size: jax.Array) -> Proposal:
        """`propose` with changes of `size` (components,) in (0, 1], for moves that `is_sized`; else the same."""
        return self.propose(key, path, site, law)


class Move(Proposer):
    """One way to propose; subclasses are frozen dataclasses, so that equal moves compile once.

    A move says where it can be made: at `positions` places of a path, number i being the models `site_at(i)`. In which
    order they are visited is the business of a `Scan`, which a move knows nothing about. Unless it says otherwise it is
    made at every model, one at a time: then it need only `propose`.
    """

    @property
    def components(self) -> tuple[tuple[float, Move], ...]:
        return ((1.0, self),)

    def check(self, tau: int) -> None:
        return

    def span(self, tau: int) -> int:
        return 1

    def positions(self, tau: int) -> int:
        """How many places of a path the move can be made at."""
        return tau

    def period(self, tau: int) -> int:
        """How far apart two places must be to be changed at once: one model between them is changed by neither."""
        return min(tau, 2)

    def site_at(self, i: jax.Array, tau: int) -> tuple[jax.Array, jax.Array]:
        """The models first..stop-1 of place number `i` in 0..positions-1, as (first, stop)."""
        return i, i + 1

    def renewed_share(self, size: float | None, dim: int) -> float:
        """Share of a model of `dim` parameters that an accepted move renews, by which `tj.train` paces s.

        `size` is that of a tuned move, None for its own.
        """
        return 1.0


class Redraw(Move):
    """A move that redraws a share of the coordinates, as far as `refresh` says; subclasses have both as fields.

    Where neither was fixed they may be tuned: few parameters are all changed, by less, and of many some.
    """

    fraction: float | None
    refresh: float

    def __post_init__(self) -> None:
        many, all_of_it = "1 redraws every parameter, 0.25 a quarter of them", "1 redraws completely, 0.5 keeps most"
        if self.fraction is not None:
            object.__setattr__(self, "fraction", number("fraction", self.fraction, many, above=0.0, at_most=1.0))
        refresh = number("refresh", self.refresh, f"{all_of_it} of the old value", above=0.0, at_most=1.0)
        object.__setattr__(self, "refresh", refresh)

    @property
    def is_sized(self) -> bool:
        return self.fraction is None and self.refresh == 1.0

    def propose(self, key: Key, path: jax.Array, site: Site, law: PathLaw) -> Proposal:
        return self.redraw(key, path, site, law, self.fraction, self.refresh)

    def propose_sized(self, key: Key, path: jax.Array, site: Site, law: PathLaw, size: jax.Array) -> Proposal:
        if not self.is_sized:
            return self.propose(key, path, site, law)
        fraction, refresh = (1.0, size[0]) if path.shape[1] <= FEW_PARAMETERS else (size[0], 1.0)
        return self.redraw(key, path, site, law, fraction, refresh)

    def renewed_share(self, size: float | None, dim: int) -> float:
        if size is None:
            return (usual_fraction(dim) if self.fraction is None else self.fraction) * self.refresh**2
        return size**2 if dim <= FEW_PARAMETERS else size

    @abstractmethod
    def redraw(
        self, key: Key, path: jax.Array, site: Site, law: PathLaw, fraction: Share | None, refresh: Share
    ) -> Proposal:
        """`propose` with this share of the coordinates and this refresh."""


def changes(path: jax.Array, site: Site, proposal: Proposal) -> jax.Array:
    """Theta' - theta (span, dim) of the models of a path (tau, dim) that a proposal may change, 0 of the others."""
    t = site.first + jnp.arange(proposal.models.shape[0])
    steps = proposal.models - path[jnp.minimum(t, path.shape[0] - 1)]
    return jnp.where((t < site.stop)[:, None], steps, 0.0)


def usual_fraction(dim: int) -> float:
    """The share of `dim` parameters that is redrawn unless another is asked for: all of few, a quarter of many."""
    return 1.0 if dim <= FEW_PARAMETERS else FRACTION_OF_MANY


def partially_refreshed(old: jax.Array, mean: jax.Array, noise: jax.Array, refresh: Share) -> jax.Array:
    """Theta' = m + sqrt(1 - beta^2) (theta - m) + beta xi: reversible for N(m, Cov xi) (pCN)."""
    kept: Share
    if isinstance(refresh, float):
        if refresh == 1.0:
            return mean + noise
        kept = (1.0 - refresh**2) ** 0.5
    else:
        kept = jnp.sqrt(jnp.maximum(1.0 - refresh**2, _KEPT**2))
        # Not 1 - kept^2, whose rounding is a part of a small refresh.
        refresh = jnp.sqrt((1.0 - kept) * (1.0 + kept))
    # Nested, so that a compiler has no choice of roundings between device counts.
    return mean + kept * ((old - mean) + (refresh / kept) * noise)


def mask(key: Key, new: jax.Array, old: jax.Array, fraction: Share | None) -> jax.Array:
    """`new` in exactly round(fraction * dim) (at least one) random coordinates, `old` in the others.

    One mask for all rows. It is drawn independently of the state and the untilted chain factorises over
    coordinates, so a masked move is as reversible as the move itself.
    """
    dim = old.shape[-1]
    if isinstance(fraction, jax.Array):
        tuned = jnp.clip(jnp.round(fraction * dim).astype(jnp.int32), 1, dim)
        return jnp.where(_ranks(key, dim) < tuned, new, old)
    count = max(1, round((usual_fraction(dim) if fraction is None else fraction) * dim))
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
