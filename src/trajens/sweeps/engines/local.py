"""Tasks on this machine, by a Dask cluster of its own: one worker for every group of cores, or for every GPU.

Workers listen on the loopback interface only, without a dashboard. Each is told its cores or its GPU, and what memory
its runs may take.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import dask
from distributed import Client, Nanny, Scheduler, SpecCluster

from trajens.errors import InputError, first_line, integer, require
from trajens.sweeps.child import CORES
from trajens.sweeps.engines.dask import DaskEngine
from trajens.sweeps.task import MEMORY

_HERE = {"host": "127.0.0.1", "protocol": "tcp://", "dashboard": False, "dashboard_address": "127.0.0.1:0"}
"""Without a dashboard Dask answers over HTTP all the same: on a port that is free, as 8787 is for one sweep only."""
_GPU_SHARE = 0.9
_MOST_MEMORY = 0.9
_DEATHS = 10
"""Workers that may die under one task before it is given up."""
_STARTS = 3
"""How often it is tried to start the workers, one of which may be killed before it answers."""
_CONFIG = {
    "distributed.scheduler.allowed-failures": _DEATHS,
    # Dask would give up the place of a worker that is not back after a quarter of a minute.
    "distributed.deploy.lost-worker-timeout": "1 day",
}


class LocalEngine(DaskEngine):
    """Workers of its own, closed with it.

    Parameters
    ----------
    workers : int, optional
        Runs at the same time; default one for every core, or for every place on a GPU.
    per_gpu : int
        Runs that share a GPU.
    dashboard : bool
        Serve the pages of Dask, on the loopback interface.
    tasks : int, optional
        No more workers than these, so that few runs have more cores each.
    """

    def __init__(self, workers: int | None = None, per_gpu: int = 1, dashboard: bool = False, tasks: int | None = None):
        environments = places(workers, per_gpu, tasks)
        pages = _pages() if dashboard else {}
        with contextlib.ExitStack() as stack:
            stack.enter_context(dask.config.set(_CONFIG))
            cluster = stack.enter_context(contextlib.closing(_cluster(environments, pages)))
            super().__init__(stack.enter_context(contextlib.closing(Client(cluster, set_as_default=False))))
            self._parts = stack.pop_all()

    def close(self) -> None:
        """End the workers."""
        self._parts.close()


def places(workers: int | None = None, per_gpu: int = 1, tasks: int | None = None) -> list[dict[str, str]]:
    """The variables of every worker: its GPU and its share of it, or its cores, and its memory."""
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


def _pages() -> dict[str, Any]:
    """Options of a scheduler that serves pages; Dask draws them with Bokeh."""
    require(
        find_spec("bokeh") is not None,
        "dashboard needs Bokeh, which is not installed; install it with: pip install bokeh, or leave dashboard out.",
    )
    return {"dashboard": True, "dashboard_address": f"{_HERE['host']}:8787"}


def _cluster(environments: list[dict[str, str]], pages: dict[str, Any]) -> SpecCluster:
    for _ in range(_STARTS):
        try:
            return SpecCluster(
                scheduler={"cls": Scheduler, "options": {**_HERE, **pages, "port": 0}},
                workers={number: _worker(environment) for number, environment in enumerate(environments)},
                silence_logs=logging.ERROR,
            )
        except (RuntimeError, OSError) as error:
            said = first_line(error)
    raise InputError(
        f"the workers of the engine local must start, got {said.rstrip('.')}, {_STARTS} times; is there enough memory, "
        "and does a script call tj.sweep under if __name__ == '__main__'?"
    )


def _group(cores: list[int], place: int, count: int) -> list[int]:
    """Cores of one of `count` workers: as equal groups as can be, or one each that others may share."""
    if count >= len(cores):
        return [cores[place % len(cores)]]
    return cores[place * len(cores) // count : (place + 1) * len(cores) // count]


def _worker(environment: dict[str, str]) -> dict[str, Any]:
    # What the runs take is watched by their tasks; Dask would count the worker, which holds nothing.
    options = {**_HERE, "nthreads": 1, "memory_limit": 0, "preload": [__name__]}
    return {"cls": Nanny, "options": {**options, "env": environment, "silence_logs": logging.ERROR}}


def dask_setup(_: Any) -> None:
    """Dask calls this in every worker: Ctrl-C is the driver's to answer, who asks for a stop."""
    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)


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
