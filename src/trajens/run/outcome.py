"""What a run of `trajens.train` chose and came to, in words."""

from __future__ import annotations

from typing import Any

import numpy as np

from trajens.records import EVOLUTION, SEARCH
from trajens.run.advice import RunFacts, advice
from trajens.run.run import Run

_WAYS = {EVOLUTION: "an evolution strategy", SEARCH: f"{SEARCH}, without a fifth of the examples"}


def report(run: Run) -> str:
    """What was chosen, the audited error of s, and what to do next, for a complete run of `trajens.train`."""
    found, tolerance = run.summary(), run.settings.acceptance.tolerance
    facts = RunFacts.of(run)
    begun = facts.started()
    why = "as asked" if facts.is_s_asked else "what the budget can sample"
    if facts.likelihoods is not None:
        why = f"{facts.likelihoods:.2g} likelihoods of the examples in all models of a path; "
        why += "the best for examples held out" if facts.is_searched else "more learns them by heart"
    came = "" if begun is None else f", {begun.share:.0%} of the budget, to a loss of {begun.loss:.4g}"
    # Runs of earlier versions have pairs of an evolution strategy, and no records of it.
    way = _WAYS[EVOLUTION if begun is None else begun.way]
    start = f"start: {run.run_state.start_pairs:.2g} pairs of losses per chain for {way}{came}\n"
    moves = f", moves of size {found['move_size']:.2g}" if np.isfinite(found["move_size"]) else ""
    scores = ", examples drawn by their losses" if run.settings.is_reweighting else ""
    among = "" if run.target.problem.population.limit else among_examples(found["batch_size"], run.target.problem.size)
    asked = "" if tolerance is None else f" (tolerance {tolerance:.1%})"
    error = f"error of s, audited: {audited_error(found)}{asked}"
    if facts.is_exact:
        error = "error of s: none, every decision was made on all examples"
    return (
        (start if run.run_state.start_pairs > 0 else "")
        + f"chosen: s = {_listed(run.s)} ({why}), sigma = {run.target.sigma:.3g}{moves}, batches of "
        + f"{found['batch_size']:.0f}{among}{scores}\n"
        + f"loss per model: {found['loss']:.4g}\n{error}\n"
        + (f"shift of means, audited: {audited_shift(found)}\n" if np.isfinite(found["mean_shift_stderr"]) else "")
        + f"next: {advice(run).replace('--', '')}"
    )


def among_examples(batch: float, size: float) -> str:
    """What a mean batch is of: `size` examples, which come several times where they are drawn by their losses."""
    return f" of {size}" if batch <= size else f", some of the {size} several times"


def audited_error(summary: dict[str, Any]) -> str:
    """The error of s in a summary, with its standard error."""
    if not np.isfinite(summary["tilt_error"]):
        return "too short for an audit"
    return f"{summary['tilt_error']:+.2%} +- {summary['tilt_error_stderr']:.2%}"


def audited_shift(summary: dict[str, Any]) -> str:
    """The shift of means in a summary, with its standard error, in posterior standard deviations."""
    if not np.isfinite(summary["mean_shift_stderr"]):
        return "not known"
    return f"{summary['mean_shift']:+.3f} +- {summary['mean_shift_stderr']:.3f} sd"


def _listed(values: np.ndarray) -> str:
    return ", ".join(f"{value:.4g}" for value in dict.fromkeys(values.tolist()))
