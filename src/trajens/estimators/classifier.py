"""A classifier for scikit-learn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from trajens.errors import choice, require
from trajens.estimators.base import Trainable, TrajectoryEnsemble, pad
from trajens.precision import require_unmasked
from trajens.problem import Problem
from trajens.run.run import Run

DECISIONS = ("mean", "vote")


@dataclass(eq=False, repr=False, kw_only=True)
class TrajectoryEnsembleClassifier(ClassifierMixin, TrajectoryEnsemble):  # type: ignore[misc]
    """Networks on a path that choose among classes.

    The models theta_1..theta_tau of a path have the distribution

        p(theta_1) prod_t exp(-|theta_{t+1} - theta_t|^2 / (2 sigma^2)) exp(-s sum_t L(theta_t)),

    L the mean cross-entropy of the training data, and are sampled without gradients by `trajens.train`. Nothing has to
    be given: inputs are standardised, and settings that are None are chosen from the data.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int
        Of a fully connected network.
    activation : "relu", "tanh", "sigmoid" or "step"
    model : network or callable, optional
        In place of the two above: a network of `tj.models`, anything with ``dim``, ``outputs``, ``apply(theta, x)`` and
        ``problem(x, y, loss)``, or a function ``model(inputs, outputs)`` that makes one. Inputs are standardised and
        labels 0..K-1. Networks that are equal share a compilation.
    tau, chains : int, optional
        Models in a path, and independent paths, whose models all predict together; default what `trajens.train` takes:
        4 paths of 4 models where s is searched for, else of 16; one path of 16 on more than 1024 examples.
    budget : float, optional
        Pairs of losses, of all chains together; default 2e4 per example, and per chain where `chains` is given, 4e6 to
        5e7.
    s : float, optional
        Tilt towards low loss; a larger one fits closer, and is surer of itself. Default on up to 1024 examples the one
        at which a fifth of them is predicted best, and all are trained on after that; on more, 3 N / tau, at which the
        models of a path weigh as much as three likelihoods of the N data.
    tolerance : float or None
        The largest error of s by minibatches, of more than 1024 examples; see `Penalty`.
    sigma : float, optional
        Step between models; default a sixth of the size of the parameters, as for `trajens.train`.
    prior : "auto", None or float
        Distribution of the first model, as for `trajens.Target`; "auto" is 0.3, or as wide as random weights where
        these are smaller.
    warm_start : bool
        Go on from the paths of the fit before, with its scale of inputs.
    random_state : int, RandomState or None
    verbose : bool
        Show progress, and what was chosen.
    decision : "mean" or "vote"
        `predict` the class of the largest mean probability, or the class most models choose, ties to the first.
        `predict_proba` are mean probabilities in both cases: with "vote" they need not be largest for what is
        predicted.

    Attributes
    ----------
    classes_ : array (classes,)
    n_features_in_ : int
    feature_names_in_ : array (n_features_in_,)
        Of inputs with names.
    path_ : array (chains, tau, parameters)
        The last paths.
    ensemble_ : Ensemble
        What predicts, a `trajens.Ensemble` for inputs as `inputs` gives them: the models of the paths at all records
        after burn-in where these take at most 128 MiB, else those of `path_`.
    n_draws_ : int
        Paths in it, of all chains together.
    mean_, scale_ : array (n_features_in_,)
        Of the training data; scale infinite of what does not vary.
    n_iter_ : int
        Proposals per chain.
    likelihoods_ : float
        Of the data, that the models of a path weigh together: s_ tau / N.
    s_, loss_, tilt_error_ : float
        The tilt, the mean training loss of a model at it, and the audited error of s: 0 where all data decide, NaN
        where the run was too short for an audit.

    Examples
    --------
    >>> from sklearn.datasets import load_iris  # doctest: +SKIP
    >>> x, y = load_iris(return_X_y=True)  # doctest: +SKIP
    >>> TrajectoryEnsembleClassifier(random_state=0).fit(x, y).score(x, y) > 0.9  # doctest: +SKIP
    True
    """

    decision: str = "mean"

    _loss = "cross-entropy"

    def fit(self, X: Any, y: Any) -> Self:
        """Train on inputs (N, n_features) and labels (N,) of any type."""
        choice("decision", self.decision, DECISIONS)
        require_unmasked("X", X)
        require_unmasked("y", y)
        x, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        classes, places = np.unique(y, return_inverse=True)
        require(
            len(classes) > 1,
            f"y must have 2 classes or more, got 1 class in {len(y)} samples; give others too.",
        )
        is_known = self.warm_start and hasattr(self, "classes_")
        require(
            not is_known or np.array_equal(classes, self.classes_),
            "warm_start must go on with the classes of the last fit, got others; set warm_start=False.",
        )
        self.classes_: np.ndarray = classes
        return self._fitted(x, places, len(classes))

    def predict_proba(self, X: Any) -> np.ndarray:
        """Mean probabilities (n, classes) of the models."""
        x = self.inputs(X)
        mean = self.ensemble_.predict_proba(x).astype(np.float64)
        return np.asarray(mean / mean.sum(1, keepdims=True))

    def predict(self, X: Any) -> np.ndarray:
        """Classes (n,), see `decision`."""
        if self.decision == "mean":
            chosen = self.predict_proba(X).argmax(1)
            return np.asarray(self.classes_[chosen])
        x = self.inputs(X)
        return np.asarray(self.classes_[self.ensemble_.predict(x)])

    def _trained(
        self, network: Trainable, problem: Problem, x: np.ndarray, y: np.ndarray, start: Any, seed: int
    ) -> Run:
        padded, s = pad(problem), self.s
        if s is None and not self._is_searching(padded, start):
            s = self._usual_s(len(x), start)
        run = self._run(padded, s, self._pairs(len(x)), start, seed)
        self.likelihoods_ = float(run.s[0]) * run.target.tau / len(x)
        return run
