"""What a run has chosen, whether it can be relied on, and what to do next, in sentences that fit what it has shown.

`RunFacts` are what is known of a run, in memory or at rest; `findings` are made of them, and `advice` is taken from
those.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from trajens.columns import REASONS
from trajens.convergence import Converged, Group, by_s
from trajens.convergence.criteria import FEWEST_DRAWS
from trajens.files import in_shell
from trajens.records import (
    Records,
    Started,
    error_of_s,
    has_summary,
    judge_shifts,
    shifts_of_means,
    summarise_start,
)
from trajens.run.audits import pairs_for_audit
from trajens.run.control import LIKELIHOODS, Budget, likelihood_s
from trajens.run.run import Run
from trajens.run.search import best_likelihoods
from trajens.run.stored import StoredRun

_ERRORS = 3.0
_RECORDS = 8
_LOW_ACCEPTANCE, _HIGH_ACCEPTANCE = 0.1, 0.9
_GROWTH = 1.1
_REACHED = 1.1
_FEW_CAPPED = 0.01
_NEAR_LARGEST = 0.9
"""Share of the largest s from which on a run has stopped there."""
_BY_HEART_RATIO, _RISEN_RATIO = 2.0, 1.2
"""Ratios of the loss of held-out examples to the training loss, and to the lowest it has been, above which models have
learned the training set by heart."""
_STILL, _FEW_RENEWALS = 0.02, 20.0
"""Relative distance from where s ends up to which it stands still, and renewals of the path since then to follow it."""
CONVERGENCE = "Convergence"
_RHAT_SURELY = 1.1
"""An R-hat that few draws do not explain."""

OK, ATTENTION, UNKNOWN = "ok", "attention", "unknown"
"""What a finding may come to."""


class Finding(NamedTuple):
    """One thing that was looked at in a run.

    Attributes
    ----------
    name : str
        What it is about, in a word or two.
    mark : str
        `OK`, `ATTENTION` or `UNKNOWN`.
    sentence : str
        What was found, with its number.
    following : str
        What to do about it; empty where there is nothing to do.
    """

    name: str
    mark: str
    sentence: str
    following: str = ""


@dataclass(frozen=True)
class RunFacts:
    """What is known of a run, in memory or at rest, and what findings are made of.

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
    is_s_asked : bool
        Whether s was given to a run by data.
    start : Records
        Those of its start; empty where there was none that took pairs of losses.
    likelihoods : float or None
        Of the examples, that the models of a path weigh together where s stopped for them; None where it did not.
    is_searched : bool
        Whether that is what predicts examples that are held out best; else more would learn examples by heart.
    variance : float or None
        Of labels that are numbers around a model, on what was held out for a search alone.
    is_start_common : bool
        Whether several chains began at one model.
    size : float
        Examples.
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
    is_s_asked: bool = False
    start: Records = field(default_factory=dict)
    likelihoods: float | None = None
    is_searched: bool = False
    variance: float | None = None
    is_start_common: bool = False
    size: float = math.inf

    @classmethod
    def of(cls, run: Run | StoredRun) -> RunFacts:
        """The facts of a run, from its records and its description."""
        known = run.description
        controller = known.get("controller")
        controller = controller if isinstance(controller, dict) else {}
        asked, likelihoods = controller.get("asked"), _likelihoods(run, controller)
        return cls(
            records=run.records,
            burn_in=run.burn_in,
            epochs=run.epochs if isinstance(run, Run) else run.epoch,
            last_epoch=int(run.marks[-1]),
            is_complete=run.is_complete,
            prior=known.get("prior"),
            tolerance=known.get("tolerance"),
            is_exact=bool(known.get("is_exact")),
            pairs=controller.get("pairs"),
            asked_loss=controller.get("loss"),
            asked=Converged(**{k: v for k, v in asked.items() if k != "type"}) if asked else None,
            is_s_asked=bool(controller.get("is_to_s")),
            start=run.start_records,
            likelihoods=likelihoods,
            variance=_variance(run, known, likelihoods),
            is_searched=controller.get("searched_on") is not None,
            is_start_common=run.is_start_common,
            size=float(known.get("examples") or math.inf),
        )

    def started(self, chains: Any = None) -> Started | None:
        """What the start took and came to, in the mean over all chains or those in `chains`; None without one."""
        if self.pairs is None or not self.start or not self.start["data_used"].size:
            return None
        return summarise_start(self.start, self.pairs, chains)

    @property
    def after(self) -> Records:
        """The records after burn-in; none where there are none."""
        if not self.records:
            return {}
        is_after = self.records["epoch"][0] > self.burn_in
        return {name: values[:, is_after] for name, values in self.records.items()} if is_after.any() else {}


