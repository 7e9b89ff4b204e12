"""What the models of a path say of inputs, so many inputs at a time; equal models share a compilation."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from trajens.ensemble.predictor import Predictor, Unhashable, check_apply
from trajens.errors import integer, require
from trajens.models.base import Model, as_bytes, fits
from trajens.precision import as_single, numbers, require_single, single, single_type
from trajens.progress import counted

CHUNK = 1000
"""Inputs that are evaluated at a time."""

PLAIN = (0.0, 1.0)
"""Mean and standard deviation of labels that are used as they are."""


class Members:
    """The models of a path (tau, dim), and the units (mean, std) of what regressors say."""

    def __init__(self, model: Predictor, path: Any, units: tuple[float, float]):
        self.model, self.units = model, units
        self.path = as_single("path", path).astype(np.float32)
        require(
            self.path.ndim == 2 and self.path.shape[1] == model.dim and len(self.path) > 0,
            f"path must have shape (tau, {model.dim}), got {self.path.shape}; pass one chain of run.paths.",
        )
        self.compiled = _hashable(model)

    @property
    def is_classifier(self) -> bool:
        """Whether they choose among classes."""
        return self.model.outputs > 1

    def inputs(self, x: Any) -> np.ndarray:
        """Inputs that the model takes, or an `InputError`."""
        x = numbers("x", x)
        is_ours = isinstance(self.model, Model)
        x = as_bytes(x) if is_ours else x
        shape = getattr(self.model, "input_shape", None)
        is_shaped = x.ndim > 0 if shape is None else x.ndim > 1 and fits(x.shape[1:], tuple(shape))
        accepted = "..." if shape is None else ", ".join(map(str, shape))
        require(
            bool(is_shaped),
            f"x must have shape (n, {accepted}), got {x.shape}; check the data.",
        )
        require_single("x", x)
        if not is_ours and len(x) > 0:
            check_apply(self.model, x[:CHUNK])
        return x

    def parts(
        self, x: np.ndarray, chunk: int = CHUNK, progress: bool = False, is_probability: bool | None = None
    ) -> Iterator[tuple[slice, np.ndarray]]:
        """What is said of `chunk` inputs at a time, and which these are; by default probabilities of classifiers."""
        is_probability = self.is_classifier if is_probability is None else is_probability
        # On the device once, for all parts.
        path = jax.device_put(self.path)
        dtype = single_type(x.dtype)
        for start in counted(range(0, len(x), chunk), len(x), "predicting", progress):
            part = x[start : start + chunk].astype(dtype, copy=False)
            # Always the same shape, so that the last, shorter part compiles nothing.
            padded = np.concatenate([part, np.zeros((chunk - len(part), *x.shape[1:]), dtype)])
            said = self._say(is_probability, path, padded)[:, : len(part)]
            yield slice(start, start + len(part)), said if self.is_classifier else self._in_units(said[..., 0])

    def collected(self, x: Any, chunk: int, progress: bool, is_probability: bool) -> np.ndarray:
        """All of it: (tau, n, classes) of classifiers, (tau, n) of regressors."""
        x, chunk = self.inputs(x), integer("chunk", chunk, 1, "try 1000")
        shape = (len(self.path), len(x), self.model.outputs)
        dtype = np.float32 if self.units == PLAIN else np.float64
        found = np.empty(shape if self.is_classifier else shape[:2], dtype)
        for place, part in self.parts(x, chunk, progress, is_probability):
            found[:, place] = part
        return found

    @single
    def _say(self, is_probability: bool, path: jax.Array, x: np.ndarray) -> np.ndarray:
        return np.asarray(_said(self.compiled, is_probability, path, x))

    def _in_units(self, outputs: np.ndarray) -> np.ndarray:
        if self.units == PLAIN:
            return outputs
        # In double precision: a mean far from 0 would take the digits of the spread.
        return self.units[0] + self.units[1] * outputs.astype(np.float64)


def _hashable(model: Predictor) -> Any:
    try:
        hash(model)
    except TypeError:
        return Unhashable(model)
    return model


@partial(jax.jit, static_argnums=(0, 1))
def _said(model: Predictor, is_probability: bool, path: jax.Array, x: jax.Array) -> jax.Array:
    """Outputs (tau, m, outputs), or probabilities."""
    # One model after the other, which on a CPU is twice as fast as all at once, and takes less memory.
    finish = jax.nn.softmax if is_probability else jnp.asarray
    return jax.lax.map(lambda theta: finish(model.apply(theta, x)), path)
