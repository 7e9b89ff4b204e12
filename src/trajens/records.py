"""Records: what a run writes down at regular epochs, as arrays (chains, records) by name, and numbers made of them.

What columns there are is said by `trajens.columns.COLUMNS`.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from trajens.columns import AUDITED, COLUMNS, PROJECTIONS, REASONS, Average

Records = dict[str, np.ndarray]

MAX_EPOCHS = 2**31 - 1
"""Epochs of a run at most: they are counted in 32 bits."""


def join_records(tables: list[Records]) -> Records:
    """Several tables, one after the other."""
    return {name: np.concatenate([table[name] for table in tables], axis=1) for name in tables[0]} if tables else {}


def num_records(records: Records) -> int:
    """Records of every chain."""
    return int(records["epoch"].shape[1]) if records else 0


EVOLUTION, SEARCH = "evolution", "a search for s"
"""Starts that take pairs of losses."""


class Started(NamedTuple):
    """What a start took, in pairs of losses per chain and of the budget, and the loss at its end; `way` is its name."""

    pairs: float
    share: float
    loss: float
    way: str


def summarise_start(start: Records, budget: float, chains: Any = None) -> Started:
    """Of the records of a start and a budget of pairs per chain; mean over all chains or those in `chains`."""
    select = slice(None) if chains is None else np.atleast_1d(chains)
    pairs, loss = (float(start[name][select, -1].mean()) for name in ("data_used", "loss"))
    return Started(pairs, pairs / budget, loss, way_of(start))


def way_of(start: Records) -> str:
    """What a start was, by its records: those of a search have s."""
    return SEARCH if "s" in start else EVOLUTION


def learning_curve(
    start: Records, records: Records, chains: Any = None, column: str = "loss"
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of losses per chain, and the loss, of a start and of the path after it, in the mean over chains.

    Another `column` is that of the tables which have it.
    """
    select = slice(None) if chains is None else np.atleast_1d(chains)
    tables = [table for table in (start, records) if column in table]
    pairs, values = (
        np.concatenate([np.zeros(0), *(table[name][select].mean(0) for table in tables)])
        for name in ("data_used", column)
    )
    return pairs, values


def starts(records: Records) -> np.ndarray:
    """The epoch (records,) at which the time that a record speaks of begins."""
    return np.concatenate([[0], records["epoch"][0, :-1]])


def after_burn_in(records: Records, burn_in: int) -> np.ndarray:
    """Which records (records,) speak of time after `burn_in` only."""
    return starts(records) >= burn_in if records else np.zeros(0, bool)


def has_summary(records: Records, burn_in: int) -> bool:
    """Whether a record speaks of time after `burn_in` only."""
    return bool(after_burn_in(records, burn_in).any())


def chains_by_s(s: np.ndarray, digits: int | None = None) -> list[tuple[float, np.ndarray]]:
    """Every value of s, smallest first, and the numbers of its chains.

    Parameters
    ----------
    s : (chains,)
    digits : int, optional
        Significant digits by which values of s are told apart; default all.
    """
    values = s if digits is None else np.array([float(f"{value:.{digits}g}") for value in s])
    return [(float(value), np.flatnonzero(values == value)) for value in np.unique(values)]


_OF_TWO = 1.837337
_EXPANSION = (1.0, 1 / 2, 1 / 4, 1 / 16, -11 / 1920)
"""Student's quantile at one normal standard error: with one degree of freedom, and in powers of 1/freedom for more.

It is within 0.1 %, and needs no SciPy, which takes a quarter of a second to load.
"""


def of_few(count: int) -> float:
    """How much larger a standard error that was found from `count` independent values is by Student's t distribution.

    With it a mean of normal values is within one error of its expectation in 68 % of cases, however few they are.
    """
    return _OF_TWO if count == 2 else float(np.polynomial.Polynomial(_EXPANSION)(1 / (count - 1)))


def mean_and_error(values: np.ndarray) -> tuple[float, float]:
    """Mean and standard error, by Student's t distribution, of independent values; the error of a single one is NaN."""
    error = values.std(ddof=1) / np.sqrt(len(values)) * of_few(len(values)) if len(values) > 1 else np.nan
    return float(values.mean()), float(error)


