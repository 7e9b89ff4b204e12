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
from trajens.errors import Stopped, integer, number, require
from trajens.losses import compiled_losses_of_pairs
from trajens.moves import Proposer
from trajens.precision import as_single
from trajens.problem import Problem
from trajens.progress import Progress, ProgressBar
from trajens.report import report
from trajens.run import Run, Show, carried_out
from trajens.sampling.adapted import MAX_EPOCHS
from trajens.sampling.course import ByData
from trajens.sampling.devices import Sampler
from trajens.sampling.evolution import Evolution, Evolving, evolved
from trajens.sampling.first_s import slopes
from trajens.sampling.footprint import require_room
from trajens.sampling.scoring import rescored
from trajens.sampling.settings import BY_LOSSES, Settings
from trajens.scan import Scan
from trajens.storage.directory import RunDirectory
from trajens.storage.identity import identity_of
from trajens.storage.standing import Standing
from trajens.storage.stored import StoredRun
from trajens.target import Target

BUDGET = 2.5e7
"""Pairs of losses that a run takes unless it is told otherwise: some minutes on two cores for the paper's network."""

TAU = 16
RECORDS = 100

EVOLUTION, RANDOM = "evolution", "random"

SHARE_OF_EVOLUTION, LESS = 0.6, 0.6
"""Of the usual budget, for a start by evolution; larger ones spend more on it by this power, a smaller share."""

STEPS_OF_SIGMA = 6.0
"""The size of parameters in units of sigma."""

_CHECKED = 4096
_WIDE = 3.0
_TIMED, _TIMED_PHASES, _OVERHEAD = 3.0, 16, 1.2
_MOMENTS = ("model", "slope", "square")
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
    seed: int = Settings.seed,
    move: Proposer | None = None,
    acceptance: AcceptanceTest | None = None,
    scan: str | Scan = Settings.scan,
    scores: str | np.ndarray | None = BY_LOSSES,
    records: int = RECORDS,
    keep_paths: bool = Settings.keep_paths,
    progress: bool | Show = True,
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
        Step between models; default a sixth of the size of the parameters, see `scale_of`.
    prior
        As for `Target`.
    move, acceptance, scan, scores, keep_paths, devices, ahead
        As for `sample`; by default moves tune their sizes, and examples are scored by their losses.
    records : int
        How often is recorded, about.
    progress : bool or callable
        As for `sample`; True also prints what was chosen, the audited error of s, and what to do next.
    out, stop
        As for `sample`; `trajens.Stopped` is raised where a start is stopped. Resuming the directory goes on with it.

    Returns
    -------
    Run
        With ``run.s``, the tilt it has ended at.
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
        with _Bar(progress, course.pairs) as shown:
            paths, pairs = _start(sampler, start, shown, directory, stop)
        standing = _begun(sampler, paths, pairs)
        return replace(standing, seconds=time.perf_counter() - began)

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
    scores: str | np.ndarray | None = BY_LOSSES,
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
        acceptance = Penalty(usual_chunk(problem.size, chains * target.tau, more.get("devices")), pool=True)
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


def scale_of(problem: Problem, prior: float | str | None = "auto") -> float:
    """The size of the parameters: the width of their prior, but no more than three times what paths start from.

    Weights of wide layers start much smaller than a prior for all of them is wide.
    """
    known = problem.prior if prior == "auto" else prior
    around = problem.initial if problem.initial is not None and np.any(problem.initial) else problem.spread
    size = problem.dim**-0.5 if around is None else float(np.sqrt(np.mean(np.square(around))))
    if not isinstance(known, (int, float)):
        return size
    return float(known) if around is None else min(float(known), _WIDE * size)


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


def for_evolution(pairs: float) -> float:
    """Of a budget of pairs per chain, what goes into a start by evolution."""
    return SHARE_OF_EVOLUTION * min(pairs, BUDGET * (pairs / BUDGET) ** LESS)


def _start(
    sampler: Sampler,
    start: Any,
    shown: _Bar,
    directory: RunDirectory | None,
    stop: Callable[[], bool] | None,
) -> tuple[np.ndarray | None, float]:
    """Paths to start from, None for random ones, and the pairs of losses per chain that they took."""
    target, chains = sampler.target, sampler.settings.chains
    if not isinstance(start, (str, Path)):
        return _constant(start, target, chains), 0.0
    if start == RANDOM:
        return None, 0.0
    if start == EVOLUTION:
        return _evolved(sampler, shown, directory, stop)
    require(
        Path(start).is_dir(),
        f"start must be evolution, random, an array or the directory of a run, got {str(start)!r}; check it.",
    )
    return StoredRun(start).paths, 0.0


