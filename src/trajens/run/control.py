"""Controllers of a run: when it is recorded, how s rises, when burn-in ends and when the run does.

With `FixedEpochs` all of it is fixed before the run. With a `Budget` it is decided from record to record by what was
read so far:

- burn-in is a share of the budget, and s rises for most of it: towards an s that was asked for by equal factors for
  equal data; else a little with every renewal of the path, until burn-in is nearly over, or the loss low enough;
- paths lag behind an s that rises. Where the rest of burn-in is for few renewals at the s that was asked for, s is
  there sooner, and burn-in lasts as long again as it took to get there, and some renewals at least;
- where the loss of the paths is clearly above that of a trained start, s rises by their ratio with a renewal, since
  what is above the minimum falls like 1/s: as long as the budget is for some renewals, paths keep what the start found;
- where examples are few and some are held out, s is the one at which these are predicted best: it is searched for
  first (`trajens.run.search`), and burn-in lasts half as long again. Where none are held out, the search is a run of
  its own without a fifth of them, at whose s and paths the run on all of them begins;
- else s stays below the one at which the models of a path weigh together as much as some likelihoods of the data, where
  the loss is one: more of it learns the examples by heart. With the squared error a likelihood has the variance v of
  labels around the true function, which is twice the loss of examples that are held out. Once s is there, burn-in lasts
  as long again as it took to get there;
- a renewal is what it takes to redraw every parameter of every model once, tau accepted moves that change all of one.
  It takes more and more data the larger s is, roughly like s^2. With d ln s = 1 / (2n) at every renewal, s^2 grows by
  B / (n c) where a renewal takes c s^2 of B pairs: s ends where the budget is about n renewals. How many there should
  be was found by trial: few where the budget is small, for which a lower loss counts more than independent paths.

Batches are planned at the end of burn-in, and may be found too small later: where the loss still falls, the noise of
the decisions grows. Where audits after burn-in are sure that the tolerance is broken, and enough of the budget is left,
burn-in goes on for a piece, in which tests and moves adapt again, batches are planned anew at its end, and averages
begin there. It depends on what was audited before the averages that are kept.

A budget may be of seconds: then the pairs of losses that it comes to are found again at every record, by how many were
done a second since the program runs, and stand in the state of the run, which goes on with them when it is resumed.

What is decided depends on counts and measured losses only, which are the same in a run that is resumed.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from trajens.errors import integer, require
from trajens.records import MAX_EPOCHS, Records
from trajens.run.search import LOWEST, SEARCHING, add_record, best_likelihoods, likelihoods_at, no_search
from trajens.sampling.program import Control
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

SEARCHED = 1.5
"""Of the part in which s was searched for, what burn-in takes."""

STANDING = 10
"""Renewals of the path at an s that was asked for before burn-in ends; fewer than that in its rest let s rise soon."""

LIKELIHOODS = 3.0
"""What the models of a path weigh together at most, in likelihoods of the data: s = LIKELIHOODS N / (tau v)."""


def likelihood_s(size: float, tau: int, variance: float = 1.0, likelihoods: float = LIKELIHOODS) -> float:
    """The s at which the tau models of a path weigh as much as so many likelihoods of `size` examples.

    `variance` is that of labels, of a squared error.
    """
    return likelihoods * size / (tau * variance)


SETTLING = 0.2
"""Of what a run by data reads, the part that burn-in takes at least."""

LEFT = 0.1
"""Of what a run by data reads, the part that must be left where burn-in is taken up again."""

_FASTEST = math.log(2.0)
"""Rise of ln s between two records, at most."""
LARGEST_S = 1e12
"""Beyond that nothing is known of s."""
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
    predictive_loss : float
        Log loss of all models together on these examples; NaN where s is not searched for.
    search : (2, bins)
        What was found of that so far, see `trajens.run.search`.
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
    is_beyond : function
        Whether audits since burn-in have found the tolerance broken.
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
    predictive_loss: float = math.nan
    search: np.ndarray = no_search()
    settled_pairs: float = math.inf
    clock_pairs: float = math.nan
    seconds: float = math.nan
    rate: float = math.nan
    records: Callable[[], Records] = dict
    growth: Callable[[], float] = lambda: 1.0
    is_beyond: Callable[[], bool] = lambda: False

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
    search : (2, bins), optional
        What is known of the s that is searched for, where that has changed.
    """

    control: Control
    is_planning: bool
    is_reweighting: bool
    is_settled: bool
    marks: tuple[int, ...] = ()
    audit_share: float = 1.0
    clock_pairs: float = math.nan
    search: np.ndarray | None = None


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
    """A run that is as long as its budget of pairs of losses.

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
    searched_on : int, optional
        Examples that are held out, for which s is searched.
    searching : float
        Of what is read after the start, the part in which s is searched for; 1 of a run that ends with its search.
    is_searched_before : bool
        Whether s was searched for by such a run, which was the start of this one: s stays where it begins.
    largest_variance : float, optional
        Of labels around the mean of all: models that are further off have learned nothing yet.
    """

    pairs: float
    records: int
    tau: int
    is_to_s: bool = False
    loss: float | None = None
    likely_size: float | None = None
    is_noise_unknown: bool = False
    seconds: float | None = None
    searched_on: int | None = None
    searching: float = SEARCHING
    is_searched_before: bool = False
    largest_variance: float | None = None

    @property
    def is_search(self) -> bool:
        """Whether s is searched for in this run."""
        return self.searched_on is not None and not self.is_searched_before

    @property
    def is_only_search(self) -> bool:
        """Whether the run ends with its search."""
        return self.is_search and self.searching == 1.0

    def largest_s(self, held_out_loss: float, likelihoods: float = LIKELIHOODS) -> float:
        """The s above which models learn examples by heart; infinite where nothing is known of that."""
        if self.likely_size is None or self.is_to_s or self.loss is not None:
            return math.inf
        variance = self.variance(held_out_loss) if self.is_noise_unknown else 1.0
        return likelihood_s(self.likely_size, self.tau, variance, likelihoods) if variance > 0 else math.inf

    def variance(self, held_out_loss: float) -> float:
        """Variance v of labels around models with this loss."""
        return 2.0 * held_out_loss if self.largest_variance is None else min(2.0 * held_out_loss, self.largest_variance)

    def first_s(self, s: float, held_out_loss: float) -> float:
        """Where s begins: at the s that was found for the start, or at the least that is tried."""
        if self.is_search:
            return min(self.largest_s(held_out_loss, LOWEST), LARGEST_S)
        return min(s, self.largest_s(held_out_loss))

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
            if info.recorded and self._can_plan_again(info, total) and info.is_beyond():
                control = control._replace(burn_in=MAX_EPOCHS)
            return Update(control, False, False, True, self._following(info, total))
        if self.is_only_search:
            return self._search(info, control, total)
        rising = self._rising(info, total)
        is_reached = self.loss is not None and info.loss <= self.loss
        if now >= 1.0 or is_reached or self._has_settled(info, total):
            over = control._replace(burn_in=info.epoch, tilt=1.0 if self.is_to_s else control.tilt)
            return Update(over, True, False, True, self._following(info, total), _AUDITS_TO_ITS_END)
        if self.is_search:
            return self._search(info, control, total)
        if self.is_searched_before:
            return self._stay(info, control, total)
        limit = math.log(self.largest_s(info.held_out_loss) / control.tilt)
        rise = max(min(self._rise(control, (before, now), info, rising), limit), -_FASTEST)
        tilt = control.tilt * math.exp(rise)
        passes = partial(_passes, before, now)
        return Update(
            control._replace(tilt=tilt),
            passes(PLANNING),
            passes(REWEIGHTING),
            now >= RISING or limit <= _SETTLED or (self.is_to_s and now >= rising and tilt >= 1.0 - _SETTLED),
            self._following(info, total),
            _AUDITS_IN_BURN_IN,
        )

    def _search(self, info: RecordInfo, control: Control, total: float) -> Update:
        """The next s to try, or the best one."""
        assert self.searched_on is not None
        search, whole = info.search, self.searching * total
        before, now = ((used - info.start_pairs) / whole for used in (info.pairs_used - info.pairs, info.pairs_used))
        # On a clock the whole may grow: what has been found stays.
        was_over = info.settled_pairs < math.inf
        is_over = was_over or now >= 1.0
        if not was_over:
            search = add_record(search, likelihoods_at(before), info.predictive_loss)
        likelihoods = best_likelihoods(search, self.searched_on) if is_over else likelihoods_at(now)
        s = self.largest_s(info.held_out_loss, likelihoods)
        control = control._replace(tilt=s) if s < LARGEST_S else control
        # Of burn-in, as it is known to be here.
        passes = partial(_passes, before / SEARCHED, now / SEARCHED)
        following = () if is_over and self.is_only_search else self._following(info, total)
        is_planning, is_reweighting = passes(PLANNING), passes(REWEIGHTING)
        return Update(control, is_planning, is_reweighting, is_over, following, _AUDITS_IN_BURN_IN, search=search)

    def _stay(self, info: RecordInfo, control: Control, total: float) -> Update:
        """Go on in burn-in at the s that was found before."""
        ends = info.pairs_used - info.pairs, info.pairs_used
        before, now = ((used - info.start_pairs) / (SETTLING * total) for used in ends)
        is_planning, is_reweighting = (_passes(before, now, parts) for parts in (PLANNING, REWEIGHTING))
        return Update(control, is_planning, is_reweighting, True, self._following(info, total), _AUDITS_IN_BURN_IN)

    def _pairs_in_time(self, info: RecordInfo) -> float:
        """What the seconds that are left come to at the present rate, with what was done."""
        known = info.clock_pairs if math.isfinite(info.clock_pairs) else self.pairs
        if self.seconds is None or not info.rate > 0:
            return known
        return info.pairs_used + info.rate * max(self.seconds - info.seconds, 0.0)

    def _has_settled(self, info: RecordInfo, total: float) -> bool:
        """Whether s is as large as it may be, and paths have had as long again as it took, and time to follow."""
        if not (self.is_to_s or self.is_searched_before) and self.largest_s(info.held_out_loss) == math.inf:
            return False
        used, until = info.pairs_used - info.start_pairs, info.settled_pairs - info.start_pairs
        if used < max((SEARCHED if self.is_search else 2.0) * until, SETTLING * total):
            return False
        return not self.is_to_s or info.renewals * (used - until) >= STANDING * info.pairs

    def _can_plan_again(self, info: RecordInfo, total: float) -> bool:
        """Whether enough of the budget is left to average over after another piece of burn-in."""
        return self.pairs - info.pairs_used >= LEFT * total

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


def _passes(before: float, now: float, parts: tuple[float, ...]) -> bool:
    """Whether one of these parts lies between."""
    return any(before < part <= now for part in parts)


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
