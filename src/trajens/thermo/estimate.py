"""Estimates and their errors, from observed losses: by leaving out chains, and groups of the examples.

    error^2 = t_R^2 (R - 1)/R sum_r (x_{-r} - x_{-.})^2 + (1 - n/N) (G - 1)/G sum_g (x_{-g} - x_{-.})^2

x_{-r} is the result without ladder r of R: draws of a chain are correlated, and so may be chains of one ladder, but
ladders are independent. Where some s have more chains than others there are no ladders; all chains are then taken to be
independent, and each is left out by itself. With t_R, of Student's t distribution, an error from R of them covers 68 %,
as one from many does. x_{-g} is the result from losses without group g of the n examples they were measured on; it also
tells the bias that noisy losses bring into what is not linear in them, which is taken off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from trajens.errors import require
from trajens.records import of_few
from trajens.thermo.observation import Observed


class Sample(NamedTuple):
    """By level: its s, path losses (chains, draws), and what else was observed, (chains, draws, ...)."""

    s: np.ndarray
    loss: list[np.ndarray]
    values: list[np.ndarray]

    def without(self, which: Callable[[int], int | None]) -> Sample:
        """The same without chain ``which(level)`` of every level where that is not None."""

        def left(of_levels: list[np.ndarray]) -> list[np.ndarray]:
            chosen = [which(level) for level in range(len(of_levels))]
            return [a if r is None else np.delete(a, r, axis=0) for a, r in zip(of_levels, chosen, strict=True)]

        return Sample(self.s, left(self.loss), left(self.values))


class Estimate(NamedTuple):
    """A result and its standard error, NaN where every s has one chain only."""

    value: np.ndarray
    stderr: np.ndarray


def sample_of(observed: Observed, losses: np.ndarray, values: Callable[[np.ndarray], np.ndarray] | None) -> Sample:
    """`losses` (chains, draws, tau) by level, with `values`, a function of them, beside the path losses."""
    path_loss = losses.sum(-1)
    beside = path_loss if values is None else values(losses)
    members = observed.members
    return Sample(observed.levels, [path_loss[c] for c in members], [beside[c] for c in members])


def estimate(
    observed: Observed,
    statistic: Callable[[Sample], np.ndarray],
    values: Callable[[np.ndarray], np.ndarray] | None = None,
) -> Estimate:
    """What `statistic` makes of all that was observed, with its standard error."""
    whole = sample_of(observed, observed.losses, values)
    value = np.asarray(statistic(whole), np.float64)
    variance = np.zeros_like(value)
    for count, samples in _left_out(whole):
        if count == 1:
            variance = np.full_like(value, np.nan)
            continue
        found = np.array([statistic(sample) for sample in samples])
        variance += of_few(count) ** 2 * (count - 1) / count * ((found - found.mean(0)) ** 2).sum(0)
    if observed.groups is not None:
        count, unseen = len(observed.groups), 1.0 - observed.share
        others = ((count * observed.losses - group) / (count - 1) for group in observed.groups)
        found = np.array([statistic(sample_of(observed, losses, values)) for losses in others])
        variance += unseen * (count - 1) / count * ((found - found.mean(0)) ** 2).sum(0)
        value = value - unseen * (count - 1) * (found.mean(0) - value)
    return Estimate(value, np.sqrt(variance))


def _left_out(whole: Sample) -> Iterator[tuple[int, Iterator[Sample]]]:
    """Samples without one of R independent parts, and R: ladders, or the chains of one level after the other."""
    counts = [len(loss) for loss in whole.loss]
    if len(set(counts)) == 1:
        yield counts[0], (whole.without(lambda _, r=r: r) for r in range(counts[0]))  # type: ignore[misc]
        return
    require(
        min(counts) > 1,
        f"chains must be as many for every s, or two at least, got {counts}; errors come from chains of equal s.",
    )
    for at, count in enumerate(counts):
        yield (
            count,
            (
                whole.without(lambda level, at=at, r=r: r if level == at else None)  # type: ignore[misc]
                for r in range(count)
            ),
        )
