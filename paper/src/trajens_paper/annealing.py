"""Annealing up and down through a ladder of s, and what is seen at every step of it.

    s_1 < s_2 < .. < s_K << s_turn, then s_K > .. > s_1; as many epochs at each, of which the second half is looked at

A path in equilibrium at s_k does not know from where s came: the two branches agree, within errors over runs, or what
is seen is not a property of the distribution. That they agree says something only where they come from different sides:
so s turns well above the ladder, and stays there until the loss is below all that is to be seen on the way down.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

import trajens as tj
from trajens.acceptance import AcceptanceTest
from trajens.errors import require
from trajens.moves import CentreOfMass, Mixture, Proposer, SingleSite
from trajens_paper import digits
from trajens_paper.frame import kept_run

_TURN, _TURN_STEPS = 3.0, 20
"""Where s turns, in units of its largest level, and for how many steps it stays there."""
_SHIFTS = 0.5
"""Of the whole path, for every time that each of its models is redrawn."""
_FRACTIONS = (0.25, 0.03)
"""The paper's mask, and a small one, which is accepted where s is large."""
_CHUNK = 240
_SHORT = 4
"""Up to so many models a path is moved, and its decisions are made, as those of a single one; beyond, s is small."""
_FEW = 1000
"""Examples that are read in full, which is exact."""


class Seen(Protocol):
    """What is learned, and how its paths are moved."""

    @property
    def problem(self) -> tj.Problem:
        """The loss and its data."""

    @property
    def sigma(self) -> float:
        """A step between models."""

    @property
    def prior(self) -> float:
        """Width of the distribution of the first model."""

    def acceptance(self, tau: int) -> AcceptanceTest:
        """What decides."""

    def move(self, tau: int) -> Proposer:
        """What is proposed."""


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
        Width of the Gaussian distribution of the first model.
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

    @cached_property
    def problem(self) -> tj.Problem:
        """Cross-entropy on the images, one for all targets."""
        seen = tj.datasets.mnist()
        x, y = seen.train_x[: self.images], seen.train_y[: self.images]
        if self.hidden == 0:
            return tj.models.cnn().problem(x, y)
        return tj.models.mlp((self.side**2, self.hidden, 10)).problem(digits.averaged(x, self.side), y)

    def acceptance(self, tau: int) -> AcceptanceTest:
        """Of many data a minibatch, the smaller the longer the path: s is smaller then."""
        return tj.Metropolis() if self.images <= _FEW else tj.Penalty(max(60, _CHUNK // _times(tau)))

    def move(self, tau: int) -> Proposer:
        """One model at a time, and now and then the whole path, which would move slowly otherwise."""
        sites = [(1.0, SingleSite(min(1.0, _times(tau) * fraction))) for fraction in _FRACTIONS]
        return Mixture(sites if tau == 1 else [*sites, (_SHIFTS * len(sites) / tau, CentreOfMass(self.sigma / 4))])


def _times(tau: int) -> int:
    """How many times longer than a short path one is."""
    return max(1, tau // _SHORT)


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
        """The s of every step: up, at the turn, and down."""
        return (*self.levels, *(_TURN * self.levels[-1],) * _TURN_STEPS, *self.levels[::-1])

    def schedule(self, tau: int) -> tj.schedule.Steps:
        """The tilt as a function of the epoch."""
        return tj.schedule.stepped([(i * self.epochs * tau, s) for i, s in enumerate(self.both_ways)])

    @property
    def length(self) -> int:
        """Epochs per model in all."""
        return len(self.both_ways) * self.epochs

    def late(self, step: int) -> slice:
        """The records of the second half of a step."""
        return slice(step * self.looks + self.looks // 2, (step + 1) * self.looks)

    def steps(self, level: int) -> tuple[int, int]:
        """The step up and the step down at a level."""
        return level, len(self.both_ways) - 1 - level


class Branches(NamedTuple):
    """What one annealing saw in the second halves of its steps; axis 0 is up and down.

    Attributes
    ----------
    s : (levels,)
    loss, weight_rms : (2, levels, runs)
        <L> / tau, and the root mean square of all weights of a path.
    ends : (2, levels, runs, tau, dim), optional
        The paths at the ends of steps, where they were kept.
    """

    s: np.ndarray
    loss: np.ndarray
    weight_rms: np.ndarray
    ends: np.ndarray | None = None


def annealed(
    folder: Path, target: tj.Target, seen: Seen, ladder: Ladder, keep_paths: bool, **settings: Any
) -> Branches:
    """Anneal `target` up and down the ladder, or read back the run that did; `settings` are those of `kept_run`."""
    tau = target.tau
    run = kept_run(
        folder,
        tj.Target(target.problem, tau, target.sigma, ladder.schedule(tau), target.prior),
        ladder.length * tau,
        # Tests that adapt go on with it: what suits one s does not suit the next.
        burn_in=0,
        move=seen.move(tau),
        acceptance=seen.acceptance(tau),
        records=len(ladder.both_ways) * ladder.looks,
        keep_paths=keep_paths,
        **settings,
    )
    ways = np.transpose([ladder.steps(level) for level in range(len(ladder.levels))])

    def late(name: str) -> np.ndarray:
        return np.array([[run.records[name][:, ladder.late(step)].mean(1) for step in way] for way in ways])

    ends = None
    if keep_paths:
        assert run.history is not None
        ends = np.array([[run.history[:, ladder.late(step)][:, -1] for step in way] for way in ways])
    return Branches(np.array(ladder.levels), late("loss"), late("weight_rms"), ends)
