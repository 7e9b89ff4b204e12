"""``trajens show``, ``convergence`` and ``thermo``: numbers of a run that is in a directory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from trajens.app.cli.environment import use_all_cores
from trajens.app.cli.streams import finite
from trajens.app.cli.train import summary, table
from trajens.app.experiment import Experiment
from trajens.app.kinds import whole
from trajens.convergence import Converged
from trajens.errors import require
from trajens.run.stored import StoredRun
from trajens.run.tables import NumberTable, write_number
from trajens.thermo import curve, log_z, observe
from trajens.thermo.free_energy import METHODS

DIRECTORY = Annotated[Path, typer.Argument(metavar="DIR", help="Directory of a run.", show_default=False)]
AS_JSON = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")]


def show(directory: DIRECTORY, as_json: AS_JSON = False) -> None:
    """Print the table of a run once more.

    Of a run that was made in Python: one row for every s.
    """
    stored = StoredRun(directory)
    if stored.config is None:
        rows = stored.by_s()
        require(len(rows) > 0, f"'{directory}' must hold a record after burn-in, got none yet; go on with it.")
        _print(rows, str(directory), as_json)
        return
    experiment = Experiment.load(stored)
    numbers = summary(stored, experiment)
    if as_json:
        typer.echo(json.dumps(finite(numbers), allow_nan=False))
    else:
        Console().print(table(numbers, experiment))


def convergence(directory: DIRECTORY, as_json: AS_JSON = False) -> None:
    """Whether chains agree: R-hat, effective draws, errors and drifts.

    A drift is the difference between the halves of the run after burn-in, in standard errors.
    """
    groups = StoredRun(directory).convergence()
    rows = [
        {
            "s": group.s,
            "quantity": name,
            "mean": one.mean,
            "mcse": one.mcse,
            "rhat": one.rhat,
            "ess_bulk": one.ess_bulk,
            "ess_tail": one.ess_tail,
            "drift": one.drift,
        }
        for group in groups
        for name, one in group.observed.items()
    ]
    require(len(rows) > 0 and groups[0].draws > 0, f"'{directory}' must hold a record after burn-in, got none; go on.")
    lacking = Converged().lacking(groups)
    _print(NumberTable(rows), str(directory), as_json, {"lacking": lacking})
    if not as_json:
        typer.echo(f"not converged: {'; '.join(lacking)}" if lacking else "converged")


def thermo(
    directory: DIRECTORY,
    method: Annotated[
        str,
        typer.Option(metavar="|".join(METHODS), help="How ln Z is computed; integration needs no overlap of losses."),
    ] = METHODS[0],
    examples: Annotated[
        str | None,
        typer.Option(metavar="N", help="Measure losses on so many examples.", show_default="as many as suit"),
    ] = None,
    as_json: AS_JSON = False,
) -> None:
    """Mean loss, its variance and ln Z at every s, from the paths of a run.

    The run must have kept them (train --keep-paths). ln Z is relative to the smallest s: with s = 0 among them (train
    --s 0,5,20), it is ln Z(s)/Z(0).
    """
    use_all_cores()
    some = None if examples is None else whole("examples", examples)
    observed = observe(StoredRun(directory), examples=some)
    found = curve(observed)
    columns: dict[str, Any] = {name: getattr(found, name) for name in ("s", "loss", "loss_stderr")}
    columns |= {"variance": found.variance, "variance_stderr": found.variance_stderr}
    if len(found.s) > 1:
        z = log_z(observed, method)
        columns |= {"log_z": z.log_z, "log_z_stderr": z.stderr}
        if z.discretisation.any():
            columns["discretisation"] = z.discretisation
    values = {name: [float(one) for one in column] for name, column in columns.items()}
    rows = [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]
    _print(NumberTable(rows), f"{directory}: tau = {observed.losses.shape[2]}, loss per model", as_json)


def _print(rows: NumberTable, title: str, as_json: bool, more: dict[str, Any] | None = None) -> None:
    """Print rows as a table, or as one JSON object."""
    if as_json:
        typer.echo(json.dumps(finite({"rows": list(rows), **(more or {})}), allow_nan=False))
        return
    # Without lines, so that the columns fit a narrow terminal.
    result = Table(title=title, box=None, padding=(0, 1))
    for name in rows.columns:
        result.add_column(name, justify="right", overflow="fold")
    for row in rows:
        result.add_row(*(write_number(name, value) for name, value in row.items()))
    Console().print(result)
