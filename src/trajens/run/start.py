"""Start of a training: a model by evolution, a search for s, random models, one's own or the paths of another run.

A search for s is a run of its own without a fifth of the examples (`trajens.run.search`); the run after it has all of
them, and begins at its paths and at the s that was found.

The first s follows from slopes.

A change of a share m of a model has loss differences of variance m v between examples, and means of mean m mu and
variance m V between changes. At noise rho the penalty test reads b = s^2 m v / rho^2 examples; a renewal of a path,
tau / m accepted moves, then takes tau s^2 v / (rho^2 a) pairs whatever m is, a the part that is accepted.

- Untrained models begin at s^2 V = 1, where a change of all of a model just matters.
- Trained ones begin at the s at which the budget is for so many renewals, see `trajens.run.control`, but not above
  2 mu / V, where changes of the models as they are leave their loss as it is: for normal means <exp(-s Delta)> = 1
  there, as it is for paths that have the distribution of s.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from trajens.acceptance.penalty import RHO_LARGEST
from trajens.errors import Stopped, require
from trajens.losses import compiled_losses_of_pairs
from trajens.precision import as_single
from trajens.problem import NOISE, Problem
from trajens.records import EVOLUTION, SEARCH, Records
from trajens.run.control import LARGEST_S, Budget, likelihood_s
from trajens.run.identity import RunIdentity, require_same
from trajens.run.progress import Progress, ProgressBar, Show
from trajens.run.run import Run, run_or_resume
from trajens.run.search import HIGHEST, SEARCHING, at_likelihoods, best_likelihoods, likelihoods_at, no_search
from trajens.run.state import IDENTITY, RunState, first_run_state, is_common
from trajens.run.stored import StoredRun
from trajens.sampling.kernel import State
from trajens.sampling.measure import HELD_OUT_EXAMPLES, SHARE_OF_MEASURING, mean_losses
from trajens.sampling.program import Control
from trajens.sampling.sampler import Sampler, reweight
from trajens.sampling.starts import Evolution, Evolving, StartCurve, evolve
from trajens.sampling.tuning import share_renewed
from trajens.storage.checkpoint import Arrays
from trajens.storage.directory import RunDirectory
from trajens.target import Target

_ACCEPTED = 0.23
"""2 Phi(-rho/2) at the rho of `RHO_LARGEST`."""
_SHARES = 0.03, 0.3, 1.0
"""Of a model, that are changed to look: more where less changes nothing, as with a loss that counts."""
_PROPOSALS, _EXAMPLES, _FEWEST = 256, 1024, 64
_TELLING = 8
"""Proposals that must have changed the loss of an example, to be told something by."""
_TINY = 1e-20


class Slopes(NamedTuple):
    """v, mu and V of changes of all of a model."""

    between_examples: float
    mean: float
    between_changes: float

    def first_s(self) -> float:
        """For untrained models."""
        return self.between_changes**-0.5

    def first_s_of_trained(self, pairs: float, tau: int) -> float:
        """For trained ones, with so many pairs of losses for a renewal."""
        affordable = (pairs * RHO_LARGEST**2 * _ACCEPTED / (tau * self.between_examples)) ** 0.5
        balanced = 2 * self.mean / self.between_changes
        return float(min(affordable, balanced) if balanced > 0 else affordable)

    def share_at(self, s: float, chunk: int) -> float:
        """The share of a model that can be changed on a chunk of examples at the largest noise; at most all of it."""
        return min(1.0, RHO_LARGEST**2 * chunk / (s**2 * self.between_examples))


def looks(sampler: Sampler, pairs: float) -> tuple[int, int]:
    """Proposals of every chain, and examples of each, that are looked at for about `pairs` losses."""
    # A budget that is small leaves fewer examples, and then fewer proposals.
    examples = int(min(_EXAMPLES, sampler.program.population.size, max(pairs / _PROPOSALS, _FEWEST)))
    proposals = int(min(_PROPOSALS, max(pairs / examples, _FEWEST)))
    return -(-proposals // sampler.settings.chains), examples


def slopes(sampler: Sampler, state: State, pairs: float = math.inf, control: Control | None = None) -> Slopes:
    """Found by proposals of a small size, or of their own where they are not tuned, for about `pairs` losses."""
    program = sampler.program
    proposals, examples = looks(sampler, pairs)
    for tried in _SHARES if program.is_tuned else (None,):
        state = state if tried is None else sampler.with_share(state, tried)
        share = share_renewed(state.sizes, program.move, state.path.shape[-1])
        seen = sampler.look_at(state, 0, proposals, examples, control)
        differences = np.asarray(seen.differences, np.float64).reshape(-1, examples)
        differences = differences[np.isfinite(differences).all(1)]
        if (differences != 0).any(1).sum() >= _TELLING:
            break
    else:
        # Nothing is known of what matters: s rises from 1.
        return Slopes(1.0, 0.0, 1.0)
    means, noise = differences.mean(1), float(differences.var(1, ddof=1).mean())
    # Of the means of few examples, some of the variance is noise.
    between = max(float(means.var(ddof=1)) - noise / examples, 0.1 * noise / examples, _TINY)
    return Slopes(max(noise, _TINY) / share, float(means.mean()) / share, between / share)


BUDGET = 2.5e7
"""Pairs of losses that a run takes unless it is told otherwise: some minutes on two cores for the paper's network."""

