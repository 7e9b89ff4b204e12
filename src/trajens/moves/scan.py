"""Scans: the order in which models are updated.

A move can be made at a number of places; a scan says which of them a chain works on in one phase, a lane each. A phase
ends when each of its lanes has made `repeats` proposals, and one epoch is one proposal in every scan.

Random scan (the paper's): one lane per chain, a random place for every proposal.

Checkerboard: given the models of one colour the path density is a product over the others, so all of them are
updated at once, one lane each, every lane with its own minibatches; then the colours change roles. Both leave
pi invariant.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from trajens.errors import choice, integer, require
from trajens.moves.base import Move, Proposer, Site
from trajens.randomness import Key, Purpose, below, fold_in, key_of, uniform, words

MAX_REPEATS = 2**16
"""Proposals of all lanes in one phase are counted in 32 bits."""
_PHASES = 64
"""Of a scan of one's own that are looked at before it is used."""


class Scan(ABC):
    """Which places of a path a chain works on in a phase; subclasses are frozen dataclasses.

    Places of one phase must be a multiple of `period` apart: then no lane changes a model next to another's. They may
    depend on the key and on the number of the phase, never on the path. Every phase has a place, and lanes without one
    come last: of n places, lane j makes proposals number j, j + n, .. of the phase.
    """

    repeats: int = 1
    """Proposals of every lane in one phase."""

    @abstractmethod
    def lanes(self, positions: int, period: int) -> int:
        """The most places of one phase, for a move with so many `positions`."""

    @abstractmethod
    def place(
        self, key: Key, phase: jax.Array, lane: jax.Array, positions: int, period: int
    ) -> tuple[jax.Array, jax.Array]:
        """Number of the place in 0..positions-1 that a lane works on, and whether there is one.

        `key` belongs to the first epoch of the phase.
        """


@dataclass(frozen=True)
class RandomScan(Scan):
    """One uniformly random place at a time."""

    def lanes(self, positions: int, period: int) -> int:
        return 1

    def place(
        self, key: Key, phase: jax.Array, lane: jax.Array, positions: int, period: int
    ) -> tuple[jax.Array, jax.Array]:
        return below(words(key, Purpose.SITE, 1)[0], positions).astype(jnp.int32), lane == 0


@dataclass(frozen=True)
class Checkerboard(Scan):
    """All places of a colour at once: every `period`-th, starting one further in every phase.

    Parameters
    ----------
    repeats : int
        Proposals per place before the colour changes; more even out unequal batch sizes, fewer mix faster.
    """

    repeats: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "repeats", integer("repeats", self.repeats, 1, "try 1 to 4", MAX_REPEATS))

    def lanes(self, positions: int, period: int) -> int:
        return -(-positions // period)

    def place(
        self, key: Key, phase: jax.Array, lane: jax.Array, positions: int, period: int
    ) -> tuple[jax.Array, jax.Array]:
        i = phase % period + period * lane
        return i, i < positions


SCANS: dict[str, type[Scan]] = {"checkerboard": Checkerboard, "random": RandomScan}
"""By name."""


def scan_named(scan: Any) -> Scan:
    """A `Scan`, given itself or its name."""
    return scan if isinstance(scan, Scan) else SCANS[choice("scan", scan, SCANS)]()


def num_lanes(scan: Scan, move: Proposer, tau: int) -> int:
    """Lanes a chain needs for a move, or for the one of a mixture that needs most."""
    return max(scan.lanes(one.positions(tau), one.period(tau)) for _, one in move.components)


def check_places(move: Move, scan: Scan, tau: int) -> None:
    """Refuse a move or a scan that would stand still, or change neighbours at once, before anything is compiled."""
    positions, period, name = move.positions(tau), move.period(tau), type(move).__name__
    require(
        move.span(tau) >= 1 and 1 <= period <= positions,
        f"a move must have a span of at least 1 and a period in 1..positions, got span {move.span(tau)}, period "
        f"{period} and {positions} positions of {name} for tau = {tau}; check them.",
    )
    if type(scan) in SCANS.values():
        return
    lanes = scan.lanes(positions, period)
    key = fold_in(key_of(0), jnp.arange(_PHASES))
    of_lanes = jax.vmap(lambda k, phase, j: scan.place(k, phase, j, positions, period), (None, None, 0))
    places, found = (
        np.asarray(a) for a in jax.vmap(of_lanes, (0, 0, None))(key, jnp.arange(_PHASES), jnp.arange(lanes))
    )
    is_prefix = found[:, :1].all() and (found[:, 1:] <= found[:, :-1]).all()
    is_inside = ((places >= 0) & (places < positions))[found].all()
    apart = np.abs(places[:, :, None] - places[:, None]) % period == 0
    differ = (places[:, :, None] != places[:, None]) | np.eye(lanes, dtype=bool)
    is_apart = (apart & differ)[found[:, :, None] & found[:, None]].all()
    require(
        bool(is_prefix and is_inside and is_apart),
        f"places of a phase must be in 0..{positions - 1}, different, a multiple of {period} apart, and taken by the "
        f"first lanes, got others from {scan!r} for {name} and tau = {tau}; see Scan.place.",
    )


def site_of_lane(
    scan: Scan, move: Proposer, key: Key, phase: jax.Array, lane: jax.Array, tau: int, size: jax.Array | None = None
) -> tuple[Site, jax.Array]:
    """The site of a lane and whether there is one; which move of a mixture is made is drawn for the whole phase.

    `size` (components,) is that of tuned moves, which is the same throughout a phase.
    """
    weights = move.weights(size)
    edges = (weights / weights.sum()).cumsum()[:-1].astype(np.float32)
    kind = jnp.int32(0)
    if len(weights) > 1:
        kind = jnp.sum(uniform(words(key, Purpose.KIND, 1)[0]) > edges).astype(jnp.int32)
    firsts, stops, found = [], [], []
    for _, one in move.components:
        i, exists = scan.place(key, phase, lane, one.positions(tau), one.period(tau))
        first, stop = one.site_at(i, tau)
        firsts.append(jnp.asarray(first, jnp.int32))
        stops.append(jnp.asarray(stop, jnp.int32))
        found.append(jnp.asarray(exists))
    return Site(kind, jnp.stack(firsts)[kind], jnp.stack(stops)[kind]), jnp.stack(found)[kind]
