"""``trajens train`` and ``trajens resume``: sample the paths of a problem, safely, and say what came out."""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console

from trajens.cli.devices import use_all_cores
from trajens.cli.flags import with_options
from trajens.cli.numbers import finite, whole
from trajens.cli.signals import StopOnSignal
from trajens.cli.streams import say
from trajens.cli.summary import summary, table
from trajens.errors import Stopped, integer
from trajens.exit_codes import INTERRUPTED, STOPPED
from trajens.experiments import Experiment, resolve
from trajens.run.advice import advice
from trajens.run.stored import StoredRun
from trajens.storage.directory import RunFiles, read_toml

_Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")]


@with_options
def train(
    problem: Annotated[
        str | None,
        typer.Argument(
            help="perceptron, mnist, a .npz, .csv or IDX file, a folder with a subfolder of images for each class, or "
            "an environment: CartPole-v1, or one of gymnax.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            rich_help_panel="Run",
            help="New directory for records and checkpoints.",
            show_default=False,
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", rich_help_panel="Run", help="Options in TOML; flags override them.", show_default=False
        ),
    ] = None,
    print_config: Annotated[
        bool, typer.Option("--print-config", rich_help_panel="Run", help="Print the options as TOML and do nothing.")
    ] = False,
    as_json: _Json = False,
    **options: Any,
) -> None:
    """Train an ensemble and report its loss.

    Whole numbers may be written as 2e5. With --out nothing is lost: Ctrl-C, SIGTERM, SIGUSR1 and SIGHUP finish the
    block, save and exit with code 75; 'trajens resume DIR' goes on, also after a crash.
    """
    # Without a problem, the options are shown for the one that most will want.
    usual = {"problem": "mnist"} if print_config else {}
    chosen = resolve(usual, {} if config is None else read_toml(config), {"problem": problem, **options})
    if print_config:
        typer.echo(chosen.to_toml(), nl=False)
        return
    use_all_cores()
    experiment = Experiment(chosen)
    if chosen.minutes is not None:
        experiment, speed = experiment.with_budget_for(chosen.minutes)
        budget = experiment.config.budget
        say(
            f"trajens: {chosen.minutes:g} minutes are {budget:.2g} pairs of losses at {speed:.2g} a second; "
            f"the same run again: --budget {budget:.2g}"
        )
    _train(experiment, out, False, chosen.epochs, as_json)


def resume(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Directory of a run.", show_default=False)],
    epochs: Annotated[str, typer.Option(metavar="N", help="Epochs to add to those asked for before.")] = "0",
    as_json: _Json = False,
) -> None:
    """Go on with a run, bit for bit as if it had never been interrupted."""
    use_all_cores()
    stored = StoredRun.of(RunFiles(directory, falls_back=True))
    experiment = Experiment.load(stored)
    more = integer("epochs", whole("epochs", epochs), 0, "give the number of epochs to add")
    asked = experiment.config.epochs
    _train(experiment, directory, True, more if asked is None else max(stored.last_epoch, asked) + more, as_json)


def _train(experiment: Experiment, out: str | Path | None, is_resumed: bool, epochs: int | None, as_json: bool) -> None:
    try:
        with StopOnSignal() as stop:
            run = experiment.run(out, is_resumed, progress=True, stop=stop, epochs=epochs)
    except Stopped as stopped:
        _leave_unfinished(str(stopped), out)
    if not run.is_complete:
        of_all = "" if experiment.is_by_data else f" of {epochs:,}"
        _leave_unfinished(f"stopped after {run.epochs:,}{of_all} epochs", out)
    numbers = summary(run, experiment)
    if as_json:
        typer.echo(json.dumps(finite({**numbers, "settings": asdict(experiment.config)}), allow_nan=False))
    else:
        Console().print(table(numbers, experiment))
        if experiment.config.model is not None:
            Console().print(advice(run, out), highlight=False, soft_wrap=True, markup=False)
        if out is not None:
            is_classifier = experiment.config.model is not None and experiment.model.outputs > 1
            following = f"; next: trajens evaluate {out}" if is_classifier else ""
            Console().print(f"written to {out}{following}", highlight=False, soft_wrap=True, markup=False)


def _leave_unfinished(what: str, out: str | Path | None) -> NoReturn:
    saved = "nothing was saved without --out" if out is None else f"go on with: trajens resume {out}"
    # The terminal may be gone.
    with contextlib.suppress(OSError):
        typer.echo(f"trajens: {what}; {saved}", err=True)
    raise typer.Exit(INTERRUPTED if out is None else STOPPED)
