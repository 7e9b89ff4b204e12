"""Choose among several moves at random, independently of the path.

Each move preserves the path law, so their mixture does. In a random scan the choice is made for every
proposal; in a checkerboard for every phase, since one phase updates many models with one kind of move.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from trajens.errors import number, pairs_of, require
from trajens.moves.base import Move, Proposal, Site
from trajens.randomness import Key, Purpose, uniform, words
from trajens.target import PathLaw


@dataclass(frozen=True)
class Mixture(Move):
    """A weighted choice of moves.

    Parameters
    ----------
    components : sequence of (weight, move)
        Weights are positive and need not add to one. Mixtures inside are flattened.
    """

    components: tuple[tuple[float, Move], ...]

    def __init__(self, components: Sequence[tuple[float, Move]]):
        flat: list[tuple[float, Move]] = []
        for weight, move in pairs_of("components of a mixture", components, "try [(1.0, SingleSite(0.25))]"):
            weight = number("weight of a move", weight, "leave the move out instead of giving it weight 0", above=0.0)
            require(
                isinstance(move, Move),
                f"a mixture must hold (weight, move) pairs, got {move!r}; try (1.0, SingleSite(0.25)).",
            )
            inner = move.components if isinstance(move, Mixture) else ((1.0, move),)
            total = sum(w for w, _ in inner)
            flat += [(weight * w / total, m) for w, m in inner]
        require(len(flat) > 0, "a mixture must hold at least one (weight, move) pair, got none; add one.")
        object.__setattr__(self, "components", tuple(flat))

    @property
    def kinds(self) -> int:
        return len(self.components)

    @property
    def moves(self) -> tuple[Move, ...]:
        """The moves without their weights."""
        return tuple(move for _, move in self.components)

    def check(self, tau: int) -> None:
        for move in self.moves:
            move.check(tau)

    def span(self, tau: int) -> int:
        return max(move.span(tau) for move in self.moves)

    def lanes(self, tau: int) -> int:
        return max(move.lanes(tau) for move in self.moves)

    def site(self, key: Key, tau: int) -> Site:
        return self._chosen(key, [move.site(key, tau) for move in self.moves])

    def site_in_phase(self, key: Key, phase: jax.Array, lane: jax.Array, tau: int) -> tuple[Site, jax.Array]:
        places = [move.site_in_phase(key, phase, lane, tau) for move in self.moves]
        exists = jnp.stack([jnp.asarray(exists) for _, exists in places])
        site = self._chosen(key, [site for site, _ in places])
        return site, exists[site.kind]

    def propose(self, key: Key, path: jax.Array, site: Site, law: PathLaw) -> Proposal:
        tau = path.shape[0]
        width = self.span(tau)
        models, log_ratio = jnp.zeros((width, path.shape[1]), path.dtype), jnp.float32(0)
        for kind, move in enumerate(self.moves):
            proposal = move.propose(key, path, site, law)
            padding = ((0, width - move.span(tau)), (0, 0))
            models = jnp.where(site.kind == kind, jnp.pad(proposal.models, padding), models)
            log_ratio = jnp.where(site.kind == kind, proposal.log_ratio, log_ratio)
        return Proposal(models, log_ratio)

    def _chosen(self, key: Key, sites: list[Site]) -> Site:
        weights = np.array([weight for weight, _ in self.components])
        edges = np.cumsum(weights / weights.sum())[:-1].astype(np.float32)
        kind = jnp.sum(uniform(words(key, Purpose.KIND, 1)[0]) > edges).astype(jnp.int32)
        firsts = jnp.stack([jnp.asarray(site.first) for site in sites])
        stops = jnp.stack([jnp.asarray(site.stop) for site in sites])
        return Site(kind, firsts[kind], stops[kind])
