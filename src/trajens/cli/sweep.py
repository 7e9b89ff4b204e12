"""``trajens sweep``: many runs of one plan, a look at them, and one table of what came out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import jax
import typer
from rich.console import Console
from typer.core import TyperGroup

from trajens.cli.signals import StopOnSignal
from trajens.cli.streams import say
from trajens.cli.sweep_table import SweepTable, drawn
from trajens.errors import require
from trajens.exit_codes import SOME_FAILED, STOPPED
from trajens.files import write_atomically
from trajens.sweeps import sweep
from trajens.sweeps.engines import ENGINES
from trajens.sweeps.kept import SweepDirectory
from trajens.sweeps.looks import outcomes_of, rows_of, table_of
from trajens.sweeps.parquet import parquet_of
from trajens.sweeps.state import spoken

_RUN = "run"
_Directory = Annotated[Path, typer.Argument(metavar="DIR", help="Directory of a sweep.", show_default=False)]


class _Sweeps(TyperGroup):
    """Its first word may be a plan: ``trajens sweep plan.toml`` is ``trajens sweep run plan.toml``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        is_plan = bool(args) and args[0] not in (*self.commands, *ctx.help_option_names)
        return super().parse_args(ctx, [_RUN, *args] if is_plan else args)


sweeps = typer.Typer(
    cls=_Sweeps, help="Many runs: trajens sweep PLAN --out DIR, and a look at them.", no_args_is_help=True
)


@sweeps.command(_RUN)
def run(
    plan: Annotated[
        Path, typer.Argument(metavar="PLAN", help="TOML file with [options], [grid] and [[list]].", show_default=False)
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Directory of the sweep.", show_default=False)],
    engine: Annotated[str, typer.Option(metavar="NAME", help=f"Who does it: {', '.join(ENGINES)}.")] = "local",
    workers: Annotated[
        int | None, typer.Option(metavar="N", help="Runs at the same time, with local; default one a core or GPU.")
    ] = None,
    per_gpu: Annotated[
        int | None, typer.Option(metavar="N", help="Runs that share a GPU, with local; default 1.", show_default=False)
    ] = None,
    scheduler: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Of a Dask cluster, with dask.", show_default=False)
    ] = None,
    minutes: Annotated[
        int | None, typer.Option(metavar="N", help="Time limit of a job, with slurm; default 60.", show_default=False)
    ] = None,
    slurm: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="partition=main, gres=gpu:1, .. with slurm.", show_default=False),
    ] = None,
) -> None:
    """Run all settings of a plan; the same command goes on with what is not complete.

    Ctrl-C lets every run save itself. Code 4 says that some runs failed, 75 that the sweep was stopped.
    """
    # The plan is checked with JAX, which would take its share of a GPU that the runs need.
    jax.config.update("jax_platforms", "cpu")
    with StopOnSignal() as stop, SweepTable(SweepDirectory(out)) as show:
        jobs = None if not slurm else dict(_pair(text) for text in slurm)
        swept = sweep(plan, out, engine, workers, per_gpu, scheduler, minutes, jobs, stop, show)
    for name, sentence in swept.failed.items():
        say(f"trajens: {name} failed: {sentence}")
    say(f"trajens: {spoken(swept.outcomes)}")
    if swept.is_complete:
        typer.echo(f"written to {out}; next: trajens sweep gather {out}")
        return
    if len(swept.failed) < sum(outcome.state != "complete" for outcome in swept.outcomes.values()):
        say("trajens: stopped; the same command goes on")
        raise typer.Exit(STOPPED)
    raise typer.Exit(SOME_FAILED)


def _pair(text: str) -> tuple[str, Any]:
    name, separator, value = text.partition("=")
    require(
        bool(name and separator and value),
        f"slurm must be NAME=VALUE, got '{text}'; write for instance partition=main.",
    )
    return name.replace("-", "_"), int(value) if value.isdecimal() else value


@sweeps.command()
def status(directory: _Directory) -> None:
    """Where every run of a sweep stands."""
    here = SweepDirectory(directory)
    outcomes = outcomes_of(here)
    Console().print(drawn(here, outcomes, len(outcomes)))


@sweeps.command()
def gather(
    directory: _Directory,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=".csv or .parquet; default CSV on stdout.", show_default=False),
    ] = None,
) -> None:
    """One table: a row for every run, or for every s of one, with what varies and its summary."""
    is_known = out is None or out.suffix in (".csv", ".parquet")
    require(is_known, f"out must be a .csv or .parquet file, got '{out}'; give it one of these endings.")
    rows = rows_of(SweepDirectory(directory))
    if out is None:
        typer.echo(table_of(rows), nl=False)
    else:
        write_atomically(out, parquet_of(rows) if out.suffix == ".parquet" else table_of(rows).encode())
