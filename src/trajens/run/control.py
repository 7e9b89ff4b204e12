"""Controllers of a run: when it is recorded, how s rises, when burn-in ends and when the run does.

With `FixedEpochs` all of it is fixed before the run. With a `Budget` it is decided from record to record by what was
read so far:

- burn-in is a share of the budget, and s rises for most of it: towards an s that was asked for by equal factors for
  equal data; else a little with every renewal of the path, until burn-in is nearly over, or the loss low enough;
- paths lag behind an s that rises. Where the rest of burn-in is for few renewals at the s that was asked for, s is
  there sooner, and burn-in lasts as long again as it took to get there, and some renewals at least;
- where the loss of the paths is clearly above that of a trained start, s rises by their ratio with a renewal, since
  what is above the minimum falls like 1/s: as long as the budget is for some renewals, paths keep what the start found;
- s stays below the one at which the models of a path weigh together as much as some likelihoods of the data, where
  the loss is one: more of it learns the examples by heart. With the squared error a likelihood has the variance v of
  labels around the true function, which is twice the loss of examples that are held out. Once s is there, burn-in lasts
  as long again as it took to get there;
- a renewal is what it takes to redraw every parameter of every model once, tau accepted moves that change all of one.
  It takes more and more data the larger s is, roughly like s^2. With d ln s = 1 / (2n) at every renewal, s^2 grows by
  B / (n c) where a renewal takes c s^2 of B pairs: s ends where the budget is about n renewals. How many there should
  be was found by trial: few where the budget is small, for which a lower loss counts more than independent paths.

A budget may be of seconds: then the pairs of losses that it comes to are found again at every record, by how many were
done a second since the program runs, and stand in the state of the run, which goes on with them when it is resumed.

With `UntilConverged` a run of fixed epochs goes on until its chains have converged. It is looked at after the epochs
that it was given, and then whenever it is half as long again; it ends at the first look that finds nothing lacking, or
with its last epoch. A run that ends when its numbers look good ends a little too often when they look better than they
are. Few looks, and effective draws enough to know errors by, keep that small; the halves of the run must agree
besides, which says nothing of their mean, and leaves its error as it is. As the run gets longer, so does the part of it
that is left out of averages: a fifth, or burn-in where that is more. What adapts has stopped before.

What is decided depends on counts and measured losses only, which are the same in a run that is resumed.
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from trajens.convergence import Converged, by_s
from trajens.errors import integer, require
from trajens.records import MAX_EPOCHS, Records
from trajens.sampling.program import Control
from trajens.sampling.settings import default_burn_in
from trajens.schedule import Schedule, value_at

RECORDS = 200
"""How often a run of fixed epochs is recorded, unless another number is asked for."""

PLANNING = (1 / 8, 1 / 4, 1 / 2, 1.0)
"""Parts of burn-in after which batches are planned."""

REWEIGHTING = (1 / 32, 1 / 8, 1 / 4, 1 / 2, 3 / 4)
"""Parts of burn-in after which the scores of examples are learnt again; tests need the rest to see what it changed."""

RENEWALS, PAIRS_PER_MODEL, MORE = 50, 5e5, 0.4
"""Renewals n that a budget is for, of so many pairs per model; larger ones are for more, by this power."""

BURN_IN = 0.8
"""Of what a run by data reads."""

RISING, RISING_SOON = 0.8, 0.3
"""Of burn-in, the part in which s rises; and where an s that was asked for takes too much data to be renewed at."""

STANDING = 10
"""Renewals of the path at an s that was asked for before burn-in ends; fewer than that in its rest let s rise soon."""

LIKELIHOODS = 3.0
"""What the models of a path weigh together at most, in likelihoods of the data: s = LIKELIHOODS N / (tau v)."""


def likelihood_s(size: float, tau: int, variance: float = 1.0) -> float:
    """The s at which the tau models of a path weigh as much as `LIKELIHOODS` likelihoods of `size` examples.

    `variance` is that of labels, of a squared error.
    """
    return LIKELIHOODS * size / (tau * variance)


SETTLING = 0.2
"""Of what a run by data reads, the part that burn-in takes at least."""

_FASTEST = math.log(2.0)
"""Rise of ln s between two records, at most."""
_SETTLED = 0.02
"""Relative distance of s from where it ends, from which on it counts as there."""
_RETURN_RATIO = 1.1
"""Ratio to the loss of the start from which on a loss counts as above it."""
_RETURN_SIGMAS = 2.5
"""Standard errors by which it must be."""
_MIN_RENEWALS = 8
"""Renewals that a budget must be for, before s is raised to bring the loss back."""
_AUDITS_IN_BURN_IN, _AUDITS_TO_ITS_END = 0.35, 0.8
"""Burn-in is most of a run by data: some is kept for the plan at its end, and for a look after it."""
_LONGEST_STEP = 4
"""How much longer than the piece before the next one may be."""
_RECORDS_AFTER = 4
"""Records after burn-in, at least."""


class RecordInfo(NamedTuple):
    """What a controller is told at a record.

    Attributes
    ----------
    epoch, epochs : int
        Now, and since the record before.
    pairs_used, start_pairs : float
        Pairs of losses per chain so far, those of the start included, and those of the start.
    pairs : float
        Pairs per chain since the record before.
    renewals : float
        Of the path, since then.
    loss, loss_error : float
        Measured now.
    reference_loss : float
        The loss of a trained start, above which paths should not rise.
    held_out_loss : float
        Of examples that are not trained on, measured now; NaN where there are none.
    settled_pairs : float
        Pairs of losses per chain after which s was first where it ends; infinite before.
    clock_pairs : float
        Pairs per chain that a budget of seconds has come to by now; NaN without one.
    seconds, rate : float
        Since the run began, and pairs per chain and second by which it goes on; NaN where that is not known yet.
    recorded : int
        Records since burn-in.
    marks : (records,)
        The epochs at which is recorded, as far as they are known.
    records : function
        All records, this one included, without its audit.
    growth : function
        How many times as many examples a decision reads at the s that was asked for.
    """

    epoch: int
    epochs: int
    pairs_used: float
    start_pairs: float
    pairs: float
    renewals: float
    loss: float
    loss_error: float
    recorded: int
    marks: np.ndarray
    reference_loss: float = math.inf
    held_out_loss: float = math.nan
    settled_pairs: float = math.inf
    clock_pairs: float = math.nan
    seconds: float = math.nan
    rate: float = math.nan
    records: Callable[[], Records] = dict
    growth: Callable[[], float] = lambda: 1.0

    @property
    def is_last(self) -> bool:
        """Whether no further mark is known."""
        return bool(self.epoch >= self.marks[-1])


class Update(NamedTuple):
    """What follows a record.

    Attributes
    ----------
    control : Control
        How to go on.
    is_planning, is_reweighting : bool
        Whether batches are planned, and example weights learnt, now.
    is_settled : bool
        Whether s is where it ends.
    marks : tuple of int
        Further epochs at which is recorded; asked for at the last mark only.
    audit_share : float
        The part of what audits may take that may be spent now.
    clock_pairs : float
        Pairs per chain that a budget of seconds comes to; NaN without one.
    """

    control: Control
    is_planning: bool
    is_reweighting: bool
    is_settled: bool
    marks: tuple[int, ...] = ()
    audit_share: float = 1.0
    clock_pairs: float = math.nan


class Controller(ABC):
    """Decides at every record how a run goes on."""

    @abstractmethod
    def update(self, info: RecordInfo, control: Control) -> Update:
        """Decide what follows a record."""

    def check(self, s: np.ndarray) -> None:
        """Refuse chains of these s where it cannot do with them."""
        return

    def warn_at_end(self, records: Records, burn_in: int) -> None:
        """Warn where a complete run is not what was asked for."""
        return


@dataclass(frozen=True)
class FixedEpochs(Controller):
    """Marks, burn-in and a schedule that were fixed before.

    Parameters
    ----------
    burn_in : int
    schedule : Schedule or None
    """

    burn_in: int
    schedule: Schedule | None = None

    def update(self, info: RecordInfo, control: Control) -> Update:
        epoch = info.epoch
        is_planning, is_reweighting = (epoch in self.due(parts, info.marks) for parts in (PLANNING, REWEIGHTING))
        return Update(control, is_planning, is_reweighting, self._is_settled(epoch))

    def due(self, parts: tuple[float, ...], marks: np.ndarray) -> frozenset[int]:
        """The marks nearest to these parts of burn-in."""
        early = marks[marks <= self.burn_in]
        return frozenset(int(early[np.argmin(np.abs(early - part * self.burn_in))]) for part in parts if len(early))

    def _is_settled(self, epoch: int) -> bool:
        if self.schedule is None or epoch >= self.burn_in:
            return True
        now, then = (value_at(self.schedule, e) for e in (epoch, self.burn_in))
        return abs(now - then) <= _SETTLED * abs(then)


@dataclass(frozen=True)
class Budget(Controller):
    """A run that is as long as its budget of loss evaluations.

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
    likely_size : float, optional
        Examples N of a loss that is a likelihood; s does not rise above `likelihood_s` of them.
    is_noise_unknown : bool
        Whether the variance of labels is to be found from examples that are held out.
    seconds : float, optional
        How long the run may take, its start and compilations included; `pairs` are then what that is at first sight.
    """

    pairs: float
    records: int
    tau: int
    is_to_s: bool = False
    loss: float | None = None
    likely_size: float | None = None
    is_noise_unknown: bool = False
    seconds: float | None = None

    def largest_s(self, held_out_loss: float) -> float:
        """The s above which models learn examples by heart; infinite where nothing is known of that."""
        if self.likely_size is None or self.is_to_s or self.loss is not None:
            return math.inf
        if not self.is_noise_unknown:
            return likelihood_s(self.likely_size, self.tau)
        variance = 2.0 * held_out_loss
        return likelihood_s(self.likely_size, self.tau, variance) if variance > 0 else math.inf

    def renewals(self, start_pairs: float) -> float:
        """How often the path should be renewed after a start that took `start_pairs` pairs."""
        per_model = max(self.pairs - start_pairs, 1.0) / self.tau
        return RENEWALS * max(per_model / PAIRS_PER_MODEL, 1.0) ** MORE

    def update(self, info: RecordInfo, control: Control) -> Update:
        if self.seconds is not None:
            pairs = self._pairs_in_time(info)
            return replace(self, pairs=pairs, seconds=None).update(info, control)._replace(clock_pairs=pairs)
        total = max(self.pairs - info.start_pairs, 1.0)
        burn_in = BURN_IN * total
        now, before = (
            min((used - info.start_pairs) / burn_in, 1.0) for used in (info.pairs_used, info.pairs_used - info.pairs)
        )
        if control.burn_in <= info.epoch:
            return Update(control, False, False, True, self._following(info, total))
        rising = self._rising(info, total)
        is_reached = self.loss is not None and info.loss <= self.loss
        if now >= 1.0 or is_reached or self._has_settled(info, total):
            over = control._replace(burn_in=info.epoch, tilt=1.0 if self.is_to_s else control.tilt)
            return Update(over, True, False, True, self._following(info, total), _AUDITS_TO_ITS_END)
        limit = math.log(self.largest_s(info.held_out_loss) / control.tilt)
        rise = max(min(self._rise(control, (before, now), info, rising), limit), -_FASTEST)
        tilt = control.tilt * math.exp(rise)
        passes = lambda parts: any(before < part <= now for part in parts)  # noqa: E731
        return Update(
            control._replace(tilt=tilt),
            passes(PLANNING),
            passes(REWEIGHTING),
            now >= RISING or limit <= _SETTLED or (self.is_to_s and now >= rising and tilt >= 1.0 - _SETTLED),
            self._following(info, total),
            _AUDITS_IN_BURN_IN,
        )

    def _pairs_in_time(self, info: RecordInfo) -> float:
        """What the seconds that are left come to at the present rate, with what was done."""
        known = info.clock_pairs if math.isfinite(info.clock_pairs) else self.pairs
        if self.seconds is None or not info.rate > 0:
            return known
        return info.pairs_used + info.rate * max(self.seconds - info.seconds, 0.0)

    def _has_settled(self, info: RecordInfo, total: float) -> bool:
        """Whether s is as large as it may be, and paths have had as long again as it took, and time to follow."""
        if not self.is_to_s and self.largest_s(info.held_out_loss) == math.inf:
            return False
        used, until = info.pairs_used - info.start_pairs, info.settled_pairs - info.start_pairs
        if used < max(2.0 * until, SETTLING * total):
            return False
        return not self.is_to_s or info.renewals * (used - until) >= STANDING * info.pairs

    def _rising(self, info: RecordInfo, total: float) -> float:
        """The part of burn-in in which s rises, by the renewals that the rest would be for at the s asked for."""
        if not self.is_to_s or not info.pairs > 0:
            return RISING
        rest = (1.0 - RISING) * BURN_IN * total
        return RISING_SOON if rest * info.renewals < STANDING * info.pairs * info.growth() else RISING

    def _rise(self, control: Control, parts: tuple[float, float], info: RecordInfo, rising: float) -> float:
        """The change of ln s between two `parts` of burn-in, of which s rises in the first `rising`."""
        tilt, now = control.tilt, parts[1]
        if self.is_to_s:
            was_left, left = (max(1.0 - part / rising, 0.0) for part in parts)
            rise = -math.log(tilt) * (1.0 - left / was_left) if was_left > 0 else -math.log(tilt)
            return min(rise, _FASTEST) if rising < RISING else rise
        if self.loss is None and now >= RISING:
            return 0.0
        rise = info.renewals / (2 * self.renewals(info.start_pairs))
        return min(max(rise, self._return(info)), _FASTEST)

    def _return(self, info: RecordInfo) -> float:
        """The rise of ln s that brings the loss back to that of the start; 0 where it is there, or too dear."""
        ceiling = info.reference_loss
        is_above = info.loss - _RETURN_SIGMAS * info.loss_error > _RETURN_RATIO * ceiling > 0
        is_affordable = _MIN_RENEWALS * info.pairs < info.renewals * (self.pairs - info.start_pairs)
        # Paths follow s within a renewal or so.
        return min(info.renewals, 1.0) * math.log(info.loss / ceiling) if is_above and is_affordable else 0.0

    def _following(self, info: RecordInfo, total: float) -> tuple[int, ...]:
        """The next mark, if there is one: a piece of the data further."""
        piece, left = total / self.records, self.pairs - info.pairs_used
        if left < piece / 2 and info.recorded >= _RECORDS_AFTER:
            return ()
        pairs = min(piece, left) if left >= piece / 2 else piece / 2
        epochs = round(info.epochs * pairs / max(info.pairs, 1.0))
        epochs = max(1, info.epochs // _LONGEST_STEP, min(epochs, info.epochs * _LONGEST_STEP))
        return (min(info.epoch + epochs, MAX_EPOCHS),)

    def first_mark(self, pairs_per_epoch: float, lanes: int, start_pairs: float) -> int:
        """The end of the first piece."""
        piece = (self.pairs - start_pairs) / self.records
        return max(lanes, round(piece / pairs_per_epoch))


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


def count_marks(epochs: int, burn_in: int, records: int) -> int:
    """Number of marks that are planned, at most one an epoch."""
    require(
        burn_in < epochs,
        f"burn_in must be less than epochs = {epochs}, got {burn_in}; averages need epochs after burn-in.",
    )
    return max(_lowest(burn_in), min(integer("records", records, 1, "try 200"), epochs))


def plan_marks(epochs: int, burn_in: int, records: int) -> np.ndarray:
    """Epochs at which is recorded: about `records`, the last at `epochs` and one at the end of burn-in."""
    records = count_marks(epochs, burn_in, records)
    early = min(max(round(records * burn_in / epochs), _lowest(burn_in) - 1), records - 1)
    return np.concatenate([_spread(burn_in, early), burn_in + _spread(epochs - burn_in, records - early)])


def extend_marks(marks: np.ndarray, epochs: int, records: int | None = None) -> np.ndarray:
    """`marks` and those of `epochs` more, by default at the distance of the last two."""
    last = int(marks[-1])
    epochs = integer("epochs", epochs, 1, "give the number of epochs to add", MAX_EPOCHS - last)
    if records is None:
        records = max(1, round(epochs / np.diff(marks, prepend=0)[-1]))
    more = _spread(epochs, integer("records", records, 1, "try 200", epochs))
    return np.concatenate([marks, last + more])


def _lowest(burn_in: int) -> int:
    return 1 if burn_in == 0 else 2


def _spread(total: int, parts: int) -> np.ndarray:
    """`parts` marks at nearly equal distances, the last at `total`."""
    return np.unique(np.round(total * np.arange(1, parts + 1) / max(parts, 1)).astype(np.int64))
