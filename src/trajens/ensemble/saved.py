"""An ensemble in one file, which needs no run directory and no pickle.

The file is a plain ``.npz`` that NumPy opens, with a SHA-256 over all of it: the path, what the model is and what two
of its members say of inputs that can be made again, how its data are read, and the units of its outputs. Of a model of
another library it knows the names and shapes of the parameters, by which the right one can be told from others.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from trajens.datasets import Reading
from trajens.ensemble.members import Predictor, parameters_of
from trajens.errors import InputError, require
from trajens.files import storage_errors
from trajens.models import Model, described
from trajens.run.identity import NetworkFingerprint, require_same_network
from trajens.storage.checkpoint import Arrays, load, write
from trajens.version import __version__

_FORMAT, _VERSION = "trajens.ensemble", 1
_NAMES = ("path", "model", "parameters", "outputs", "units", "reading")


class Saved(NamedTuple):
    """What a file holds."""

    model: Predictor
    path: np.ndarray
    units: tuple[float, float]
    reading: Reading | None


def write_ensemble(file: Path, saved: Saved, overwrite: bool) -> None:
    """Write a file, whole or not at all."""
    with storage_errors(file):
        is_new = not file.exists()
    require(overwrite or is_new, f"file must be a new one, got '{file}'; choose another, or overwrite it on purpose.")
    require(not file.is_dir(), f"file must be a file, got the folder '{file}'; name a file in it.")
    model = saved.model
    description = model.description if isinstance(model, Model) else {}
    arrays: Arrays = {
        _FORMAT: np.array(_VERSION),
        "version": np.array(__version__),
        "path": saved.path,
        "model": np.array(json.dumps(description)),
        "parameters": np.array(parameters_of(model)),
        "outputs": np.array(model.outputs),
        "units": np.array(saved.units, np.float64),
        "reading": np.array("" if saved.reading is None else saved.reading.to_json()),
    }
    if isinstance(model, Model):
        arrays |= NetworkFingerprint(model, model.input_shape, 1.0).arrays(saved.path[None])
    with storage_errors(file):
        file.parent.mkdir(parents=True, exist_ok=True)
    write(file, arrays)


def read_ensemble(file: Path, model: Predictor | None = None) -> Saved:
    """What `write_ensemble` wrote, with the model it knows or the one that is given, if that fits."""
    arrays = _arrays(file)
    description = _plain(file, arrays)
    if model is None:
        require(
            bool(description),
            f"'{file}' holds models of another library, which it does not know ({arrays['parameters']}); pass "
            "model=Applied.of(apply, outputs, like=params).",
        )
        model = described(description)
    if isinstance(model, Model):
        require_same_network(arrays, arrays["path"][None], model, f"'{file}'")
    else:
        found, known = parameters_of(model), str(arrays["parameters"])
        require(
            found == known and model.outputs == int(arrays["outputs"]),
            f"model must be the one of '{file}', with parameters {known} and {arrays['outputs']} outputs, got {found} "
            f"and {model.outputs}; check the model.",
        )
    mean, std = arrays["units"].tolist()
    reading = str(arrays["reading"])
    return Saved(model, arrays["path"], (mean, std), Reading.from_json(reading) if reading else None)


def _arrays(file: Path) -> Arrays:
    require(file.is_file(), f"'{file}' must be a file of Ensemble.save or the directory of a run, got neither; check.")
    try:
        arrays = load(file)
    except PermissionError as error:
        raise InputError(f"'{file}' must be a file that may be read, got {error.strerror}; check it.") from None
    except Exception as error:  # whatever an archive of arbitrary bytes makes its reader raise
        raise InputError(
            f"'{file}' must be a whole file of Ensemble.save, got another or a damaged one ({error}); save it again."
        ) from None
    require(
        _FORMAT in arrays and all(name in arrays for name in _NAMES),
        f"'{file}' must be a file of Ensemble.save, got an archive of {', '.join(sorted(arrays)[:6])}; save it again.",
    )
    require(
        int(arrays[_FORMAT]) <= _VERSION,
        f"'{file}' must be of format {_VERSION}, got {int(arrays[_FORMAT])}; update trajens.",
    )
    return arrays


def _plain(file: Path, arrays: Arrays) -> dict[str, Any]:
    try:
        return dict(json.loads(str(arrays["model"])))
    except ValueError:
        raise InputError(f"'{file}' must describe its model, got '{arrays['model']}'; save it again.") from None
