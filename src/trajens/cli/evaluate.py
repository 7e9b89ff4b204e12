"""``trajens evaluate`` and ``picture``: what the ensemble of a run is worth."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from trajens.cli.devices import use_all_cores
from trajens.cli.numbers import finite
from trajens.experiments.kinds import as_number
from trajens.experiments.tried import tried
from trajens.storage.stored import StoredRun

_Directory = Annotated[Path, typer.Argument(metavar="DIR", help="Directory of a run.", show_default=False)]
_Chain = Annotated[
    str, typer.Option(metavar="N|all", help="Which chain of the run, from 0; all makes one ensemble of all chains.")
]
_CLASSIFIER = {
    "vote_accuracy": "accuracy of the vote",
    "mean_accuracy": "accuracy of the mean probabilities",
    "single_accuracy": "mean accuracy of single models",
    "nll": "negative log-likelihood",
    "brier": "Brier score",
    "ece": "expected calibration error, 15 equal-mass bins",
    "disagreement": "disagreement of two models",
}
_REGRESSOR = {
    "rmse": "root mean squared error of the mean",
    "single_rmse": "root mean squared error of single models, mean",
    "r2": "R^2, share of the variance explained",
    "spread": "spread of the models, root mean square",
    "nll": "negative log-likelihood, normal",
    "coverage_68": "labels in the central 68 %",
    "coverage_95": "labels in the central 95 %",
}


def evaluate(
    directory: _Directory,
    data: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Labelled data.", show_default="MNIST's test set, or the run's data"),
    ] = None,
    chain: _Chain = "0",
    noise: Annotated[
        str | None,
        typer.Option(
            metavar="X",
            help="Regression: standard deviation of the labels around the true function, which the likelihood and the "
            "intervals add to the spread of the models.",
            show_default="none",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Accuracy or error, likelihood and calibration of an ensemble on labelled data."""
    use_all_cores()
    ensemble, labelled, name, _ = tried(StoredRun(directory), data, chain)
    message = f"noise must be a number >= 0, got {noise!r}; leave it out for none."
    found = ensemble.evaluate(labelled.x, labelled.y, None if noise is None else as_number(noise, message))
    scores = {**found, "data": name, "examples": len(labelled.y)}
    if as_json:
        typer.echo(json.dumps(finite(scores), allow_nan=False))
        return
    title = f"{len(ensemble.path)} models on {len(labelled.y):,} examples of {escape(name)}"
    table = Table(title=title, show_header=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    for label, text in _rows(scores, ensemble.is_classifier):
        table.add_row(label, text)
    Console().print(table)


def picture(
    directory: _Directory,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Picture to write.", show_default="picture.png in DIR")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Labelled data.", show_default="MNIST's test set, or the run's data"),
    ] = None,
    chain: _Chain = "0",
) -> None:
    """Draw a run: loss, acceptance and batch, accuracy against members, and what the members disagree on.

    For a regression: the error against members, and predictions against the truth.
    """
    from trajens.figures.picture import draw

    use_all_cores()
    stored = StoredRun(directory)
    ensemble, labelled, name, _ = tried(stored, data, chain)
    file = directory / "picture.png" if out is None else out
    draw(file, stored, ensemble, labelled, name, chain)
    typer.echo(f"wrote {file}")


def _rows(scores: dict[str, Any], is_classifier: bool) -> Iterator[tuple[str, str]]:
    """The scores in words, those by members for powers of two and for all."""
    labels, by_members, label, form = (
        (_CLASSIFIER, scores["accuracy_by_members"], "accuracy of the vote of {}", ".4f")
        if is_classifier
        else (_REGRESSOR, scores["rmse_by_members"], "error of the mean of {}", ".4g")
    )
    yield from ((words, format(scores[name], form)) for name, words in labels.items())
    for members in sorted({2**k for k in range(20) if 2**k < len(by_members)} | {len(by_members)}):
        yield label.format(members), format(by_members[members - 1], form)
