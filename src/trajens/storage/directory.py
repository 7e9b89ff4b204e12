"""The directory of a run: arrays, tables and texts by name, read by anyone and written by one process at a time.

    config.toml       the options, resolved, where the run was started from the command line
    plan.json         the epochs at which is recorded, those to come included, with a checksum
    sessions.jsonl    one line for every start: versions, machine, command, first epoch
    records.csv       one line per record and chain, only ever appended to (records.bin for thousands of chains)
    history.bin       the path of every chain at every record, where that is kept
    checkpoint-*.npz  the last two
    start.npz         how far a start by evolution has come, until there is a checkpoint
    search            the run of a search for s, likewise
    lock              held by the process that writes

Checkpoints know the options, and sums over the records and paths that they count: what was changed is noticed. A
resumed run first cuts records and paths back to those its checkpoint knows of, and then writes the same again.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import time
import warnings
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from trajens.errors import InputError, StorageError, number, require
from trajens.files import Lock, append, flush, in_shell, remove_leftovers, storage_errors, write_atomically
from trajens.records import Records, num_records
from trajens.storage import checkpoint
from trajens.storage.checkpoint import Arrays, Sum, sum_in
from trajens.storage.options import as_json, read_toml, require_unchanged
from trajens.storage.plan import plan_text, read_plan
from trajens.storage.tables import RecordFile, Rows

CONFIG, PLAN, SESSIONS, HISTORY = "config.toml", "plan.json", "sessions.jsonl", "history.bin"
_LOCK, START, SEARCH = "lock", "start.npz", "search"
OPTIONS = "options"
"""Name of the options among the arrays of a checkpoint."""
_COUNTS = ("data_used", "data_measured")  # columns of records that never fall
CHECKPOINT_SECONDS = 5.0
_MIN_WAIT = 20.0
"""Time between two checkpoints, at least, in units of what the last one took: they cost a twentieth at most."""


class RunFiles:
    """What is in the directory of a run, as its newest checkpoint knows it; each file is read and summed once.

    Parameters
    ----------
    path : Path
    before : int, optional
        Read the newest checkpoint of an epoch before this one.
    falls_back : bool
        Go back to the checkpoint before, with a warning, where the newest is damaged: for those who go on with a run,
        which makes the same again. To a reader it would be another result.
    """

    def __init__(self, path: Path, before: int | None = None, falls_back: bool = False):
        self.path = path
        self._before, self._falls_back = before, falls_back
        self.record_file = RecordFile(path)
        self.history_rows = Rows(path / HISTORY)
        self._whole: dict[Path, bool] = {}

    @property
    def is_begun(self) -> bool:
        """Whether there are records or a checkpoint."""
        return self.record_file.exists() or self.has_checkpoint

    @property
    def has_checkpoint(self) -> bool:
        """Whether something was saved."""
        return bool(checkpoint.checkpoints(self.path))

    @cached_property
    def arrays(self) -> Arrays:
        """The newest whole checkpoint, as it is stored."""
        require(self.path.is_dir(), f"directory must be that of a run, got '{self.path}'; check the spelling.")
        arrays = checkpoint.load_newest(self.path, self._before, self._falls_back)
        require(arrays is not None, f"'{self.path}' must hold a checkpoint, got none; is it the directory of a run?")
        assert arrays is not None
        if not self._falls_back:
            self._require_newest(int(arrays["epoch"]))
        return arrays

    def _require_newest(self, epoch: int) -> None:
        """Refuse the older of the last two checkpoints where the newest is missing, as in a copy of a part."""
        # Where there is one, records that go on after it belong to another, unless somebody writes.
        if self._has_two() or not self.record_file.exists() or Lock(self.path / _LOCK).is_taken():
            return
        records = self.record_file.read()
        last = int(records["epoch"].max()) if records else 0
        # Whoever wrote a moment ago may have ended with another checkpoint.
        require(
            last <= epoch or self._has_two(),
            f"'{self.path}' must hold its newest checkpoint, got one of epoch {epoch} where records go on to {last}; "
            f"copy it again, or trajens resume {in_shell(self.path)} goes on from epoch {epoch} and makes it again.",
        )

    def _has_two(self) -> bool:
        return len(checkpoint.checkpoints(self.path)) > 1

    @cached_property
    def config(self) -> dict[str, Any] | None:
        """The options it was started with on the command line; None for a run made in Python."""
        file, known = self.path / CONFIG, self.noted_options
        if known is not None and not file.is_file():
            return dict(json.loads(known))
        found = read_toml(file) if file.is_file() else None
        if known is not None and found is not None:
            require_unchanged(known, found, file)
        return found

    @property
    def noted_options(self) -> str | None:
        """The options as the checkpoint has them; None where it has none."""
        if not self.has_checkpoint:
            return None
        return str(self.arrays[OPTIONS]) if OPTIONS in self.arrays else None

    @property
    def chains(self) -> int:
        """Independent chains."""
        return len(self.arrays["state.path"])

    @property
    def epoch(self) -> int:
        """The epoch the run has reached."""
        return int(self.arrays["epoch"])

    @property
    def recorded(self) -> int:
        """Records that belong to the state it is at."""
        return int(self.arrays["recorded"])

    @cached_property
    def marks(self) -> np.ndarray:
        """The epochs at which is recorded, those to come included."""
        plan = read_plan(self.path / PLAN)
        if not self.has_checkpoint:
            return plan
        # The plan knows of an extension before any checkpoint does.
        marks, recorded = self.arrays["marks"], self.recorded
        is_longer = len(plan) > len(marks) and bool((plan[:recorded] == marks[:recorded]).all())
        return plan if is_longer else marks

    @cached_property
    def records(self) -> Records:
        """All records as arrays (chains, records), which must be those that were written."""
        file = self.record_file.file
        self._require_whole(file)
        known = self.sum_of(file)
        if known is not None and known.length == 0:
            return {}
        return self.record_file.read(None if known is None else known.length)

    def records_until(self, recorded: int) -> Records:
        """The first `recorded` records, which must be there."""
        if recorded == 0:
            return {}
        file, chains = self.record_file.file, self.chains
        found = self.records["epoch"].shape if self.records else (chains, 0)
        require(
            found[0] == chains and found[1] >= recorded,
            f"'{file}' must hold the {recorded} records of {chains} chains that its checkpoint counts, got {found[1]}; "
            "restore it from a copy, or start again in a new directory.",
        )
        kept = {name: values[:, :recorded] for name, values in self.records.items()}
        is_planned = bool((kept["epoch"] == self.marks[:recorded]).all())
        is_growing = all(bool((np.diff(kept[name], axis=1) >= 0).all()) for name in _COUNTS if name in kept)
        require(
            is_planned and is_growing,
            f"'{file}' must hold records at the epochs of the plan, with counts that grow, got others; was it written "
            "by two processes? restore it from a copy, or start again in a new directory.",
        )
        return kept

    def has_records(self) -> bool:
        """Whether all records and paths that the checkpoint counts are there, as they were written."""
        if not self._is_whole(self.record_file.file):
            return False
        found = num_records(self.records) if self.recorded and self.record_file.exists() else 0
        return found >= self.recorded and self._is_whole(self.history_rows.file)

    def require_history(self) -> None:
        """Refuse where the paths that the checkpoint counts are not there as they were written."""
        self._require_whole(self.history_rows.file)

    @property
    def history(self) -> np.ndarray | None:
        """Paths at every record, (chains, records, tau, dim), mapped from the disk and checked once; None without."""
        if not self.history_rows.file.exists() and not self.has_checkpoint:
            return None
        self.require_history()
        return map_history(self.path, num_records(self.records))

    def sum_of(self, file: Path) -> Sum | None:
        """The sum of the records or paths that the checkpoint counts; None where it has none."""
        return sum_in(self.arrays, file.stem) if self.has_checkpoint else None

    def _is_whole(self, file: Path) -> bool:
        """Whether a file begins with what the checkpoint counts of it; read once."""
        if file not in self._whole:
            known = self.sum_of(file)
            self._whole[file] = known is None or known.is_of(file)
        return self._whole[file]

    def _require_whole(self, file: Path) -> None:
        if not self._is_whole(file):
            raise InputError(
                f"'{file}' must hold the {self.recorded} records of {self.chains} chains that its checkpoint counts, "
                "as they were written, got others or fewer; restore it from a copy, or start again in a new directory."
            )

    @cached_property
    def sessions(self) -> list[dict[str, Any]]:
        """Every start: versions, machine, command, first epoch; lines that are damaged are left out."""
        require(self.path.is_dir(), f"directory must be that of a run, got '{self.path}'; check the spelling.")
        file, found = self.path / SESSIONS, []
        for line in file.read_bytes().splitlines() if file.is_file() else ():
            with contextlib.suppress(ValueError, RecursionError):
                found.append(json.loads(line))
        return [session for session in found if isinstance(session, dict)]


def map_history(path: Path, recorded: int) -> np.ndarray | None:
    """The paths of the first `recorded` records, (chains, records, tau, dim), mapped from the disk; None without."""
    rows = Rows(path / HISTORY)
    return rows.read()[:recorded].swapaxes(0, 1) if recorded and rows.file.exists() else None


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
        self._restored: int | None = None
        self._seconds = number("checkpoint_seconds", checkpoint_seconds, "try 5", at_least=0.0)
        self._config = config
        self._lock = Lock(self.path / _LOCK)
        self._saved, self._cost = 0.0, 0.0
        self._options: Arrays = {}
        self._appended = 0
        self._sums: dict[Path, Sum] = {}
        self._lengths: dict[Path, int] = {}
        self._record_file, self._history_rows = RecordFile(self.path), Rows(self.path / HISTORY)

    @classmethod
    def of(cls, out: Any) -> RunDirectory | None:
        """The directory that `out` names or is; None where there is none."""
        require(
            out is None or isinstance(out, (str, Path, RunDirectory)),
            f"out must be a path or a RunDirectory, got {out!r}; give a name such as runs/a.",
        )
        return cls(out) if isinstance(out, (str, Path)) else out

    def again(self) -> RunDirectory:
        """The same directory, to go on with its run."""
        return RunDirectory(self.path, True, self._seconds, None)

    @cached_property
    def files(self) -> RunFiles:
        """The run that was there when it was first asked for."""
        return RunFiles(self.path, falls_back=True)

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
            remove_leftovers(self.path, CONFIG, PLAN, START, checkpoint.PATTERN)
            # What was read before the lock was taken may have changed since.
            self.__dict__.pop("files", None)
            self._require_free()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _require_free(self) -> None:
        """Refuse to begin a run where there is one, or anything else, and to go on with one that was cut off."""
        files = self.files
        if self.resume:
            require(
                files.has_checkpoint or not (files.record_file.exists() and files.records),
                f"'{self.path}' must hold a checkpoint beside its records to be continued, got none; restore one from "
                "a copy, or start again in a new directory.",
            )
            return
        if files.is_begun:
            raise InputError(
                f"out must be a new or empty directory, got '{self.path}', which holds a run; continue it with "
                f"trajens resume {in_shell(self.path)} (resume=True in Python) or choose another name."
            )
        others = sorted(file.name for file in self.path.iterdir() if file.name != _LOCK)
        require(
            not others,
            f"out must be a new or empty directory, got '{self.path}' with {', '.join(others[:3])}"
            f"{', ..' if len(others) > 3 else ''} in it; choose another name.",
        )

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def restore(self) -> RunFiles:
        """What a run goes on from: its newest state whose records and paths are whole."""
        files = self.files
        if not files.has_records() and len(checkpoint.checkpoints(self.path)) > 1:
            older = RunFiles(self.path, before=files.epoch, falls_back=True)
            # Never to the beginning: that would be another run, and all that was sampled lost.
            if older.recorded > 0 and older.has_records():
                warnings.warn(
                    f"records or paths in '{self.path}' are cut off or damaged; going back from epoch {files.epoch} "
                    f"to {older.epoch}.",
                    stacklevel=5,
                )
                self.files = older
        self.files.require_history()
        self._restored = self.files.epoch
        return self.files

    def keep_start(self, arrays: Arrays) -> None:
        """Write down how far a start has come, before there is a run; the first checkpoint takes its place."""
        self._require_lock()
        self._write_config()
        checkpoint.write(self.path / START, arrays)
        self._saved = time.monotonic()

    def of_search(self) -> RunDirectory:
        """The directory of the search that this run begins with, or goes on with; the first checkpoint removes it."""
        self._require_lock()
        self._write_config()
        return RunDirectory(self.path / SEARCH, self.resume, self._seconds)

    def _write_config(self) -> None:
        if self._config is not None and not (self.path / CONFIG).is_file():
            write_atomically(self.path / CONFIG, self._config.encode())

    def load_start(self) -> Arrays | None:
        """How far the start had come that was written down; None where there is none."""
        file = self.path / START
        if not self.resume or not file.is_file():
            return None
        try:
            return checkpoint.load(file)
        except Exception as error:  # whatever an archive of arbitrary bytes makes its reader raise
            warnings.warn(f"the start in '{file}' is damaged ({error}); it is made again.", stacklevel=2)
            return None

    def begin(self, epoch: int, recorded: int, marks: np.ndarray, chains: int, session: dict[str, Any]) -> bool:
        """Note who goes on from where, forget what comes after, and return whether that must be saved now."""
        files = self.files
        if self.resume and files.has_checkpoint:
            last = files.epoch if self._restored is None else self._restored
            require(
                last == epoch,
                f"a run must go on from its last state, got epoch {epoch} where '{self.path}' is at {last}; resume it.",
            )
            checkpoint.set_aside_newer(self.path, last)
        if self._config is not None and not (self.resume and files.config is not None):
            write_atomically(self.path / CONFIG, self._config.encode())
        options, file = files.noted_options, self.path / CONFIG
        if options is None and file.is_file():
            options = as_json(read_toml(file))
        self._options = {} if options is None else {OPTIONS: np.array(options)}
        write_atomically(self.path / PLAN, plan_text(marks).encode())
        with storage_errors(self.path):
            self._record_file.cut(recorded, chains)
            self._history_rows.cut(recorded)
            append(self.path / SESSIONS, (json.dumps({"epoch": epoch, **session}) + "\n").encode())
        self._appended = recorded
        self._sums = {file: files.sum_of(file) or Sum() for file in self._growing()}
        self._saved, self._cost = time.monotonic(), 0.0
        # From here on a directory without a checkpoint has lost it, and one that knows less has lost the extension.
        must_save = not files.has_checkpoint or len(marks) > len(files.arrays["marks"])
        # What was read is no longer what is there, and may be large.
        self.__dict__.pop("files", None)
        return must_save

    def _growing(self) -> tuple[Path, Path]:
        return self._record_file.file, self.path / HISTORY

    def append(self, record: Records, paths: np.ndarray | None = None) -> None:
        """Add one record (chains, 1), and the paths (chains, tau, dim) that belong to it."""
        self._require_lock()
        # First of all: an interrupt may come anywhere below.
        self._lengths, self._appended = {file: _size(file) for file in self._growing()}, self._appended + 1
        if paths is not None:
            with storage_errors(self.path / HISTORY):
                self._history_rows.append(paths)
        self._record_file.append(record)

    def is_due(self) -> bool:
        """Whether it is time for a checkpoint."""
        # 0 asks for one after every block, whatever it costs.
        wait = max(self._seconds, _MIN_WAIT * self._cost) if self._seconds > 0 else 0.0
        return time.monotonic() - self._saved >= wait

    def save(self, epoch: int, recorded: int, make: Callable[[], Arrays], is_first: bool = False) -> None:
        """Write the checkpoint of an epoch; the `recorded` records and paths it counts are on the disk before it."""
        self._require_lock()
        begin = time.monotonic()
        for file in filter(Path.exists, self._growing()):
            with storage_errors(file):
                flush(file)
        checkpoint.save(self.path, epoch, {**make(), **self._options, **self._summed(recorded)})
        (self.path / START).unlink(missing_ok=True)
        shutil.rmtree(self.path / SEARCH, ignore_errors=True)
        self._saved = time.monotonic()
        # The first one compiles, and says nothing of what others take.
        self._cost = 0.0 if is_first else self._saved - begin

    def _summed(self, recorded: int) -> Arrays:
        """Sums of the files that grow, up to the last of `recorded` records."""
        packed: Arrays = {}
        for file in self._growing():
            # After an interrupt there may be a record, or a part of one, that the state does not count.
            end = _size(file) if self._appended == recorded else self._lengths.get(file, 0)
            with storage_errors(file):
                self._sums[file] = self._sums.get(file, Sum()).grown(file, end)
            packed |= self._sums[file].packed(file.stem)
        return packed

    def _require_lock(self) -> None:
        if not self.path.is_dir():
            raise StorageError(
                f"'{self.path}' must stay while a run writes, got it removed, and what was saved there with it; "
                "restore it from a copy and resume it, or start again."
            )
        if not self._lock.is_held():
            raise StorageError(
                f"'{self.path / _LOCK}' must stay as it is while a run writes, got it removed or replaced, so that "
                "another process could write here too; what was saved before is intact, resume it."
            )


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0
