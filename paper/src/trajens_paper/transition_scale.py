"""How much the figure "transition" samples."""

from __future__ import annotations

from dataclasses import dataclass

from trajens.errors import require
from trajens_paper.annealing import Digits, Ladder
from trajens_paper.controls import HolePaths, Perceptron
from trajens_paper.exchanging import Asked, Plan

FASTER = 4


@dataclass(frozen=True)
class Scale:
    """What is annealed: `runs` for every distribution of the first model, every tau and two speeds.

    Attributes
    ----------
    seen : Digits
    taus : tuple of int
    strengths : tuple of float
        Levels of s tau, which is what counts for short paths: their models move together.
    runs : int
    epochs : int
        Per model at every level on the slow way, a quarter of it on the fast one.
    rest : int
        Epochs per model at every level from then on, half of which count.
    looks : int
        Records at every level of an annealing, and twice as many of a rest.
    """

    seen: Digits
    taus: tuple[int, ...]
    strengths: tuple[float, ...]
    runs: int
    epochs: int
    rest: int
    looks: int = 20
    is_in_results: bool = False
    """Whether the paper's runs below paper/results/mnist are looked at besides, where they exist."""

    def __post_init__(self) -> None:
        require(self.runs > 1, f"runs must be at least 2 for an error, got {self.runs}; take 6.")
        require(len(self.strengths) > 2, f"strengths must be 3 or more, got {len(self.strengths)}; take 6.")
        require(self.epochs % FASTER == 0, f"epochs must be a multiple of {FASTER}, got {self.epochs}; take 480.")

    def ladder(self, tau: int, is_slow: bool) -> Ladder:
        """The levels of one tau, and how long at each."""
        return Ladder(tuple(x / tau for x in self.strengths), self.epochs // (1 if is_slow else FASTER), self.looks)


_STRENGTHS = (15.0, 25.0, 40.0, 55.0, 75.0, 110.0)
SCALES = {
    "quick": Scale(Digits(64, 4, 3, sigma=0.3, prior=1.0), (1, 2, 4), (15.0, 25.0, 40.0, 60.0, 85.0), 6, 160, 8_000),
    "laptop": Scale(
        Digits(256, 28, 0, sigma=0.05, prior=0.3), (1,), _STRENGTHS[:-1], 6, 160, 12_000, is_in_results=True
    ),
    "paper": Scale(
        Digits(60_000, 28, 0, sigma=0.05, prior=0.3),
        (1, 2, 4, 8, 16, 32),
        _STRENGTHS,
        8,
        800,
        60_000,
        is_in_results=True,
    ),
}
_IMAGES = {name: scale.seen for name, scale in SCALES.items()}
LADDERS = {
    "control": {
        "hole": Asked(HolePaths(), 8, Plan((5.0, 22.0), 6, 8, 40, 2_000, 1_000, 20, 10)),
        "perceptron": Asked(Perceptron(), 8, Plan((20.0, 200.0), 8, 8, 10, 400, 400, 20, 10)),
    },
    "quick": {
        f"tau-{tau}": Asked(_IMAGES["quick"], tau, Plan((15.0, 110.0), 6, 6, 40, 1_000, 500, 10, 25)) for tau in (4, 8)
    },
    "laptop": {"tau-1": Asked(_IMAGES["laptop"], 1, Plan((15.0, 75.0), 8, 6, 80, 4_000, 2_000, 5, 100))},
    "paper": {
        "tau-8": Asked(_IMAGES["paper"], 8, Plan((45.0, 110.0), 12, 12, 200, 10_000, 4_000, 8, 100)),
        "tau-16": Asked(_IMAGES["paper"], 16, Plan((45.0, 110.0), 12, 12, 200, 10_000, 4_000, 8, 100)),
        "tau-32": Asked(_IMAGES["paper"], 32, Plan((50.0, 140.0), 13, 10, 200, 8_000, 2_000, 4, 100)),
    },
}
"""Ladders whose paths exchange, by scale and name; the last paths of each of the paper's fit into 16 MiB."""
