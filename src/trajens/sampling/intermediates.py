"""Bytes that a function of arrays holds at once between its arguments and its results, without running it.

The steps of its program are gone through in order: what a step makes is held until its last use. Views cost nothing.
A compiler that fuses steps needs less, seldom more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from trajens.steps import BY_PLATFORM, form_of

_VIEWS = {"reshape", "squeeze", "expand_dims", "broadcast_in_dim", "transpose", "convert_element_type", "copy"}
"""Steps that a compiler does where their result is used."""


def bytes_held(function: Callable[..., Any], *like: Any, platform: str) -> int:
    """The most that is held at once, for arguments of such shapes and types; their own bytes are not counted."""
    return _most(jax.make_jaxpr(function)(*like).jaxpr, platform)


def _most(jaxpr: Any, platform: str) -> int:
    """Of the steps of one program."""
    root: dict[Any, Any] = {}
    last: dict[Any, int] = {}
    for number, step in enumerate(jaxpr.eqns):
        given = [variable for variable in step.invars if not hasattr(variable, "val")]
        if step.primitive.name in _VIEWS and given:
            root[step.outvars[0]] = root.get(given[0], given[0])
        for variable in given:
            last[root.get(variable, variable)] = number
    for variable in jaxpr.outvars:
        if not hasattr(variable, "val"):
            last[root.get(variable, variable)] = len(jaxpr.eqns)
    held: dict[Any, int] = {}
    most = 0
    for number, step in enumerate(jaxpr.eqns):
        made = {out: _bytes(out) for out in step.outvars if out not in root}
        inside = max((_most(inner, platform) for inner in _inner(step, platform)), default=0)
        most = max(most, sum(held.values()) + max(sum(made.values()), inside))
        held |= made
        held = {variable: size for variable, size in held.items() if last.get(variable, -1) > number}
    return most


def _inner(step: Any, platform: str) -> Iterator[Any]:
    """Programs inside a step; of those for one platform each, that of `platform`."""
    chosen = step.params.get("branches_platforms")
    if chosen is not None:
        here = [j for j, names in enumerate(chosen) if names is None or platform in names]
        yield step.params["branches"][here[0]].jaxpr
        return
    if step.primitive.name == BY_PLATFORM:
        yield jax.make_jaxpr(form_of(step.params, platform))(*(variable.aval for variable in step.invars)).jaxpr
        return
    for parameter in step.params.values():
        for one in parameter if isinstance(parameter, tuple) else (parameter,):
            inner = getattr(one, "jaxpr", one)
            if hasattr(inner, "eqns"):
                yield inner


def _bytes(variable: Any) -> int:
    aval = variable.aval
    return int(np.prod(aval.shape)) * aval.dtype.itemsize if hasattr(aval, "shape") else 0
