"""Where the loss falls most steeply with s, and its law there, also between the levels that were sampled.

    -d<L> / d ln s = s Var L,   P_s(L) ~ sum over all draws of w_n(s) delta(L - L_n)

with the weights of `trajens.thermo.mbar`. Two phases that weigh alike at an s between two levels may be seen at neither
of them: in an interval of 4 / (jump of L) all is over. Levels that have no losses in common say nothing of what is
between them, but that two phases there differ by no more than the losses of the two levels, since <L> falls with s.
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from trajens.thermo.free_energy import Mbar
from trajens.thermo.jackknife import Sample
from trajens.thermo.mbar import LEAST_EXCHANGE, exchange_rates
from trajens.thermo.reweighting import LEAST

_BETWEEN = 12
"""Places that are looked at from one level to the next."""


class Law(NamedTuple):
    """Values of L / tau with their weights, which add to one."""

    loss: np.ndarray
    weight: np.ndarray

    @property
    def variance(self) -> float:
        """Of L / tau."""
        return float(self.weight @ (self.loss - self.weight @ self.loss) ** 2)

    @property
    def worth(self) -> float:
        """So many draws of equal weight."""
        return float(1 / (self.weight**2).sum())


class Gap(NamedTuple):
    """Two neighbouring s without losses in common, and by how much <L> / tau falls between them."""

    low: float
    high: float
    fall: float


class Ladders:
    """Draws of L / tau (runs, levels, draws) at s (levels,), of paths of `tau` models."""

    def __init__(self, s: np.ndarray, loss: np.ndarray, tau: int):
        self.s, self.loss, self.tau = s, loss, tau
        is_broken = exchange_rates(self._sample(slice(None), loss)) < LEAST_EXCHANGE
        # Parts of the ladder in which neighbours are linked, each with free energies of its own.
        ends = [0, *np.flatnonzero(is_broken) + 1, len(s)]
        self._parts = [slice(int(a), int(b)) for a, b in pairwise(ends)]
        self._mbar = [Mbar() for _ in self._parts]
        for part, mbar in zip(self._parts, self._mbar, strict=True):
            mbar.solution(self._sample(part, loss))

    def _sample(self, part: slice, loss: np.ndarray) -> Sample:
        levels = list(np.swapaxes(loss[:, part], 0, 1) * self.tau)
        return Sample(self.s[part], levels, levels)

    def law_at(self, s: float, loss: np.ndarray | None = None) -> Law:
        """That at an s which is a level or between linked ones; of all runs, or from the losses of some."""
        loss = self.loss if loss is None else loss
        which = next(i for i, part in enumerate(self._parts) if s <= self.s[part][-1])
        part = self._parts[which]
        values = np.concatenate([level.ravel() for level in np.swapaxes(loss[:, part], 0, 1)])
        weights = self._mbar[which].solution(self._sample(part, loss)).weights(values * self.tau, s)
        return Law(values, weights)

    @cached_property
    def curves(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """For every linked part, s and s Var L / tau: at its levels, and between them where draws are worth enough."""
        return [self._curve(self.s[part]) for part in self._parts]

    def _curve(self, levels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        steps = np.arange(1, _BETWEEN) / _BETWEEN
        between = (levels[:-1, None] + np.diff(levels)[:, None] * steps).ravel()
        s = np.sort([*levels, *(one for one in between if self.law_at(one).worth >= LEAST)])
        return s, np.array([one * self.tau * self.law_at(one).variance for one in s])

    @property
    def steepest(self) -> float:
        """The s at which s Var L is largest, of all that are not in a gap."""
        s, susceptibility = (np.concatenate(columns) for columns in zip(*self.curves, strict=True))
        return float(s[np.argmax(susceptibility)])

    @property
    def gap(self) -> Gap | None:
        """That in which the loss falls most; None where all neighbours are linked."""
        mean = self.loss.mean((0, 2))
        gaps = [
            Gap(*(float(x) for x in (self.s[k - 1], self.s[k], mean[k - 1] - mean[k])))
            for k in (part.start for part in self._parts[1:])
        ]
        return max(gaps, key=lambda gap: gap.fall, default=None)
