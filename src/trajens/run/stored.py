"""A run at rest. Reading it changes nothing in its directory."""

from __future__ import annotations

import contextlib
import html
import json
import re
import warnings
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np

from trajens.convergence import Group, by_s
from trajens.convergence import criteria as convergence
from trajens.convergence.criteria import in_words
from trajens.errors import InputError, StorageError, require
from trajens.files import in_shell, path_of, write_atomically
from trajens.losses import Network
from trajens.problem import Problem
from trajens.records import Records, after_burn_in, has_summary, summarise
from trajens.run.arviz import inference_data
from trajens.run.identity import describe_machine, require_same, require_same_network
from trajens.run.search import no_search
from trajens.run.state import FORMAT, IDENTITY, start_in
from trajens.run.tables import NumberTable, Summary, records_frame, rows_by_s
from trajens.storage.checkpoint import Arrays
from trajens.storage.directory import CONFIG, RunFiles

_EVALUATION = "evaluation.json"
_MADE_WITH = ("jax", "numpy", "python", "system", "devices", "loss_kernel")
"""What the last bits of a result depend on."""


class HasRecords(Protocol):
    """A run, of which records and kept paths can be asked."""

    @property
    def records(self) -> Records:
        """Arrays (chains, records)."""

    @property
    def history(self) -> np.ndarray | None:
        """Paths (chains, records, tau, dim), where they were kept."""

    @property
    def start_records(self) -> Records:
        """How the loss fell in a start that took pairs of losses; empty without one."""

    @property
    def burn_in(self) -> int:
        """The epoch at which averages begin."""

    @property
    def description(self) -> dict[str, Any]:
        """How it samples what, in plain values."""


class Recorded:
    """What `Run` and `StoredRun` have in common."""

    @property
    def draws(self: HasRecords) -> np.ndarray:
        """The paths at the records after burn-in, (chains, draws, tau, dim), of a run with ``keep_paths=True``.

        Those of a run in a directory are mapped from the disk.
        """
        history = self.history
        if history is None:
            raise InputError(
                "draws are paths that were kept, got a run without; sample with keep_paths=True (--keep-paths), or "
                "take the last paths, run.paths."
            )
        is_after = after_burn_in(self.records, self.burn_in)
        require(
            bool(is_after.any()),
            f"draws are paths after burn-in ({self.burn_in} epochs), got none yet; extend the run.",
        )
        # These are the last records, so that a slice will do.
        return history[:, int(np.argmax(is_after)) :]

    def by_s(self: HasRecords) -> NumberTable:
        """A table with one row for the chains of every s, smallest first, over the records after burn-in.

        ``loss`` is the mean per model, ``loss_stderr`` its standard error over chains (NaN for a single one),
        ``loss_mcse`` that by effective draws; ``ess`` and ``rhat`` are the worst of what `convergence` finds.
        Rows are dicts, ``by_s()["loss"]`` is an array, ``by_s().to_dataframe()`` a data frame of pandas.
        """
        return rows_by_s(self.records, self.burn_in)

    def to_dataframe(self: HasRecords) -> Any:
        """All records as a ``pandas.DataFrame``, one row for every chain and record; needs pandas."""
        return records_frame(self.records)

    def plot(self: HasRecords, axes: Any = None, against: str | None = None) -> Any:
        """Draw loss, s, acceptance rate and batch of every s against epochs or pairs of losses; see `plots.plot_run`.

        Needs ``pip install 'trajens[figures]'``. Takes and returns an array of four axes of Matplotlib.
        """
        from trajens.plots import plot_run

        return plot_run(self, axes, against)

    def plot_by_s(self: HasRecords, exact: Any = None, axes: Any = None) -> Any:
        """Draw the mean loss against s, with error bars, and an exact curve beside it; see `plots.plot_by_s`.

        Needs ``pip install 'trajens[figures]'``. Takes and returns axes of Matplotlib.
        """
        from trajens.plots import plot_by_s

        return plot_by_s(self, exact, axes)

    def _repr_html_(self: HasRecords) -> str:
        title = html.escape(heading(self))
        return f"<p>{title}</p>{rows_by_s(self.records, self.burn_in)._repr_html_() if self.records else ''}"

    def convergence(self: HasRecords, superchains: int | None = None) -> list[Group]:
        """R-hat, effective draws, errors and drifts of loss and projections, for the chains of every s after burn-in.

        Parameters
        ----------
        superchains : int, optional
            Of the chains of every s, neighbours that started from a common point each: nested R-hat in place of R-hat.

        Returns
        -------
        list of trajens.convergence.Group
        """
        return by_s(self.records, self.burn_in, superchains)

    def to_arviz(self: HasRecords, s: float | None = None, chains: Any = None, parameters: Any = None) -> Any:
        """Records after burn-in for ArviZ; needs ``pip install 'trajens[arviz]'``.

        Parameters
        ----------
        s : float, optional
            Chains of this s; needed where there are several, which sample several distributions.
        chains : sequence of int, optional
            Their numbers; default all of the s.
        parameters : bool or sequence of int, optional
            Of runs that kept their paths: all parameters of every model as ``theta``, none, or those of these numbers;
            default all where a path has at most 256.

        Returns
        -------
        arviz.InferenceData, or xarray.DataTree from ArviZ 1 on
            With groups ``posterior`` (loss, projections of the models) and ``sample_stats``, see
            `trajens.run.arviz`.
        """
        return inference_data(self.records, self.history, self.burn_in, s, chains, parameters)


