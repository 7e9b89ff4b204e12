"""The ensemble of a run and data with labels to try it on, each in the units of the data that were given."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from trajens.datasets import Labelled, load
from trajens.ensemble import Ensemble
from trajens.experiments.experiment import Experiment
from trajens.storage.stored import StoredRun


class Tried(NamedTuple):
    """An ensemble, the data it is tried on and what they are called; `is_fresh` where it was not trained on them."""

    ensemble: Ensemble
    labelled: Labelled
    name: str
    is_fresh: bool


def tried(stored: StoredRun, data: Path | None = None, chain: int | str = 0) -> Tried:
    """The ensemble of one chain, or of all, on data of a file, the test set of the run, or its training data."""
    ensemble, config = Ensemble.load(stored, chain), stored.config or {}
    if data is not None and "reading" not in config and config.get("problem") != "mnist":
        # A run made in Python, or of a version before: how its data were read is not known.
        classes = ensemble.model.outputs if ensemble.is_classifier else None
        return Tried(ensemble, load(data, num_classes=classes), data.name, True)
    experiment = Experiment.load(stored)
    is_fresh = True
    if data is not None:
        labelled, name = experiment.labelled(data), data.name
    elif experiment.test_data is not None:
        labelled, name = experiment.test_data, "the test set"
    else:
        labelled, name, is_fresh = Labelled(*experiment.data), "the training data", False
    if ensemble.is_classifier:
        return Tried(ensemble, labelled, name, is_fresh)
    label = experiment.reading.label
    in_units = Labelled(labelled.x, label.undone(labelled.y))
    return Tried(ensemble.rescaled(label.mean, label.std), in_units, name, is_fresh)
