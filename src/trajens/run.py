"""A run: epochs, burn-in, recording, progress, stopping and resuming around the sampler. No physics here."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from trajens.acceptance import AcceptanceTest, Penalty
from trajens.directory import RunDirectory, Snapshot, identity_of
from trajens.errors import integer, require
from trajens.execute import Execution, chain_keys, start_state
from trajens.measure import examples_per_measurement
from trajens.moves import Move, SingleSite
from trajens.progress import Progress, ProgressBar
from trajens.records import Records, Row, joined, record, summarise, total, warn_if_not_finite
from trajens.sampler import State
from trajens.scan import Scan, scan_named
from trajens.settings import MAX_EPOCHS, Settings
from trajens.start import initial_paths
from trajens.tally import Tally
from trajens.target import Target


@dataclass(frozen=True)
class Run:
    """The result of `sample`, and all that is needed to continue it.

    Attributes
    ----------
    paths : (chains, tau, dim)
        The last path of every chain.
    epochs : int
        Epochs done.
    records : dict of arrays (chains, records)
        ``epoch``; ``loss`` per model on fresh data (or all of it) at that epoch, its sampling error ``loss_error``;
        and over the epochs since the record before: ``loss_deciding`` (the paper's estimate), ``acceptance``,
        ``batch_size``, ``data_used`` (examples times models evaluated, so far), ``max_skew``, ``weight_rms`` (at that
        epoch), ``s``, and the counts of every reason for a decision.
    history : (chains, records, tau, dim) or None
        The path at every record, with ``keep_paths=True``.
    marks : (records,)
        The epochs at which is recorded, those to come included.
    pending : Tally or None
        What was counted since the last record, in a run that was stopped between two.
    """

    target: Target
    settings: Settings
    state: State
    epochs: int
    records: Records
    history: np.ndarray | None
    seconds: float
    marks: np.ndarray
    pending: Tally | None = None
    out: RunDirectory | None = None

    @property
    def paths(self) -> np.ndarray:
        """The last path of every chain, (chains, tau, dim)."""
        return np.asarray(self.state.path)

    @property
    def recorded(self) -> int:
        """Records made."""
        return self.records["epoch"].shape[1] if self.records else 0

    @property
    def is_complete(self) -> bool:
        """Whether all epochs asked for were done; False after a stop."""
        return self.epochs >= int(self.marks[-1])

    def summary(self, chains: Any = None) -> dict[str, Any]:
        """Plain numbers over the epochs after burn-in, averaged over all chains or those in `chains`.

        ``loss_stderr`` is the standard error over chains, NaN for a single one.
        """
        start = np.concatenate([[0], self.marks])[: self.recorded]
        require(
            bool((start >= self.settings.burn_in).any()),
            f"a summary needs a record after burn-in ({self.settings.burn_in}), got {self.epochs} epochs; extend it.",
        )
        select = slice(None) if chains is None else np.atleast_1d(chains)
        chosen = {name: values[select] for name, values in self.records.items()}
        return {
            **summarise(chosen, self.settings.burn_in),
            "loss_examples": examples_per_measurement(self.target.problem.size),
            "epochs": self.epochs,
            "burn_in": self.settings.burn_in,
            "seconds": self.seconds,
        }

    def extend(
        self,
        epochs: int,
        records: int | None = None,
        progress: bool | Callable[[Progress], None] = False,
        stop: Callable[[], bool] | None = None,
    ) -> Run:
        """Continue for `epochs` more; the same, bit for bit, as having asked for all of them at once.

        `records` defaults to as many per epoch as after burn-in so far. A run with a directory goes on writing there.
        """
        out = None if self.out is None else self.out.again()
        with out or nullcontext():
            return _run(replace(self._with(epochs, records), out=out), progress, stop)

    def _with(self, epochs: int, records: int | None = None) -> Run:
        last = int(self.marks[-1])
        epochs = integer("epochs", epochs, 1, "give the number of epochs to add", MAX_EPOCHS - last)
        if records is None:
            records = max(1, round(epochs / np.diff(self.marks, prepend=0)[-1]))
        marks = last + _spread(epochs, integer("records", records, 1, "try 200", epochs))
        return replace(self, marks=np.concatenate([self.marks, marks]))

    def __repr__(self) -> str:
        return f"Run({self.target}, epochs={self.epochs}, chains={self.settings.chains})"


def sample(
    target: Target,
    epochs: int,
    chains: int = 8,
    seed: int = 0,
    burn_in: int | None = None,
    move: Move | None = None,
    test: AcceptanceTest | None = None,
    scan: str | Scan = "random",
    initial: Any = None,
    records: int = 200,
    keep_paths: bool = False,
    progress: bool | Callable[[Progress], None] = False,
    devices: Sequence[jax.Device] | None = None,
    out: str | Path | RunDirectory | None = None,
    stop: Callable[[], bool] | None = None,
    ahead: int = 1,
) -> Run:
    """Sample paths from `target` with independent chains.

    Parameters
    ----------
    target : Target
    epochs : int
        Proposals per chain, burn-in included.
    chains : int
        Independent chains; they run in one compiled program, spread over the devices JAX sees.
    seed : int in 0..2**32 - 1
    burn_in : int, optional
        Epochs left out of `Run.summary`; default a fifth. Tests that adapt do so until then; with 0 they adapt
        throughout.
    move : Move
        Default ``SingleSite(fraction=0.25)``.
    test : AcceptanceTest
        Default ``Penalty(chunk=32, rho=1.35)``, with a smaller chunk for fewer examples.
    scan : "random", "checkerboard" or a Scan
    initial : array, optional
        A model (dim,), a path (tau, dim) or paths (chains, tau, dim) to start from; default: the problem's start
        or a random model, and a walk of steps sigma from it.
    records : int
        How often statistics are recorded.
    keep_paths : bool
        Keep the path at every record in ``Run.history``.
    progress : bool or callable
        True shows a progress bar on stderr; a callable is handed a `Progress` after every block.
    devices : sequence of jax devices, optional
        Where chains may run; default all that JAX sees. As many are used as divide the chains evenly.
    out : path or RunDirectory, optional
        A new directory for records and checkpoints. With ``RunDirectory(path, resume=True)`` and otherwise the same
        arguments, a run there goes on, bit for bit as if never interrupted, to the larger of `epochs` and what it was
        asked for before.
    stop : callable, optional
        Asked after every block of about half a second; True saves and ends the run, see `Run.is_complete`.
    ahead : int
        Chunks of a minibatch that are evaluated at once. Decisions use, and ``data_used`` counts, as many as they would
        have asked for one by one; the rest is evaluated in vain. 4 to 8 pays on a GPU with few lanes and large batches.

    Returns
    -------
    Run
    """
    require(
        isinstance(target, Target),
        f"target must be a trajens.Target, got {type(target).__name__}; build one from a Problem.",
    )
    size = target.problem.size
    chains = integer("chains", chains, 1, "use 1 or more independent chains")
    epochs = integer("epochs", epochs, 1, "one epoch is one proposal", MAX_EPOCHS)
    if burn_in is None and isinstance(out, RunDirectory):
        burn_in = out.burn_in()
    burn_in = epochs // 5 if burn_in is None else integer("burn_in", burn_in, 0, "use 0 for none")
    require(
        burn_in < epochs,
        f"burn_in must be less than epochs = {epochs}, got {burn_in}; averages need epochs after burn-in.",
    )
    lowest = 1 if burn_in == 0 else 2
    records = integer("records", records, 1, "try 200")
    records = max(lowest, min(records, epochs))
    move = SingleSite(fraction=0.25) if move is None else move
    test = Penalty(chunk=min(32, size)) if test is None else test
    require(isinstance(move, Move), f"move must be a trajens move, got {move!r}; try SingleSite(fraction=0.25).")
    require(isinstance(test, AcceptanceTest), f"test must be an acceptance test, got {test!r}; try Penalty(chunk=32).")
    move.check(target.tau)
    test.chunk_size(size)
    settings = Settings(
        chains,
        integer("seed", seed, 0, "any whole number in range will do", 2**32 - 1),
        burn_in,
        move,
        test,
        scan_named(scan),
        bool(keep_paths),
        tuple(jax.devices() if devices is None else devices),
        integer("ahead", ahead, 1, "use 1 on a CPU, 4 to 8 on a GPU with few lanes", 64),
    )
    target.s_of_chains(chains)
    if out is not None and not isinstance(out, RunDirectory):
        out = RunDirectory(out)
    require(
        out is None or not settings.keep_paths,
        "keep_paths must be False with out, which holds the last paths only, got True; leave out one of them.",
    )
    key = chain_keys(np.uint32(settings.seed), chains)
    early = round(records * burn_in / epochs)
    early = min(max(early, lowest - 1), records - 1)
    marks = np.concatenate([_spread(burn_in, early), burn_in + _spread(epochs - burn_in, records - early)])
    with out or nullcontext():
        state = start_state(settings.program(target), key, initial_paths(target, key, initial))
        run = Run(target, settings, state, 0, {}, None, 0.0, marks, out=out)
        if out is not None and out.resume:
            run = _restored(run, out)
        if epochs > run.marks[-1]:
            run = run._with(epochs - int(run.marks[-1]))
        return _run(run, progress, stop)


def _run(run: Run, progress: Any, stop: Callable[[], bool] | None) -> Run:
    """Advance to each mark in turn and record there, until the last one or until `stop` says so."""
    target, settings, out = run.target, run.settings, run.out
    execution = Execution(target, settings)
    state, epoch, begin = execution.place(run.state), run.epochs, time.perf_counter()
    tables = [run.records] if run.records else []
    pending, history = run.pending, [] if run.history is None else [run.history]
    recorded = run.recorded

    def now() -> Snapshot:
        seconds = run.seconds + time.perf_counter() - begin
        return Snapshot(state, epoch, run.marks, recorded, pending, seconds)

    if out is not None:
        out.begin(now(), identity_of(run.target, run.settings))
    report = ProgressBar(int(run.marks[-1]), epoch, curve=True) if progress is True else progress
    try:
        is_stopped = False
        for mark in run.marks[run.recorded :]:
            while epoch < mark and not is_stopped:
                state, counted, epoch = execution.advance(state, epoch, int(mark))
                pending = total([counted] if pending is None else [pending, counted])
                is_stopped = stop is not None and stop()
                if epoch < mark and not is_stopped:
                    if report and tables:
                        report(Progress.of(epoch, tables[-1], pending, time.perf_counter() - begin))
                    if out is not None and out.is_due():
                        out.save(now())
            if epoch < mark:
                break
            measured = execution.measure(state, epoch)
            used = tables[-1]["data_used"][:, -1] if tables else 0
            assert pending is not None
            tables.append(record(epoch, Row(pending, measured), target, used))
            if settings.keep_paths:
                history.append(np.asarray(state.path)[:, None])
            if report:
                report(Progress.of(epoch, tables[-1], None, time.perf_counter() - begin))
            pending, recorded = None, recorded + 1
            if out is not None:
                out.append(tables[-1])
                if out.is_due():
                    out.save(now())
            if is_stopped:
                break
    finally:
        if isinstance(report, ProgressBar):
            report.close()
    if out is not None:
        out.save(now())
    result = replace(
        run,
        state=state,
        epochs=epoch,
        records=joined(tables),
        history=np.concatenate(history, axis=1) if history else None,
        seconds=now().seconds,
        pending=pending,
    )
    warn_if_not_finite(tables[1 if run.records else 0 :])
    return result


def _restored(run: Run, out: RunDirectory) -> Run:
    """The run in the directory, or this one if nothing was saved there yet."""
    found = out.restore(run.state, identity_of(run.target, run.settings))
    if found is None:
        return run
    snapshot, records = found
    return replace(
        run,
        state=snapshot.state,
        epochs=snapshot.epoch,
        marks=snapshot.marks,
        records=records,
        pending=snapshot.pending,
        seconds=snapshot.seconds,
    )


def _spread(total: int, parts: int) -> np.ndarray:
    """`parts` marks at nearly equal distances, the last at `total`."""
    return np.unique(np.round(total * np.arange(1, parts + 1) / max(parts, 1)).astype(np.int64))
