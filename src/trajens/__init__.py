"""trajens: neural network ensembles by Monte Carlo in the space of trajectories, without gradients."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from trajens.version import __version__ as __version__

if TYPE_CHECKING:
    from trajens import estimators as estimators
    from trajens import plots as plots
    from trajens import rl as rl
    from trajens import thermo as thermo
    from trajens.api import *  # noqa: F403
    from trajens.app.cli.environment import keep_compiled as keep_compiled
    from trajens.app.report import report as report
    from trajens.app.sweeps import sweep as sweep

_ABOVE = {
    "keep_compiled": "trajens.app.cli.environment",
    "report": "trajens.app.report",
    "sweep": "trajens.app.sweeps",
}
"""What is offered too, but stands above all that a run needs, and is loaded only for those who ask for it."""

_MODULES = ("ensemble", "estimators", "plots", "rl", "thermo")
"""Modules that stand there too, and are loaded when they are asked for."""


if not TYPE_CHECKING:  # Type checkers refuse names that are not there.

    def __getattr__(name: str) -> Any:
        """Load everything at the first use of anything.

        Loading JAX takes a second, in which the command line must already answer Ctrl-C, and a program of its own may
        still choose devices.
        """
        if name.startswith("__") and name != "__all__":
            raise AttributeError(f"module 'trajens' has no attribute {name!r}")
        # Modules come alone: they ask for each other while they load, in whatever order.
        if find_spec(f"trajens.{name}") is not None:
            return import_module(f"trajens.{name}")
        if name in _ABOVE:
            return getattr(import_module(_ABOVE[name]), name)
        # Modules that this loads put their names here by themselves.
        known = {**vars(import_module("trajens.api")), **globals()}
        if name not in known:
            # So it is also while they load each other: Python then looks for a module of this name.
            raise AttributeError(f"module 'trajens' has no attribute {name!r}")
        return globals().setdefault(name, known[name])


def __dir__() -> list[str]:
    # What is for users, and not what this file and others load.
    return sorted({"__version__", *_ABOVE, *_MODULES, *import_module("trajens.api").__all__})
