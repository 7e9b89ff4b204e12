"""``trajens figure``: reproduce a figure of the paper."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from trajens.cli.devices import use_all_cores
from trajens.cli.numbers import whole
from trajens.errors import choice
from trajens.figures import FIGURES


def figure(
    name: Annotated[str, typer.Argument(help=f"Which one: {', '.join(FIGURES)}.", show_default=False)],
    scale: Annotated[str, typer.Option(help="How much to sample; quick takes about a minute on two cores.")] = "quick",
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where pictures and numbers are written.")] = Path("figures"),
    seed: Annotated[Any, typer.Option(metavar="N", parser=whole, help="Seed of the random numbers.")] = 0,
) -> None:
    """Sample, print and draw a figure of the paper."""
    choice("figure", name, FIGURES)
    use_all_cores()
    drawn = FIGURES[name](out, scale=scale, seed=seed, progress=True)
    console = Console()
    console.print(drawn.table)
    for line in (*drawn.remarks, *(f"wrote {path}" for path in drawn.files)):
        console.print(line, highlight=False, soft_wrap=True)
