"""``trajens train``: sample the paths of a problem and report the loss.

The linear perceptron has an exact solution, so its report compares the two.
"""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

import trajens as tj
from trajens.acceptance import AcceptanceTest
from trajens.cli.devices import use_all_cores
from trajens.cli.numbers import finite, whole
from trajens.errors import choice, integer, number, require
from trajens.moves import Move

_TESTS = ("penalty", "minibatch-barker", "paper", "barker", "metropolis")
_LARGEST_EXACT_TAU = 1024
"""The exact solution is a dense matrix of side tau D; longer paths go without it."""

train = typer.Typer(help="Train an ensemble and report its loss.", no_args_is_help=True)


@train.callback()
def _train() -> None:
    # A callback keeps `train` a group while it has a single command.
    pass


def _whole(panel: str, text: str, **more: Any) -> Any:
    return typer.Option(parser=whole, metavar="N", rich_help_panel=panel, help=text, **more)


def _real(panel: str, text: str, **more: Any) -> Any:
    return typer.Option(metavar="X", rich_help_panel=panel, help=text, **more)


def _name(panel: str, text: str, names: tuple[str, ...]) -> Any:
    return typer.Option(metavar="NAME", rich_help_panel=panel, help=f"{text}: {', '.join(names)}.")


@train.command()
def perceptron(
    tau: Annotated[Any, _whole("Target", "Models in a path.")] = 8,
    s: Annotated[float, _real("Target", "Tilt towards low loss; multiplies the mean loss.")] = 20.0,
    sigma: Annotated[float, _real("Target", "Standard deviation of a step between neighbouring models.")] = 0.1,
    prior: Annotated[
        float | None, _real("Target", "Standard deviation of the first model.", show_default="flat")
    ] = None,
    num_data: Annotated[Any, _whole("Data", "Examples.")] = 256,
    noise: Annotated[float, _real("Data", "Standard deviation of the labels around the line.")] = 0.0,
    data_seed: Annotated[Any, _whole("Data", "Seed of the data.")] = 0,
    fraction: Annotated[float, _real("Moves", "Share of the parameters that is redrawn.")] = 1.0,
    refresh: Annotated[float, _real("Moves", "How much of them is redrawn; 1 keeps nothing.")] = 1.0,
    segment: Annotated[
        Any, _whole("Moves", "Redraw N neighbouring models at a time.", show_default="one model")
    ] = None,
    centre_of_mass: Annotated[
        float | None,
        _real("Moves", "Also shift whole paths by this width, once per tau other moves.", show_default="never"),
    ] = None,
    scan: Annotated[str, _name("Moves", "Order of updates", ("checkerboard", "random"))] = "checkerboard",
    test: Annotated[str, _name("Acceptance test", "Which one", _TESTS)] = "penalty",
    chunk: Annotated[
        Any,
        _whole("Acceptance test", "Minibatches grow by N.", show_default="32; barker, metropolis: all data"),
    ] = None,
    rho: Annotated[
        float | None,
        _real("Acceptance test", "Accepted noise of a minibatch.", show_default="penalty: 1.35, minibatch-barker: 1"),
    ] = None,
    epochs: Annotated[Any, _whole("Run", "Proposals per chain, burn-in included.")] = 200_000,
    burn_in: Annotated[Any, _whole("Run", "Epochs left out of averages.", show_default="a fifth")] = None,
    chains: Annotated[Any, _whole("Run", "Independent chains, spread over the cores.")] = 64,
    records: Annotated[Any, _whole("Run", "How often the loss is measured.")] = 200,
    seed: Annotated[Any, _whole("Run", "Seed of the sampling.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """The paper's linear perceptron, a straight line through noiseless points, against its exact loss.

    Whole numbers may be written as 2e5.
    """
    settings = {name: value for name, value in locals().items() if name != "as_json"}
    use_all_cores()
    data = tj.datasets.perceptron(
        integer("data-seed", data_seed, 0, "any whole number will do"),
        integer("num-data", num_data, 2, "the paper uses 256"),
        noise,
    )
    target = tj.Target(data.problem(), tau, sigma, s, prior)
    exact = float("nan")
    if target.tau <= _LARGEST_EXACT_TAU:
        exact = tj.exact.perceptron(data.x, data.y, tau, sigma, s, prior).loss
    run = tj.sample(
        target,
        epochs,
        chains,
        seed,
        burn_in,
        _move(target.tau, fraction, refresh, segment, centre_of_mass),
        _test(test, chunk, rho, target.problem.size),
        scan,
        records=records,
        progress=True,
    )
    summary = run.summary()
    error = summary["loss_stderr"]
    z = (summary["loss"] - exact) / error if error > 0 else float("nan")
    if as_json:
        report = {**summary, "exact_loss": exact, "exact_z": z, "settings": settings}
        typer.echo(json.dumps(finite(report), allow_nan=False))
    else:
        Console().print(_table(summary, exact, z, target))


def _move(tau: int, fraction: float, refresh: float, segment: Any, centre_of_mass: float | None) -> Move:
    move: Move = tj.SingleSite(fraction, refresh)
    if segment is not None:
        move = tj.Segment(integer("segment", segment, 1, "try 2 to 8 models"), fraction, refresh)
    if centre_of_mass is None:
        return move
    width = number("centre-of-mass", centre_of_mass, "try sigma or more at small s", above=0.0)
    return tj.Mixture([(tau, move), (1, tj.CentreOfMass(width))])


def _test(name: str, chunk: Any, rho: float | None, size: int) -> AcceptanceTest:
    choice("test", name, _TESTS)
    require(
        rho is None or name in ("penalty", "minibatch-barker"),
        f"rho must be left out with --test {name}, got {rho}; use penalty or minibatch-barker to choose it.",
    )
    if name in ("barker", "metropolis"):
        whole_chunk = None if chunk is None else integer("chunk", chunk, 2, "leave it out for all data", size)
        return tj.Barker(whole_chunk) if name == "barker" else tj.Metropolis(whole_chunk)
    chunk = integer("chunk", min(32, size) if chunk is None else chunk, 2, f"there are {size} examples, try 32", size)
    if name == "paper":
        return tj.paper_test(chunk)
    if name == "penalty":
        return tj.Penalty(chunk) if rho is None else tj.Penalty(chunk, rho)
    return tj.MinibatchBarker(chunk) if rho is None else tj.MinibatchBarker(chunk, rho)


def _table(summary: dict[str, Any], exact: float, z: float, target: tj.Target) -> Table:
    table = Table(
        title=f"perceptron: tau = {target.tau}, s = {target.s:g}, sigma = {target.sigma:g}", show_header=False
    )
    table.add_column(style="bold")
    table.add_column(justify="right")
    reasons = [f"{label} {count:,}" for label, count in summary["reasons"].items() if count]
    for label, value in (
        ("loss per model, measured", f"{summary['loss']:.6g}"),
        (f"standard error, {summary['chains']} chains", f"{summary['loss_stderr']:.2g}"),
        ("exact", f"{exact:.6g}"),
        ("z = (measured - exact) / error", f"{z:.2f}"),
        ("acceptance", f"{summary['acceptance']:.3f}"),
        ("mean batch", f"{summary['batch_size']:.1f} of {target.problem.size}"),
        ("data used", f"{summary['data_used']:,}"),
        ("max skew, |kappa_3| / 12", f"{summary['max_skew']:.2g}"),
        ("reasons for decisions", "\n".join(reasons)),
        ("epochs, burn-in", f"{summary['epochs']:,}, {summary['burn_in']:,}"),
        ("seconds", f"{summary['seconds']:.1f}"),
    ):
        table.add_row(label, value)
    return table
