"""Results of a sweep: how far its runs have come, and one table of all of them, also as a Parquet file.

Nothing is changed. In a Parquet file columns have one type each, with nothing where nothing is known.
"""

from __future__ import annotations

import contextlib
import csv
import io
import math
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from trajens.app.kinds import group_chains
from trajens.app.sweeps.directory import Outcome, SweepDirectory, TaskState, outcome_of
from trajens.columns import SUMMARISED, When
from trajens.errors import InputError
from trajens.records import Records, mean_and_error
from trajens.run.stored import StoredRun
from trajens.storage.directory import CONFIG, PLAN
from trajens.storage.options import read_toml
from trajens.storage.plan import read_plan
from trajens.storage.tables import RecordFile

_OF_SWEEPS = (When.ALWAYS, When.AUDITS, When.HELD_OUT)
NUMBERS = (
    *(name for column in SUMMARISED if column.spec and column.when in _OF_SWEEPS for name in column.keys),
    *("epochs", "burn_in", "seconds"),
)
"""What of a summary becomes a column: averages, and their errors; empty for runs without them."""
_OPTION = "option_"
"""Before the name of an option that a number has too: the test called acceptance, and the share of what it accepts."""


class Reached(NamedTuple):
    """How far a run has come; NaN where it is not known.

    Attributes
    ----------
    share : float
        Of its epochs, or of its budget, that is recorded.
    loss : float
        The last one per model.
    left : float
        Seconds until it is done, if it goes on as since its process began with it.
    """

    share: float
    loss: float
    left: float


class RunRow(NamedTuple):
    """A run, or the chains of one s of it.

    Attributes
    ----------
    run : str
        Its name.
    outcome : Outcome
    options : dict
        As they stand in the plan.
    s : float or None
        That of the chains; None where the run chooses it.
    summary : dict
        Averages after burn-in, and the accuracy of the vote where that is kept; empty where there are none yet.
    """

    run: str
    outcome: Outcome
    options: dict[str, Any]
    s: float | None
    summary: dict[str, Any]


def read_progress(run: Path) -> Reached:
    """By the records and the plan of a run, which may be at work."""
    with contextlib.suppress(OSError, ValueError, LookupError):
        file = RecordFile(run)
        records, written = file.read(), file.file.stat().st_mtime
        shares = _shares(run, records)
        left = _left(StoredRun(run).sessions, records, shares, written)
        return Reached(float(shares[-1]), float(records["loss"][:, -1].mean()), left)
    return Reached(math.nan, math.nan, math.nan)


def outcomes_of(directory: SweepDirectory) -> dict[str, Outcome]:
    """The state of every run, in the order of the plan."""
    return {name: outcome_of(directory, name) for name in directory.options()}


def looks_at(directory: SweepDirectory, known: dict[str, list[RunRow]] | None = None) -> Iterator[RunRow]:
    """All runs in the order of the plan, those with several s once for each.

    Runs that are complete are not read if they are `known`, where they are kept for the next time.
    """
    known = {} if known is None else known
    for name, own in directory.options().items():
        found = known.get(name)
        if found is None:
            outcome = outcome_of(directory, name)
            found = [
                RunRow(name, outcome, own, s, numbers) for s, numbers in _summaries(directory.run(name), own, outcome)
            ]
            if outcome.state is TaskState.COMPLETE:
                known[name] = found
        yield from found


def rows_of(directory: SweepDirectory) -> list[dict[str, Any]]:
    """A row for every run, and for every s of one with several: its name, state, what varies, and its summary."""
    looks = list(looks_at(directory))
    every = {name: None for look in looks for name in look.options}
    varied = [key for key in every if len({str(look.options.get(key)) for look in looks}) > 1]
    rows = []
    for look in looks:
        own = {(f"{_OPTION}{key}" if key in NUMBERS else key): look.options.get(key) for key in varied}
        known = {"run": look.run, "state": str(look.outcome.state), **own}
        is_plain = not look.summary and isinstance(look.options.get("s"), (int, float))
        s = {} if look.s is None or is_plain else {"s": look.s}
        numbers = {name: look.summary[name] for name in NUMBERS if name in look.summary}
        rows.append({**known, **s, **numbers, "sentence": look.outcome.sentence})
    return rows


