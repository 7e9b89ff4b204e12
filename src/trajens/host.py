"""Losses on the host: functions of NumPy arrays, C libraries and programs, called from the compiled sampler.

A compiled program calls the host once per iteration and device, for all lanes that are active. What the host is given
are arrays of NumPy, copied out of the program, and never arrays of JAX: those would have to be made by threads that may
all be waiting for the host (`jax.pure_callback` makes some, and hangs where there are several devices).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

from trajens.errors import InputError, first_line, require
from trajens.problem import Problem
from trajens.workers import THREADS, Callers

_EXAMPLES = 8
"""Examples that a function is tried on."""
_TOLERANCE = 1e-3
"""Relative difference of losses that rounding may make in a batch of another size or order."""


def call_host(callback: Callable[..., np.ndarray], shape: tuple[int, ...], *given: jax.Array) -> jax.Array:
    """Float32 array of a known shape from a function of NumPy arrays, which are read-only; mapped one by one."""
    found: jax.Array = _call.bind(*given, callback=callback, shape=shape)[0]
    return found


_call = Primitive("call_host")
_call.multiple_results = True
_call.def_abstract_eval(lambda *_, shape, **__: [jax.core.ShapedArray(shape, np.dtype(np.float32))])
_call.def_impl(lambda *given, **fixed: jax.jit(lambda *given: _call.bind(*given, **fixed))(*given))


def _lower(context: Any, *given: Any, callback: Callable[..., np.ndarray], shape: tuple[int, ...]) -> Any:
    def call(*arrays: Any) -> tuple[np.ndarray]:
        return (callback(*(np.asarray(array) for array in arrays)),)

    found, _, _ = mlir.emit_python_callback(
        context, call, None, given, context.avals_in, context.avals_out, has_side_effect=False, returns_token=False
    )
    return found


def _map(given: Sequence[jax.Array], axes: Sequence[int | None], **fixed: Any) -> tuple[Any, list[int]]:
    mapped = [jnp.moveaxis(one, axis, 0) for one, axis in zip(given, axes, strict=True) if axis is not None]

    def one_by_one(rows: list[jax.Array]) -> Any:
        left = iter(rows)
        return _call.bind(
            *(one if axis is None else next(left) for one, axis in zip(given, axes, strict=True)), **fixed
        )

    return jax.lax.map(one_by_one, mapped), [0]


mlir.register_lowering(_call, _lower)
batching.primitive_batchers[_call] = _map


@dataclass(frozen=True, eq=False)
class External:
    """The loss of a host function; see `external`.

    Attributes
    ----------
    function : callable
    callers : Callers
        Who calls it.
    is_vectorised : bool
        Whether the function takes many models at once.
    failures : list of exceptions
        What the function raised, until `own_errors` raises it where the run was asked for.
    """

    function: Callable[..., Any]
    callers: Callers = field(repr=False)
    is_vectorised: bool = field(default=False, repr=False)
    failures: list[BaseException] = field(default_factory=list, repr=False)

    def __call__(self, theta: jax.Array, batch: Any) -> jax.Array:
        one = jax.tree.map(lambda leaf: leaf[None], batch)
        return self._ask(jnp.stack([theta, theta])[None], one, jnp.ones(1, bool))[0, 0]

    def of_pairs(self, data: Any, theta_pairs: jax.Array, indices: jax.Array, is_active: jax.Array) -> jax.Array:
        """Losses (lanes, 2, m) by one call of the host; 0 where a lane is not active."""
        return self._ask(theta_pairs, jax.tree.map(lambda leaf: leaf[indices], data), is_active)

    def _ask(self, theta_pairs: jax.Array, batches: Any, is_active: jax.Array) -> jax.Array:
        leaves, structure = jax.tree.flatten(batches)
        shape = (len(theta_pairs), 2, leaves[0].shape[1])
        return call_host(_Answer(self, structure), shape, theta_pairs, is_active, *leaves)

    def losses(self, thetas: np.ndarray, batches: Any) -> np.ndarray:
        """Losses (k, m) of models (k, dim), each on its own batch, a pytree of arrays (k, m, ...)."""
        take = lambda where: jax.tree.map(lambda leaf: leaf[where], batches)  # noqa: E731
        m = jax.tree.leaves(batches)[0].shape[1]
        if self.is_vectorised:
            parts = [part for part in np.array_split(np.arange(len(thetas)), self.callers.workers) if part.size]
            found = self.callers.call([(thetas[part], take(part)) for part in parts])
            return np.concatenate([_numbers(one, (len(part), m)) for one, part in zip(found, parts, strict=True)])
        found = self.callers.call([(theta, take(number)) for number, theta in enumerate(thetas)])
        return np.stack([_numbers(one, (m,)) for one in found])


@dataclass(frozen=True)
class _Answer:
    """What the host does in an iteration; `structure` is that of the data."""

    loss: External
    structure: Any

    def __call__(self, pairs: np.ndarray, is_active: np.ndarray, *leaves: np.ndarray) -> np.ndarray:
        found = np.zeros((len(pairs), 2, leaves[0].shape[1]), np.float32)
        where = np.flatnonzero(is_active)
        if where.size:
            # Both models of a pair have the same examples.
            twice = [np.repeat(leaf[where], 2, axis=0) for leaf in leaves]
            thetas = pairs[where].reshape(-1, pairs.shape[-1])
            try:
                losses = self.loss.losses(thetas, jax.tree.unflatten(self.structure, twice))
            except BaseException as error:
                self.loss.failures.append(error)
                raise
            found[where] = losses.reshape(-1, *found.shape[1:])
        return found


def _numbers(found: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Losses in float32, or an `InputError`."""
    require(
        not isinstance(found, jax.Array),
        "function must return an array of NumPy, got one of JAX, whose threads may wait for the function; give it to "
        "trajens.Problem, which compiles it.",
    )
    array = np.asarray(found)
    require(
        array.shape == shape,
        f"function must return one loss per example, shape {shape}, got {array.shape}; do not average over the batch.",
    )
    require(
        array.dtype.kind in "biuf",
        f"function must return real numbers, got {array.dtype}; convert them to float32.",
    )
    with np.errstate(over="ignore"):
        return array.astype(np.float32)


