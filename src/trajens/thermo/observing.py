"""The loss of every model along the paths that a run has kept.

Losses of records are means over a path, on examples drawn afresh every time, whose noise would count as fluctuation of
the loss: free energies and variances need the loss of every path on the same examples, on all of them where possible.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from trajens.errors import integer, require
from trajens.precision import single
from trajens.problem import Problem
from trajens.randomness import key_of
from trajens.run.run import Run
from trajens.run.stored import StoredRun
from trajens.sampling.footprint import pairs_within
from trajens.sampling.measure import CHUNK, compiled_losses_of_models, examples_per_measurement
from trajens.thermo.kept import kept_paths
from trajens.thermo.observed import Observed

GROUPS = 16
"""Of the examples, where they are not all: what their choice does is seen by leaving out each."""
_SUBSET_SEED = 18
_MOST_PAIRS, _ROOM = 512, 2**27
"""That are evaluated in one call, and bytes that they may hold."""


def observe(
    run: Run | StoredRun, problem: Problem | None = None, examples: int | None = None, burn_in: int | None = None
) -> Observed:
    """Losses of all models of all paths that a run has kept after burn-in.

    Parameters
    ----------
    run : Run or StoredRun
        With ``keep_paths=True`` (``--keep-paths``), and an s that does not change after burn-in.
    problem : Problem, optional
        Whose losses; default that of the run, which a `StoredRun` knows where it was made by ``trajens train``.
    examples : int, optional
        Measure on so many, drawn once without replacement and the same for all paths, rounded down to a multiple of 16;
        default all of up to 8192, else 4096. It takes chains x draws x tau x examples losses.
    burn_in : int, optional
        Epochs to leave out; default those of the run.

    Returns
    -------
    Observed
    """
    kept = kept_paths(run, burn_in)
    history = kept.history
    problem = _problem_of(run) if problem is None else problem
    require(
        problem.dim == history.shape[-1],
        f"problem must have the {history.shape[-1]} parameters of the models of the run, got {problem.dim}; give the "
        "one it was sampled with.",
    )
    losses, groups, share = _losses(problem, history, examples)
    return Observed(kept.s, losses, groups, share, kept.epochs)


def _problem_of(run: Run | StoredRun) -> Problem:
    if isinstance(run, Run):
        return run.target.problem
    require(
        run.config is not None,
        f"problem must be given for a run that was made in Python, got none for '{run.path}'; pass the one it was "
        "sampled with: observe(run, problem).",
    )
    # Rebuilding a run of the command line loads its data, and all that can read data.
    from trajens.experiments import Experiment

    return Experiment.load(run).problem


def _losses(problem: Problem, history: np.ndarray, examples: int | None) -> tuple[np.ndarray, np.ndarray | None, float]:
    """Losses (chains, draws, tau), those on groups of the examples unless these are all, and the part they are."""
    population, shape = problem.population, history.shape[:3]
    if examples is None:
        examples = examples_per_measurement(population.size, shape[2])
    most = None if np.isinf(population.size) else int(population.size)
    examples = integer("examples", examples, 1, "leave it out for all data, or 4096", most)
    if examples == most:
        everything = np.asarray(population.at(np.arange(examples)))
        return _of_members(problem, history, everything[None])[0], None, 1.0
    require(
        examples >= 2 * GROUPS,
        f"examples must be at least {2 * GROUPS} where they are not all, got {examples}; their error is measured "
        f"between {GROUPS} groups of them.",
    )
    examples -= examples % GROUPS
    drawn = np.asarray(_drawn(population, examples))
    groups = _of_members(problem, history, drawn.reshape(GROUPS, -1, *drawn.shape[1:]))
    return groups.mean(0), groups, examples / population.size


@single
def _drawn(population: Any, count: int) -> Any:
    return population.draw(key_of(_SUBSET_SEED), jnp.arange(count))


def _of_members(problem: Problem, history: np.ndarray, members: np.ndarray) -> np.ndarray:
    """Mean losses (groups, chains, draws, tau) on every group (groups, m, ...) of members; some records at a time."""
    groups, (chains, draws, tau, dim) = len(members), history.shape
    room_for = pairs_within(problem, min(CHUNK, members.shape[1]), _ROOM)
    at_once = 2 * min(_MOST_PAIRS, room_for, -(-chains * draws * tau // 2))
    found = np.empty((groups, chains, draws, tau))
    rows = max(1, at_once // (chains * tau))
    for begin in range(0, draws, rows):
        paths = np.asarray(history[:, begin : begin + rows], np.float32)
        for group, some in zip(found, members, strict=True):
            means = _means(problem, paths.reshape(-1, dim), some, at_once)
            group[:, begin : begin + rows] = means.reshape(paths.shape[:3])
    return found


def _means(problem: Problem, models: np.ndarray, members: np.ndarray, at_once: int) -> np.ndarray:
    """Mean loss (k,) of models (k, dim), `at_once` in a call, the last ones repeated to fill it."""
    filled = np.concatenate([models, np.broadcast_to(models[-1:], (-len(models) % at_once, models.shape[1]))])
    sums = [
        np.asarray(compiled_losses_of_models(problem.loss, problem.data, part, members), np.float64).sum(0)
        for part in filled.reshape(-1, at_once, models.shape[1])
    ]
    return np.concatenate(sums)[: len(models)] / len(members)
