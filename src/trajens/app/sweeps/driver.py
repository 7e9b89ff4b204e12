"""The driver of a sweep: hands every run that is not complete to an engine, and waits for what becomes of them."""

from __future__ import annotations

import contextlib
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trajens.app.sweeps.directory import Outcome, SweepDirectory, TaskState, outcome_of
from trajens.app.sweeps.engines import Engine, Pending, engine_named
from trajens.app.sweeps.lease import BEAT, WATCHED, Lease, holder
from trajens.app.sweeps.plan import Plan
from trajens.app.sweeps.results import columns_of, rows_of
from trajens.app.sweeps.task import Task
from trajens.errors import require
from trajens.files import storage_errors, unfit_for_programs
from trajens.run.tables import NumberTable

COMPILED = "compiled"
"""Folder in which processes leave programs for each other, on one machine; it is the user's alone."""
_FOLDER = "JAX_COMPILATION_CACHE_DIR"
_POLL, _LOOK = 0.1, 1.0
"""Seconds between two questions to the engine, and between two looks at who works on what."""
_REST = 20.0
"""A look is followed by a pause that is so many times as long."""
_PATIENCE = 150.0
"""How long a driver waits for tasks that were asked to stop."""


@dataclass(frozen=True)
class Swept:
    """What became of a sweep.

    Attributes
    ----------
    path : Path
        Its directory.
    outcomes : dict
        Name of a run -> its state and sentence.
    """

    path: Path
    outcomes: dict[str, Outcome]

    @property
    def failed(self) -> dict[str, str]:
        """Runs that failed, with their sentences."""
        return {name: outcome.sentence for name, outcome in self.outcomes.items() if outcome.state is TaskState.FAILED}

    @property
    def is_complete(self) -> bool:
        """Whether all runs are."""
        return all(outcome.state is TaskState.COMPLETE for outcome in self.outcomes.values())

    def run(self, name: str) -> Path:
        """The directory of a run."""
        return SweepDirectory(self.path).run(name)

    def table(self) -> NumberTable:
        """A row for every run, and for every s of one with several, as ``trajens sweep gather`` writes them."""
        rows = rows_of(SweepDirectory(self.path))
        return NumberTable([{name: row.get(name, "") for name in columns_of(rows)} for row in rows])


def sweep(
    plan: Plan | dict[str, Any] | str | Path,
    out: str | Path,
    engine: str | Engine | Any = "local",
    workers: int | None = None,
    per_gpu: int | None = None,
    scheduler: str | None = None,
    minutes: int | None = None,
    slurm: dict[str, Any] | None = None,
    stop: Callable[[], bool] | None = None,
    show: Callable[[dict[str, Outcome]], None] | None = None,
) -> Swept:
    """Run all settings of a plan; called again, it goes on with what is not complete.

    Parameters
    ----------
    plan : dict, path of a TOML file, or Plan
        See `trajens.app.sweeps.plan`. A sweep that was begun takes the same plan, or one with more runs.
    out : path
        Directory of the sweep.
    engine : "local", "dask", "slurm", a Dask `Client` or an Engine
        Where runs are made. "local" is this machine, with a process for each run at work, which end with this one.
    workers, per_gpu : int
        Of "local": runs at the same time, and runs that share a GPU.
    scheduler : str
        Of "dask": its address.
    minutes : int
        Of "slurm": the time limit of a job; a run goes on in the next.
    slurm : dict
        Of "slurm": ``{"partition": "main", "gres": "gpu:1", "cpus_per_task": 4}`` and what else submitit knows.
    stop : callable, optional
        Asked all the time; True lets every run save itself and stop.
    show : callable, optional
        Handed the outcomes so far, about twice a second.
    """
    require(
        os.name == "posix",
        "a sweep must be on Linux or macOS, got Windows, where its processes cannot be asked to stop; try the Windows "
        "Subsystem for Linux, or tj.train and trajens train for one run after the other.",
    )
    planned = Plan.of(plan)
    directory = SweepDirectory(out)
    with _driving(directory) as is_ours:
        directory.keep({run.name: run.config.to_toml() for run in planned.runs})
        names = [run.name for run in planned.runs]
        outcomes = {name: outcome_of(directory, name) for name in names}
        # One that is complete is done with; one that failed is tried again.
        left = [name for name in names if outcomes[name].state is not TaskState.COMPLETE]
        outcomes |= {name: Outcome(TaskState.WAITING) for name in left}
        if left:
            told = {"workers": workers, "per_gpu": per_gpu, "scheduler": scheduler, "minutes": minutes, "slurm": slurm}
            with _engine(engine, directory, len(left), told) as carrier:
                environment = _shared_programs(directory) if engine == "local" else {}
                tasks = [Task(str(directory.path), name, environment) for name in left]
                pending = {task.name: carrier.submit(task) for task in tasks}
                with _stopping(directory, pending):
                    _wait(directory, pending, outcomes, stop, show, is_ours)
        if show is not None:
            show(outcomes)
    return Swept(directory.path, outcomes)


