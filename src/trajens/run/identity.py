"""What a run is: a description of all that must not change when it is resumed, its loss and its network included.

A description is plain values by name. A part of a run, a frozen dataclass, is described by its type and its fields. A
function of the user's own has no name that would be the same in another process, so a loss is known by its values: at
one fixed model, on some of the data.

Parameters mean something only together with the network they belong to. The fingerprint of a network are the outputs of
two models of a path on a few inputs that can be made again without any data: whoever uses the path later, with other
data or none, can tell whether the network is still the same.
"""

from __future__ import annotations

import json
import platform
import re
import sys
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from trajens.errors import InputError, first_line, require
from trajens.kernels import HALF, library, precision_of
from trajens.losses import CrossEntropy, Network, Squared, ZeroOne, compiled_losses_of_pairs
from trajens.problem import Problem
from trajens.run.control import Budget, Controller, FixedEpochs
from trajens.run.until import UntilConverged
from trajens.sampling.settings import Settings
from trajens.storage.checkpoint import Arrays
from trajens.target import Target
from trajens.version import __version__

NETWORK_TOLERANCE = 0.02
"""Relative, of values on other platforms, half precision included; another network is off by much more."""
_AGREEING = 0.75
"""Share of the values that must agree."""
_PROBED_EXAMPLES = 16
_INPUTS, _SCALED_EXAMPLES = 8, 1000
"""Inputs of a fingerprint, and examples whose size they have."""
_OUTPUTS, _SHAPE, _SCALE = "witness.outputs", "witness.shape", "witness.scale"
_CONTROLLERS: dict[str, Any] = {one.__name__: one for one in (FixedEpochs, Budget, UntilConverged)}
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def describe(part: Any) -> Any:
    """Return plain values that describe a part of a run: type and fields of a dataclass, functions by their kind."""
    if part is None or isinstance(part, (bool, int, float, str)):
        return part
    if is_dataclass(part) and not isinstance(part, type):
        own = {one.name: describe(getattr(part, one.name)) for one in fields(part) if one.repr}
        return {"type": type(part).__qualname__.split(".")[-1], **own}
    if isinstance(part, Mapping):
        return {str(name): describe(value) for name, value in part.items()}
    if isinstance(part, (list, tuple)):
        return [describe(value) for value in part]
    if isinstance(part, (np.generic, np.ndarray, jax.Array)):
        return np.asarray(part).item() if np.ndim(part) == 0 else {"checksum": checksum(part)}
    if hasattr(part, "__code__"):
        return "a function"
    return _ADDRESS.sub("", repr(part))


def describe_run(target: Target, settings: Settings, controller: Controller) -> dict[str, Any]:
    """Return the description of how a run samples what, without its data."""
    problem, test = target.problem, settings.acceptance
    return {
        "tau": target.tau,
        "sigma": target.sigma,
        "s": target.s_values.tolist(),
        "schedule": describe(target.schedule),
        "prior": target.prior,
        "parameters": problem.dim,
        **({} if problem.population.limit else {"examples": problem.size}),
        "max_batch": problem.population.limit,
        "loss": describe(problem.loss),
        "model": describe_model(problem),
        **{name: describe(value) for name, value in settings.deciding().items()},
        "observe": list(settings.observe),
        "is_exact": test.takes_all_data,
        "tolerance": test.tolerance,
        "controller": describe(controller),
    }


def identify(target: Target, settings: Settings, controller: Controller) -> dict[str, Any]:
    """Return the description of a run with checksums of its data and values of its loss, for `require_same`."""
    problem = target.problem
    known: dict[str, Any] = {"data_checksum": checksum(problem.data), "losses": _probe(problem)}
    if problem.held_out is not None:
        known["held_out_checksum"] = checksum(problem.held_out.data)
    plain: dict[str, Any] = json.loads(json.dumps({**describe_run(target, settings, controller), **known}))
    return plain


def require_same(before: dict[str, Any], now: dict[str, Any], path: Path) -> None:
    """Refuse to go on with a run that was begun with something else."""
    before = {**before, "controller": _as_now(before.get("controller"))}
    changed = [
        f"{name} {write_out(before.get(name))} (now {write_out(now[name])})"
        for name in now
        if name != "losses" and json.dumps(now[name]) != json.dumps(before.get(name))
    ]
    if not changed and not _are_close_losses(before.get("losses"), now["losses"]):
        changed = ["a loss of other values, so that the model or the loss is another"]
    require(
        not changed,
        f"a run must be resumed with what it was begun with, got '{path}' begun with {', '.join(changed)}; use the "
        "same settings and data, or start a new run.",
    )


