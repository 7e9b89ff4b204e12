"""Where s begins, and how large moves are there, from loss differences of some small proposals at the start.

A change of a share m of a model has loss differences of variance m v between examples, and means of mean m mu and
variance m V between changes. At noise rho the penalty test reads b = s^2 m v / rho^2 examples; a renewal of a path,
tau / m accepted moves, then takes tau s^2 v / (rho^2 a) pairs whatever m is, a the part that is accepted.

- Untrained models begin at s^2 V = 1, where a change of all of a model just matters.
- Trained ones begin at the s at which the budget is for so many renewals, see `trajens.run.control`, but not above
  2 mu / V, where changes of the models as they are leave their loss as it is: for normal means <exp(-s Delta)> = 1
  there, as it is for paths that have the law of s.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from trajens.acceptance.penalty import RHO_LARGEST
from trajens.sampling.devices import Sampler
from trajens.sampling.program import Control
from trajens.sampling.sampler import State
from trajens.sampling.sizes import share_renewed

_ACCEPTED = 0.23
"""2 Phi(-rho/2) at the rho of `RHO_LARGEST`."""
_SHARES = 0.03, 0.3, 1.0
"""Of a model, that are changed to look: more where less changes nothing, as with a loss that counts."""
_PROPOSALS, _EXAMPLES, _FEWEST = 256, 1024, 64
_TELLING = 8
"""Proposals that must have changed the loss of an example, to be told something by."""
_TINY = 1e-20


class Slopes(NamedTuple):
    """v, mu and V of changes of all of a model."""

    between_examples: float
    mean: float
    between_changes: float

    def first_s(self) -> float:
        """For untrained models."""
        return self.between_changes**-0.5

    def first_s_of_trained(self, pairs: float, tau: int) -> float:
        """For trained ones, with so many pairs of losses for a renewal."""
        affordable = (pairs * RHO_LARGEST**2 * _ACCEPTED / (tau * self.between_examples)) ** 0.5
        balanced = 2 * self.mean / self.between_changes
        return float(min(affordable, balanced) if balanced > 0 else affordable)

    def share_at(self, s: float, chunk: int) -> float:
        """The share of a model that can be changed on a chunk of examples at the largest noise; at most all of it."""
        return min(1.0, RHO_LARGEST**2 * chunk / (s**2 * self.between_examples))


def looks(sampler: Sampler, pairs: float) -> tuple[int, int]:
    """Proposals of every chain, and examples of each, that are looked at for about `pairs` losses."""
    # A budget that is small leaves fewer examples, and then fewer proposals.
    examples = int(min(_EXAMPLES, sampler.program.population.size, max(pairs / _PROPOSALS, _FEWEST)))
    proposals = int(min(_PROPOSALS, max(pairs / examples, _FEWEST)))
    return -(-proposals // sampler.settings.chains), examples


def slopes(sampler: Sampler, state: State, pairs: float = math.inf, control: Control | None = None) -> Slopes:
    """Found by proposals of a small size, or of their own where they are not tuned, for about `pairs` losses."""
    program = sampler.program
    proposals, examples = looks(sampler, pairs)
    for tried in _SHARES if program.is_tuned else (None,):
        state = state if tried is None else sampler.with_share(state, tried)
        share = share_renewed(state.sizes, program.move, state.path.shape[-1])
        seen = sampler.look_at(state, 0, proposals, examples, control)
        differences = np.asarray(seen.differences, np.float64).reshape(-1, examples)
        differences = differences[np.isfinite(differences).all(1)]
        if (differences != 0).any(1).sum() >= _TELLING:
            break
    else:
        # Nothing is known of what matters: s rises from 1.
        return Slopes(1.0, 0.0, 1.0)
    means, noise = differences.mean(1), float(differences.var(1, ddof=1).mean())
    # Of the means of few examples, some of the variance is noise.
    between = max(float(means.var(ddof=1)) - noise / examples, 0.1 * noise / examples, _TINY)
    return Slopes(max(noise, _TINY) / share, float(means.mean()) / share, between / share)
