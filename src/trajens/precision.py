"""Single precision: what is computed is computed in 32 bits, whatever JAX was told, and data are brought to them here.

With ``JAX_ENABLE_X64`` (or ``jax_enable_x64``) JAX makes 64 bits of every number whose type is not said, in losses,
moves and tests of a user's own too. `single` switches that off for one call in one thread: results have the same bits
with the flag and without it, and the user's own code around the call keeps what it asked for.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from trajens.errors import InputError, require

_PART = 2**20
_P = ParamSpec("_P")
_R = TypeVar("_R")


class _Threads:
    """Whether JAX was used here or before a fork, of which its threads have no part: what waits for them hangs."""

    def __init__(self) -> None:
        self._is_used = self._is_lost = False
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._lose)

    def _lose(self) -> None:
        self._is_lost = self._is_used

    def use(self) -> None:
        """Refuse to use JAX in a child that was forked after it was used."""
        require(
            not self._is_lost,
            "a process must be spawned to use trajens, got one that was forked after JAX had run, which would hang; "
            "try multiprocessing.get_context('spawn').",
        )
        self._is_used = True


_THREADS = _Threads()


def single(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """`function` with JAX in 32 bits while it runs.

    Not for functions that hand control back before they end: a generator, or one that calls a user's callback, would
    change the precision of code that is not ours.
    """

    @wraps(function)
    def inside(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        _THREADS.use()
        with jax.enable_x64(False):
            return function(*args, **kwargs)

    return inside


def numbers(name: str, value: Any) -> np.ndarray:
    """`value` as an array of a type NumPy counts among its numbers, or an `InputError`."""
    require_unmasked(name, value)
    try:
        given = np.asarray(value)
    except Exception as error:  # whatever an object that looks like an array may raise
        raise InputError(f"{name} must be an array of numbers, got {type(value).__name__}; convert it.") from error
    if given.dtype.kind in "biuf":
        return given
    # To NumPy, bfloat16 and the other types that JAX brings along are no numbers.
    for kind, dtype in ((jnp.floating, np.float32), (jnp.signedinteger, np.int8), (jnp.unsignedinteger, np.uint8)):
        if given.dtype.kind == "V" and jnp.issubdtype(given.dtype, kind):
            return given.astype(dtype)
    raise InputError(
        f"{name} must be an array of numbers, got {type(value).__name__} of {given.dtype} and shape {given.shape}; "
        "pass numbers, for instance in float32."
    )


def require_unmasked(name: str, value: Any) -> None:
    """Refuse an array of which values are masked: what is below the mask would be taken for data."""
    masked = int(np.ma.count_masked(value)) if np.ma.is_masked(value) else 0
    require(masked == 0, f"{name} must have all its values, got {masked} masked ones; impute them or leave rows out.")


def single_type(dtype: np.dtype) -> np.dtype:
    """The type in which numbers are computed with: float32, or whole numbers of at most 32 bits, of this machine."""
    if dtype.kind == "f":
        return np.dtype(np.float32)
    if dtype.itemsize > 4:
        return np.dtype(np.int32 if dtype.kind == "i" else np.uint32)
    return dtype.newbyteorder("=")


def require_single(name: str, given: np.ndarray) -> None:
    """Refuse numbers that are not finite in float32, or that 32 bits cannot hold."""
    dtype = single_type(given.dtype)
    if dtype.kind == "f":
        bad = _not_finite(given)
        require(
            bad == 0,
            f"{name} must be finite in float32, got {bad} NaN or infinite values of {given.size}; remove or impute "
            "them.",
        )
    elif given.dtype.itemsize > dtype.itemsize and given.size > 0:
        accepted, low, high = np.iinfo(dtype), int(given.min()), int(given.max())
        require(
            accepted.min <= low and high <= accepted.max,
            f"{name} must be whole numbers in {accepted.min}..{accepted.max} ({dtype}), got {low} to {high}; number "
            "them anew, or give them as float32.",
        )


def as_single(name: str, value: Any) -> np.ndarray:
    """`value` in the type it is computed with, or an `InputError` where that would be another value."""
    given = numbers(name, value)
    require_single(name, given)
    return given.astype(single_type(given.dtype), copy=False)


def _not_finite(given: np.ndarray) -> int:
    """How many values are not finite in float32; in parts, which need little memory beside the array."""
    if given.ndim == 0:
        given = given[None]
    rows = max(1, _PART // max(1, given[:1].size))
    with np.errstate(over="ignore"):
        parts = (given[i : i + rows].astype(np.float32, copy=False) for i in range(0, len(given), rows))
        return sum(part.size - int(np.isfinite(part).sum()) for part in parts)
