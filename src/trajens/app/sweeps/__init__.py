"""Sweeps: a table of settings becomes one run each, on engines that others have made.

Names are loaded when they are asked for: a worker needs a task, and neither JAX nor a plan.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trajens.app.sweeps.driver import Swept, sweep
    from trajens.app.sweeps.plan import Plan

__all__ = ["Plan", "Swept", "sweep"]

_PLACES = {"Plan": "plan", "Swept": "driver", "sweep": "driver"}


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        return getattr(import_module(f"trajens.app.sweeps.{_PLACES[name]}"), name)
    raise AttributeError(f"module 'trajens.app.sweeps' has no attribute {name!r}")
