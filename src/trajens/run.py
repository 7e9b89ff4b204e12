"""A run: epochs, burn-in, recording, progress, stopping and resuming around the sampler. No physics here."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from trajens.acceptance import AcceptanceTest
from trajens.convergence import Converged
from trajens.errors import InputError, StorageError, integer
from trajens.moves import Proposer
from trajens.onward import shown, standings
from trajens.precision import single
from trajens.progress import Show
from trajens.recorded import Recorded
from trajens.records import Records, num_records, warn_if_not_finite, warn_of_tilt
from trajens.sampling import marks
from trajens.sampling.adapted import MAX_EPOCHS, Adapted
from trajens.sampling.devices import Sampler, s_of
from trajens.sampling.footprint import require_room
from trajens.sampling.ladder import Exchange
from trajens.sampling.replicas import first_replicas
from trajens.sampling.sampler import State, state_like
from trajens.sampling.settings import Observable, Settings, default_burn_in
from trajens.sampling.until import UntilConverged, course_until
from trajens.scan import Scan
from trajens.schedule import require_valid, settled
from trajens.storage.directory import RunDirectory
from trajens.storage.identity import identity_of
from trajens.storage.logbook import Logbook
from trajens.storage.standing import Standing
from trajens.storage.stored import summary_of
from trajens.storage.witness import witness_of
from trajens.target import Target


@dataclass(frozen=True)
class Run(Recorded):
    """The result of `sample`, and all that is needed to continue it.

    Attributes
    ----------
    target : Target
    settings : Settings
    standing : Standing
        Where it stands: state, epoch, marks, what was counted since the last record, seconds.
    records : dict of arrays (chains, records)
        ``epoch``; ``loss`` per model on fresh data (or all of it) at that epoch, its sampling error ``loss_error``;
        and over the epochs since the record before: ``loss_deciding`` (the paper's estimate), ``acceptance``,
        ``batch_size``; ``data_used``, ``data_measured`` and ``data_audited`` (examples times models evaluated so far,
        to decide, measure and audit); ``tilt_error`` (the audited error of s, NaN where there was no audit), its
        standard error ``tilt_stderr`` and weight ``tilt_weight``; ``weight_rms`` (at that epoch), ``move_size`` (of
        tuned moves, else NaN), ``s``, ``projection_1`` to ``3`` (see `trajens.sampling.projections`), the counts of
        every reason for a decision, where paths are exchanged what `trajens.sampling.replicas` counts, and the records
        of one's own.
    """

    target: Target
    settings: Settings
    standing: Standing
    records: Records
    kept: np.ndarray | None = None
    out: RunDirectory | None = None

    @property
    def state(self) -> State:
        """What the sampler goes on from."""
        return self.standing.state

    @property
    def adapted(self) -> Adapted:
        """What was adapted between records."""
        return self.standing.adapted

    @property
    def burn_in(self) -> int:
        """The epoch at which averages begin, and nothing is adapted any more."""
        return self.adapted.burn_in

    @property
    def s(self) -> np.ndarray:
        """The tilt of every chain as it stands, (chains,)."""
        return s_of(self.target, self.adapted, self.epochs, self.settings.chains)

    @property
    def start_records(self) -> Records:
        """How the loss fell in a start by evolution, as arrays (chains, records); empty where there was none.

        ``data_used`` are the pairs of losses so far, and go on in those of `records`; ``loss`` is the mean, since the
        record before, over all models that the strategy tried, on its minibatches.
        """
        return self.standing.start

    @property
    def paths(self) -> np.ndarray:
        """The last path of every chain, (chains, tau, dim)."""
        return np.asarray(self.state.path)

    @property
    def history(self) -> np.ndarray | None:
        """The path at every record, (chains, records, tau, dim), with ``keep_paths=True``; with `out`, on the disk."""
        return self.kept if self.out is None else self.out.history

    @property
    def epochs(self) -> int:
        """Epochs done."""
        return self.standing.epoch

    @property
    def marks(self) -> np.ndarray:
        """The epochs at which is recorded, those to come included."""
        return self.standing.marks

    @property
    def seconds(self) -> float:
        """Time spent sampling."""
        return self.standing.seconds

    @property
    def is_complete(self) -> bool:
        """Whether all epochs asked for were done; False after a stop."""
        return self.standing.is_complete

    def summary(self, chains: Any = None) -> dict[str, Any]:
        """Plain numbers over the epochs after burn-in, averaged over all chains or those in `chains`.

        ``loss_stderr``, ``acceptance_stderr`` and ``batch_size_stderr`` are standard errors over chains, NaN for a
        single one. ``loss_mcse`` is that of the loss by the effective draws of all records; ``rhat`` and ``ess`` are
        the worst of what `convergence` finds, NaN where records are too few to say.
        """
        return summary_of(self.records, self.burn_in, self.epochs, self.seconds, chains)

    def extend(
        self,
        epochs: int,
        records: int | None = None,
        progress: bool | Show = False,
        stop: Callable[[], bool] | None = None,
    ) -> Run:
        """Continue for `epochs` more; the same, bit for bit, as having asked for all of them at once.

        `records` defaults to as many per epoch as after burn-in so far. A run with a directory goes on writing there.
        """
        out = None if self.out is None else self.out.again()
        with out or nullcontext():
            return _run(replace(self._extended(epochs, records), out=out), progress, stop)

    def _extended(self, epochs: int, records: int | None = None) -> Run:
        return replace(self, standing=replace(self.standing, marks=marks.extended(self.marks, epochs, records)))

    def __repr__(self) -> str:
        return f"Run({self.target}, epochs={self.epochs}, chains={self.settings.chains})"


def sample(
    target: Target,
    epochs: int,
    chains: int = Settings.chains,
    seed: int | Sequence[int] = Settings.seed,
    burn_in: int | None = None,
    move: Proposer | None = None,
    acceptance: AcceptanceTest | None = None,
    scan: str | Scan = Settings.scan,
    initial: Any = None,
    records: int = marks.RECORDS,
    keep_paths: bool = Settings.keep_paths,
    progress: bool | Show = False,
    devices: Sequence[jax.Device] | None = None,
    out: str | Path | RunDirectory | None = None,
    stop: Callable[[], bool] | None = None,
    ahead: int = Settings.ahead,
    observe: Mapping[str, Observable] | None = None,
    scores: str | np.ndarray | None = None,
    tune: bool = Settings.tune,
    exchange: Exchange | int | bool | None = None,
    until: str | Converged | None = None,
    max_epochs: int | None = None,
    test: AcceptanceTest | None = None,
) -> Run:
    """Sample paths from `target` with independent chains.

    Parameters
    ----------
    target : Target
    epochs : int
        Proposals per chain, burn-in included; with `until`, the fewest.
    chains : int
        Independent chains; they run in one compiled program, spread over the devices JAX sees.
    seed : int in 0..2**32 - 1, or one for every chain
        See `Settings`; chains of one seed have the random numbers of a run with that seed.
    burn_in : int, optional
        Epochs left out of `Run.summary`; default a fifth, or as long as a schedule of s needs to settle. Tests that
        adapt do so until then; with 0 they adapt throughout.
    move : Move or Mixture
        Default ``SingleSite()``, which redraws all of few parameters and a quarter of many.
    acceptance : AcceptanceTest
        Default ``Penalty()``.
    scan : "checkerboard", "random" or a Scan
    initial : array, optional
        A model (dim,), a path (tau, dim) or paths (chains, tau, dim) to start from; default: the problem's own,
        or a random model, and a walk of steps sigma from it.
    records : int
        How often statistics are recorded. Of more than 1024 examples, measuring the loss takes about a tenth of what
        sampling reads at most: where there are many records, each uses fewer examples.
    keep_paths : bool
        Keep the path at every record in ``Run.history``; with `out`, on the disk and not in memory.
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
        Chunks of a minibatch that are evaluated at once, see `Settings`.
    observe : dict of functions, optional
        Records of one's own, ``{"name": function of a path (tau, dim)}``, see `Settings`.
    scores : "losses" or array (N,), optional
        How often examples are drawn for a decision, up to a factor, see `Settings`; the law stays that of the data.
    tune : bool
        Let moves tune their sizes in burn-in, unless they are given.
    exchange : Exchange, int or True, optional
        Exchange paths between chains at neighbouring s, every so many epochs, see `trajens.Exchange`; chains of one s
        are then independent of each other, those of different s are not.
    until : "converged" or Converged, optional
        Go on until the chains of every s agree and errors are small enough, see `Converged`; looked at after `epochs`
        and then whenever the run is half as long again. Averages leave out a fifth of it, or `burn_in` if more.
    max_epochs : int, optional
        The most, with `until`; a run that has not converged by then says so.
    test : AcceptanceTest, optional
        The name that `acceptance` had before; it still works, with a warning, in this version.

    Returns
    -------
    Run
    """
    epochs = integer("epochs", epochs, 1, "one epoch is one proposal", MAX_EPOCHS)
    directory = RunDirectory(out) if isinstance(out, (str, Path)) else out
    if burn_in is None and directory is not None and directory.resume and directory.stored.has_checkpoint:
        burn_in = directory.stored.asked_burn_in
    if burn_in is None:
        burn_in = max(default_burn_in(epochs), settled(Target.checked(target).schedule, epochs))
    given: dict[str, Any] = {
        "move": move,
        "acceptance": _renamed(acceptance, test),
        "devices": devices,
        "observe": observe,
        "scores": scores,
    }
    settings = Settings(
        chains=chains,
        seed=seed,
        burn_in=burn_in,
        scan=scan,
        keep_paths=keep_paths,
        ahead=ahead,
        tune=tune,
        exchange=exchange,
        course=course_until(until, max_epochs, epochs, directory is not None and directory.resume),
        **{name: value for name, value in given.items() if value is not None},
    ).checked(target)
    recorded = marks.count(epochs, settings.burn_in, records) * max(epochs, max_epochs or 0) // epochs
    require_room(target, settings, recorded, directory is not None)
    plan = marks.planned(epochs, settings.burn_in, records)
    require_valid(target.schedule, plan)

    def begin(sampler: Sampler) -> Standing:
        if initial is None:
            # Paths of the user's are looked at before anything is compiled.
            sampler.compile_ahead()
        return Standing(sampler.init(initial), 0, plan, adapted=sampler.adapted)

    return carried_out(target, settings, directory, begin, progress, stop, epochs)


def carried_out(
    target: Target,
    settings: Settings,
    directory: RunDirectory | None,
    begin: Callable[[Sampler], Standing],
    progress: bool | Show = False,
    stop: Callable[[], bool] | None = None,
    epochs: int = 0,
) -> Run:
    """The run that goes on from `begin`, or from what is in its directory; to `epochs` at least."""
    with directory or nullcontext():
        run = None if directory is None or not directory.resume else restored(target, settings, directory)
        sampler = None
        if run is None:
            sampler = Sampler(target, settings)
            run = Run(target, settings, begin(sampler), {}, None, directory)
        if epochs > run.marks[-1]:
            run = run._extended(epochs - int(run.marks[-1]))
        return _run(run, progress, stop, sampler)


def _run(run: Run, progress: bool | Show, stop: Callable[[], bool] | None, sampler: Sampler | None = None) -> Run:
    """Advance to each mark in turn and record there, until the last one or until `stop` says so."""
    if run.is_complete:
        return run
    sampler = Sampler(run.target, run.settings) if sampler is None else sampler
    sampler.adapt(run.adapted)
    log = Logbook(run.records, run.kept, run.out, run.settings.keep_paths)
    now = first = replace(run.standing, state=sampler.place(run.state))
    sampler.compile_ahead()
    if run.out is None:
        log.begin(now, {})
    else:
        log.begin(now, identity_of(run.target, run.settings), witness_of(run.target.problem))
    try:
        with shown(progress, now, log, run.settings.course) as show:
            for now in standings(first, sampler, log, stop):
                show(now, run.seconds)
                log.save(now, is_due=False)
    except KeyboardInterrupt:
        warnings.warn(f"interrupted at epoch {now.epoch}: this is the run up to there; extend it.", stacklevel=3)
    except StorageError:
        raise
    except BaseException:
        # Whatever it was, what has been sampled is not lost by it.
        log.save(now)
        raise
    log.save(now)
    records = {name: values[:, : now.recorded] for name, values in log.records.items()}
    warn_if_not_finite(records, num_records(run.records))
    warn_of_tilt(records, now.adapted.burn_in, getattr(run.settings.acceptance, "tolerance", None))
    if isinstance(run.settings.course, UntilConverged) and now.is_complete:
        run.settings.course.warn_if_lacking(records, now.adapted.burn_in)
    return replace(run, standing=now, records=records, kept=log.history(now.recorded))


def restored(target: Target, settings: Settings, directory: RunDirectory) -> Run | None:
    """The run in a directory, or None if nothing was saved there yet."""
    like = single(state_like)(settings.program(target), settings.chains, target.problem.dim)
    exchange, replicas = settings.exchange, None
    if isinstance(exchange, Exchange):
        program = settings.program(target)
        replicas = first_replicas(settings.chains, exchange.test(program), program.counts_steps)
    found = directory.restore(like, lambda: identity_of(target, settings), witness_of(target.problem), replicas)
    return None if found is None else Run(target, settings, *found, None, directory)


def _renamed(acceptance: AcceptanceTest | None, test: AcceptanceTest | None) -> AcceptanceTest | None:
    """`acceptance`, also under the name it had before."""
    if test is None:
        return acceptance
    if acceptance is not None:
        raise InputError("acceptance must be given once, got test too, its old name; leave test out.")
    warnings.warn("test= is now called acceptance=, and will go in the next version.", FutureWarning, stacklevel=3)
    return test
