"""Where the paths of a ladder have been: which of them is at which s, round trips, and what exchanges have taken."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np

from trajens.acceptance.base import AcceptanceTest
from trajens.columns import EXCHANGE
from trajens.records import Records
from trajens.sampling.ladder import Ladder

_UP, _DOWN = 1, -1


class Replicas(NamedTuple):
    """On the host, (chains,) each; a replica is a path that wanders, called by the chain it began in.

    Attributes
    ----------
    at : whole numbers
        The replica that every chain holds.
    heading : whole numbers
        Of every replica: 1 since it was at the lowest s, -1 since it was at the highest, 0 before either.
    trips : whole numbers
        Of every replica: from the lowest s to the highest and back.
    tried, swapped : whole numbers
        Exchanges of every chain with that of the next s since the last record.
    tried_here, swapped_here : whole numbers
        The same since levels were moved.
    evaluations : whole numbers
        Examples times models, for the exchanges of every chain with that of the next s.
    memory : pytree of (chains, 1, 1)
        What the test remembers of them.
    steps : whole numbers, or None
        Those of their losses, where these count steps.
    """

    at: np.ndarray
    heading: np.ndarray
    trips: np.ndarray
    tried: np.ndarray
    swapped: np.ndarray
    tried_here: np.ndarray
    swapped_here: np.ndarray
    evaluations: np.ndarray
    memory: Any
    steps: np.ndarray | None

    def after(
        self,
        ladder: Ladder,
        lower: np.ndarray,
        upper: np.ndarray,
        is_accepted: np.ndarray,
        evaluations: np.ndarray,
        steps: np.ndarray,
    ) -> Replicas:
        """After an exchange between the chains `lower` and `upper`, where it `is_accepted`."""
        at = self.at[exchanged(len(self.at), lower, upper, is_accepted)]
        heading, trips = self.heading.copy(), self.trips.copy()
        bottom, top = at[ladder.chains[:, 0]], at[ladder.chains[:, -1]]
        trips[bottom] += heading[bottom] == _DOWN
        heading[bottom], heading[top] = _UP, np.where(heading[top] == 0, 0, _DOWN)
        return self.having_read(lower, evaluations, steps)._replace(
            at=at,
            heading=heading,
            trips=trips,
            tried=_plus(self.tried, lower, 1),
            swapped=_plus(self.swapped, lower, is_accepted),
            tried_here=_plus(self.tried_here, lower, 1),
            swapped_here=_plus(self.swapped_here, lower, is_accepted),
        )

    def having_read(self, lower: np.ndarray, evaluations: Any, steps: np.ndarray) -> Replicas:
        """After so many evaluations and steps for the exchanges of the chains `lower`."""
        more = None if self.steps is None else _plus(self.steps, lower, steps)
        return self._replace(evaluations=_plus(self.evaluations, lower, evaluations), steps=more)

    @property
    def columns(self) -> Records:
        """Of a record, (chains,)."""
        rate = np.where(self.tried > 0, self.swapped / np.maximum(self.tried, 1), np.nan)
        found = rate, self.trips, self.at, self.evaluations, self.steps
        return {name: column for name, column in zip(EXCHANGE, found, strict=True) if column is not None}

    def from_now(self) -> Replicas:
        """The same after a record: what is counted since it begins with 0."""
        zero = np.zeros_like(self.tried)
        return self._replace(tried=zero, swapped=zero)

    def rejection(self, ladder: Ladder) -> np.ndarray | None:
        """Part of the exchanges (levels - 1,) that was refused since levels were moved; None where that is not known.

        Half of an exchange is added to both outcomes, so that no part is 0.
        """
        lower = ladder.chains[:, :-1]
        tried, swapped = self.tried_here[lower].sum(0), self.swapped_here[lower].sum(0)
        if tried.min() < _FEWEST:
            return None
        return np.asarray((tried - swapped + 0.5) / (tried + 1.0))

    def moved(self) -> Replicas:
        """After levels were moved."""
        zero = np.zeros_like(self.tried_here)
        return self._replace(tried_here=zero, swapped_here=zero)


_FEWEST = 20
"""Exchanges of every pair before their rate says something."""


def first_replicas(chains: int, test: AcceptanceTest, counts_steps: bool) -> Replicas:
    """Before the first exchange; the losses may count steps."""
    zero = np.zeros(chains, np.int64)
    one = test.init(1, 1)
    memory = jax.tree.map(lambda leaf: np.broadcast_to(np.asarray(leaf), (chains, *leaf.shape)).copy(), one)
    return Replicas(np.arange(chains), zero, zero, zero, zero, zero, zero, zero, memory, zero if counts_steps else None)


def _plus(counts: np.ndarray, which: np.ndarray, more: Any) -> np.ndarray:
    """Counts with so many more of some chains, which may come several times."""
    counts = counts.copy()
    np.add.at(counts, which, more)
    return counts


def exchanged(chains: int, lower: np.ndarray, upper: np.ndarray, is_accepted: np.ndarray) -> np.ndarray:
    """The chain that every chain takes its path from."""
    source = np.arange(chains)
    source[lower], source[upper] = np.where(is_accepted, upper, lower), np.where(is_accepted, lower, upper)
    return source
