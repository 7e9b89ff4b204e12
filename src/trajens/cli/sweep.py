"""``trajens sweep``: many runs of one plan, a look at them, and one table of what came out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from trajens.cli.engines import ENGINE_HELP, MINUTES, PER_GPU, SCHEDULER, SLURM, WORKERS, Asked, leave_gpus
from trajens.cli.sweep_table import drawn
from trajens.errors import require
from trajens.files import write_atomically
from trajens.sweeps.kept import SweepDirectory
from trajens.sweeps.looks import outcomes_of, rows_of, table_of
from trajens.sweeps.parquet import parquet_of

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
    engine: Annotated[str, typer.Option(metavar="NAME", help=ENGINE_HELP)] = "local",
    workers: WORKERS = None,
    per_gpu: PER_GPU = None,
    scheduler: SCHEDULER = None,
    minutes: MINUTES = None,
    slurm: SLURM = None,
) -> None:
    """Run all settings of a plan; the same command goes on with what is not complete.

    Ctrl-C lets every run save itself. Code 4 says that some runs failed, 75 that the sweep was stopped.
    """
    leave_gpus()
    Asked(engine, workers, per_gpu, scheduler, minutes, slurm).swept(plan, out)
    typer.echo(f"written to {out}; next: trajens report {out}, or trajens sweep gather {out}")


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
