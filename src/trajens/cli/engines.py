"""Engines of sweeps on the command line: their options, and what is said while one does its runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, NamedTuple

import jax
import typer

from trajens.cli.signals import StopOnSignal
from trajens.cli.streams import say
from trajens.cli.sweep_table import SweepTable
from trajens.errors import require
from trajens.exit_codes import SOME_FAILED, STOPPED
from trajens.sweeps import Plan, Swept, sweep
from trajens.sweeps.engines import ENGINES
from trajens.sweeps.kept import SweepDirectory
from trajens.sweeps.state import spoken

ENGINE_HELP = f"Who does it: {', '.join(ENGINES)}."
WORKERS = Annotated[
    int | None, typer.Option(metavar="N", help="Runs at the same time, with local; default one a core or GPU.")
]
PER_GPU = Annotated[
    int | None, typer.Option(metavar="N", help="Runs that share a GPU, with local; default 1.", show_default=False)
]
SCHEDULER = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="Of a Dask cluster, with dask.", show_default=False)
]
MINUTES = Annotated[
    int | None, typer.Option(metavar="N", help="Time limit of a job, with slurm; default 60.", show_default=False)
]
SLURM = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=VALUE", help="partition=main, gres=gpu:1, .. with slurm.", show_default=False),
]


class Asked(NamedTuple):
    """What was asked of an engine."""

    engine: str
    workers: int | None = None
    per_gpu: int | None = None
    scheduler: str | None = None
    minutes: int | None = None
    slurm: list[str] | None = None

    def swept(self, plan: Plan | Path, out: Path) -> Swept:
        """Do all runs of a plan, with a table of them; what failed is told, and exits, as does a stop."""
        jobs = None if not self.slurm else dict(_pair(text) for text in self.slurm)
        with StopOnSignal() as stop, SweepTable(SweepDirectory(out)) as show:
            swept = sweep(plan, out, **{**self._asdict(), "slurm": jobs}, stop=stop, show=show)
        for name, sentence in swept.failed.items():
            say(f"trajens: {name} failed: {sentence}")
        say(f"trajens: {spoken(swept.outcomes)}")
        if swept.is_complete:
            return swept
        if len(swept.failed) < sum(outcome.state != "complete" for outcome in swept.outcomes.values()):
            say("trajens: stopped; the same command goes on")
            raise typer.Exit(STOPPED)
        raise typer.Exit(SOME_FAILED)


def leave_gpus() -> None:
    """Keep this process from taking its share of a GPU, as JAX would: those who do the runs need it."""
    jax.config.update("jax_platforms", "cpu")


def _pair(text: str) -> tuple[str, Any]:
    name, separator, value = text.partition("=")
    require(
        bool(name and separator and value),
        f"slurm must be NAME=VALUE, got '{text}'; write for instance partition=main.",
    )
    return name.replace("-", "_"), int(value) if value.isdecimal() else value
