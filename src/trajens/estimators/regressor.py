"""A regressor for scikit-learn, with an error of every prediction.

The loss of a model is (y - f)^2 / 2 of labels that are standardised, and a tilt means labels of some noise: with v the
variance around the mean m of the models, s = c N / (tau v), c likelihoods. On up to 1024 examples `trajens.train`
searches for c, and with it for the squared error of a model on a fifth that is held out, v + <spread^2>.

On more c is 3, and v is found in a few rounds, each of which goes on from the paths of the one before, as the squared
error on a fifth of the data that all but the last of them leave out:

    v = <(y - m)^2> held out,   noise^2 = v - <spread^2> held out.

The fifth counts as many examples as it has, and the error of the models on the training data as a few more, so that
little data say little.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self, overload

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import validate_data

from trajens.datasets.arrays import moments
from trajens.ensemble import Ensemble
from trajens.ensemble.scores import noise_around_models, noise_of_labels
from trajens.errors import require
from trajens.estimators.base import Trainable, TrajectoryEnsemble, pad
from trajens.precision import require_unmasked
from trajens.problem import Problem
from trajens.run.advice import RunFacts
from trajens.run.run import Run
from trajens.run.start import HELD_OUT

SHARES = (0.5, 0.125, 0.125, 0.25)
"""Of the budget, for every round: the first has the start, the last all data."""

_KNOWN_BEFORE = 8
"""Examples that the error on the training data counts as."""
_LEAST_VARIANCE = 1e-5
"""Of v, in units of the variance of the labels: what a network of some width can tell apart."""


@dataclass(eq=False, repr=False, kw_only=True)
class TrajectoryEnsembleRegressor(RegressorMixin, TrajectoryEnsemble):  # type: ignore[misc]
    """Networks on a path that fit numbers.

    As `TrajectoryEnsembleClassifier`, with the squared error (y - f)^2 / 2 of standardised labels as the loss.

    Parameters
    ----------
    hidden_layer_sizes, activation, model, tau, chains, tolerance, sigma, prior, warm_start, random_state, verbose
        As for `TrajectoryEnsembleClassifier`; a `model` has one output, and is given standardised labels.
    budget : float, optional
        As for `TrajectoryEnsembleClassifier`.
    s : float, optional
        Tilt towards a low loss of standardised labels; default as for `TrajectoryEnsembleClassifier`, on more than
        1024 examples 3 N / (tau v), v the squared error on a part of the data that is held out at first, in units of
        the variance of the labels.

    Attributes
    ----------
    noise_ : float
        Standard deviation of labels around the true function, in their units, from a fifth of the data that were held
        out: what the error there is above the spread of the models.
    n_features_in_, feature_names_in_, path_, ensemble_, n_draws_, mean_, scale_, n_iter_, s_, loss_, tilt_error_
        As for `TrajectoryEnsembleClassifier`; `ensemble_` predicts in the units of the labels.
    """

    _loss = "squared"

    def fit(self, X: Any, y: Any) -> Self:
        """Train on inputs (N, n_features) and numbers (N,)."""
        require_unmasked("X", X)
        require_unmasked("y", y)
        x, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        require(len(x) > 1, "X must have 2 samples or more, got 1 sample; give more.")
        y = y.astype(np.float64)
        is_going_on = self.warm_start and hasattr(self, "path_")
        mean, std = self._units if is_going_on else moments(y)
        self._units: tuple[float, float] = mean, std if std > 0 else 1.0
        self._fitted(x, ((y - mean) / self._units[1]).astype(np.float32), 1)
        self.ensemble_ = self.ensemble_.rescaled(*self._units)
        return self

    @overload
    def predict(self, X: Any, return_std: Literal[False] = False) -> np.ndarray: ...

    @overload
    def predict(self, X: Any, return_std: Literal[True]) -> tuple[np.ndarray, np.ndarray]: ...

    def predict(self, X: Any, return_std: bool = False) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """The mean (n,) of the models.

        With `return_std` also the standard deviation (n,) of a label there: (spread^2 + noise_^2)^1/2, the spread of
        the models around their mean, which alone is ``ensemble_.predict(inputs(X), return_std=True)``, and the noise.
        """
        x = self.inputs(X)
        mean, spread = self.ensemble_.predict(x, return_std=True)
        return (mean, np.hypot(spread, self.noise_)) if return_std else mean

    def _trained(
        self, network: Trainable, problem: Problem, x: np.ndarray, y: np.ndarray, start: Any, seed: int
    ) -> Run:
        size, budget, padded = len(x), self._pairs(len(x)), pad(problem)
        if self._is_searching(padded, start):
            run = self._run(padded, None, budget, start, seed)
            self._variance, self.noise_ = self._noted(run, network, x)
            return run
        is_held_out = np.zeros(size, bool)
        is_held_out[np.random.default_rng(seed).permutation(size)[: int(HELD_OUT * size)]] = True
        left, variance = pad(problem, is_held_out), 1.0 if isinstance(start, str) else self._variance
        for number, share in enumerate(SHARES):
            is_last = number + 1 == len(SHARES)
            s = self._usual_s(size, start, variance) if self.s is None else self.s
            run = self._run(padded if is_last else left, s, share * budget, start, seed + number)
            start = run.paths
            if not is_last:
                models = Ensemble(network, np.concatenate(start))
                variance, noise = _errors(models, run, x[is_held_out], y[is_held_out])
            self.likelihoods_ = float(run.s[0]) * run.target.tau * variance / size
        self._variance = variance
        self.noise_ = self._units[1] * noise
        return run

    def _noted(self, run: Run, network: Trainable, x: np.ndarray) -> tuple[float, float]:
        """v, and the standard deviation of the noise, of a run that has searched for s, whose c is noted."""
        facts = RunFacts.of(run)
        assert facts.likelihoods is not None
        assert facts.variance is not None
        self.likelihoods_ = facts.likelihoods
        _, spread = Ensemble(network, np.concatenate(run.paths)).predict(x, return_std=True)
        scatter = float((spread**2).mean())
        noise = noise_around_models(max(facts.variance, _LEAST_VARIANCE), scatter)
        return max(facts.variance - scatter, _LEAST_VARIANCE), self._units[1] * noise


def _errors(models: Ensemble, run: Run, x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """v, and the standard deviation of the noise, from inputs and labels that were held out."""
    mean, spread = models.predict(x, return_std=True)
    of_training = 2 * float(run.summary()["loss"])
    total = float(((y - mean) ** 2).sum()) + _KNOWN_BEFORE * of_training
    variance = max(total / (len(y) + _KNOWN_BEFORE), _LEAST_VARIANCE)
    scatter = float((spread**2).mean()) if len(y) else 0.0
    return variance, noise_of_labels(variance, scatter)
