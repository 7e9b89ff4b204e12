"""Observed losses: that of every model along the paths that a run has kept, by chain, draw and model.

All of `trajens.thermo` is computed from them. Losses of records are means over a path, on examples drawn afresh every
time, whose noise would count as fluctuation of the loss: free energies and variances need the loss of every path on the
same examples, on all of them where possible.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from trajens.errors import InputError, integer, number, require
from trajens.precision import numbers, single
from trajens.problem import Problem
from trajens.randomness import key_of
from trajens.records import after_burn_in
from trajens.run.run import Run
from trajens.run.stored import StoredRun
from trajens.sampling.footprint import pairs_within
from trajens.sampling.measure import CHUNK, compiled_losses_of_models, examples_per_measurement


class Kept(NamedTuple):
    """Tilts (chains,), paths (chains, draws, tau, dim), on the disk where the run is, and epochs (draws,)."""

    s: np.ndarray
    history: np.ndarray
    epochs: np.ndarray


def kept_paths(run: Run | StoredRun, burn_in: int | None = None) -> Kept:
    """What a run has kept; refused where that is nothing, or s changed."""
    history, records = run.history, run.records
    if history is None or not records:
        raise InputError(
            "run must have kept its paths at every record, got none; sample with keep_paths=True, or train with "
            "--keep-paths."
        )
    begin = run.burn_in if burn_in is None else integer("burn_in", burn_in, 0, "0 leaves out nothing")
    is_after = after_burn_in(records, begin)
    require(
        bool(is_after.any()),
        f"a record after burn-in ({begin}) is needed, got {len(is_after)} before it; extend the run.",
    )
    # These are the last records, so that a slice will do: of a run on disk they are read as they are needed.
    first = int(np.argmax(is_after))
    s = records["s"][:, first:]
    require(
        bool((s == s[:, :1]).all()),
        f"s must not change after burn-in, got {s.min():g} to {s.max():g}; give a burn_in at which it has settled.",
    )
    return Kept(s[:, 0].astype(np.float64), history[:, first:], records["epoch"][0, first:])


class Observed:
    """Losses of paths drawn at several s.

    Chains of equal s are independent samples of one distribution. Where every s has as many chains, the r-th chain of
    every s is ladder r, and ladders are what is independent: chains of one ladder may have exchanged their paths.

    Parameters
    ----------
    s : array (chains,)
        The tilt of every chain.
    losses : array (chains, draws, tau)
        The loss of every model of every path drawn, burn-in left out.
    groups : array (groups, chains, draws, tau), optional
        Where `losses` were measured on a random part of the examples: those on disjoint groups of it of equal size,
        of which `losses` are the mean. From them follows what the choice of the part does to any result.
    share : float
        The part of all examples that was measured on; 1 without `groups`, 0 for a stream, which has no end.
    epochs : array (draws,), optional
        The epoch of every draw.
    """

    def __init__(self, s: Any, losses: Any, groups: Any = None, share: float = 1.0, epochs: Any = None):
        self.s = numbers("s", s).astype(np.float64)
        self.losses = numbers("losses", losses).astype(np.float64, copy=False)
        require(
            self.losses.ndim == 3 and self.losses.size > 0,
            f"losses must have shape (chains, draws, tau), got {self.losses.shape}; one model per path is tau = 1.",
        )
        chains, draws, _ = self.losses.shape
        require(
            self.s.shape == (chains,),
            f"s must be one number for each of {chains} chains, got shape {self.s.shape}; repeat that of equal chains.",
        )
        require(bool(np.isfinite(self.s).all()), f"s must be finite, got {self.s}; leave out what is not.")
        require_finite(self.losses)
        self.groups = None if groups is None else numbers("groups", groups)
        self.share = number(
            "share", share, "it is the part of all examples that was measured on", at_least=0, at_most=1
        )
        require(
            self.groups is None or (self.groups.shape[1:] == self.losses.shape and len(self.groups) > 1),
            f"groups must have shape (groups, *{self.losses.shape}) with two or more, got "
            f"{None if self.groups is None else self.groups.shape}; leave them out for losses on all data.",
        )
        require(
            self.groups is not None or self.share == 1.0,
            f"share must be 1 where there are no groups, got {share!r}; give the losses on groups of the examples.",
        )
        self.epochs = None if epochs is None else numbers("epochs", epochs).astype(np.float64)
        require(
            self.epochs is None or self.epochs.shape == (draws,),
            f"epochs must be one for each of {draws} draws, got {None if self.epochs is None else self.epochs.shape}; "
            "all chains are drawn from at the same ones.",
        )

    @property
    def chains(self) -> int:
        """How many there are, of all s."""
        return self.losses.shape[0]

    @property
    def draws(self) -> int:
        """Paths of every chain."""
        return self.losses.shape[1]

    @property
    def tau(self) -> int:
        """Models of a path."""
        return self.losses.shape[2]

    @property
    def path_loss(self) -> np.ndarray:
        """L = sum_t L(theta_t) of every path, (chains, draws)."""
        return self.losses.sum(-1)

    @property
    def levels(self) -> np.ndarray:
        """The different s, ascending."""
        return np.unique(self.s)

    @property
    def members(self) -> list[np.ndarray]:
        """The chains of every level, in their order: the r-th of each belongs to ladder r."""
        return [np.flatnonzero(self.s == s) for s in self.levels]

    @property
    def loss_error(self) -> np.ndarray:
        """Standard error (chains,) that the choice of examples leaves in the mean loss at the s of every chain.

        (1 - n/N)^1/2 times that of a mean over groups of the examples; 0 where all data were measured on. It is the
        same mistake at all chains of one s, and nearly so at others.
        """
        error = np.zeros(self.chains)
        if self.groups is not None:
            for chains in self.members:
                means = self.groups[:, chains].mean((1, 2, 3), dtype=np.float64)
                error[chains] = np.sqrt((1.0 - self.share) * means.var(ddof=1) / len(means))
        return error

    def __repr__(self) -> str:
        return f"Observed(levels={len(self.levels)}, chains={self.chains}, draws={self.draws}, tau={self.tau})"


def require_finite(losses: np.ndarray) -> None:
    """Refuse losses that are no numbers."""
    bad = int((~np.isfinite(losses)).sum())
    require(bad == 0, f"losses must be finite, got {bad} that are not; leave out those chains, or draw them again.")


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
    from trajens.app.experiment import Experiment

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
