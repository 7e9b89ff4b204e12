"""Tasks on this machine, by threads of this process: one for every group of cores, or for every GPU.

A thread works on one task after the other, in a process beside that is told its cores or its GPU, and what memory its
runs may take. Nothing listens on any port.
"""

from __future__ import annotations

import dataclasses
import os
import threading
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from trajens.app.sweeps.child import CORES
from trajens.app.sweeps.directory import Outcome, TaskState
from trajens.app.sweeps.task import MEMORY, Task
from trajens.errors import InputError, first_line, integer

_GPU_SHARE = 0.9
_MOST_MEMORY = 0.9


class LocalEngine:
    """Threads with a place each, and a process beside each of them, which end with the engine.

    Parameters
    ----------
    workers : int, optional
        Runs at the same time; default one for every core, or for every place on a GPU.
    per_gpu : int
        Runs that share a GPU.
    tasks : int, optional
        No more threads than these, so that few runs have more cores each.
    """

    def __init__(self, workers: int | None = None, per_gpu: int = 1, tasks: int | None = None):
        free: SimpleQueue[dict[str, str]] = SimpleQueue()
        for place in (found := places(workers, per_gpu, tasks)):
            free.put(place)
        self._here, self._is_closed = threading.local(), threading.Event()
        self._threads = ThreadPoolExecutor(
            len(found), "sweep", initializer=lambda: setattr(self._here, "place", free.get())
        )

    def submit(self, task: Task) -> LocalPending:
        """Hand over a task."""
        return LocalPending(self._threads.submit(self._done, task))

    def close(self) -> None:
        """End the processes, whatever they are at, and the threads."""
        self._is_closed.set()
        self._threads.shutdown(cancel_futures=True)

    def _done(self, task: Task) -> Outcome:
        """Work on a task at the place of this thread."""
        placed = dataclasses.replace(task, environment={**task.environment, **self._here.place})
        return placed(self._is_closed.is_set)


class LocalPending:
    """A task that waits for a thread, or has one."""

    def __init__(self, future: Future[Outcome]):
        self._future = future

    def outcome(self) -> Outcome | None:
        """How it ended; None while it has not."""
        if not self._future.done():
            return None
        try:
            return self._future.result()
        except CancelledError:
            return Outcome(TaskState.WAITING, "taken back")
        except Exception as error:  # whatever a task raises, the others go on
            return Outcome(TaskState.FAILED, str(error) if isinstance(error, InputError) else first_line(error))

    def cancel(self) -> None:
        """Take it back, unless a thread has it."""
        self._future.cancel()


def places(workers: int | None = None, per_gpu: int = 1, tasks: int | None = None) -> list[dict[str, str]]:
    """The variables of every place: its GPU and its share of it, or its cores, and its memory."""
    per_gpu = integer("per_gpu", per_gpu, 1, "use 1, or more for small runs", 64)
    cores, gpus = _cores(), _gpus()
    usual = len(gpus) * per_gpu if gpus else len(cores)
    usual = usual if tasks is None else min(usual, tasks)
    count = integer("workers", usual if workers is None else workers, 1, f"there are {len(cores)} cores", 4096)
    memory = {MEMORY: str(int(_MOST_MEMORY * _total_memory() / count))}
    if gpus:
        share = f"{_GPU_SHARE / max(per_gpu, -(-count // len(gpus))):.3f}"
        return [
            {**memory, "CUDA_VISIBLE_DEVICES": gpus[i % len(gpus)], "XLA_PYTHON_CLIENT_MEM_FRACTION": share}
            for i in range(count)
        ]
    return [{**memory, CORES: ",".join(map(str, _group(cores, i, count)))} for i in range(count)]


def _group(cores: list[int], place: int, count: int) -> list[int]:
    """Cores of one of `count` workers: as equal groups as can be, or one each that others may share."""
    if count >= len(cores):
        return [cores[place % len(cores)]]
    return cores[place * len(cores) // count : (place + 1) * len(cores) // count]


def _cores() -> list[int]:
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def _gpus() -> list[str]:
    """Names of the GPUs that runs may use, without loading JAX, which would take room on them."""
    if os.environ.get("JAX_PLATFORMS", "cuda").split(",")[0] not in ("cuda", "gpu", ""):
        return []
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        return [name.strip() for name in chosen.split(",") if name.strip() not in ("", "-1")]
    return sorted((file.name.removeprefix("nvidia") for file in Path("/dev").glob("nvidia[0-9]*")), key=int)


def _total_memory() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
