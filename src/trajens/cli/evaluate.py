"""``trajens evaluate``, ``predict`` and ``picture``: what the ensemble of a run is worth."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from trajens.cli.devices import use_all_cores
from trajens.cli.numbers import finite, whole
from trajens.datasets import Labelled, load, load_inputs
from trajens.ensemble import Ensemble, vote
from trajens.errors import require
from trajens.experiments import Experiment
from trajens.files import storage_errors, write_atomically
from trajens.storage.stored import StoredRun

_Directory = Annotated[Path, typer.Argument(metavar="DIR", help="Directory of a run.", show_default=False)]
_Chain = Annotated[str, typer.Option(metavar="N", help="Which chain of the run, from 0.")]
_LABELS = {
    "vote_accuracy": "accuracy of the vote",
    "mean_accuracy": "accuracy of the mean probabilities",
    "single_accuracy": "mean accuracy of single models",
    "nll": "negative log-likelihood",
    "brier": "Brier score",
    "ece": "expected calibration error, 15 equal-mass bins",
    "disagreement": "disagreement of two models",
}


def evaluate(
    directory: _Directory,
    data: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Labelled data.", show_default="MNIST's test set, or the run's data"),
    ] = None,
    chain: _Chain = "0",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Accuracy, likelihood and calibration of an ensemble on labelled data."""
    use_all_cores()
    ensemble, labelled, name = _loaded(directory, data, chain)
    scores = {**ensemble.evaluate(labelled.x, labelled.y), "data": name, "examples": len(labelled.y)}
    if as_json:
        typer.echo(json.dumps(finite(scores), allow_nan=False))
        return
    title = f"{len(ensemble.path)} models on {len(labelled.y):,} examples of {escape(name)}"
    table = Table(title=title, show_header=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    for key, label in _LABELS.items():
        table.add_row(label, f"{scores[key]:.4f}")
    by_members = scores["accuracy_by_members"]
    for members in sorted({2**k for k in range(20) if 2**k < len(by_members)} | {len(by_members)}):
        table.add_row(f"accuracy of the vote of {members}", f"{by_members[members - 1]:.4f}")
    Console().print(table)


def predict(
    directory: _Directory,
    inputs: Annotated[Path, typer.Argument(metavar="FILE", help=".npz with an array x, or IDX.", show_default=False)],
    out: Annotated[Path, typer.Option(metavar="FILE", help="CSV to write.")] = Path("predictions.csv"),
    chain: _Chain = "0",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that is there.")] = False,
) -> None:
    """Labels and probabilities of an ensemble, one line per input, as CSV."""
    require(overwrite or not out.exists(), f"out must be a new file, got '{out}'; add --overwrite to replace it.")
    use_all_cores()
    ensemble, x = Ensemble.load(directory, whole("chain", chain)), load_inputs(inputs)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["index", "vote", "agreement", "mean", *(f"p{k}" for k in range(ensemble.model.outputs))])
    for place, probabilities in ensemble.parts(x):
        mean, label = probabilities.mean(0), vote(probabilities)
        agreement = (probabilities.argmax(-1) == label).mean(0)
        for i, row in enumerate(mean):
            numbers = (f"{p:.6g}" for p in row)
            writer.writerow([place.start + i, label[i], f"{agreement[i]:.4g}", row.argmax(), *numbers])
    with storage_errors(out):
        out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, text.getvalue().encode())
    typer.echo(f"wrote {len(x):,} predictions to {out}")


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
    """Draw a run: loss, acceptance and batch, accuracy against members, and what the members disagree on."""
    from trajens.figures.picture import draw

    use_all_cores()
    ensemble, labelled, name = _loaded(directory, data, chain)
    file = directory / "picture.png" if out is None else out
    draw(file, StoredRun(directory), ensemble, labelled, name, whole("chain", chain))
    typer.echo(f"wrote {file}")


def _loaded(directory: Path, data: Path | None, chain: str) -> tuple[Ensemble, Labelled, str]:
    """The ensemble, data with labels and what they are called."""
    ensemble = Ensemble.load(directory, whole("chain", chain))
    if data is not None:
        return ensemble, load(data, num_classes=ensemble.model.outputs), data.name
    experiment = Experiment.load(directory)
    if experiment.test_data is not None:
        return ensemble, experiment.test_data, "the test set"
    x, y = experiment.data
    return ensemble, Labelled(x, y), "the training data"
