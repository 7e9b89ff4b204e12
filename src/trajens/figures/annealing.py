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
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import trajens as tj
from trajens import thermo
from trajens.acceptance import AcceptanceTest
from trajens.errors import require
from trajens.figures import digits
from trajens.figures.frame import Show, kept_run
from trajens.moves import CentreOfMass, Mixture, Proposer, SingleSite
from trajens.precision import single
from trajens.run import Run

_EXAMPLES = 256
"""Of the virial; their choice changes it by less than a percent."""
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
        """One model at a time, and the whole path as often as each of them: alone, it would move slowly."""
        sites = [(1.0, SingleSite(fraction)) for fraction in _FRACTIONS]
        return Mixture(sites if tau == 1 else [*sites, (len(sites) / tau, CentreOfMass(self.sigma / 4))])


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
    """What one annealing saw: the last axes are those of its records in the second halves of steps.

    Attributes
    ----------
    s : (levels,)
    loss : (2, levels, runs, draws)
        <L> / tau of every path, up and down; on fresh examples where these are many.
    weight_rms : (2, levels, runs, draws)
    acceptance : (2, levels)
    models : (2, levels, runs, draws, tau), optional
        The loss of every model on the same examples, where paths were kept.
    virial : (2, levels, runs), optional
    """

    s: np.ndarray
    loss: np.ndarray
    weight_rms: np.ndarray
    acceptance: np.ndarray
    models: np.ndarray | None = None
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
    def by_level(of_step: list[np.ndarray]) -> np.ndarray:
        ways = zip(*(ladder.steps(k) for k in range(len(ladder.levels))), strict=True)
        return np.array([[of_step[step] for step in way] for way in ways])

    steps = range(len(ladder.both_ways))

    def late(name: str) -> np.ndarray:
        return by_level([run.records[name][:, ladder.late(step)] for step in steps])

    found = Branches(
        np.array(ladder.levels), late("loss"), late("weight_rms"), late("acceptance").mean((-2, -1)), None, None
    )
    if not with_paths:
        return found
    pieces = [_piece(run, ladder.late(step), ladder.both_ways[step]) for step in steps]
    models = by_level([thermo.observe(piece).losses for piece in pieces])
    virial = by_level([_virial(piece, s) for piece, s in zip(pieces, ladder.both_ways, strict=True)])
    return found._replace(models=models, virial=virial)


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
    loss = np.array([[_scaling(target.problem, model) for model in path] for path in last]).sum(1)
    steps = (np.diff(last, axis=1) ** 2).sum((1, 2)) / target.sigma**2
    first = 0.0 if target.prior is None else (last[:, 0] ** 2).sum(1) / target.prior**2
    return np.asarray((s * loss + steps + first) / last[0].size)


def _scaling(problem: tj.Problem, theta: np.ndarray) -> float:
    """theta . grad L(theta), on some examples that are always the same."""
    count = min(_EXAMPLES, problem.size)
    some = np.random.default_rng(problem.size).permutation(problem.size)[:count]
    return float(_slope(problem, np.asarray(theta, np.float32), some))


@single
def _slope(problem: tj.Problem, theta: np.ndarray, some: np.ndarray) -> jax.Array:
    batch = jax.tree.map(lambda leaf: jnp.asarray(leaf)[some], problem.data)
    return _compiled(problem.loss, theta, batch)
