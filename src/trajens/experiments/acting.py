"""Ensembles of runs on episodes, and what they return over fresh ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from trajens.ensemble import chosen_chains
from trajens.errors import InputError
from trajens.experiments.episodes import EpisodesData
from trajens.experiments.experiment import Experiment
from trajens.rl.named import is_environment
from trajens.rl.problem import Episodes, episodes_of
from trajens.rl.scores import EPISODES, Score, scores
from trajens.run.stored import StoredRun

WORDS = {
    "single": "single models, mean",
    "best": "the best of them in these episodes, too good by chance",
    "vote": "all models, by vote",
    "mean": "all models, by mean",
}
"""What scores are of."""


class Acting(NamedTuple):
    """The models of a run (tau, dim), of one chain or of all, and the loss that says where and how they act."""

    path: np.ndarray
    episodes: Episodes

    def scores(self, episodes: int = EPISODES, seed: int = 0) -> dict[str, Score]:
        """Returns over fresh episodes, see `trajens.rl.scores`."""
        return scores(self.episodes.environment, self.episodes.policy, self.path, episodes, seed)


def is_on_episodes(source: str | Path | StoredRun) -> bool:
    """Whether this is a run on episodes."""
    stored = source if isinstance(source, StoredRun) else StoredRun(source)
    return stored.path.is_dir() and is_environment(str((stored.config or {}).get("problem")))


def acting(source: str | Path | StoredRun, chain: int | str = 0) -> Acting:
    """The policies of a run, of one chain or all."""
    stored = source if isinstance(source, StoredRun) else StoredRun(source)
    found = Experiment.load(stored).source
    if not isinstance(found, EpisodesData):
        raise InputError(f"the run must be one on episodes, got '{stored.path}'; train CartPole-v1 for instance.")
    paths = stored.paths
    return Acting(np.concatenate(paths[chosen_chains(chain, len(paths))]), episodes_of(found.problem))


def curve(episodes: Episodes, records: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Steps of the environment that decisions and exchanges took, (chains, records), return per model, its error."""
    low, high = episodes.returns
    error: Any = records["loss_error"] * (high - low)
    steps = records["steps_used"] + records.get("steps_exchanged", 0)
    return steps, episodes.return_of(records["loss"]), error
