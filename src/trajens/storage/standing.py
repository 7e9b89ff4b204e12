"""Where a run stands: all that is needed to go on with it, as one object and as the arrays of a checkpoint."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from trajens.records import Records
from trajens.sampling.adapted import Adapted
from trajens.sampling.replicas import Replicas
from trajens.sampling.sampler import State
from trajens.sampling.tally import Tally, empty_tally
from trajens.storage.checkpoint import Arrays

FORMAT = 2
"""Of checkpoints; another number means that a run can be read, but not continued."""

_STATE, _PENDING, _REPLICAS, _BURN_IN, _START = "state", "pending", "replicas", "burn_in", "start."


@dataclass(frozen=True)
class Standing:
    """A run at one moment.

    Attributes
    ----------
    state : State
    epoch : int
        Epochs done.
    marks : (records,)
        The epochs at which is recorded, those to come included.
    recorded : int
        Records made.
    pending : Tally or None
        What was counted since the last record.
    seconds : float
        Time spent sampling.
    adapted : Adapted
        What was adapted between records.
    begun : float
        Pairs per chain that the start took.
    replicas : Replicas or None
        Where paths have been, of a run that exchanges them.
    start : dict of arrays (chains, records)
        How the loss fell in the start, of a run that began with one.
    """

    state: State
    epoch: int
    marks: np.ndarray
    recorded: int = 0
    pending: Tally | None = None
    seconds: float = 0.0
    adapted: Adapted = field(default_factory=lambda: Adapted(0))
    begun: float = 0.0
    replicas: Replicas | None = None
    start: Records = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        """Whether the last mark has been reached and recorded."""
        return self.recorded >= len(self.marks)

    def packed(self) -> Arrays:
        """The arrays of a checkpoint."""
        return {
            **_packed(_STATE, self.state),
            **({} if self.pending is None else _packed(_PENDING, self.pending)),
            "is_pending": np.array(self.pending is not None),
            "epoch": np.array(self.epoch),
            "marks": self.marks,
            "recorded": np.array(self.recorded),
            "seconds": np.array(self.seconds),
            _BURN_IN: np.array(self.adapted.burn_in),
            "tilt": np.array(self.adapted.tilt),
            "ceiling": np.array(self.adapted.ceiling),
            **({} if self.adapted.counts is None else {"counts": self.adapted.counts}),
            **({} if self.adapted.levels is None else {"levels": self.adapted.levels}),
            **({} if self.replicas is None else _packed(_REPLICAS, self.replicas)),
            "begun": np.array(self.begun),
            **{_START + name: values for name, values in self.start.items()},
            "format": np.array(FORMAT),
        }


def unpacked(arrays: Arrays, like: State, replicas: Replicas | None = None) -> Standing:
    """What `packed` made arrays of; `like` is a state of the same shapes, and `replicas` are those of a new run."""
    pending = _pending(arrays) if bool(arrays["is_pending"]) else None
    return Standing(
        _unpacked(_STATE, like, arrays),
        epoch_of(arrays),
        arrays["marks"],
        recorded_of(arrays),
        pending,
        seconds_of(arrays),
        _adapted(arrays),
        float(arrays.get("begun", 0.0)),
        _replicas(arrays, replicas) if replicas is not None and _has(_REPLICAS, arrays) else None,
        start_records_of(arrays),
    )


def _replicas(arrays: Arrays, like: Replicas) -> Replicas:
    """Those that were saved; steps were not counted once."""
    none = {f"{_REPLICAS}.steps": np.zeros_like(like.tried)}
    found: Replicas = _unpacked(_REPLICAS, like, {**none, **arrays})
    return found


def format_of(arrays: Arrays) -> int:
    """The format of a checkpoint."""
    return int(arrays.get("format", 1))


def paths_of(arrays: Arrays) -> np.ndarray:
    """The paths (chains, tau, dim) in a checkpoint."""
    return arrays[f"{_STATE}.path"]


def with_paths(arrays: Arrays, paths: np.ndarray) -> Arrays:
    """A checkpoint with other paths, for instance in half precision."""
    return {**arrays, f"{_STATE}.path": paths}


def epoch_of(arrays: Arrays) -> int:
    """The epoch of a checkpoint."""
    return int(arrays["epoch"])


def recorded_of(arrays: Arrays) -> int:
    """Records made before a checkpoint."""
    return int(arrays["recorded"])


def seconds_of(arrays: Arrays) -> float:
    """Time spent sampling before a checkpoint."""
    return float(arrays["seconds"])


def burn_in_of(arrays: Arrays) -> int | None:
    """The epoch at which averages begin; None in checkpoints of before, whose runs were told."""
    return int(arrays[_BURN_IN]) if _BURN_IN in arrays else None


def start_records_of(arrays: Arrays) -> Records:
    """How the loss fell in the start; nothing in checkpoints of before, and where there was no start."""
    return {name.removeprefix(_START): values for name, values in arrays.items() if name.startswith(_START)}


def _adapted(arrays: Arrays) -> Adapted:
    tilt, ceiling = (float(arrays.get(name, usual)) for name, usual in (("tilt", 1.0), ("ceiling", math.inf)))
    return Adapted(burn_in_of(arrays) or 0, tilt, arrays.get("counts"), ceiling, arrays.get("levels"))


def _pending(arrays: Arrays) -> Tally:
    like = empty_tally(1).of_chains()
    # Those of before counted no steps.
    none = {f"{_PENDING}.steps": np.zeros((len(arrays[f"{_PENDING}.proposals"]), 2), np.int64)}
    found: Tally = _unpacked(_PENDING, like, {**none, **arrays})
    # Checkpoints of before may know fewer reasons.
    more = like.reasons.shape[1] - found.reasons.shape[1]
    return found._replace(reasons=np.pad(found.reasons, ((0, 0), (0, more))))  # type: ignore[arg-type]


def _has(prefix: str, arrays: Arrays) -> bool:
    return any(name.startswith(f"{prefix}.") for name in arrays)


def _packed(prefix: str, tree: Any) -> Arrays:
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {prefix + jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}


def _unpacked(prefix: str, like: Any, arrays: Arrays) -> Any:
    leaves, structure = jax.tree_util.tree_flatten_with_path(like)
    return jax.tree.unflatten(structure, [arrays[prefix + jax.tree_util.keystr(path)] for path, _ in leaves])
