"""How much memory a run will take, about, and a refusal before it starts where that cannot be had."""

from __future__ import annotations

from pathlib import Path

import jax
import numpy as np

from trajens.errors import require
from trajens.sampling.recording import NAMES
from trajens.sampling.settings import Settings
from trajens.target import Target

_FLOAT = 4
_PATHS = 4
"""Copies of the paths: the state before and after a call, and a host's copy of each."""
_NUMBER, _MARK = 8, 64
"""Bytes of a number in a record, and of a mark while the marks are spread out and sorted."""
_RECORDS = 2
"""Copies of the records: one by one, and joined."""
_PROPOSALS = 4
"""Copies of a proposal: old and new models, noise and mask."""


def bytes_needed(target: Target, settings: Settings, kept_paths: int) -> int:
    """Data once, paths and proposals several times, and `kept_paths` paths of every chain in memory."""
    problem, program = target.problem, settings.program(target)
    path = _bytes_of_path(settings.chains, target.tau, problem.dim)
    proposals = settings.chains * program.lanes * program.span * problem.dim * _FLOAT
    data = sum(int(np.prod(leaf.shape)) * leaf.dtype.itemsize for leaf in jax.tree.leaves(problem.data))
    history = kept_paths * path if settings.keep_paths else 0
    return data + _PATHS * path + _PROPOSALS * proposals + history


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
    columns = len(NAMES) + len(settings.observe)
    held = records * (_MARK + _RECORDS * settings.chains * columns * _NUMBER)
    _require(held, _bytes_of_host(), f"{records} records of {settings.chains} chains", "ask for fewer records")


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
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    kilobytes = [int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    return 1024 * kilobytes[0] if kilobytes else None
