"""The order in which models are updated.

Random scan (the paper's): one lane per chain, a random site for every proposal.

Checkerboard: given the models of one colour the path density is a product over the others, so all of them are
updated at once, one lane each, every lane with its own minibatches; then the colours change roles. Both leave
pi invariant, and one epoch is one proposal in both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import jax

from trajens.errors import choice, integer
from trajens.moves.base import Move, Site
from trajens.randomness import Key


class Scan(ABC):
    """Which sites a chain works on in a phase; a phase ends when each has had `repeats` proposals."""

    repeats: int

    @abstractmethod
    def lanes(self, move: Move, tau: int) -> int:
        """The most sites of one phase."""

    @abstractmethod
    def site(self, move: Move, key: Key, phase: jax.Array, lane: jax.Array, tau: int) -> tuple[Site, jax.Array]:
        """The site of a lane and whether there is one; `key` belongs to the first epoch of the phase."""


@dataclass(frozen=True)
class RandomScan(Scan):
    """One uniformly random site at a time."""

    repeats = 1

    def lanes(self, move: Move, tau: int) -> int:
        return 1

    def site(self, move: Move, key: Key, phase: jax.Array, lane: jax.Array, tau: int) -> tuple[Site, jax.Array]:
        return move.site(key, tau), lane == 0


@dataclass(frozen=True)
class Checkerboard(Scan):
    """All sites of a colour at once.

    Parameters
    ----------
    repeats : int
        Proposals per site before the colour changes; more even out unequal batch sizes, fewer mix faster.
    """

    repeats: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "repeats", integer("repeats", self.repeats, 1, "try 1 to 4"))

    def lanes(self, move: Move, tau: int) -> int:
        return move.lanes(tau)

    def site(self, move: Move, key: Key, phase: jax.Array, lane: jax.Array, tau: int) -> tuple[Site, jax.Array]:
        return move.site_in_phase(key, phase, lane, tau)


def scan_named(scan: Any) -> Scan:
    """A `Scan`, given itself or its name."""
    if isinstance(scan, Scan):
        return scan
    name = choice("scan", scan, ("random", "checkerboard"))
    return RandomScan() if name == "random" else Checkerboard()
