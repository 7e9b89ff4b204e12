"""Evaluation of runs and of saved ensembles: on data with labels, in the units of these, or over fresh episodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from trajens.app.experiment import Experiment
from trajens.app.sources import EpisodesData
from trajens.datasets import Labelled, Reading, load, load_inputs
from trajens.ensemble import Ensemble, drawn_paths, has_draws, last_paths
from trajens.ensemble.scores import noise_around_models, noise_of_labels
from trajens.errors import InputError, require
from trajens.rl.catalogue import is_environment
from trajens.rl.evaluation import EPISODES, Score, scores
from trajens.rl.problem import Episodes, episodes_of
from trajens.run.advice import RunFacts
from trajens.run.run import Run
from trajens.run.stored import StoredRun


class EvaluationSet(NamedTuple):
    """An ensemble, the data it is tried on and what they are called; `is_fresh` where it was not trained on them.

    `noise` is the standard deviation of labels as the examples show it that were held out; None where it is not known.
    """

    ensemble: Ensemble
    labelled: Labelled
    name: str
    is_fresh: bool
    noise: float | None = None


MODELS = 512
"""Of kept draws that predict, at most, where nothing is said of them: taken evenly, they say what all would."""


def load_ensemble(
    source: str | Path | StoredRun, chain: int | str | None = None, draws: bool | None = None
) -> Ensemble:
    """The ensemble of a run, or of a file; it knows how its data are read, and their units.

    With `draws`, all paths of the run after burn-in that were kept, in place of the last ones; default `MODELS` of them
    where there are some.
    """
    if not isinstance(source, StoredRun) and Path(source).is_file():
        is_whole = str(chain) in ("None", "0", "all")
        require(is_whole, f"chain must be left out with a file, got {chain!r} and '{source}'; leave it out.")
        return Ensemble.load(source, draws=bool(draws))
    stored = source if isinstance(source, StoredRun) else StoredRun(source)
    if is_environment(str((stored.config or {}).get("problem"))):
        # What a policy says is of observations on a scale of its own: it is no classifier of a user's inputs.
        Experiment.load(stored).labelled_data  # noqa: B018
    is_drawn, most = which_draws(stored, draws)
    ensemble, reading = Ensemble.load(stored, chain, draws=is_drawn, most=most), _reading(stored)
    label = None if reading is None or ensemble.is_classifier else reading.label
    units = ensemble.units if label is None else (label.mean, label.std)
    return Ensemble(ensemble.model, ensemble.path, reading, units)


def which_draws(run: Run | StoredRun, draws: bool | None) -> tuple[bool, int | None]:
    """Whether kept draws are taken, as asked or where there are some, and how many models of them at most."""
    if draws is not None:
        return draws, None
    chains, tau, _ = run.paths.shape
    return (True, max(MODELS, chains * tau)) if has_draws(run) else (False, None)


def load_evaluation_set(
    source: str | Path | StoredRun, data: Path | None = None, chain: int | str | None = None, draws: bool | None = None
) -> EvaluationSet:
    """An ensemble on data of a file, on the test set of its run, on what it held out, or on its training data."""
    ensemble = load_ensemble(source, chain, draws)
    if data is not None:
        return EvaluationSet(ensemble, read_labelled(ensemble, data), data.name, True, noise_of(source, ensemble))
    stored = source if isinstance(source, StoredRun) else StoredRun(source)
    require(
        not stored.path.is_file(),
        f"data must be given for an ensemble in a file, got none for '{stored.path}'; add --data.",
    )
    experiment = Experiment.load(stored)
    if experiment.test_data is not None:
        return EvaluationSet(ensemble, _in_units(ensemble, experiment.test_data), "the test set", True)
    held_out = experiment.labelled_data.held_out
    if held_out is not None:
        given = _in_units(ensemble, held_out)
        return EvaluationSet(ensemble, given, "the held-out part", True, noise_of(stored, ensemble))
    given = _in_units(ensemble, Labelled(*experiment.data))
    return EvaluationSet(ensemble, given, "the training data", False, noise_of(stored, ensemble))


def noise_of(source: str | Path | StoredRun, ensemble: Ensemble) -> float | None:
    """Standard deviation of labels around the true function, from what a run on numbers has held out, or its search."""
    is_run = isinstance(source, StoredRun) or Path(source).is_dir()
    if ensemble.is_classifier or not is_run:
        return None
    stored = source if isinstance(source, StoredRun) else StoredRun(source)
    if not Path(str((stored.config or {}).get("problem"))).exists():
        return None
    experiment = Experiment.load(stored)
    held_out = experiment.labelled_data.held_out
    if held_out is not None:
        given = _in_units(ensemble, held_out)
        mean, spread = ensemble.predict(given.x, return_std=True)
        return noise_of_labels(float(((given.y - mean) ** 2).mean()), float((spread**2).mean()))
    variance = RunFacts.of(stored).variance
    if variance is None or ensemble.reading is None:
        return None
    # What the search held out came back: the models say no more how well they do on it, but the search does.
    _, spread = ensemble.predict(experiment.data[0], return_std=True)
    scatter, unit = float((spread**2).mean()), ensemble.reading.label.std
    return noise_around_models(variance * unit**2, scatter)


def read_labelled(ensemble: Ensemble, file: Path) -> Labelled:
    """Inputs and labels of a file, for an ensemble."""
    if ensemble.reading is None:
        # Of a run made in Python, or of a version before: how its data were read is not known.
        return load(file, num_classes=ensemble.model.outputs if ensemble.is_classifier else None)
    return _in_units(ensemble, ensemble.reading.labelled(file))


def inputs(ensemble: Ensemble, file: Path) -> np.ndarray:
    """Inputs of a file, for an ensemble."""
    return load_inputs(file) if ensemble.reading is None else ensemble.reading.inputs(file)


def _reading(stored: StoredRun) -> Reading | None:
    config = stored.config or {}
    is_known = "reading" in config or config.get("problem") == "mnist"
    return Experiment.load(stored).reading if is_known else None


def _in_units(ensemble: Ensemble, data: Labelled) -> Labelled:
    if ensemble.is_classifier or ensemble.reading is None:
        return data
    return Labelled(data.x, ensemble.reading.label.undone(data.y))


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


def acting(source: str | Path | StoredRun, chain: int | str | None = None, draws: bool | None = None) -> Acting:
    """The policies of a run, those of its last paths or of all draws after burn-in that were kept."""
    stored = source if isinstance(source, StoredRun) else StoredRun(source)
    found = Experiment.load(stored).source
    if not isinstance(found, EpisodesData):
        raise InputError(f"the run must be one on episodes, got '{stored.path}'; train CartPole-v1 for instance.")
    path = drawn_paths(stored, chain).reshape(-1, stored.paths.shape[-1]) if draws else last_paths(stored, chain)
    return Acting(path, episodes_of(found.problem))


def curve(episodes: Episodes, records: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Steps of the environment that decisions and exchanges took, (chains, records), return per model, its error."""
    low, high = episodes.returns
    error: Any = records["loss_error"] * (high - low)
    steps = records["steps_used"] + records.get("steps_exchanged", 0)
    return steps, episodes.return_of(records["loss"]), error
