"""``trajens audit``: how far the decisions of a run are from detailed balance."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from trajens.app.cli.environment import use_all_cores
from trajens.app.cli.streams import finite
from trajens.app.experiment import Experiment
from trajens.app.kinds import whole
from trajens.columns import BY_NAME
from trajens.errors import integer, require
from trajens.run.audits import PROPOSALS
from trajens.run.audits import audit as audit_of
from trajens.run.outcome import audited_error, audited_shift
from trajens.run.stored import StoredRun


def audit(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Directory of a run.", show_default=False)],
    proposals: Annotated[str, typer.Option(metavar="N", help="Proposals to look at, in all chains together.")] = str(
        PROPOSALS
    ),
    examples: Annotated[
        str | None,
        typer.Option(metavar="N", help="Examples of each.", show_default="8 batches, 1024 at least, 8192 at most"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measure the error of s that small batches leave: the run samples at s (1 + error)."""
    use_all_cores()
    experiment = Experiment.load(StoredRun(directory))
    require(
        not experiment.acceptance.takes_all_data,
        f"'{directory}' must be a run with minibatches, got one whose decisions use all data, which are exact.",
    )
    given = integer("proposals", whole("proposals", proposals), 1, "try 256")
    some = None if examples is None else integer("examples", whole("examples", examples), 2, "leave it out")
    found = audit_of(experiment.restored(directory), given, some)
    if as_json:
        typer.echo(json.dumps(finite(found.summary()), allow_nan=False))
        return
    table = Table(title=f"{found.proposals:,} proposals, {found.examples:,} examples of each", show_header=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    numbers = found.summary()
    table.add_row(BY_NAME["tilt_error"].title, audited_error(numbers))
    table.add_row("s that is sampled, to first order", f"{found.s_effective:.6g}")
    table.add_row(BY_NAME["mean_shift"].title, audited_shift(numbers))
    for name in ("acceptance", "batch_size"):
        table.add_row(BY_NAME[name].title, format(numbers[name], BY_NAME[name].spec))
    Console().print(table)
