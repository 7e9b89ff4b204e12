"""A run as it is seen at one moment, and all that the page says of it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trajens.ensemble import chosen_chains
from trajens.errors import InputError, require
from trajens.experiments.acting import is_on_episodes
from trajens.records import has_summary
from trajens.report.returns import Returned, returned
from trajens.report.trial import Trial, trial_of
from trajens.run.advice import Finding, RunFacts, findings
from trajens.run.stored import StoredRun

_TRIES, _PAUSE = 3, 0.2


@dataclass(frozen=True)
class Seen:
    """A run at one moment.

    Attributes
    ----------
    name : str
        What it is called on the page.
    stored : StoredRun
    facts : RunFacts
    findings : list of Finding
    summary : dict or None
        Averages after burn-in, where there are some.
    trial : Trial or None
        Its ensemble on labelled data; None where it cannot be tried, and `why`.
    returned : Returned or None
        Its policies in fresh episodes, of a run on episodes.
    """

    name: str
    stored: StoredRun
    facts: RunFacts
    findings: list[Finding]
    summary: dict[str, Any] | None
    trial: Trial | None
    why: str
    returned: Returned | None = None


def seen(path: Path, data: Path | None = None, chain: int | str = 0) -> Seen:
    """The run in a directory, which may go on meanwhile.

    Parameters
    ----------
    path : Path
    data : Path, optional
        Labelled data to try it on; these must be readable. Default its test set, or what it was trained on, if that is
        to be had.
    chain : int or str
        Whose path is tried, from 0, or "all".
    """
    stored, facts = _read(path)
    chosen_chains(chain, stored.chains)
    summary = stored.summary() if has_summary(facts.records, facts.burn_in) else None
    found, why = None, ""
    if is_on_episodes(stored):
        require(data is None, f"data must be left out with a run on episodes, got '{data}'; leave it out.")
        name = path.resolve().name
        return Seen(name, stored, facts, findings(facts, path), summary, None, "", returned(stored, chain))
    try:
        found = trial_of(stored, data, chain)
    except InputError as error:
        if data is not None:
            raise
        why = f"The ensemble was not tried on data: {error}"
    return Seen(path.resolve().name, stored, facts, findings(facts, path), summary, found, why)


def _read(path: Path) -> tuple[StoredRun, RunFacts]:
    """A run and its records, of one checkpoint: one that goes on may replace the newest while it is read."""
    for _ in range(_TRIES - 1):
        try:
            stored = StoredRun(path)
            return stored, RunFacts.of(stored)
        except InputError:
            if not StoredRun(path).has_checkpoint:
                raise
            time.sleep(_PAUSE)
    stored = StoredRun(path)
    return stored, RunFacts.of(stored)
