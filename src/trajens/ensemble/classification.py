"""Models that vote, or whose probabilities are averaged, and how good and how sure they are.

- vote: the class most models choose, ties to the smallest label
- mean: p(k | x) = (1/tau) sum_t p_t(k | x)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trajens.ensemble.uncertainty import BINS, Said, reliability, said
from trajens.errors import require


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
    """`scores` of inputs that come in parts; of each is kept what all models say together, not what every one does."""

    def __init__(self, tau: int, classes: int):
        self._tau, self._classes = tau, classes
        self._by_members = np.zeros(tau, np.int64)
        self._single = 0
        self._said: list[Said] = []
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
        self._said.append(said(member_proba))
        self._labels.append(y)

    def result(self) -> dict[str, Any]:
        """The scores of all inputs."""
        all_said, y = Said.joined(self._said), np.concatenate(self._labels)
        by_members = self._by_members / len(y)
        return {
            "vote_accuracy": float(by_members[-1]),
            "mean_accuracy": float(all_said.is_right(y).mean()),
            "single_accuracy": self._single / (len(y) * self._tau),
            "nll": all_said.nll(y),
            "brier": float(((all_said.mean - (np.arange(self._classes) == y[:, None])) ** 2).sum(-1).mean()),
            "ece": reliability(all_said.confidence, all_said.is_right(y)).expected_error,
            "disagreement": float(all_said.disagreement.mean()),
            "accuracy_by_members": by_members.tolist(),
        }


def _votes(member_proba: np.ndarray) -> np.ndarray:
    """Votes (tau, n, classes) of the first 1..tau models for every class."""
    is_chosen = member_proba.argmax(-1)[..., None] == np.arange(member_proba.shape[-1])
    return is_chosen.cumsum(0, dtype=np.int32)


def expected_calibration_error(probabilities: np.ndarray, y: np.ndarray, bins: int = BINS) -> float:
    """Mean |accuracy - confidence| of the most probable class, over bins of equally many predictions."""
    return reliability(probabilities.max(-1), probabilities.argmax(-1) == y, bins).expected_error
