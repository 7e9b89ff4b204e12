"""What a run writes down while it goes on: records and paths, in memory and, where it has one, in its directory."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

import numpy as np

from trajens.records import STEPS, Records, joined
from trajens.sampling.recording import Used
from trajens.storage.directory import RunDirectory
from trajens.storage.standing import Standing
from trajens.storage.witness import Witness


class Logbook:
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
        self._tables: list[Records] = []
        # Epochs of all records and of the last audit, so that a question about them does not grow with the records.
        self._epochs: list[int] = []
        self._audited = -1
        if records:
            self._keep(records)
        self._history = history
        self._out, self._keep_paths = out, keep_paths
        self._begun = 0.0

    def begin(self, standing: Standing, identity: dict[str, Any], witness: Witness | None = None) -> None:
        """Before the first epoch."""
        self._begun = round(standing.begun)
        if self._out is not None:
            self._out.begin(standing, identity, witness)
        elif self._keep_paths:
            # In one piece: a list of paths would be held twice while it is joined.
            chains, *shape = standing.state.path.shape
            self._turn_to(np.empty((chains, len(standing.marks), *shape), np.float32), standing.recorded)

    def _turn_to(self, pages: np.ndarray, written: int) -> None:
        if self._history is not None:
            pages[:, :written] = self._history[:, :written]
        self._history = pages

    def add(self, number: int, record: Records, paths: Any) -> None:
        """Write down record `number`."""
        if self._tables:
            # A run of before goes on with the columns that it has.
            record = {name: record[name] for name in self._tables[0]}
        self._keep(record)
        kept = np.asarray(paths) if self._keep_paths else None
        if self._out is not None:
            self._out.append(record, kept)
        elif kept is not None:
            assert self._history is not None
            chains, room, *shape = self._history.shape
            if number >= room:
                self._turn_to(np.empty((chains, 2 * room, *shape), np.float32), number)
            self._history[:, number] = kept

    def _keep(self, table: Records) -> None:
        self._tables.append(table)
        self._epochs.extend(table["epoch"][0].tolist())
        is_audited = (table["tilt_weight"] > 0).any(0)
        self._audited = max([self._audited, *table["epoch"][0][is_audited].tolist()])

    def save(self, standing: Standing, is_due: bool = True) -> None:
        """Write a checkpoint: now, or if it is time for one."""
        if self._out is not None and (is_due or self._out.is_due()):
            self._out.save(standing)

    @property
    def last(self) -> Records | None:
        """The table that ends with the last record."""
        return self._tables[-1] if self._tables else None

    @property
    def used(self) -> Used:
        """Evaluations up to the last record."""
        last = self.last
        if last is None:
            return Used(self._begun)
        used, measured, audited = (last[name][:, -1] for name in ("data_used", "data_measured", "data_audited"))
        decided, seen, looked = (last[name][:, -1] if name in last else 0 for name in STEPS)
        return Used(used, measured, audited, (decided, seen, looked))

    def recorded_after(self, burn_in: int) -> int:
        """Records made after `burn_in`."""
        return len(self._epochs) - bisect_right(self._epochs, burn_in)

    def is_audited(self, burn_in: int) -> bool:
        """Whether there was an audit after `burn_in`."""
        return self._audited > burn_in

    @property
    def records(self) -> Records:
        """All records."""
        return joined(self._tables)

    def records_and(self, record: Records) -> Records:
        """All records, and one that is not written down."""
        return joined([*self._tables, record])

    def history(self, recorded: int) -> np.ndarray | None:
        """The paths at all records that are held in memory."""
        return None if self._history is None else self._history[:, :recorded]
