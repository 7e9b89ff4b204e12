"""Models that vote, or whose probabilities are averaged, and how good and how sure they are.

- vote: the class most models choose, ties to the smallest label
- mean: p(k | x) = (1/tau) sum_t p_t(k | x)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trajens.errors import require

_BINS = 15


def vote(member_proba: np.ndarray) -> np.ndarray:
    """Majority vote (n,) of models (tau, n, classes), ties to the smallest label."""
    return _votes(member_proba)[-1].argmax(-1)


def scores(member_proba: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """How good and how sure an ensemble is, from the probabilities (tau, n, classes) of its models.

    Returns
    -------
    dict
        ``vote_accuracy``, ``mean_accuracy`` (of the averaged probabilities), ``single_accuracy`` (mean over models),
        ``nll``, ``brier`` and ``ece`` (15 bins of equal mass) of the averaged probabilities, ``disagreement`` (share of
        pairs of models that differ), and ``accuracy_by_members`` (vote of the first 1..tau models).
    """
    tau, n, classes = member_proba.shape
    found = Scores(tau, classes)
    found.add(member_proba, found.labels(y, n))
    return found.result()


class Scores:
    """`scores` of inputs that come in parts; a few numbers are kept of each, not what every model said."""

    def __init__(self, tau: int, classes: int):
        self._tau, self._classes = tau, classes
        self._by_members = np.zeros(tau, np.int64)
        self._single = 0
        self._parts: list[dict[str, np.ndarray]] = []

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
        mean = member_proba.astype(np.float64).mean(0)
        votes = _votes(member_proba)
        self._by_members += (votes.argmax(-1) == y).sum(1)
        self._single += int((member_proba.argmax(-1) == y).sum())
        counts = votes[-1]
        self._parts.append(
            {
                "nll": -np.log(np.maximum(mean[np.arange(len(y)), y], 1e-38)),
                "brier": ((mean - (np.arange(self._classes) == y[:, None])) ** 2).sum(-1),
                "confidence": mean.max(-1),
                "is_right": mean.argmax(-1) == y,
                "same": (counts * (counts - 1)).sum(-1) / max(self._tau * (self._tau - 1), 1),
            }
        )

    def result(self) -> dict[str, Any]:
        """The scores of all inputs."""
        of = {name: np.concatenate([part[name] for part in self._parts]) for name in self._parts[0]}
        n = len(of["nll"])
        by_members = self._by_members / n
        return {
            "vote_accuracy": float(by_members[-1]),
            "mean_accuracy": float(of["is_right"].mean()),
            "single_accuracy": self._single / (n * self._tau),
            "nll": float(of["nll"].mean()),
            "brier": float(of["brier"].mean()),
            "ece": calibration_error(of["confidence"], of["is_right"]),
            "disagreement": float(1.0 - of["same"].mean()) if self._tau > 1 else 0.0,
            "accuracy_by_members": by_members.tolist(),
        }


def _votes(member_proba: np.ndarray) -> np.ndarray:
    """Votes (tau, n, classes) of the first 1..tau models for every class."""
    is_chosen = member_proba.argmax(-1)[..., None] == np.arange(member_proba.shape[-1])
    return is_chosen.cumsum(0, dtype=np.int32)


def expected_calibration_error(probabilities: np.ndarray, y: np.ndarray, bins: int = _BINS) -> float:
    """`calibration_error` of the most probable class of every input."""
    return calibration_error(probabilities.max(-1), probabilities.argmax(-1) == y, bins)


def calibration_error(confidence: np.ndarray, is_right: np.ndarray, bins: int = _BINS) -> float:
    """Mean |accuracy - confidence| over bins of equally many predictions, ordered by confidence."""
    order = np.argsort(confidence, kind="stable")
    parts = [part for part in np.array_split(order, bins) if len(part)]
    return float(sum(abs(is_right[p].mean() - confidence[p].mean()) * len(p) for p in parts) / len(order))
