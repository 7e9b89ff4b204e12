"""``trajens predict`` and ``export``: answers to inputs without labels, and ensembles as one file to take along."""

from __future__ import annotations

import csv
import io
import itertools
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from trajens.app.cli.environment import use_all_cores
from trajens.app.cli.evaluate import CHAIN, DRAWS, SOURCES
from trajens.app.evaluation import inputs, load_ensemble
from trajens.datasets import Label, tables
from trajens.datasets.arrays import images_in
from trajens.datasets.reading import harmless, is_table
from trajens.ensemble import Ensemble, chosen_chains, vote
from trajens.errors import require
from trajens.files import storage_errors, write_with_folder
from trajens.run.stored import StoredRun


def predict(
    source: Annotated[
        Path,
        typer.Argument(metavar="DIR|FILE", help="Directory of a run, or a file of trajens export.", show_default=False),
    ],
    inputs_file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="A .csv with the columns of the run, .npz with an array x, IDX, or a folder of images.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="CSV to write.")] = Path("predictions.csv"),
    chain: CHAIN = None,
    draws: DRAWS = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that is there.")] = False,
) -> None:
    """Answers of an ensemble, one line per input, as CSV.

    The columns of a table are written again, with new ones beside them. For classes: predicted_class, the class of the
    largest mean probability, and class_probability, that mean; vote, the class that most models choose, and
    vote_agreement, the share of models that choose it; probability_NAME of every class. For numbers: predicted_mean of
    the models, and std_of_models, their spread, in the units of the training data. A name that the file
    has already gets _2 behind it; a class that a spreadsheet would take for a formula is written with ' before it.
    """
    with storage_errors(out):
        is_new = not out.exists()
    require(overwrite or is_new, f"out must be a new file, got '{out}'; add --overwrite to replace it.")
    require(
        os.path.realpath(out) != os.path.realpath(inputs_file),
        f"out must not be the file of the inputs, got '{out}'; choose another.",
    )
    use_all_cores()
    ensemble = load_ensemble(source, chain, draws)
    x = inputs(ensemble, inputs_file)
    label = Label() if ensemble.reading is None else ensemble.reading.label
    given = _given(inputs_file, len(x))
    names, answers = _classified(ensemble, x, label) if ensemble.is_classifier else _fitted(ensemble, x)
    write_table(out, _beside(given, names, answers))
    typer.echo(f"wrote {len(x):,} predictions to {out}")


def write_table(out: Path, rows: Iterable[list[Any]]) -> None:
    """Write rows as CSV, whole or not at all, into a folder that is made if need be."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    write_with_folder(out, text.getvalue().encode())


def _given(file: Path, size: int) -> Iterator[list[Any]]:
    """What stands before the answers: the names and rows of a table, those of images, or the numbers of inputs."""
    if is_table(file):
        yield from (cells for _, cells in tables.rows(file))
    elif file.is_dir():
        yield ["file"]
        yield from ([image.relative_to(file).as_posix()] for image in images_in(file))
    else:
        yield ["index"]
        yield from ([i] for i in range(size))


def _beside(given: Iterator[list[Any]], names: list[str], answers: Iterator[list[Any]]) -> Iterator[list[Any]]:
    before = next(given)
    for name in names:
        tries = (name if i == 1 else f"{name}_{i}" for i in itertools.count(1))
        before = [*before, next(one for one in tries if one not in before)]
    yield before
    yield from ([*row, *answer] for row, answer in zip(given, answers, strict=True))


def _classified(ensemble: Ensemble, x: np.ndarray, label: Label) -> tuple[list[str], Iterator[list[Any]]]:
    """Class of the largest mean probability, this, the vote, the share that agrees, and probabilities of all."""
    known = [harmless(name) if isinstance(name, str) else name for name in label.classes or ()]
    classes: list[Any] = [*known, *range(len(known), ensemble.model.outputs)]

    def answers() -> Iterator[list[Any]]:
        for _, probabilities in ensemble.parts(x, progress=True):
            mean, votes = probabilities.mean(0), vote(probabilities)
            agreement = (probabilities.argmax(-1) == votes).mean(0)
            for row, chosen, share in zip(mean, votes, agreement, strict=True):
                numbers = [f"{p:.6g}" for p in row]
                best = int(row.argmax())
                yield [classes[best], numbers[best], classes[chosen], f"{share:.4g}", *numbers]

    each = (f"probability_{name}" for name in [*(label.classes or ()), *classes[len(known) :]])
    return ["predicted_class", "class_probability", "vote", "vote_agreement", *each], answers()


def _fitted(ensemble: Ensemble, x: np.ndarray) -> tuple[list[str], Iterator[list[Any]]]:
    """Mean and spread of the models, in the units of the training data."""
    mean, spread = ensemble.predict(x, return_std=True, progress=True)
    return ["predicted_mean", "std_of_models"], ([f"{m:.9g}", f"{s:.6g}"] for m, s in zip(mean, spread, strict=True))


def export(
    sources: SOURCES,
    out: Annotated[Path, typer.Option(metavar="FILE", help="File to write.")] = Path("ensemble.npz"),
    chain: CHAIN = None,
    draws: DRAWS = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that is there.")] = False,
    arviz: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.nc",
            help="Write the records of one run, and few parameters of kept paths, for ArviZ, and no ensemble.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Write the ensemble of a run, or of several, into one file, which knows its model and how its data are read.

    trajens evaluate, trajens predict and tj.Ensemble.load take it in place of the directory. With --arviz it is a file
    of netCDF, which arviz.from_netcdf reads.
    """
    if arviz is not None:
        _export_records(sources, arviz, chain, overwrite)
        return
    ensemble = Ensemble.join(load_ensemble(source, chain, draws) for source in sources)
    ensemble.save(out, overwrite)
    typer.echo(f"wrote {len(ensemble.path)} models to {out} ({out.stat().st_size / 1e6:.2g} MB)")


def _export_records(sources: list[Path], out: Path, chain: str | None, overwrite: bool) -> None:
    """Write what ArviZ looks at, of one run."""
    require(len(sources) == 1, f"one run can be written for ArviZ at a time, got {len(sources)}; give one.")
    require(overwrite or not out.exists(), f"arviz must be a new file, got '{out}'; add --overwrite to replace it.")
    stored = StoredRun(sources[0])
    found = stored.to_arviz(chains=chosen_chains(chain, stored.chains, stored.s))
    with storage_errors(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        found.to_netcdf(str(out))
    typer.echo(f"wrote records of {sources[0]} to {out} ({out.stat().st_size / 1e6:.2g} MB)")