def _likelihoods(run: Run | StoredRun, controller: dict[str, Any]) -> float | None:
    """What the s of a run by data comes to in likelihoods, where it was searched for or is as large as it may be."""
    known, records = {f.name: controller[f.name] for f in fields(Budget) if f.name in controller}, run.records
    if known.get("is_searched_before"):
        return best_likelihoods(run.search, known["searched_on"])
    if not records or known.get("likely_size") is None:
        return None
    budget, held_out = Budget(**known), records.get("loss_held_out", np.full((1, 1), np.nan))
    # In burn-in s follows the loss of examples that are held out: that at the record before it stood still.
    before = max(int(np.flatnonzero(records["s"][0] == records["s"][0, -1])[0]) - 1, 0)
    found = float(records["s"][0, -1]) / budget.largest_s(float(held_out[:, before % held_out.shape[1]].mean()), 1.0)
    return found if found > 0 and (budget.searched_on is not None or found >= _NEAR_LARGEST * LIKELIHOODS) else None


def _variance(run: Run | StoredRun, known: dict[str, Any], likelihoods: float | None) -> float | None:
    """The variance v in s = c N / (tau v), of a run that began with a search."""
    if likelihoods is None or not known["controller"].get("is_searched_before"):
        return None
    controller = known["controller"]
    return likelihood_s(controller["likely_size"], known["tau"], likelihoods=likelihoods) / float(run.s[0])


def advice(run: Run | StoredRun, out: str | Path | None = None) -> str:
    """The first that applies: smaller changes, a prior, more records or epochs, a larger s.

    Parameters
    ----------
    run : Run or StoredRun
        A complete run of a network.
    out : path, optional
        Its directory.
    """
    facts = RunFacts.of(run)
    if following := [found.following for found in findings(facts, out) if found.following]:
        return following[0]
    if facts.likelihoods is not None:
        return "s is what suits so many examples: more --chains vote better, and more data allow a larger s"
    if facts.pairs is not None:
        return "the loss has stopped falling at this s: a larger --budget takes it lower, more --chains vote better"
    return "the loss has stopped falling: a larger --s takes it lower, and longer batches with it"


def findings(facts: RunFacts, out: str | Path | None = None) -> list[Finding]:
    """All that is looked at, the most urgent first; `out` is the directory of the run."""
    longer = "more --epochs" if facts.pairs is None else "a larger --budget"
    if out is not None:
        longer = f"trajens resume {in_shell(out)} --epochs {facts.epochs}"
    found = [_length(facts), _finite(facts), _asked(facts), _held_out(facts), _acceptance(facts), _weights(facts)]
    found.append(_loss(facts, longer))
    found += [agreement(facts.records, facts.burn_in, facts.asked, longer), _start(facts), _lag(facts, longer)]
    return [finding for finding in (*found, _capped(facts), _tolerance(facts), _shift(facts)) if finding is not None]


def _length(facts: RunFacts) -> Finding:
    name = "Length"
    if facts.is_complete:
        return Finding(name, OK, f"The run is complete: {facts.epochs:,} epochs, {facts.burn_in:,} of them burn-in.")
    far = f"epoch {facts.epochs:,} of {facts.last_epoch:,}"
    if facts.pairs is not None:
        used = float(facts.records["data_used"][:, -1].mean()) if "data_used" in facts.records else 0.0
        far = f"epoch {facts.epochs:,}, with {used / facts.pairs:.0%} of its budget used"
    return Finding(name, ATTENTION, f"The run is under way, or was stopped, at {far}: what is said here may change.")


