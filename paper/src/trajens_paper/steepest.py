"""Where the loss falls most steeply with s, and its distribution there, also between the levels that were sampled.

    -d<L> / ds = Var L,   P_s(L) ~ sum over all draws of w_n(s) delta(L - L_n)

with the weights of `trajens.thermo.free_energy`. Two phases that weigh alike at an s between two levels may be seen at
neither of them: in an interval of 4 / (jump of L) all is over. Where Var L is largest, 2 (Var L)^1/2 is the largest
jump that two phases of equal weight could have at any s. Levels of which hardly an exchange would be accepted say
nothing of what is between them, but that two phases there differ by no more than the losses of the two levels, since
<L> falls with s, and both levels are then nearly all in one phase.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from trajens.errors import require
from trajens.thermo.estimate import Sample
from trajens.thermo.free_energy import LEAST_EXCHANGE, Solution, exchange_rates, solve
from trajens.thermo.reweighting import LEAST
from trajens_paper.claims import Measured
from trajens_paper.coexistence import barrier, over_runs

_BETWEEN = 12
"""Places that are looked at from one level to the next."""
SMOOTH = 0.06
"""Of the fall: peaks and valleys are those of densities smoothed so much, a standard deviation."""


class Law(NamedTuple):
    """Values of L / tau with their weights, which add to one."""

    loss: np.ndarray
    weight: np.ndarray

    @property
    def variance(self) -> float:
        """Of L / tau, around its mean over the same draws: too small by that of this mean, a few per cent here."""
        return float(self.weight @ (self.loss - self.weight @ self.loss) ** 2)

    @property
    def worth(self) -> float:
        """So many draws of equal weight."""
        return float(1 / (self.weight**2).sum())


class Gap(NamedTuple):
    """Two neighbouring s that are not linked, by their numbers in the ladder."""

    low: int
    high: int


class Ladders:
    """Draws of L / tau (runs, levels, draws) at s (levels,), of paths of `tau` models.

    Neighbouring levels are linked where 1 % of exchanges between them would be accepted; free energies are those of
    every linked part by itself. `parts` are found, or given where some of the runs of others are looked at.
    """

    def __init__(self, s: np.ndarray, loss: np.ndarray, tau: int, parts: list[slice] | None = None):
        self.s, self.loss, self.tau = s, loss, tau
        self._laws: dict[float, Law] = {}
        if parts is None:
            is_broken = exchange_rates(self._sample(slice(None))) < LEAST_EXCHANGE
            ends = [0, *np.flatnonzero(is_broken) + 1, len(s)]
            parts = [slice(int(a), int(b)) for a, b in pairwise(ends)]
        self._parts = parts

    def _sample(self, part: slice) -> Sample:
        levels = list(np.swapaxes(self.loss[:, part], 0, 1) * self.tau)
        return Sample(self.s[part], levels, levels)

    @cached_property
    def _solutions(self) -> list[Solution]:
        return [solve(self._sample(part)) for part in self._parts]

    def law_at(self, s: float) -> Law:
        """That at an s which is a level or between linked ones."""
        if s not in self._laws:
            self._laws[s] = self._law_at(s)
        return self._laws[s]

    def _law_at(self, s: float) -> Law:
        found = [i for i, part in enumerate(self._parts) if self.s[part][0] <= s <= self.s[part][-1]]
        require(len(found) == 1, f"s must be a level or between linked ones, got {s:g}; there are draws at {self.s}.")
        part = self._parts[found[0]]
        values = np.concatenate([level.ravel() for level in np.swapaxes(self.loss[:, part], 0, 1)])
        return Law(values, self._solutions[found[0]].weights(values * self.tau, s))

    @cached_property
    def curves(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """For every linked part, s and Var(L / tau): at its levels, and between them where draws are worth enough."""
        return [self._curve(self.s[part]) for part in self._parts]

    def _curve(self, levels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        steps = np.arange(1, _BETWEEN) / _BETWEEN
        between = (levels[:-1, None] + np.diff(levels)[:, None] * steps).ravel()
        s = np.sort([*levels, *(one for one in between if self.law_at(one).worth >= LEAST)])
        return s, np.array([self.law_at(one).variance for one in s])

    @cached_property
    def steepest(self) -> float:
        """The s at which Var L is largest, of all that are not in a gap."""
        s, variance = (np.concatenate(columns) for columns in zip(*self.curves, strict=True))
        return float(s[np.argmax(variance)])

    @property
    def level(self) -> int:
        """The number of the level next to the steepest point."""
        return int(np.argmin(np.abs(self.s - self.steepest)))

    @property
    def law(self) -> Law:
        """That at the steepest point."""
        return self.law_at(self.steepest)

    @property
    def barrier(self) -> float:
        """The largest `barrier` at any s that is not in a gap: that where both peaks are equally high."""
        width = SMOOTH * self.fall
        return max(barrier(*self.law_at(one), width) for s, _ in self.curves for one in s)

    @property
    def fall(self) -> float:
        """Of <L> / tau from one end of the ladder to the other."""
        return self.fall_in(Gap(0, -1))

    def fall_in(self, gap: Gap) -> float:
        """Of <L> / tau from one level to another."""
        return float(self.loss[:, gap.low].mean() - self.loss[:, gap.high].mean())

    @property
    def gaps(self) -> list[Gap]:
        """Neighbours that are not linked."""
        return [Gap(part.start - 1, part.start) for part in self._parts[1:]]

    def measured(self, statistic: Callable[[Ladders], float]) -> Measured:
        """A number made of these, with its error over runs: without each, the steepest point is found anew."""
        return over_runs(lambda loss: statistic(Ladders(self.s, loss, self.tau, self._parts)), self.loss)
