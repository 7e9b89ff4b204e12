"""A run: epochs, burn-in, recording and progress around the sampler. No physics here."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from trajens.acceptance import AcceptanceTest, Penalty, Reason
from trajens.errors import integer, require
from trajens.measure import Measurement, examples_per_measurement, measure
from trajens.moves import Move, SingleSite
from trajens.progress import Progress, ProgressBar
from trajens.randomness import Key, fold_in, key_of
from trajens.records import Row, continued, summarise, tabulate, total
from trajens.sampler import Inputs, Program, State, advance, initial_state
from trajens.scan import Scan, scan_named
from trajens.start import initial_paths
from trajens.tally import Tally
from trajens.target import Target

_MAX_EPOCHS = 2**31 - 1


@dataclass(frozen=True)
class Settings:
    """How a target is sampled."""

    chains: int
    seed: int
    burn_in: int
    move: Move
    test: AcceptanceTest
    scan: Scan
    keep_paths: bool
    devices: tuple[jax.Device, ...]


@dataclass(frozen=True)
class Run:
    """The result of `sample`, and all that is needed to continue it.

    Attributes
    ----------
    paths : (chains, tau, dim)
        The last path of every chain.
    records : dict of arrays (chains, records)
        ``epoch``; ``loss`` per model on fresh data (or all of it) at that epoch, its sampling error ``loss_error``;
        and over the epochs since the record before: ``loss_deciding`` (the paper's estimate), ``acceptance``,
        ``batch_size``, ``data_used`` (examples times models evaluated, so far), ``max_skew``, ``weight_rms`` (at that
        epoch), ``s``, and the counts of every reason for a decision.
    history : (chains, records, tau, dim) or None
        The path at every record, with ``keep_paths=True``.
    """

    target: Target
    settings: Settings
    state: State
    epochs: int
    records: dict[str, np.ndarray]
    history: np.ndarray | None
    seconds: float

    @property
    def paths(self) -> np.ndarray:
        """The last path of every chain, (chains, tau, dim)."""
        return np.asarray(self.state.path)

    def summary(self, chains: Any = None) -> dict[str, Any]:
        """Plain numbers over the epochs after burn-in, averaged over all chains or those in `chains`.

        ``loss_stderr`` is the standard error over chains, NaN for a single one.
        """
        select = slice(None) if chains is None else np.atleast_1d(chains)
        chosen = {name: values[select] for name, values in self.records.items()}
        return {
            **summarise(chosen, self.settings.burn_in),
            "loss_examples": examples_per_measurement(self.target.problem.size),
            "epochs": self.epochs,
            "burn_in": self.settings.burn_in,
            "seconds": self.seconds,
        }

    def extend(self, epochs: int, records: int | None = None, progress: Any = False) -> Run:
        """Continue for `epochs` more; the same, bit for bit, as having asked for all of them at once.

        `records` defaults to as many per epoch as after burn-in so far.
        """
        epochs = integer("epochs", epochs, 1, "give the number of epochs to add", _MAX_EPOCHS - self.epochs)
        if records is None:
            steps = np.diff(self.records["epoch"][0], prepend=0)
            records = max(1, round(epochs / steps[-1]))
        marks = self.epochs + _spread(epochs, integer("records", records, 1, "try 200", epochs))
        return _run(self, marks, progress)

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
    epochs = integer("epochs", epochs, 1, "one epoch is one proposal", _MAX_EPOCHS)
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
    )
    target.s_of_chains(chains)
    key = _chain_keys(np.uint32(settings.seed), chains)
    state = _initial_state(_program(target, settings), key, initial_paths(target, key, initial))
    early = round(records * burn_in / epochs)
    early = min(max(early, lowest - 1), records - 1)
    marks = np.concatenate([_spread(burn_in, early), burn_in + _spread(epochs - burn_in, records - early)])
    return _run(Run(target, settings, state, 0, {}, None, 0.0), marks, progress)


def _run(run: Run, marks: np.ndarray, progress: Any) -> Run:
    """Advance to each mark in turn and record there."""
    target, settings = run.target, run.settings
    program = _program(target, settings)
    mesh = _mesh(settings)
    by_chain, everywhere = NamedSharding(mesh, PartitionSpec("chains")), NamedSharding(mesh, PartitionSpec())
    learn_until = settings.burn_in if settings.burn_in > 0 else _MAX_EPOCHS
    inputs = Inputs(
        jax.device_put(target.problem.data, everywhere),
        jax.device_put(target.law, everywhere),
        jax.device_put(target.s_of_chains(settings.chains), by_chain),
        jax.device_put(np.int32(learn_until), everywhere),
    )
    # Through the host: slicing on the device would compile a program for every array.
    state: State = jax.device_put(jax.tree.map(np.asarray, run.state), by_chain)
    examples = examples_per_measurement(program.size)
    # A chain counts its evaluations in 32 bits: no more epochs in a block than surely fit.
    block = _Block(_MAX_EPOCHS // (program.size * program.span))

    epoch, begin = run.epochs, time.perf_counter()
    rows: list[Row] = []
    history: list[np.ndarray] = []
    report = ProgressBar(int(marks[-1]), run.epochs) if progress is True else progress
    try:
        for mark in marks:
            tallies = []
            while epoch < mark:
                start, epoch = time.perf_counter(), min(int(mark), epoch + block.epochs)
                state, tally = _advance(program, mesh, inputs, state, np.int32(epoch))
                tallies.append(jax.tree.map(np.asarray, tally))
                block.adapt(time.perf_counter() - start)
                if report and rows and epoch < mark:
                    report(_progress(epoch, rows[-1], time.perf_counter() - begin))
            measured = jax.tree.map(np.asarray, _measure(program, mesh, inputs, state, np.int32(epoch), examples))
            rows.append(Row(total(tallies), measured))
            if settings.keep_paths:
                history.append(np.asarray(state.path))
            if report:
                report(_progress(epoch, rows[-1], time.perf_counter() - begin))
    finally:
        if isinstance(report, ProgressBar):
            report.close()
    seconds = run.seconds + time.perf_counter() - begin
    records = continued(run.records, tabulate(marks, rows, target))
    paths = np.stack(history, axis=1) if history else None
    if run.history is not None and paths is not None:
        paths = np.concatenate([run.history, paths], axis=1)
    result = replace(run, state=state, epochs=epoch, records=records, history=paths, seconds=seconds)
    _warn(rows)
    return result


class _Block:
    """Epochs per call of the sampler: about half a second, so that a run can be watched and interrupted."""

    def __init__(self, most: int):
        self._most = max(1, most)
        self.epochs = min(256, self._most)

    def adapt(self, seconds: float) -> None:
        if seconds < 0.25:
            self.epochs = min(2 * self.epochs, self._most)
        elif seconds > 1.0:
            self.epochs = max(1, self.epochs // 2)


_initial_state = jax.jit(initial_state, static_argnums=0)


@partial(jax.jit, static_argnums=1)
def _chain_keys(seed: jax.Array, chains: int) -> Key:
    return fold_in(key_of(seed), jnp.arange(chains))


@partial(jax.jit, static_argnums=(0, 1))
def _advance(program: Program, mesh: Mesh, inputs: Inputs, state: State, stop: jax.Array) -> tuple[State, Tally]:
    return _each_device(mesh, partial(advance, program))(inputs, state, stop)


@partial(jax.jit, static_argnums=(0, 1, 5))
def _measure(
    program: Program, mesh: Mesh, inputs: Inputs, state: State, epoch: jax.Array, examples: int
) -> Measurement:
    return _each_device(mesh, partial(measure, program, examples=examples))(inputs, state, epoch)


def _each_device(mesh: Mesh, function: Callable[..., Any]) -> Callable[..., Any]:
    """Run `function` on every device for its own chains; devices never wait for each other."""
    chains, everywhere = PartitionSpec("chains"), PartitionSpec()
    inputs = Inputs(everywhere, everywhere, chains, everywhere)  # type: ignore[arg-type]
    return jax.shard_map(function, mesh=mesh, in_specs=(inputs, chains, everywhere), out_specs=chains, check_vma=False)


def _mesh(settings: Settings) -> Mesh:
    """As many devices as divide the chains evenly."""
    count = max(n for n in range(1, len(settings.devices) + 1) if settings.chains % n == 0)
    return Mesh(np.array(settings.devices[:count]), ("chains",))


def _program(target: Target, settings: Settings) -> Program:
    problem = target.problem
    return Program(
        problem.loss,
        problem.size,
        target.tau,
        settings.move,
        settings.test,
        settings.scan,
        target.schedule,
    )


def _spread(total: int, parts: int) -> np.ndarray:
    """`parts` marks at nearly equal distances, the last at `total`."""
    return np.unique(np.round(total * np.arange(1, parts + 1) / max(parts, 1)).astype(np.int64))


def _progress(epoch: int, row: Row, seconds: float) -> Progress:
    proposals = row.tally.proposals.sum()
    return Progress(
        epoch,
        seconds,
        float(row.measured.loss.mean()),
        float(row.tally.accepted.sum() / proposals),
        float(row.tally.examples.sum() / proposals),
        len(row.tally.proposals),
    )


def _warn(rows: list[Row]) -> None:
    current = int(sum(row.tally.reasons[:, Reason.CURRENT_NOT_FINITE].sum() for row in rows))
    unmeasured = int(sum((~np.isfinite(row.measured.loss)).sum() for row in rows))
    if current or unmeasured:
        warnings.warn(
            f"the loss of a current model was not finite on some examples: {current} decisions moved away from such a "
            f"model and {unmeasured} recorded losses are not finite; make the loss finite on all data.",
            RuntimeWarning,
            stacklevel=4,
        )
