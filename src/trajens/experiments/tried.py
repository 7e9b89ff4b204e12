"""Ensembles of runs and of files, and data with labels to try them on, in the units of the data that were given."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from trajens.datasets import Labelled, Reading, load, load_inputs
from trajens.ensemble import Ensemble
from trajens.errors import require
from trajens.experiments.experiment import Experiment
from trajens.rl.named import is_environment
from trajens.run.stored import StoredRun


class Tried(NamedTuple):
    """An ensemble, the data it is tried on and what they are called; `is_fresh` where it was not trained on them."""

    ensemble: Ensemble
    labelled: Labelled
    name: str
    is_fresh: bool


def trained(source: str | Path | StoredRun, chain: int | str = 0) -> Ensemble:
    """The ensemble of a run, of one chain or all, or of a file; it knows how its data are read, and their units."""
    if not isinstance(source, StoredRun) and Path(source).is_file():
        require(str(chain) in ("0", "all"), f"chain must be left out with a file, got {chain!r} and '{source}'.")
        return Ensemble.load(source)
    stored = source if isinstance(source, StoredRun) else StoredRun(source)
    if is_environment(str((stored.config or {}).get("problem"))):
        # What a policy says is of observations on a scale of its own: it is no classifier of a user's inputs.
        Experiment.load(stored).labelled_data  # noqa: B018
    ensemble, reading = Ensemble.load(stored, chain), _reading(stored)
    label = None if reading is None or ensemble.is_classifier else reading.label
    units = ensemble.units if label is None else (label.mean, label.std)
    return Ensemble(ensemble.model, ensemble.path, reading, units)


def tried(source: str | Path | StoredRun, data: Path | None = None, chain: int | str = 0) -> Tried:
    """An ensemble on data of a file, on the test set of its run, or on its training data."""
    ensemble = trained(source, chain)
    if data is not None:
        return Tried(ensemble, labelled(ensemble, data), data.name, True)
    stored = source if isinstance(source, StoredRun) else StoredRun(source)
    require(
        not stored.path.is_file(),
        f"data must be given for an ensemble in a file, got none for '{stored.path}'; add --data.",
    )
    experiment = Experiment.load(stored)
    if experiment.test_data is not None:
        return Tried(ensemble, _in_units(ensemble, experiment.test_data), "the test set", True)
    return Tried(ensemble, _in_units(ensemble, Labelled(*experiment.data)), "the training data", False)


def labelled(ensemble: Ensemble, file: Path) -> Labelled:
    """Inputs and labels of a file, for an ensemble."""
    if ensemble.reading is None:
        # Of a run made in Python, or of a version before: how its data were read is not known.
        return load(file, num_classes=ensemble.model.outputs if ensemble.is_classifier else None)
    return _in_units(ensemble, ensemble.reading.labelled(file))


def inputs(ensemble: Ensemble, file: Path) -> np.ndarray:
    """Inputs of a file, for an ensemble."""
    return load_inputs(file) if ensemble.reading is None else ensemble.reading.inputs(file)


def _reading(stored: StoredRun) -> Reading | None:
    config = stored.config or {}
    is_known = "reading" in config or config.get("problem") == "mnist"
    return Experiment.load(stored).reading if is_known else None


def _in_units(ensemble: Ensemble, data: Labelled) -> Labelled:
    if ensemble.is_classifier or ensemble.reading is None:
        return data
    return Labelled(data.x, ensemble.reading.label.undone(data.y))
