"""From one record of a run to the next: blocks of epochs, then measuring, auditing, adapting and writing down."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from trajens.progress import Progress, ProgressBar, Show
from trajens.records import Records, learning_curve
from trajens.sampling import auditing
from trajens.sampling.blocks import Blocks
from trajens.sampling.course import ByData, ByEpochs, Course, Passed
from trajens.sampling.devices import Sampler
from trajens.sampling.exchanging import Exchanger
from trajens.sampling.measure import examples_per_measurement
from trajens.sampling.recording import Terms, record, total
from trajens.sampling.replicas import Replicas
from trajens.sampling.scoring import rescored
from trajens.sampling.sizes import mean_sizes, share_renewed
from trajens.storage.logbook import Logbook
from trajens.storage.standing import Standing


def standings(now: Standing, sampler: Sampler, log: Logbook, stop: Callable[[], bool] | None) -> Iterator[Standing]:
    """Where a run stands after every block and after every record."""
    blocks, began = Blocks(sampler.program), time.perf_counter() - now.seconds
    settings, auditor = sampler.settings, auditing.Auditor(sampler)
    exchanger = None if settings.exchange is None else Exchanger(sampler)
    if exchanger is not None and now.replicas is None:
        now = replace(now, replicas=exchanger.begin())
    planned = ByEpochs.over(now.marks, settings.burn_in, sampler.target.schedule)
    course = planned if settings.course is None else settings.course.beside(planned)
    while not now.is_complete:
        is_stopped, mark = False, now.marks[now.recorded]
        while now.epoch < mark and not is_stopped:
            now = replace(_advanced(now, sampler, exchanger, blocks, int(mark)), seconds=time.perf_counter() - began)
            is_stopped = stop is not None and stop()
            if now.epoch < mark:
                yield now
        if now.epoch == mark:
            now = replace(_recorded(now, sampler, course, auditor, exchanger, log), seconds=time.perf_counter() - began)
            yield now
        if is_stopped:
            return


def _advanced(now: Standing, sampler: Sampler, exchanger: Exchanger | None, blocks: Blocks, mark: int) -> Standing:
    """A block further, at most to `mark`, with the exchanges that are due on the way."""
    last = min(mark, now.epoch + blocks.epochs)
    with blocks.timed():
        while now.epoch < last:
            epoch = last if exchanger is None else min(last, exchanger.following(now.epoch))
            state, tally = sampler.advance_to(now.state, epoch)
            counted = jax.tree.map(np.asarray, tally)
            pending = total([counted] if now.pending is None else [now.pending, counted])
            now = replace(now, state=state, epoch=epoch, pending=pending)
            if exchanger is not None:
                assert now.replicas is not None
                state, replicas = exchanger.at(now.state, now.replicas, epoch)
                now = replace(now, state=state, replicas=replicas)
    return now


def _recorded(
    now: Standing,
    sampler: Sampler,
    course: Course,
    auditor: auditing.Auditor,
    exchanger: Exchanger | None,
    log: Logbook,
) -> Standing:
    """Measure and audit at a mark, write it down, adapt and count from 0 again."""
    pending, target, used = now.pending, sampler.target, log.used
    assert pending is not None
    so_far, spent = float(np.mean(pending.evaluations + used.data)), float(np.mean(pending.evaluations))
    s, sizes = sampler.s_at(now.epoch), mean_sizes(now.state.sizes, sampler.settings.move, sampler.settings.chains)
    examples = examples_per_measurement(target.problem.population.size, target.tau, spent)
    measured = sampler.measure_at(now.state, now.epoch, examples)
    share = share_renewed(now.state.sizes, sampler.settings.move, target.problem.dim)
    before = 0 if now.recorded == 0 else int(now.marks[now.recorded - 1])
    is_capped, counts_steps = target.problem.population.limit is not None, sampler.program.counts_steps

    def found(evaluations: int = 0, audited: Terms | None = None, replicas: Replicas | None = now.replicas) -> Records:
        exchanged = {} if replicas is None else {name: column[:, None] for name, column in replicas.columns.items()}
        own = record(now.epoch, pending, s, sizes, measured, evaluations, audited, used, is_capped, counts_steps)
        return {**own, **exchanged}

    passed = Passed(
        now.epoch,
        now.epoch - before,
        so_far,
        now.begun,
        spent,
        share * float(np.mean(pending.accepted)) / target.tau,
        float(np.mean(measured.loss)),
        float(np.sqrt(np.sum(np.square(measured.loss_error)))) / len(s),
        log.recorded_after(now.adapted.burn_in),
        now.recorded + 1 == len(now.marks),
        lambda: log.records_and(found()),
    )
    turn = course.turn(passed, now.adapted)
    adapted, evaluations = turn.adapted, examples * target.tau
    if turn.is_scoring and sampler.settings.is_scoring:
        adapted, scored = rescored(sampler, now.state, adapted, so_far)
        evaluations += scored
    replicas = now.replicas
    if exchanger is not None and replicas is not None and turn.is_planning and now.epoch < adapted.burn_in:
        replicas, adapted = exchanger.spaced(replicas, adapted)
    sampler.adapt(adapted)
    if exchanger is not None and replicas is not None and turn.is_planning:
        tolerance = auditing.tolerance_of(exchanger.test, turn)
        replicas = exchanger.planned(now.state, replicas, now.epoch, tolerance, so_far)
    is_first = not log.is_audited(adapted.burn_in)
    is_last = now.recorded + 1 == len(now.marks) and not turn.marks
    state, audited = auditor.at(now.state, now.epoch, turn, so_far, float(np.mean(used.audited)), is_first, is_last)
    log.add(now.recorded, found(evaluations, audited, replicas), now.state.path)
    marks = now.marks
    if now.recorded + 1 == len(marks) and turn.marks:
        marks = np.concatenate([marks, np.array(turn.marks, marks.dtype)])
    return replace(
        now,
        state=state,
        recorded=now.recorded + 1,
        pending=None,
        adapted=adapted,
        marks=marks,
        replicas=None if replicas is None else replicas.from_now(),
    )


def progress_of(now: Standing, last: Records, seconds: float) -> Progress:
    """The last record, and what was counted since."""
    loss, pending = last["loss"][:, -1], now.pending
    acceptance, batch = float(last["acceptance"][:, -1].mean()), float(last["batch_size"][:, -1].mean())
    used = int(last["data_used"][:, -1].sum())
    if pending is not None:
        proposals = pending.proposals.sum()
        acceptance, batch = float(pending.accepted.sum() / proposals), float(pending.examples.sum() / proposals)
        used += int(pending.evaluations.sum())
    phase = "burn-in" if now.epoch < now.adapted.burn_in else "sampling"
    steps = tuple(int(n) for n in last["steps_used"][:, -1]) if "steps_used" in last else ()
    return Progress(now.epoch, seconds, float(loss.mean()), acceptance, batch, used, len(loss), phase, steps)


@contextmanager
def shown(
    progress: bool | Show, now: Standing, log: Logbook, course: Course | None
) -> Iterator[Callable[[Standing, float], None]]:
    """A function that tells how far a run is; the bar it may draw is closed at the end."""
    bar: Any = progress
    if progress is True and isinstance(course, ByData):
        earlier = np.transpose(learning_curve(now.start, log.records)).tolist()
        bar = ProgressBar(course.pairs, float(np.mean(log.used.data)), curve=True, unit="pairs", earlier=earlier)
    elif progress is True:
        bar = ProgressBar(int(now.marks[-1]), now.epoch, curve=True)

    def show(now: Standing, before: float) -> None:
        if isinstance(bar, ProgressBar) and not isinstance(course, ByData):
            bar.aim(int(now.marks[-1]))
        if bar and log.last is not None:
            bar(progress_of(now, log.last, now.seconds - before))

    try:
        yield show
    finally:
        if isinstance(bar, ProgressBar):
            bar.close()
