"""``trajens bench``: how fast this machine is."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from trajens.cli.devices import num_cores

bench = typer.Typer(help="Measure how fast this machine is.", no_args_is_help=True)


@bench.callback()
def _bench() -> None:
    # A callback keeps `bench` a group while it has a single command.
    pass


@bench.command()
def kernel(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Image pairs/s of the native kernel, of the JAX definition and, if installed, of PyTorch, in one run."""
    from trajens.kernels.bench import bench_kernel

    result = {**bench_kernel(), "cores": num_cores()}
    if as_json:
        typer.echo(json.dumps(result))
        return
    table = Table(title=f"{result['lanes']} lanes x {result['chunk']} images on {result['cores']} cores")
    for heading in ("loss", "image pairs/s", "ratio to JAX"):
        table.add_column(heading, justify="left" if heading == "loss" else "right")
    for name, rate in result["pairs_per_second"].items():
        ratio = result["ratio_to_jax"].get(name)
        table.add_row(name, f"{rate:.3g}", "" if ratio is None else f"{ratio:.1f}")
    Console().print(table)
