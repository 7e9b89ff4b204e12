"""Engines: who carries tasks to machines. Another one is a file like `dask`, with `submit` and `close`."""

from __future__ import annotations

from typing import Any

from trajens.app.sweeps.engines.base import Engine, Pending
from trajens.errors import InputError, choice, require

ENGINES: dict[str, tuple[str, ...]] = {
    "local": ("workers", "per_gpu"),
    "dask": ("scheduler",),
    "slurm": ("minutes", "slurm"),
}
"""Name -> what it may be told."""

__all__ = ["ENGINES", "Engine", "Pending", "engine_named"]


def engine_named(name: str, path: str, tasks: int, **told: Any) -> Engine:
    """An engine by its name, for so many tasks of the sweep at `path`; what it needs is loaded here, not before."""
    choice("engine", name, ENGINES)
    told = {key: value for key, value in told.items() if value is not None}
    for key, value in told.items():
        require(key in ENGINES[name], f"{key} must be left out with the engine {name}, got {value!r}; leave it out.")
    try:
        return _made(name, path, tasks, told)
    except ImportError as error:
        raise InputError(
            f"the engine {name} needs the extra {name}, got {error}; install it with: pip install 'trajens[{name}]'"
        ) from None


def _made(name: str, path: str, tasks: int, told: dict[str, Any]) -> Engine:
    if name == "slurm":
        from trajens.app.sweeps.engines.slurm import SlurmEngine

        return SlurmEngine(path, **told)
    if name == "local":
        from trajens.app.sweeps.engines.local import LocalEngine

        return LocalEngine(tasks=tasks, **told)
    require("scheduler" in told, "scheduler must be the address of a Dask scheduler, got none; try tcp://host:8786.")
    from trajens.app.sweeps.engines.dask import DaskEngine

    return DaskEngine(told["scheduler"])