def _wait(
    directory: SweepDirectory,
    pending: dict[str, Pending],
    outcomes: dict[str, Outcome],
    stop: Callable[[], bool] | None,
    show: Callable[[dict[str, Outcome]], None] | None,
    is_ours: Callable[[], bool],
) -> None:
    """Until all have ended, or those that have begun after a wish to stop."""
    asked: float | None = None
    next_look = 0.0
    while pending:
        for name, waiting in list(pending.items()):
            ended = waiting.outcome()
            if ended is not None:
                outcomes[name] = ended
                del pending[name]
        if show is not None and time.monotonic() > next_look:
            begin = time.monotonic()
            outcomes |= _seen(directory, pending)
            # Thousands of files of a network file system are looked at less often.
            next_look = begin + max(_LOOK, _REST * (time.monotonic() - begin))
        if asked is None and ((stop is not None and stop()) or not is_ours()):
            asked = time.monotonic()
            _ask_to_stop(directory, pending)
        if asked is not None and time.monotonic() - asked > _PATIENCE:
            return
        if show is not None:
            show(outcomes)
        if pending:
            time.sleep(_POLL)


def _seen(directory: SweepDirectory, pending: Iterable[str]) -> dict[str, Outcome]:
    """Running or waiting, of those that have not ended; a folder is read once for all of them."""
    leased = {file.stem for file in directory.tasks.glob("*.lease")}
    at_work = {name: holder(directory.task(name, "lease")) for name in pending if name in leased}
    return {
        name: Outcome(TaskState.WAITING) if (who := at_work.get(name)) is None else Outcome(TaskState.RUNNING, who)
        for name in pending
    }


def _ask_to_stop(directory: SweepDirectory, pending: dict[str, Pending]) -> None:
    with contextlib.suppress(OSError):
        directory.stop.touch()
    for name, waiting in pending.items():
        if holder(directory.task(name, "lease")) is None:
            waiting.cancel()


@contextlib.contextmanager
def _stopping(directory: SweepDirectory, pending: dict[str, Pending]) -> Iterator[None]:
    """Whatever ends the driver, those who work for it are asked to save themselves before it goes."""
    try:
        yield
    except BaseException:
        _ask_to_stop(directory, pending)
        begin = time.monotonic()
        while any(waiting.outcome() is None for waiting in pending.values()) and time.monotonic() - begin < _PATIENCE:
            time.sleep(_POLL)
        raise


@contextlib.contextmanager
def _driving(directory: SweepDirectory) -> Iterator[Callable[[], bool]]:
    """Be the only one who drives the sweep; what is handed out says whether one still is."""
    directory.begin()
    lease = Lease(directory.lease)
    with storage_errors(directory.path):
        is_free = lease.take()
    require(
        is_free,
        f"'{directory.path}' must be driven by one process at a time, got a second one beside "
        f"{holder(directory.lease) or 'another'}; wait for it, or stop it.",
    )
    ended, is_ours = threading.Event(), threading.Event()
    is_ours.set()

    def keep() -> None:
        while not ended.wait(BEAT):
            if not lease.keep():
                is_ours.clear()
                return

    beating = threading.Thread(target=keep, daemon=True)
    beating.start()
    try:
        directory.stop.unlink(missing_ok=True)
        yield is_ours.is_set
    finally:
        ended.set()
        beating.join(WATCHED)
        lease.release()


@contextlib.contextmanager
def _engine(engine: Any, directory: SweepDirectory, tasks: int, told: dict[str, Any]) -> Iterator[Engine]:
    """One that is made here is closed here."""
    if isinstance(engine, str):
        with contextlib.closing(engine_named(engine, str(directory.path), tasks, **told)) as made:
            yield made
    elif hasattr(engine, "scheduler_info"):
        from trajens.app.sweeps.engines.dask import DaskEngine

        yield DaskEngine(engine)
    else:
        require(
            hasattr(engine, "submit") and hasattr(engine, "close"),
            f"engine must be a name, a Dask Client or an Engine, got {type(engine).__name__}; try local.",
        )
        yield engine


def _shared_programs(directory: SweepDirectory) -> dict[str, str]:
    """Variables by which a program that one process has compiled is found by the next."""
    folder = directory.path / COMPILED
    if _FOLDER not in os.environ and (trouble := unfit_for_programs(folder)):
        warnings.warn(f"'{folder}' {trouble}: programs that are compiled are not shared there.", stacklevel=3)
        return {}
    ours = {
        _FOLDER: str(folder),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.3",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    return {name: os.environ.get(name, value) for name, value in ours.items()}
