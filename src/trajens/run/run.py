"""A run in memory: `sample` makes one, `Run` is its result and continues it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from trajens.acceptance import AcceptanceTest
from trajens.convergence import Converged
from trajens.errors import InputError, StorageError, integer, require
from trajens.host import own_errors
from trajens.precision import single
from trajens.records import MAX_EPOCHS, Records, num_records, warn_if_not_finite, warn_of_audits
from trajens.run.control import (
    RECORDS,
    Controller,
    FixedEpochs,
    count_marks,
    extend_marks,
    plan_marks,
)
from trajens.run.exchange import replicas_at_start
from trajens.run.identity import RunIdentity, describe_run
from trajens.run.log import Log
from trajens.run.loop import Loop, show_progress
from trajens.run.progress import Show, Stop, require_watchers
from trajens.run.state import RunState, first_run_state, is_common, unpack
from trajens.run.stored import Recorded, StoredRun, in_lines, summary_of
from trajens.run.tables import Summary
from trajens.run.until import controller_until
from trajens.sampling.footprint import require_room
from trajens.sampling.kernel import State, state_like
from trajens.sampling.program import Control
from trajens.sampling.sampler import Sampler, first_control, s_of
from trajens.sampling.settings import Settings, SettingsDict, default_burn_in, settings_of
from trajens.schedule import require_valid, settled
from trajens.storage.directory import RunDirectory, map_history
from trajens.target import Target


@dataclass(frozen=True)
class Run(Recorded):
    """The result of `sample`, and all that is needed to continue it.

    Attributes
    ----------
    target : Target
    settings : Settings
    controller : Controller
        What decides at every record how it goes on.
    run_state : RunState
        All that its next decision depends on: paths, control, epoch, marks, counts, evaluations spent.
    records : dict of arrays (chains, records)
        ``epoch``; ``loss`` per model on fresh data (or all of it) at that epoch, its sampling error ``loss_error``;
        and over the epochs since the record before: ``loss_deciding`` (the paper's estimate), ``acceptance``,
        ``batch_size``; ``data_used``, ``data_measured`` and ``data_audited`` (examples times models evaluated so far,
        to decide, measure and audit); ``tilt_error`` (the audited error of s, NaN where there was no audit), its
        standard error ``tilt_stderr`` and weight ``tilt_weight``, and ``force_1`` to ``3`` (what moves the mean model
        along three directions) with theirs; ``weight_rms`` (at that epoch), ``move_size`` (of tuned moves, else NaN),
        ``s``, ``projection_1`` to ``3`` (see `trajens.sampling.measure`), the counts of every reason for a decision,
        where paths are exchanged what `trajens.sampling.exchange` counts, and the records of one's own.
    """

    target: Target
    settings: Settings
    controller: Controller
    run_state: RunState
    records: Records
    kept: np.ndarray | None = None
    out: RunDirectory | None = None

    @property
    def state(self) -> State:
        """What the sampler goes on from."""
        return self.run_state.state

    @property
    def control(self) -> Control:
        """What may change between two records: tilt, burn-in, copies of examples, levels of s."""
        return self.run_state.control

    @property
    def burn_in(self) -> int:
        """The epoch at which averages begin, and nothing is adapted any more."""
        return self.control.burn_in

    @property
    def s(self) -> np.ndarray:
        """The tilt of every chain as it stands, (chains,)."""
        return s_of(self.target, self.control, self.epochs, self.settings.chains)

    @property
    def start_records(self) -> Records:
        """How the loss fell in a start that took pairs of losses, as arrays (chains, records); empty without one.

        ``data_used`` are the pairs of losses so far, and go on in those of `records`. Of an evolution strategy ``loss``
        is the mean, since the record before, over all models that it tried, on its minibatches; of a search for s it is
        that of the paths, beside ``s`` and ``loss_held_out``.
        """
        return self.run_state.start

    @property
    def search(self) -> np.ndarray:
        """What was found where s was searched for, see `trajens.run.search`."""
        return self.run_state.search

    @property
    def is_start_common(self) -> bool:
        """Whether several chains began at one model."""
        return self.run_state.is_start_common

    @property
    def paths(self) -> np.ndarray:
        """The last path of every chain, (chains, tau, dim)."""
        return np.asarray(self.state.path)

    @property
    def history(self) -> np.ndarray | None:
        """The path at every record, (chains, records, tau, dim), with ``keep_paths=True``; with `out`, on the disk."""
        return self.kept

    @property
    def epochs(self) -> int:
        """Epochs done."""
        return self.run_state.epoch

    @property
    def marks(self) -> np.ndarray:
        """The epochs at which is recorded, those to come included."""
        return self.run_state.marks

    @property
    def seconds(self) -> float:
        """Time spent sampling."""
        return self.run_state.seconds

    @property
    def is_complete(self) -> bool:
        """Whether all epochs asked for were done; False after a stop."""
        return self.run_state.is_complete

    def summary(self, chains: Any = None) -> Summary:
        """Plain numbers over the epochs after burn-in, averaged over all chains or those in `chains`, as a dict.

        ``loss_stderr``, ``acceptance_stderr`` and ``batch_size_stderr`` are standard errors over chains, by Student's
        t distribution, NaN for a single one. ``loss_mcse`` is that of the loss by the effective draws of all records;
        ``rhat`` and ``ess`` are the worst of what `convergence` finds, NaN where records are too few to say.
        """
        return summary_of(self.records, self.burn_in, self.epochs, self.seconds, chains)

    @property
    def description(self) -> dict[str, Any]:
        """How it samples what, in plain values."""
        return describe_run(self.target, self.settings, self.controller)

    def extend(
        self,
        epochs: int,
        records: int | None = None,
        progress: bool | Show = False,
        stop: Stop | None = None,
    ) -> Run:
        """Continue for `epochs` more; the same, bit for bit, as having asked for all of them at once.

        `epochs` are added to those done. `records` defaults to as many per epoch as after burn-in so far. A run with a
        directory goes on writing there.
        """
        require_watchers(progress, stop)
        out = None if self.out is None else self.out.again()
        with own_errors(self.target.problem), out or nullcontext():
            identity = RunIdentity(self.target, self.settings, self.controller)
            return _go_on(replace(self._extended(epochs, records), out=out), identity, progress, stop)

    def _extended(self, epochs: int, records: int | None = None) -> Run:
        return replace(self, run_state=replace(self.run_state, marks=extend_marks(self.marks, epochs, records)))

    def __repr__(self) -> str:
        return f"Run({self.target}, epochs={self.epochs}, chains={self.settings.chains}): {in_lines(self)}"


def sample(
    target: Target,
    epochs: int,
    *,
    initial: Any = None,
    records: int = RECORDS,
    progress: bool | Show = False,
    out: str | Path | RunDirectory | None = None,
    resume: bool = False,
    stop: Stop | None = None,
    until: str | Converged | None = None,
    max_epochs: int | None = None,
    test: AcceptanceTest | None = None,
    **settings: Unpack[SettingsDict],
) -> Run:
    """Sample paths from `target` with independent chains.

    Parameters
    ----------
    target : Target
    epochs : int
        Proposals per chain, burn-in included; with `until`, the fewest.
    initial : array, optional
        A model (dim,), a path (tau, dim) or paths (chains, tau, dim) to start from; default: the problem's own,
        or a random model, and a walk of steps sigma from it.
    records : int
        How often statistics are recorded. Of more than 1024 examples, measuring the loss takes about a tenth of what
        sampling reads at most: where there are many records, each uses fewer examples.
    progress : bool or callable
        True shows a progress bar on stderr; a callable is handed a `Progress` after every block.
    out : path or RunDirectory, optional
        A new directory for records and checkpoints, or one whose run goes on, see `resume`.
    resume : bool
        Go on with the run in `out`, bit for bit as if never interrupted, to the larger of `epochs`, which are those in
        all, and what it was asked for before; begin one where there is none. `tj.resume` and `Run.extend` add epochs.
    stop : callable, optional
        Asked after every block of about half a second; True saves and ends the run, see `Run.is_complete`. One that
        takes a parameter is handed the `Progress` so far, from the first record on.
    until : "converged" or Converged, optional
        Go on until the chains of every s agree and errors are small enough, see `Converged`; looked at after `epochs`
        and then whenever the run is half as long again. Averages leave out a fifth of it, or `burn_in` if more.
    max_epochs : int, optional
        The most, with `until`; a run that has not converged by then says so.
    test : AcceptanceTest, optional
        The name that `acceptance` had before; it still works, with a warning, in this version.
    **settings
        The fields of `Settings` by name: ``chains``, ``seed``, ``burn_in`` (default a fifth, or as long as a schedule
        of s needs to settle), ``move``, ``acceptance``, ``scan``, ``keep_paths``, ``devices``, ``ahead``, ``observe``,
        ``example_weights`` (how often examples are drawn, there called ``scores``), ``tune``, ``exchange``.

    Returns
    -------
    Run
    """
    epochs = integer("epochs", epochs, 1, "one epoch is one proposal", MAX_EPOCHS)
    directory = directory_of(out, resume)
    is_resumed = directory is not None and directory.resume
    given = {**renamed_settings(settings), "acceptance": _renamed(settings.get("acceptance"), test)}
    if given.get("burn_in") is None:
        given["burn_in"] = _default_burn_in(target, epochs, directory)
    how = settings_of(given).checked(target)
    fixed = FixedEpochs(how.burn_in, target.schedule)
    # One that is resumed may have been extended beyond max_epochs.
    controller = controller_until(fixed, until, max_epochs, 1 if is_resumed else epochs)
    recorded = count_marks(epochs, how.burn_in, records) * max(epochs, max_epochs or 0) // epochs
    require_room(target, how, recorded, directory is not None)
    marks = plan_marks(epochs, how.burn_in, records)
    require_valid(target.schedule, marks)

    def begin(sampler: Sampler, _: RunIdentity) -> RunState:
        if initial is None:
            # Paths of the user's are looked at before anything is compiled.
            sampler.compile_ahead()
        first = first_run_state(sampler.init(initial), sampler.control, marks)
        return replace(first, is_start_common=is_common(first.state.path))

    identity = RunIdentity(target, how, controller)
    return run_or_resume(identity, begin, directory, progress=progress, stop=stop, epochs=epochs)


def directory_of(out: str | Path | RunDirectory | None, resume: bool) -> RunDirectory | None:
    """The directory that `out` names or is, to go on with its run where that is asked for."""
    directory = RunDirectory.of(out)
    require(not resume or directory is not None, "resume must come with the directory of a run, got none; give out=.")
    if directory is None or not resume or directory.resume:
        return directory
    require(
        not isinstance(out, RunDirectory),
        "resume must be said once, got resume=True and a RunDirectory without it; give RunDirectory(.., resume=True).",
    )
    return RunDirectory(directory.path, resume=True)


def renamed_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by the names of their fields: ``example_weights`` are their ``scores``, the name they had before."""
    found = dict(given)
    if "scores" in found:
        require(
            "example_weights" not in found,
            "example_weights and scores must not both be given: scores is its old name; leave it out.",
        )
        message = "scores is now called example_weights, and its old name will go in the next version."
        warnings.warn(message, FutureWarning, stacklevel=4)
    if "example_weights" in found:
        found["scores"] = found.pop("example_weights")
    return found


def _default_burn_in(target: Target, epochs: int, directory: RunDirectory | None) -> int:
    """That of the run that is resumed; else a fifth, or as long as a schedule needs to settle."""
    if directory is not None and directory.resume and directory.files.has_checkpoint:
        return StoredRun.of(directory.files).asked_burn_in
    return max(default_burn_in(epochs), settled(Target.checked(target).schedule, epochs))


def run_or_resume(
    identity: RunIdentity,
    begin: Callable[[Sampler, RunIdentity], RunState],
    directory: RunDirectory | None,
    *,
    progress: bool | Show = False,
    stop: Stop | None = None,
    epochs: int = 0,
) -> Run:
    """Run from what `begin` makes of a sampler, or from what is in the directory; to `epochs` at least."""
    target, settings, controller = identity.target, identity.settings, identity.controller
    controller.check(target.s_of_chains(settings.chains))
    require_watchers(progress, stop)
    with own_errors(target.problem), directory or nullcontext():
        run = None if directory is None or not directory.resume else restore(identity, directory)
        sampler = None
        if run is None:
            sampler = Sampler(target, settings)
            run = Run(target, settings, controller, begin(sampler, identity), {}, out=directory)
        if epochs > run.marks[-1]:
            run = run._extended(epochs - int(run.marks[-1]))
        return _go_on(run, identity, progress, stop, sampler)


def _go_on(
    run: Run,
    identity: RunIdentity,
    progress: bool | Show,
    stop: Stop | None,
    sampler: Sampler | None = None,
) -> Run:
    """Go on to the last mark, or until `stop` says so; what was sampled is saved whatever happens."""
    if run.is_complete:
        return run
    sampler = Sampler(run.target, run.settings) if sampler is None else sampler
    log = Log(run.records, run.kept, run.out, run.settings.keep_paths)
    now = first = replace(run.run_state, state=sampler.place(run.state))
    sampler.compile_ahead()
    log.begin(now, identity)
    try:
        with own_errors(run.target.problem), show_progress(progress, now, log, run.controller) as show:
            for now in Loop(sampler, run.controller, log).iterate(first, stop):
                show(now, run.seconds)
                log.save_if_due(now)
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
    warn_of_audits(records, now.control.burn_in, run.settings.acceptance.tolerance)
    if now.is_complete:
        run.controller.warn_at_end(records, now.control.burn_in)
    return replace(run, run_state=now, records=records, kept=log.history(now.recorded))


def restore(identity: RunIdentity, directory: RunDirectory) -> Run | None:
    """Return the run in a directory, or None if nothing was saved there yet."""
    if not directory.files.has_checkpoint:
        return None
    target, settings, stored = identity.target, identity.settings, StoredRun.of(directory.files)
    stored.require_same(identity.description)
    if identity.fingerprint is not None:
        stored.require_network(identity.fingerprint.network)
    files = directory.restore()
    StoredRun.of(files).warn_of_another_machine(target.problem)
    state = unpack(files.arrays, _state_like(target, settings), files.marks)
    kept = map_history(directory.path, state.recorded) if settings.keep_paths else None
    return Run(
        target=target,
        settings=settings,
        controller=identity.controller,
        run_state=state,
        records=files.records_until(state.recorded),
        kept=kept,
        out=directory,
    )


def _state_like(target: Target, settings: Settings) -> RunState:
    """The state of such a run at its beginning."""
    program = settings.program(target)
    state = single(state_like)(program, settings.chains, target.problem.dim)
    run = first_run_state(state, first_control(target, settings), np.zeros(1, np.int64))
    return replace(run, replicas=replicas_at_start(settings, program))


def _renamed(acceptance: AcceptanceTest | None, test: AcceptanceTest | None) -> AcceptanceTest | None:
    """`acceptance`, also under the name it had before."""
    if test is None:
        return acceptance
    if acceptance is not None:
        raise InputError("acceptance must be given once, got test too, its old name; leave test out.")
    warnings.warn("test= is now called acceptance=, and will go in the next version.", FutureWarning, stacklevel=3)
    return test