def _as_now(described: Any) -> Any:
    """A controller as an earlier version has described it, with what that did not know at its default."""
    if not isinstance(described, dict) or described.get("type") not in _CONTROLLERS:
        return described
    known = {"type": described["type"]}
    for one in fields(_CONTROLLERS[described["type"]]):
        known[one.name] = _as_now(described[one.name]) if one.name in described else describe(one.default)
    return known


def write_out(described: Any) -> str:
    """Return a description as its part would be written in Python."""
    if isinstance(described, dict) and "type" in described:
        own = (f"{name}={write_out(value)}" for name, value in described.items() if name != "type")
        return f"{described['type']}({', '.join(own)})"
    if isinstance(described, list):
        return f"[{', '.join(map(write_out, described))}]"
    return str(described)


def describe_model(problem: Problem) -> dict[str, Any] | None:
    """Return the model of a problem in plain values, where it is one of `trajens.models`."""
    return getattr(getattr(problem.loss, "model", None), "description", None)


def describe_machine(problem: Problem) -> dict[str, Any]:
    """Return what a run is made with: versions, devices, command, and what its losses are computed by."""
    kernel, is_on_gpu = library(), jax.default_backend() != "cpu"
    is_half = is_on_gpu and precision_of(getattr(problem.loss, "precision", None)) == HALF
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": sys.argv,
        "trajens": __version__,
        "python": platform.python_version(),
        "jax": jax.__version__,
        "numpy": np.__version__,
        "system": f"{platform.system()} {platform.machine()}",
        "host": platform.node(),
        "devices": [str(device) for device in jax.devices()],
        "loss_kernel": f"{kernel.rounding}, half precision" if kernel.is_loaded and is_half else kernel.rounding,
    }


def checksum(data: Any) -> int:
    """Return the CRC-32 of all arrays of a tree."""
    found = 0
    for leaf in jax.tree.leaves(data):
        found = zlib.crc32(np.ascontiguousarray(leaf).reshape(-1).view(np.uint8).data, found)
    return found


def _probe(problem: Problem) -> list[float | None]:
    """Losses of one fixed random model on some of the examples; None where they are not finite."""
    rng = np.random.default_rng(0)
    spread = problem.dim**-0.5 if problem.spread is None else np.maximum(problem.spread, 0.01)
    model = (spread * rng.standard_normal(problem.dim)).astype(np.float32)
    if problem.initial is not None:
        model = model + problem.initial
    some = problem.population.some(_PROBED_EXAMPLES)[None]
    pair = np.stack([model, model])[None]
    losses = np.asarray(compiled_losses_of_pairs(problem.loss, problem.data, pair, some, np.ones(1, bool)))[0, 0]
    return [float(loss) if np.isfinite(loss) else None for loss in losses]


def _are_close_losses(before: Any, now: list[float | None]) -> bool:
    if not isinstance(before, list) or len(before) != len(now):
        return False
    return are_close(*(np.array([np.nan if value is None else value for value in v], float) for v in (before, now)))


@dataclass(frozen=True)
class NetworkFingerprint:
    """A network, and the inputs it is asked about.

    Attributes
    ----------
    network : Network
    shape : tuple of int
        Of one input.
    scale : float
        Root mean square of the inputs; 0 for bytes.
    """

    network: Network
    shape: tuple[int, ...]
    scale: float

    def arrays(self, paths: np.ndarray) -> Arrays:
        """What a checkpoint with `paths` (chains, tau, dim) keeps."""
        outputs = _outputs(self.network, _models(paths), _inputs(self.shape, self.scale))
        return {_OUTPUTS: outputs, _SHAPE: np.array(self.shape, np.int64), _SCALE: np.array(self.scale)}


