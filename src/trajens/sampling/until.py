"""A run until its chains have converged: looks at planned epochs, each half as far again as the one before.

What is asked is asked of the records after burn-in at every look, from the epochs that the run was given on, and the
run ends at the first that finds nothing lacking, or with its last epoch. A run that ends when its numbers look good
ends a little too often when they look better than they are. Few looks, and effective draws enough to know errors by,
keep that small; the halves of the run must agree besides, which says nothing of their mean, and leaves its error as it
is.

As the run gets longer, so does the part of it that is left out of averages: a fifth, or burn-in where that is more.
What adapts has stopped before.

Looks depend on epochs and records only, which are the same in a run that is resumed.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field, replace

import numpy as np

from trajens.convergence import Converged, by_s
from trajens.errors import integer, require
from trajens.records import Records
from trajens.sampling import marks
from trajens.sampling.adapted import Adapted
from trajens.sampling.course import ByEpochs, Course, Passed, Turn
from trajens.sampling.settings import default_burn_in

FURTHER = 1.5
"""How much further the next look is."""


@dataclass(frozen=True)
class UntilConverged(Course):
    """Fixed epochs, and more of them while something is lacking.

    Parameters
    ----------
    asked : Converged
    max_epochs : int
        The most, burn-in included.
    planned : Course, optional
        What happens at the marks before.
    """

    asked: Converged
    max_epochs: int
    planned: Course | None = field(default=None, repr=False)

    def beside(self, planned: ByEpochs) -> Course:
        return replace(self, planned=planned)

    def check(self, s: np.ndarray) -> None:
        superchains, counts = self.asked.superchains, np.unique(s, return_counts=True)[1]
        require(
            superchains is None or not (counts % superchains).any(),
            f"superchains must divide the chains of every s, got {superchains} for {', '.join(map(str, counts))}; "
            "leave them out for chains that start from points of their own.",
        )

    def turn(self, passed: Passed, adapted: Adapted) -> Turn:
        assert self.planned is not None
        turn = self.planned.turn(passed, adapted)
        if not passed.is_last:
            return turn
        records = passed.records()
        burn_in = left_out(records, adapted.burn_in)
        more = () if self.is_over(records, burn_in) else self._following(passed)
        return turn._replace(adapted=turn.adapted._replace(burn_in=burn_in), marks=more)

    def is_over(self, records: Records, burn_in: int) -> bool:
        """Whether nothing is lacking, or there are no more epochs."""
        return int(records["epoch"][0, -1]) >= self.max_epochs or not self.lacking(records, burn_in)

    def lacking(self, records: Records, burn_in: int) -> list[str]:
        """What is not as asked."""
        return self.asked.lacking(by_s(records, burn_in, self.asked.superchains))

    def _following(self, passed: Passed) -> tuple[int, ...]:
        """Marks up to the next look, at the distance of the last two."""
        last = min(math.ceil(FURTHER * passed.epoch), self.max_epochs)
        before = np.array([passed.epoch - passed.epochs, passed.epoch])
        return tuple(int(mark) for mark in marks.extended(before, last - passed.epoch)[2:])

    def warn_if_lacking(self, records: Records, burn_in: int) -> None:
        """A RuntimeWarning where the run has ended without what was asked for."""
        lacking = self.lacking(records, burn_in)
        if lacking:
            warnings.warn(
                f"the run has not converged in its {int(records['epoch'][0, -1]):,} epochs: {'; '.join(lacking)}; "
                "extend it, or give it more max_epochs.",
                RuntimeWarning,
                stacklevel=4,
            )


def left_out(records: Records, burn_in: int) -> int:
    """The last mark in the first fifth of the run, or burn-in if that is later; 0 stays, where tests always adapt."""
    epochs = records["epoch"][0]
    early = epochs[epochs <= default_burn_in(int(epochs[-1]))]
    return max(burn_in, *early[-1:].tolist(), 0) if burn_in else 0


def course_until(
    until: str | Converged | None, max_epochs: int | None, epochs: int, is_resumed: bool = False
) -> UntilConverged | None:
    """What decides how long a run of at least `epochs` is; None where these do.

    One that is resumed may have been extended beyond `max_epochs`.
    """
    if until is None:
        require(max_epochs is None, f"max_epochs must be left out without until, got {max_epochs}; give epochs.")
        return None
    asked = Converged.named(until)
    require(max_epochs is not None, f"max_epochs must be given with until, got none; try {20 * epochs}.")
    fewest = 1 if is_resumed else epochs
    return UntilConverged(asked, integer("max_epochs", max_epochs, fewest, "it is the most, and epochs the fewest"))
