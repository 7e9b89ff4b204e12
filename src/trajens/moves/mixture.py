"""Choose among several moves at random, independently of the path.

Each move preserves the path distribution, so their mixture does. In a random scan the choice is made for every
proposal; in a checkerboard for every phase, since one phase updates many models with one kind of move.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from trajens.errors import number, pairs_of, require
from trajens.moves.base import Move, MoveContext, Proposal, Proposer, Site
from trajens.randomness import Key
from trajens.target import PathLaw


@dataclass(frozen=True)
class Mixture(Proposer):
    """A weighted choice of moves.

    Parameters
    ----------
    moves : sequence of (weight, move)
        Weights are positive and need not add to one. Mixtures inside are flattened.
    """

    moves: tuple[tuple[float, Move], ...]

    def __init__(self, moves: Sequence[tuple[float, Move]]):
        flat: list[tuple[float, Move]] = []
        for weight, move in pairs_of("moves of a mixture", moves, "try [(1.0, SingleSite(0.25))]"):
            weight = number("weight of a move", weight, "leave the move out instead of giving it weight 0", above=0.0)
            require(
                isinstance(move, Proposer),
                f"a mixture must hold (weight, move) pairs, got {move!r}; try (1.0, SingleSite(0.25)).",
            )
            total = sum(w for w, _ in move.components)
            flat += [(weight * w / total, m) for w, m in move.components]
        require(len(flat) > 0, "a mixture must hold at least one (weight, move) pair, got none; add one.")
        object.__setattr__(self, "moves", tuple(flat))

    @property
    def components(self) -> tuple[tuple[float, Move], ...]:
        return self.moves

    def resolved(self, context: MoveContext) -> Mixture:
        return type(self)([(weight, move.resolved(context)) for weight, move in self.moves])

    def check(self, tau: int) -> None:
        for _, move in self.moves:
            move.check(tau)

    def span(self, tau: int) -> int:
        return max(move.span(tau) for _, move in self.moves)

    @property
    def is_sized(self) -> bool:
        return any(move.is_sized for _, move in self.moves)

    def propose(self, key: Key, path: jax.Array, site: Site, law: PathLaw) -> Proposal:
        return self._chosen(path, site, lambda kind, move: move.propose(key, path, site, law))

    def propose_sized(self, key: Key, path: jax.Array, site: Site, law: PathLaw, size: jax.Array) -> Proposal:
        own = lambda kind, move: move.propose_sized(key, path, site, law, size[kind : kind + 1])  # noqa: E731
        return self._chosen(path, site, own)

    def _chosen(self, path: jax.Array, site: Site, propose: Callable[[int, Move], Proposal]) -> Proposal:
        """What the move that was chosen for the site proposes."""
        tau = path.shape[0]
        width = self.span(tau)
        models, log_ratio = jnp.zeros((width, path.shape[1]), path.dtype), jnp.float32(0)
        for kind, (_, move) in enumerate(self.moves):
            proposal = propose(kind, move)
            padding = ((0, width - move.span(tau)), (0, 0))
            models = jnp.where(site.kind == kind, jnp.pad(proposal.models, padding), models)
            log_ratio = jnp.where(site.kind == kind, proposal.log_ratio, log_ratio)
        return Proposal(models, log_ratio)


@dataclass(frozen=True, init=False)
class BalancedMixture(Mixture):
    """A mixture in which moves that are tuned to change less at a time are made more often.

    Weights are divided by the root of the tuned size: of n moves that each need 1 / size_k proposals to redraw their
    part of a model once, this takes the fewest proposals for all parts, added up. Sizes are frozen after burn-in, and
    weights with them.
    """

    def weights(self, size: jax.Array | np.ndarray | None) -> np.ndarray | jax.Array:
        given = super().weights(size)
        if size is None:
            return given
        is_sized = np.array([move.is_sized for _, move in self.moves])
        return given * jnp.where(is_sized, size, 1.0) ** -0.5
