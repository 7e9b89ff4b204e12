"""Records of a run as ArviZ has them: chains x draws after burn-in, in groups.

    posterior     loss, projection (direction), records of one's own; where paths were kept model_projection (model,
                  direction), every model of the path along the directions of `trajens.sampling.measure`, and theta
                  (model, parameter), its parameters where they are few, or those that are asked for
    sample_stats  all other columns: acceptance, batch_size, s, the counts of reasons, tilt_error, weight_rms, ..

Draws are numbered; the epochs they were recorded at are their coordinate ``epoch``.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np

from trajens.columns import DRAWS, NAMES, PROJECTIONS
from trajens.errors import InputError, require
from trajens.records import Records, after_burn_in
from trajens.sampling.measure import project
from trajens.version import __version__

FEW = 256
"""Parameters of a path up to which they are given without being asked for."""


def inference_data(
    records: Records,
    history: np.ndarray | None,
    burn_in: int,
    s: float | None = None,
    chains: Any = None,
    parameters: Any = None,
) -> Any:
    """An ``arviz.InferenceData``, or from ArviZ 1 on an ``xarray.DataTree``; see `trajens.Run.to_arviz`."""
    az = _arviz()
    xarray = import_module("xarray")
    chosen = _chosen(records, s, chains)
    is_after = after_burn_in(records, burn_in)
    require(bool(is_after.any()), f"to_arviz needs a record after burn-in ({burn_in}), got none; extend the run.")
    after = {name: values[chosen][:, is_after] for name, values in records.items()}
    attributes = {
        "inference_library": "trajens",
        "inference_library_version": __version__,
        "creation_library": "trajens",
        "arviz_version": az.__version__,
        "burn_in": int(burn_in),
    }
    coordinates = {
        "chain": chosen,
        "draw": np.arange(int(is_after.sum())),
        "epoch": ("draw", after["epoch"][0]),
        "direction": np.arange(1, 1 + len(PROJECTIONS)),
    }
    posterior: dict[str, Any] = {name: (_DRAWS, after[name]) for name in _single(records)}
    if PROJECTIONS[0] in after:
        posterior["projection"] = (*_DRAWS, "direction"), np.stack([after[name] for name in PROJECTIONS], axis=-1)
    if history is not None:
        posterior["model_projection"] = (*_DRAWS, "model", "direction"), _of_models(history, chosen, is_after)
        coordinates["model"] = np.arange(1, 1 + history.shape[2])
    places = _places(history, parameters)
    if history is not None and len(places):
        # Draw by draw: paths may be on the disk.
        draws = [history[chosen, draw][..., places] for draw in np.flatnonzero(is_after)]
        posterior["theta"] = (*_DRAWS, "model", "parameter"), np.stack(draws, axis=1)
        coordinates["parameter"] = places
    others = [name for name in after if name not in ("epoch", *PROJECTIONS) and name not in posterior]
    groups = {"posterior": posterior, "sample_stats": {name: (_DRAWS, after[name]) for name in others}}
    datasets = {
        name: xarray.Dataset(variables, _used(coordinates, variables), attributes) for name, variables in groups.items()
    }
    if int(az.__version__.split(".")[0]) >= 1:
        tree = xarray.DataTree.from_dict(datasets)
        tree.attrs |= attributes
        return tree
    return az.InferenceData(**datasets, attrs=attributes)


_DRAWS = ("chain", "draw")


def _arviz() -> ModuleType:
    try:
        with warnings.catch_warnings():
            # What it says of its own next version is nothing that can be done about here.
            warnings.simplefilter("ignore", FutureWarning)
            return import_module("arviz")
    except ImportError as error:
        raise InputError(
            f"to_arviz needs ArviZ, which is not installed ({error}); try pip install 'trajens[arviz]', or see "
            "run.convergence()."
        ) from None


def _chosen(records: Records, s: float | None, chains: Any) -> np.ndarray:
    """Numbers of the chains asked for, which must be of one s."""
    of_chains = records["s"][:, -1] if records else np.zeros(0)
    chosen = np.arange(len(of_chains)) if chains is None else np.atleast_1d(np.asarray(chains))
    is_whole = chosen.ndim == 1 and np.issubdtype(chosen.dtype, np.integer)
    require(
        is_whole and bool(((chosen >= 0) & (chosen < max(len(of_chains), 1))).all()),
        f"chains must be numbers of the {len(of_chains)} chains, from 0 on, got {chains!r}; leave them out for all.",
    )
    if s is not None:
        chosen = chosen[np.isclose(of_chains[chosen], s, rtol=1e-4)]
    known = np.unique(of_chains if len(chosen) == 0 else of_chains[chosen])
    got = f"{'none' if len(chosen) == 0 else 'some'} of {', '.join(f'{value:.4g}' for value in known[:8])}"
    require(
        not records or (len(chosen) > 0 and len(known) == 1),
        f"chains must be of one s, since those of several s sample several distributions, got {got}; choose one: "
        f"s={known[:1].sum():.4g}.",
    )
    return chosen


def _places(history: np.ndarray | None, parameters: Any) -> np.ndarray:
    """Numbers of the parameters that are given: those asked for, else all where they are few."""
    if history is None:
        is_asked = parameters is not None and parameters is not False
        require(not is_asked, "parameters are those of kept paths, got a run without; sample with keep_paths=True.")
        return np.zeros(0, int)
    tau, dim = history.shape[2:]
    if parameters is None:
        return np.arange(dim if tau * dim <= FEW else 0)
    if isinstance(parameters, bool):
        return np.arange(dim if parameters else 0)
    places = np.atleast_1d(np.asarray(parameters))
    is_whole = places.ndim == 1 and np.issubdtype(places.dtype, np.integer)
    require(
        is_whole and bool(((places >= 0) & (places < dim)).all()),
        f"parameters must be numbers in 0..{dim - 1}, True or False, got {parameters!r}; count from 0.",
    )
    return places


def _single(records: Records) -> list[str]:
    """Columns that are a variable of the posterior each: draws that are no projections, and records of one's own."""
    draws = [name for name in DRAWS if name not in PROJECTIONS]
    return [name for name in records if name in draws or name not in NAMES]


def _of_models(history: np.ndarray, chains: np.ndarray, is_after: np.ndarray) -> np.ndarray:
    """Projections (chains, draws, models, directions) of kept paths, which may be on the disk, draw by draw."""
    return np.stack([project(history[chains, draw]) for draw in np.flatnonzero(is_after)], axis=1)


def _used(coordinates: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
    """Coordinates of dimensions that are there."""
    dims = {dim for names, _ in variables.values() for dim in names}
    return {name: values for name, values in coordinates.items() if name in dims or name == "epoch"}
