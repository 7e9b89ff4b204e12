"""Annealing up and down through a ladder of s, and what is seen at every step of it.

    s_1 < s_2 < .. < s_K, then s_K > .. > s_1; as many epochs at each, of which the second half is looked at

A path in equilibrium at s_k does not know from where s came: the two branches agree, within errors over runs, or what
is seen is not a property of the law. Then the identity

    < s sum_t theta_t . grad L(theta_t) + sum_t |theta_{t+1} - theta_t|^2 / sigma^2 + |theta_1|^2 / sigma_0^2 > = tau P

holds besides (scale all weights of all models by 1 + epsilon: Z does not change). Its left side over tau P is called
the virial here. Below 1, weights are growing: nothing holds them, or they have not got there yet.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import trajens as tj
from trajens import thermo
from trajens.acceptance import AcceptanceTest
from trajens.errors import require
from trajens.figures import digits
from trajens.figures.frame import Show, kept_run
from trajens.losses import Loss
from trajens.moves import CentreOfMass, Mixture, Proposer, SingleSite
from trajens.precision import single
from trajens.run import Run

_EXAMPLES = 256
"""Of the virial; their choice changes it by less than a percent."""
_SHIFTS = 0.5
"""Of the whole path, for every time that each of its models is redrawn."""
_FRACTIONS = (0.25, 0.03)
"""The paper's mask, and a small one, which is accepted where s is large."""


@dataclass(frozen=True)
class Digits:
    """A network and the images it learns.

    Attributes
    ----------
    images : int
        The first so many of the training digits.
    side : int
        Pixels of a side, which are averages; 28 for all.
    hidden : int
        Units of the one hidden layer; 0 for the paper's network, which needs all pixels.
    sigma : float
        A step between models.
    prior : float
        Width of the Gaussian law of the first model.
    """

    images: int
    side: int
    hidden: int
    sigma: float
    prior: float

    @property
    def network(self) -> str:
        """What is trained, in words."""
        if self.hidden == 0:
            return "the paper's network"
        return f"{self.hidden} hidden units on {self.side} x {self.side} pixels"

    @property
    def problem(self) -> tj.Problem:
        """Cross-entropy on the images."""
        seen = tj.datasets.mnist()
        x, y = seen.train_x[: self.images], seen.train_y[: self.images]
        if self.hidden == 0:
            return tj.models.cnn().problem(x, y)
        return tj.models.mlp((self.side**2, self.hidden, 10)).problem(digits.averaged(x, self.side), y)

    @property
    def acceptance(self) -> AcceptanceTest:
        """Few data are read in full, which is exact."""
        return tj.Metropolis() if self.hidden else tj.Penalty()

    def move(self, tau: int) -> Proposer:
        """One model at a time, and now and then the whole path, which would move slowly otherwise."""
        sites = [(1.0, SingleSite(fraction)) for fraction in _FRACTIONS]
        return Mixture(sites if tau == 1 else [*sites, (_SHIFTS * len(sites) / tau, CentreOfMass(self.sigma / 4))])


