"""What a run that trained by itself has chosen, and what to do next, in sentences that fit what it has shown."""

from __future__ import annotations

from typing import Any

import numpy as np

from trajens.records import Records
from trajens.run import Run
from trajens.sampling.course import ByData

_ERRORS = 3.0
_RECORDS = 8
_LOW_ACCEPTANCE = 0.1
_GROWTH = 1.1
_REACHED = 1.1


def report(run: Run) -> str:
    """What was chosen, the audited error of s, and what to do next, for a complete run of `trajens.train`."""
    found, tolerance = run.summary(), getattr(run.settings.acceptance, "tolerance", None)
    start = f"start: {run.standing.begun:.2g} pairs of losses per chain for an evolution strategy\n"
    moves = f", moves of size {found['move_size']:.2g}" if np.isfinite(found["move_size"]) else ""
    scores = ", examples drawn by their losses" if run.settings.is_scoring else ""
    asked = "" if tolerance is None else f" (tolerance {tolerance:.1%})"
    return (
        (start if run.standing.begun > 0 else "")
        + f"chosen: s = {_listed(run.s)}, sigma = {run.target.sigma:.3g}{moves}, batches of "
        + f"{found['batch_size']:.0f} of {run.target.problem.size}{scores}\n"
        + f"loss per model: {found['loss']:.4g}\nerror of s, audited: {audited_error(found)}{asked}\n"
        + f"next: {advice(run).replace('--', '')}"
    )


def audited_error(summary: dict[str, Any]) -> str:
    """The error of s in a summary, with its standard error."""
    if not np.isfinite(summary["tilt_error"]):
        return "too short for an audit"
    return f"{summary['tilt_error']:+.2%} +- {summary['tilt_error_stderr']:.2%}"


def _listed(values: np.ndarray) -> str:
    return ", ".join(f"{value:.4g}" for value in dict.fromkeys(values.tolist()))


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
    course = run.settings.course
    longer = f"trajens resume {out} --epochs {run.epochs}"
    if out is None:
        longer = "more --epochs" if course is None else "a larger --budget"
    acceptance = float(records["acceptance"].mean())
    if isinstance(course, ByData) and course.loss is not None and records["loss"].mean() > _REACHED * course.loss:
        return f"the loss of {course.loss:g} that was asked for was not reached: give it a larger --budget"
    if acceptance < _LOW_ACCEPTANCE:
        return f"acceptance is {acceptance:.2g}: a smaller --fraction changes less at a time and moves further"
    if run.target.prior is None and _grows(records):
        return "weights still grow, and nothing keeps them: give the first model a law with --prior 0.3"
    if records["loss"].shape[1] < _RECORDS:
        return "there are too few records after burn-in to say whether the loss still falls: ask for more --records"
    if _falls(records):
        return f"the loss still falls: go on with {longer}"
    if course is not None:
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
