"""``trajens sweep``: many runs of one plan, a table of them while they go, and one of what came out.

The table shows states, how far runs have come, their losses, the time left and what failed. Engines of sweeps have
their options here.
"""

from __future__ import annotations

import contextlib
import math
import time
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import jax
import typer
from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from typer.core import TyperGroup

from trajens.app.cli.signals import StopOnSignal
from trajens.app.cli.streams import say
from trajens.app.sweeps import Plan, Swept, sweep
from trajens.app.sweeps.directory import ORDER, Outcome, SweepDirectory, TaskState, spoken
from trajens.app.sweeps.engines import ENGINES
from trajens.app.sweeps.results import outcomes_of, parquet_of, read_progress, rows_of, table_of
from trajens.errors import SOME_FAILED, STOPPED, require
from trajens.files import in_shell, write_atomically

_ROWS, _SECONDS, _LINE_SECONDS = 16, 1.0, 10.0
_READ = 32
"""Runs at work that are asked how far they have come, at a time."""
_TOLD = 16
"""Failures that are told as they come, at most; all of them are told at the end."""
_STYLES = {
    TaskState.RUNNING: "cyan",
    TaskState.FAILED: "bold red",
    TaskState.STOPPED: "yellow",
    TaskState.COMPLETE: "green",
}


class SweepTable:
    """Shows the outcomes it is called with: live in a terminal, elsewhere a line every ten seconds."""

    def __init__(self, directory: SweepDirectory):
        self._directory, self._console = directory, Console(stderr=True)
        self._shown = self._began = time.monotonic()
        self._shares: dict[str, float] = {}
        self._at_first: float | None = None
        self._told: set[str] = set()
        is_live = self._console.is_terminal and not self._console.is_dumb_terminal
        self._live = Live(console=self._console, auto_refresh=False) if is_live else None

    def __call__(self, outcomes: dict[str, Outcome]) -> None:
        """Show them, if it is time."""
        now = time.monotonic()
        if self._at_first is None:
            # What runs have behind them from an earlier time is not done now.
            self._look([name for name, outcome in outcomes.items() if outcome.state is not TaskState.COMPLETE])
            self._at_first = self._done(outcomes)
        if now - self._shown < (_SECONDS if self._live is not None else _LINE_SECONDS):
            return
        self._shown = now
        with contextlib.suppress(OSError, ValueError):
            if self._live is not None:
                table = make_table(self._directory, outcomes, _ROWS)
                table.caption = self._left(outcomes)
                self._live.update(table, refresh=True)
            else:
                self._tell_failures(outcomes)
                text = f"sweep  {spoken(outcomes)}{self._left(outcomes)}"
                self._console.print(text, highlight=False, soft_wrap=True)

    def _tell_failures(self, outcomes: dict[str, Outcome]) -> None:
        for name, outcome in outcomes.items():
            if outcome.state is TaskState.FAILED and name not in self._told and len(self._told) < _TOLD:
                self._told.add(name)
                text = f"sweep  {name} failed: {outcome.sentence}"
                self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def _look(self, names: list[str]) -> None:
        for name in names:
            share = read_progress(self._directory.run(name)).share
            # Last, so that those come first next time that were not asked for longest.
            self._shares.pop(name, None)
            self._shares[name] = 0.0 if math.isnan(share) else share

    def _done(self, outcomes: dict[str, Outcome]) -> float:
        """Runs that are done, those at work by their parts."""
        is_complete = {name: outcome.state is TaskState.COMPLETE for name, outcome in outcomes.items()}
        return sum(1.0 if is_complete[name] else self._shares.get(name, 0.0) for name in outcomes)

    def _left(self, outcomes: dict[str, Outcome]) -> str:
        """Time until all are done, if a run of the rest takes as long as one did since the sweep was begun."""
        running = [name for name in self._shares if outcomes[name].state is TaskState.RUNNING]
        self._look(running[:_READ])
        failed = [name for name, outcome in outcomes.items() if outcome.state is TaskState.FAILED]
        now = self._done(outcomes)
        done = now - (self._at_first or 0.0)
        left = len(outcomes) - now - sum(1 - self._shares.get(name, 0.0) for name in failed)
        if done <= 0 or left < 1e-9:
            return ""
        return f"  left about {_seconds((time.monotonic() - self._began) / done * left)}"

    def __enter__(self) -> SweepTable:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            with contextlib.suppress(OSError, ValueError):
                self._live.stop()


def make_table(directory: SweepDirectory, outcomes: dict[str, Outcome], most: int) -> Table:
    """At most so many runs: those at work and those that failed first."""
    table = Table(title=f"sweep: {spoken(outcomes)}")
    for heading in ("run", "state", "done", "left", "loss", ""):
        table.add_column(heading, justify="right" if heading in ("done", "left", "loss") else "left")
    for name in sorted(outcomes, key=lambda name: ORDER.index(outcomes[name].state))[:most]:
        outcome = outcomes[name]
        share, loss, left = read_progress(directory.run(name))
        is_timed = outcome.state is TaskState.RUNNING and not math.isnan(left)
        table.add_row(
            escape(name),
            outcome.state,
            "" if math.isnan(share) else f"{share:.0%}",
            _seconds(left) if is_timed else "",
            "" if math.isnan(loss) else f"{loss:.4g}",
            escape(outcome.sentence),
            style=_STYLES.get(outcome.state),
        )
    if len(outcomes) > most:
        table.add_row(f"and {len(outcomes) - most} more", *[""] * 5)
    return table


def _seconds(seconds: float) -> str:
    """As a clock says it: 45 s, 12:30 min, 3:05 h."""
    whole = round(seconds)
    if whole < 100:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes}:{rest:02} min" if minutes < 100 else f"{minutes // 60:,}:{minutes % 60:02} h"


ENGINE_HELP = f"Where runs are made: {', '.join(ENGINES)}."
WORKERS = Annotated[
    int | None, typer.Option(metavar="N", help="Runs at the same time, with local; default one a core or GPU.")
]
PER_GPU = Annotated[
    int | None, typer.Option(metavar="N", help="Runs that share a GPU, with local; default 1.", show_default=False)
]
SCHEDULER = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="Address of a Dask scheduler, with dask.", show_default=False)
]
MINUTES = Annotated[
    int | None, typer.Option(metavar="N", help="Time limit of a job, with slurm; default 60.", show_default=False)
]
SLURM = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE", help="Option of sbatch, with slurm: partition=main, gres=gpu:1, ..", show_default=False
    ),
]


class EngineOptions(NamedTuple):
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
    EngineOptions(engine, workers, per_gpu, scheduler, minutes, slurm).swept(plan, out)
    typer.echo(f"written to {out}; next: trajens report {in_shell(out)}, or trajens sweep gather {in_shell(out)}")


@sweeps.command()
def status(directory: _Directory) -> None:
    """Where every run of a sweep stands."""
    here = SweepDirectory(directory)
    outcomes = outcomes_of(here)
    Console().print(make_table(here, outcomes, len(outcomes)))


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
