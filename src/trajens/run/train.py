"""Training in one call: a start by an evolution strategy, s and sizes of moves chosen from the data, then sampling.

Nothing of this enters the distribution that is sampled after burn-in, with everything frozen: that of the paths at the
s which the run has ended at.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Unpack

import jax
import numpy as np

from trajens.acceptance import AcceptanceTest, Metropolis, Penalty
from trajens.errors import integer, number, require
from trajens.kernels import HALF
from trajens.losses import CrossEntropy
from trajens.models.binary import Binary
from trajens.moves import Proposer, SingleSite, by_layer
from trajens.problem import NOISE, Problem
from trajens.records import EVOLUTION, MAX_EPOCHS, SEARCH
from trajens.run.control import Budget
from trajens.run.identity import RunIdentity
from trajens.run.outcome import report
from trajens.run.progress import Show, Stop, takes_progress
from trajens.run.run import Run, directory_of, renamed_settings, run_or_resume
from trajens.run.start import (
    AUTO,
    BUDGET,
    HELD_OUT,
    RANDOM,
    ShowStart,
    Start,
    affordable_records,
    compile_ahead,
    evolution_pairs,
    first_state,
    scale_of,
    starting_paths,
    usual_start,
)
from trajens.run.state import RunState
from trajens.sampling.footprint import require_room
from trajens.sampling.measure import HELD_OUT_EXAMPLES
from trajens.sampling.sampler import Sampler
from trajens.sampling.settings import BY_LOSSES, Settings, SettingsDict, settings_of
from trajens.sampling.starts import Evolution, Evolving, evolve
from trajens.storage.directory import RunDirectory
from trajens.target import Target

TAU = 16
"""Models of a path."""

TAU_OF_FEW = 4
"""The same where s is searched for: shorter paths come to rest sooner, and several chains have as many models."""

RECORDS = 100
"""How often a run by data is recorded, about."""

RECORDS_OF_FEW = 400
"""The same on few examples, where that is cheap: chains are compared by what is recorded."""

KEPT = 2**25
"""Bytes of paths that are kept on few examples unless anything is said of it: ensembles predict by all of them."""

FEWEST_HELD_OUT = 5
"""Examples by which s is searched for, at least."""

FEW = 1024
"""Examples up to which decisions are made on all of them: a minibatch would have to be nearly as large, and there is
no error of s to plan for."""

LARGE = 1000
"""Parameters from which on one layer is moved at a time."""

CHAINS_OF_FEW = 4
"""Chains on so few examples: independent ones can be compared, and vote together."""

PASSES_PER_PATH = 2000
"""Pairs of losses per example from which on a path of its own is worth more than a longer one."""

STEPS_OF_SIGMA = 6.0
"""The size of parameters in units of sigma."""

_BUSY_MODELS, _MIN_CHUNK, _MAX_CHUNK = 2**15, 256, 1024
"""Pairs that keep a GPU busy, and the chunks of batches there."""
LEAST_BUDGET = 1e3
"""Pairs of losses per chain."""
_TIMED_SECONDS, _TIMED_PHASES, _OVERHEAD = 1.0, 16, 1.2
"""How a machine is timed, and what measuring, audits and scores take beside decisions, as a factor."""


def train(
    problem: Problem,
    *,
    models: int | None = None,
    tau: int | None = None,
    budget: float = BUDGET,
    s: Any = None,
    until_loss: float | None = None,
    start: Any = AUTO,
    sigma: float | None = None,
    prior: float | str | None = "auto",
    records: int | None = None,
    progress: bool | Show = True,
    out: str | Path | RunDirectory | None = None,
    resume: bool = False,
    stop: Stop | None = None,
    loss: float | None = None,
    **settings: Unpack[SettingsDict],
) -> Run:
    """Train an ensemble on a budget of pairs of losses; settings that are left out are chosen for you.

    Parameters
    ----------
    problem : Problem or Stream
    models : int, optional
        Models in all, in place of `tau` and ``chains``: one path of them, or several where the budget is large, since
        paths from different starts make different mistakes (see `num_paths`).
    tau : int, optional
        Models in a path; default 16, and 4 where s is searched for.
    budget : float
        Pairs of losses (of two models on one example), of all chains together and the start included. Measuring
        the loss, audits and scores take about a tenth more.
    s : float or one float per chain, optional
        The tilt that is reached in burn-in; default as large as the budget can sample, but no larger than suits N
        examples where the loss is a likelihood: 3 N / (tau v), with v = 1 for a cross-entropy, and for a squared error
        twice the loss of a fifth of the examples, which is held out (see `Problem.hold_out`). On 1024 examples or
        fewer, unless a `start` is given, s is searched for: that at which such a fifth is predicted best.
    until_loss : float, optional
        Raise s until the loss per model is not above this; burn-in ends there.
    start : "auto", "evolution", "random", array or path
        Random models where s is searched for, and else evolution: a strategy (`trajens.sampling.starts`) that takes a
        part of the budget. Or a model (dim,), all of the path then; a path (tau, dim) or paths (chains, tau, dim); or
        the directory of a run.
    sigma : float, optional
        Step between models; default a sixth of the size of the parameters, see `scale_of`.
    prior
        As for `Target`.
    records : int, optional
        How often is recorded, about; default 100, and up to 400 on 1024 examples or fewer, as long as that takes no
        more than a tenth of the budget.
    progress : bool or callable
        As for `sample`; True also prints what was chosen, the audited error of s, and what to do next.
    out, resume, stop
        As for `sample`; `trajens.Stopped` is raised where a start is stopped, which only a `stop` without a parameter
        does. With `resume` the run in the directory, or its start, goes on to the end of its budget.
    loss : float, optional
        The name that `until_loss` had before; it still works, with a warning, in this version.
    **settings
        The fields of `Settings` by name, as for `sample`, but for ``burn_in``: by default there are four chains on 1024
        examples or fewer and else one, moves tune their sizes, and examples, other than those of a stream, are drawn by
        their losses (``example_weights="auto"``).

    Returns
    -------
    Run
        With ``run.s``, the tilt it has ended at, and ``run.start_records``, how the loss fell in its start.
    """
    if loss is not None:
        require(until_loss is None, "until_loss and loss must not both be given: loss is its old name; leave it out.")
        message = "train(loss=...) is now called until_loss, and its old name will go in the next version."
        warnings.warn(message, FutureWarning, stacklevel=2)
        until_loss = loss
    setup = training_setup(
        problem,
        models=models,
        tau=tau,
        budget=budget,
        s=s,
        loss=until_loss,
        sigma=sigma,
        prior=prior,
        records=records,
        start=start,
        settings=settings,
    )
    run = train_as_set_up(setup, start, progress, directory_of(out, resume), stop)
    if progress is True and run.is_complete:
        print(report(run))
    return run


class TrainingSetup(NamedTuple):
    """What `train` samples, how, and on which budget."""

    target: Target
    settings: Settings
    budget: Budget


def train_as_set_up(
    setup: TrainingSetup,
    start: Any = AUTO,
    progress: bool | Show = False,
    out: str | Path | RunDirectory | None = None,
    stop: Stop | None = None,
) -> Run:
    """Train as `training_setup` has chosen, see `train`."""
    target, settings, budget = setup
    start = usual_start(budget, start)
    began, directory = time.perf_counter(), RunDirectory.of(out)
    require_room(target, settings, budget.records, directory is not None)

    def begin(sampler: Sampler, identity: RunIdentity) -> RunState:
        if isinstance(start, str) and start in (EVOLUTION, RANDOM, SEARCH):
            # Models of the user's are looked at before anything is compiled.
            compile_ahead(sampler, budget)
        with ShowStart(progress, budget.pairs, SEARCH if budget.is_searched_before else EVOLUTION) as show:
            # A start has no `Progress` that a run would have.
            stop_start: Any = None if takes_progress(stop) else stop
            found = starting_paths(sampler, budget, start, show, directory, stop_start, identity=identity)
        return replace(first_state(sampler, budget, found), seconds=time.perf_counter() - began)

    return run_or_resume(RunIdentity(*setup), begin, directory, progress=progress, stop=stop)


def training_setup(
    problem: Problem,
    *,
    models: int | None = None,
    tau: int | None = None,
    budget: float = BUDGET,
    s: Any = None,
    loss: float | None = None,
    sigma: float | None = None,
    prior: float | str | None = "auto",
    records: int | None = None,
    start: Any = AUTO,
    settings: Any = None,
) -> TrainingSetup:
    """Choose what was left out; `settings` are keywords of `Settings`."""
    require(isinstance(problem, Problem), f"problem must be a trajens.Problem, got {type(problem).__name__}; make one.")
    chosen = {
        name: value for name, value in renamed_settings(settings or {}).items() if value is not None or name == "scores"
    }
    given: dict[str, Any] = {"chains": usual_chains(problem), "tune": True, "scores": AUTO, **chosen}
    if models is not None:
        require(
            tau is None and "chains" not in chosen,
            "models must be given without tau and chains: it is their product; leave models out, or both of them.",
        )
        models = integer("models", models, 1, "try 16")
        given["chains"] = num_paths(models, budget, problem.population.size)
        tau = models // given["chains"]
    require(given.get("burn_in") is None, "burn_in must be left out: it is a share of the budget; leave it out.")
    chains = integer("chains", given["chains"], 1, "use 1 or more independent chains")
    budget = number("budget", budget, "try 2.5e7 pairs of losses", at_least=LEAST_BUDGET * chains, at_most=1e15)
    require(
        s is None or loss is None, "s and until_loss must not both be given: each says where s ends; leave one out."
    )
    is_free = problem.likelihood is not None and s is None and loss is None
    is_noise_unknown = is_free and problem.likelihood == NOISE
    # A start that was given would be lost at the small values of s that are tried.
    is_searched = is_free and isinstance(start, str) and start in (AUTO, RANDOM) and is_searchable(problem)
    # What is held out for the search alone is trained on after it.
    is_searched_before = is_searched and problem.held_out is None
    is_noise_unknown = is_noise_unknown and not is_searched_before
    if problem.held_out is None and is_noise_unknown:
        problem = problem.hold_out(HELD_OUT)
    searched_on = min(num_held_out(problem), HELD_OUT_EXAMPLES) if is_searched else None
    if tau is None:
        tau = TAU if searched_on is None else TAU_OF_FEW
    problem = in_usual_precision(problem, prior, given.get("devices"))
    sigma = usual_sigma(scale_of(problem, prior)) if sigma is None else sigma
    target = Target(problem, tau, sigma, 1.0 if s is None else s, prior)
    require(
        target.schedule is None and bool((target.s_values > 0).all()),
        f"s must be numbers > 0 that are reached in burn-in, got {s!r}; leave it out for as much as the budget allows.",
    )
    goal = None if loss is None else number("loss", loss, "give the loss per model to reach")
    if given.get("move") is None:
        given["move"] = usual_move(problem)
    if given.get("acceptance") is None:
        given["acceptance"] = usual_acceptance(problem, chains * target.tau, given.get("devices"))
    if isinstance(given["scores"], str) and given["scores"] == AUTO:
        given["scores"] = BY_LOSSES if problem.population.limit is None else None
    if getattr(given["acceptance"], "takes_all_data", False):
        given["scores"] = None
    records = usual_records(problem, chains * target.tau, budget) if records is None else records
    records = integer("records", records, 8, "try 100")
    given.setdefault("keep_paths", has_few(problem) and 4 * records * chains * target.tau * problem.dim <= KEPT)
    how = settings_of({**given, "burn_in": MAX_EPOCHS}).checked(target)
    course = Budget(
        budget / chains,
        records,
        target.tau,
        is_to_s=s is not None,
        loss=goal,
        likely_size=None if problem.likelihood is None else problem.num_weighted,
        is_noise_unknown=is_noise_unknown,
        searched_on=searched_on,
        is_searched_before=is_searched_before,
        largest_variance=problem.label_variance if is_noise_unknown else None,
    )
    return TrainingSetup(target, how, course)


def num_paths(models: int, budget: float, size: float) -> int:
    """Number of paths that so many models are best divided into, on a budget of pairs for `size` examples.

    A power of two that divides the models: at most half their root, and one for `PASSES_PER_PATH` pairs per example.
    """
    most = min(budget / (PASSES_PER_PATH * size), math.sqrt(models) / 2)
    return max(2**k for k in range(models.bit_length()) if models % 2**k == 0 and (k == 0 or 2**k <= most))


def usual_sigma(scale: float) -> float:
    """A sixth of the size of the parameters, in four digits."""
    return float(f"{scale / STEPS_OF_SIGMA:.4g}")


def has_few(problem: Problem) -> bool:
    """Whether a problem has so few examples that all of them are read."""
    return problem.population.limit is None and problem.size <= FEW


def is_searchable(problem: Problem) -> bool:
    """Whether there are few enough examples for a search for s, and enough to be told something by a share of them."""
    return has_few(problem) and num_held_out(problem) >= FEWEST_HELD_OUT


def num_held_out(problem: Problem) -> int:
    """Examples that are held out, or would be."""
    return round(HELD_OUT * problem.num_weighted) if problem.held_out is None else problem.held_out.size


def usual_chains(problem: Problem) -> int:
    """Independent chains of a run that was not told how many; a budget is for all of them together."""
    return CHAINS_OF_FEW if has_few(problem) else 1


def usual_records(problem: Problem, models: int, budget: float) -> int:
    """How often a run by data is recorded: on few examples as often as keeps measuring at a share of the budget."""
    if not has_few(problem):
        return RECORDS
    return int(min(max(affordable_records(problem, models, budget), RECORDS), RECORDS_OF_FEW))


def is_by_layer(problem: Problem) -> bool:
    """Whether one layer of models is moved at a time: of several, where decisions are made on minibatches.

    Small networks gain less by it than compiling a move for every layer takes, and binary ones lose.
    """
    is_binary = isinstance(getattr(problem.loss, "model", None), Binary)
    return len(problem.layers) > 1 and problem.dim >= LARGE and not is_binary and not has_few(problem)


def usual_move(problem: Problem) -> Proposer:
    """A redraw of one model, or of one of its layers, of a size that is tuned."""
    return by_layer(problem.layers if is_by_layer(problem) else (), SingleSite())


def usual_acceptance(
    problem: Problem, models: int, devices: Sequence[jax.Device] | None = None, **options: Any
) -> AcceptanceTest:
    """The test for so many models: on all of few examples, else the penalty test with these options."""
    if has_few(problem):
        return Metropolis()
    return Penalty(usual_chunk(problem.population.most, models, devices), pool=True, **options)


def in_usual_precision(
    problem: Problem, prior: float | str | None = "auto", devices: Sequence[jax.Device] | None = None
) -> Problem:
    """The problem with losses in half precision, where a GPU has a kernel for it and none was asked for.

    What rounding changes is far below the tolerance of decisions, and an evaluation takes half the time. Weights of a
    flat prior may grow beyond those on which that was checked.
    """
    loss, known = problem.loss, problem.prior if prior == "auto" else prior
    is_on_gpu = (devices or jax.devices())[0].platform != "cpu"
    if known is None or not is_on_gpu or not isinstance(loss, CrossEntropy) or loss.precision is not None:
        return problem
    kernel = loss.model.kernel
    is_native = kernel is not None and kernel.is_for(problem.data)
    return problem.with_loss(replace(loss, precision=HALF)) if is_native else problem


def usual_chunk(size: int, models: int, devices: Sequence[jax.Device] | None = None) -> int | None:
    """Of batches: the library's own on a CPU; on a GPU as many as keep it busy with the half of all models at a time.

    Moves tune their sizes to the chunk, and what a renewal takes hardly depends on it.
    """
    if (devices or jax.devices())[0].platform == "cpu":
        return None
    wanted = 2 ** round(math.log2(_BUSY_MODELS / max(models / 2, 1)))
    return max(2, min(max(wanted, _MIN_CHUNK), _MAX_CHUNK, size // 8)) if size > _MAX_CHUNK else None


def pairs_per_second(setup: TrainingSetup, start: Any = AUTO) -> float:
    """Measure how many pairs of losses this machine does a second, from some seconds of a start and of sampling.

    Compiling is not counted. What measuring, audits and scores take is, as a sixth.
    """
    target, settings, budget = setup
    sampler = Sampler(target, settings)
    first = first_state(sampler, budget, Start(None))
    epochs = _TIMED_PHASES * sampler.program.lanes
    # The first call compiles.
    state, _ = sampler.advance(first.state, epochs, first.control)
    begin, pairs = time.perf_counter(), 0.0
    while time.perf_counter() - begin < _TIMED_SECONDS:
        state, tally = sampler.advance(state, epochs, first.control)
        pairs += float(np.sum(tally.evaluations))
    sampling = pairs / (time.perf_counter() - begin)
    if usual_start(budget, start) != EVOLUTION:
        return sampling / _OVERHEAD
    how, generations = Evolution().within(
        evolution_pairs(budget.pairs, target.problem.population.size), target.problem.population.most
    )
    models = Evolving.of(np.asarray(state.path)[:, 0])
    key = jax.tree.map(np.asarray, state.key)
    seen: list[tuple[float, int]] = []

    def watch(now: Evolving, losses: np.ndarray) -> bool:
        seen.append((time.perf_counter(), now.done))
        return seen[-1][0] - seen[0][0] > _TIMED_SECONDS

    evolve(target.problem, key, models, max(generations, 1000), how, watch)
    (begun, before), (ended, after) = seen[0], seen[-1]
    share = evolution_pairs(budget.pairs, target.problem.population.size) / budget.pairs
    evolving = settings.chains * (after - before) * how.pairs * how.examples / max(ended - begun, 1e-9)
    return 1 / (share / evolving + (1 - share) * _OVERHEAD / sampling)