RANDOM, AUTO = "random", "auto"

HELD_OUT = 0.2
"""Share of the examples that is held out to search for s by, or to know the noise of labels by."""

_RECORDS_OF_SEARCH = 8, 100
"""How often a search of its own is recorded, at least and at most."""

SHARE_OF_EVOLUTION, LESS = 0.6, 0.6
"""Of the usual budget, for a start by evolution; larger ones spend more on it by this power, a smaller share."""

LONGEST_START = 0.65
"""Of a budget of seconds, for a start by evolution at most."""

PASSES_OF_EVOLUTION = 1e4
"""Pairs of losses per example that a start by evolution takes at most: few data are learnt soon."""

_CHECKED, _FEWEST_CHECKED, _SHARE_OF_CHECKS = 4096, 64, 1e-3
"""Examples that models of a start are compared on: so many, or fewer where the budget is small."""
_SHARE_OF_SLOPES = 0.02
"""Of the budget, for a look at where s begins."""
_WIDE = 3.0
_MOMENTS = ("model", "slope", "square")


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


def evolution_pairs(pairs: float, size: float = math.inf) -> float:
    """Pairs of losses per chain spent on the evolution start, of a budget of `pairs` per chain for `size` examples."""
    return min(SHARE_OF_EVOLUTION * min(pairs, BUDGET * (pairs / BUDGET) ** LESS), PASSES_OF_EVOLUTION * size)


@dataclass(frozen=True)
class Start:
    """Where a path starts.

    Attributes
    ----------
    paths : (chains, tau, dim), or None for random ones
    pairs : float
        Of losses per chain, that were taken to find them.
    records : dict of arrays (chains, records)
        See `StartCurve.records`; those of a search have ``s`` and ``loss_held_out`` too; none where nothing was taken.
    s : float, optional
        What was found in a search.
    search : (2, bins)
        What the search went by.
    """

    paths: np.ndarray | None
    pairs: float = 0.0
    records: Records = field(default_factory=dict)
    s: float | None = None
    search: np.ndarray = field(default_factory=no_search)


def usual_start(budget: Budget, start: Any = AUTO) -> Any:
    """The `start` that was given; where s is searched for, the search or random models, which learn by and by."""
    if not isinstance(start, str) or start not in (AUTO, RANDOM):
        return start
    if budget.is_searched_before:
        return SEARCH
    return EVOLUTION if start == AUTO and budget.searched_on is None else RANDOM


def starting_paths(
    sampler: Sampler,
    budget: Budget,
    start: Any,
    show: ShowStart,
    directory: RunDirectory | None,
    stop: Callable[[], bool] | None,
    identity: RunIdentity,
) -> Start:
    """Find the paths that `start` of `trajens.train` stands for."""
    target, chains = sampler.target, sampler.settings.chains
    if budget.is_searched_before:
        return _search(sampler, budget, show, directory, stop)
    if not isinstance(start, (str, Path)):
        return Start(_constant(start, target, chains))
    if start == RANDOM:
        return Start(None)
    if start == EVOLUTION:
        return _evolve(sampler, budget, show, directory, stop, identity)
    require(
        Path(start).is_dir(),
        f"start must be evolution, random, an array or the directory of a run, got {str(start)!r}; check it.",
    )
    return Start(StoredRun(start).paths)


