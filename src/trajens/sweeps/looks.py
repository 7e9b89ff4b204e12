"""Looking at a sweep: how far its runs have come, and one table of all of them. Nothing is changed."""

from __future__ import annotations

import contextlib
import csv
import io
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from trajens.errors import InputError
from trajens.experiments.kinds import grouped
from trajens.storage.record_file import RecordFile
from trajens.storage.stored import StoredRun
from trajens.storage.written import PLAN, read_plan
from trajens.sweeps.kept import SweepDirectory
from trajens.sweeps.state import Outcome, State, outcome_of

_NUMBERS = (
    "loss",
    "loss_stderr",
    "acceptance",
    "batch_size",
    "data_used",
    "data_measured",
    "data_audited",
    "tilt_error",
    "tilt_error_stderr",
    "weight_rms",
    "epochs",
    "burn_in",
    "seconds",
)
"""What of a summary becomes a column."""


class Reached(NamedTuple):
    """How far a run has come: the share of its epochs that is recorded, and its last loss per model; NaN if unknown."""

    share: float
    loss: float


def reached(run: Path) -> Reached:
    """By the records and the plan of a run, which may be at work."""
    with contextlib.suppress(OSError, ValueError, LookupError):
        records, plan = RecordFile(run).read(), read_plan(run / PLAN)
        return Reached(float(records["epoch"][0, -1] / plan[-1]), float(records["loss"][:, -1].mean()))
    return Reached(math.nan, math.nan)


def outcomes_of(directory: SweepDirectory) -> dict[str, Outcome]:
    """The state of every run, in the order of the plan."""
    return {name: outcome_of(directory, name) for name in directory.options()}


def rows_of(directory: SweepDirectory) -> list[dict[str, Any]]:
    """A row for every run, and for every s of one with several: its name, state, what varies, and its summary."""
    options = directory.options()
    every = {name: None for each in options.values() for name in each}
    varied = [key for key in every if len({str(each.get(key)) for each in options.values()}) > 1]
    rows = []
    for name, own in options.items():
        outcome = outcome_of(directory, name)
        known = {"run": name, "state": str(outcome.state), **{key: own.get(key) for key in varied}}
        for s, numbers in _summaries(directory.run(name), own, outcome):
            rows.append({**known, **({} if s is None else {"s": s}), **numbers, "sentence": outcome.sentence})
    return rows


def table_of(rows: list[dict[str, Any]]) -> str:
    """Rows as text of a CSV file; a column for everything that any of them has."""
    columns = [*{name: None for row in rows for name in row if name != "sentence"}, "sentence"]
    stream = io.StringIO()
    writer = csv.DictWriter(stream, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def _summaries(run: Path, own: dict[str, Any], outcome: Outcome) -> Iterator[tuple[float | None, dict[str, Any]]]:
    """The summary of every group of chains; nothing of a run that has none yet."""
    stored = StoredRun(run)
    if outcome.state is State.WAITING or not stored.has_checkpoint:
        yield None, {}
        return
    try:
        for s, chains in grouped(own.get("s"), stored.chains):
            found = stored.summary(chains)
            yield s, {name: found[name] for name in _NUMBERS if name in found}
    except InputError:
        # Too short yet, or being written; a run that is damaged says so when it is resumed.
        yield None, {}
