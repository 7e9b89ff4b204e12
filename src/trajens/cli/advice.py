"""What to do next, in one sentence that fits what a run has shown."""

from __future__ import annotations

import numpy as np

from trajens.records import Records
from trajens.run import Run

_ERRORS = 3.0
_RECORDS = 8
_LOW_ACCEPTANCE = 0.1
_GROWTH = 1.1


def advice(run: Run, out: object = None) -> str:
    """The first that applies: smaller changes, a law of the first model, more records or epochs, a larger s.

    Parameters
    ----------
    run : Run
        A complete run of a network.
    out : path, optional
        Its directory.
    """
    records = {name: values[:, run.records["epoch"][0] > run.burn_in] for name, values in run.records.items()}
    is_by_data = run.settings.course is not None
    longer = "more --epochs" if out is None else f"trajens resume {out} --epochs {run.epochs}"
    if is_by_data and out is None:
        longer = "a larger --budget"
    acceptance = float(records["acceptance"].mean())
    if acceptance < _LOW_ACCEPTANCE:
        return f"acceptance is {acceptance:.2g}: a smaller --fraction changes less at a time and moves further"
    if run.target.prior is None and _grows(records):
        return "weights still grow, and nothing keeps them: give the first model a law with --prior 0.3"
    if records["loss"].shape[1] < _RECORDS:
        return "there are too few records after burn-in to say whether the loss still falls: ask for more --records"
    if _falls(records):
        return f"the loss still falls: go on with {longer}"
    if is_by_data:
        return "the loss has stopped falling at this s: a larger --budget takes it lower, more --chains vote better"
    return "the loss has stopped falling: a larger --s takes it lower, and longer batches with it"


def _halves(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    middle = values.shape[1] // 2
    return values[:, :middle], values[:, middle:]


def _grows(records: Records) -> bool:
    before, after = _halves(records["weight_rms"])
    return before.size > 0 and float(after[:, -1].mean()) > _GROWTH * float(before[:, 0].mean())


def _falls(records: Records) -> bool:
    """Whether the second half is lower than the first by more than chance would have it."""
    before, after = _halves(records["loss"])
    error = np.hypot(*(half.std(ddof=1) / np.sqrt(half.size) for half in (before, after)))
    return float(before.mean() - after.mean()) > _ERRORS * float(error)
