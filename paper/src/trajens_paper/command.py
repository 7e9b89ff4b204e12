"""``trajens figure``: reproduce a figure of the paper."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from trajens.app.cli.environment import use_all_cores
from trajens.app.cli.sweep import ENGINE_HELP, MINUTES, PER_GPU, SCHEDULER, SLURM, WORKERS, EngineOptions, leave_gpus
from trajens.app.kinds import whole
from trajens.app.sweeps.engines import ENGINES
from trajens.errors import choice, require
from trajens_paper import FIGURES, Finished
from trajens_paper.claims import LEVEL


def figure(
    name: Annotated[str, typer.Argument(help=f"Which one: {', '.join(FIGURES)} or all.", show_default=False)],
    scale: Annotated[
        str,
        typer.Option(
            help="How much to sample: quick (a minute or two on two cores), laptop (up to an hour), or paper (for a "
            "GPU; mnist and curves are finished from paper/results/mnist where that exists)."
        ),
    ] = "quick",
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where pictures and numbers are written.")] = Path("figures"),
    seed: Annotated[str, typer.Option(metavar="N", help="Seed of the random numbers.")] = "0",
    engine: Annotated[
        str | None,
        typer.Option(metavar="NAME", help=f"Of the figure mnist. {ENGINE_HELP}", show_default="this process"),
    ] = None,
    workers: WORKERS = None,
    per_gpu: PER_GPU = None,
    scheduler: SCHEDULER = None,
    minutes: MINUTES = None,
    slurm: SLURM = None,
) -> None:
    """Sample, print and draw a figure of the paper, and judge what it claims.

    Runs are kept in DIR/runs: the same command draws from them, or goes on where it was interrupted. With an engine
    they are those of a sweep, and the same.
    """
    names = list(FIGURES) if name == "all" else [named(name)]
    who = "" if engine is None else choice("engine", engine, ENGINES)
    asked = EngineOptions(who, workers, per_gpu, scheduler, minutes, slurm)
    options: dict[str, Any] = {"scale": scale, "seed": whole("seed", seed), "progress": True}
    if engine is None:
        for option, value in asked._asdict().items():
            require(not value, f"{option} must be left out without an engine, got {value}; add --engine.")
    else:
        leave_gpus()
        options["sweep"] = asked.swept
    use_all_cores()
    console = Console()
    for each in names:
        _show(console, FIGURES[each](out, **options))


def named(name: str) -> str:
    """The name of a figure; a number is refused, since earlier versions counted the paper's figures otherwise."""
    require(
        not name[:1].isdigit(),
        f"figure must be a name, got {name}; the paper's figure 1(c) is perceptron, 2 is mnist, 3 is curves and 4 is "
        "normality.",
    )
    return choice("figure", name, [*FIGURES, "all"])


def _show(console: Console, finished: Finished) -> None:
    console.print(finished.table)
    for line in finished.remarks:
        console.print(line, highlight=False, soft_wrap=True)
    if finished.claims:
        table = Table(title=f"claims; told apart at a level of {LEVEL:g}", box=box.SIMPLE_HEAD)
        for heading in ("claim", "value", "error", "", "", "verdict"):
            table.add_column(heading, justify="right" if heading in ("value", "error") else "left")
        for c in finished.claims:
            table.add_row(c.claim, f"{c.value:.4g}", f"{c.error:.2g}", c.relation, f"{c.reference:.4g}", c.verdict)
        console.print(table)
    for path in finished.files:
        console.print(f"wrote {path}", highlight=False, soft_wrap=True)