def columns_of(rows: list[dict[str, Any]]) -> list[str]:
    """A column for everything that any row has; the sentence, which may be long, last."""
    return [*{name: None for row in rows for name in row if name != "sentence"}, "sentence"]


def table_of(rows: list[dict[str, Any]]) -> str:
    """Rows as text of a CSV file."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, columns_of(rows), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def _summaries(run: Path, own: dict[str, Any], outcome: Outcome) -> list[tuple[float | None, dict[str, Any]]]:
    """The summary of every group of chains, which is empty where a run has none yet."""
    stored = StoredRun(run)
    if outcome.state is not TaskState.WAITING and stored.has_checkpoint:
        # One that is too short yet, or being written; a run that is damaged says so when it is resumed.
        with contextlib.suppress(InputError):
            groups = group_chains(own.get("s"), stored.chains)
            return [(s, {**stored.summary(chains), **_accuracy(stored, chains)}) for s, chains in groups]
    return [(s, {}) for s, _ in group_chains(own.get("s"), 0)]


def _accuracy(stored: StoredRun, chains: np.ndarray) -> dict[str, float]:
    """That of the vote on a test set, where somebody has tried the last paths and kept it."""
    scores = stored.evaluation
    if scores is None or any("vote_accuracy" not in score for score in scores):
        return {}
    value, error = mean_and_error(np.array([scores[chain]["vote_accuracy"] for chain in chains]))
    return {"vote_accuracy": value, "vote_accuracy_stderr": error}


def _shares(run: Path, records: Records) -> np.ndarray:
    """What part of a run is done at every record: of its epochs, or of its budget, which has no epochs planned."""
    budget = read_toml(run / CONFIG).get("budget")
    if budget is None:
        return np.asarray(records["epoch"][0] / read_plan(run / PLAN)[-1])
    return np.minimum(records["data_used"].sum(0) / float(budget), 1.0)


def _left(sessions: list[dict[str, Any]], records: Records, shares: np.ndarray, written: float) -> float:
    """Seconds from now, by what was recorded since the last start; the last record is as old as its file."""
    with contextlib.suppress(ValueError, LookupError, TypeError):
        began, epoch = datetime.fromisoformat(sessions[-1]["started"]).timestamp(), sessions[-1]["epoch"]
        before = shares[records["epoch"][0] <= epoch]
        # A start takes its part of the budget before there is a record, and before this clock.
        first = before[-1] if len(before) else max(0.0, 2 * shares[0] - shares[1]) if len(shares) > 1 else 0.0
        done = float(shares[-1] - first)
        if done > 0 and written > began:
            return max((1 - float(shares[-1])) * (written - began) / done - (time.time() - written), 0.0)
    return math.nan


def parquet_of(rows: list[dict[str, Any]]) -> bytes:
    """Rows of `trajens.app.sweeps.results.rows_of` as the content of a Parquet file.

    A column is of whole numbers, numbers, truth or text, as narrow as its values allow; what a row lacks, and a number
    that is not known (NaN), is null.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise InputError(
            f"a table in Parquet needs the extra parquet, got {error}; install it with: pip install "
            "'trajens[parquet]', or write a .csv file."
        ) from None
    arrays = {name: _column(pyarrow, name, [row.get(name) for row in rows]) for name in columns_of(rows)}
    content = io.BytesIO()
    parquet.write_table(pyarrow.table(arrays), content)
    return content.getvalue()


def _column(pyarrow: Any, name: str, values: list[Any]) -> Any:
    known = [None if isinstance(value, float) and math.isnan(value) else value for value in values]
    kinds = {type(value) for value in known if value is not None}
    if not kinds:
        return pyarrow.array(known, pyarrow.float64() if name in NUMBERS else pyarrow.string())
    for allowed, kind in (({bool}, "bool_"), ({int}, "int64"), ({int, float}, "float64")):
        if kinds <= allowed:
            return pyarrow.array(known, getattr(pyarrow, kind)())
    return pyarrow.array([None if value is None else str(value) for value in known], pyarrow.string())
