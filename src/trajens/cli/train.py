"""``trajens train`` and ``trajens resume``: sample the paths of a problem, safely, and report the loss."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

import trajens as tj
from trajens.checkpoint import checkpoints
from trajens.cli.devices import use_all_cores
from trajens.cli.numbers import finite, whole
from trajens.cli.report import report, table
from trajens.config import read_toml, resolve
from trajens.directory import last_epoch
from trajens.errors import integer
from trajens.experiment import ACTIVATIONS, LOSSES, MODELS, SCANS, TESTS, Experiment
from trajens.signals import STOPPED, StopOnSignal


def _whole(panel: str, text: str, default: str = "") -> Any:
    return typer.Option(parser=whole, metavar="N", rich_help_panel=panel, help=text, show_default=default or False)


def _text(panel: str, metavar: str, text: str, default: str = "") -> Any:
    return typer.Option(metavar=metavar, rich_help_panel=panel, help=text, show_default=default or False)


def _real(panel: str, text: str, default: str = "") -> Any:
    return _text(panel, "X", text, default)


def _name(panel: str, text: str, names: tuple[str, ...], default: str = "") -> Any:
    return _text(panel, "NAME", f"{text}: {', '.join(names)}.", default)


def train(
    problem: Annotated[
        str | None, typer.Argument(help="perceptron, mnist, or a .npz, .csv or IDX file.", show_default=False)
    ] = None,
    out: Annotated[Path | None, _text("Run", "DIR", "New directory for records and checkpoints.")] = None,
    config: Annotated[Path | None, _text("Run", "FILE", "Options in TOML; flags override them.")] = None,
    print_config: Annotated[
        bool, typer.Option("--print-config", rich_help_panel="Run", help="Print the options as TOML and do nothing.")
    ] = False,
    model: Annotated[str | None, _name("Problem", "Network", MODELS, "mnist: cnn, a file: mlp")] = None,
    hidden: Annotated[str | None, _text("Problem", "N,..", "Hidden layers of an mlp.", "32")] = None,
    activation: Annotated[str | None, _name("Problem", "Of an mlp", ACTIVATIONS, "relu")] = None,
    loss: Annotated[str | None, _name("Problem", "Loss", LOSSES, "by the labels")] = None,
    num_data: Annotated[Any, _whole("Problem", "Examples of the perceptron.", "256")] = None,
    noise: Annotated[float | None, _real("Problem", "Noise of the perceptron's labels.", "0")] = None,
    data_seed: Annotated[Any, _whole("Problem", "Seed of the perceptron's data.", "0")] = None,
    tau: Annotated[Any, _whole("Target", "Models in a path.", "8")] = None,
    s: Annotated[
        str | None,
        typer.Option(
            "--s",
            metavar="S",
            rich_help_panel="Target",
            help="Tilt towards low loss; multiplies the mean loss. A number, several (5,10,20, --chains each), or "
            "an annealing (60:1000).",
            show_default="50; perceptron: 20",
        ),
    ] = None,
    anneal: Annotated[Any, _whole("Target", "Epochs during which s is annealed.", "burn-in")] = None,
    sigma: Annotated[
        float | None, _real("Target", "Standard deviation of a step between models.", "0.05; perceptron: 0.1")
    ] = None,
    prior: Annotated[
        str | None,
        _text("Target", "X|flat", "Standard deviation of the first model.", "0.3; perceptron: flat"),
    ] = None,
    fraction: Annotated[
        float | None, _real("Moves", "Share of the parameters that is redrawn.", "0.25; perceptron: 1")
    ] = None,
    refresh: Annotated[float | None, _real("Moves", "How much of them; 1 keeps nothing.", "1")] = None,
    segment: Annotated[Any, _whole("Moves", "Redraw N neighbouring models at a time.", "one")] = None,
    centre_of_mass: Annotated[
        float | None, _real("Moves", "Also shift whole paths by this width, once per tau other moves.")
    ] = None,
    scan: Annotated[str | None, _name("Moves", "Order of updates", SCANS, "checkerboard")] = None,
    repeats: Annotated[Any, _whole("Moves", "Proposals per model before the colours change.", "1")] = None,
    test: Annotated[str | None, _name("Acceptance test", "Which one", TESTS, "penalty")] = None,
    chunk: Annotated[
        Any, _whole("Acceptance test", "Minibatches grow by N.", "240; perceptron: 32; full-data tests: all")
    ] = None,
    rho: Annotated[
        float | None, _real("Acceptance test", "Accepted noise.", "penalty 1.35, minibatch-barker 1")
    ] = None,
    pool: Annotated[
        bool | None,
        typer.Option(
            "--pool/--no-pool",
            rich_help_panel="Acceptance test",
            help="One batch size for all models of a path, which pays on a GPU.",
            show_default="no-pool",
        ),
    ] = None,
    ahead: Annotated[
        Any, _whole("Acceptance test", "Chunks evaluated at once; 4 to 8 pays on a GPU with few lanes.", "1")
    ] = None,
    epochs: Annotated[Any, _whole("Run", "Proposals per chain, burn-in included.", "4e5; perceptron: 2e5")] = None,
    burn_in: Annotated[Any, _whole("Run", "Epochs left out of averages.", "a fifth")] = None,
    chains: Annotated[Any, _whole("Run", "Independent chains.", "1; perceptron: 64")] = None,
    records: Annotated[Any, _whole("Run", "How often the loss is measured.", "200")] = None,
    seed: Annotated[Any, _whole("Run", "Seed of the sampling.", "0")] = None,
    start: Annotated[str | None, _text("Run", "DIR", "Start from the last paths of another run.")] = None,
    checkpoint_seconds: Annotated[float | None, _real("Run", "Time between checkpoints.", "5")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Train an ensemble and report its loss.

    Whole numbers may be written as 2e5. With --out nothing is lost: Ctrl-C, SIGTERM and SIGUSR1 finish the block, save
    and exit with code 75; 'trajens resume DIR' goes on, also after a crash.
    """
    flags = dict(locals())
    for name in ("out", "config", "print_config", "as_json"):
        del flags[name]
    # Without a problem, the options are shown for the one that most will want.
    usual = {"problem": "mnist"} if print_config else {}
    options = resolve(usual, {} if config is None else read_toml(config), flags)
    if print_config:
        typer.echo(options.to_toml(), nl=False)
        return
    use_all_cores()
    _train(Experiment(options), out, False, options.epochs, as_json)