def summarise(records: Records, burn_in: int) -> dict[str, Any]:
    """Averages of all columns over the records that lie after `burn_in`, each as its `Column.average` says.

    ``reasons`` are the columns that count decisions. Names that end in ``_stderr`` are standard errors over chains, by
    Student's t distribution, NaN for a single one; those of ``tilt_error`` and ``mean_shift`` are over audits.
    """
    is_after = after_burn_in(records, burn_in)
    epochs = (records["epoch"] - starts(records))[:, is_after]
    found: dict[str, Any] = {}
    for column in COLUMNS:
        name = column.name
        if column.average is Average.AUDITS:
            found |= summarise_audits(records, burn_in)
        elif name in records and column.average in _SUMMARISED:
            value, error = _average(records[name], column.average, is_after, epochs)
            found |= dict(zip(column.keys, (value, error), strict=False))
        elif column.is_in_every_run and column.average in _SUMMARISED:
            found[name] = 0 if column.average is Average.GROWTH else float("nan")
    counts = {reason: int(records[reason][:, is_after].sum()) for reason in REASONS if reason in records}
    return {**found, "reasons": counts, "chains": len(records["loss"])}


_SUMMARISED = {Average.RECORDS, Average.EPOCHS, Average.KNOWN, Average.GROWTH, Average.LAST, Average.TOTAL}
"""Averages of one column by itself."""


def _average(values: np.ndarray, average: Average, is_after: np.ndarray, epochs: np.ndarray) -> tuple[float, float]:
    """The average of a column (chains, records), and its standard error over chains, NaN where it has none.

    `epochs` are those that records after burn-in speak of.
    """
    after = values[:, is_after]
    if average is Average.RECORDS:
        return mean_and_error(after.mean(1))
    if average is Average.EPOCHS:
        # Each record counts as much as it has epochs.
        error = mean_and_error((after * epochs).sum(1) / epochs.sum(1))[1]
        return float((after * epochs).sum() / epochs.sum()), error
    if average is Average.KNOWN:
        is_known = np.isfinite(after)
        return float(after[is_known].mean()) if is_known.any() else float("nan"), float("nan")
    if average is Average.GROWTH:
        return int(np.diff(values, axis=1, prepend=0)[:, is_after].sum()), float("nan")
    last = values[:, -1]
    return float(last.mean()) if average is Average.LAST else int(last.sum()), float("nan")


class Audited(NamedTuple):
    """What audits found along one direction: the mean of slopes, one a chain and audit, and its error.

    The error is over these samples, of which it is known with so many degrees of freedom; a single one has that of its
    own proposals.
    """

    value: float
    error: float
    freedom: float

    def scaled(self, factor: float) -> Audited:
        """In other units."""
        return Audited(float(factor * self.value), float(abs(factor) * self.error), self.freedom)

    def is_within(self, tolerance: float, looks: int = 1) -> bool | None:
        """Whether it is surely within a tolerance, or beyond it, where it is the worst of `looks`; None: undecided."""
        if not np.isfinite(self.error):
            return None
        from scipy.special import stdtrit

        # The error of few samples is itself uncertain: Student's t distribution instead of two errors.
        margin = float(stdtrit(self.freedom, 1.0 - _CHANCE / looks)) * self.error
        return (
            False if abs(self.value) - margin > tolerance else True if abs(self.value) + margin <= tolerance else None
        )


_ALL, _TINY = slice(None), 1e-12

_CHANCE = 0.025
"""That an error is said to be beyond the tolerance, or within it, and is not."""

_OF_ONE = 16
"""Degrees of freedom of the error of a single audit, whose proposals are 64 at least, of unequal weight."""

_FEWEST = 2.0
"""Degrees of freedom of the error of a shift, of which there are several, from which on the furthest is looked for."""

_NOT_AUDITED = Audited(float("nan"), float("nan"), 0.0)


def average_audits(
    records: Records, names: tuple[str, ...], is_after: np.ndarray, chains: np.ndarray | slice = _ALL
) -> Audited:
    """The mean of a column over chains, by default all of the run, and records, by weight."""
    value, stderr, weight = (records[name][chains][:, is_after] if name in records else None for name in names)
    if value is None or weight is None or not weight.sum() > 0:
        return _NOT_AUDITED
    is_known, error = weight > 0, float("nan")
    share, found = weight[is_known] / weight.sum(), value[is_known]
    mean = float((share * found).sum())
    if len(share) > 1:
        # What a sample weighs it draws the mean towards itself, and few that weigh most are as few as they are.
        rest = share * (found - mean) / np.sqrt(np.maximum(1.0 - share, _TINY))
        return Audited(mean, float(np.sqrt((rest**2).sum())), float(1.0 / (share**2).sum() - 1.0))
    if stderr is not None:
        error = float(stderr[is_known][0])
    # The proposals of an audit are of all chains of the run.
    return Audited(mean, error, _OF_ONE / len(records[names[0]]))


