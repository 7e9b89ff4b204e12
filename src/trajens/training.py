"""Training in one call: a start by an evolution strategy, s and sizes of moves that choose themselves, then sampling.

Nothing of this enters the law that is sampled after burn-in, with everything frozen: that of the paths at the s which
the run has ended at.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from trajens.acceptance import AcceptanceTest, Penalty
from trajens.errors import integer, number, require
from trajens.moves import Proposer
from trajens.problem import Problem
from trajens.progress import Show
from trajens.run import Run, carried_out
from trajens.sampling.adapted import MAX_EPOCHS
from trajens.sampling.course import ByData
from trajens.sampling.devices import Sampler
from trajens.sampling.footprint import require_room
from trajens.sampling.ladder import Exchange
from trajens.sampling.settings import BY_LOSSES, Settings
from trajens.scan import Scan
from trajens.starts import BUDGET, EVOLUTION, RANDOM, Shown, begun_at, compile_ahead, scale_of, start_of
from trajens.storage.directory import RunDirectory
from trajens.storage.standing import Standing
from trajens.target import Target
from trajens.verdict import report

TAU = 16
RECORDS = 100

AUTO = "auto"
"""Scores by losses, where examples come again."""

STEPS_OF_SIGMA = 6.0
"""The size of parameters in units of sigma."""

_BUSY, _FEWEST, _MOST = 2**15, 256, 1024
_LEAST = 1e3


def train(
    problem: Problem,
    tau: int = TAU,
    budget: float = BUDGET,
    s: Any = None,
    loss: float | None = None,
    start: Any = EVOLUTION,
    chains: int = 1,
    sigma: float | None = None,
    prior: float | str | None = "auto",
    seed: int | Sequence[int] = Settings.seed,
    move: Proposer | None = None,
    acceptance: AcceptanceTest | None = None,
    scan: str | Scan = Settings.scan,
    scores: str | np.ndarray | None = AUTO,
    records: int = RECORDS,
    keep_paths: bool = Settings.keep_paths,
    progress: bool | Show = True,
    devices: Sequence[jax.Device] | None = None,
    out: str | Path | RunDirectory | None = None,
    stop: Callable[[], bool] | None = None,
    ahead: int = Settings.ahead,
    exchange: Exchange | int | bool | None = None,
) -> Run:
    """Train an ensemble on a budget of loss evaluations; all that is left out chooses itself.

    Parameters
    ----------
    problem : Problem or Stream
    tau : int
        Models in the path.
    budget : float
        Pairs of losses (of two models on one example), of all chains together and the start included. Measuring
        the loss, audits and scores take about a tenth more.
    s : float or one float per chain, optional
        The tilt that is reached in burn-in; default as large as the budget can sample.
    loss : float, optional
        Raise s until the loss per model is not above this; burn-in ends there.
    start : "evolution", "random", array or path
        An evolution strategy (`trajens.sampling.evolution`) for a part of the budget; random models; a model (dim,),
        all of the path then; a path (tau, dim) or paths (chains, tau, dim); or the directory of a run.
    chains : int
    sigma : float, optional
        Step between models; default a sixth of the size of the parameters, see `scale_of`.
    prior
        As for `Target`.
    seed, move, acceptance, scan, scores, keep_paths, devices, ahead, exchange
        As for `sample`; by default moves tune their sizes, and examples, other than those of a stream, are scored by
        their losses.
    records : int
        How often is recorded, about.
    progress : bool or callable
        As for `sample`; True also prints what was chosen, the audited error of s, and what to do next.
    out, stop
        As for `sample`; `trajens.Stopped` is raised where a start is stopped. Resuming the directory goes on with it.

    Returns
    -------
    Run
        With ``run.s``, the tilt it has ended at, and ``run.start_records``, how the loss fell in its start.
    """
    target, settings = prepared(
        problem,
        tau,
        budget,
        s,
        loss,
        chains=chains,
        sigma=sigma,
        prior=prior,
        records=records,
        seed=seed,
        move=move,
        acceptance=acceptance,
        scan=scan,
        scores=scores,
        keep_paths=keep_paths,
        devices=devices,
        ahead=ahead,
        exchange=exchange,
    )
    run = train_prepared(target, settings, start, progress, out, stop)
    if progress is True and run.is_complete:
        print(report(run))
    return run


def train_prepared(
    target: Target,
    settings: Settings,
    start: Any = EVOLUTION,
    progress: bool | Show = False,
    out: str | Path | RunDirectory | None = None,
    stop: Callable[[], bool] | None = None,
) -> Run:
    """`train` for what was `prepared`."""
    course = settings.course
    assert isinstance(course, ByData)
    directory = RunDirectory(out) if isinstance(out, (str, Path)) else out
    require_room(target, settings, course.records, directory is not None)

    def begin(sampler: Sampler) -> Standing:
        began = time.perf_counter()
        if isinstance(start, str) and start in (EVOLUTION, RANDOM):
            # Models of the user's are looked at before anything is compiled.
            compile_ahead(sampler)
        with Shown(progress, course.pairs) as shown:
            found = start_of(sampler, start, shown, directory, stop)
        standing = begun_at(sampler, found.paths, found.pairs)
        return replace(standing, seconds=time.perf_counter() - began, start=found.records)

    return carried_out(target, settings, directory, begin, progress, stop)


def prepared(
    problem: Problem,
    tau: int = TAU,
    budget: float = BUDGET,
    s: Any = None,
    loss: float | None = None,
    *,
    chains: int = 1,
    sigma: float | None = None,
    prior: float | str | None = "auto",
    records: int = RECORDS,
    acceptance: AcceptanceTest | None = None,
    scores: str | np.ndarray | None = AUTO,
    tune: bool = True,
    **more: Any,
) -> tuple[Target, Settings]:
    """What `train` samples, and how; `more` is for `Settings`."""
    require(isinstance(problem, Problem), f"problem must be a trajens.Problem, got {type(problem).__name__}; make one.")
    chains = integer("chains", chains, 1, "use 1 or more independent chains")
    budget = number("budget", budget, "try 2.5e7 pairs of losses", at_least=_LEAST * chains, at_most=1e15)
    require(s is None or loss is None, "s and loss must not both be given: each says where s ends; leave one out.")
    sigma = usual_sigma(scale_of(problem, prior)) if sigma is None else sigma
    target = Target(problem, tau, sigma, 1.0 if s is None else s, prior)
    require(
        target.schedule is None and bool((target.s_values > 0).all()),
        f"s must be numbers > 0 that are reached in burn-in, got {s!r}; leave it out for as much as the budget allows.",
    )
    goal = None if loss is None else number("loss", loss, "give the loss per model to reach")
    if acceptance is None:
        acceptance = Penalty(usual_chunk(problem.population.most, chains * target.tau, more.get("devices")), pool=True)
    if isinstance(scores, str) and scores == AUTO:
        scores = BY_LOSSES if problem.population.limit is None else None
    records = integer("records", records, 8, "try 100")
    settings = Settings(
        chains=chains,
        burn_in=MAX_EPOCHS,
        acceptance=acceptance,
        scores=None if acceptance.takes_all_data else scores,
        tune=tune,
        course=ByData(budget / chains, records, target.tau, s is not None, goal),
        **{name: value for name, value in more.items() if value is not None},
    )
    return target, settings.checked(target)


def usual_sigma(scale: float) -> float:
    """A sixth of the size of the parameters, in four digits."""
    return float(f"{scale / STEPS_OF_SIGMA:.4g}")


def usual_chunk(size: int, models: int, devices: Sequence[jax.Device] | None = None) -> int | None:
    """Of batches: the library's own on a CPU; on a GPU as many as keep it busy with the half of all models at a time.

    Moves tune their sizes to the chunk, and what a renewal takes hardly depends on it.
    """
    if (devices or jax.devices())[0].platform == "cpu":
        return None
    wanted = 2 ** round(math.log2(_BUSY / max(models / 2, 1)))
    return max(2, min(max(wanted, _FEWEST), _MOST, size // 8)) if size > _MOST else None
