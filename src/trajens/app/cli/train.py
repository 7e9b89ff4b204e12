"""``trajens train`` and ``trajens resume``: sample the paths of a problem, safely, and say what came out.

*Flags* are made from the table of options, so that there is no second list of them. Every flag is read as text and
turned into its value by the kind of its option: what is wrong with it is said in our one sentence.

*Summary.* Of a finished run plain numbers are told, and a table of them. The linear perceptron has an exact solution,
with which it is compared.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, NoReturn, Optional

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from trajens import exact
from trajens.app.cli.environment import use_all_cores
from trajens.app.cli.signals import StopOnSignal
from trajens.app.cli.streams import finite, say
from trajens.app.config import EVEN, OPTIONS, RENAMED, Option
from trajens.app.experiment import Experiment
from trajens.app.kinds import group_chains, names, switch, tilts, whole
from trajens.app.resolve import resolve
from trajens.app.sources import EpisodesData
from trajens.columns import SUMMARISED, Average, Column, When
from trajens.errors import INTERRUPTED, STOPPED, Stopped, integer
from trajens.files import in_shell
from trajens.loading import BEGAN
from trajens.rl.problem import episodes_of
from trajens.run.advice import RunFacts, advice
from trajens.run.outcome import among_examples, audited_error, audited_shift
from trajens.run.resume import epochs_in_all
from trajens.run.run import Run
from trajens.run.stored import StoredRun
from trajens.storage.directory import RunFiles
from trajens.storage.options import read_toml


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """`command(..., **options)` with a flag for every option in place of ``**options``."""
    own = inspect.signature(command, eval_str=True).parameters.values()
    flags = [_flag(name, option) for name, option in OPTIONS.items() if option.is_flag]
    flags += [_old_flag(name) for name in RENAMED]
    parameters = [p for p in own if p.kind is not inspect.Parameter.VAR_KEYWORD] + flags

    def framed(**values: Any) -> None:
        command(**values)

    framed.__name__, framed.__doc__ = command.__name__, command.__doc__
    framed.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    framed.__annotations__ = {p.name: p.annotation for p in parameters}
    return framed


def _flag(name: str, option: Option) -> inspect.Parameter:
    flag = f"--{name.replace('_', '-')}"
    more: dict[str, Any] = {"rich_help_panel": option.group, "help": option.help, "show_default": option.shown or False}
    if option.kind is switch:
        return _parameter(name, Annotated[Optional[bool], typer.Option(f"{flag}/--no-{flag[2:]}", **more)])  # noqa: UP045
    if option.kind is names:
        given = typer.Option(flag, metavar=option.metavar, callback=lambda values: values or None, **more)
        return _parameter(name, Annotated[Optional[list[str]], given])  # noqa: UP045
    return _parameter(name, Annotated[Optional[str], typer.Option(flag, metavar=option.metavar, **more)])  # noqa: UP045


def _old_flag(name: str) -> inspect.Parameter:
    hidden = typer.Option(f"--{name}", hidden=True, help=f"Now called --{RENAMED[name]}.")
    return _parameter(name, Annotated[Optional[str], hidden])  # noqa: UP045


def _parameter(name: str, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


_LARGEST_EXACT_TAU = 1024
"""The exact solution is a dense matrix of side tau D; longer paths go without it."""


def summary(run: Run | StoredRun, experiment: Experiment) -> dict[str, Any]:
    """The summary of a run; ``by_s`` has one for every group of chains when there are several s."""
    if experiment.config.s is None:
        return {**_numbers(run), "s": float(run.s[0])}
    groups = group_chains(experiment.config.s, len(run.paths))
    if tilts(experiment.config.s)[1] is not None:
        return {**_numbers(run), "s": groups[0][0]}
    by_s = [_with_exact({**_numbers(run, chains), "s": float(run.s[chains[0]])}, experiment) for _, chains in groups]
    return by_s[0] if len(by_s) == 1 else {**_numbers(run), "by_s": by_s}


def _numbers(run: Run | StoredRun, chains: Any = None) -> dict[str, Any]:
    """The summary of all chains or those in `chains`, with that of their start where there was one."""
    begun = RunFacts.of(run).started(chains)
    return {**run.summary(chains), **({} if begun is None else {"start": begun._asdict()})}


def _with_exact(numbers: dict[str, Any], experiment: Experiment) -> dict[str, Any]:
    config, target = experiment.config, experiment.target
    if config.problem != "perceptron":
        return numbers
    loss = float("nan")
    # Without a prior there is no distribution at s = 0.
    has_law = target.prior is not None or numbers["s"] > 0
    if target.tau <= _LARGEST_EXACT_TAU and has_law:
        x, y = experiment.data
        loss = exact.perceptron(x, y, target.tau, target.sigma, numbers["s"], target.prior).loss
    error = numbers["loss_stderr"]
    z = (numbers["loss"] - loss) / error if error > 0 else float("nan")
    return {**numbers, "exact_loss": loss, "exact_z": z}


def _is_shown(column: Column, groups: list[dict[str, Any]], experiment: Experiment) -> bool:
    """Whether the table has a row for the average of a column."""
    if not column.spec or column.name not in groups[0]:
        return False
    if column.when is When.TUNED:
        return bool(np.isfinite(groups[0][column.name]))
    return column.when is not When.AUDITS or not experiment.acceptance.takes_all_data


def _shown(column: Column, group: dict[str, Any]) -> str:
    """The average of a column in a summary."""
    if column.average is Average.AUDITS:
        return audited_error(group)
    if column.average is Average.SHIFTS:
        return audited_shift(group)
    value = group[column.name]
    return "-" if column.average is Average.KNOWN and np.isnan(value) else format(value, column.spec)


def _started(begun: dict[str, Any]) -> str:
    return f"{begun['pairs']:,.0f}, {begun['share']:.0%}, {begun['loss']:.4g}"


def convergence(group: dict[str, Any]) -> str:
    """R-hat and effective draws of a summary, where they are known."""
    if not np.isfinite(group["ess"]):
        return "too short to say"
    return f"{group['rhat']:.3f}, {group['ess']:,.0f}"


def table(numbers: dict[str, Any], experiment: Experiment) -> Table:
    """The same for reading: one column for every s."""
    groups = numbers.get("by_s", [numbers])
    target, source = experiment.target, experiment.source
    episodes = episodes_of(source.problem) if isinstance(source, EpisodesData) else None
    size = experiment.problem.size
    result = Table(
        title=f"{escape(experiment.config.problem)}: tau = {target.tau}, sigma = {target.sigma:g}", show_header=False
    )
    result.add_column(style="bold")
    for _ in groups:
        result.add_column(justify="right")

    def among(group: dict[str, Any]) -> str:
        return " episodes" if episodes is not None else among_examples(group["batch_size"], size)

    def add(label: str, shown: Any) -> None:
        result.add_row(label, *(shown(group) for group in groups))

    def add_column(column: Column) -> None:
        add(column.title, lambda group: f"{_shown(column, group)}{among(group) if column.name == 'batch_size' else ''}")

    add("s", lambda g: f"{g['s']:g}")
    loss, *columns = (column for column in SUMMARISED if _is_shown(column, groups, experiment))
    add_column(loss)
    if groups[0]["chains"] > 1:
        add(f"standard error, {groups[0]['chains']} chains", lambda g: f"{g['loss_stderr']:.2g}")
    add("error by effective draws", lambda g: f"{g['loss_mcse']:.2g}" if np.isfinite(g["loss_mcse"]) else "cannot say")
    add("R-hat, effective draws, at worst", convergence)
    if "exact_loss" in groups[0]:
        add("exact", lambda g: f"{g['exact_loss']:.6g}")
        add("z = (measured - exact) / error", lambda g: f"{g['exact_z']:.2f}")
    if episodes is not None:
        add("return per model, measured", lambda g: f"{episodes.return_of(g['loss']):.6g}")
    elif experiment.config.model is not None:
        add("labels", lambda g: experiment.labels)
    if experiment.is_by_data:
        add("start", lambda g: g["start"]["way"] if "start" in g else str(experiment.start))
        if "start" in groups[0]:
            add("pairs of the start, share, last loss", lambda g: _started(g["start"]))
        add("examples drawn by", lambda g: experiment.scores or EVEN)
    for column in columns:
        add_column(column)
    add("reasons for decisions", lambda g: "\n".join(f"{name} {n:,}" for name, n in g["reasons"].items() if n))
    add("epochs, burn-in", lambda g: f"{g['epochs']:,}, {g['burn_in']:,}")
    add("seconds", lambda g: f"{g['seconds']:.1f}")
    return result


_LOADING = min(time.perf_counter() - BEGAN, 30.0)
"""Seconds that loading took, which count among --minutes; a process that loads it later has not waited for it."""

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
        # What train refuses is refused here, and not written down.
        Experiment(chosen).check()
        typer.echo(chosen.to_toml(), nl=False)
        return
    began = time.perf_counter() - _LOADING
    use_all_cores()
    experiment = Experiment(chosen)
    if chosen.minutes is not None:
        say("trajens: compiling, and measuring how fast this machine is")
        experiment, speed = experiment.on_clock(chosen.minutes, time.perf_counter() - began)
        is_one = chosen.minutes == 1
        say(
            f"trajens: {chosen.minutes:g} {'minute is' if is_one else 'minutes are'} about "
            f"{experiment.config.budget:.2g} pairs of losses at {speed:.2g} a second"
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
    _train(experiment, directory, True, epochs_in_all(stored, experiment.config.epochs, more), as_json)


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
            following = f"; next: trajens evaluate {in_shell(out)}" if is_classifier else ""
            Console().print(f"written to {out}{following}", highlight=False, soft_wrap=True, markup=False)


def _leave_unfinished(what: str, out: str | Path | None) -> NoReturn:
    saved = "nothing was saved without --out" if out is None else f"go on with: trajens resume {in_shell(out)}"
    # The terminal may be gone.
    with contextlib.suppress(OSError):
        typer.echo(f"trajens: {what}; {saved}", err=True)
    raise typer.Exit(INTERRUPTED if out is None else STOPPED)