@contextmanager
def own_errors(problem: Problem) -> Iterator[None]:
    """Raise what a host function raised, with its own traceback, in place of the error that JAX makes of it."""
    failures: list[BaseException] = getattr(problem.loss, "failures", [])
    failures.clear()
    try:
        yield
    except Exception:
        # JAX raises a ValueError of one device, and an error of its own of several.
        if not failures:
            raise
        first = failures[0]
        failures.clear()
        raise first from first.__cause__


def external(
    function: Callable[..., Any],
    data: Any,
    dim: int,
    *,
    vectorised: bool = False,
    workers: int = 1,
    pool: str = THREADS,
    initial: Any = None,
    spread: Any = None,
    prior: float | None = None,
    layers: Mapping[str, int] | None = None,
    likelihood: str | None = None,
) -> Problem:
    """Problem whose loss is any Python function: NumPy, a C library, a program; it is not compiled, nor differentiated.

    Parameters
    ----------
    function : callable
        ``function(theta, batch) -> (m,)``: losses of the m examples in `batch` for the parameters `theta` (dim,), which
        are arrays of NumPy in float32 or of whole numbers. The same arguments must give the same losses, and the loss
        of an example must not depend on the others in its batch; that is tried at the start. It must not use JAX, for
        whose threads it would wait forever. What it raises ends the run, whose checkpoint stays. Losses that are not
        finite refuse a proposal.
    data : pytree of arrays
        As for `trajens.Problem`: every leaf has leading axis N.
    dim : int
        Number of parameters.
    vectorised : bool
        Whether the function takes many models at once, ``function(thetas, batches) -> (k, m)`` with `thetas` (k, dim)
        and a batch for each, arrays (k, m, ...).
    workers : int
        Calls at the same time, for slow functions. With one, calls never overlap.
    pool : "threads" or "processes"
        What workers are. Threads help functions that let go of Python's interpreter lock, as C libraries and programs
        do. Processes are spawned, so the function must be importable.
    initial, spread, prior, layers, likelihood
        As for `trajens.Problem`.

    Returns
    -------
    Problem

    Examples
    --------
    >>> def loss(theta, batch):  # doctest: +SKIP
    ...     x, y = batch
    ...     return 0.5 * (y - np.tanh(x @ theta)) ** 2
    >>> problem = tj.external(loss, (x, y), dim=2)  # doctest: +SKIP
    """
    require(callable(function), f"function must be one of (theta, batch), got {function!r}; pass the function itself.")
    loss = External(function, Callers(function, workers, pool), bool(vectorised))
    problem = Problem(
        loss, data, dim, initial=initial, spread=spread, prior=prior, layers=layers, likelihood=likelihood
    )
    _try(problem, loss)
    return problem


