"""``trajens bench``: how fast this machine is."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from trajens.cli.devices import num_cores, require_devices

bench = typer.Typer(help="Measure how fast this machine is.", no_args_is_help=True)


@bench.command()
def kernel(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Image pairs/s of the native kernel at every level, of the JAX definition and of PyTorch, if here, in one run."""
    require_devices()
    from trajens.bench.kernel import bench_kernel

    result = bench_kernel(num_cores())
    if as_json:
        typer.echo(json.dumps(result))
        return
    table = Table(
        title=f"{result['lanes']} lanes x {result['chunk']} images on {result['cores']} cores",
        caption="limit: what the multiply-add units of these cores allow" if result["limit"] else None,
    )
    for heading in ("loss", "image pairs/s", "a core", "ratio to JAX", "share of the limit"):
        table.add_column(heading, justify="left" if heading == "loss" else "right")
    for name, rate in result["pairs_per_second"].items():
        ratio, share = result["ratio_to_jax"].get(name), result["share_of_limit"].get(name)
        table.add_row(
            name,
            f"{rate:.3g}",
            f"{rate / result['cores']:.3g}",
            "" if ratio is None else f"{ratio:.1f}",
            "" if share is None else f"{share:.2f}",
        )
    Console().print(table)


@bench.command()
def sampler(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Epochs/s of the whole sampler on MNIST, against its kernel, JAX alone and textbook PyTorch, in one run."""
    require_devices()
    from trajens.bench.sampler import bench_sampler

    with Console(stderr=True).status("timing, a minute or two ..."):
        result = {**bench_sampler(), "cores": num_cores()}
    if as_json:
        typer.echo(json.dumps(result))
        return
    settings, start = result["settings"], result["start"]
    table = Table(
        title=f"MNIST, tau = {settings['tau']}, s = {settings['s']:g}, from a path of {start['epochs']} epochs "
        f"(loss {start['loss_deciding']:.2f}), on {result['device']}",
        caption=f"many trajectories: {settings['chains']}, {result['lanes']} lanes; kernel: {result['kernel']}; "
        f"textbook: {result['textbook'] or 'PyTorch is not installed'}",
    )
    for heading in ("what", "epochs/s", "image pairs/s", "mean batch", "rounds", "spread"):
        table.add_column(heading, justify="left" if heading == "what" else "right")
    for name, pairs in result["pairs_per_second"].items():
        epochs, batch = result["epochs_per_second"].get(name), result["batch_size"].get(name)
        table.add_row(
            name,
            "" if epochs is None else f"{epochs:.3g}",
            f"{pairs:.3g}",
            "" if batch is None else f"{batch:.0f}",
            str(result["rounds"][name]),
            f"{result['spread'][name]:.0%}",
        )
    for name, reason in result["left_out"].items():
        table.add_row(name, reason)
    Console().print(table)
    for name, ratio in result["ratios"].items():
        typer.echo(f"{name.replace('_', ' ')}: {ratio:.3g}")