class StoredRun(Recorded):
    """The run in a directory, as its newest checkpoint knows it; one that is damaged is refused.

    Parameters
    ----------
    path : str or Path
        Directory of a run that was made with ``out=`` or ``--out``. It is read when it is asked for something, and
        what was read is kept: for a later state of a run that goes on, make another.
    """

    def __init__(self, path: str | Path):
        self.files = RunFiles(path_of(path))

    @classmethod
    def of(cls, files: RunFiles) -> Self:
        """The run whose files were read."""
        run = cls(files.path)
        run.files = files
        return run

    @property
    def path(self) -> Path:
        """The directory."""
        return self.files.path

    @property
    def arrays(self) -> Arrays:
        """The newest whole checkpoint, as it is stored."""
        return self.files.arrays

    @property
    def is_start_common(self) -> bool:
        """Whether several chains began at one model; not known of runs of earlier versions."""
        return bool(self.arrays.get("is_start_common", False))

    @property
    def has_checkpoint(self) -> bool:
        """Whether something was saved."""
        return self.files.has_checkpoint

    @property
    def config(self) -> dict[str, Any] | None:
        """The options it was started with on the command line; None for a run made in Python."""
        return self.files.config

    @property
    def records(self) -> Records:
        """All records as arrays (chains, records), see `trajens.Run`."""
        return self.files.records

    @property
    def start_records(self) -> Records:
        """How the loss fell in the start, see `trajens.Run`; empty without one that took pairs of losses."""
        return start_in(self.arrays)

    @property
    def search(self) -> np.ndarray:
        """What was found where s was searched for, see `trajens.run.search`."""
        return self.arrays.get("search", no_search())

    @cached_property
    def paths(self) -> np.ndarray:
        """The last path of every chain, (chains, tau, dim)."""
        return self._paths.astype(np.float32)

    @property
    def _paths(self) -> np.ndarray:
        return self.arrays["state.path"]

    @property
    def history(self) -> np.ndarray | None:
        """The path of every chain at every record, (chains, records, tau, dim), mapped from the disk; or None."""
        return self.files.history

    @property
    def s(self) -> np.ndarray:
        """The tilt of every chain at its last record, (chains,), or what it began with."""
        begun = np.atleast_1d(np.asarray(self.identity["s"], np.float64))
        # Chains that began alike are of one s, whatever became of their records.
        with contextlib.suppress(*((InputError,) if len(begun) == 1 else ())):
            if self.records:
                return np.asarray(self.records["s"][:, -1], np.float64)
        return np.repeat(begun, len(self._paths) // len(begun))

    @property
    def chains(self) -> int:
        """Independent chains."""
        return self.files.chains

    @property
    def epoch(self) -> int:
        """The epoch the run has reached."""
        return self.files.epoch

    @property
    def recorded(self) -> int:
        """Records that belong to the state it is at."""
        return self.files.recorded

    @property
    def marks(self) -> np.ndarray:
        """The epochs at which is recorded, those to come included."""
        return self.files.marks

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
        return float(self.arrays["seconds"])

    @property
    def burn_in(self) -> int:
        """Epochs left out of averages."""
        known = self.arrays.get("control.burn_in", self.arrays.get("burn_in"))
        return self.asked_burn_in if known is None else int(known)

    @property
    def asked_burn_in(self) -> int:
        """What it was begun with: a run until it has converged leaves out more of it as it gets longer."""
        return int(self.identity["burn_in"])

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What must not change when the run is resumed, see `trajens.run.identity`."""
        return dict(json.loads(str(self.arrays[IDENTITY])))

    @property
    def description(self) -> dict[str, Any]:
        """How it samples what, in plain values, as that of `trajens.Run`."""
        return self.identity if self.is_continuable else {**self.identity, **_facts_in_texts(self.identity)}

    @property
    def is_continuable(self) -> bool:
        """Whether it is of the format of this version; others can be read, and not gone on with."""
        return int(self.arrays.get("format", 1)) == FORMAT

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

    @property
    def sessions(self) -> list[dict[str, Any]]:
        """Every start: versions, machine, command, first epoch; lines that are damaged are left out."""
        return self.files.sessions

    def summary(self, chains: Any = None) -> Summary:
        """Plain numbers over the epochs after burn-in; see `trajens.Run.summary`."""
        return summary_of(self.records, self.burn_in, self.epoch, self.seconds, chains)

    def require_same(self, identity: dict[str, Any]) -> None:
        """Refuse if the run is another than the one of `identity`, or of a version that cannot be continued."""
        require(
            self.is_continuable,
            f"'{self.path}' must be of this version of trajens to be continued, got an earlier one; it can be read, "
            f"and a new run can start from its paths: --start {in_shell(self.path)}, or initial=StoredRun(path).paths.",
        )
        require_same(self.identity, identity, self.path)
        is_single = self._paths.dtype == np.float32
        require(is_single, f"'{self.path}' must hold paths in single precision, got others; start a new run from them.")

    def require_network(self, network: Network) -> None:
        """Refuse a hashable network that says something else of the saved path than the one it was trained with."""
        require_same_network(self.arrays, self._paths, network, f"'{self.path}'")

    def warn_of_another_machine(self, problem: Problem) -> None:
        """Say so where results may differ in their last bits from those of a run that was never interrupted."""
        before, now = (self.sessions or [{}])[-1], describe_machine(problem)
        changed = [
            f"{name} {before[name]} (now {now[name]})"
            for name in _MADE_WITH
            if before.get(name, now[name]) != now[name]
        ]
        if changed:
            warnings.warn(
                f"'{self.path}' was last run with {', '.join(changed)}: what follows may differ in the last bits from "
                "a run that was never interrupted.",
                stacklevel=6,
            )

    @property
    def evaluation(self) -> list[dict[str, Any]] | None:
        """Scores of the last path of every chain, where they were kept beside it; None where there are none."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            kept = json.loads((self.path / _EVALUATION).read_text())
            if kept["epoch"] == self.epoch and len(kept["chains"]) == self.chains:
                return list(kept["chains"])
        return None

    def keep_evaluation(self, scores: list[dict[str, Any]]) -> None:
        """Write down the scores of the last path of every chain, beside it."""
        content = json.dumps({"epoch": self.epoch, "chains": scores})
        write_atomically(self.path / _EVALUATION, content.encode())

    def __repr__(self) -> str:
        name = f"StoredRun({str(self.path)!r})"
        # A directory that is empty or damaged has a name all the same.
        with contextlib.suppress(InputError, StorageError, OSError):
            return f"{name}: {in_lines(self)}"
        return name


def heading(run: HasRecords) -> str:
    """What a run is, in one line: chains, epochs, burn-in, records."""
    count = run.records["epoch"].shape if run.records else (0, 0)
    epochs = int(run.records["epoch"][0, -1]) if run.records else 0
    known = run.description
    return (
        f"{known['chains']} chains of tau = {known['tau']} models with {known['parameters']} parameters, "
        f"{count[1]} records up to epoch {epochs:,}, burn-in {run.burn_in:,}"
    )


def in_lines(run: HasRecords) -> str:
    """The heading of a run, and its table by s where there is something after burn-in."""
    return "\n".join([heading(run), *([repr(table)] if (table := rows_by_s(run.records, run.burn_in)) else [])])


def summary_of(records: Records, burn_in: int, epochs: int, seconds: float, chains: Any = None) -> Summary:
    """`summarise` for all chains or those in `chains`, with what a run knows besides its records."""
    require(
        has_summary(records, burn_in),
        f"a summary needs a record after burn-in ({burn_in}), got {epochs} epochs; extend it.",
    )
    select = slice(None) if chains is None else np.atleast_1d(chains)
    chosen = {name: values[select] for name, values in records.items()}
    groups = convergence.by_s(chosen, burn_in)
    known = {**summarise(chosen, burn_in), **convergence.numbers(groups), "convergence": in_words(groups)}
    return Summary({**known, "epochs": epochs, "burn_in": burn_in, "seconds": seconds})


def _as_mlp(description: dict[str, Any]) -> dict[str, Any]:
    """A description without its name where that may be another: a linear model is an mlp without hidden layers."""
    is_linear = len(description.get("sizes", ())) == 2
    return {name: value for name, value in description.items() if not (is_linear and name in ("model", "activation"))}


def _facts_in_texts(identity: dict[str, Any]) -> dict[str, Any]:
    """What a run of format 2 was asked for, from the texts by which its parts called themselves."""
    test, course = str(identity.get("acceptance")), str(identity.get("course"))

    def numbers_in(text: str, *names: str) -> dict[str, float]:
        found = {name: re.search(rf"\b{name}=([-+.\d][-+.\deE]*)", text) for name in names}
        return {name: float(match[1]) for name, match in found.items() if match}

    asked = numbers_in(course, "rhat", "ess", "error")
    return {
        "tolerance": numbers_in(test, "tolerance").get("tolerance"),
        "is_exact": test.split("(")[0] in ("Metropolis", "Barker"),
        "controller": {**numbers_in(course, "pairs", "loss"), **({"asked": asked} if "rhat" in asked else {})},
    }
