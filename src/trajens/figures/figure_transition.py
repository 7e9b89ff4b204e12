"""Figure "transition": is the fall of the loss with s a transition between two phases?

The paper leaves it open: "there appears to be a transition from high to low loss with s which could indicate
(dynamical) phase coexistence". Paths are annealed up and down through a ladder of s, slowly and four times as fast, for
a flat and a Gaussian law of the first model. Two phases that coexist make the loss of a path bimodal where it falls
most steeply, with a variance that is the square of half the jump; a crossover does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from trajens.errors import require
from trajens.figures import digits
from trajens.figures.annealing import Branches, Digits, Ladder, annealed
from trajens.figures.frame import Job, Made, figure
from trajens.progress import SeveralRuns


@dataclass(frozen=True)
class Scale:
    """What is annealed: `runs` for every law of the first model, every tau and two speeds.

    Attributes
    ----------
    seen : Digits
    taus : tuple of int
    strengths : tuple of float
        Levels of s tau, which for short paths is what counts: their models move together.
    runs : int
    epochs : int
        Per model at every level on the slow way, a quarter of it on the fast one.
    looks : int
        Records at every level, half of which count.
    """

    seen: Digits
    taus: tuple[int, ...]
    strengths: tuple[float, ...]
    runs: int
    epochs: int
    looks: int = 24

    def __post_init__(self) -> None:
        require(self.runs > 1, f"runs must be at least 2 for an error, got {self.runs}; take 6.")
        require(len(self.strengths) > 2, f"strengths must be 3 or more, got {len(self.strengths)}; take 6.")
        require(self.epochs % FASTER == 0, f"epochs must be a multiple of {FASTER}, got {self.epochs}; take 480.")

    def ladder(self, tau: int, is_slow: bool) -> Ladder:
        """The levels of one tau, and how long at each."""
        return Ladder(tuple(x / tau for x in self.strengths), self.epochs // (1 if is_slow else FASTER), self.looks)


FASTER = 4
_STRENGTHS = (10.0, 20.0, 40.0, 80.0, 160.0, 320.0)
SCALES = {
    "quick": Scale(Digits(128, 4, 4, sigma=0.2, prior=1.0), (1, 4, 16), _STRENGTHS, 6, 576),
    "laptop": Scale(Digits(512, 28, 0, sigma=0.05, prior=0.3), (1, 2, 4), _STRENGTHS, 6, 480),
    "paper": Scale(Digits(60_000, 28, 0, sigma=0.05, prior=0.3), (1, 2, 4, 8, 16, 32), _STRENGTHS, 8, 6_000),
}


class Annealed(NamedTuple):
    """The slow and the fast annealing of one law of the first model and one tau."""

    prior: str
    tau: int
    slow: Branches
    fast: Branches


def both_speeds(job: Job[Scale]) -> Iterator[Annealed]:
    """Every law of the first model and every tau, sampled where it is missing."""
    scale, seen = job.scale, job.scale.seen
    home = job.out / "runs" / f"transition-{job.scale_name}-seed-{job.seed}"
    problem = seen.problem
    steps = 2 * len(scale.strengths)
    total = 2 * steps * sum(scale.taus) * (scale.epochs + scale.epochs // FASTER)
    with SeveralRuns(total, "annealing", job.progress) as show:
        for i, prior in enumerate((seen.prior, None)):
            for tau in scale.taus:
                found = []
                for is_slow in (True, False):
                    ladder = scale.ladder(tau, is_slow)
                    name = f"{'flat' if prior is None else prior}-tau-{tau}-{'slow' if is_slow else 'fast'}"
                    # Equal seeds would give them the same random numbers.
                    seed = int(np.random.SeedSequence([job.seed, i, tau, is_slow]).generate_state(1)[0])
                    found.append(
                        annealed(home / name, problem, seen, prior, tau, ladder, scale.runs, seed, show, is_slow)
                    )
                    show.finish(steps * ladder.epochs * tau)
                yield Annealed("flat" if prior is None else f"{prior:g}", tau, *found)