def resume(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Directory of a run.", show_default=False)],
    epochs: Annotated[
        Any, typer.Option(parser=whole, metavar="N", help="Epochs to add to those asked for before.")
    ] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Go on with a run, bit for bit as if it had never been interrupted."""
    use_all_cores()
    experiment = Experiment.load(directory)
    planned = max(last_epoch(directory), int(experiment.config.epochs))
    more = integer("epochs", epochs, 0, "give the number of epochs to add")
    _train(experiment, directory, True, planned + more, as_json)


def _train(experiment: Experiment, out: Path | None, is_resumed: bool, epochs: int, as_json: bool) -> None:
    is_begun = is_resumed and out is not None and bool(checkpoints(out))
    target, arguments = experiment.target, experiment.arguments(is_begun)
    directory = None if out is None else experiment.directory(out, is_resumed)
    with StopOnSignal() as stop:
        run = tj.sample(target, **{**arguments, "epochs": epochs}, out=directory, progress=True, stop=stop)
    if not run.is_complete:
        saved = "nothing was saved without --out" if out is None else f"go on with: trajens resume {out}"
        typer.echo(f"trajens: stopped after {run.epochs:,} of {epochs:,} epochs; {saved}", err=True)
        raise typer.Exit(STOPPED)
    numbers = report(run, experiment)
    if as_json:
        typer.echo(json.dumps(finite({**numbers, "settings": asdict(experiment.config)}), allow_nan=False))
    else:
        Console().print(table(numbers, experiment))
        if out is not None:
            is_classifier = experiment.config.model is not None and experiment.model.outputs > 1
            following = f"; next: trajens evaluate {out}" if is_classifier else ""
            Console().print(f"written to {out}{following}", highlight=False, soft_wrap=True, markup=False)
