"""Tasks as jobs of SLURM, by submitit: arrays that go on without a driver, and are queued again at their time limit.

What became of a task is read from its files, since SLURM may keep no accounts of jobs that have ended; a job that is
gone from the queue without a word is submitted again. A driver that comes after another takes back the jobs of that one
that have not begun, and waits for those that have.
"""

from __future__ import annotations

import contextlib
import hashlib
import subprocess
import time
from typing import Any

import submitit

from trajens.errors import InputError, first_line
from trajens.sweeps.kept import SweepDirectory
from trajens.sweeps.lease import holder
from trajens.sweeps.state import Outcome, State, kept_outcome
from trajens.sweeps.task import Task

AGAIN = 5
"""How often a job that was lost, or stopped by SLURM, is submitted again."""
_ARRAY = 1000
_LOOK = 10.0
"""Seconds between two looks into the queue."""
_SAVE_SECONDS = 30
"""Between the signal that says that the time is over, and the end."""


class SlurmTask:
    """A task as submitit wants it: what is queued again at the time limit is the same task."""

    def __init__(self, task: Task):
        self._task = task

    def __call__(self) -> str:
        return str(self._task().state)

    def checkpoint(self) -> submitit.helpers.DelayedSubmission:
        """Called when the time is over; the exit that follows ends the run, which goes on from its last checkpoint."""
        return submitit.helpers.DelayedSubmission(SlurmTask(self._task))


class SlurmEngine:
    """Jobs of one sweep.

    Parameters
    ----------
    path : str
        Directory of the sweep.
    minutes : int
        Time limit of a job; a run may take many of them.
    slurm : dict
        Further parameters of submitit: ``partition``, ``gres``, ``cpus_per_task``, ``array_parallelism``, ...
    """

    def __init__(self, path: str, minutes: int = 60, slurm: dict[str, Any] | None = None):
        directory = SweepDirectory(path)
        name = f"trajens-{hashlib.sha256(str(directory.path).encode()).hexdigest()[:12]}"
        self._name, self._directory = name, directory
        try:
            # Every job that is shorter than ten minutes counts its end as a failure of the code.
            self._executor = submitit.AutoExecutor(directory.path / "slurm", "slurm", slurm_max_num_timeout=10**6)
        except RuntimeError as error:
            raise InputError(f"the engine slurm needs sbatch, got {first_line(error)}; is SLURM here?") from None
        usual = {"time": minutes, "job_name": name, "signal_delay_s": _SAVE_SECONDS, "array_parallelism": _ARRAY}
        self._executor.update_parameters(**{f"slurm_{key}": value for key, value in {**usual, **(slurm or {})}.items()})
        self._collected: list[SlurmPending] = []
        self._looked, self._queued = 0.0, set[str]()
        _called("scancel", f"--name={name}", "--state=PENDING")

    def submit(self, task: Task) -> SlurmPending:
        """Collect it; they are submitted together, as an array, when the first is asked for."""
        pending = SlurmPending(self, self._directory, task)
        self._collected.append(pending)
        return pending

    def collect(self, pending: SlurmPending) -> None:
        """Submit it with the next array."""
        self._collected.append(pending)

    def flush(self) -> None:
        """Submit what was collected."""
        # Those at work for a driver that is gone are waited for.
        ready = [pending for pending in self._collected if not pending.is_held]
        self._collected = [pending for pending in self._collected if pending.is_held]
        for begin in range(0, len(ready), _ARRAY):
            part = ready[begin : begin + _ARRAY]
            with self._executor.batch():
                jobs = [self._executor.submit(SlurmTask(pending.task)) for pending in part]
            for pending, job in zip(part, jobs, strict=True):
                pending.job = str(job.job_id)
                self._queued.add(pending.job)

    def is_queued(self, job: str) -> bool:
        """Whether a job waits or runs, as far as was seen lately."""
        if time.monotonic() - self._looked > _LOOK:
            found = _called("squeue", "-h", "-r", "-o", "%i", f"--name={self._name}")
            self._looked = time.monotonic()
            if found is not None:
                self._queued = set(found.split())
        return job in self._queued

    def close(self) -> None:
        """Take back jobs that have not begun; those that have stop by themselves if that was asked for."""
        _called("scancel", f"--name={self._name}", "--state=PENDING")


class SlurmPending:
    """A task and the job that does it."""

    def __init__(self, engine: SlurmEngine, directory: SweepDirectory, task: Task):
        self._engine, self._directory, self.task = engine, directory, task
        self.job: str | None = None
        self._left = AGAIN
        if not self.is_held:
            # How an earlier one ended says nothing of this one.
            directory.task(task.name, "json").unlink(missing_ok=True)

    @property
    def is_held(self) -> bool:
        """Whether somebody works on the run."""
        return holder(self._directory.task(self.task.name, "lease")) is not None

    def outcome(self) -> Outcome | None:
        """As the task wrote it down."""
        self._engine.flush()
        if self.is_held or (self.job is not None and self._engine.is_queued(self.job)):
            return None
        found = kept_outcome(self._directory, self.task.name)
        if self.job is None:
            return found if found is not None and found.state is State.COMPLETE else None
        is_lost = found is None or found.state is State.STOPPED
        if not is_lost or self._directory.stop.exists():
            return found or Outcome(State.STOPPED, "asked to stop")
        self._left -= 1
        if self._left < 0:
            return Outcome(State.FAILED, f"its job must end by itself, got {AGAIN + 1} that were lost; see its log.")
        self.job = None
        self._engine.collect(self)
        return None

    def cancel(self) -> None:
        """Take the job back."""
        if self.job is not None:
            _called("scancel", "--state=PENDING", self.job)


def _called(*command: str) -> str | None:
    """What a command of SLURM says; None if it failed, as it does for a while when the controller is busy."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    return None
