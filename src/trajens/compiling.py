"""How programs are traced and compiled: functions that are one step of a program, and threads that compile ahead.

Every operation on arrays of JAX is a step that JAX looks at again for each `vmap` around it. A hash of a hundred steps
that is asked for under two of them is gone through three times, in every program that draws random numbers; as a step
of its own it is gone through when the program is lowered, in its last shape. Of a function with a form for every
platform, only the form is gone through that is lowered.

Tracing a program runs Python, perhaps the user's, and stays with whoever asks; compiling it lets go of the interpreter.
What was compiled is found by the call that needs it, since JAX knows it by the same trace. A call that differs in
anything compiles by itself, as it would have without this.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

Function = Callable[..., Sequence[jax.Array]]


def elementwise(name: str, function: Function) -> Function:
    """`function` of arrays that are broadcast against each other, as one step of the program it is used in.

    Parameters
    ----------
    name : str
        Of the step.
    function : callable
        Its arrays come first and may have any shapes that fit together; keywords are fixed when it is compiled. It
        returns a list of arrays, all of the broadcast shape and of the type of its last array.
    """
    step = Primitive(name)
    step.multiple_results = True

    def like(*given: Any, results: int, **_: Any) -> list[Any]:
        shape = np.broadcast_shapes(*(one.shape for one in given))
        return results * [jax.core.ShapedArray(shape, given[-1].dtype)]

    def mapped(given: Sequence[jax.Array], axes: Sequence[int | None], **fixed: Any) -> tuple[Any, list[int]]:
        rank = max(jnp.ndim(one) - (axis is not None) for one, axis in zip(given, axes, strict=True))
        found = step.bind(*(_in_front(one, axis, rank) for one, axis in zip(given, axes, strict=True)), **fixed)
        return found, len(found) * [0]

    def lowered(*given: jax.Array, results: int, **fixed: Any) -> list[jax.Array]:
        return list(function(*given, **fixed))

    step.def_abstract_eval(like)
    step.def_impl(lambda *given, **fixed: jax.jit(lambda *given: step.bind(*given, **fixed))(*given))
    batching.primitive_batchers[step] = mapped
    mlir.register_lowering(step, mlir.lower_fun(lowered, multiple_results=True))

    def ask(*given: Any, results: int = 1, **fixed: Any) -> Sequence[jax.Array]:
        found: Sequence[jax.Array] = step.bind(*given, results=results, **fixed)
        return found

    return ask


def _in_front(array: jax.Array, axis: int | None, rank: int) -> jax.Array:
    """With the axis that is mapped over first, before as many as the others have."""
    if axis is None:
        return array
    array = jnp.moveaxis(array, axis, 0)
    return array.reshape(array.shape[0], *(rank + 1 - array.ndim) * (1,), *array.shape[1:])


def by_platform(like: jax.ShapeDtypeStruct, *given: Any, default: Callable[..., Any], **forms: Any) -> jax.Array:
    """The result of the form for the platform that the program is compiled for, as ``jax.lax.platform_dependent``.

    Only that form is traced. It cannot be mapped over or differentiated.

    Parameters
    ----------
    like : ShapeDtypeStruct
        Shape and type of the result.
    *given : arrays
    default, **forms : callables of `given`
        By name of the platform, as "cpu" or "cuda", and of all others.
    """
    own = tuple(forms.items())
    found: jax.Array = _by_platform.bind(*given, shape=like.shape, dtype=like.dtype, default=default, forms=own)
    return found


def form_of(parameters: dict[str, Any], platform: str) -> Callable[..., Any]:
    """The form for a platform among the parameters of a step of `by_platform`."""
    form: Callable[..., Any] = dict(parameters["forms"]).get(platform, parameters["default"])
    return form


BY_PLATFORM = "by_platform"
_by_platform = Primitive(BY_PLATFORM)
_by_platform.def_abstract_eval(lambda *_, shape, dtype, **__: jax.core.ShapedArray(shape, dtype))
_by_platform.def_impl(lambda *given, **fixed: jax.jit(lambda *given: _by_platform.bind(*given, **fixed))(*given))


def _lower_by_platform(context: Any, *given: Any, **fixed: Any) -> Any:
    form = form_of(fixed, context.module_context.platforms[0])
    return mlir.lower_fun(form, multiple_results=False)(context, *given)


mlir.register_lowering(_by_platform, _lower_by_platform)


_THREADS = 4


class Compiling:
    """What is being compiled, by name."""

    def __init__(self) -> None:
        self._begun: dict[Hashable, Future[Any]] = {}

    def begin(self, name: Hashable, function: Any, *given: Any) -> None:
        """Compile a function of `jax.jit` for arguments like these, once for every name."""
        if name not in self._begun:
            self._begun[name] = _threads().submit(function.lower(*given).compile)

    def finish(self, name: Hashable) -> None:
        """Wait until it is compiled, if that was begun; what has failed will fail again where it is called."""
        if name in self._begun:
            wait([self._begun[name]])


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS, "trajens-compiling")
