"""Exchange of paths between chains: a ladder of s, and where the paths of a ladder have been.

Chains at s_1 < s_2 < .. < s_K are a ladder. At every `every`-th epoch neighbours i and j = i + 1 propose to exchange
their paths, the pairs (1, 2), (3, 4), .. at one time and (2, 3), (4, 5), .. at the next, with

    Delta = (s_i - s_j) (L(Theta_i) - L(Theta_j)),   L the path loss,

decided by an acceptance test like any other change. Detailed balance with respect to the product of the distributions
of all levels leaves the distribution of every level as it is; what a chain is, is its s, and paths wander between them.

Several chains of each s are several ladders, independent of each other: the first chain of every s is the first ladder.

*Replicas.* Where the paths of a ladder have been: which of them is at which s, round trips, and what exchanges have
taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np

from trajens.acceptance.base import AcceptanceTest
from trajens.columns import EXCHANGE
from trajens.errors import InputError, integer, require
from trajens.records import Records
from trajens.sampling.program import Program

SWEEPS = 32
"""Proposals for every model of a path between two exchanges, unless another number of epochs is asked for."""


@dataclass(frozen=True)
class Exchange:
    """Exchange of paths between chains at neighbouring s.

    Parameters
    ----------
    every : int, optional
        Epochs from one exchange to the next; default 32 for every model of a path.
    acceptance : AcceptanceTest, optional
        What decides; default the test of the run. It sees differences of path losses.
    space : bool
        Move the s between the first and the last in burn-in, so that neighbours exchange equally often.
    """

    every: int | None = None
    acceptance: AcceptanceTest | None = None
    space: bool = True

    def __post_init__(self) -> None:
        if self.every is not None:
            object.__setattr__(self, "every", integer("every", self.every, 1, "try 32 for every model of a path"))
        require(
            self.acceptance is None or isinstance(self.acceptance, AcceptanceTest),
            f"acceptance must be an acceptance test, got {self.acceptance!r}; leave it out for that of the run.",
        )
        object.__setattr__(self, "space", bool(self.space))

    def test(self, program: Program) -> AcceptanceTest:
        """What decides in a run with this program."""
        own = self.acceptance
        return program.acceptance if own is None else own.resolved(program.population.most)

    def epochs(self, tau: int) -> int:
        """From one exchange to the next."""
        return SWEEPS * tau if self.every is None else self.every


def exchange_of(given: Any) -> Exchange | None:
    """What a user means: an `Exchange`, a number of epochs, True for the usual one, or None and False for none."""
    if given is None or given is False:
        return None
    if given is True:
        return Exchange()
    if isinstance(given, Exchange):
        return given
    if isinstance(given, (int, float, np.integer, np.floating)):
        return Exchange(every=integer("exchange", given, 1, "give epochs, or True for the usual number"))
    raise InputError(
        f"exchange must be True, a number of epochs or a trajens.Exchange, got {given!r}; try exchange=True."
    )


@dataclass(frozen=True)
class Ladder:
    """The chains of every level, (ladders, levels), by ascending s."""

    chains: np.ndarray

    @classmethod
    def of(cls, s: np.ndarray) -> Ladder:
        """The ladders of chains at `s` (chains,), or an `InputError`."""
        values, counts = np.unique(s, return_counts=True)
        require(
            len(values) > 1 and len(set(counts.tolist())) == 1,
            f"exchange needs as many chains of each of several s, got s = {_listed(values)} with "
            f"{_listed(counts)} chains; give for instance s = [5, 10, 20] and 3 chains, or 6 with each s twice.",
        )
        order = np.argsort(s, kind="stable").reshape(len(values), -1)
        return cls(np.ascontiguousarray(order.T))

    @property
    def levels(self) -> int:
        """Different s."""
        return int(self.chains.shape[1])

    def pairs(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Chains at the lower and at the upper s of all pairs of exchange `number`."""
        first = number % 2 if self.levels > 2 else 0
        lower, upper = self.chains[:, first:-1:2], self.chains[:, first + 1 :: 2]
        return lower.ravel(), upper.ravel()

    def pairs_across(self, most: int) -> tuple[np.ndarray, np.ndarray]:
        """Chains at neighbouring s, of other ladders too: at least one pair for each, and about `most` in all."""
        ladders = len(self.chains)
        shifts = range(min(ladders, -(-most // (ladders * (self.levels - 1)))))
        lower = [self.chains[:, :-1].ravel() for _ in shifts]
        upper = [np.roll(self.chains, shift, axis=0)[:, 1:].ravel() for shift in shifts]
        return np.concatenate(lower), np.concatenate(upper)

    def spread(self, levels: np.ndarray) -> np.ndarray:
        """Values of the levels, (levels,), for their chains, (chains,)."""
        values = np.empty(self.chains.size, np.asarray(levels).dtype)
        values[self.chains] = levels
        return values


def space_levels(s: np.ndarray, rejection: np.ndarray) -> np.ndarray:
    """Levels between the first and the last of `s` (levels,) whose neighbours reject exchanges equally often.

    The sum of rejection probabilities along a ladder hardly depends on where its levels are: between s and s + ds a
    part lambda(s) ds is rejected. New levels are at equal parts of the integral of lambda, which is known at the old
    ones and interpolated between them in ln s by a monotone cubic (Syed, Bouchard-Cote, Deligiannidis, Doucet 2022).
    A level of 0, which has no logarithm, stays, and so does the one above it.
    """
    if s[0] == 0:
        return s if len(s) == 2 else np.concatenate([s[:1], space_levels(s[1:], rejection[1:])])
    from scipy.interpolate import PchipInterpolator

    barrier = np.concatenate([[0.0], np.cumsum(rejection)])
    position = PchipInterpolator(barrier, np.log(s))
    found = np.exp(position(np.linspace(0.0, barrier[-1], len(s))))
    found[0], found[-1] = s[0], s[-1]
    return np.asarray(found)


def _listed(values: np.ndarray) -> str:
    shown = [f"{value:g}" for value in values[:8].tolist()]
    return ", ".join(shown + ["..."] * (len(values) > 8))


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
        at = self.at[exchange_paths(len(self.at), lower, upper, is_accepted)]
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
    return Replicas(
        at=np.arange(chains),
        heading=zero,
        trips=zero,
        tried=zero,
        swapped=zero,
        tried_here=zero,
        swapped_here=zero,
        evaluations=zero,
        memory=memory,
        steps=zero if counts_steps else None,
    )


def _plus(counts: np.ndarray, which: np.ndarray, more: Any) -> np.ndarray:
    """Counts with so many more of some chains, which may come several times."""
    counts = counts.copy()
    np.add.at(counts, which, more)
    return counts


def exchange_paths(chains: int, lower: np.ndarray, upper: np.ndarray, is_accepted: np.ndarray) -> np.ndarray:
    """The chain that every chain takes its path from."""
    source = np.arange(chains)
    source[lower], source[upper] = np.where(is_accepted, upper, lower), np.where(is_accepted, lower, upper)
    return source
