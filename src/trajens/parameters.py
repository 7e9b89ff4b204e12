"""Parameters in the shape a model has them, and as one flat vector.

Everything in that vector is sampled. So a pytree is refused where it holds what is no parameter: functions, whole
numbers, running statistics.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from trajens.errors import require
from trajens.precision import as_single, single

_COLLECTION = "batch_stats"
_STATISTICS = ("BatchStat", "StateIndex")
"""What running statistics are called: a collection of Flax's variables, and types of Flax (nnx) and Equinox."""


@dataclass(frozen=True)
class Unravel:
    """From a flat vector back to the pytree; leaves of less than 32 bits get their own type again."""

    back: Callable[[jax.Array], Any]
    types: tuple[np.dtype, ...]

    def __call__(self, theta: jax.Array) -> Any:
        leaves, structure = jax.tree.flatten(self.back(jnp.asarray(theta, jnp.float32)))
        typed = [leaf.astype(dtype) for leaf, dtype in zip(leaves, self.types, strict=True)]
        return jax.tree.unflatten(structure, typed)


@single
def flattened(name: str, params: Any) -> tuple[np.ndarray, Unravel]:
    """The parameters as a float32 vector (dim,), and the way back."""
    _refuse_statistics(name, params)
    leaves, structure = jax.tree_util.tree_flatten_with_path(params)
    types = tuple(_type_of(name, jax.tree_util.keystr(path), leaf) for path, leaf in leaves)
    values = [as_single(name + jax.tree_util.keystr(path), leaf).astype(np.float32) for path, leaf in leaves]
    flat, back = ravel_pytree(jax.tree.unflatten(structure, values))
    require(
        flat.size > 0,
        f"{name} must have parameters, got a {type(params).__name__} without any; pass the parameters of a model.",
    )
    return np.asarray(flat), Unravel(back, types)


def _refuse_statistics(name: str, params: Any) -> None:
    def is_node(node: Any) -> bool:
        return type(node).__name__ in _STATISTICS

    nodes, _ = jax.tree_util.tree_flatten_with_path(params, is_leaf=is_node)
    for path, node in nodes:
        is_collected = getattr(path[0], "key", None) == _COLLECTION if path else False
        require(
            not is_collected and not (is_node(node) and jax.tree.leaves(node)),
            f"{name} must hold parameters only, as all of it is sampled, got running statistics in "
            f"{jax.tree_util.keystr(path)}; pass the parameters alone, in Flax variables['params'], and use the "
            "statistics as constants inside the function.",
        )


def _type_of(name: str, place: str, leaf: Any) -> np.dtype:
    """The type a parameter is handed back in."""
    dtype = getattr(leaf, "dtype", None)
    dtype = np.asarray(leaf).dtype if dtype is None else dtype
    what = str(dtype) if hasattr(leaf, "dtype") else f"a {type(leaf).__name__}"
    require(
        jnp.issubdtype(dtype, jnp.floating),
        f"{name} must be a pytree of floating-point arrays, as all of it is sampled, got {what} in {place or 'it'}; "
        "split off the rest, in Equinox with eqx.partition(model, eqx.is_inexact_array), and put it back inside the "
        "function.",
    )
    return np.dtype(np.float32) if dtype.itemsize > 2 else dtype
