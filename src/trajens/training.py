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
from trajens.losses import compiled_losses_of_pairs
from trajens.moves import Proposer
from trajens.problem import Problem
from trajens.progress import Progress, ProgressBar
from trajens.run import Run, Show, carried_out
from trajens.sampling.adapted import MAX_EPOCHS
from trajens.sampling.course import ByData
from trajens.sampling.devices import Sampler
from trajens.sampling.evolution import Evolution, evolved
from trajens.sampling.first_s import slopes
from trajens.sampling.footprint import require_room
from trajens.sampling.scoring import rescored
from trajens.sampling.settings import BY_LOSSES, Settings
from trajens.scan import Scan
from trajens.storage.directory import RunDirectory
from trajens.storage.standing import Standing
from trajens.storage.stored import StoredRun
from trajens.target import Target

BUDGET = 2.5e7
"""Pairs of losses that a run takes unless it is told otherwise: some minutes on two cores for the paper's network."""

TAU = 16
RECORDS = 100

EVOLUTION, RANDOM = "evolution", "random"

SHARE_OF_EVOLUTION = 0.6
"""Of the budget, for a start by evolution."""

STEPS_OF_SIGMA = 6.0
"""The size of parameters in units of sigma."""

_CHECKED = 4096
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
    seed: int = Settings.seed,
    move: Proposer | None = None,
    acceptance: AcceptanceTest | None = None,
    scan: str | Scan = Settings.scan,
    scores: str | np.ndarray | None = BY_LOSSES,
    records: int = RECORDS,
    keep_paths: bool = Settings.keep_paths,
    progress: bool | Show = False,
    devices: Sequence[jax.Device] | None = None,
    out: str | Path | RunDirectory | None = None,
    stop: Callable[[], bool] | None = None,
    ahead: int = Settings.ahead,
) -> Run:
    """Train an ensemble on a budget of loss evaluations; all that is left out chooses itself.

    Parameters
    ----------
    problem : Problem
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
        Step between models; default a sixth of the size of the parameters.
    prior
        As for `Target`.
    move, acceptance, scan, scores, keep_paths, devices, ahead
        As for `sample`; by default moves tune their sizes, and examples are scored by their losses.
    records : int
        How often is recorded, about.
    progress, out, stop
        As for `sample`.

    Returns
    -------
    Run
        With ``run.s``, the tilt it has ended at, and ``run.chosen()``.
    """
    require(isinstance(problem, Problem), f"problem must be a trajens.Problem, got {type(problem).__name__}; make one.")
    chains = integer("chains", chains, 1, "use 1 or more independent chains")
    budget = number("budget", budget, "try 2.5e7 pairs of losses", at_least=_LEAST * chains, at_most=1e15)
    require(s is None or loss is None, "s and loss must not both be given: each says where s ends; leave one out.")
    scale = scale_of(problem, prior)
    sigma = scale / STEPS_OF_SIGMA if sigma is None else sigma
    target = Target(problem, tau, sigma, 1.0 if s is None else s, prior)
    require(
        target.schedule is None and bool((target.s_values > 0).all()),
        f"s must be numbers > 0 that are reached in burn-in, got {s!r}; leave it out for as much as the budget allows.",
    )
    goal = None if loss is None else number("loss", loss, "give the loss per model to reach")
    acceptance = Penalty(pool=True) if acceptance is None else acceptance
    course = ByData(budget / chains, integer("records", records, 8, "try 100"), s is not None, goal)
    given: dict[str, Any] = {"move": move, "devices": devices}
    settings = Settings(
        chains=chains,
        seed=seed,
        burn_in=MAX_EPOCHS,
        acceptance=acceptance,
        scan=scan,
        keep_paths=keep_paths,
        ahead=ahead,
        scores=None if acceptance.takes_all_data else scores,
        tune=True,
        course=course,
        **{name: value for name, value in given.items() if value is not None},
    ).checked(target)
    directory = RunDirectory(out) if isinstance(out, (str, Path)) else out
    require_room(target, settings, records, directory is not None)

    def begin(sampler: Sampler) -> Standing:
        began = time.perf_counter()
        with _Bar(progress, course.pairs) as shown:
            paths, pairs = _start(sampler, start, scale, shown, stop)
        standing = _begun(sampler, course, paths, pairs, s is not None)
        return replace(standing, seconds=time.perf_counter() - began)

    return carried_out(target, settings, directory, begin, progress, stop)


def scale_of(problem: Problem, prior: float | str | None = "auto") -> float:
    """The size of the parameters: the width of their prior, or that of the models that paths start from."""
    known = problem.prior if prior == "auto" else prior
    if isinstance(known, (int, float)):
        return float(known)
    around = problem.initial if problem.initial is not None and np.any(problem.initial) else problem.spread
    return float(np.sqrt(np.mean(np.square(around)))) if around is not None else problem.dim**-0.5