def _evolve(
    sampler: Sampler,
    budget: Budget,
    show: ShowStart,
    directory: RunDirectory | None,
    stop: Callable[[], bool] | None,
    identity: RunIdentity,
) -> Start:
    """Constant paths at models by evolution, or at those it began with where they are better."""
    target, chains, problem = sampler.target, sampler.settings.chains, sampler.target.problem
    random = sampler.init()
    models = np.asarray(random.path)[:, 0]
    how, generations = Evolution(scale=scale_of(problem, target.prior)).within(
        evolution_pairs(budget.pairs, problem.population.size), problem.population.most
    )
    pairs, began = how.pairs * how.examples, time.perf_counter()
    kept, known = _load_start(identity, directory)
    begin = Evolving.of(models) if kept is None else Evolving(int(kept["done"]), *(kept[n] for n in _MOMENTS))
    curve = StartCurve(generations, chains, kept)

    def is_late() -> bool:
        return budget.seconds is not None and time.perf_counter() - began > LONGEST_START * budget.seconds

    def watch(now: Evolving, losses: np.ndarray) -> bool:
        curve.add(now.done, losses)
        show(now.done * pairs, float(losses[-1].mean()), time.perf_counter() - began, chains)
        is_stopped = stop is not None and stop()
        if directory is not None and (is_stopped or directory.is_due()):
            moments = dict(zip(_MOMENTS, now[1:], strict=True))
            directory.keep_start({"done": np.array(now.done), **moments, **curve.arrays, **known})
        return is_stopped or is_late()

    found = evolve(problem, jax.tree.map(np.asarray, random.key), begin, generations, how, watch)
    if found.done < generations and not is_late():
        raise Stopped(f"stopped in the start of the run, after {found.done:,} of {generations:,} generations")
    some = _checked(problem, budget.pairs)
    of_found, of_first = _losses(problem, np.stack([found.model, models], axis=1), some).T
    chosen = np.where((of_found < of_first)[:, None], found.model, models)
    took, records = found.done * pairs, curve.records(pairs)
    records["data_used"] = np.minimum(records["data_used"], took)
    return Start(_constant(chosen[:, None], target, chains), float(took), records)


