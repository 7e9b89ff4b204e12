"""Loop of a run: blocks of epochs up to the next mark, and a record there.

At a record the path is measured, the controller says how to go on, example weights and the ladder of s are adapted,
the run is audited, and all of it is written down. Every step is a function of the state of the run before it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from trajens.columns import PROJECTIONS
from trajens.host import External
from trajens.problem import NOISE
from trajens.records import MAX_EPOCHS, Records, chains_by_s, is_beyond, learning_curve, spreads
from trajens.run.audits import Auditor, Occasion, largest_batch, tolerance_of
from trajens.run.control import Budget, Controller, RecordInfo, Update
from trajens.run.exchange import Exchanger, replicas_at_start
from trajens.run.log import Log
from trajens.run.progress import Progress, ProgressBar, Show, Stop, takes_progress
from trajens.run.record import AuditTerms, Observation, make_record
from trajens.run.search import predictive_loss
from trajens.run.state import RunState, Spent
from trajens.sampling.exchange import Replicas
from trajens.sampling.lanes import add_tallies, no_tally
from trajens.sampling.measure import (
    HELD_OUT_EXAMPLES,
    Measurement,
    examples_per_measurement,
    losses_of_each,
    mean_losses,
)
from trajens.sampling.program import Control, Program
from trajens.sampling.sampler import Sampler, reweight
from trajens.sampling.tuning import mean_sizes, share_renewed


class Blocks:
    """The size of the next block, from how long the last ones took."""

    def __init__(self, program: Program):
        # Never fewer than would leave some lanes idle throughout. A chain counts its evaluations in 32 bits: no more
        # than surely fit.
        self._least = program.lanes
        self._most = max(self._least, MAX_EPOCHS // (program.population.most * program.span))
        # One evaluation of a host function may take long: nothing is saved, and no Ctrl-C heard, inside a block.
        first = self._least if isinstance(program.loss, External) else 256
        self.epochs = min(max(first, self._least), self._most)

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Adapt to how long the block inside takes."""
        begin = time.perf_counter()
        yield
        self.adapt(time.perf_counter() - begin)

    def adapt(self, seconds: float) -> None:
        """Double or halve towards half a second."""
        if seconds < 0.25:
            self.epochs = min(2 * self.epochs, self._most)
        elif seconds > 1.0:
            self.epochs = max(self._least, self.epochs // 2)


class Pace:
    """How many pairs of losses a second a run does, since the first record of its loop: before, it compiles."""

    def __init__(self) -> None:
        self._first: tuple[float, float] | None = None

    def rate(self, seconds: float, pairs: float) -> float:
        """At this moment, after so many seconds and pairs per chain; NaN at the first record."""
        begun, before = self._first = (seconds, pairs) if self._first is None else self._first
        return (pairs - before) / (seconds - begun) if seconds > begun and pairs > before else math.nan


class Loop:
    """Loop of one run over its marks.

    Parameters
    ----------
    sampler : Sampler
    controller : Controller
        Decides at every record how the run goes on.
    log : Log
        Where records are written down.
    """

    def __init__(self, sampler: Sampler, controller: Controller, log: Log):
        self.sampler, self.controller, self.log = sampler, controller, log
        self._blocks, self._auditor = Blocks(sampler.program), Auditor(sampler)
        self._exchanger = None if sampler.settings.exchange is None else Exchanger(sampler)
        self._pace = Pace()

    def iterate(self, run: RunState, stop: Stop | None = None) -> Iterator[RunState]:
        """Yield the state of the run after every block and every record, until its last mark or until `stop` is True.

        The result does not depend on how epochs are divided into blocks.
        """
        began, earlier = time.perf_counter() - run.seconds, run.seconds
        is_asked = self._asking(stop, earlier)
        if run.replicas is None:
            run = replace(run, replicas=replicas_at_start(self.sampler.settings, self.sampler.program))
        while not run.is_complete:
            is_stopped, mark = False, int(run.marks[run.recorded])
            while run.epoch < mark and not is_stopped:
                run = replace(self._advance_block(run, mark), seconds=time.perf_counter() - began)
                is_stopped = is_asked(run)
                # At a mark the record comes first, so that no checkpoint lies between the two.
                if run.epoch < mark:
                    yield run
            if run.epoch == mark:
                run = replace(run, seconds=time.perf_counter() - began)
                run = replace(self._record(run), seconds=time.perf_counter() - began)
                yield run
            if is_stopped:
                return

    def _asking(self, stop: Any, earlier: float) -> Callable[[RunState], bool]:
        """Whether to stop, asked of a function of nothing, or of the `Progress`, from the first record on."""
        if stop is None:
            return lambda run: False
        if not takes_progress(stop):
            return lambda run: bool(stop())

        def asked(run: RunState) -> bool:
            last = self.log.last
            return last is not None and bool(stop(progress_of(run, last, run.seconds - earlier)))

        return asked

    def _advance_block(self, run: RunState, mark: int) -> RunState:
        """Advance by a block, at most to `mark`, with the exchanges that are due on the way."""
        exchanger, last = self._exchanger, min(mark, run.epoch + self._blocks.epochs)
        with self._blocks.timed():
            while run.epoch < last:
                epoch = last if exchanger is None else min(last, exchanger.next_exchange(run.epoch))
                state, tally = self.sampler.advance_to(run.state, epoch, run.control)
                counted = add_tallies(run.tally, jax.tree.map(np.asarray, tally))
                run = replace(run, state=state, epoch=epoch, tally=counted)
                if exchanger is not None and run.replicas is not None:
                    state, replicas = exchanger.exchange_if_due(run.state, run.replicas, epoch, run.control)
                    run = replace(run, state=state, replicas=replicas)
        return run

    def _record(self, run: RunState) -> RunState:
        """Measure at a mark, adapt, audit, write it down, and count from 0 again.

        The record tells of the epochs before, with the control they were sampled with; `control` is the one from here
        on, for which the audit is made and batches are planned.
        """
        sampler, tau = self.sampler, self.sampler.target.tau
        since = float(np.mean(run.tally.evaluations))
        examples = examples_per_measurement(sampler.target.problem.population.size, tau, since)
        measured = sampler.measure_at(run.state, run.epoch, examples, run.control)
        held_out = self._measure_held_out(run)
        update = self.controller.update(self._describe(run, measured, held_out), run.control)
        control, evaluations = update.control, examples * tau
        if update.is_reweighting and sampler.settings.is_reweighting:
            control, read = reweight(sampler, run.state, control, run.pairs_used)
            evaluations += read
        control, replicas = self._adapt_ladder(run, control, update)
        occasion = Occasion(
            run.epoch,
            control,
            run.pairs_used,
            float(np.mean(run.spent.audited)),
            is_first=run.last_audit <= control.burn_in,
            is_last=run.is_at_last_mark and not update.marks,
            spreads=self._spreads() if update.is_planning else None,
        )
        state, audit = self._auditor.audit_if_due(run.state, occasion, update)
        audited = (0, 0) if audit is None else (audit.evaluations, audit.steps)
        spent = run.spent.plus(run.tally, evaluations, np.asarray(measured.steps, np.int64), *audited)
        found = self._observe(run, measured, held_out, spent, audit, replicas)
        self.log.add(run.recorded, make_record(run, found), run.state.path)
        more = np.array(update.marks if run.is_at_last_mark else (), run.marks.dtype)
        return replace(
            run,
            state=state,
            control=control,
            marks=np.concatenate([run.marks, more]),
            tally=no_tally(len(run.tally.proposals)),
            spent=spent,
            recorded=run.recorded + 1,
            settled_pairs=min(run.settled_pairs, run.pairs_used) if update.is_settled else run.settled_pairs,
            clock_pairs=update.clock_pairs,
            search=run.search if update.search is None else update.search,
            last_audit=run.epoch if audit is not None and audit.has_found else run.last_audit,
            replicas=None if replicas is None else replicas.from_now(),
        )

    def _spreads(self) -> np.ndarray | None:
        """Standard deviations (chains, directions) of the projections in the later half of the records."""
        records = self.log.records
        if not records:
            return None
        epochs = records["epoch"][0]
        found = np.full((len(records["s"]), len(PROJECTIONS)), np.nan)
        for _, chains in chains_by_s(records["s"][:, -1]):
            of_chains = {name: values[chains] for name, values in records.items()}
            found[chains] = spreads(of_chains, 2 * epochs >= epochs[-1])
        return found

    def _measure_held_out(self, run: RunState) -> np.ndarray | None:
        """Mean loss (chains,) of the models of each path on examples that are held out, if there are some."""
        problem = self.sampler.target.problem.held_out
        if problem is None:
            return None
        return np.asarray(mean_losses(problem, np.asarray(run.state.path), HELD_OUT_EXAMPLES).mean(1))

    def _predict_held_out(self, run: RunState) -> float:
        """Log loss of all models together on examples that are held out, as long as s is searched for by it."""
        problem, controller = self.sampler.target.problem.held_out, self.controller
        is_asked = isinstance(controller, Budget) and controller.is_search
        if problem is None or not is_asked or run.settled_pairs < math.inf:
            return math.nan
        losses = losses_of_each(problem, np.asarray(run.state.path), HELD_OUT_EXAMPLES)
        return predictive_loss(losses, problem.likelihood == NOISE)

    def _describe(self, run: RunState, measured: Measurement, held_out: np.ndarray | None) -> RecordInfo:
        """What the controller is told."""
        settings = self.sampler.settings
        before = 0 if run.recorded == 0 else int(run.marks[run.recorded - 1])

        def records() -> Records:
            found = self._observe(run, measured, held_out, run.spent.plus(run.tally, 0, 0), None, run.replicas)
            return self.log.records_and(make_record(run, found))

        return RecordInfo(
            epoch=run.epoch,
            epochs=run.epoch - before,
            pairs_used=run.pairs_used,
            start_pairs=run.start_pairs,
            pairs=float(np.mean(run.tally.evaluations)),
            renewals=float(self._renewals(run).mean()),
            loss=float(np.mean(measured.loss)),
            loss_error=float(np.sqrt(np.sum(np.square(measured.loss_error)))) / settings.chains,
            recorded=run.recorded_after_burn_in,
            marks=run.marks,
            reference_loss=run.reference_loss,
            held_out_loss=math.nan if held_out is None else float(held_out.mean()),
            predictive_loss=self._predict_held_out(run),
            search=run.search,
            settled_pairs=run.settled_pairs,
            clock_pairs=run.clock_pairs,
            seconds=run.seconds,
            rate=self._pace.rate(run.seconds, run.pairs_used),
            records=records,
            growth=lambda: self._growth(run),
            is_beyond=lambda: is_beyond(self.log.records, run.control.burn_in, settings.acceptance.tolerance),
        )

    def _renewals(self, run: RunState) -> np.ndarray:
        """How often every chain (chains,) has renewed its path since the record before."""
        target = self.sampler.target
        share = share_renewed(run.state.sizes, self.sampler.program.move, target.problem.dim)
        return share * np.asarray(run.tally.accepted, np.float64) / target.tau

    def _growth(self, run: RunState) -> float:
        """How many times as many examples a decision reads where the factor of s is 1."""
        then, now = (
            largest_batch(self.sampler, run.state, run.epoch, control)
            for control in (run.control._replace(tilt=1.0), run.control)
        )
        return then / now

    def _observe(
        self,
        run: RunState,
        measured: Measurement,
        held_out: np.ndarray | None,
        spent: Spent,
        audit: AuditTerms | None,
        replicas: Replicas | None,
    ) -> Observation:
        """What was found at a mark."""
        sampler = self.sampler
        return Observation(
            s=sampler.s_at(run.epoch, run.control),
            sizes=mean_sizes(run.state.sizes, sampler.settings.move, sampler.settings.chains),
            renewals=self._renewals(run),
            measured=measured,
            held_out=held_out,
            spent=spent,
            audit=audit,
            replicas=replicas,
            is_capped=sampler.target.problem.population.limit is not None,
            counts_steps=sampler.program.counts_steps,
        )

    def _adapt_ladder(self, run: RunState, control: Control, update: Update) -> tuple[Control, Replicas | None]:
        """Move the levels of exchanges, and plan their batches, where that is due."""
        replicas, exchanger = run.replicas, self._exchanger
        if exchanger is None or replicas is None or not update.is_planning:
            return control, replicas
        if run.epoch < control.burn_in:
            control, replicas = exchanger.space(replicas, control)
        tolerance, used = tolerance_of(exchanger.test, update), run.pairs_used
        return control, exchanger.plan(run.state, replicas, run.epoch, control, tolerance, used)


def progress_of(run: RunState, last: Records, seconds: float) -> Progress:
    """The last record, and what was counted since."""
    loss, tally = last["loss"][:, -1], run.tally
    acceptance, batch = float(last["acceptance"][:, -1].mean()), float(last["batch_size"][:, -1].mean())
    proposals = int(np.sum(tally.proposals))
    if proposals:
        acceptance, batch = float(np.sum(tally.accepted) / proposals), float(np.sum(tally.examples) / proposals)
    phase = "burn-in" if run.epoch < run.control.burn_in else "sampling"
    steps = tuple(int(n) for n in last["steps_used"][:, -1]) if "steps_used" in last else ()
    used = int(run.spent.decided.sum() + np.sum(tally.evaluations))
    return Progress(
        epoch=run.epoch,
        seconds=seconds,
        loss=float(loss.mean()),
        acceptance=acceptance,
        batch_size=batch,
        data_used=used,
        chains=len(loss),
        phase=phase,
        steps_used=steps,
    )


def _pairs_of(budget: Budget, run: RunState) -> float:
    """Pairs of losses per chain that a run on a budget takes, as far as is known."""
    return run.clock_pairs if math.isfinite(run.clock_pairs) else budget.pairs


@contextmanager
def show_progress(
    progress: bool | Show, run: RunState, log: Log, controller: Controller
) -> Iterator[Callable[[RunState, float], None]]:
    """A function that tells how far a run is; the bar it may draw is closed at the end."""
    bar: Any = progress
    if progress is True and isinstance(controller, Budget):
        earlier = np.transpose(learning_curve(run.start, log.records)).tolist()
        used = float(np.mean(run.spent.decided))
        bar = ProgressBar(_pairs_of(controller, run), used, curve=True, unit="pairs", earlier=earlier)
    elif progress is True:
        bar = ProgressBar(int(run.marks[-1]), run.epoch, curve=True)

    def show(run: RunState, before: float) -> None:
        if isinstance(bar, ProgressBar) and not isinstance(controller, Budget):
            bar.aim(int(run.marks[-1]))
        if isinstance(bar, ProgressBar) and isinstance(controller, Budget):
            bar.aim(int(_pairs_of(controller, run)))
        if bar and log.last is not None:
            bar(progress_of(run, log.last, run.seconds - before))

    try:
        yield show
    finally:
        if isinstance(bar, ProgressBar):
            bar.close()
