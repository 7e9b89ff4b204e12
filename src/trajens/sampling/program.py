"""A sampler as it is compiled, what a run may change between two records, and the numbers that are not compiled in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np

from trajens.acceptance.base import AcceptanceTest
from trajens.losses import CountingLoss, Loss, counted_losses_of_pairs
from trajens.moves.base import Proposer
from trajens.moves.scan import Scan, num_lanes
from trajens.population import Copies, Finite, Population
from trajens.schedule import Schedule
from trajens.target import PathLaw


@dataclass(frozen=True)
class Program:
    """All that is compiled in; two runs with equal programs and shapes share one compilation."""

    loss: Loss
    examples: Population
    tau: int
    move: Proposer
    acceptance: AcceptanceTest
    scan: Scan
    schedule: Schedule | None
    looks_every: int = 1
    """Iterations between two looks at whether all lanes have arrived, which is work for nothing after they have."""
    copies: int = 1
    """Copies per example, see `trajens.population`."""
    is_tuned: bool = False
    """Whether moves tune their sizes, see `trajens.sampling.tuning`."""
    ahead: int = 1
    """Chunks evaluated at once, of which a decision uses as many as it would have asked for one by one."""

    @property
    def lanes(self) -> int:
        """Lanes per chain."""
        return num_lanes(self.scan, self.move, self.tau)

    @property
    def span(self) -> int:
        """The most models one proposal changes."""
        return self.move.span(self.tau)

    @property
    def counts_steps(self) -> bool:
        """Whether the examples of the loss cost steps of their own, which are then counted."""
        return isinstance(self.loss, CountingLoss)

    @property
    def population(self) -> Population:
        """What batches are drawn from: the examples, or M copies of them."""
        return self.examples if self.copies == 1 else Finite(self.examples.most * self.copies)

    @property
    def chunk(self) -> int:
        """Examples a batch grows by."""
        return self.acceptance.chunk_size(self.population.most)

    @property
    def chunks(self) -> int:
        """Chunks per iteration and lane; one where a proposal takes several iterations for its models."""
        return min(self.ahead, -(-self.population.most // self.chunk)) if self.span == 1 else 1


class Control(NamedTuple):
    """What a run may change between two records, on the host; the same for all chains but for their `levels`.

    Attributes
    ----------
    burn_in : int
        The epoch at which averages begin and adaptation ends; `trajens.records.MAX_EPOCHS` while that is not known.
    tilt : float
        Factor of s.
    copies : (N,) or None
        Number of copies of every example, see `trajens.population`; None without example weights.
    levels : (chains,) or None
        The s of chains in place of those of the target, where levels were moved, see `trajens.sampling.exchange`.
    """

    burn_in: int
    tilt: float = 1.0
    copies: np.ndarray | None = None
    levels: np.ndarray | None = None


class Inputs(NamedTuple):
    """Numbers of a run that are not compiled in; `data` are empty for a stream.

    `s` has one entry per chain; tests learn before `learn_until`, and moves are tuned before `tune_until`.
    """

    data: Any
    law: PathLaw
    s: jax.Array
    learn_until: jax.Array
    tune_until: jax.Array
    copies: Copies | None = None

    def losses(
        self, loss: Loss, pairs: jax.Array, members: jax.Array, is_active: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Losses (lanes, 2, m) of pairs of models on `members` (lanes, m, ...) of the population, and their steps."""
        if self.copies is None:
            return counted_losses_of_pairs(loss, self.data, pairs, members, is_active)
        examples = self.copies.example[members]
        losses, steps = counted_losses_of_pairs(loss, self.data, pairs, examples, is_active)
        return losses * self.copies.factor[examples][:, None], steps
