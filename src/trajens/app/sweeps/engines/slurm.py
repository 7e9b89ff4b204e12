"""Tasks as jobs of SLURM, by submitit: arrays that go on without a driver, and are queued again at their time limit.

What became of a task is read from its files, since SLURM may keep no accounts of jobs that have ended; a job that is
gone from the queue without a word is submitted again. A driver that comes after another goes on with the jobs of that
one, whose numbers are kept beside the tasks.
"""

from __future__ import annotations

import contextlib
import hashlib
import subprocess
import time
from typing import Any

import submitit

from trajens.app.sweeps.directory import Outcome, SweepDirectory, TaskState, kept_outcome
from trajens.app.sweeps.lease import holder
from trajens.app.sweeps.task import Task, save
from trajens.errors import InputError, first_line
from trajens.files import write_atomically
from trajens.storage.checkpoint import checkpoints

AGAIN = 5
"""How often a job that was lost, or stopped by SLURM, is submitted again without anything new saved."""
_ARRAY = 1000
_LOOK = 10.0
"""Seconds between two looks into the queue."""
_PAUSE = 1.0
"""Seconds between two looks at what waits to be submitted."""
_REFUSALS = 60
"""How often in a row SLURM may refuse what it took before, as it does while its controller is away."""
_SAVE_SECONDS = 30
"""Between the signal that says that the time is over, and the end."""
_END_SECONDS = 10
"""Of which so many are for queueing the job again."""


class SlurmTask:
    """A task as submitit wants it: what is queued again at the time limit is the same task."""

    def __init__(self, task: Task):
        self._task = task

    def __call__(self) -> str:
        return str(self._task().state)

    def checkpoint(self) -> submitit.helpers.DelayedSubmission:
        """Called when the time is over: the run saves itself, is ended by the exit that follows, and goes on later."""
        save(_SAVE_SECONDS - _END_SECONDS)
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
        self._name, self._directory, self.folder = name, directory, directory.path / "slurm"
        try:
            # Every job that is shorter than ten minutes counts its end as a failure of the code.
            self._executor = submitit.AutoExecutor(self.folder, "slurm", slurm_max_num_timeout=10**6)
        except RuntimeError as error:
            raise InputError(f"the engine slurm needs sbatch, got {first_line(error)}; is SLURM here?") from None
        usual = {"time": minutes, "job_name": name, "signal_delay_s": _SAVE_SECONDS, "array_parallelism": _ARRAY}
        self._executor.update_parameters(**{f"slurm_{key}": value for key, value in {**usual, **(slurm or {})}.items()})
        self._collected: list[SlurmPending] = []
        self._looked, self._queued, self._taken = -_LOOK, set[str](), -1.0
        self._next, self._refusals = 0.0, _REFUSALS

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
        if not self._collected or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _PAUSE
        for pending in self._collected:
            pending.adopt()
        # One that somebody else works on is waited for.
        self._collected = [pending for pending in self._collected if pending.job is None]
        ready = [pending for pending in self._collected if not pending.is_held]
        for begin in range(0, len(ready), _ARRAY):
            if not self._submitted(ready[begin : begin + _ARRAY]):
                self._next = time.monotonic() + _LOOK
                break
        self._collected = [pending for pending in self._collected if pending.job is None]

    def _submitted(self, part: list[SlurmPending]) -> bool:
        """Whether an array of tasks was submitted. At first a refusal is an error, later on something that passes."""
        try:
            with self._executor.batch():
                jobs = [self._executor.submit(SlurmTask(pending.task)) for pending in part]
        except (submitit.core.utils.FailedJobError, submitit.core.utils.FailedSubmissionError) as error:
            self._refusals += 1
            if self._refusals > _REFUSALS:
                raise InputError(
                    f"the jobs must be such as SLURM takes, got {first_line(error).partition(': ')[2]}; check the "
                    "options that are given to it."
                ) from None
            return False
        self._refusals = 0
        for pending, job in zip(part, jobs, strict=True):
            pending.job = str(job.job_id)
            write_atomically(pending.number, pending.job.encode())
            self._queued.add(pending.job)
        return True

    def is_queued(self, job: str) -> bool:
        """Whether a job waits or runs, as far as was seen lately."""
        if time.monotonic() - self._looked > _LOOK:
            found = _called("squeue", "-h", "-r", "-o", "%i", f"--name={self._name}")
            self._looked = time.monotonic()
            if found is not None:
                self._queued = set(found.split())
        return job in self._queued

    def take_back(self) -> None:
        """Cancel all jobs that have not begun; those that have stop by themselves if that was asked for."""
        self._collected = []
        if time.monotonic() - self._taken > 1.0:
            _called("scancel", f"--name={self._name}", "--state=PENDING")
            self._taken = time.monotonic()
            self._looked = -_LOOK

    def close(self) -> None:
        """Nothing is left in the queue by a driver that ends."""
        self.take_back()


class SlurmPending:
    """A task and the job that does it."""

    def __init__(self, engine: SlurmEngine, directory: SweepDirectory, task: Task):
        self._engine, self._directory, self.task = engine, directory, task
        self.job: str | None = None
        self.number = directory.task(task.name, "job")
        self._left, self._saved = AGAIN, next(iter(checkpoints(directory.run(task.name))), None)

    @property
    def is_held(self) -> bool:
        """Whether somebody works on the run."""
        return holder(self._directory.task(self.task.name, "lease")) is not None

    def adopt(self) -> None:
        """Go on with the job of a driver that is gone, if it is queued or at work."""
        with contextlib.suppress(OSError):
            known = self.number.read_text()
            self.job = known if self._engine.is_queued(known) else None
        known_outcome = kept_outcome(self._directory, self.task.name)
        if (
            self.job is None
            and not self.is_held
            and known_outcome is not None
            and known_outcome.state != TaskState.COMPLETE
        ):
            # How an earlier one ended says nothing of the next.
            self._directory.task(self.task.name, "json").unlink(missing_ok=True)

    def outcome(self) -> Outcome | None:
        """As the task wrote it down."""
        self._engine.flush()
        # The queue is known; files, of which there may be thousands, are looked at for those that left it.
        if (self.job is not None and self._engine.is_queued(self.job)) or self.is_held:
            return None
        found = kept_outcome(self._directory, self.task.name)
        if self._directory.stop.exists():
            return found or Outcome(TaskState.WAITING)
        if self.job is None:
            return found if found is not None and found.state is TaskState.COMPLETE else None
        is_lost = found is None or found.state is TaskState.STOPPED
        if not is_lost:
            return found
        newest = next(iter(checkpoints(self._directory.run(self.task.name))), None)
        self._left = self._left - 1 if newest == self._saved else AGAIN
        self._saved = newest
        if self._left < 0:
            return Outcome(
                TaskState.FAILED,
                f"its jobs must live, got {AGAIN + 1} lost without anything new saved; see '{self._engine.folder}'.",
            )
        self.job = None
        self._engine.collect(self)
        return None

    def cancel(self) -> None:
        """Take the job back, with all others that have not begun."""
        self._engine.take_back()


def _called(*command: str) -> str | None:
    """What a command of SLURM says; None if it failed, as it does for a while when the controller is busy."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    return None
