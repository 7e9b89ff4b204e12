"""How much memory a run will take, about, and a refusal before it starts where that cannot be had."""

from __future__ import annotations

from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from trajens.columns import NAMES
from trajens.errors import require
from trajens.losses import Loss, losses_of_pairs
from trajens.population import Population
from trajens.precision import single
from trajens.problem import Problem
from trajens.sampling import measure, proposals
from trajens.sampling.intermediates import bytes_held
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
    looked_at = chains * proposals.proposals_at_once(program, chains, -(-proposals.PLANNING // chains)) * program.span
    examples = min(program.population.most, proposals.CHUNK)
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
