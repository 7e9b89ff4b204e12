"""Memory that a run takes, about, and a refusal before it starts where that cannot be had.

*Intermediate arrays.* Bytes that a function of arrays holds at once between its arguments and its results, without
running it.

The steps of its program are gone through in order: what a step makes is held until its last use. Views cost nothing.
A compiler that fuses steps needs less, seldom more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from trajens.columns import NAMES
from trajens.compiling import BY_PLATFORM, form_of
from trajens.errors import require
from trajens.losses import Loss, losses_of_pairs
from trajens.population import Population
from trajens.precision import single
from trajens.problem import Problem
from trajens.sampling import measure, probes
from trajens.sampling.settings import Settings
from trajens.target import Target

_FLOAT = 4
_PATHS = 4
"""Copies of the paths: the state before and after a call, and a host's copy of each."""
_NUMBER, _MARK, _COLUMN = 8, 64, 440
"""Bytes of a number in a record, of a mark while the marks are spread out and sorted, and of the array of a column."""
_RECORDS = 2
"""Copies of the records: one by one, and joined."""
_PROPOSALS = 4
"""Copies of a proposal: old and new models, noise and mask."""


def bytes_needed(target: Target, settings: Settings, kept_paths: int) -> int:
    """Data once, paths several times, what is computed with them, and `kept_paths` paths of every chain in memory."""
    problem = target.problem
    path = _bytes_of_path(settings.chains, target.tau, problem.dim)
    data = sum(int(np.prod(leaf.shape)) * leaf.dtype.itemsize for leaf in jax.tree.leaves(problem.data))
    history = kept_paths * path if settings.keep_paths else 0
    return data + _PATHS * path + bytes_at_work(target, settings) + history


def bytes_at_work(target: Target, settings: Settings) -> int:
    """The most that sampling, measuring or an audit holds besides data and paths: proposals, losses on their way."""
    problem, program, chains = target.problem, settings.program(target), settings.chains
    like = _Like.of(problem, settings.devices[0].platform, program.examples)
    models = chains * program.lanes * program.span
    together = min(program.population.most, program.chunk * program.chunks)
    sampling = _PROPOSALS * models * problem.dim * _FLOAT + like.bytes_of_losses(chains * program.lanes, together)
    measuring = like.bytes_of_losses(chains * -(-target.tau // 2), int(min(problem.size, measure.CHUNK)))
    if program.acceptance.takes_all_data:
        return max(sampling, measuring)
    looked_at = chains * probes.proposals_at_once(program, chains, -(-probes.PLANNING // chains)) * program.span
    examples = min(program.population.most, probes.CHUNK)
    auditing = looked_at * _PROPOSALS * problem.dim * _FLOAT + like.bytes_of_losses(looked_at, examples)
    return max(sampling, measuring, auditing)


def pairs_within(problem: Problem, examples: int, room: int) -> int:
    """Pairs of models whose losses on so many examples can be computed together in `room` bytes; one at least."""
    like = _Like.of(problem, jax.devices()[0].platform, problem.population)
    return max(1, room // (like.bytes_of_losses(1, examples) + 2 * problem.dim * _FLOAT))


class _Like(NamedTuple):
    """A loss, and what its arguments are like."""

    loss: Loss
    tree: Any
    shapes: tuple[Any, ...]
    dim: int
    platform: str
    population: Population

    @classmethod
    def of(cls, problem: Problem, platform: str, population: Population) -> _Like:
        """Those of a problem."""
        shapes = tuple((leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(problem.data))
        return cls(problem.loss, jax.tree.structure(problem.data), shapes, problem.dim, platform, population)

    def bytes_of_losses(self, pairs: int, examples: int) -> int:
        """Held while the losses of so many pairs of models on so many examples each are computed."""
        return _bytes_of_losses(self, pairs, examples)


@lru_cache(maxsize=64)
@single
def _bytes_of_losses(like: _Like, pairs: int, examples: int) -> int:
    one = jax.ShapeDtypeStruct
    data = jax.tree.unflatten(like.tree, [one(*leaf) for leaf in like.shapes])
    models = one((pairs, 2, like.dim), jnp.float32)
    members = jax.eval_shape(like.population.at, one((pairs, examples), jnp.int32))
    platform = "cuda" if like.platform == "gpu" else like.platform
    losses = partial(losses_of_pairs, like.loss)
    return bytes_held(losses, data, models, members, one((pairs,), bool), platform=platform)


def _bytes_of_path(chains: int, tau: int, dim: int) -> int:
    return chains * tau * dim * _FLOAT


def require_room_for_models(chains: int, tau: int, dim: int) -> None:
    """Refuse paths that cannot fit whatever the data are, before there is a problem."""
    needed, free = _PATHS * _bytes_of_path(chains, tau, dim), bytes_free(jax.devices()[0])
    _require(needed, free, _paths(chains, tau, dim), "use a smaller network, fewer chains or a shorter path")


def require_room_for_data(examples: int, size: int) -> None:
    """Refuse more examples of `size` bytes each than can be held, before they are made."""
    _require(examples * size, _bytes_of_host(), f"{examples} examples", "use fewer")


def require_room(target: Target, settings: Settings, records: int, is_on_disk: bool) -> None:
    """Refuse what cannot fit, with a sentence; paths that are kept may be so on disk, records are held besides."""
    kept_paths = 0 if is_on_disk else records
    needed, free = bytes_needed(target, settings, kept_paths), bytes_free(settings.devices[0])
    is_kept = settings.keep_paths and kept_paths > 0
    what = _paths(settings.chains, target.tau, target.problem.dim)
    what += f" and {kept_paths} kept paths" if is_kept else ""
    advice = "keep the paths on disk with out" if is_kept else "use fewer chains or a shorter path"
    _require(needed, free, what, advice)
    held = bytes_of_records(records, settings)
    _require(held, _bytes_of_host(), f"{records} records of {settings.chains} chains", "ask for fewer records")


def bytes_of_records(records: int, settings: Settings) -> int:
    """What records take while they are made and joined, on the host."""
    columns = len(NAMES) + len(settings.observe)
    return records * (_MARK + columns * (_COLUMN + _RECORDS * settings.chains * _NUMBER))


def _paths(chains: int, tau: int, dim: int) -> str:
    return f"{chains} chains of {tau} models of {dim:,} parameters"


def _require(needed: int, free: int | None, what: str, advice: str) -> None:
    require(
        free is None or needed <= free,
        f"a run must fit into memory, got {what}, which need about {needed / 2**30:.1f} GiB of the "
        f"{(free or 0) / 2**30:.1f} GiB that are free; {advice}.",
    )


def bytes_free(device: jax.Device) -> int | None:
    """Memory that can still be had on a device, None where nobody knows."""
    if device.platform != "cpu":
        known = device.memory_stats() or {}
        return known["bytes_limit"] - known.get("bytes_in_use", 0) if "bytes_limit" in known else None
    return _bytes_of_host()


def _bytes_of_host() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    kilobytes = [int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    return 1024 * kilobytes[0] if kilobytes else None


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