def _start(
    sampler: Sampler, start: Any, scale: float, shown: _Bar, stop: Callable[[], bool] | None
) -> tuple[np.ndarray | None, float]:
    """Paths to start from, None for random ones, and the pairs of losses per chain that they took."""
    target, settings = sampler.target, sampler.settings
    assert isinstance(settings.course, ByData)
    if not isinstance(start, (str, Path)):
        return _constant(np.asarray(start), target, settings.chains), 0.0
    if start == RANDOM:
        return None, 0.0
    if start != EVOLUTION:
        require(
            Path(start).is_dir(),
            f"start must be evolution, random, an array or the directory of a run, got {str(start)!r}; check it.",
        )
        return StoredRun(start).paths, 0.0
    random = sampler.init()
    models = np.asarray(random.path)[:, 0]
    how, generations = Evolution(scale=scale).within(SHARE_OF_EVOLUTION * settings.course.pairs, target.problem.size)
    pairs = how.pairs * how.examples
    begin = time.perf_counter()

    def watch(done: int, loss: float) -> bool:
        shown(done * pairs, loss, time.perf_counter() - begin, settings.chains)
        return stop is not None and stop()

    found = evolved(target.problem, jax.tree.map(np.asarray, random.key), models, generations, how, watch)
    is_better = _losses(target.problem, found) < _losses(target.problem, models)
    best = np.where(is_better[:, None], found, models)
    return _repeated(best, target.tau), float(generations * pairs)


def _constant(start: np.ndarray, target: Target, chains: int) -> np.ndarray:
    """One model, or one per chain, as paths that stay there; paths as they are."""
    dim = target.problem.dim
    # As many models as a path has are a path.
    if start.shape in ((dim,), (chains, dim)) and start.shape != (target.tau, dim):
        return _repeated(np.broadcast_to(start, (chains, dim)), target.tau)
    return start


def _repeated(models: np.ndarray, tau: int) -> np.ndarray:
    """A path (tau, dim) for every one of `models` (chains, dim), all of which it is."""
    return np.repeat(models[:, None], tau, axis=1)


def _losses(problem: Problem, models: np.ndarray) -> np.ndarray:
    """Mean losses (k,) of models (k, dim) on some of the data; infinite where one is not finite."""
    some = np.linspace(0, problem.size - 1, min(_CHECKED, problem.size)).astype(np.int32)
    pairs = np.repeat(models[:, None], 2, axis=1)
    indices = np.tile(some, (len(models), 1))
    losses = compiled_losses_of_pairs(problem.loss, problem.data, pairs, indices, np.ones(len(models), bool))
    mean = np.asarray(losses)[:, 0].mean(1)
    return np.where(np.isfinite(mean), mean, np.inf)


def _begun(sampler: Sampler, course: ByData, paths: np.ndarray | None, pairs: float, is_to_s: bool) -> Standing:
    """The standing before the first epoch: paths, a first s, sizes of moves that suit it."""
    state, adapted, program = sampler.init(paths), sampler.adapted, sampler.program
    if sampler.settings.is_scoring:
        adapted, _ = rescored(sampler, state, adapted, pairs)
        sampler.adapt(adapted)
    found = slopes(sampler, state)
    s = found.first_s() if paths is None else found.first_s_of_trained(course.pairs - pairs, program.tau)
    if program.is_tuned:
        state = sampler.with_share(state, found.share_at(s, program.chunk))
    goal = float(sampler.target.s_values.max())
    adapted = adapted._replace(tilt=min(s / goal, 1.0) if is_to_s else s)
    if isinstance(program.acceptance, Penalty) and state.acceptance:
        # While s rises, as much noise as moves furthest; audits will tell what is within the tolerance.
        memory = jax.tree.map(np.asarray, state.acceptance)
        state = sampler.with_memory(state, memory._replace(rho=np.full_like(memory.rho, program.acceptance.rho)))
    first = course.first_mark(program.chunk, program.lanes, pairs)
    return Standing(state, 0, np.array([first]), adapted=adapted, begun=pairs)


class _Bar:
    """Shows the start, where progress is shown."""

    def __init__(self, progress: bool | Show, pairs: float):
        self._show: Any = ProgressBar(pairs, label=EVOLUTION, unit="pairs") if progress is True else progress

    def __call__(self, pairs: int, loss: float, seconds: float, chains: int) -> None:
        if self._show:
            self._show(Progress(0, seconds, loss, math.nan, math.nan, pairs * chains, chains, EVOLUTION))

    def __enter__(self) -> _Bar:
        return self

    def __exit__(self, *_: object) -> None:
        if isinstance(self._show, ProgressBar):
            self._show.close()
