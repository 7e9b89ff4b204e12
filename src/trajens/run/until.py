"""The controller of a run that goes on until its chains have converged.

A run of fixed epochs is looked at after the epochs that it was given, and then whenever it is half as long again; it
ends at the first look that finds nothing lacking, or with its last epoch. A run that ends when its numbers look good
ends a little too often when they look better than they are. Few looks, and effective draws enough to know errors by,
keep that small; the halves of the run must agree besides, which says nothing of their mean, and leaves its error as it
is. As the run gets longer, so does the part of it that is left out of averages: a fifth, or burn-in where that is more.
What adapts has stopped before.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np

from trajens.convergence import Converged, by_s
from trajens.errors import integer, require
from trajens.records import Records
from trajens.run.control import Controller, FixedEpochs, RecordInfo, Update, extend_marks
from trajens.sampling.program import Control
from trajens.sampling.settings import default_burn_in

FURTHER = 1.5
"""How much further the next look of `UntilConverged` is."""


@dataclass(frozen=True)
class UntilConverged(Controller):
    """Fixed epochs, and more of them while something is lacking.

    Parameters
    ----------
    inner : FixedEpochs
        What happens at the marks before.
    asked : Converged
    max_epochs : int
        The most, burn-in included.
    """

    inner: FixedEpochs
    asked: Converged
    max_epochs: int

    def check(self, s: np.ndarray) -> None:
        superchains, counts = self.asked.superchains, np.unique(s, return_counts=True)[1]
        require(
            superchains is None or not (counts % superchains).any(),
            f"superchains must divide the chains of every s, got {superchains} for {', '.join(map(str, counts))}; "
            "leave them out for chains that start from points of their own.",
        )

    def update(self, info: RecordInfo, control: Control) -> Update:
        update = self.inner.update(info, control)
        if not info.is_last:
            return update
        records = info.records()
        burn_in = left_out(records, control.burn_in)
        more = () if self.is_over(records, burn_in) else self._following(info)
        return update._replace(control=update.control._replace(burn_in=burn_in), marks=more)

    def is_over(self, records: Records, burn_in: int) -> bool:
        """Whether nothing is lacking, or there are no more epochs."""
        return int(records["epoch"][0, -1]) >= self.max_epochs or not self.lacking(records, burn_in)

    def lacking(self, records: Records, burn_in: int) -> list[str]:
        """What is not as asked."""
        return self.asked.lacking(by_s(records, burn_in, self.asked.superchains))

    def _following(self, info: RecordInfo) -> tuple[int, ...]:
        """Marks up to the next look, at the distance of the last two."""
        last = min(math.ceil(FURTHER * info.epoch), self.max_epochs)
        before = np.array([info.epoch - info.epochs, info.epoch])
        return tuple(int(mark) for mark in extend_marks(before, last - info.epoch)[2:])

    def warn_at_end(self, records: Records, burn_in: int) -> None:
        """A RuntimeWarning where the run has ended without what was asked for."""
        lacking = self.lacking(records, burn_in)
        if lacking:
            warnings.warn(
                f"the run has not converged in its {int(records['epoch'][0, -1]):,} epochs: {'; '.join(lacking)}; "
                "extend it, or give it more max_epochs.",
                RuntimeWarning,
                stacklevel=5,
            )


def left_out(records: Records, burn_in: int) -> int:
    """The last mark in the first fifth of the run, or burn-in if that is later; 0 stays, where tests always adapt."""
    epochs = records["epoch"][0]
    early = epochs[epochs <= default_burn_in(int(epochs[-1]))]
    return max(burn_in, *early[-1:].tolist(), 0) if burn_in else 0


def controller_until(
    fixed: FixedEpochs, until: str | Converged | None, max_epochs: int | None, fewest: int
) -> Controller:
    """The controller of a run of at least `fewest` epochs, and until it has converged where that is asked for."""
    if until is None:
        require(max_epochs is None, f"max_epochs must be left out without until, got {max_epochs}; give epochs.")
        return fixed
    asked = Converged.named(until)
    require(max_epochs is not None, f"max_epochs must be given with until, got none; try {20 * fewest}.")
    most = integer("max_epochs", max_epochs, fewest, "it is the most, and epochs the fewest")
    return UntilConverged(fixed, asked, most)
