"""The state of a run: all that its next decision depends on, as one object and as the arrays of a checkpoint."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

import jax
import numpy as np

from trajens.records import Records
from trajens.run.search import no_search
from trajens.sampling.exchange import Replicas
from trajens.sampling.kernel import State
from trajens.sampling.lanes import Tally, no_tally, whole_steps
from trajens.sampling.program import Control
from trajens.storage.checkpoint import Arrays

FORMAT = 3
"""Of checkpoints; runs of another one can be read, but not continued."""
IDENTITY = "identity"
"""Name of the description of the run among the arrays of a checkpoint."""


class Spent(NamedTuple):
    """Evaluations so far, examples times models per chain: (chains,) whole numbers.

    Attributes
    ----------
    decided, measured, audited : (chains,)
        For decisions (those of the start included), for measured losses and example weights, and for audits.
    steps : (3, chains)
        Steps that the losses of the same three took, where they count some.
    """

    decided: np.ndarray
    measured: np.ndarray
    audited: np.ndarray
    steps: np.ndarray

    @classmethod
    def on_start(cls, chains: int, pairs: float = 0.0) -> Spent:
        """Evaluations after a start that took `pairs` pairs of losses per chain."""
        zero = np.zeros(chains, np.int64)
        return cls(zero + round(pairs), zero, zero, np.zeros((3, chains), np.int64))

    def plus(self, tally: Tally, measured: int, measured_steps: Any, audited: int = 0, audited_steps: Any = 0) -> Spent:
        """Evaluations after decisions, a measurement and an audit more."""
        steps = np.stack(np.broadcast_arrays(whole_steps(tally.steps), measured_steps, audited_steps)).astype(np.int64)
        return Spent(
            self.decided + np.asarray(tally.evaluations, np.int64),
            self.measured + measured,
            self.audited + audited,
            self.steps + steps,
        )


@dataclass(frozen=True)
class RunState:
    """A run at one moment.

    Attributes
    ----------
    state : State
        What the sampler goes on from.
    control : Control
        Tilt, end of burn-in, copies of examples and levels of s as they stand.
    marks : (records,)
        The epochs at which is recorded, those to come included.
    tally : Tally
        What was counted since the last record.
    spent : Spent
        Evaluations up to the last record.
    epoch : int
        Epochs done.
    recorded : int
        Records made.
    last_audit : int
        Epoch of the last audit that has found something, -1 before.
    start_pairs : float
        Pairs of losses per chain that the start took.
    reference_loss : float
        Loss of a trained start, above which paths should not rise.
    settled_pairs : float
        Pairs of losses per chain after which s was first where it ends; infinite before.
    clock_pairs : float
        Pairs of losses per chain that a budget of seconds has come to by now; NaN without one.
    search : (2, bins)
        What is known of the s that is searched for, see `trajens.run.search`.
    seconds : float
        Time spent sampling.
    replicas : Replicas or None
        Where paths have been, of a run that exchanges them.
    start : dict of arrays (chains, records)
        How the loss fell in the start, of a run that began with one.
    is_start_common : bool
        Whether several chains began at one model.
    """

    state: State
    control: Control
    marks: np.ndarray
    tally: Tally
    spent: Spent
    epoch: int = 0
    recorded: int = 0
    last_audit: int = -1
    start_pairs: float = 0.0
    reference_loss: float = math.inf
    settled_pairs: float = math.inf
    clock_pairs: float = math.nan
    search: np.ndarray = field(default_factory=no_search)
    seconds: float = 0.0
    replicas: Replicas | None = None
    start: Records = field(default_factory=dict)
    is_start_common: bool = False

    @property
    def is_complete(self) -> bool:
        """Whether the last mark has been reached and recorded."""
        return self.recorded >= len(self.marks)

    @property
    def is_at_last_mark(self) -> bool:
        """Whether the next record is the last of those planned so far."""
        return self.recorded + 1 == len(self.marks)

    @property
    def pairs_used(self) -> float:
        """Pairs of losses per chain so far, those of the start included."""
        return float(np.mean(self.tally.evaluations + self.spent.decided))

    @property
    def recorded_after_burn_in(self) -> int:
        """Number of records after burn-in."""
        return int((self.marks[: self.recorded] > self.control.burn_in).sum())


def first_run_state(state: State, control: Control, marks: np.ndarray, start_pairs: float = 0.0) -> RunState:
    """The state of a run before its first epoch."""
    chains = len(state.path)
    spent = Spent.on_start(chains, start_pairs)
    return RunState(state, control, marks, no_tally(chains), spent, start_pairs=start_pairs)


def pack(run: RunState) -> Arrays:
    """The arrays of a checkpoint, named by where they stand in the state of the run."""
    named = {one.name: getattr(run, one.name) for one in fields(run)}
    leaves, _ = jax.tree_util.tree_flatten_with_path(named)
    return {**{_name(path): np.asarray(leaf) for path, leaf in leaves}, "format": np.array(FORMAT)}


def unpack(arrays: Arrays, like: RunState, marks: np.ndarray) -> RunState:
    """What `pack` made arrays of; `like` is a state of such a run at its beginning, `marks` are those known by now."""
    copies, levels = (arrays.get(f"control.{name}") for name in ("copies", "levels"))
    like = replace(like, control=like.control._replace(copies=copies, levels=levels), start=start_in(arrays))
    if not any(name.startswith("replicas.") for name in arrays):
        like = replace(like, replicas=None)
    named = {one.name: getattr(like, one.name) for one in fields(like)}
    leaves, structure = jax.tree_util.tree_flatten_with_path(named)
    known: Arrays = {**_LATER, **arrays}
    found = [_like(leaf, known[_name(path)]) for path, leaf in leaves]
    return replace(RunState(**jax.tree.unflatten(structure, found)), marks=marks)


_LATER: Arrays = {"is_start_common": np.array(False), "search": no_search()}
"""What checkpoints of this format had not from the beginning."""


def is_common(paths: Any) -> bool:
    """Whether several chains have the same first model; `paths` (chains, tau, dim) are those of a start."""
    first = np.asarray(paths)[:, 0]
    return len(first) > 1 and bool((first == first[0]).all())


def _like(leaf: Any, array: np.ndarray) -> Any:
    """An array as what stood there: numbers of Python stay numbers of Python."""
    return type(leaf)(array) if isinstance(leaf, (int, float)) else array


def _name(path: Any) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".")


def start_in(arrays: Arrays) -> Records:
    """How the loss fell in the start, as a checkpoint has it; nothing where there was no start."""
    return {name.removeprefix("start."): values for name, values in arrays.items() if name.startswith("start.")}