@dataclass(frozen=True)
class Ladder:
    """Levels of s, ascending, with `epochs` per model at each on the way up and on the way down, `looks` in these."""

    levels: tuple[float, ...]
    epochs: int
    looks: int

    def __post_init__(self) -> None:
        is_fine = self.looks % 2 == 0 and self.epochs % self.looks == 0
        require(
            is_fine,
            f"looks must be even and divide the epochs at a level, got {self.looks} and {self.epochs}; try 8 and 400.",
        )

    @property
    def both_ways(self) -> tuple[float, ...]:
        """s of every step: up, and down."""
        return (*self.levels, *self.levels[::-1])

    def schedule(self, tau: int) -> tj.schedule.Steps:
        """s as a function of the epoch."""
        return tj.schedule.stepped([(i * self.epochs * tau, s) for i, s in enumerate(self.both_ways)])

    def late(self, step: int) -> slice:
        """The records of the second half of a step."""
        return slice(step * self.looks + self.looks // 2, (step + 1) * self.looks)

    def steps(self, level: int) -> tuple[int, int]:
        """The step up and the step down at a level."""
        return level, 2 * len(self.levels) - 1 - level


class Branches(NamedTuple):
    """What one annealing saw in the second halves of its steps; axis 0 is up and down.

    Attributes
    ----------
    s : (levels,)
    loss : (2, levels, runs)
        <L> / tau.
    weight_rms : (2, levels, runs)
    acceptance : (2, levels, runs)
    observed : Observed, optional
        Losses of the paths that were kept, on the same examples for all; draws are those up, then those down.
    virial : (2, levels, runs), optional
    """

    s: np.ndarray
    loss: np.ndarray
    weight_rms: np.ndarray
    acceptance: np.ndarray
    observed: thermo.Observed | None = None
    virial: np.ndarray | None = None


def annealed(
    folder: Path,
    problem: tj.Problem,
    seen: Digits,
    prior: float | None,
    tau: int,
    ladder: Ladder,
    runs: int,
    seed: int,
    show: bool | Show,
    keep_paths: bool,
) -> Branches:
    """Anneal up and down, or read back the run that did."""
    epochs = len(ladder.both_ways) * ladder.epochs * tau
    target = tj.Target(problem, tau, seen.sigma, ladder.schedule(tau), prior)
    run = kept_run(
        folder,
        target,
        epochs,
        show,
        chains=runs,
        seed=seed,
        # Tests that adapt go on with it: what suits one s does not suit the next.
        burn_in=0,
        move=seen.move(tau),
        acceptance=seen.acceptance,
        records=len(ladder.both_ways) * ladder.looks,
        keep_paths=keep_paths,
    )
    return _looked_at(run, ladder, keep_paths)


def _looked_at(run: Run, ladder: Ladder, with_paths: bool) -> Branches:
    ways = np.transpose([ladder.steps(level) for level in range(len(ladder.levels))])

    def late(name: str) -> np.ndarray:
        return np.array([[run.records[name][:, ladder.late(step)].mean(1) for step in way] for way in ways])

    found = Branches(np.array(ladder.levels), late("loss"), late("weight_rms"), late("acceptance"))
    if not with_paths:
        return found
    pieces = [[_piece(run, ladder.late(step), ladder.both_ways[step]) for step in way] for way in ways]
    observed = [[thermo.observe(piece) for piece in way] for way in pieces]
    virial = [[_virial(piece, s) for piece, s in zip(way, ladder.levels, strict=True)] for way in pieces]
    return found._replace(observed=_joined(observed), virial=np.array(virial))


def _joined(ways: list[list[thermo.Observed]]) -> thermo.Observed:
    """All levels, one after the other, with the draws of both ways."""

    def joined(arrays: list[list[Any]], axis: int) -> np.ndarray:
        return np.concatenate([np.concatenate(levels, axis) for levels in arrays], axis + 1)

    one = ways[0][0]
    losses = joined([[o.losses for o in levels] for levels in ways], 0)
    groups = None if one.groups is None else joined([[o.groups for o in levels] for levels in ways], 1)
    return thermo.Observed(np.concatenate([o.s for o in ways[0]]), losses, groups, one.share)


def _piece(run: Run, some: slice, s: float) -> Run:
    """A run of these records alone, all of them at one s."""
    assert run.history is not None
    records = {"epoch": run.records["epoch"][:, some], "s": np.full_like(run.records["s"][:, some], s)}
    return replace(run, records=records, kept=np.asarray(run.history[:, some]), out=None)


def _virial(piece: Run, s: float) -> np.ndarray:
    """The virial of the last path of every run, (runs,)."""
    target = piece.target
    assert piece.history is not None
    last = np.asarray(piece.history[:, -1], np.float64)
    tilted = s * _scalings(target.problem, last.reshape(-1, last.shape[-1])).reshape(last.shape[:2]).sum(1)
    steps = (np.diff(last, axis=1) ** 2).sum((1, 2)) / target.sigma**2
    first = 0.0 if target.prior is None else (last[:, 0] ** 2).sum(1) / target.prior**2
    return np.asarray((tilted + steps + first) / last[0].size)


@single
def _scalings(problem: tj.Problem, models: np.ndarray) -> np.ndarray:
    """theta . grad L(theta) of every model, on some examples that are always the same."""
    some = np.random.default_rng(problem.size).permutation(problem.size)[:_EXAMPLES]
    batch = jax.tree.map(lambda leaf: jnp.asarray(leaf)[some], problem.data)
    return np.asarray(_slopes(problem.loss, jnp.asarray(models, jnp.float32), batch), np.float64)


@partial(jax.jit, static_argnums=0)
def _slopes(loss: Loss, models: jax.Array, batch: Any) -> jax.Array:
    def slope(theta: jax.Array) -> jax.Array:
        return jax.jvp(lambda factor: loss(factor * theta, batch).mean(), (jnp.float32(1),), (jnp.float32(1),))[1]

    return jax.lax.map(slope, models)
