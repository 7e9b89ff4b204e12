"""What an ensemble asks of a model, and how any function of parameters and inputs becomes one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from trajens.errors import InputError, first_line, integer, require
from trajens.parameters import flattened
from trajens.precision import as_single, single, single_type

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
        flat, unravel = flattened("like", like)
        return cls(_function(apply), unravel, flat.size, _outputs(outputs))

    def apply(self, theta: jax.Array, x: jax.Array) -> jax.Array:
        """Outputs (m, outputs); a function of one output may leave out the second axis."""
        out = jnp.asarray(self.function(theta if self.unravel is None else self.unravel(theta), x))
        return out[:, None] if out.ndim == 1 and self.outputs == 1 else out


def applied(
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
    flat = [flattened(f"members[{i}]", params) for i, params in enumerate(members)]
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
