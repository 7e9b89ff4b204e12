"""The commands: a table of what they are called and say of themselves, and how one is loaded when it is called."""

from __future__ import annotations

from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import typer
from typer.core import TyperCommand

from trajens.errors import InputError, first_line
from trajens.loading import leave_on_interrupt
from trajens.version import __version__

RUN, LOOK, USE, PAPER, MACHINE = "Run", "Look", "Use", "Paper", "Machine"
"""Panels of the help."""

COMMANDS = {
    "train": ("train:train", RUN, "Train an ensemble and report its loss."),
    "resume": ("train:resume", RUN, "Go on with a run, bit for bit as if it had never been interrupted."),
    "sweep": ("sweep:sweeps", RUN, "Many runs: trajens sweep PLAN --out DIR, and a look at them."),
    "show": ("look:show", LOOK, "Print the table of a run once more."),
    "convergence": ("look:convergence", LOOK, "Whether chains agree: R-hat, effective draws, errors and drifts."),
    "thermo": ("look:thermo", LOOK, "Mean loss, its variance and ln Z at every s, from the paths of a run."),
    "audit": (
        "audit:audit",
        LOOK,
        "Measure the error of s that small batches leave: the run samples at s (1 + error).",
    ),
    "picture": (
        "evaluate:picture",
        LOOK,
        "Draw a run: loss, acceptance and batch, accuracy against members, and what the members disagree on.",
    ),
    "report": (
        "report:report",
        LOOK,
        "Write one HTML page about a run: verdict, settings, curves, calibration, examples in doubt.",
    ),
    "evaluate": (
        "evaluate:evaluate",
        USE,
        "Accuracy or error, likelihood, calibration and uncertainty of an ensemble on labelled data.",
    ),
    "predict": ("predict:predict", USE, "Answers of an ensemble, one line per input, as CSV."),
    "export": (
        "predict:export",
        USE,
        "Write the ensemble of a run, or of several, into one file, which knows its model and how its data are read.",
    ),
    "info": ("info:info", MACHINE, "Versions, devices, the loss kernel in use, and where compiled programs are kept."),
}
"""Name -> module of this package and function or application in it, panel, and the first line of its help."""
_OURS = "trajens.app.cli"
_GROUP = "trajens.commands"
"""Entry points by which other distributions bring commands."""


class Later(TyperCommand):
    """A command that is known by name and first line, and loaded when it is called or asked for its own help."""

    def __init__(self, name: str, line: str, entry: EntryPoint, panel: str = PAPER):
        super().__init__(name, help=line, rich_help_panel=panel)
        self._entry = entry

    def make_context(self, *args: Any, **more: Any) -> Any:
        """The context of what was loaded, which knows its options and is then invoked."""
        return self.loaded.make_context(*args, **more)

    @cached_property
    def loaded(self) -> Any:
        """What Typer makes of the function or application; one of another distribution may not fit."""
        try:
            with leave_on_interrupt():
                found = self._entry.load()
        except (ImportError, AttributeError) as error:
            if self._entry.module.startswith(f"{_OURS}."):
                raise
            raise InputError(_misfit(self._entry, error)) from None
        alone = typer.Typer()
        if isinstance(found, typer.Typer):
            alone.add_typer(found, name=self.name)
        else:
            alone.command(self.name)(found)
        return typer.main.get_group(alone).commands[str(self.name)]


def known_commands() -> dict[str, Any]:
    """All commands by their names, none of them loaded; those of others say what their distribution says of itself."""
    own = {
        name: Later(name, line, EntryPoint(name, f"{_OURS}.{where}", ""), panel)
        for name, (where, panel, line) in COMMANDS.items()
    }
    return own | {
        entry.name: Later(entry.name, entry.dist.metadata["Summary"] if entry.dist else "", entry)
        for entry in entry_points(group=_GROUP)
    }


def _misfit(entry: EntryPoint, error: Exception) -> str:
    whose = entry.dist.name if entry.dist else entry.module.split(".")[0]
    return (
        f"{entry.name} must be of a version of {whose} that fits trajens {__version__}, got {first_line(error)}; "
        f"install {whose} again."
    )
