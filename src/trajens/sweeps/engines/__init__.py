"""Engines: who carries tasks to machines. Another one is a file like `dask`, with `submit` and `close`."""

from __future__ import annotations

from typing import Any

from trajens.errors import InputError, choice
from trajens.sweeps.engines.base import Engine, Pending

ENGINES = ("local", "dask")

__all__ = ["ENGINES", "Engine", "Pending", "engine_named"]


def engine_named(name: str, workers: int | None = None, per_gpu: int = 1, scheduler: str | None = None) -> Engine:
    """An engine by its name; Dask is loaded here and not before."""
    choice("engine", name, ENGINES)
    try:
        from trajens.sweeps.engines.dask import DaskEngine
        from trajens.sweeps.engines.local import LocalEngine
    except ImportError as error:
        raise InputError(
            f"the engine {name} needs Dask distributed, got {error}; install it with: pip install 'trajens[dask]'"
        ) from None
    options: dict[str, Any] = {"workers": workers, "scheduler": scheduler}
    other = "scheduler" if name == "local" else "workers"
    if options[other] is not None:
        raise InputError(f"{other} must be left out with the engine {name}, got {options[other]!r}; leave it out.")
    if name == "local":
        return LocalEngine(workers, per_gpu)
    if scheduler is None:
        raise InputError("scheduler must be the address of a Dask scheduler, got none; try tcp://host:8786.")
    return DaskEngine(scheduler)