def _evolved(
    sampler: Sampler, shown: _Bar, directory: RunDirectory | None, stop: Callable[[], bool] | None
) -> tuple[np.ndarray, float]:
    """Constant paths at models by evolution, or at those it began with where they are better; and its pairs."""
    target, settings, problem = sampler.target, sampler.settings, sampler.target.problem
    assert isinstance(settings.course, ByData)
    random = sampler.init()
    models = np.asarray(random.path)[:, 0]
    scale = scale_of(problem, target.prior)
    how, generations = Evolution(scale=scale).within(for_evolution(settings.course.pairs), problem.size)
    pairs, began = how.pairs * how.examples, time.perf_counter()
    identity = {} if directory is None else identity_of(target, settings)
    kept = None if directory is None else directory.kept_start(identity)
    begin = Evolving.of(models) if kept is None else Evolving(int(kept["done"]), *(kept[n] for n in _MOMENTS))

    def watch(now: Evolving, loss: float) -> bool:
        shown(now.done * pairs, loss, time.perf_counter() - began, settings.chains)
        is_stopped = stop is not None and stop()
        if directory is not None and (is_stopped or directory.is_due()):
            named = zip(_MOMENTS, now[1:], strict=True)
            directory.keep_start({"done": np.array(now.done), **dict(named)}, identity)
        return is_stopped

    found = evolved(problem, jax.tree.map(np.asarray, random.key), begin, generations, how, watch)
    if found.done < generations:
        raise Stopped(f"stopped in the start of the run, after {found.done:,} of {generations:,} generations")
    is_better = _losses(problem, found.model) < _losses(problem, models)
    chosen = np.where(is_better[:, None], found.model, models)
    return _constant(chosen[:, None], target, settings.chains), float(generations * pairs)


def _constant(start: Any, target: Target, chains: int) -> np.ndarray:
    """One model (dim,), or one per chain (chains, 1, dim), as paths that stay there; paths as they are."""
    given = as_single("start", start)
    dim, tau = target.problem.dim, target.tau
    accepted = {(dim,), (tau, dim), (chains, 1, dim), (chains, tau, dim)}
    require(
        given.shape in accepted,
        f"start must be evolution, random, the directory of a run, or an array of shape ({dim},), ({tau}, {dim}) or "
        f"({chains}, {tau}, {dim}), got {given.shape}; it is (dim,), (tau, dim) or (chains, tau, dim).",
    )
    is_constant = given.ndim == 1 or given.shape == (chains, 1, dim)
    return np.broadcast_to(given, (chains, tau, dim)) if is_constant else given


def _losses(problem: Problem, models: np.ndarray) -> np.ndarray:
    """Mean losses (k,) of models (k, dim) on some of the data; infinite where one is not finite."""
    some = np.linspace(0, problem.size - 1, min(_CHECKED, problem.size)).astype(np.int32)
    pairs = np.repeat(models[:, None], 2, axis=1)
    indices = np.tile(some, (len(models), 1))
    losses = compiled_losses_of_pairs(problem.loss, problem.data, pairs, indices, np.ones(len(models), bool))
    mean = np.asarray(losses)[:, 0].mean(1)
    return np.where(np.isfinite(mean), mean, np.inf)


def _begun(sampler: Sampler, paths: np.ndarray | None, pairs: float) -> Standing:
    """The standing before the first epoch: paths, a first s, sizes of moves that suit it."""
    state, adapted, program = sampler.init(paths), sampler.adapted, sampler.program
    course = sampler.settings.course
    assert isinstance(course, ByData)
    if sampler.settings.is_scoring:
        adapted, _ = rescored(sampler, state, adapted, pairs)
        sampler.adapt(adapted)
    found = slopes(sampler, state)
    per_renewal = (course.pairs - pairs) / (2 * course.renewals(pairs))
    s = found.first_s() if paths is None else found.first_s_of_trained(per_renewal, program.tau)
    if program.is_tuned:
        state = sampler.with_share(state, found.share_at(s, program.chunk))
    goal = float(sampler.target.s_values.max())
    if paths is not None:
        ends = np.asarray(state.path)[:, [0, -1]].reshape(-1, state.path.shape[-1])
        adapted = adapted._replace(ceiling=float(_losses(sampler.target.problem, ends).mean()))
    adapted = adapted._replace(tilt=min(s / goal, 1.0) if course.is_to_s else s)
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


def pairs_per_second(target: Target, settings: Settings, start: Any = EVOLUTION) -> float:
    """Pairs of losses that this machine does a second in such a run, from some seconds of its start and its sampling.

    Compiling is not counted. What measuring, audits and scores take is, as a sixth.
    """
    sampler = Sampler(target, settings)
    course = settings.course
    assert isinstance(course, ByData)
    standing = _begun(sampler, None, 0.0)
    sampler.adapt(standing.adapted)
    state, tally = sampler.advance(standing.state, program_epochs := _TIMED_PHASES * sampler.program.lanes)
    begin, pairs = time.perf_counter(), 0.0
    while time.perf_counter() - begin < _TIMED:
        state, tally = sampler.advance(state, program_epochs)
        pairs += float(np.sum(tally.evaluations))
    sampling = pairs / (time.perf_counter() - begin)
    if start != EVOLUTION:
        return sampling / _OVERHEAD
    how, generations = Evolution().within(for_evolution(course.pairs), target.problem.size)
    models = Evolving.of(np.asarray(state.path)[:, 0])
    key = jax.tree.map(np.asarray, state.key)
    seen: list[tuple[float, int]] = []

    def watch(now: Evolving, loss: float) -> bool:
        seen.append((time.perf_counter(), now.done))
        return seen[-1][0] - seen[0][0] > _TIMED

    evolved(target.problem, key, models, max(generations, 1000), how, watch)
    (first, before), (last, after) = seen[0], seen[-1]
    share = for_evolution(course.pairs) / course.pairs
    evolving = settings.chains * (after - before) * how.pairs * how.examples / max(last - first, 1e-9)
    return 1 / (share / evolving + (1 - share) * _OVERHEAD / sampling)
