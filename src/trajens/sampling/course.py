"""The course of a run: when it is recorded, how s rises, when burn-in ends and when the run does.

By epochs, all of it is fixed before the run. By data, it is decided from record to record by what was read so far:

- burn-in is a share of the budget, and s rises for most of it: towards an s that was asked for by equal factors for
  equal data; else a little with every renewal of the path, until burn-in is nearly over, or the loss low enough;
- where the loss of the paths is clearly above that of a trained start, s rises by their ratio with a renewal, since
  what is above the minimum falls like 1/s: as long as the budget is for some renewals, paths keep what the start found;
- a renewal is what it takes to redraw every parameter of every model once, tau accepted moves that change all of one.
  It takes more and more data the larger s is, roughly like s^2. With d ln s = 1 / (2n) at every renewal, s^2 grows by
  B / (n c) where a renewal takes c s^2 of B pairs: s ends where the budget is about n renewals. How many there should
  be was found by trial: few where the budget is small, for which a lower loss counts more than independent paths.

What is decided depends on counts and measured losses only, which are the same in a run that is resumed.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from trajens.records import Records
from trajens.sampling.adapted import MAX_EPOCHS, Adapted
from trajens.schedule import Schedule, value_at

PLANNING = (1 / 8, 1 / 4, 1 / 2, 1.0)
"""Parts of burn-in after which batches are planned."""

SCORING = (1 / 32, 1 / 8, 1 / 4, 1 / 2, 3 / 4)
"""Parts of burn-in after which the scores of examples are learnt again; tests need the rest to see what it changed."""

RENEWALS, PAIRS_PER_MODEL, MORE = 50, 5e5, 0.8
"""Renewals n that a budget is for, of so many pairs per model; larger ones are for more, by this power."""

BURN_IN = 0.8
"""Of what a run by data reads."""

RISING = 0.8
"""Of burn-in, the part in which s rises."""

_FASTEST = math.log(2.0)
_SETTLED = 0.02
_ABOVE, _SURELY, _FEWEST = 1.1, 2.5, 8
"""How far, and by how many errors, a loss must be above that of the start to count, and renewals a budget is for."""
_AUDITS_IN_BURN_IN, _AUDITS_TO_ITS_END = 0.35, 0.8
"""Burn-in is most of a run by data: some is kept for the plan at its end, and for a look after it."""
_LONGER, _FEWEST_AFTER = 4, 4
"""How much longer than the piece before one may be, and records after burn-in at least."""


class Passed(NamedTuple):
    """What a course is told at a record.

    Attributes
    ----------
    epoch, epochs : int
        Now, and since the record before.
    used, begun : float
        Pairs per chain so far, those of the start included, and those of the start.
    spent : float
        Pairs per chain since the record before.
    renewals : float
        Of the path, since then.
    loss, loss_error : float
        Measured now.
    recorded : int
        Records since burn-in.
    is_last : bool
        Whether no further mark is known.
    records : function
        All records, this one included, without its audit.
    """

    epoch: int
    epochs: int
    used: float
    begun: float
    spent: float
    renewals: float
    loss: float
    loss_error: float
    recorded: int
    is_last: bool = False
    records: Callable[[], Records] = dict


class Turn(NamedTuple):
    """What follows: how to go on, what is due now, whether s is where it ends, and further marks.

    `for_audits` is the part of what audits may take that may be spent now.
    """

    adapted: Adapted
    is_planning: bool
    is_scoring: bool
    is_settled: bool
    marks: tuple[int, ...] = ()
    for_audits: float = 1.0


class Course(ABC):
    """What is asked at every record."""

    @abstractmethod
    def turn(self, passed: Passed, adapted: Adapted) -> Turn:
        """What follows after a record."""

    def beside(self, planned: ByEpochs) -> Course:
        """The course of a run whose marks are, so far, those of `planned`."""
        return self

    def check(self, s: np.ndarray) -> None:
        """Refuse chains of these s where it cannot do with them."""
        return


@dataclass(frozen=True)
class ByEpochs(Course):
    """Marks, burn-in and a schedule that were fixed before.

    Attributes
    ----------
    planning, scoring : set of int
        The marks after which batches are planned, and scores learnt.
    burn_in : int
    schedule : Schedule or None
    """

    planning: frozenset[int]
    scoring: frozenset[int]
    burn_in: int
    schedule: Schedule | None

    @classmethod
    def over(cls, marks: np.ndarray, burn_in: int, schedule: Schedule | None) -> ByEpochs:
        """The course over these marks."""
        early = marks[marks <= burn_in]

        def near(parts: tuple[float, ...]) -> frozenset[int]:
            return frozenset(int(early[np.argmin(np.abs(early - part * burn_in))]) for part in parts if len(early))

        return cls(near(PLANNING), near(SCORING), burn_in, schedule)

    def turn(self, passed: Passed, adapted: Adapted) -> Turn:
        epoch = passed.epoch
        return Turn(adapted, epoch in self.planning, epoch in self.scoring, self._is_settled(epoch))

    def _is_settled(self, epoch: int) -> bool:
        if self.schedule is None or epoch >= self.burn_in:
            return True
        now, then = (value_at(self.schedule, e) for e in (epoch, self.burn_in))
        return abs(now - then) <= _SETTLED * abs(then)


@dataclass(frozen=True)
class ByData(Course):
    """A run that is as long as its data.

    Parameters
    ----------
    pairs : float
        Pairs of losses per chain, those of the start included.
    records : int
        How often is recorded, about.
    tau : int
        Models in a path.
    is_to_s : bool
        Whether s rises to that of the target, where its factor is 1.
    loss : float, optional
        s rises until the loss is not above this.
    """

    pairs: float
    records: int
    tau: int
    is_to_s: bool = False
    loss: float | None = None

    def renewals(self, begun: float) -> float:
        """How often the path should be renewed after a start that took `begun` pairs."""
        per_model = max(self.pairs - begun, 1.0) / self.tau
        return RENEWALS * max(per_model / PAIRS_PER_MODEL, 1.0) ** MORE

    def turn(self, passed: Passed, adapted: Adapted) -> Turn:
        total = max(self.pairs - passed.begun, 1.0)
        burn_in = BURN_IN * total
        now, before = (min((used - passed.begun) / burn_in, 1.0) for used in (passed.used, passed.used - passed.spent))
        if adapted.burn_in <= passed.epoch:
            return Turn(adapted, False, False, True, self._following(passed, total))
        is_reached = self.loss is not None and passed.loss <= self.loss
        if now >= 1.0 or is_reached:
            over = adapted._replace(burn_in=passed.epoch, tilt=1.0 if self.is_to_s else adapted.tilt)
            return Turn(over, True, False, True, self._following(passed, total), _AUDITS_TO_ITS_END)
        tilt = adapted.tilt * math.exp(self._rise(adapted, now, before, passed))
        passes = lambda parts: any(before < part <= now for part in parts)  # noqa: E731
        return Turn(
            adapted._replace(tilt=tilt),
            passes(PLANNING),
            passes(SCORING),
            now >= RISING,
            self._following(passed, total),
            _AUDITS_IN_BURN_IN,
        )

    def _rise(self, adapted: Adapted, now: float, before: float, passed: Passed) -> float:
        """The change of ln s."""
        tilt = adapted.tilt
        if self.is_to_s:
            left, was_left = (max(1.0 - part / RISING, 0.0) for part in (now, before))
            return -math.log(tilt) * (1.0 - left / was_left) if was_left > 0 else -math.log(tilt)
        if self.loss is None and now >= RISING:
            return 0.0
        rise = passed.renewals / (2 * self.renewals(passed.begun))
        return min(max(rise, self._return(adapted.ceiling, passed)), _FASTEST)

    def _return(self, ceiling: float, passed: Passed) -> float:
        """The rise of ln s that brings the loss back to that of the start; 0 where it is there, or too dear."""
        is_above = passed.loss - _SURELY * passed.loss_error > _ABOVE * ceiling > 0
        is_affordable = _FEWEST * passed.spent < passed.renewals * (self.pairs - passed.begun)
        # Paths follow s within a renewal or so.
        return min(passed.renewals, 1.0) * math.log(passed.loss / ceiling) if is_above and is_affordable else 0.0

    def _following(self, passed: Passed, total: float) -> tuple[int, ...]:
        """The next mark, if there is one: a piece of the data further."""
        piece, left = total / self.records, self.pairs - passed.used
        if left < piece / 2 and passed.recorded >= _FEWEST_AFTER:
            return ()
        pairs = min(piece, left) if left >= piece / 2 else piece / 2
        epochs = round(passed.epochs * pairs / max(passed.spent, 1.0))
        epochs = max(1, passed.epochs // _LONGER, min(epochs, passed.epochs * _LONGER))
        return (min(passed.epoch + epochs, MAX_EPOCHS),)

    def first_mark(self, pairs_per_epoch: float, lanes: int, begun: float) -> int:
        """The end of the first piece."""
        piece = (self.pairs - begun) / self.records
        return max(lanes, round(piece / pairs_per_epoch))