def _finite(facts: RunFacts) -> Finding | None:
    """None where every loss was finite, as it should be."""
    losses, counts = facts.records.get("loss"), facts.records.get("current_not_finite")
    unmeasured = 0 if losses is None else int((~np.isfinite(losses)).sum())
    moved = 0 if counts is None else int(counts.sum())
    if not unmeasured and not moved:
        return None
    sentence = f"{unmeasured} recorded losses were not finite, and {moved} decisions moved away from such a model."
    following = "the loss was not finite on some examples: make it finite on all data"
    return Finding("Finite loss", ATTENTION, sentence, following)


def _asked(facts: RunFacts) -> Finding | None:
    """None where no loss was asked for."""
    if facts.asked_loss is None or not facts.after:
        return None
    name, loss, asked = "Loss asked for", float(facts.after["loss"].mean()), f"{facts.asked_loss:g}"
    if loss > _REACHED * facts.asked_loss:
        following = f"the loss of {asked} that was asked for was not reached: give it a larger --budget"
        return Finding(name, ATTENTION, f"It is {loss:.4g}; {asked} was asked for and not reached.", following)
    return Finding(name, OK, f"It is {loss:.4g}; {asked} was asked for.")


def _acceptance(facts: RunFacts) -> Finding:
    name = "Acceptance"
    if not facts.after:
        return Finding(name, UNKNOWN, "There is no record after burn-in yet.")
    found = float(facts.after["acceptance"].mean())
    if found < _LOW_ACCEPTANCE:
        following = f"acceptance is {found:.2g}: a smaller --fraction changes less at a time and moves further"
        return Finding(name, ATTENTION, f"{found:.1%} of the proposals were accepted, which is little.", following)
    if found > _HIGH_ACCEPTANCE:
        sentence = f"{found:.1%} of the proposals were accepted: changes are so small that paths move slowly."
        return Finding(name, ATTENTION, sentence)
    return Finding(name, OK, f"{found:.1%} of the proposals were accepted, which is sensible.")


def _weights(facts: RunFacts) -> Finding:
    name, records = "Weights", facts.after
    if not records or _halves(records["weight_rms"])[0].size == 0:
        return Finding(name, UNKNOWN, "There are too few records after burn-in to say whether weights drift.")
    first, last = _ends(records)
    far = f"their root mean square went from {first:.3g} after burn-in to {last:.3g}"
    far += f" ({last / first - 1:+.1%})" if first > 0 else ""
    if not _grows(records):
        return Finding(name, OK, f"Weights do not drift: {far}.")
    if facts.prior is None:
        following = "weights still grow, and nothing keeps them: give the first model a prior with --prior 0.3"
        return Finding(name, ATTENTION, f"Weights still grow, and no prior keeps them: {far}.", following)
    return Finding(name, ATTENTION, f"Weights still grow, so the path is not in equilibrium yet: {far}.")


def _loss(facts: RunFacts, longer: str) -> Finding:
    name, records = "Loss", facts.after
    count = records["loss"].shape[1] if records else 0
    if count < _RECORDS:
        few = "too few records after burn-in to say whether the loss still falls"
        following = f"there are {few}: ask for more --records"
        return Finding(name, UNKNOWN, f"There are {few}: {count}, of {_RECORDS} that are needed.", following)
    before, after = (float(half.mean()) for half in _halves(records["loss"]))
    apart, error = before - after, _error_apart(records["loss"])
    if not np.isfinite(apart):
        return Finding(name, UNKNOWN, "The loss was not finite in some records after burn-in.")
    halves = f"{before:.4g} and {after:.4g} in the two halves after burn-in"
    far = f", {abs(apart) / error:.1f} standard errors apart" if error > 0 else ""
    if _falls(records):
        sentence = f"The loss still falls: {halves}{far} (more than {_ERRORS:g} are no chance)."
        return Finding(name, ATTENTION, sentence, f"the loss still falls: go on with {longer}")
    return Finding(name, OK, f"The loss has stopped falling: {halves}{far}.")


