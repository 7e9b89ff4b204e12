"""The directory of a run: what was asked for, records, checkpoints, and one process at a time.

    config.toml       the options, resolved, where the run was started from the command line
    plan.json         the epochs at which is recorded, those to come included
    sessions.jsonl    one line for every start: versions, machine, command, first epoch
    records.csv       one line per record and chain, only ever appended to
    checkpoint-*.npz  the last two
    lock              held by the process that writes

A resumed run first cuts the records back to those its checkpoint knows of, and then writes the same lines again.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import sys
import time
import zlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from trajens import checkpoint
from trajens.errors import InputError, number, require
from trajens.kernels import library
from trajens.records import Records
from trajens.sampler import State
from trajens.settings import Settings
from trajens.tally import Tally, empty_tally
from trajens.target import Target


class Snapshot(NamedTuple):
    """A run at one moment: `recorded` of its `marks` are in the records, `pending` was counted since."""

    state: State
    epoch: int
    marks: np.ndarray
    recorded: int
    pending: Tally | None
    seconds: float


class RunDirectory:
    """Where a run keeps what must not be lost; used as a context it is locked.

    Parameters
    ----------
    path : str or Path
        Made if it does not exist.
    resume : bool
        Go on with the run that is there. A new run is refused where there is one.
    checkpoint_seconds : float
        Time between two checkpoints; they are written between blocks of about half a second.
    config : str, optional
        Text of ``config.toml``.
    """

    def __init__(
        self,
        path: str | Path,
        resume: bool = False,
        checkpoint_seconds: float = 5.0,
        config: str | None = None,
    ):
        self.path = Path(path)
        self.resume = resume
        self._seconds = number("checkpoint_seconds", checkpoint_seconds, "try 5", at_least=0.0)
        self._config = config
        self._lock: int | None = None
        self._saved = 0.0
        self._identity = "{}"
        self._epoch: int | None = None

    def again(self) -> RunDirectory:
        """The same directory, to go on with its run."""
        return RunDirectory(self.path, True, self._seconds, None)

    def __enter__(self) -> RunDirectory:
        with checkpoint.storage_errors(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise InputError(
                f"'{self.path}' must be used by one process at a time, got a second one; wait for the other or choose "
                "another directory."
            ) from None
        if not self.resume and (self._records.exists() or checkpoint.checkpoints(self.path)):
            self.__exit__()
            raise InputError(
                f"out must be a new or empty directory, got '{self.path}', which holds a run; continue it with "
                f"'trajens resume {self.path}' (RunDirectory(path, resume=True) in Python) or choose another name."
            )
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            os.close(self._lock)
        self._lock = None

    def restore(self, like: State, identity: dict[str, Any]) -> tuple[Snapshot, Records] | None:
        """The run as its newest whole checkpoint knows it, or None if there is none yet.

        `like` is a state of the same shapes; `identity` must be what the run was begun with.
        """
        arrays = checkpoint.load_newest(self.path)
        if arrays is None:
            return None
        self._epoch = int(arrays["epoch"])
        checkpoint.set_aside_newer(self.path, self._epoch)
        _require_same(json.loads(str(arrays["identity"])), identity, self.path)
        is_single = arrays["state.path"].dtype == np.float32
        require(is_single, f"'{self.path}' must hold paths in single precision, got others; start a new run from them.")
        chains = like.path.shape[0]
        snapshot = Snapshot(
            _unpacked("state", like, arrays),
            self._epoch,
            self._planned(arrays["marks"], int(arrays["recorded"])),
            int(arrays["recorded"]),
            _unpacked("pending", empty_tally(chains), arrays) if bool(arrays["is_pending"]) else None,
            float(arrays["seconds"]),
        )
        return snapshot, self._read(snapshot.recorded, chains)

    def begin(self, snapshot: Snapshot, identity: dict[str, Any]) -> None:
        """Note who goes on from where, and forget records that come after."""
        self._identity = json.dumps(identity)
        self._require_newest(snapshot.epoch)
        if self._config is not None and not (self.resume and (self.path / "config.toml").exists()):
            checkpoint.write_atomically(self.path / "config.toml", self._config.encode())
        checkpoint.write_atomically(self.path / "plan.json", json.dumps(snapshot.marks.tolist()).encode())
        session = {"epoch": snapshot.epoch, "seed": identity.get("seed"), **machine()}
        with checkpoint.storage_errors(self.path):
            self._cut(snapshot.recorded * int(snapshot.state.path.shape[0]))
            _append(self.path / "sessions.jsonl", json.dumps(session) + "\n")
        self._saved = time.monotonic()

    def append(self, record: Records) -> None:
        """Add the lines of one record, all in one write."""
        names = list(record)
        lines = "" if self._records.exists() and self._records.stat().st_size else f"chain,{','.join(names)}\n"
        for chain in range(len(record["epoch"])):
            lines += ",".join([str(chain), *(repr(record[name][chain, 0].item()) for name in names)]) + "\n"
        with checkpoint.storage_errors(self._records):
            _append(self._records, lines)

    def is_due(self) -> bool:
        """Whether it is time for a checkpoint."""
        return time.monotonic() - self._saved >= self._seconds

    def save(self, snapshot: Snapshot) -> None:
        """Write a checkpoint; the records it counts are on the disk before it."""
        with checkpoint.storage_errors(self._records):
            if self._records.exists():
                with self._records.open("rb") as stream:
                    os.fsync(stream.fileno())
        is_pending = snapshot.pending is not None
        arrays = {
            **_packed("state", snapshot.state),
            **(_packed("pending", snapshot.pending) if is_pending else {}),
            "is_pending": np.array(is_pending),
            "epoch": np.array(snapshot.epoch),
            "marks": snapshot.marks,
            "recorded": np.array(snapshot.recorded),
            "seconds": np.array(snapshot.seconds),
            "identity": np.array(self._identity),
        }
        checkpoint.save(self.path, snapshot.epoch, arrays)
        self._saved = time.monotonic()

    def burn_in(self) -> int | None:
        """The burn-in the run there was begun with."""
        arrays = checkpoint.load_newest(self.path) if self.resume else None
        return None if arrays is None else int(json.loads(str(arrays["identity"]))["burn_in"])

    def _planned(self, marks: np.ndarray, recorded: int) -> np.ndarray:
        """The marks of the plan, which knows of an extension before any checkpoint does."""
        plan = read_plan(self.path)
        is_longer = len(plan) > len(marks) and bool((plan[:recorded] == marks[:recorded]).all())
        return plan if is_longer else marks

    def _require_newest(self, epoch: int) -> None:
        """Refuse to go on from a state that the run in the directory has left behind."""
        if self.resume and self._epoch is None:
            arrays = checkpoint.load_newest(self.path)
            self._epoch = None if arrays is None else int(arrays["epoch"])
        require(
            self._epoch is None or self._epoch == epoch,
            f"a run must go on from its last state, got epoch {epoch} where '{self.path}' is at {self._epoch}; resume "
            "the directory instead.",
        )

    @property
    def _records(self) -> Path:
        return self.path / "records.csv"

    def _read(self, recorded: int, chains: int) -> Records:
        if recorded == 0:
            return {}
        records = read_records(self._records)
        found = records["epoch"].shape if records else (chains, 0)
        require(
            found[0] == chains and found[1] >= recorded,
            f"'{self._records}' must hold the {recorded} records of {chains} chains that its checkpoint counts, got "
            f"{found[1]}; restore it from a copy, or start again in a new directory.",
        )
        return {name: values[:, :recorded] for name, values in records.items()}

    def _cut(self, rows: int) -> None:
        """Leave the header and `rows` lines of the records."""
        if not self._records.exists():
            return
        lines = self._records.read_bytes().splitlines(keepends=True)
        kept = sum(len(line) for line in lines[: rows + 1]) if rows else 0
        with self._records.open("r+b") as stream:
            stream.truncate(kept)
            os.fsync(stream.fileno())


def read_records(file: str | Path) -> Records:
    """Records as arrays (chains, records); a line or a record that was cut off at the end is left out."""
    file = Path(file)
    require(file.is_file(), f"records must be in a file that exists, got '{file}'; is it in the directory of a run?")
    try:
        lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
        rows = [line.strip().split(",") for line in lines[1:] if line.endswith("\n")]
        chains = 1 + max((int(row[0]) for row in rows), default=-1)
        if chains == 0:
            return {}
        rows = rows[: len(rows) // chains * chains]
        names = lines[0].strip().split(",")
        columns = {name: [_number(row[i]) for row in rows] for i, name in enumerate(names)}
        is_whole = columns["chain"] == list(range(chains)) * (len(rows) // chains) and "epoch" in columns
        require(is_whole, f"'{file}' must hold one line per record and chain; restore it from a copy.")
    except (UnicodeDecodeError, ValueError, IndexError, KeyError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"'{file}' must be the records of a run, got {error}; restore it from a copy.") from None
    return {name: np.array(values).reshape(-1, chains).T for name, values in columns.items() if name != "chain"}


def read_plan(path: str | Path) -> np.ndarray:
    """The epochs at which the run in a directory is recorded, to the last one it is meant to reach."""
    try:
        return np.array(json.loads((Path(path) / "plan.json").read_text()), np.int64)
    except (OSError, ValueError, TypeError):
        return np.zeros(0, np.int64)


def last_paths(path: str | Path) -> np.ndarray:
    """The paths (chains, tau, dim) in the newest checkpoint of a run."""
    folder = Path(path)
    require(folder.is_dir(), f"directory must be that of a run, got '{folder}'; check the spelling.")
    arrays = checkpoint.load_newest(folder)
    require(arrays is not None, f"'{folder}' must hold a checkpoint, got none; is it the directory of a run?")
    assert arrays is not None
    return arrays["state.path"].astype(np.float32)


def last_epoch(path: str | Path) -> int:
    """The epoch the run in a directory is meant to reach; 0 if it was not begun."""
    return int(max(read_plan(path), default=0))


def identity_of(target: Target, settings: Settings) -> dict[str, Any]:
    """What must not change when a run is resumed."""
    schedule = target.schedule
    # A function of the user's own has no name that would be the same in another process.
    is_named = schedule is None or " at 0x" not in repr(schedule)
    data = 0
    for leaf in jax.tree.leaves(target.problem.data):
        data = zlib.crc32(np.ascontiguousarray(leaf).data, data)
    return {
        "tau": target.tau,
        "sigma": target.sigma,
        "s": target.s_values.tolist(),
        "schedule of s": repr(schedule) if is_named else "a function",
        "prior": target.prior,
        "parameters": target.problem.dim,
        "examples": target.problem.size,
        "data (checksum)": data,
        "chains": settings.chains,
        "seed": settings.seed,
        "burn_in": settings.burn_in,
        "move": repr(settings.move),
        "test": repr(settings.test),
        "scan": repr(settings.scan),
    }


def machine() -> dict[str, Any]:
    """What a run was made with."""
    from trajens import __version__

    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": sys.argv,
        "trajens": __version__,
        "python": platform.python_version(),
        "jax": jax.__version__,
        "numpy": np.__version__,
        "system": f"{platform.system()} {platform.machine()}",
        "host": platform.node(),
        "devices": [str(device) for device in jax.devices()],
        "loss_kernel": library().explanation,
    }


def _require_same(before: dict[str, Any], now: dict[str, Any], path: Path) -> None:
    now = json.loads(json.dumps(now))
    changed = [f"{name} {before.get(name)} (now {now.get(name)})" for name in now if now[name] != before.get(name)]
    require(
        not changed,
        f"a run must be resumed with what it was begun with, got '{path}' begun with {', '.join(changed)}; use the "
        "same settings and data, or start a new run.",
    )


def _packed(prefix: str, tree: Any) -> checkpoint.Arrays:
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {prefix + jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}


def _unpacked(prefix: str, like: Any, arrays: checkpoint.Arrays) -> Any:
    leaves, structure = jax.tree_util.tree_flatten_with_path(like)
    return jax.tree.unflatten(structure, [arrays[prefix + jax.tree_util.keystr(path)] for path, _ in leaves])


def _append(file: Path, text: str) -> None:
    """One write at the end of a file: a kill leaves all of the text or none of it."""
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    try:
        rest = text.encode()
        while rest:
            rest = rest[os.write(handle, rest) :]
    finally:
        os.close(handle)


def _number(text: str) -> int | float:
    return float(text) if any(c in text for c in ".ein") else int(text)