def _try(problem: Problem, loss: External) -> None:
    """Refuse a function that fails, or whose losses are of another shape, or depend on more than model and example."""
    noise = np.random.default_rng(0).standard_normal((2, problem.dim)).astype(np.float32)
    spread = problem.dim**-0.5 if problem.spread is None else problem.spread
    models = (np.float32(0.1) * spread * noise).astype(np.float32)
    if problem.initial is not None:
        models = models + problem.initial
        models[0] = problem.initial
    some = np.arange(min(_EXAMPLES, problem.size))
    first = _tried(problem, loss, models[:1], some)[0]
    require(
        bool(np.isfinite(first).any()),
        f"function must give finite losses where paths start, got none on {len(some)} examples; give another initial.",
    )
    require(
        np.array_equal(first, _tried(problem, loss, models[:1], some)[0], equal_nan=True),
        "function must give the same losses for the same arguments, got others when called again; leave out what is "
        "random, or make it of the example, for instance of a seed in data.",
    )
    for others in (some[::-1], some[: len(some) // 2][::-1]):
        if others.size > 1:
            require_alone(first[others], _tried(problem, loss, models[:1], others)[0])
    require(
        _are_close(first, _tried(problem, loss, models[::-1], some)[1]),
        "the losses of a model must not depend on the other models, got others after or beside another model; keep "
        "nothing between calls, and check which axis is that of models.",
    )


def _tried(problem: Problem, loss: External, models: np.ndarray, some: np.ndarray) -> np.ndarray:
    """Losses (k, m) of models on some examples, or an `InputError`."""
    batch = jax.tree.map(lambda leaf: np.repeat(np.asarray(leaf)[some][None], len(models), axis=0), problem.data)
    try:
        return loss.losses(models.copy(), batch)
    except InputError:
        raise
    except BrokenProcessPool as error:
        raise InputError(
            "processes must be able to start and to import the function, got some that ended at once; put what a "
            "script does below if __name__ == '__main__', or use threads."
        ) from error
    except Exception as error:
        shape = "x".join(map(str, models.shape if loss.is_vectorised else models.shape[1:]))
        raise InputError(
            f"function failed on parameters of shape {shape} and {len(some)} examples with {first_line(error)}; try it "
            "on a slice of your data."
        ) from error


def require_alone(before: np.ndarray, now: np.ndarray, share: float = 1.0) -> None:
    """Refuse losses of examples in one batch, and in another, fewer than a `share` of which differ by rounding only."""
    require(
        _are_close(before, now, share),
        "the loss of an example must not depend on the others in its batch, got another in a batch of other examples, "
        "in another order; compute it of every example by itself, with batch statistics as constants.",
    )


def _are_close(before: np.ndarray, now: np.ndarray, share: float = 1.0) -> bool:
    finite = np.abs(before[np.isfinite(before)])
    size = float(np.median(finite)) if finite.size else 0.0
    return bool(np.isclose(before, now, rtol=_TOLERANCE, atol=_TOLERANCE * size, equal_nan=True).mean() >= share)
