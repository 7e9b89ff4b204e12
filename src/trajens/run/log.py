"""What a run writes down while it goes on: records and paths, in memory and, where it has one, in its directory."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from trajens.records import Records, join_records
from trajens.run.identity import NetworkFingerprint, RunIdentity, describe_machine
from trajens.run.state import IDENTITY, RunState, pack
from trajens.storage.checkpoint import Arrays
from trajens.storage.directory import RunDirectory, map_history


class Log:
    """Records so far, paths so far where they are kept, and the directory where all of it is safe.

    Parameters
    ----------
    records : Records
        Those of the run before.
    history : (chains, records, tau, dim), optional
        Its paths at them, where they are kept in memory.
    out : RunDirectory, optional
    keep_paths : bool
        In memory without `out`, else on disk only.
    """

    def __init__(self, records: Records, history: np.ndarray | None, out: RunDirectory | None, keep_paths: bool):
        self._tables: list[Records] = [records] if records else []
        self._history = history
        self._out, self._keep_paths = out, keep_paths
        self._identity: Arrays = {}
        self._fingerprint: NetworkFingerprint | None = None

    def begin(self, run: RunState, identity: RunIdentity) -> None:
        """Prepare for a run that goes on from a state; its directory notes what it is and who goes on with it."""
        chains, *shape = run.state.path.shape
        if self._out is not None:
            self._identity = {IDENTITY: np.array(json.dumps(identity.description))}
            self._fingerprint = identity.fingerprint
            session = {"seed": identity.description["seed"], **describe_machine(identity.target.problem)}
            if self._out.begin(run.epoch, run.recorded, run.marks, chains, session):
                self.save(run, is_first=True)
        elif self._keep_paths:
            # In one piece: a list of paths would be held twice while it is joined.
            self._move_history(np.empty((chains, len(run.marks), *shape), np.float32), run.recorded)

    def _move_history(self, room: np.ndarray, recorded: int) -> None:
        if self._history is not None:
            room[:, :recorded] = self._history[:, :recorded]
        self._history = room

    def add(self, number: int, record: Records, paths: Any) -> None:
        """Write down record `number`, with its columns in the order of those before."""
        if self._tables:
            record = {name: record[name] for name in self._tables[0]}
        self._tables.append(record)
        kept = np.asarray(paths) if self._keep_paths else None
        if self._out is not None:
            self._out.append(record, kept)
        elif kept is not None:
            assert self._history is not None
            chains, room, *shape = self._history.shape
            if number >= room:
                self._move_history(np.empty((chains, 2 * room, *shape), np.float32), number)
            self._history[:, number] = kept

    def save(self, run: RunState, is_first: bool = False) -> None:
        """Write a checkpoint."""
        if self._out is not None:
            self._out.save(run.epoch, run.recorded, lambda: self._arrays(run), is_first)

    def _arrays(self, run: RunState) -> Arrays:
        fingerprint = {} if self._fingerprint is None else self._fingerprint.arrays(np.asarray(run.state.path))
        return {**pack(run), **self._identity, **fingerprint}

    def save_if_due(self, run: RunState) -> None:
        """Write a checkpoint if it is time for one."""
        if self._out is not None and self._out.is_due():
            self.save(run)

    @property
    def last(self) -> Records | None:
        """The table that ends with the last record."""
        return self._tables[-1] if self._tables else None

    @property
    def records(self) -> Records:
        """All records."""
        return join_records(self._tables)

    def records_and(self, record: Records) -> Records:
        """All records, and one that is not written down."""
        return join_records([*self._tables, record])

    def history(self, recorded: int) -> np.ndarray | None:
        """The paths at all records, in memory or mapped from the disk; None where they are not kept."""
        if self._out is not None:
            return map_history(self._out.path, recorded)
        return None if self._history is None else self._history[:, :recorded]