def _start(facts: RunFacts) -> Finding | None:
    """None where chains began apart, or there is one."""
    if not facts.is_start_common:
        return None
    sentence = "All chains began at one model: that they agree does not say that there is nothing elsewhere."
    return Finding("Start", UNKNOWN, sentence)


def renewals_at_s(records: Records) -> float:
    """How often the path was renewed since s stands still, in the mean over chains."""
    s = records["s"].mean(0)
    is_off = np.flatnonzero(np.abs(s - s[-1]) > _STILL * np.abs(s[-1]))
    since = int(is_off[-1]) + 1 if is_off.size else 0
    return float(records["renewals"].mean(0)[since:].sum())


def _lag(facts: RunFacts, longer: str) -> Finding | None:
    """Whether paths had the time to follow s; None where nothing was recorded that says so."""
    if not facts.after or "renewals" not in facts.records:
        return None
    found = renewals_at_s(facts.records)
    renewed = f"renewed {found:.3g} times since s stands still"
    if found >= _FEW_RENEWALS:
        return Finding("Lag", OK, f"Paths have had time to follow s: they were {renewed}.")
    sentence = f"Paths may lag behind s: they were {renewed}, of {_FEW_RENEWALS:g} that are needed."
    return Finding("Lag", ATTENTION, sentence, f"paths may lag behind s: go on with {longer}, or try a smaller --s")


def _held_out(facts: RunFacts) -> Finding | None:
    """Whether examples that were not trained on are predicted as well; None where there are none."""
    after = facts.after
    if "loss_held_out" not in after:
        return None
    training, fresh = (float(after[name].mean()) for name in ("loss", "loss_held_out"))
    lowest = float(facts.records["loss_held_out"].mean(0).min())
    compared = f"a loss per model of {training:.4g} on the training set, {fresh:.4g} on examples held out"
    if fresh > _BY_HEART_RATIO * training and fresh > _RISEN_RATIO * lowest:
        sentence = f"The run has learned the training set by heart: {compared}, where it has been {lowest:.4g}."
        return Finding("Held out", ATTENTION, sentence, "it has learned the training set by heart: try a smaller --s")
    return Finding("Held out", OK, f"There is no sign that the training set is known by heart: {compared}.")


def _capped(facts: RunFacts) -> Finding | None:
    """None where no decision may be cut off."""
    if "capped" not in facts.after:
        return None
    name, share = "Batches", float(facts.after["capped"].sum() / sum(facts.after[reason].sum() for reason in REASONS))
    if share < _FEW_CAPPED:
        return Finding(name, OK, f"{share:.1%} of the decisions asked for more examples than max_batch.")
    sentence = (
        f"{share:.1%} of the decisions asked for more examples than max_batch, and were noisier than they should."
    )
    return Finding(name, ATTENTION, sentence, "decisions are cut off at max_batch examples: make the stream's larger")


def _tolerance(facts: RunFacts) -> Finding:
    name = "Tolerance of s"
    if facts.is_exact:
        return Finding(name, OK, "Every decision was made on all data, so that s is exactly what was asked for.")
    if not has_summary(facts.records, facts.burn_in) or "tilt_error" not in facts.records:
        return Finding(name, UNKNOWN, "There is no audit after burn-in yet, so the error of s is not known.")
    found = error_of_s(facts.records, facts.burn_in)
    if not np.isfinite(found.value):
        short = "It was too short for an audit after burn-in, so the error of s is not known"
        records = facts.records
        takes = pairs_for_audit(facts.size, float(records["batch_size"].max()), len(records["loss"]))
        return Finding(name, UNKNOWN, f"{short}: that takes about {takes:.2g} pairs of losses per chain.")
    error = f"the audited error of s is {found.value:+.2%} +- {found.error:.2%}"
    if facts.tolerance is None:
        return Finding(name, UNKNOWN, f"No tolerance was asked for; {error}.")
    return _kept(name, error, f"{facts.tolerance:.1%}", found.is_within(facts.tolerance))


