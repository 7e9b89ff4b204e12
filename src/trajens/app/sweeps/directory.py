"""Directory of a sweep: where everything is, the plan as it is kept there, and the state of every run, read from files.

    plan.toml            the options of every run, resolved
    runs/NAME/           a run, as ``trajens train --out`` makes it
    tasks/NAME.toml      its options, for the process that begins it
    tasks/NAME.log       what its processes said
    tasks/NAME.json      how the last of them ended
    tasks/NAME.lease     who works on it
    tasks/NAME.job       its job, on SLURM; what submitit writes is in slurm/
    lease                who drives the sweep
    stop                 while everybody is asked to stop
    compiled/            programs that processes on one machine leave for each other

Nothing here needs JAX or a plan that is checked: workers and those who look on read no more than they must.
"""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from trajens.app.sweeps.lease import holder
from trajens.errors import InputError, require
from trajens.files import remove_leftovers, storage_errors, write_atomically
from trajens.storage.checkpoint import checkpoints
from trajens.storage.directory import CONFIG

PLAN = "plan.toml"
_SHOWN = 5

Options = dict[str, dict[str, Any]]
"""Name of a run -> its options."""


class SweepDirectory:
    """Names of files of a sweep; `path` is made absolute, since workers have folders of their own."""

    def __init__(self, path: str | Path):
        require(str(path).strip() != "", "out must name a directory, got an empty text; give a name such as sweeps/a.")
        self.path = Path(path).absolute()
        self.runs, self.tasks = self.path / "runs", self.path / "tasks"
        self.lease, self.stop = self.path / "lease", self.path / "stop"

    @property
    def is_begun(self) -> bool:
        """Whether there is a sweep."""
        return (self.path / PLAN).is_file()

    def run(self, name: str) -> Path:
        """The directory of a run."""
        return self.runs / name

    def task(self, name: str, ending: str) -> Path:
        """A file about a run."""
        return self.tasks / f"{name}.{ending}"

    def begin(self) -> None:
        """Make the folders; refuse one that holds something else."""
        with storage_errors(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            others = sorted(file.name for file in self.path.iterdir() if file.name != self.lease.name)
            require(
                not others or self.is_begun or set(others) <= {self.runs.name, self.tasks.name},
                f"out must be a new or empty directory or that of a sweep, got '{self.path}' with "
                f"{', '.join(others[:3])} in it; choose another name.",
            )
            self.runs.mkdir(exist_ok=True)
            self.tasks.mkdir(exist_ok=True)

    def keep(self, texts: dict[str, str]) -> None:
        """Write down the options of every run (name -> TOML), which may be more than before, but no others."""
        if self.is_begun:
            _require_grown(self.options(), {name: tomllib.loads(text) for name, text in texts.items()}, self.path)
        remove_leftovers(self.path, PLAN)
        for name, text in texts.items():
            file = self.task(name, "toml")
            if not file.is_file() or file.read_text(encoding="utf-8") != text:
                write_atomically(file, text.encode())
        # Last, since it says that all of them are there.
        tables = (f"[runs.{json.dumps(name)}]\n{text}" for name, text in texts.items())
        write_atomically(self.path / PLAN, "\n".join(tables).encode())

    def options(self) -> Options:
        """The options of every run, in the order of the plan."""
        file = self.path / PLAN
        try:
            found = tomllib.loads(file.read_text(encoding="utf-8"))["runs"]
        except OSError as error:
            raise InputError(
                f"the directory must be that of a sweep, got '{self.path}' without {PLAN} that can be read "
                f"({error.strerror}); check the spelling."
            ) from None
        except (ValueError, KeyError, RecursionError) as error:
            raise InputError(f"'{file}' must be as a sweep wrote it, got {error}; restore it from a copy.") from None
        return dict(found)


def _require_grown(before: Options, now: Options, path: Path) -> None:
    """Refuse another plan, with the difference."""
    differences = [f"{name} is not in it any more" for name in before if name not in now]
    for name in before:
        if name in now and before[name] != now[name]:
            differences.append(f"{name} has {', '.join(_changes(before[name], now[name]))}")
    more = f", and {len(differences) - _SHOWN} more" if len(differences) > _SHOWN else ""
    require(
        not differences,
        f"a sweep must go on with its plan, to which runs may be added, got another for '{path}': "
        f"{', '.join(differences[:_SHOWN])}{more}; use the same plan, or another directory.",
    )


def _changes(before: dict[str, Any], now: dict[str, Any]) -> Iterable[str]:
    for name in sorted({*before, *now}):
        if before.get(name) != now.get(name):
            yield f"{name} {now.get(name, 'left out')} for {before.get(name, 'left out')}"


class TaskState(StrEnum):
    """Of a run in a sweep."""

    WAITING = "waiting"
    RUNNING = "running"
    STOPPED = "stopped"
    COMPLETE = "complete"
    FAILED = "failed"


ORDER = (TaskState.RUNNING, TaskState.FAILED, TaskState.STOPPED, TaskState.WAITING, TaskState.COMPLETE)
"""States by what one asks for first."""


class Outcome(NamedTuple):
    """How a task ended; `sentence` says why it failed or stopped, and is empty for one that is complete."""

    state: TaskState
    sentence: str = ""


def keep_outcome(directory: SweepDirectory, name: str, outcome: Outcome) -> None:
    """Write down how a task ended."""
    text = json.dumps({"state": outcome.state, "sentence": outcome.sentence})
    write_atomically(directory.task(name, "json"), text.encode())


def kept_outcome(directory: SweepDirectory, name: str) -> Outcome | None:
    """How the last task of a run ended; None if none has, or the run that it made complete is gone."""
    try:
        found = json.loads(directory.task(name, "json").read_text(encoding="utf-8"))
        outcome = Outcome(TaskState(found["state"]), str(found["sentence"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    is_lost = outcome.state is TaskState.COMPLETE and not checkpoints(directory.run(name))
    return None if is_lost else outcome


def outcome_of(directory: SweepDirectory, name: str) -> Outcome:
    """The state a run is in; one whose process was killed is stopped: the next will go on with it."""
    known = kept_outcome(directory, name)
    if known is not None and known.state is TaskState.COMPLETE:
        return known
    working = holder(directory.task(name, "lease"))
    if working is not None:
        return Outcome(TaskState.RUNNING, working)
    if known is not None:
        return known
    return Outcome(TaskState.STOPPED if is_begun(directory.run(name)) else TaskState.WAITING)


def is_begun(run: Path) -> bool:
    """Whether there is a run to go on with."""
    return (run / CONFIG).is_file()


def spoken(outcomes: dict[str, Outcome]) -> str:
    """``3 of 8 runs complete, 2 running, 1 failed``."""
    counts = Counter(outcome.state for outcome in outcomes.values())
    others = (f", {counts[state]} {state}" for state in ORDER if state is not TaskState.COMPLETE and counts[state])
    return f"{counts[TaskState.COMPLETE]} of {len(outcomes)} runs complete{''.join(others)}"
