"""Scores of ensembles: how good and how sure classifiers and regressors are.

*Classifiers.* Models that vote, or whose probabilities are averaged, and how good and how sure they are.

- vote: the class most models choose, ties to the smallest label
- mean: p(k | x) = (1/tau) sum_t p_t(k | x)

*Regressors.* How good and how sure an ensemble of regressors is.

    m(x) = (1/tau) sum_t f_t(x),    spread(x)^2 = (1/tau) sum_t (f_t(x) - m(x))^2

The distribution of a label is taken to be the normal N(m(x), spread(x)^2 + noise^2).
"""

from __future__ import annotations

from statistics import NormalDist
from typing import Any

import numpy as np

from trajens.ensemble.uncertainty import (
    BINS,
    Predictions,
    brier_parts,
    conformal_sets,
    conformal_threshold,
    detection_scores,
    nll,
    reliability,
    selective,
    summarise_predictions,
    temper,
    temperature,
)
from trajens.errors import number, require


def vote(member_proba: np.ndarray) -> np.ndarray:
    """Majority vote (n,) of models (tau, n, classes), ties to the smallest label."""
    return _votes(member_proba)[-1].argmax(-1)


def scores(member_proba: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """How good and how sure an ensemble is, from the probabilities (tau, n, classes) of its models.

    Returns
    -------
    dict
        ``vote_accuracy``, ``mean_accuracy`` (of the averaged probabilities), ``single_accuracy`` (mean over models).
        Of the averaged probabilities: ``nll``; ``brier`` and its parts ``brier_reliability``, ``brier_resolution``,
        ``brier_uncertainty`` (see `brier_parts`; what is within bins makes up the rest); ``ece`` and ``mce`` (15 bins
        of equal mass), ``ece_equal_width``. In nats, ``entropy`` = ``expected_entropy`` + ``mutual_information``;
        ``disagreement`` (share of pairs of models that differ). ``aurc`` and ``risk_at_90``, the error rate among the
        surest 90 %. ``accuracy_by_members`` (vote of the first 1..tau models).
    """
    tau, n, classes = member_proba.shape
    found = Scores(tau, classes)
    found.add(member_proba, found.labels(y, n))
    return found.result()


class Scores:
    """`scores` of inputs that come in parts; of each is kept what all models say together, not what every one does."""

    def __init__(self, tau: int, classes: int):
        self._tau, self._classes = tau, classes
        self._by_members = np.zeros(tau, np.int64)
        self._single = 0
        self._predictions: list[Predictions] = []
        self._labels: list[np.ndarray] = []

    def labels(self, y: np.ndarray, n: int) -> np.ndarray:
        """Labels of `n` inputs as whole numbers, if that is what they are."""
        require(
            n > 0 and y.shape == (n,),
            f"y must hold one label for each of {n} inputs, got shape {y.shape}; check the data.",
        )
        is_label = y.dtype.kind in "biuf" and bool(((y >= 0) & (y < self._classes) & (y == np.round(y))).all())
        require(is_label, f"labels must be whole numbers in 0..{self._classes - 1}, got others; check the data.")
        return y.astype(np.int64)

    def add(self, member_proba: np.ndarray, y: np.ndarray) -> None:
        """Count the probabilities (tau, n, classes) of some inputs with labels (n,)."""
        self._by_members += (_votes(member_proba).argmax(-1) == y).sum(1)
        self._single += int((member_proba.argmax(-1) == y).sum())
        self._predictions.append(summarise_predictions(member_proba))
        self._labels.append(y)

    @property
    def predictions(self) -> Predictions:
        """The predictions for all inputs that were added."""
        return Predictions.joined(self._predictions)

    @property
    def y(self) -> np.ndarray:
        """Their labels."""
        return np.concatenate(self._labels)

    def result(self) -> dict[str, Any]:
        """The scores of all inputs."""
        predictions, y = self.predictions, self.y
        by_members, is_right = self._by_members / len(y), predictions.is_right(y)
        bins, widths = (
            reliability(predictions.confidence, is_right, is_equal_mass=is_mass) for is_mass in (True, False)
        )
        brier, entropies, answered = (
            brier_parts(predictions.mean, y),
            predictions.entropies,
            selective(predictions.confidence, is_right),
        )
        return {
            "vote_accuracy": float(by_members[-1]),
            "mean_accuracy": float(is_right.mean()),
            "single_accuracy": self._single / (len(y) * self._tau),
            "nll": nll(predictions.mean, y),
            "brier": brier.score,
            "brier_reliability": brier.reliability,
            "brier_resolution": brier.resolution,
            "brier_uncertainty": brier.uncertainty,
            "ece": bins.expected_error,
            "ece_equal_width": widths.expected_error,
            "mce": bins.largest_error,
            "entropy": float(entropies.total.mean()),
            "expected_entropy": float(entropies.expected.mean()),
            "mutual_information": float(entropies.mutual_information.mean()),
            "disagreement": float(predictions.disagreement.mean()),
            "aurc": answered.area,
            "risk_at_90": answered.risk_at(0.9),
            "accuracy_by_members": by_members.tolist(),
        }


def calibrated_scores(predictions: Predictions, y: np.ndarray, alpha: float = 0.1, seed: int = 0) -> dict[str, float]:
    """What calibration on a random half of labelled inputs is worth on the other half.

    Returns
    -------
    dict
        ``examples`` of the other half; ``temperature`` from the one half, ``nll`` and ``ece`` without and
        ``tempered_nll`` and ``tempered_ece`` with it; ``coverage`` (share of conformal sets that hold the label, at
        least 1 - alpha is promised) and ``set_size``, their mean size.
    """
    order = np.random.default_rng(seed).permutation(len(y))
    one, other = order[: len(y) // 2], order[len(y) // 2 :]
    require(len(one) > 0, f"labelled inputs must be 2 or more to be divided, got {len(y)}; pass more.")
    found = temperature(predictions.mean[one], y[one])
    before, labels = predictions.mean[other], y[other]
    after = temper(before, found)
    sets = conformal_sets(before, conformal_threshold(predictions.mean[one], y[one], alpha))
    return {
        "examples": len(other),
        "temperature": found,
        "nll": nll(before, labels),
        "tempered_nll": nll(after, labels),
        "ece": expected_calibration_error(before, labels),
        "tempered_ece": expected_calibration_error(after, labels),
        "coverage": float(sets[np.arange(len(other)), labels].mean()),
        "set_size": float(sets.sum(1).mean()),
    }


def ood_scores(inside: Predictions, outside: Predictions) -> dict[str, dict[str, float]]:
    """How well inputs from outside are told by what is said of them: ``auroc`` and ``fpr95`` of every measure."""
    one, other = _doubts(inside), _doubts(outside)
    return {name: detection_scores(one[name], other[name]) for name in one}


def _doubts(predictions: Predictions) -> dict[str, np.ndarray]:
    """Of every input, by what it is told: the more, the less sure."""
    entropies = predictions.entropies
    return {
        "confidence": 1.0 - predictions.confidence,
        "entropy": entropies.total,
        "mutual_information": entropies.mutual_information,
        "disagreement": predictions.disagreement,
    }


def _votes(member_proba: np.ndarray) -> np.ndarray:
    """Votes (tau, n, classes) of the first 1..tau models for every class."""
    is_chosen = member_proba.argmax(-1)[..., None] == np.arange(member_proba.shape[-1])
    return is_chosen.cumsum(0, dtype=np.int32)


def expected_calibration_error(probabilities: np.ndarray, y: np.ndarray, bins: int = BINS) -> float:
    """Mean |accuracy - confidence| of the most probable class, over bins of equally many predictions."""
    return reliability(probabilities.max(-1), probabilities.argmax(-1) == y, bins).expected_error


MIN_VARIANCE = 1e-12
"""Least variance of a label, in its units squared: models that agree to the last digit are not certain."""


LEAST_NOISE = 0.25
"""Share of the squared error of the mean that is noise at least: models that scatter more leave labels uncertain."""


def noise_of_labels(error: float, scatter: float) -> float:
    """Standard deviation of labels around the true function: what an error on fresh data is above the scatter.

    Parameters
    ----------
    error, scatter : float
        Mean squared error of the mean of the models, and mean variance of the models around it, on data that they were
        not trained on.
    """
    return float(max(error - scatter, LEAST_NOISE * error) ** 0.5)


def noise_around_models(error: float, scatter: float) -> float:
    """The same where `error` is the mean squared error of a model, not that of the mean of the models."""
    return noise_of_labels(max(error - scatter, LEAST_NOISE * error), scatter)


def regression_scores(member_outputs: np.ndarray, y: np.ndarray, noise: float | None = None) -> dict[str, Any]:
    """How good and how sure an ensemble is, from the outputs (tau, n) of its models.

    Parameters
    ----------
    member_outputs : (tau, n)
    y : (n,)
    noise : float, optional
        Standard deviation of the labels around the true function, in their units. It must be known from elsewhere,
        never from these labels. Default: none, so that the distribution of a label has the variance of the models
        alone, at least 1e-12. With the loss (y - f)^2 / 2 and a tilt s, models are drawn as if it were (N/s)^1/2, N
        being the number of training data: give that to ask whether the ensemble is right about itself.

    Returns
    -------
    dict
        ``rmse`` of the mean, ``r2`` = 1 - sum (y - m)^2 / sum (y - <y>)^2 (NaN where all labels are equal),
        ``single_rmse`` (mean over models), ``spread`` (root mean square over inputs), ``nll`` (mean of -ln of the
        normal density), ``coverage_68`` and ``coverage_95`` (share of labels in its central 68 % and 95 %), and
        ``rmse_by_members`` (of the mean of the first 1..tau models).
    """
    found = RegressionScores(len(member_outputs), noise)
    found.add(member_outputs, found.labels(np.asarray(y), member_outputs.shape[1]))
    return found.result()


class RegressionScores:
    """`regression_scores` of inputs that come in parts; a few numbers are kept of each, not what each model said."""

    def __init__(self, tau: int, noise: float | None = None):
        self._tau = tau
        self._noise = 0.0 if noise is None else number("noise", noise, "use None for none", at_least=0.0)
        self._by_members = np.zeros(tau)
        self._single = np.zeros(tau)
        self._parts: list[dict[str, np.ndarray]] = []

    def labels(self, y: np.ndarray, n: int) -> np.ndarray:
        """Labels of `n` inputs in double precision, if they are finite numbers."""
        require(
            n > 0 and y.shape == (n,),
            f"y must hold one label for each of {n} inputs, got shape {y.shape}; check the data.",
        )
        is_number = y.dtype.kind in "biuf" and bool(np.isfinite(y).all())
        require(is_number, f"labels must be finite numbers, got others among {y.dtype}; check the data.")
        return y.astype(np.float64)

    def add(self, member_outputs: np.ndarray, y: np.ndarray) -> None:
        """Count the outputs (tau, n) of some inputs with labels (n,)."""
        outputs = member_outputs.astype(np.float64)
        means = outputs.cumsum(0) / np.arange(1, self._tau + 1)[:, None]
        self._by_members += ((means - y) ** 2).sum(1)
        self._single += ((outputs - y) ** 2).sum(1)
        self._parts.append({"y": y, "error": y - means[-1], "spread": outputs.std(0)})

    @property
    def mean(self) -> np.ndarray:
        """What the models say together, of every input."""
        return np.concatenate([part["y"] - part["error"] for part in self._parts])

    @property
    def spread(self) -> np.ndarray:
        """Of the models, of every input."""
        return np.concatenate([part["spread"] for part in self._parts])

    def result(self) -> dict[str, Any]:
        """The scores of all inputs."""
        of = {name: np.concatenate([part[name] for part in self._parts]) for name in self._parts[0]}
        error, n = of["error"], len(of["y"])
        variance = np.maximum(of["spread"] ** 2 + self._noise**2, MIN_VARIANCE)
        by_members = np.sqrt(self._by_members / n)
        return {
            "rmse": float(by_members[-1]),
            "r2": _explained(of["y"], error),
            "single_rmse": float(np.sqrt(self._single / n).mean()),
            "spread": float(np.sqrt((of["spread"] ** 2).mean())),
            "nll": float((0.5 * np.log(2 * np.pi * variance) + error**2 / (2 * variance)).mean()),
            "coverage_68": _coverage(error, variance, 0.68),
            "coverage_95": _coverage(error, variance, 0.95),
            "rmse_by_members": by_members.tolist(),
        }


def _explained(y: np.ndarray, error: np.ndarray) -> float:
    """Share of the variance of the labels that is explained."""
    # Labels that are all equal must give 0, which a rounded mean of them need not.
    total = float(((y - y.mean()) ** 2).sum()) if np.ptp(y) > 0 else 0.0
    return 1.0 - float((error**2).sum()) / total if total > 0 else float("nan")


def _coverage(error: np.ndarray, variance: np.ndarray, share: float) -> float:
    """How often a label lies in the central `share` of its normal distribution."""
    return float((np.abs(error) <= NormalDist().inv_cdf(0.5 + share / 2) * np.sqrt(variance)).mean())
