"""Members of an ensemble: what is asked of a model, and what the models of a path say of inputs.

Any function of parameters and inputs can be a model. Inputs are taken so many at a time, and equal models share a
compilation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from trajens.errors import InputError, first_line, integer, require
from trajens.models.base import Model, as_bytes, fits
from trajens.precision import as_single, numbers, require_single, single, single_type
from trajens.problem import flatten
from trajens.run.progress import show_count

Apply = Callable[[Any, Any], Any]
"""From parameters and inputs (m, ...) to outputs (m, outputs)."""


class Predictor(Protocol):
    """What an ensemble asks of a model; those of `tj.models` and all else that has these is one.

    One output makes a regressor, more make a classifier, whose outputs are logits. Where there is an ``input_shape``,
    the shape of one input, inputs are checked against it. Models that are hashable, and equal where they mean the
    same (frozen dataclasses are), share a compilation.
    """

    @property
    def dim(self) -> int:
        """Number of parameters."""

    @property
    def outputs(self) -> int:
        """Numbers the model gives per input: 1, or one per class."""

    def apply(self, theta: jax.Array, x: jax.Array) -> jax.Array:
        """Outputs (m, outputs) of the model `theta` (dim,) on inputs (m, ...), of every input by itself."""


@dataclass(frozen=True)
class Applied:
    """A function of parameters of any form, as a model of flat parameters."""

    function: Apply
    unravel: Callable[[jax.Array], Any] | None
    dim: int
    outputs: int

    @classmethod
    def of(cls, apply: Apply, outputs: int, like: Any) -> Applied:
        """The model of a function, whose parameters are like the pytree `like`; for files of `Ensemble.save`."""
        flat, unravel = flatten("like", like)
        return cls(_function(apply), unravel, flat.size, _outputs(outputs))

    def apply(self, theta: jax.Array, x: jax.Array) -> jax.Array:
        """Outputs (m, outputs); a function of one output may leave out the second axis."""
        out = jnp.asarray(self.function(theta if self.unravel is None else self.unravel(theta), x))
        return out[:, None] if out.ndim == 1 and self.outputs == 1 else out


def apply_members(
    apply: Apply, members: Any, outputs: int, unravel: Callable[[jax.Array], Any] | None
) -> tuple[Applied, np.ndarray]:
    """A model made of a function, and its members as a path (tau, dim); see `Ensemble.from_apply`."""
    apply, outputs = _function(apply), _outputs(outputs)
    if isinstance(members, (list, tuple)):
        require(
            unravel is None,
            "unravel must be left out with a list of parameters, got both; give it with a path (tau, dim) only.",
        )
        path, unravel = _flattened(members)
        return Applied(apply, unravel, path.shape[1], outputs), path
    path = as_single("members", members)
    require(
        path.ndim == 2 and path.size > 0,
        f"members must be a path (tau, dim) or a list of parameters, got shape {path.shape} of {path.dtype}; pass one "
        "chain of run.paths, or all as run.paths.reshape(-1, dim).",
    )
    return Applied(apply, unravel, path.shape[1], outputs), path


def _function(apply: Apply) -> Apply:
    require(callable(apply), f"apply must be a function of (params, x), got {apply!r}; pass the function itself.")
    return apply


def _outputs(outputs: int) -> int:
    return integer("outputs", outputs, 1, "give the number of classes, or 1 for a regression")


@single
def members_of(model: Predictor, path: np.ndarray) -> list[Any]:
    """Parameters of every model in the form the model has them, as arrays of NumPy."""
    back = getattr(model, "unravel" if isinstance(model, Applied) else "unpack", None)
    return [theta if back is None else jax.tree.map(np.asarray, back(theta)) for theta in path]


@single
def parameters_of(model: Predictor) -> str:
    """Names, shapes and types of the parameters in the form the model has them, in a line."""
    like = jax.ShapeDtypeStruct((model.dim,), jnp.float32)
    back = getattr(model, "unravel", None) or (lambda theta: theta)
    leaves = jax.tree_util.tree_leaves_with_path(jax.eval_shape(back, like))
    return ", ".join(f"{jax.tree_util.keystr(path)} {leaf.dtype}{list(leaf.shape)}".strip() for path, leaf in leaves)


def _flattened(members: Sequence[Any]) -> tuple[np.ndarray, Callable[[jax.Array], Any]]:
    """Parameters of several models as (tau, dim), and the way back for one."""
    require(len(members) > 0, "members must be the parameters of one model or more, got an empty list; pass some.")
    shapes = [_shapes(params) for params in members]
    differing = [i for i, shape in enumerate(shapes) if shape != shapes[0]]
    require(
        not differing,
        f"members must have parameters of the same shapes, got others in number {differing[:1]} than in number 0; "
        "pass models of one architecture.",
    )
    flat = [flatten(f"members[{i}]", params) for i, params in enumerate(members)]
    return np.stack([values for values, _ in flat]), flat[0][1]


def _shapes(params: Any) -> Any:
    leaves, structure = jax.tree.flatten(params)
    return [np.shape(leaf) for leaf in leaves], structure


@single
def check_apply(model: Predictor, x: np.ndarray) -> None:
    """Refuse a model that fails on such inputs, or gives another shape than (m, outputs)."""
    like = jax.ShapeDtypeStruct
    shapes = like((model.dim,), jnp.float32), like(x.shape, single_type(x.dtype))
    try:
        found = jax.eval_shape(model.apply, *shapes)
    except Exception as error:
        raise InputError(
            f"apply failed on parameters of size {model.dim} and inputs of shape {x.shape} with {first_line(error)}; "
            "try it on one model and a slice of the data."
        ) from error
    shape, expected = getattr(found, "shape", None), (len(x), model.outputs)
    require(
        shape == expected,
        f"apply must return outputs of shape {expected} for {len(x)} inputs, got {shape}; check outputs.",
    )


class Unhashable:
    """A model that cannot be hashed, known by its identity."""

    def __init__(self, model: Predictor):
        self._model = model

    def apply(self, theta: jax.Array, x: jax.Array) -> jax.Array:
        """That of the model."""
        return self._model.apply(theta, x)


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
        for start in show_count(range(0, len(x), chunk), len(x), "predicting", progress):
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
