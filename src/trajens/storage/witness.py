"""A witness: what models of a saved path say of a few inputs that can be made again without any data.

Parameters mean something only together with the network they belong to. A checkpoint holds the outputs of two of its
models, so that whoever uses the path later, with other data or none, can tell whether the network is still the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np

from trajens.errors import InputError, first_line, require
from trajens.losses import CrossEntropy, Network, Squared, ZeroOne
from trajens.problem import Problem
from trajens.storage.checkpoint import Arrays

TOLERANCE = 0.02
"""Relative, of values on other platforms, half precision included; another network is off by much more."""

_AGREEING = 0.75
_INPUTS, _EXAMPLES = 8, 1000
_OUTPUTS, _SHAPE, _SCALE = "witness.outputs", "witness.shape", "witness.scale"


@dataclass(frozen=True)
class Witness:
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
        said = _outputs(self.network, _models(paths), _inputs(self.shape, self.scale))
        return {_OUTPUTS: said, _SHAPE: np.array(self.shape, np.int64), _SCALE: np.array(self.scale)}


def witness_of(problem: Problem) -> Witness | None:
    """The witness of a problem; None where its loss is a function of the user's own, whose network is not known."""
    loss, x = problem.loss, getattr(problem.data, "x", None)
    if not isinstance(loss, (CrossEntropy, Squared, ZeroOne)) or x is None:
        return None
    some = np.asarray(x[:_EXAMPLES], np.float64)
    scale = 0.0 if x.dtype == np.uint8 else float(np.sqrt((some**2).mean())) or 1.0
    return Witness(loss.model, x.shape[1:], scale)


def require_same_network(stored: Arrays, paths: np.ndarray, network: Network, where: str) -> None:
    """Refuse a network that says something else of the models in `paths` than the witness in `stored`, if there is one.

    Parameters
    ----------
    stored : dict of arrays
        A checkpoint, or `Witness.arrays`.
    paths : (chains, tau, dim)
    network : Network
        Hashable.
    where : str
        What the run is called.
    """
    if _OUTPUTS not in stored:
        return
    x, models = _inputs(tuple(stored[_SHAPE].tolist()), float(stored[_SCALE])), _models(paths)
    before, now = stored[_OUTPUTS], _said(network, models, x)
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
    is_close = np.isclose(before, now, rtol=TOLERANCE, atol=TOLERANCE * scale, equal_nan=True)
    return bool(is_close.mean() >= _AGREEING)


def _said(network: Network, models: np.ndarray, x: np.ndarray) -> np.ndarray:
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
