"""What a run has chosen, whether it can be relied on, and what to do next, in sentences that fit what it has shown.

A `Case` is what is judged of a run, in memory or at rest; `judgements` are made of it, and `advice` is taken from them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trajens import acceptance as tests
from trajens.agreement import agreement
from trajens.convergence import Converged
from trajens.judgement import ATTENTION, OK, UNKNOWN, Judgement
from trajens.records import Records, Started, has_summary, is_within, started, summarise
from trajens.run import Run
from trajens.sampling.course import ByData
from trajens.sampling.recording import REASONS
from trajens.sampling.until import UntilConverged
from trajens.storage.stored import StoredRun

_ERRORS = 3.0
_RECORDS = 8
_LOW_ACCEPTANCE, _HIGH_ACCEPTANCE = 0.1, 0.9
_GROWTH = 1.1
_REACHED = 1.1
_FEW_CAPPED = 0.01


@dataclass(frozen=True)
class Case:
    """What is judged of a run.

    Attributes
    ----------
    records : Records
        All of them.
    burn_in, epochs, last_epoch : int
    is_complete : bool
    prior, tolerance : float or None
    is_exact : bool
        Whether every decision is made on all data.
    pairs : float or None
        The budget of every chain, of a run by data.
    asked_loss : float or None
        The loss that s was to rise to.
    asked : Converged or None
        What the run was to go on for.
    start : Records
        Those of its start by evolution; empty where there was none.
    """

    records: Records
    burn_in: int
    epochs: int
    last_epoch: int
    is_complete: bool
    prior: float | None
    tolerance: float | None
    is_exact: bool
    pairs: float | None
    asked_loss: float | None
    asked: Converged | None = None
    start: Records = field(default_factory=dict)

    @classmethod
    def of(cls, run: Run | StoredRun) -> Case:
        """A run in memory, or one at rest, of which is known what its parts call themselves."""
        if isinstance(run, Run):
            test, course = run.settings.acceptance, run.settings.course
            by_data = course if isinstance(course, ByData) else None
            return cls(
                run.records,
                run.burn_in,
                run.epochs,
                int(run.marks[-1]),
                run.is_complete,
                run.target.prior,
                getattr(test, "tolerance", None),
                test.takes_all_data,
                None if by_data is None else by_data.pairs,
                None if by_data is None else by_data.loss,
                course.asked if isinstance(course, UntilConverged) else None,
                run.start_records,
            )
        known = run.identity
        test_name = str(known.get("acceptance"))
        return cls(
            run.records,
            run.burn_in,
            run.epoch,
            run.last_epoch,
            run.is_complete,
            known.get("prior"),
            _number_in(test_name, "tolerance"),
            bool(getattr(getattr(tests, test_name.split("(")[0], None), "takes_all_data", False)),
            _number_in(known.get("course"), "pairs"),
            _number_in(known.get("course"), "loss"),
            _asked_in(known.get("course")),
            run.start_records,
        )

    def started(self, chains: Any = None) -> Started | None:
        """What the start took and came to, in the mean over all chains or those in `chains`; None without one."""
        return None if self.pairs is None or not self.start else started(self.start, self.pairs, chains)

    @property
    def after(self) -> Records:
        """The records after burn-in; none where there are none."""
        if not self.records:
            return {}
        is_after = self.records["epoch"][0] > self.burn_in
        return {name: values[:, is_after] for name, values in self.records.items()} if is_after.any() else {}


def report(run: Run) -> str:
    """What was chosen, the audited error of s, and what to do next, for a complete run of `trajens.train`."""
    found, tolerance = run.summary(), getattr(run.settings.acceptance, "tolerance", None)
    begun = Case.of(run).started()
    came = "" if begun is None else f", {begun.share:.0%} of the budget, to a loss of {begun.loss:.4g}"
    start = f"start: {run.standing.begun:.2g} pairs of losses per chain for an evolution strategy{came}\n"
    moves = f", moves of size {found['move_size']:.2g}" if np.isfinite(found["move_size"]) else ""
    scores = ", examples drawn by their losses" if run.settings.is_scoring else ""
    among = "" if run.target.problem.population.limit else f" of {run.target.problem.size}"
    asked = "" if tolerance is None else f" (tolerance {tolerance:.1%})"
    return (
        (start if run.standing.begun > 0 else "")
        + f"chosen: s = {_listed(run.s)}, sigma = {run.target.sigma:.3g}{moves}, batches of "
        + f"{found['batch_size']:.0f}{among}{scores}\n"
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


def advice(run: Run | StoredRun, out: object = None) -> str:
    """The first that applies: smaller changes, a law of the first model, more records or epochs, a larger s.

    Parameters
    ----------
    run : Run or StoredRun
        A complete run of a network.
    out : path, optional
        Its directory.
    """
    case = Case.of(run)
    following = [found.following for found in judgements(case, out) if found.following]
    if following:
        return following[0]
    if case.pairs is not None:
        return "the loss has stopped falling at this s: a larger --budget takes it lower, more --chains vote better"
    return "the loss has stopped falling: a larger --s takes it lower, and longer batches with it"


def judgements(case: Case, out: object = None) -> list[Judgement]:
    """All that is looked at, the most urgent first; `out` is the directory of the run."""
    longer = f"trajens resume {out} --epochs {case.epochs}"
    if out is None:
        longer = "more --epochs" if case.pairs is None else "a larger --budget"
    found = [_length(case), _finite(case), _asked(case), _acceptance(case), _weights(case), _loss(case, longer)]
    agreed = agreement(case.records, case.burn_in, case.asked, longer if case.pairs is None else "")
    return [judgement for judgement in (*found, agreed, _capped(case), _tolerance(case)) if judgement is not None]


def _length(case: Case) -> Judgement:
    name = "Length"
    if case.is_complete:
        return Judgement(name, OK, f"The run is complete: {case.epochs:,} epochs, {case.burn_in:,} of them burn-in.")
    far = f"epoch {case.epochs:,} of {case.last_epoch:,}"
    if case.pairs is not None:
        used = float(case.records["data_used"][:, -1].mean()) if "data_used" in case.records else 0.0
        far = f"epoch {case.epochs:,}, with {used / case.pairs:.0%} of its budget used"
    return Judgement(name, ATTENTION, f"The run is under way, or was stopped, at {far}: what is said here may change.")


def _finite(case: Case) -> Judgement | None:
    """None where every loss was finite, as it should be."""
    losses, counts = case.records.get("loss"), case.records.get("current_not_finite")
    unmeasured = 0 if losses is None else int((~np.isfinite(losses)).sum())
    moved = 0 if counts is None else int(counts.sum())
    if not unmeasured and not moved:
        return None
    sentence = f"{unmeasured} recorded losses were not finite, and {moved} decisions moved away from such a model."
    following = "the loss was not finite on some examples: make it finite on all data"
    return Judgement("Finite loss", ATTENTION, sentence, following)


def _asked(case: Case) -> Judgement | None:
    """None where no loss was asked for."""
    if case.asked_loss is None or not case.after:
        return None
    name, loss, asked = "Loss asked for", float(case.after["loss"].mean()), f"{case.asked_loss:g}"
    if loss > _REACHED * case.asked_loss:
        following = f"the loss of {asked} that was asked for was not reached: give it a larger --budget"
        return Judgement(name, ATTENTION, f"It is {loss:.4g}; {asked} was asked for and not reached.", following)
    return Judgement(name, OK, f"It is {loss:.4g}; {asked} was asked for.")


def _acceptance(case: Case) -> Judgement:
    name = "Acceptance"
    if not case.after:
        return Judgement(name, UNKNOWN, "There is no record after burn-in yet.")
    found = float(case.after["acceptance"].mean())
    if found < _LOW_ACCEPTANCE:
        following = f"acceptance is {found:.2g}: a smaller --fraction changes less at a time and moves further"
        return Judgement(name, ATTENTION, f"{found:.1%} of the proposals were accepted, which is little.", following)
    if found > _HIGH_ACCEPTANCE:
        sentence = f"{found:.1%} of the proposals were accepted: changes are so small that paths move slowly."
        return Judgement(name, ATTENTION, sentence)
    return Judgement(name, OK, f"{found:.1%} of the proposals were accepted, which is sensible.")


def _weights(case: Case) -> Judgement:
    name, records = "Weights", case.after
    if not records or _halves(records["weight_rms"])[0].size == 0:
        return Judgement(name, UNKNOWN, "There are too few records after burn-in to say whether weights drift.")
    first, last = _ends(records)
    far = f"their root mean square went from {first:.3g} after burn-in to {last:.3g}"
    far += f" ({last / first - 1:+.1%})" if first > 0 else ""
    if not _grows(records):
        return Judgement(name, OK, f"Weights do not drift: {far}.")
    if case.prior is None:
        following = "weights still grow, and nothing keeps them: give the first model a law with --prior 0.3"
        return Judgement(name, ATTENTION, f"Weights still grow, and no prior keeps them: {far}.", following)
    return Judgement(name, ATTENTION, f"Weights still grow, so the path is not in equilibrium yet: {far}.")


def _loss(case: Case, longer: str) -> Judgement:
    name, records = "Loss", case.after
    count = records["loss"].shape[1] if records else 0
    if count < _RECORDS:
        few = "too few records after burn-in to say whether the loss still falls"
        following = f"there are {few}: ask for more --records"
        return Judgement(name, UNKNOWN, f"There are {few}: {count}, of {_RECORDS} that are needed.", following)
    before, after = (float(half.mean()) for half in _halves(records["loss"]))
    apart, error = before - after, _error_apart(records["loss"])
    if not np.isfinite(apart):
        return Judgement(name, UNKNOWN, "The loss was not finite in some records after burn-in.")
    halves = f"{before:.4g} and {after:.4g} in the two halves after burn-in"
    far = f", {abs(apart) / error:.1f} standard errors apart" if error > 0 else ""
    if _falls(records):
        sentence = f"The loss still falls: {halves}{far} (more than {_ERRORS:g} are no chance)."
        return Judgement(name, ATTENTION, sentence, f"the loss still falls: go on with {longer}")
    return Judgement(name, OK, f"The loss has stopped falling: {halves}{far}.")


def _capped(case: Case) -> Judgement | None:
    """None where no decision may be cut off."""
    if "capped" not in case.after:
        return None
    name, share = "Batches", float(case.after["capped"].sum() / sum(case.after[reason].sum() for reason in REASONS))
    if share < _FEW_CAPPED:
        return Judgement(name, OK, f"{share:.1%} of the decisions asked for more examples than max_batch.")
    sentence = (
        f"{share:.1%} of the decisions asked for more examples than max_batch, and were noisier than they should."
    )
    return Judgement(name, ATTENTION, sentence, "decisions are cut off at max_batch examples: make the stream's larger")


def _tolerance(case: Case) -> Judgement:
    name = "Tolerance of s"
    if case.is_exact:
        return Judgement(name, OK, "Every decision was made on all data, so that s is exactly what was asked for.")
    if not has_summary(case.records, case.burn_in) or "tilt_error" not in case.records:
        return Judgement(name, UNKNOWN, "There is no audit after burn-in yet, so the error of s is not known.")
    found = summarise(case.records, case.burn_in, ())
    if not np.isfinite(found["tilt_error"]):
        return Judgement(name, UNKNOWN, "It was too short for an audit after burn-in, so the error of s is not known.")
    error = f"the audited error of s is {audited_error(found)}"
    if case.tolerance is None:
        return Judgement(name, UNKNOWN, f"No tolerance was asked for; {error}.")
    asked, is_kept = f"the tolerance of {case.tolerance:.1%}", is_within(case.records, case.burn_in, case.tolerance)
    if is_kept is None:
        return Judgement(name, UNKNOWN, f"Undecided: {error}, which neither keeps nor breaks {asked} for sure.")
    if is_kept:
        return Judgement(name, OK, f"Kept: {error}, within {asked}.")
    following = "the error of s is beyond its tolerance: a longer burn-in, or a smaller --tolerance, plans better"
    return Judgement(name, ATTENTION, f"Not kept: {error}, beyond {asked}.", following)


def _halves(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    middle = values.shape[1] // 2
    return values[:, :middle], values[:, middle:]


def _ends(records: Records) -> tuple[float, float]:
    """Size of the weights at the first record, and at the last."""
    return float(records["weight_rms"][:, 0].mean()), float(records["weight_rms"][:, -1].mean())


def _grows(records: Records) -> bool:
    first, last = _ends(records)
    return last > _GROWTH * first


def _error_apart(values: np.ndarray) -> float:
    """Of the difference between the means of two halves."""
    return float(np.hypot(*(half.std(ddof=1) / np.sqrt(half.size) for half in _halves(values))))


def _falls(records: Records) -> bool:
    """Whether the second half is lower than the first by more than chance would have it."""
    before, after = _halves(records["loss"])
    return float(before.mean() - after.mean()) > _ERRORS * _error_apart(records["loss"])


def _number_in(text: str | None, name: str) -> float | None:
    """The number that a part of a run has under `name`, from what it calls itself; None where there is none."""
    found = re.search(rf"\b{name}=([-+.\d][-+.\deE]*)", text or "")
    return None if found is None else float(found[1])


def _asked_in(course: str | None) -> Converged | None:
    """What a course that goes on until chains have converged asks for."""
    if course is None or "rhat=" not in course:
        return None
    rhat, ess, error, superchains = (_number_in(course, name) for name in ("rhat", "ess", "error", "superchains"))
    return Converged(
        rhat or Converged.rhat, ess or Converged.ess, error, None if superchains is None else int(superchains)
    )