def fingerprint_network(problem: Problem) -> NetworkFingerprint | None:
    """Return the fingerprint of the network of a problem; None for a loss of the user's own, whose is not known."""
    loss, x = problem.loss, getattr(problem.data, "x", None)
    if not isinstance(loss, (CrossEntropy, Squared, ZeroOne)) or x is None:
        return None
    some = np.asarray(x[:_SCALED_EXAMPLES], np.float64)
    scale = 0.0 if x.dtype == np.uint8 else float(np.sqrt((some**2).mean())) or 1.0
    return NetworkFingerprint(loss.model, x.shape[1:], scale)


class RunIdentity:
    """What the directory of a run knows it by; all data are read for it, so it is found when asked for, and once.

    Parameters
    ----------
    target : Target
    settings : Settings
    controller : Controller
    """

    def __init__(self, target: Target, settings: Settings, controller: Controller):
        self.target, self.settings, self.controller = target, settings, controller

    @cached_property
    def description(self) -> dict[str, Any]:
        """The description of the run, its data and its loss, see `identify`."""
        return identify(self.target, self.settings, self.controller)

    @cached_property
    def fingerprint(self) -> NetworkFingerprint | None:
        """The fingerprint of its network, where it has one."""
        return fingerprint_network(self.target.problem)


def require_same_network(stored: Arrays, paths: np.ndarray, network: Network, where: str) -> None:
    """Refuse a network with other outputs on the models in `paths` than the fingerprint in `stored`, if there is one.

    Parameters
    ----------
    stored : dict of arrays
        A checkpoint, or `NetworkFingerprint.arrays`.
    paths : (chains, tau, dim)
    network : Network
        Hashable.
    where : str
        What the run is called.
    """
    if _OUTPUTS not in stored:
        return
    x, models = _inputs(tuple(stored[_SHAPE].tolist()), float(stored[_SCALE])), _models(paths)
    before, now = stored[_OUTPUTS], _outputs_as_trained(network, models, x)
    require(
        before.shape == now.shape and all(map(are_close, before, now)),
        f"the model must be the one that {where} was trained with, got one whose outputs are others; leave it out or "
        "correct it, or pass another on purpose: tj.Ensemble(model, path).",
    )


def are_close(before: np.ndarray, now: np.ndarray) -> bool:
    """Whether values are the same but for the platform they were computed on."""
    size = np.abs(before[np.isfinite(before)])
    scale = max(float(np.median(size)) if size.size else 0.0, 1e-30)
    # A loss that jumps may differ in a few examples on another platform; another loss differs in most.
    is_close = np.isclose(before, now, rtol=NETWORK_TOLERANCE, atol=NETWORK_TOLERANCE * scale, equal_nan=True)
    return bool(is_close.mean() >= _AGREEING)


def _outputs_as_trained(network: Network, models: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Outputs on inputs as they were in training, or flat, for a network that takes no others."""
    try:
        return _outputs(network, models, x)
    except Exception as error:
        try:
            return _outputs(network, models, x.reshape(len(x), -1))
        except Exception:
            raise InputError(
                f"the model must take inputs of shape (n, {', '.join(map(str, x.shape[1:]))}), as those of the "
                f"training, got {first_line(error)}; check the model."
            ) from None


def _outputs(network: Network, models: np.ndarray, x: np.ndarray) -> np.ndarray:
    out = np.asarray(_applied(network, models, x), np.float32)
    out = out.reshape(*out.shape[:2], -1)
    with np.errstate(invalid="ignore"):
        # Logits and their log-softmax mean the same.
        return out - out.mean(-1, keepdims=True) if out.shape[-1] > 1 else out


@partial(jax.jit, static_argnums=0)
def _applied(network: Network, models: jax.Array, x: jax.Array) -> jax.Array:
    return jax.lax.map(lambda theta: network.apply(theta, x), models)


def _models(paths: np.ndarray) -> np.ndarray:
    """The first and the last model."""
    return np.stack([paths[0, 0], paths[-1, -1]]).astype(np.float32)


def _inputs(shape: tuple[int, ...], scale: float) -> Any:
    # NumPy keeps the raw numbers of its generators the same in all versions, and not what is made of them.
    raw = np.random.PCG64(0).random_raw(_INPUTS * int(np.prod(shape))).reshape(_INPUTS, *shape)
    if scale == 0:
        return (raw >> np.uint64(56)).astype(np.uint8)
    return (scale * 3**0.5 * (raw / 2.0**63 - 1)).astype(np.float32)