def error_of_s(records: Records, burn_in: int) -> Audited:
    """The relative error of s over all audits after burn-in; NaN where there were none."""
    return average_audits(records, AUDITED[0], after_burn_in(records, burn_in))


def spreads(records: Records, is_used: np.ndarray) -> np.ndarray:
    """Standard deviations (directions,) of the projections in some of the records; NaN where nothing is known."""
    used = (records[name][:, is_used] if name in records else np.zeros(0) for name in PROJECTIONS)
    return np.array([one.std() if one.size > 1 else np.nan for one in used])


def shifts_of_means(records: Records, burn_in: int) -> list[Audited]:
    """Shifts of the mean model in posterior standard deviations, by all audits after burn-in, where they are known.

    There is one for every s and each of three fixed directions: a force times the variance.
    """
    is_after = after_burn_in(records, burn_in)
    found = []
    for _, chains in chains_by_s(records["s"][:, -1]) if is_after.any() else []:
        widths = spreads({name: records[name][chains] for name in PROJECTIONS if name in records}, is_after)
        found += [average_audits(records, AUDITED[1 + k], is_after, chains).scaled(w) for k, w in enumerate(widths)]
    return [one for one in found if one.error > 0]


def furthest(found: Sequence[Audited]) -> Audited:
    """The one that is furthest from 0 in units of its error; NaN where none has an error."""
    known = [one for one in found if one.error > 0]
    return max(known, key=lambda one: abs(one.value) / one.error, default=_NOT_AUDITED)


def judge_shifts(found: Sequence[Audited], tolerance: float) -> tuple[bool | None, Audited]:
    """Whether all are within a tolerance, or one is beyond it, or None; and the furthest of those that decide it."""
    verdicts = [one.is_within(tolerance, len(found)) for one in found]
    verdict = False if False in verdicts else None if None in verdicts or not found else True
    return verdict, furthest([one for one, said in zip(found, verdicts, strict=True) if said is verdict])


def summarise_audits(records: Records, burn_in: int) -> dict[str, float]:
    """What audits found, as in a summary."""
    shifts = [one for one in shifts_of_means(records, burn_in) if one.freedom >= _FEWEST]
    tilt, shift = error_of_s(records, burn_in), furthest(shifts)
    s = float(records["s"][:, after_burn_in(records, burn_in)].mean())
    return {
        "tilt_error": tilt.value,
        "tilt_error_stderr": tilt.error,
        "s_effective": s * (1 + tilt.value),
        "mean_shift": shift.value,
        "mean_shift_stderr": shift.error,
    }


def is_beyond(records: Records, burn_in: int, tolerance: float | None) -> bool:
    """Whether audits after burn-in are sure that the error of s, or the shift of means, is beyond the tolerance."""
    if tolerance is None or not has_summary(records, burn_in):
        return False
    is_shift_kept, _ = judge_shifts(shifts_of_means(records, burn_in), tolerance)
    return False in (error_of_s(records, burn_in).is_within(tolerance), is_shift_kept)


def warn_of_audits(records: Records, burn_in: int, tolerance: float | None) -> None:
    """A RuntimeWarning if the audits after burn-in find an error of s, or a shift of means, beyond the tolerance."""
    if tolerance is None or not is_beyond(records, burn_in, tolerance):
        return
    tilt, (_, shift) = error_of_s(records, burn_in), judge_shifts(shifts_of_means(records, burn_in), tolerance)
    if tilt.is_within(tolerance) is False:
        found = (
            f"the run samples an s that is off by {tilt.value:+.1%} +- {tilt.error:.1%}, more than the tolerance of "
        )
        found += f"{tolerance:.1%}"
    else:
        found = f"the mean model is off by {shift.value:+.3f} +- {shift.error:.3f} posterior standard deviations, more "
        found += f"than the tolerance of {tolerance:g}"
    warnings.warn(
        f"{found}; give it a longer burn-in, in which batches are planned, or a smaller tolerance.",
        RuntimeWarning,
        stacklevel=4,
    )


def warn_if_not_finite(records: Records, first: int) -> None:
    """A RuntimeWarning if, from record number `first` on, a current model had a loss that is not finite."""
    current = int(records["current_not_finite"][:, first:].sum()) if records else 0
    unmeasured = int((~np.isfinite(records["loss"][:, first:])).sum()) if records else 0
    if current or unmeasured:
        warnings.warn(
            f"the loss of a current model was not finite on some examples: {current} decisions moved away from such a "
            f"model and {unmeasured} recorded losses are not finite; make the loss finite on all data.",
            RuntimeWarning,
            stacklevel=5,
        )
