"""A regressor for scikit-learn, with an error of every prediction.

The loss of a model is (y - f)^2 / 2 of labels that are standardised, and a tilt of s means labels with a noise of
variance v where s = v^-1 times what classes have. v is not known: it is found as the mean squared error of the models on
the training data at the s that belongs to it,

    v = <(y - f_t)^2>,   s = LIKELIHOODS N / (tau v),

in a few rounds, each of which goes on from the paths of the one before. That is no underestimate for all that the models
were fitted: for a linear model of p parameters, sampled at the right v, the mean of the models is off by v (1 - p/N) on
the training data and the models scatter around it by v p/N, which is v together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self, overload

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import validate_data

from trajens.datasets.scaling import moments
from trajens.errors import require
from trajens.estimators.base import LIKELIHOODS, TrajectoryEnsemble
from trajens.problem import Problem
from trajens.run import Run
from trajens.starts import EVOLUTION

ROUNDS = 4
"""In which the noise is found; the first has half of the budget, most of it for the start."""

_LEAST_NOISE = 1e-4
"""Variance of the noise in units of that of the labels: what float32 and a network of some width can tell apart."""


@dataclass(eq=False, repr=False, kw_only=True)
class TrajectoryEnsembleRegressor(RegressorMixin, TrajectoryEnsemble):  # type: ignore[misc]
    """Networks on a path that fit numbers.

    As `TrajectoryEnsembleClassifier`, with the squared error (y - f)^2 / 2 of standardised labels as the loss.

    Parameters
    ----------
    hidden_layer_sizes, activation, model, tau, chains, tolerance, sigma, prior, warm_start, random_state, verbose
        As for `TrajectoryEnsembleClassifier`; a `model` has one output, and is given standardised labels.
    budget : float, optional
        Pairs of losses, of all chains together; default 1e4 per example and chain, 4e6 to 5e7.
    s : float, optional
        Tilt towards a low loss of standardised labels; default 3 N / (tau v), v the variance of the noise in units
        of that of the labels, which is found with it.

    Attributes
    ----------
    noise_ : float
        Standard deviation of labels around one model, in their units: the root mean squared error of the models on the
        training data. With an s that is given and too large it is too small.
    n_features_in_, feature_names_in_, path_, ensemble_, mean_, scale_, n_iter_, s_, loss_, tilt_error_
        As for `TrajectoryEnsembleClassifier`; `ensemble_` predicts in the units of the labels.
    """

    _loss = "squared"

    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803
        """Train on inputs (N, n_features) and numbers (N,)."""
        x, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        require(len(x) > 1, "X must have 2 samples or more, got 1 sample; give more.")
        y = y.astype(np.float64)
        is_going_on = self.warm_start and hasattr(self, "path_")
        mean, std = self._units if is_going_on else moments(y)
        self._units = mean, std if std > 0 else 1.0
        self._fitted(x, ((y - mean) / self._units[1]).astype(np.float32), 1)
        self.ensemble_ = self.ensemble_.rescaled(*self._units)
        self.noise_ = float(self._units[1] * np.sqrt(2 * self.loss_))
        return self

    @overload
    def predict(self, X: Any, return_std: Literal[False] = False) -> np.ndarray: ...  # noqa: N803

    @overload
    def predict(self, X: Any, return_std: Literal[True]) -> tuple[np.ndarray, np.ndarray]: ...  # noqa: N803

    def predict(self, X: Any, return_std: bool = False) -> np.ndarray | tuple[np.ndarray, np.ndarray]:  # noqa: N803
        """The mean (n,) of the models.

        With `return_std` also the standard deviation (n,) of a label there: (spread^2 + noise_^2)^1/2, the spread of
        the models around their mean, which alone is ``ensemble_.predict(inputs(X), return_std=True)``, and the noise.
        """
        x = self.inputs(X)
        mean, spread = self.ensemble_.predict(x, return_std=True)
        return (mean, np.hypot(spread, self.noise_)) if return_std else mean

    def _trained(self, problem: Problem, size: int, begin: np.ndarray | None, seed: int) -> Run:
        budget, start = self._pairs(problem), EVOLUTION if begin is None else begin
        if self.s is not None:
            return self._run(problem, self.s, budget, start, seed)
        loss = 0.5 if begin is None else self.loss_
        for number in range(ROUNDS):
            s = LIKELIHOODS * size / (self.tau * max(2 * loss, _LEAST_NOISE))
            pairs = budget / 2 if number == 0 else budget / (2 * (ROUNDS - 1))
            run = self._run(problem, s, pairs, start, seed + number)
            start, loss = run.paths, run.summary()["loss"]
        return run