def _search(
    sampler: Sampler, budget: Budget, show: ShowStart, directory: RunDirectory | None, stop: Callable[[], bool] | None
) -> Start:
    """Paths at the end of a search, and the s for all examples, with labels as noisy as those that were held out."""
    target, settings = sampler.target, replace(sampler.settings, keep_paths=False, observe={})
    problem, controller = target.problem.hold_out(HELD_OUT), search_budget(target.problem, budget, settings.chains)
    identity = RunIdentity(Target(problem, target.tau, target.sigma, 1.0, target.prior), settings, controller)

    def begin(sampler: Sampler, _: RunIdentity) -> RunState:
        return first_state(sampler, controller, Start(None))

    def shown(now: Progress) -> None:
        show(now.data_used // now.chains, now.loss, now.seconds, now.chains)

    own = None if directory is None else directory.of_search()
    run = run_or_resume(identity, begin, own, progress=shown, stop=stop)
    if not run.is_complete:
        done = run.run_state.pairs_used / controller.pairs
        raise Stopped(f"stopped in the search for s, with which the run begins, after {done:.0%} of it")
    records = {name: run.records[name] for name in ("data_used", "loss", "s", "loss_held_out")}
    return Start(run.paths, run.run_state.pairs_used, records, _found_s(run, target.problem), run.run_state.search)


def search_budget(problem: Problem, budget: Budget, chains: int) -> Budget:
    """What a search takes of a budget for this problem, none of whose examples are held out."""
    pairs = SEARCHING * budget.pairs
    fewest, most = _RECORDS_OF_SEARCH
    return Budget(
        pairs,
        int(min(max(affordable_records(problem, chains * budget.tau, chains * pairs), fewest), most)),
        budget.tau,
        likely_size=problem.num_weighted - budget.searched_on if budget.searched_on else None,
        is_noise_unknown=problem.likelihood == NOISE,
        seconds=None if budget.seconds is None else SEARCHING * budget.seconds,
        searched_on=budget.searched_on,
        searching=1.0,
        largest_variance=problem.label_variance,
    )


def affordable_records(problem: Problem, models: int, pairs: float) -> float:
    """How often so many models can be measured on all examples, at a share of a budget for all of them."""
    # Two models share a pair.
    return SHARE_OF_MEASURING * pairs / (models / 2 * problem.size)


def _found_s(run: Run, problem: Problem) -> float:
    """The s at which all examples weigh as many likelihoods as were found to be best."""
    controller, used = run.controller, run.records["data_used"].mean(0)
    assert isinstance(controller, Budget)
    assert controller.searched_on is not None
    best, variance = best_likelihoods(run.run_state.search, controller.searched_on), 1.0
    if controller.is_noise_unknown:
        # A record speaks of the s at the one before it.
        tried = np.array([likelihoods_at(part) for part in np.concatenate([[0.0], used[:-1]]) / used[-1]])
        held_out = run.records["loss_held_out"].mean(0)
        # Where models still learn, their loss at the end is nearer to what it will be.
        variance = controller.variance(min(at_likelihoods(tried, held_out, c) for c in (best, HIGHEST)))
    found = likelihood_s(problem.num_weighted, controller.tau, variance, best) if variance > 0 else math.inf
    # Where labels have no noise, or nothing was measured, the last s was as large as it may be.
    return found if found < LARGEST_S else float(run.s[0])


def _load_start(identity: RunIdentity, directory: RunDirectory | None) -> tuple[Arrays | None, Arrays]:
    """How far a start had come that was stopped, and what it must be known by."""
    if directory is None:
        return None, {}
    kept = directory.load_start()
    if kept is not None:
        require_same(json.loads(str(kept.pop(IDENTITY))), identity.description, directory.path)
    return kept, {IDENTITY: np.array(json.dumps(identity.description))}


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


def _checked(problem: Problem, pairs: float) -> np.ndarray:
    """Examples that models of a start are compared on: little beside a budget of so many pairs per chain."""
    affordable = max(int(_SHARE_OF_CHECKS * pairs), _FEWEST_CHECKED)
    return problem.population.some(min(_CHECKED, affordable, problem.population.most))


def _losses(problem: Problem, pairs: np.ndarray, some: np.ndarray) -> np.ndarray:
    """Mean losses (k, 2) of pairs of models (k, 2, dim) on some examples; infinite where one is not finite."""
    members = np.repeat(some[None], len(pairs), axis=0)
    losses = compiled_losses_of_pairs(problem.loss, problem.data, pairs, members, np.ones(len(pairs), bool))
    mean = np.asarray(losses).mean(2)
    return np.where(np.isfinite(mean), mean, np.inf)


def first_state(sampler: Sampler, budget: Budget, start: Start) -> RunState:
    """The state before the first epoch: the paths of a start, a first s, moves that suit it."""
    paths, pairs = start.paths, start.pairs
    state, control, program = sampler.init(paths), sampler.control, sampler.program
    if sampler.settings.is_reweighting:
        control, _ = reweight(sampler, state, control, pairs)
    found = slopes(sampler, state, _slope_pairs(sampler, budget), control)
    per_renewal = (budget.pairs - pairs) / (2 * budget.renewals(pairs))
    s = found.first_s() if paths is None else found.first_s_of_trained(per_renewal, program.tau)
    held_out = sampler.target.problem.held_out
    known = math.nan
    if held_out is not None:
        known = float(mean_losses(held_out, np.asarray(state.path), HELD_OUT_EXAMPLES).mean())
    s = budget.first_s(s, known) if start.s is None else start.s
    if program.is_tuned:
        state = sampler.with_share(state, found.share_at(s, program.chunk))
    goal, reference = float(sampler.target.s_values.max()), math.inf
    if paths is not None and start.s is None:
        ends = np.asarray(state.path)[:, [0, -1]]
        some = _checked(sampler.target.problem, budget.pairs)
        reference = float(_losses(sampler.target.problem, ends, some).mean())
    control = control._replace(tilt=min(s / goal, 1.0) if budget.is_to_s else s)
    memory = program.acceptance.while_rising(jax.tree.map(np.asarray, state.acceptance))
    state = sampler.with_memory(state, memory) if memory else state
    first = budget.first_mark(program.chunk, program.lanes, pairs)
    begun = first_run_state(state, control, np.array([first]), pairs)
    begun = replace(begun, start=start.records, search=start.search)
    return replace(begun, reference_loss=reference, is_start_common=is_common(state.path))


def _slope_pairs(sampler: Sampler, budget: Budget) -> float:
    """Pairs of losses, of all chains together, for finding where s begins."""
    return _SHARE_OF_SLOPES * budget.pairs * sampler.settings.chains


def compile_ahead(sampler: Sampler, budget: Budget) -> None:
    """Begin to compile what is needed after the start."""
    sampler.compile_ahead(looks(sampler, _slope_pairs(sampler, budget)))


class ShowStart:
    """Shows the start, where progress is shown; it is called by the name of its `phase`."""

    def __init__(self, progress: bool | Show, pairs: float, phase: str = EVOLUTION):
        self._show: Any = progress
        self._phase = phase
        if progress is True:
            self._show = ProgressBar(pairs, label=phase, curve=True, unit="pairs", is_followed=True)

    def __call__(self, pairs: int, loss: float, seconds: float, chains: int) -> None:
        if self._show:
            self._show(
                Progress(
                    epoch=0,
                    seconds=seconds,
                    loss=loss,
                    acceptance=math.nan,
                    batch_size=math.nan,
                    data_used=pairs * chains,
                    chains=chains,
                    phase=self._phase,
                )
            )

    def __enter__(self) -> ShowStart:
        return self

    def __exit__(self, *_: object) -> None:
        if isinstance(self._show, ProgressBar):
            self._show.close()
