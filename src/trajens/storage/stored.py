"""A run at rest. Reading it changes nothing in its directory."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from trajens.convergence import chains as convergence
from trajens.convergence.asked import in_words
from trajens.errors import require
from trajens.losses import Network
from trajens.recorded import Recorded
from trajens.records import Records, has_summary, num_records, summarise
from trajens.sampling.recording import REASONS
from trajens.sampling.replicas import Replicas
from trajens.sampling.sampler import State
from trajens.storage import checkpoint
from trajens.storage.identity import require_same
from trajens.storage.record_file import RecordFile
from trajens.storage.rows import Rows
from trajens.storage.standing import (
    FORMAT,
    Standing,
    burn_in_of,
    epoch_of,
    format_of,
    paths_of,
    recorded_of,
    seconds_of,
    start_records_of,
    unpacked,
)
from trajens.storage.sums import Sum, sum_in
from trajens.storage.witness import require_same_network
from trajens.storage.written import CONFIG, PLAN, read_plan, read_toml, require_unchanged

SESSIONS, HISTORY = "sessions.jsonl", "history.bin"
IDENTITY, OPTIONS = "identity", "options"
"""What a checkpoint holds besides the standing of a run."""
_COUNTS = ("data_used", "data_measured")


class StoredRun(Recorded):
    """The run in a directory, as its newest checkpoint knows it; one that is damaged is refused.

    Parameters
    ----------
    path : str or Path
        Directory of a run that was made with ``out=`` or ``--out``. It is read when it is asked for something, and
        what was read is kept: for a later state of a run that goes on, make another.
    before : int, optional
        Read the newest checkpoint of an epoch before this one.
    falls_back : bool
        Go back to the checkpoint before, with a warning, where the newest is damaged: for those who go on with a run,
        which makes the same again. To a reader it would be another result.
    """

    def __init__(self, path: str | Path, before: int | None = None, falls_back: bool = False):
        self.path = Path(path)
        self._before, self._falls_back = before, falls_back
        self.record_file = RecordFile(self.path)
        self.history_rows = Rows(self.path / HISTORY)

    @property
    def is_begun(self) -> bool:
        """Whether there are records or a checkpoint."""
        return self.record_file.exists() or self.has_checkpoint

    @property
    def has_checkpoint(self) -> bool:
        """Whether something was saved."""
        return bool(checkpoint.checkpoints(self.path))

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
        """The same as the checkpoint has them; None in runs of before, and where there is none."""
        if not self.has_checkpoint:
            return None
        return str(self.arrays[OPTIONS]) if OPTIONS in self.arrays else None

    @cached_property
    def records(self) -> Records:
        """All records as arrays (chains, records), see `trajens.Run`."""
        length = self._checked_length(self.record_file.file)
        return {} if length == 0 else self.record_file.read(length)

    @property
    def start_records(self) -> Records:
        """How the loss fell in the start by evolution, see `trajens.Run`; empty without one, and in runs of before."""
        return start_records_of(self.arrays)

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
        known = self.sum_of(self.record_file.file)
        if known is not None and not known.is_of(self.record_file.file):
            return False
        found = num_records(self.records) if self.recorded and self.record_file.exists() else 0
        return found >= self.recorded and self._has_history()

    def _has_history(self) -> bool:
        file = self.history_rows.file
        known = self.sum_of(file)
        if known is not None:
            return known.is_of(file)
        kept = len(self.history_rows.read()) if file.exists() else 0
        return not self.identity.get("keep_paths") or kept >= self.recorded

    def require_history(self) -> None:
        """Refuse where paths were kept, and those that the checkpoint counts are not there."""
        require(self._has_history(), self._lost(self.history_rows.file))

    def sum_of(self, file: Path) -> Sum | None:
        """Of the records or paths that the checkpoint counts; None in runs of before."""
        return sum_in(self.arrays, file.stem) if self.has_checkpoint else None

    def _checked_length(self, file: Path) -> int | None:
        """How many bytes the checkpoint knows of, which must be those that were written."""
        known = self.sum_of(file)
        if known is not None:
            require(known.is_of(file), self._lost(file))
        return None if known is None else known.length

    def _lost(self, file: Path) -> str:
        return (
            f"'{file}' must hold the {self.recorded} records of {self.chains} chains that its checkpoint counts, as "
            "they were written, got others or fewer; restore it from a copy, or start again in a new directory."
        )

    @cached_property
    def paths(self) -> np.ndarray:
        """The last path of every chain, (chains, tau, dim)."""
        return paths_of(self.arrays).astype(np.float32)

    @property
    def history(self) -> np.ndarray | None:
        """The path of every chain at every record, (chains, records, tau, dim), mapped from the disk; or None."""
        length = self._checked_length(self.history_rows.file)
        return self.mapped_history(length)

    def mapped_history(self, length: int | None = None) -> np.ndarray | None:
        """`history` as it is found, without reading all of it to see whether it is as it was written."""
        if not self.history_rows.file.exists():
            return None
        rows = self.history_rows.read(length)[: num_records(self.records)]
        return rows.swapaxes(0, 1)

    @property
    def chains(self) -> int:
        """Independent chains."""
        return int(paths_of(self.arrays).shape[0])

    @property
    def epoch(self) -> int:
        """The epoch the run has reached."""
        return epoch_of(self.arrays)

    @property
    def recorded(self) -> int:
        """Records that belong to the state it is at."""
        return recorded_of(self.arrays)

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

    @property
    def last_epoch(self) -> int:
        """The epoch the run is meant to reach; 0 if it was not begun."""
        return int(max(self.marks, default=0))

    @property
    def is_complete(self) -> bool:
        """Whether it has reached it."""
        return self.has_checkpoint and self.epoch >= self.last_epoch

    @property
    def seconds(self) -> float:
        """Time spent sampling, in all its sessions."""
        return seconds_of(self.arrays)

    @property
    def burn_in(self) -> int:
        """Epochs left out of averages."""
        known = burn_in_of(self.arrays)
        return self.asked_burn_in if known is None else known

    @property
    def asked_burn_in(self) -> int:
        """What it was begun with: a run until it has converged leaves out more of it as it gets longer."""
        return int(self.identity["burn_in"])

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What must not change when the run is resumed."""
        return dict(json.loads(str(self.arrays[IDENTITY])))

    @property
    def model(self) -> dict[str, Any] | None:
        """The description of its model, `trajens.models.described`; None for a problem of one's own."""
        known = self.identity.get("model")
        if self.config is None or "model" not in self.config:
            return known
        require(
            known is None or all(self.config.get(name, value) == value for name, value in _as_mlp(known).items()),
            f"'{self.path / CONFIG}' must describe the model of the run, {known}, got another; restore it from a copy.",
        )
        return self.config if known is None else known

    @cached_property
    def sessions(self) -> list[dict[str, Any]]:
        """Every start: versions, machine, command, first epoch; lines that are damaged are left out."""
        require(self.path.is_dir(), f"directory must be that of a run, got '{self.path}'; check the spelling.")
        file, found = self.path / SESSIONS, []
        for line in file.read_bytes().splitlines() if file.is_file() else ():
            with contextlib.suppress(ValueError, RecursionError):
                found.append(json.loads(line))
        return [session for session in found if isinstance(session, dict)]

    def summary(self, chains: Any = None) -> dict[str, Any]:
        """Plain numbers over the epochs after burn-in; see `trajens.Run.summary`."""
        return summary_of(self.records, self.burn_in, self.epoch, self.seconds, chains)

    def require_same(self, identity: dict[str, Any]) -> None:
        """Refuse if the run is another than the one of `identity`, or of a version that cannot be continued."""
        require(
            format_of(self.arrays) == FORMAT,
            f"'{self.path}' must be of this version of trajens to be continued, got an earlier one; it can be read, "
            f"and a new run can start from its paths: --initial {self.path}, or initial=StoredRun(path).paths.",
        )
        require_same(self.identity, identity, self.path)
        is_single = paths_of(self.arrays).dtype == np.float32
        require(is_single, f"'{self.path}' must hold paths in single precision, got others; start a new run from them.")

    def require_network(self, network: Network) -> None:
        """Refuse a hashable network that says something else of the saved path than the one it was trained with."""
        require_same_network(self.arrays, paths_of(self.arrays), network, f"'{self.path}'")

    def standing(self, like: State, replicas: Replicas | None = None) -> Standing:
        """All that is needed to go on with it; `like` and `replicas` have the shapes of its state and replicas."""
        found = unpacked(self.arrays, like, replicas)
        return replace(found, marks=self.marks, adapted=found.adapted._replace(burn_in=self.burn_in))

    @cached_property
    def arrays(self) -> checkpoint.Arrays:
        """The newest whole checkpoint, as it is stored."""
        require(self.path.is_dir(), f"directory must be that of a run, got '{self.path}'; check the spelling.")
        arrays = checkpoint.load_newest(self.path, self._before, self._falls_back)
        require(arrays is not None, f"'{self.path}' must hold a checkpoint, got none; is it the directory of a run?")
        assert arrays is not None
        return arrays

    def __repr__(self) -> str:
        return f"StoredRun({str(self.path)!r})"


def summary_of(records: Records, burn_in: int, epochs: int, seconds: float, chains: Any = None) -> dict[str, Any]:
    """`summarise` for all chains or those in `chains`, with what a run knows besides its records."""
    require(
        has_summary(records, burn_in),
        f"a summary needs a record after burn-in ({burn_in}), got {epochs} epochs; extend it.",
    )
    select = slice(None) if chains is None else np.atleast_1d(chains)
    chosen = {name: values[select] for name, values in records.items()}
    groups = convergence.by_s(chosen, burn_in)
    known = {**summarise(chosen, burn_in, REASONS), **convergence.numbers(groups), "convergence": in_words(groups)}
    return {**known, "epochs": epochs, "burn_in": burn_in, "seconds": seconds}


def _as_mlp(description: dict[str, Any]) -> dict[str, Any]:
    """A description without its name where that may be another: a linear model is an mlp without hidden layers."""
    is_linear = len(description.get("sizes", ())) == 2
    return {name: value for name, value in description.items() if not (is_linear and name in ("model", "activation"))}
