"""What is told of a finished run: plain numbers, and a table of them.

The linear perceptron has an exact solution, with which it is compared.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from rich.markup import escape
from rich.table import Table

from trajens import exact
from trajens.columns import COLUMNS, Average, Column, When
from trajens.experiments import Experiment
from trajens.experiments.episodes import EpisodesData
from trajens.experiments.kinds import grouped, tilts
from trajens.experiments.options import EVEN
from trajens.rl.problem import episodes_of
from trajens.run.advice import RunFacts, audited_error
from trajens.run.run import Run

_LARGEST_EXACT_TAU = 1024
"""The exact solution is a dense matrix of side tau D; longer paths go without it."""


def summary(run: Run, experiment: Experiment) -> dict[str, Any]:
    """The summary of a run; ``by_s`` has one for every group of chains when there are several s."""
    if experiment.config.s is None:
        return {**_numbers(run), "s": float(run.s[0])}
    groups = grouped(experiment.config.s, run.settings.chains)
    if tilts(experiment.config.s)[1] is not None:
        return {**_numbers(run), "s": groups[0][0]}
    by_s = [_with_exact({**_numbers(run, chains), "s": float(run.s[chains[0]])}, experiment) for _, chains in groups]
    return by_s[0] if len(by_s) == 1 else {**_numbers(run), "by_s": by_s}


def _numbers(run: Run, chains: Any = None) -> dict[str, Any]:
    """The summary of all chains or those in `chains`, with that of their start where there was one."""
    begun = RunFacts.of(run).started(chains)
    return {**run.summary(chains), **({} if begun is None else {"start": begun._asdict()})}


def _with_exact(numbers: dict[str, Any], experiment: Experiment) -> dict[str, Any]:
    config, target = experiment.config, experiment.target
    if config.problem != "perceptron":
        return numbers
    loss = float("nan")
    if target.tau <= _LARGEST_EXACT_TAU:
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
    value = group[column.name]
    return "-" if column.average is Average.KNOWN and np.isnan(value) else format(value, column.spec)


def _started(pairs: float, share: float, loss: float) -> str:
    return f"{pairs:,.0f}, {share:.0%}, {loss:.4g}"


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
    among = " episodes" if episodes is not None else f" of {experiment.problem.size}"
    result = Table(
        title=f"{escape(experiment.config.problem)}: tau = {target.tau}, sigma = {target.sigma:g}", show_header=False
    )
    result.add_column(style="bold")
    for _ in groups:
        result.add_column(justify="right")

    def add(label: str, shown: Any) -> None:
        result.add_row(label, *(shown(group) for group in groups))

    def add_column(column: Column) -> None:
        after = among if column.name == "batch_size" else ""
        add(column.title, lambda group: f"{_shown(column, group)}{after}")

    add("s", lambda g: f"{g['s']:g}")
    loss, *columns = (column for column in COLUMNS if _is_shown(column, groups, experiment))
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
        add("start", lambda g: str(experiment.config.start))
        if "start" in groups[0]:
            add("pairs of the start, share, last loss", lambda g: _started(**g["start"]))
        add("examples drawn by", lambda g: experiment.scores or EVEN)
    for column in columns:
        add_column(column)
    add("reasons for decisions", lambda g: "\n".join(f"{name} {n:,}" for name, n in g["reasons"].items() if n))
    add("epochs, burn-in", lambda g: f"{g['epochs']:,}, {g['burn_in']:,}")
    add("seconds", lambda g: f"{g['seconds']:.1f}")
    return result