def _shift(facts: RunFacts) -> Finding | None:
    """Whether means are within the tolerance; None where decisions are exact, or nothing is known."""
    if facts.is_exact or facts.tolerance is None or not has_summary(facts.records, facts.burn_in):
        return None
    is_kept, found = judge_shifts(shifts_of_means(facts.records, facts.burn_in), facts.tolerance)
    if not np.isfinite(found.error):
        return None
    error = f"small batches move the mean model by {found.value:+.3f} +- {found.error:.3f}"
    return _kept("Tolerance of means", f"{error} posterior standard deviations", f"{facts.tolerance:g}", is_kept)


def _kept(name: str, error: str, tolerance: str, is_kept: bool | None) -> Finding:
    """The finding on an audited error."""
    asked = f"the tolerance of {tolerance}"
    if is_kept is None:
        return Finding(name, UNKNOWN, f"Undecided: {error}, which neither keeps nor breaks {asked} for sure.")
    if is_kept:
        return Finding(name, OK, f"Kept: {error}, within {asked}.")
    following = f"the audited error is beyond {asked}: a longer burn-in, or a smaller --tolerance, plans better"
    return Finding(name, ATTENTION, f"Not kept: {error}, beyond {asked}.", following)


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


def agreement(records: Records, burn_in: int, asked: Converged | None, longer: str) -> Finding:
    """The finding on R-hat and effective draws after burn-in.

    Parameters
    ----------
    records : Records
    burn_in : int
    asked : Converged, optional
        What the run was to go on for; default the usual, of which is only said whether it is there.
    longer : str
        How to go on; empty where that is not to be advised.
    """
    usual = Converged() if asked is None else asked
    groups = by_s(records, burn_in, usual.superchains)
    if not groups or groups[0].draws < FEWEST_DRAWS:
        draws = groups[0].draws if groups else 0
        few = f"{draws} records after burn-in, of {FEWEST_DRAWS} that are needed"
        return Finding(CONVERGENCE, UNKNOWN, f"Cannot say whether chains agree: there are {few}.")
    worst = max(groups, key=lambda group: np.inf if np.isnan(group.rhat) else group.rhat)
    fewest = min(group.ess for group in groups)
    lacking = usual.lacking(groups)
    found = f"{_rhat(worst, len(groups), usual)}, and the number of effective draws is {fewest:,.0f}"
    if not lacking:
        return Finding(CONVERGENCE, OK, f"{_who(worst)} agree: {found}.")
    if asked is not None:
        following = f"the run has not converged as was asked: go on with {longer}" if longer else ""
        return Finding(CONVERGENCE, ATTENTION, f"Asked for and not reached: {'; '.join(lacking)}.", following)
    if not np.isfinite(fewest) or np.isnan(worst.rhat):
        return Finding(CONVERGENCE, UNKNOWN, "Cannot say whether chains agree: nothing changes, or is not finite.")
    if worst.rhat > _RHAT_SURELY or (fewest >= usual.ess and worst.rhat > usual.rhat):
        following = f"{_who(worst).lower()} do not agree yet: go on with {longer}" if longer else ""
        return Finding(CONVERGENCE, ATTENTION, f"{_who(worst)} do not agree yet: {found}.", following)
    if fewest < usual.ess:
        few = f"{usual.ess:g} are needed to tell for sure"
        return Finding(CONVERGENCE, UNKNOWN, f"Cannot say whether {_who(worst).lower()} agree: {found}; {few}.")
    return Finding(CONVERGENCE, ATTENTION, f"{_who(worst)} agree, but the run still moves: {'; '.join(lacking)}.")


def _who(group: Group) -> str:
    return "The halves of the chain" if len(group.chains) == 1 else "Chains"


def _rhat(worst: Group, groups: int, asked: Converged) -> str:
    kind = "R-hat" if asked.superchains is None else "nested R-hat"
    where = f" at s = {worst.s:.4g}, where it is worst" if groups > 1 else ""
    return f"{kind} of loss and models is {worst.rhat:.3f}{where} (good: {asked.rhat:g} at most)"
