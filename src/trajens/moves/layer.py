"""A move in one layer of a network: the parameters of the others stay as they are.

Left invariant: what the move leaves invariant. The untilted chain factorises over coordinates, so the path in the
parameters of one layer is an untilted path of that many parameters, independent of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import jax
import jax.numpy as jnp

from trajens.errors import InputError, require
from trajens.moves.base import Move, MoveContext, Proposal, Proposer, Site
from trajens.moves.mixture import BalancedMixture
from trajens.moves.single_site import SingleSite
from trajens.randomness import Key
from trajens.target import PathLaw


@dataclass(frozen=True)
class LayerMove(Move):
    """A move of the parameters of one layer; a `Mixture` with one for every layer tunes a size for each.

    Parameters
    ----------
    layer : str or int
        Name of a layer, as `Problem.layers` has it, or its number, -1 for the last.
    move : Move
        How the parameters of the layer are moved; default `SingleSite()`.
    """

    layer: str | int
    move: Move = field(default_factory=SingleSite)
    place: tuple[int, int] | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        require(
            isinstance(self.layer, (str, int)) and not isinstance(self.layer, bool),
            f"layer must be the name or the number of a layer, got {self.layer!r}; try 0 for the first.",
        )
        require(
            isinstance(self.move, Move),
            f"the move of a layer must be a single move, got {self.move!r}; mix LayerMoves in a Mixture instead.",
        )

    def resolved(self, context: MoveContext) -> LayerMove:
        names = list(context.layers)
        require(
            len(names) > 0,
            f"a problem must know its layers for {self!r}, got one that does not; pass Problem(..., layers=...).",
        )
        try:
            name = names[self.layer] if isinstance(self.layer, int) else self.layer
            place = context.layers[name]
        except LookupError:
            raise InputError(
                f"layer must be one of {', '.join(names)} or a number below {len(names)}, got {self.layer!r}; "
                "see Problem.layers."
            ) from None
        inner = context._replace(dim=place.stop - place.start, layers={})
        own = replace(self, move=self.move.resolved(inner))
        object.__setattr__(own, "place", (place.start, place.stop))
        return own

    def check(self, tau: int) -> None:
        self.move.check(tau)

    def span(self, tau: int) -> int:
        return self.move.span(tau)

    def positions(self, tau: int) -> int:
        return self.move.positions(tau)

    def period(self, tau: int) -> int:
        return self.move.period(tau)

    def site_at(self, i: jax.Array, tau: int) -> tuple[jax.Array, jax.Array]:
        return self.move.site_at(i, tau)

    @property
    def is_sized(self) -> bool:
        return self.move.is_sized

    def propose(self, key: Key, path: jax.Array, site: Site, law: PathLaw) -> Proposal:
        return self._within(path, site, lambda layer: self.move.propose(key, layer, site, law))

    def propose_sized(self, key: Key, path: jax.Array, site: Site, law: PathLaw, size: jax.Array) -> Proposal:
        return self._within(path, site, lambda layer: self.move.propose_sized(key, layer, site, law, size))

    def renewed_share(self, size: float | None, dim: int) -> float:
        start, stop = self._place
        return self.move.renewed_share(size, stop - start) * (stop - start) / dim

    @property
    def _place(self) -> tuple[int, int]:
        require(
            self.place is not None, f"{self!r} must be told the layers of a model, got none; use resolved(context)."
        )
        assert self.place is not None
        return self.place

    def _within(self, path: jax.Array, site: Site, propose: Callable[[jax.Array], Proposal]) -> Proposal:
        """What is proposed for the path (tau, parameters of the layer), between the parameters as they are."""
        start, stop = self._place
        proposal = propose(path[:, start:stop])
        tau = path.shape[0]
        # Rows beyond the end are not used.
        rows = path.at[site.first + jnp.arange(self.span(tau))].get(mode="clip")
        # Joined, since a scatter becomes a loop on a CPU.
        return proposal._replace(models=jnp.concatenate([rows[:, :start], proposal.models, rows[:, stop:]], axis=1))


def by_layer(layers: Iterable[str], move: Move) -> Proposer:
    """A move of one of several layers at a time, or of whole models without them."""
    mixed = [(1.0, LayerMove(layer, move)) for layer in layers]
    return BalancedMixture(mixed) if mixed else move
