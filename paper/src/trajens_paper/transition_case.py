"""One prior of the first model and one tau of the figure "transition": sampled, or read back from what was kept of it.

What is kept is a file of the numbers that pictures and claims are made of, a thousandth of the paths they are taken
from, with the settings they belong to.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import trajens as tj
from trajens.errors import InputError
from trajens.run.progress import SeveralRuns
from trajens.storage import checkpoint
from trajens.thermo import Curve
from trajens_paper.annealing import Branches, annealed
from trajens_paper.resting import Rested, rested, virial
from trajens_paper.steepest import Ladders
from trajens_paper.transition_scale import Scale

SPEEDS = ("slow", "fast")
_SETTINGS = "settings"
_METHOD = 1
"""To be raised when something that is not among the settings changes what is sampled, such as moves or the turn."""


@dataclass(frozen=True)
class Case:
    """One prior of the first model and one tau: annealed slowly and fast, and at rest where there is an equilibrium.

    Attributes
    ----------
    prior : float or None
        Width of the distribution of the first model; None is flat.
    tau : int
    slow, fast : Branches
    virial : (2, levels, runs)
        Of the paths at the ends of the steps of the slow annealing.
    rest : Rested, optional
    """

    prior: float | None
    tau: int
    slow: Branches
    fast: Branches
    virial: np.ndarray
    rest: Rested | None

    @property
    def is_flat(self) -> bool:
        """Whether nothing holds the weights."""
        return self.prior is None

    @cached_property
    def ladders(self) -> Ladders:
        """Losses of paths at rest, both branches together."""
        assert self.rest is not None
        # From (2, levels, runs, draws) to (2 runs, levels, draws).
        return Ladders(self.rest.s, np.concatenate(np.swapaxes(self.rest.loss, 1, 2)), self.tau)


@dataclass(frozen=True)
class Sampling:
    """How a case is sampled: into runs below `home`, of which the numbers are kept there in one file.

    Attributes
    ----------
    home : Path
    scale : Scale
    seed : int
        That of the figure; every run has one of its own.
    prior : float or None
    tau : int
    """

    home: Path
    scale: Scale
    seed: int
    prior: float | None
    tau: int

    @property
    def name(self) -> str:
        """What sets it apart from the other cases of a figure."""
        return f"{'flat' if self.prior is None else self.prior}-tau-{self.tau}"

    @property
    def _lengths(self) -> tuple[int, int, int]:
        slow, fast = (self.scale.ladder(self.tau, speed == "slow").length for speed in SPEEDS)
        return slow * self.tau, fast * self.tau, 0 if self.prior is None else self.scale.rest * self.tau

    @property
    def length(self) -> int:
        """Epochs of all its runs, whatever the number of chains in each."""
        return sum(self._lengths)

    @property
    def target(self) -> tj.Target:
        """With s = 1, which ladders multiply."""
        seen = self.scale.seen
        return tj.Target(seen.problem, self.tau, seen.sigma, 1.0, self.prior)

    def _seed(self, which: int) -> int:
        # Equal seeds would give runs the same random numbers.
        seeds = np.random.SeedSequence([self.seed, int(self.prior is None), self.tau]).generate_state(3)
        return int(seeds[which])

    def annealed(self, speed: str, progress: Any = False) -> Branches:
        """Up and down the ladder at one of `SPEEDS`."""
        scale, is_slow = self.scale, speed == "slow"
        settings = {"chains": scale.runs, "seed": self._seed(SPEEDS.index(speed)), "progress": progress}
        ladder = scale.ladder(self.tau, is_slow)
        return annealed(self.home / f"{self.name}-{speed}", self.target, scale.seen, ladder, is_slow, **settings)

    def sampled(self, show: SeveralRuns | None = None) -> Case:
        """Sample what is missing of its runs, and keep their numbers."""
        scale, target, progress = self.scale, self.target, False if show is None else show
        finish = (lambda epochs: None) if show is None else show.finish
        branches = []
        for speed, epochs in zip(SPEEDS, self._lengths, strict=False):
            branches.append(self.annealed(speed, progress))
            finish(epochs)
        slow, fast = branches
        assert slow.ends is not None
        shape = slow.ends.shape[:3]
        s = np.broadcast_to(slow.s[:, None], shape).ravel()
        of_ends = virial(target, s, slow.ends.reshape(len(s), self.tau, -1)).reshape(shape)
        rest = None
        if self.prior is not None:
            settings = {"seed": self._seed(2), "progress": progress}
            folder = self.home / f"{self.name}-rest"
            rest = rested(folder, target, scale.seen, slow, scale.rest, 2 * scale.looks, **settings)
            finish(self._lengths[-1])
        case = Case(self.prior, self.tau, slow._replace(ends=None), fast, of_ends, rest)
        checkpoint.write(self.home / self._file, {**_arrays(case), _SETTINGS: np.array(self._settings)})
        return case

    def kept(self, *folders: Path) -> Case | None:
        """The case as it was kept in the first of the folders that has it, sampled with the same settings."""
        for folder in folders:
            file = folder / self._file
            if not file.exists():
                continue
            try:
                found = checkpoint.load(file)
                settings = str(found.pop(_SETTINGS))
            except Exception as error:  # whatever an archive of arbitrary bytes makes its reader raise
                raise InputError(f"'{file}' must be whole, got a damaged one ({error}); remove it.") from None
            if settings == self._settings:
                return _case(self.prior, self.tau, found)
        return None

    @property
    def _file(self) -> str:
        return f"{self.name}.npz"

    @property
    def _settings(self) -> str:
        scale = {key: value for key, value in asdict(self.scale).items() if key not in ("taus", "is_in_results")}
        return json.dumps({**scale, "seed": self.seed, "method": _METHOD}, sort_keys=True)


def _arrays(case: Case) -> checkpoint.Arrays:
    """By name, one array for every number of a case."""
    found = {"virial": case.virial}
    for name, part in (("slow", case.slow), ("fast", case.fast), ("rest", case.rest)):
        if part is None:
            continue
        for key, value in part._asdict().items():
            if isinstance(value, Curve):
                found |= {f"{name}.{key}.{inner}": column for inner, column in vars(value).items()}
            elif value is not None:
                found[f"{name}.{key}"] = value
    return found


def _case(prior: float | None, tau: int, arrays: checkpoint.Arrays) -> Case:
    def of(part: str) -> checkpoint.Arrays:
        return {key.removeprefix(part): value for key, value in arrays.items() if key.startswith(part)}

    rest = of("rest.")
    curve = {key.removeprefix("curve."): rest.pop(key) for key in list(rest) if key.startswith("curve.")}
    at_rest = Rested(**rest, curve=Curve(**curve)) if rest else None
    return Case(prior, tau, Branches(**of("slow.")), Branches(**of("fast.")), arrays["virial"], at_rest)
