"""A problem: the loss of one example, the data, and the number of parameters.

    L(theta) = (1/N) sum_i l_i(theta)

A problem knows nothing about paths or sampling. Models whose parameters are a pytree are flattened once,
here, with `Problem.from_pytree`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from trajens.errors import InputError, integer, require
from trajens.subsample import MAX_SIZE

Loss = Callable[[jax.Array, Any], jax.Array]


class Problem:
    """Per-example losses of a model with `dim` parameters on a data set of N examples.

    Parameters
    ----------
    loss : callable
        ``loss(theta, batch) -> (m,)``: the loss of each of the m examples in `batch`; `theta` has shape
        (dim,). It is compiled by JAX but never differentiated.
    data : pytree of arrays
        Every leaf has leading axis N; a batch is the same pytree with leading axis m.
    dim : int
        Number of parameters.
    start : array (dim,), optional
        Where paths start when `sample` is given no `initial`.
    spread : array (dim,), optional
        Standard deviations around `start` (or 0) of the first model of every chain; default none around a given start.
    """

    def __init__(self, loss: Loss, data: Any, dim: int, start: Any = None, spread: Any = None):
        require(callable(loss), f"loss must be a function of (theta, batch), got {loss!r}; pass the function itself.")
        self.dim = integer("dim", dim, 1, "give the number of parameters of the model")
        self.loss: Loss = loss
        self.size = _check_data(data)
        self.data = jax.tree.map(jnp.asarray, data)
        _check_loss(loss, self.data, self.dim)
        self._unravel: Callable[[jax.Array], Any] | None = None
        self.start = None if start is None else self._vector("start", start)
        self.spread = None if spread is None else self._vector("spread", spread)
        require(
            self.spread is None or bool((self.spread >= 0).all()),
            "spread must be standard deviations >= 0, got negative ones; use 0 for no spread.",
        )

    def _vector(self, name: str, value: Any) -> np.ndarray:
        given = np.asarray(value)
        require(
            given.dtype.kind in "iuf" and bool(np.isfinite(given).all()),
            f"{name} must be finite numbers, got {value!r}; initialise the model again.",
        )
        require(
            given.shape == (self.dim,),
            f"{name} must have shape ({self.dim},), got {given.shape}; check the size of the model.",
        )
        return given.astype(np.float32)

    @classmethod
    def from_pytree(cls, loss: Callable[[Any, Any], jax.Array], data: Any, params: Any) -> Problem:
        """The same for a model whose parameters are a pytree (Flax, Equinox, plain dicts).

        ``loss(params, batch) -> (m,)``. Paths start at `params`; `unravel` turns a row of a path back into
        a pytree.
        """
        flat, unravel = ravel_pytree(params)
        problem = cls(lambda theta, batch: loss(unravel(theta), batch), data, flat.size, start=flat)
        problem._unravel = unravel
        return problem

    def unravel(self, theta: jax.Array) -> Any:
        """Parameters in the shape the model was given in."""
        return theta if self._unravel is None else self._unravel(theta)

    def __repr__(self) -> str:
        return f"Problem({getattr(self.loss, '__name__', self.loss)}, N={self.size}, dim={self.dim})"


def losses_of_pairs(
    loss: Loss, data: Any, theta_pairs: jax.Array, indices: jax.Array, is_active: jax.Array
) -> jax.Array:
    """Losses of the current and the proposed model of every lane on the lane's own minibatch.

    A loss that has a method ``of_pairs(data, theta_pairs, indices, is_active)`` is asked for them, which is where
    native kernels come in; any other is mapped over lanes and models.

    Parameters
    ----------
    theta_pairs : (lanes, 2, dim)
    indices : (lanes, m)
    is_active : (lanes,)
        What comes out for an inactive lane is not used; a kernel may skip it.

    Returns
    -------
    (lanes, 2, m) float32
    """
    native = getattr(loss, "of_pairs", None)
    if native is not None:
        losses: jax.Array = native(data, theta_pairs, indices, is_active)
        return losses
    return reference_losses(loss, data, theta_pairs, indices)


compiled_losses_of_pairs = jax.jit(losses_of_pairs, static_argnums=0)
"""`losses_of_pairs` for use outside of a compiled program."""


def reference_losses(loss: Loss, data: Any, theta_pairs: jax.Array, indices: jax.Array) -> jax.Array:
    """The same by definition, for every lane and on every platform."""
    batches = jax.tree.map(lambda leaf: leaf[indices], data)
    both = jax.vmap(loss, in_axes=(0, None))
    return jax.vmap(both)(theta_pairs, batches).astype(jnp.float32)


def _check_data(data: Any) -> int:
    leaves = jax.tree.leaves(data)
    require(len(leaves) > 0, "data must hold at least one array, got none; pass a pytree such as (x, y).")
    sizes = set()
    for leaf in leaves:
        array = np.asarray(leaf)
        require(
            array.ndim >= 1 and array.dtype.kind in "biuf",
            f"data must be arrays of numbers with a leading axis of examples, got {array.dtype} of shape "
            f"{array.shape}; stack the examples along axis 0.",
        )
        sizes.add(array.shape[0])
        if array.dtype.kind == "f":
            with np.errstate(over="ignore"):
                bad = int((~np.isfinite(array.astype(np.float32))).sum())
            require(
                bad == 0,
                f"data must be finite in float32, got {bad} NaN or infinite values of {array.size}; remove or "
                "impute them.",
            )
    require(
        len(sizes) == 1,
        f"every array of data must have the same leading axis N, got {sorted(sizes)}; check which array is cut off.",
    )
    return integer("the number of examples N", sizes.pop(), 2, "give at least two examples", MAX_SIZE)


def _check_loss(loss: Loss, data: Any, dim: int) -> None:
    for m in (2, 3):
        batch = jax.tree.map(lambda leaf, m=m: jax.ShapeDtypeStruct((m, *leaf.shape[1:]), leaf.dtype), data)
        try:
            out = jax.eval_shape(loss, jax.ShapeDtypeStruct((dim,), jnp.float32), batch)
        except Exception as error:
            raise InputError(
                f"loss(theta, batch) failed on theta of shape ({dim},) and a batch of {m} examples with "
                f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no message'}; "
                "try it on a slice of your data."
            ) from error
        shape = getattr(out, "shape", None)
        require(
            shape == (m,),
            f"loss(theta, batch) must return one loss per example, shape ({m},) for {m} examples, got "
            f"{shape if shape is not None else type(out).__name__}; do not average over the batch.",
        )
        require(
            jnp.issubdtype(out.dtype, jnp.floating) or jnp.issubdtype(out.dtype, jnp.integer),
            f"loss(theta, batch) must return real numbers, got {out.dtype}; convert them to float32.",
        )
