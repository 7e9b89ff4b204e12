"""Ladders of s whose paths exchange, from both branches of an annealing, in as many sittings as it takes.

Half of the ladders begin with the paths of the branch up, half with those of the branch down. Neighbouring levels
exchange paths, and are moved in the first burn-in until they exchange equally often. A sitting leaves two small files:
its numbers, and the last paths, from which the next one goes on. Ladders are independent of each other, and the same
ones in all sittings; levels of one ladder are not.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

import trajens as tj
from trajens import thermo
from trajens.errors import require
from trajens.records import after_burn_in
from trajens.storage import checkpoint
from trajens_paper.annealing import Ladder, Seen, annealed
from trajens_paper.steepest import Ladders


@dataclass(frozen=True)
class Plan:
    """How ladders are sampled; epochs are per model.

    Attributes
    ----------
    strengths : (float, float)
        The smallest and the largest s tau; those between are moved.
    levels, ladders : int
        An even number of ladders.
    annealing : int
        Epochs at every level on the way up and on the way down, where paths begin.
    burn_in : int
        Of the first sitting; later ones have a quarter of it, in which acceptance tests learn again.
    part, draws : int
        Epochs from one time that numbers are written to the next, and paths that are looked at in these.
    every : int
        Epochs between two exchanges, each of which takes all paths to the host and back.
    """

    strengths: tuple[float, float]
    levels: int
    ladders: int
    annealing: int
    burn_in: int
    part: int
    draws: int
    every: int

    def __post_init__(self) -> None:
        require(
            self.ladders % 2 == 0 and self.ladders > 2,
            f"ladders must be an even number from 4 on, half for each branch, got {self.ladders}; take 12.",
        )
        require(self.levels > 2, f"levels must be 3 or more, got {self.levels}; take 12.")


class Exchanged(NamedTuple):
    """What was seen after burn-in; ladders that began with the branch up come first.

    Attributes
    ----------
    s : (levels,)
    models : (ladders, levels, draws, tau)
        The loss of every model, of all sittings one after the other.
    trips : (ladders,)
        Ways of paths from the smallest s to the largest and back, all within sittings.
    swapped : (levels - 1,)
        Part of the exchanges of neighbours that was accepted.
    cost : (sittings, 3)
        Epochs per model, pairs of models on an example, and seconds of each, burn-in included.
    """

    s: np.ndarray
    models: np.ndarray
    trips: np.ndarray
    swapped: np.ndarray
    cost: np.ndarray

    @property
    def tau(self) -> int:
        """Models of a path."""
        return int(self.models.shape[-1])

    @property
    def loss(self) -> np.ndarray:
        """L / tau of every path (ladders, levels, draws)."""
        return np.asarray(self.models.mean(-1, dtype=np.float64))

    @property
    def ladders(self) -> Ladders:
        """The same as draws that all levels are computed from."""
        return Ladders(self.s, self.loss, self.tau)


class Asked(NamedTuple):
    """What is learned, by paths of `tau` models, and how it is sampled."""

    seen: Seen
    tau: int
    plan: Plan


@dataclass(frozen=True)
class Exchanging:
    """The ladders of one tau in a folder, where every sitting leaves its numbers and its last paths.

    Attributes
    ----------
    home : Path
    name : str
        What sets it apart from others in the folder.
    asked : Asked
    seed : int
    """

    home: Path
    name: str
    asked: Asked
    seed: int = 0

    def go_on(self, seconds: float, out: Path | None = None, parts: int | None = None) -> None:
        """One more sitting: so many parts, or as many as the time allows; after each, its files are also in `out`."""
        begun = time.monotonic()
        (seen, tau, plan), number = self.asked, len(self._sittings)
        s, paths = self._last() if (self.home / self._paths).exists() else self._first()
        burn_in = plan.burn_in if number == 0 else plan.burn_in // 4
        chains = plan.ladders * plan.levels
        run, before, losses = None, burn_in * tau, []
        while run is None or (run.is_complete and (parts is None or len(losses) < parts)):
            if run is None:
                run = tj.sample(
                    tj.Target(seen.problem, tau, seen.sigma, np.tile(s, plan.ladders), seen.prior),
                    (burn_in + plan.part) * tau,
                    chains=chains,
                    seed=int(np.random.SeedSequence([self.seed, tau, number]).generate_state(1)[0]),
                    initial=paths,
                    burn_in=before,
                    records=round((burn_in / plan.part + 1) * plan.draws),
                    move=seen.move(tau),
                    acceptance=seen.acceptance(tau),
                    exchange=tj.Exchange(plan.every * tau, space=number == 0),
                    keep_paths=True,
                    stop=lambda: time.monotonic() - begun > seconds,
                )
            else:
                run = run.extend(plan.part * tau, plan.draws, stop=lambda: time.monotonic() - begun > seconds)
            if after_burn_in(run.records, before).any():
                losses.append(thermo.observe(run, burn_in=before).losses)
                before = run.epochs
            self._write([self.home, *([] if out is None else [out])], number, run, losses, time.monotonic() - begun)
            print(f"{self.name}: {run.epochs // tau} epochs per model, {time.monotonic() - begun:.0f} s", flush=True)

    def _write(self, folders: list[Path], number: int, run: tj.Run, losses: list[np.ndarray], seconds: float) -> None:
        _, tau, plan = self.asked
        s = np.asarray(run.s[: plan.levels], np.float64)
        last: checkpoint.Arrays = {"s": s, "paths": run.paths.astype(np.float16)}
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
            checkpoint.write(folder / self._paths, last)
        if not losses:
            return
        records = run.records
        late = after_burn_in(records, run.burn_in)
        # A record has NaN where a pair was not asked, as that of the last level never is.
        swapped = records["swap_acceptance"].reshape(plan.ladders, plan.levels, -1)[:, :-1, late]
        pairs = float(records["data_used"][:, -1].sum() + records["data_exchanged"][:, -1].sum())
        cost = np.array([[run.epochs / tau, pairs, seconds]])
        models = np.concatenate(losses, axis=1).astype(np.float16)
        trips = records["round_trips"][:, -1].reshape(plan.ladders, -1).sum(1)
        shape = (plan.ladders, plan.levels, -1, tau)
        found = Exchanged(s, models.reshape(shape), trips, np.nanmean(swapped, axis=(0, 2)), cost)
        numbers: checkpoint.Arrays = found._asdict()
        for folder in folders:
            checkpoint.write(folder / f"{self._stem}-{number}.npz", numbers)

    def _first(self) -> tuple[np.ndarray, np.ndarray]:
        """Levels at equal ratios, and the ends of all steps of an annealing through them."""
        seen, tau, plan = self.asked
        levels = np.geomspace(*plan.strengths, plan.levels) / tau
        ladder = Ladder(tuple(levels.tolist()), plan.annealing, 2)
        target = tj.Target(seen.problem, tau, seen.sigma, 1.0, seen.prior)
        folder = self.home / f"{self._stem}-annealing"
        branches = annealed(
            folder, target, seen, ladder, True, chains=plan.ladders // 2, seed=self.seed, progress=False
        )
        assert branches.ends is not None
        # From (2, levels, runs, ..) to ladders, one level after the other in each.
        ends = np.swapaxes(branches.ends, 1, 2)
        return levels, ends.reshape(plan.ladders * plan.levels, tau, -1)

    def _last(self) -> tuple[np.ndarray, np.ndarray]:
        """Levels and paths of the last sitting."""
        found = checkpoint.load(self.home / self._paths)
        return found["s"], found["paths"].astype(np.float32)

    @property
    def _stem(self) -> str:
        return f"exchange-{self.name}"

    @property
    def _paths(self) -> str:
        return f"{self._stem}-paths.npz"

    @property
    def _sittings(self) -> list[Path]:
        numbered = (self.home / f"{self._stem}-{number}.npz" for number in range(1000))
        return [file for file in numbered if file.exists()]

    @property
    def has_begun(self) -> bool:
        """Whether there is a sitting that got beyond burn-in."""
        return len(self._sittings) > 0

    def found(self) -> Exchanged:
        """All sittings together."""
        return joined([Exchanged(**checkpoint.load(file)) for file in self._sittings])


_ROUNDING = 1e-6
"""Of s, which chains have in single precision."""


def joined(sittings: list[Exchanged]) -> Exchanged:
    """Several sittings of the same ladders as one."""
    require(len(sittings) > 0, "sittings must be one or more, got none; sample with benchmarks/transition.py --go-on.")
    first = sittings[0]
    require(
        all(np.allclose(one.s, first.s, rtol=_ROUNDING) for one in sittings),
        "sittings must have the same levels, got others; take those of one folder.",
    )
    draws = np.array([one.models.shape[2] for one in sittings], np.float64)
    return Exchanged(
        first.s,
        np.concatenate([one.models for one in sittings], axis=2),
        np.sum([one.trips for one in sittings], axis=0),
        np.average([one.swapped for one in sittings], axis=0, weights=draws),
        np.concatenate([one.cost for one in sittings]),
    )
