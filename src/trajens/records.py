"""Records: what a run writes down at regular epochs, as arrays (chains, records) by name, and numbers made of them.

What columns there are is said by `trajens.columns.COLUMNS`.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np

from trajens.columns import COLUMNS, REASONS, Average

Records = dict[str, np.ndarray]

MAX_EPOCHS = 2**31 - 1
"""Epochs of a run at most: they are counted in 32 bits."""


def join_records(tables: list[Records]) -> Records:
    """Several tables, one after the other."""
    return {name: np.concatenate([table[name] for table in tables], axis=1) for name in tables[0]} if tables else {}


def num_records(records: Records) -> int:
    """Records of every chain."""
    return int(records["epoch"].shape[1]) if records else 0


class Started(NamedTuple):
    """What a start by evolution took, in pairs of losses per chain and of the budget, and the loss at its end."""

    pairs: float
    share: float
    loss: float


def summarise_start(start: Records, budget: float, chains: Any = None) -> Started:
    """Of the records of a start and a budget of pairs per chain; mean over all chains or those in `chains`."""
    select = slice(None) if chains is None else np.atleast_1d(chains)
    pairs, loss = (float(start[name][select, -1].mean()) for name in ("data_used", "loss"))
    return Started(pairs, pairs / budget, loss)


def learning_curve(start: Records, records: Records, chains: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of losses per chain, and the loss, of a start and of the path after it, in the mean over chains."""
    select = slice(None) if chains is None else np.atleast_1d(chains)
    tables = [table for table in (start, records) if table]
    pairs, loss = (
        np.concatenate([np.zeros(0), *(table[name][select].mean(0) for table in tables)])
        for name in ("data_used", "loss")
    )
    return pairs, loss


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
    """How much larger a standard error that was found from `count` independent values is by Student's law.

    With it a mean of normal values is within one error of its expectation in 68 % of cases, however few they are.
    """
    return _OF_TWO if count == 2 else float(np.polynomial.Polynomial(_EXPANSION)(1 / (count - 1)))


def mean_and_error(values: np.ndarray) -> tuple[float, float]:
    """Mean and standard error, by Student's law, of independent values; the error of a single one is NaN."""
    error = values.std(ddof=1) / np.sqrt(len(values)) * of_few(len(values)) if len(values) > 1 else np.nan
    return float(values.mean()), float(error)


def summarise(records: Records, burn_in: int) -> dict[str, Any]:
    """Averages of all columns over the records that lie after `burn_in`, each as its `Column.average` says.

    ``reasons`` are the columns that count decisions. Names that end in ``_stderr`` are standard errors over chains, by
    Student's law, NaN for a single one; that of ``tilt_error`` is over audits.
    """
    is_after = after_burn_in(records, burn_in)
    epochs = (records["epoch"] - starts(records))[:, is_after]
    found: dict[str, Any] = {}
    for column in COLUMNS:
        name = column.name
        if column.average is Average.AUDITS:
            found |= _tilt(records, is_after)
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


def _tilt(records: Records, is_after: np.ndarray) -> dict[str, float]:
    """The error of s over all audits, each chain and record one sample of it; NaN where there were none.

    A single sample has the standard error of its own proposals.
    """
    beta = error = float("nan")
    weight = _tilt_weight(records, is_after)
    if weight.sum() > 0:
        found = np.where(weight > 0, records["tilt_error"][:, is_after], 0.0)
        beta = float((weight * found).sum() / weight.sum())
        if (weight > 0).sum() == 1 and "tilt_stderr" in records:
            error = float(records["tilt_stderr"][:, is_after][weight > 0][0])
        elif (weight > 0).sum() > 1:
            error = float(np.sqrt(((weight * (found - beta)) ** 2).sum()) / weight.sum())
    s = float(records["s"][:, is_after].mean())
    return {"tilt_error": beta, "tilt_error_stderr": error, "s_effective": s * (1 + beta)}


def _tilt_weight(records: Records, is_after: np.ndarray) -> np.ndarray:
    return records["tilt_weight"][:, is_after] if "tilt_weight" in records else np.zeros((1, 0))


_SURELY = 0.975
"""Confidence that an error is beyond the tolerance, or within it, before either is said."""

_OF_ONE = 30
"""Degrees of freedom of the error of a single audit, whose proposals are 64 at least, of unequal weight."""


def is_within(records: Records, burn_in: int, tolerance: float) -> bool | None:
    """Whether audits after burn-in find the error of s within the tolerance, or beyond it; None: they cannot say."""
    if not has_summary(records, burn_in):
        return None
    is_after = after_burn_in(records, burn_in)
    samples = int((_tilt_weight(records, is_after) > 0).sum())
    if samples == 0:
        return None
    from scipy.special import stdtrit

    found = _tilt(records, is_after)
    # The error of few samples is itself uncertain: Student's law instead of two errors. One has that of its proposals.
    freedom = samples - 1 if samples > 1 else _OF_ONE
    beta, margin = abs(found["tilt_error"]), float(stdtrit(freedom, _SURELY)) * found["tilt_error_stderr"]
    return False if beta - margin > tolerance else True if beta + margin <= tolerance else None


def warn_of_tilt(records: Records, burn_in: int, tolerance: float | None) -> None:
    """A RuntimeWarning if the audits after burn-in find an error of s beyond the tolerance."""
    if tolerance is None or is_within(records, burn_in, tolerance) is not False:
        return
    found = _tilt(records, after_burn_in(records, burn_in))
    warnings.warn(
        f"the run samples an s that is off by {found['tilt_error']:+.1%} +- {found['tilt_error_stderr']:.1%}, more "
        f"than the tolerance of {tolerance:.1%}; give it a longer burn-in, in which batches are planned, or a smaller "
        "tolerance.",
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
