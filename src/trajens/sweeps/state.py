"""The state of every run of a sweep, read from its files alone."""

from __future__ import annotations

import json
from collections import Counter
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from trajens.files import write_atomically
from trajens.storage.checkpoint import checkpoints
from trajens.storage.directory import CONFIG
from trajens.sweeps.kept import SweepDirectory
from trajens.sweeps.lease import holder


class State(StrEnum):
    """Of a run in a sweep."""

    WAITING = "waiting"
    RUNNING = "running"
    STOPPED = "stopped"
    COMPLETE = "complete"
    FAILED = "failed"


ORDER = (State.RUNNING, State.FAILED, State.STOPPED, State.WAITING, State.COMPLETE)
"""States by what one asks for first."""


class Outcome(NamedTuple):
    """How a task ended; `sentence` says why it failed or stopped, and is empty for one that is complete."""

    state: State
    sentence: str = ""


def keep_outcome(directory: SweepDirectory, name: str, outcome: Outcome) -> None:
    """Write down how a task ended."""
    text = json.dumps({"state": outcome.state, "sentence": outcome.sentence})
    write_atomically(directory.task(name, "json"), text.encode())


def kept_outcome(directory: SweepDirectory, name: str) -> Outcome | None:
    """How the last task of a run ended; None if none has, or the run that it made complete is gone."""
    try:
        found = json.loads(directory.task(name, "json").read_text(encoding="utf-8"))
        outcome = Outcome(State(found["state"]), str(found["sentence"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    is_lost = outcome.state is State.COMPLETE and not checkpoints(directory.run(name))
    return None if is_lost else outcome


def outcome_of(directory: SweepDirectory, name: str) -> Outcome:
    """The state a run is in; one whose process was killed is stopped: the next will go on with it."""
    known = kept_outcome(directory, name)
    if known is not None and known.state is State.COMPLETE:
        return known
    working = holder(directory.task(name, "lease"))
    if working is not None:
        return Outcome(State.RUNNING, working)
    if known is not None:
        return known
    return Outcome(State.STOPPED if is_begun(directory.run(name)) else State.WAITING)


def is_begun(run: Path) -> bool:
    """Whether there is a run to go on with."""
    return (run / CONFIG).is_file()


def spoken(outcomes: dict[str, Outcome]) -> str:
    """``3 of 8 runs complete, 2 running, 1 failed``."""
    counts = Counter(outcome.state for outcome in outcomes.values())
    others = (f", {counts[state]} {state}" for state in ORDER if state is not State.COMPLETE and counts[state])
    return f"{counts[State.COMPLETE]} of {len(outcomes)} runs complete{''.join(others)}"
