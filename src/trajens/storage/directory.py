"""The directory of a run while it is written: what was asked for, records, paths, checkpoints, one process at a time.

    config.toml       the options, resolved, where the run was started from the command line
    plan.json         the epochs at which is recorded, those to come included, with a checksum
    sessions.jsonl    one line for every start: versions, machine, command, first epoch
    records.csv       one line per record and chain, only ever appended to (records.bin for thousands of chains)
    history.bin       the path of every chain at every record, where that is kept
    checkpoint-*.npz  the last two
    start.npz         how far a start by evolution has come, until there is a checkpoint
    lock              held by the process that writes

Checkpoints know the options, and sums over the records and paths that they count: what was changed is noticed.

A resumed run first cuts records and paths back to those its checkpoint knows of, and then writes the same again.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from trajens.errors import InputError, StorageError, number, require
from trajens.files import Lock, append, flush, remove_leftovers, storage_errors, write_atomically
from trajens.records import Records
from trajens.sampling.replicas import Replicas
from trajens.sampling.sampler import State
from trajens.storage import checkpoint
from trajens.storage.identity import machine, require_same
from trajens.storage.standing import Standing, paths_of
from trajens.storage.stored import HISTORY, IDENTITY, OPTIONS, SESSIONS, StoredRun
from trajens.storage.sums import Sum
from trajens.storage.witness import Witness
from trajens.storage.written import CONFIG, PLAN, noted, plan_text, read_toml

_LOCK, START = "lock", "start.npz"
_MADE_WITH = ("jax", "numpy", "python", "system", "devices", "loss_kernel")
CHECKPOINT_SECONDS = 5.0
_COST = 20.0
"""Time between two checkpoints, at least, in units of what the last one took: they cost a twentieth at most."""


class RunDirectory:
    """Where a run keeps what must not be lost; used as a context it is locked.

    Parameters
    ----------
    path : str or Path
        Made if it does not exist.
    resume : bool
        Go on with the run that is there. A new run is refused where there is one.
    checkpoint_seconds : float
        Time between two checkpoints, longer where they are large; written between blocks of about half a second.
    config : str, optional
        Text of ``config.toml``.
    """

    def __init__(
        self,
        path: str | Path,
        resume: bool = False,
        checkpoint_seconds: float = CHECKPOINT_SECONDS,
        config: str | None = None,
    ):
        require(str(path).strip() != "", "out must name a directory, got an empty text; give a name such as runs/a.")
        self.path = Path(path)
        self.resume = resume
        self._epoch: int | None = None
        self._seconds = number("checkpoint_seconds", checkpoint_seconds, "try 5", at_least=0.0)
        self._config = config
        self._lock = Lock(self.path / _LOCK)
        self._saved, self._cost = 0.0, 0.0
        self._noted: checkpoint.Arrays = {}
        self._witness: Witness | None = None
        self._appended = 0
        self._sums: dict[Path, Sum] = {}
        self._lengths: dict[Path, int] = {}

    def again(self) -> RunDirectory:
        """The same directory, to go on with its run."""
        return RunDirectory(self.path, True, self._seconds, None)

    @property
    def history(self) -> np.ndarray | None:
        """Paths at every record, mapped from the disk; this process has written or checked them."""
        return self.stored.mapped_history()

    @property
    def stored(self) -> StoredRun:
        """The run that is there."""
        return StoredRun(self.path, falls_back=True)

    def __enter__(self) -> RunDirectory:
        with storage_errors(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            is_free = self._lock.take()
        require(
            is_free,
            f"'{self.path}' must be used by one process at a time, got a second one; wait for the other or choose "
            "another directory.",
        )
        try:
            remove_leftovers(self.path, CONFIG, PLAN, checkpoint.PATTERN)
            self._require_free()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _require_free(self) -> None:
        """Refuse to begin a run where there is one, or anything else, and to go on with one that was cut off."""
        stored = self.stored
        if self.resume:
            require(
                stored.has_checkpoint or not (stored.record_file.exists() and stored.records),
                f"'{self.path}' must hold a checkpoint beside its records to be continued, got none; restore one from "
                "a copy, or start again in a new directory.",
            )
            return
        if stored.is_begun:
            raise InputError(
                f"out must be a new or empty directory, got '{self.path}', which holds a run; continue it with "
                f"'trajens resume {self.path}' (RunDirectory(path, resume=True) in Python) or choose another name."
            )
        others = sorted(file.name for file in self.path.iterdir() if file.name != _LOCK)
        require(
            not others,
            f"out must be a new or empty directory, got '{self.path}' with {', '.join(others[:3])}"
            f"{', ..' if len(others) > 3 else ''} in it; choose another name.",
        )

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def restore(
        self,
        like: State,
        identity: Callable[[], dict[str, Any]],
        witness: Witness | None = None,
        replicas: Replicas | None = None,
    ) -> tuple[Standing, Records] | None:
        """The run as its newest whole checkpoint knows it, or None if there is none yet.

        `like` is a state of the same shapes, `replicas` likewise where paths are exchanged; `identity()` and the
        network of `witness` must be what the run was begun with.
        """
        stored = self.stored
        if not stored.has_checkpoint:
            return None
        stored.require_same(identity())
        if witness is not None:
            stored.require_network(witness.network)
        if not stored.has_records() and len(checkpoint.checkpoints(self.path)) > 1:
            older = StoredRun(self.path, before=stored.epoch, falls_back=True)
            # Never to the beginning: that would be another run, and all that was sampled lost.
            if older.recorded > 0 and older.has_records():
                warnings.warn(
                    f"records or paths in '{self.path}' are cut off or damaged; going back from epoch {stored.epoch} "
                    f"to {older.epoch}.",
                    stacklevel=4,
                )
                stored = older
        stored.require_history()
        _warn_of_another_machine(stored)
        standing = stored.standing(like, replicas)
        self._epoch = standing.epoch
        return standing, stored.records_until(standing.recorded)

    def keep_start(self, arrays: checkpoint.Arrays, identity: dict[str, Any]) -> None:
        """Write down how far a start has come, before there is a run; the first checkpoint takes its place."""
        self._require_lock()
        if self._config is not None and not (self.path / CONFIG).is_file():
            write_atomically(self.path / CONFIG, self._config.encode())
        checkpoint.write(self.path / START, {**arrays, IDENTITY: np.array(json.dumps(identity))})
        self._saved = time.monotonic()

    def kept_start(self, identity: dict[str, Any]) -> checkpoint.Arrays | None:
        """How far the start had come that was written down, of a run with this identity; None where there is none."""
        file = self.path / START
        if not self.resume or not file.is_file():
            return None
        try:
            arrays = checkpoint.load(file)
        except Exception as error:  # whatever an archive of arbitrary bytes makes its reader raise
            warnings.warn(f"the start in '{file}' is damaged ({error}); it is made again.", stacklevel=2)
            return None
        require_same(json.loads(str(arrays.pop(IDENTITY))), identity, self.path)
        return arrays

    def begin(self, standing: Standing, identity: dict[str, Any], witness: Witness | None = None) -> None:
        """Note who goes on from where, and forget what comes after."""
        stored = self.stored
        if self.resume and stored.has_checkpoint:
            last = stored.epoch if self._epoch is None else self._epoch
            require(
                last == standing.epoch,
                f"a run must go on from its last state, got epoch {standing.epoch} where '{self.path}' is at "
                f"{last}; resume the directory instead.",
            )
            checkpoint.set_aside_newer(self.path, last)
            stored = self.stored
        if self._config is not None and not (self.resume and stored.config is not None):
            write_atomically(self.path / CONFIG, self._config.encode())
        self._note(stored, identity, witness)
        write_atomically(self.path / PLAN, plan_text(standing.marks).encode())
        session = {"epoch": standing.epoch, "seed": identity.get("seed"), **machine()}
        with storage_errors(self.path):
            stored.record_file.cut(standing.recorded, int(standing.state.path.shape[0]))
            stored.history_rows.cut(standing.recorded)
            append(self.path / SESSIONS, (json.dumps(session) + "\n").encode())
        self._appended = standing.recorded
        self._sums = {file: stored.sum_of(file) or Sum() for file in self._growing()}
        if not stored.has_checkpoint or len(standing.marks) > len(stored.arrays["marks"]):
            # From here on a directory without one has lost it, and one that knows less has lost the extension.
            self.save(standing)
            (self.path / START).unlink(missing_ok=True)
        # The first one compiled the witness, and says nothing of what others take.
        self._saved, self._cost = time.monotonic(), 0.0

    def _note(self, stored: StoredRun, identity: dict[str, Any], witness: Witness | None) -> None:
        """What every checkpoint holds of the run."""
        options, file = stored.noted_options, self.path / CONFIG
        if options is None and file.is_file():
            options = noted(read_toml(file))
        self._noted = {IDENTITY: np.array(json.dumps(identity))}
        self._noted |= {} if options is None else {OPTIONS: np.array(options)}
        self._witness = witness

    def _growing(self) -> tuple[Path, Path]:
        """The files that are appended to."""
        return self.stored.record_file.file, self.path / HISTORY

    def append(self, record: Records, paths: np.ndarray | None = None) -> None:
        """Add one record (chains, 1), and the paths (chains, tau, dim) that belong to it."""
        self._require_lock()
        # First of all: an interrupt may come anywhere below.
        self._lengths, self._appended = {file: _size(file) for file in self._growing()}, self._appended + 1
        if paths is not None:
            with storage_errors(self.path / HISTORY):
                self.stored.history_rows.append(paths)
        self.stored.record_file.append(record)

    def is_due(self) -> bool:
        """Whether it is time for a checkpoint."""
        # 0 asks for one after every block, whatever it costs.
        wait = max(self._seconds, _COST * self._cost) if self._seconds > 0 else 0.0
        return time.monotonic() - self._saved >= wait

    def save(self, standing: Standing) -> None:
        """Write a checkpoint; the records and paths it counts are on the disk before it."""
        self._require_lock()
        begin = time.monotonic()
        self.stored.record_file.flush()
        if (self.path / HISTORY).exists():
            with storage_errors(self.path / HISTORY):
                flush(self.path / HISTORY)
        arrays = {**standing.packed(), **self._noted, **self._summed(standing.recorded)}
        if self._witness is not None:
            arrays |= self._witness.arrays(paths_of(arrays))
        checkpoint.save(self.path, standing.epoch, arrays)
        self._saved = time.monotonic()
        self._cost = self._saved - begin

    def _summed(self, recorded: int) -> checkpoint.Arrays:
        """Sums of the files that grow, up to the last of `recorded` records."""
        packed: checkpoint.Arrays = {}
        for file in self._growing():
            # After an interrupt there may be a record, or a part of one, that the standing does not count.
            end = _size(file) if self._appended == recorded else self._lengths.get(file, 0)
            with storage_errors(file):
                self._sums[file] = self._sums.get(file, Sum()).grown(file, end)
            packed |= self._sums[file].packed(file.stem)
        return packed

    def _require_lock(self) -> None:
        if not self._lock.is_held():
            raise StorageError(
                f"'{self.path / _LOCK}' must stay as it is while a run writes, got it removed or replaced, so that "
                "another process could write here too; what was saved before is intact, resume it."
            )


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def _warn_of_another_machine(stored: StoredRun) -> None:
    """Say so where results may differ in their last bits from those of a run that was never interrupted."""
    before, now = (stored.sessions or [{}])[-1], machine()
    changed = [
        f"{name} {before[name]} (now {now[name]})" for name in _MADE_WITH if before.get(name, now[name]) != now[name]
    ]
    if changed:
        warnings.warn(
            f"'{stored.path}' was last run with {', '.join(changed)}: what follows may differ in the last bits from a "
            "run that was never interrupted.",
            stacklevel=5,
        )
