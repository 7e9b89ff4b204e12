"""How sure an ensemble is, and whether it is right to be: from the probabilities of its models.

- entropy: H[p] of the mean probabilities p is what is not known in all (total); the mean of H[p_t] over models is the
  noise of the labels as the models see it (expected); the rest is what the models disagree on, the mutual information
  I(y; t) = H[p] - (1/tau) sum_t H[p_t] >= 0.
- Brier score: (1/n) sum_i sum_k (p_k(x_i) - [y_i = k])^2. Over bins b of p_k, with shares w_b, mean p_b and frequency
  o_b of the class, that of one class is sum w_b (p_b - o_b)^2 (reliability) - sum w_b (o_b - o)^2 (resolution) + o
  (1 - o) (uncertainty) + what p_k varies within bins (Murphy 1973; Stephenson et al. 2008); summed over classes.
- selective risk: the error rate among the share of inputs that are answered, the surest first.
- temperature: T > 1 makes probabilities less sure, T < 1 more; it changes no choice of a class.
- conformal sets: of n held-out examples with scores a_i = 1 - p(y_i | x_i), take q = the ceil((n + 1)(1 - alpha))-th
  smallest; the set {k: 1 - p(k | x) <= q} holds the label of a new example with probability at least 1 - alpha, if all
  are exchangeable, whatever the models are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from trajens.errors import integer, number, require

BINS = 15
_TINY = 1e-38
_LOG_T = (-4.0, 4.0)


class Predictions(NamedTuple):
    """What an ensemble says of inputs, without what every model says.

    Attributes
    ----------
    mean : (n, classes)
        Mean probabilities.
    vote : (n,)
        The class most models choose.
    expected : (n,)
        Mean entropy of the models, in nats.
    disagreement : (n,)
        Share of pairs of models that choose different classes.
    """

    mean: np.ndarray
    vote: np.ndarray
    expected: np.ndarray
    disagreement: np.ndarray

    @property
    def confidence(self) -> np.ndarray:
        """Of the most probable class."""
        return np.asarray(self.mean.max(-1))

    @property
    def entropies(self) -> Entropies:
        """Total, expected and mutual information."""
        total = _entropy(self.mean)
        # Rounding may leave a mutual information of nothing a little below 0.
        return Entropies(total, self.expected, np.maximum(total - self.expected, 0.0))

    @staticmethod
    def joined(parts: Sequence[Predictions]) -> Predictions:
        """Of inputs that came in parts."""
        return Predictions(*(np.concatenate(values) for values in zip(*parts, strict=True)))

    def is_right(self, y: np.ndarray) -> np.ndarray:
        """Whether the most probable class is the label."""
        return np.asarray(self.mean.argmax(-1) == y)


class Entropies(NamedTuple):
    """Of every input, in nats."""

    total: np.ndarray
    expected: np.ndarray
    mutual_information: np.ndarray


class Reliability(NamedTuple):
    """Of bins that are not empty: mean confidence, share that is right, and share of all predictions."""

    confidence: np.ndarray
    accuracy: np.ndarray
    weight: np.ndarray

    @property
    def expected_error(self) -> float:
        """ECE: mean |accuracy - confidence|."""
        return float((self.weight * np.abs(self.accuracy - self.confidence)).sum())

    @property
    def largest_error(self) -> float:
        """MCE: largest |accuracy - confidence|."""
        return float(np.abs(self.accuracy - self.confidence).max())


class BrierParts(NamedTuple):
    """Of the Brier score: reliability and what is within bins, resolution (higher is better), uncertainty of labels."""

    reliability: float
    resolution: float
    uncertainty: float
    within: float

    @property
    def score(self) -> float:
        """The Brier score itself."""
        return self.reliability - self.resolution + self.uncertainty + self.within


class Selective(NamedTuple):
    """Error rates (n,) when the surest 1..n of n inputs are answered, and the shares of inputs that these are."""

    coverage: np.ndarray
    risk: np.ndarray

    @property
    def area(self) -> float:
        """AURC, the mean risk over all coverages."""
        return float(self.risk.mean())

    def risk_at(self, coverage: float) -> float:
        """The error rate when so large a share is answered."""
        return float(self.risk[max(int(np.ceil(coverage * len(self.risk))) - 1, 0)])


def summarise_predictions(member_proba: np.ndarray) -> Predictions:
    """Summary of the probabilities (tau, n, classes) of models; `Ensemble.summarise_predictions` does it in parts."""
    member_proba = np.asarray(member_proba, np.float64)
    votes = counted_votes(member_proba)
    return Predictions(member_proba.mean(0), votes.argmax(-1), _entropy(member_proba).mean(0), disagreement(votes))


def entropies(member_proba: np.ndarray) -> Entropies:
    """Of the probabilities (tau, n, classes) of models."""
    return summarise_predictions(member_proba).entropies


def counted_votes(member_proba: np.ndarray) -> np.ndarray:
    """How many models choose every class, (n, classes)."""
    return np.asarray((member_proba.argmax(-1)[..., None] == np.arange(member_proba.shape[-1])).sum(0))


def disagreement(votes: np.ndarray) -> np.ndarray:
    """Share (n,) of pairs of models that choose different classes, from `counted_votes`; 0 for a single model."""
    tau = votes[0].sum() if len(votes) else 0
    same = (votes * (votes - 1)).sum(-1) / max(tau * (tau - 1), 1)
    return np.asarray(1.0 - same if tau > 1 else np.zeros(len(votes)))


def reliability(
    confidence: np.ndarray, is_right: np.ndarray, bins: int = BINS, is_equal_mass: bool = True
) -> Reliability:
    """Confidences (n,) against what came true, in bins of equally many predictions or of equal width in 0..1."""
    confidence, is_right = _pairs(confidence, is_right)
    parts = _bins(confidence, integer("bins", bins, 1, "try 15"), is_equal_mass)
    found = [(confidence[p].mean(), is_right[p].mean(), len(p) / len(confidence)) for p in parts]
    return Reliability(*np.array(found).T)


def brier_parts(probabilities: np.ndarray, y: np.ndarray, bins: int = BINS) -> BrierParts:
    """The decomposition over bins of equal width, class by class; of probabilities (n, classes) and labels (n,).

    Bins of equal mass would throw probabilities near 0 and near 1 together.
    """
    probabilities = np.asarray(probabilities, np.float64)
    parts = np.zeros(4)
    for k, p in enumerate(probabilities.T):
        is_class = np.asarray(y) == k
        found, rate = reliability(p, is_class, bins, is_equal_mass=False), is_class.mean()
        deviations = (
            found.weight @ (found.confidence - found.accuracy) ** 2,
            found.weight @ (found.accuracy - rate) ** 2,
            rate * (1 - rate),
        )
        score = ((p - is_class) ** 2).mean()
        parts += (*deviations, score - (deviations[0] - deviations[1] + deviations[2]))
    return BrierParts(*parts.tolist())


def selective(confidence: np.ndarray, is_right: np.ndarray) -> Selective:
    """Risk against coverage; equal confidences are answered together, each at the mean risk of all of them."""
    confidence, is_right = _pairs(confidence, is_right)
    order = np.argsort(-confidence, kind="stable")
    values, wrong = confidence[order], (~is_right[order]).astype(float)
    _, first, size = np.unique(-values, return_index=True, return_counts=True)
    # Among ties nobody knows who comes first: each has the mean of them.
    even = np.repeat(np.add.reduceat(wrong, first) / size, size)
    answered = np.arange(1, len(values) + 1)
    return Selective(answered / len(values), even.cumsum() / answered)


def auroc(inside: np.ndarray, outside: np.ndarray) -> float:
    """Chance that an input from outside has the higher score, ties count a half: 1 tells all apart, 1/2 none."""
    inside, outside = np.asarray(inside, np.float64), np.asarray(outside, np.float64)
    require(inside.size > 0 and outside.size > 0, "scores must be of inputs inside and outside, got none; add some.")
    from scipy.stats import rankdata

    ranks = rankdata(np.concatenate([inside, outside]))[len(inside) :]
    count = len(outside)
    return float((ranks.sum() - count * (count + 1) / 2) / (len(inside) * count))


def false_positive_rate(inside: np.ndarray, outside: np.ndarray, found: float = 0.95) -> float:
    """Share of inputs inside that are taken for outside at the score that finds `found` of those outside (FPR95)."""
    found = number("found", found, "try 0.95", above=0.0, at_most=1.0)
    outside = np.sort(np.asarray(outside, np.float64))[::-1]
    threshold = outside[int(np.ceil(found * len(outside))) - 1]
    return float((np.asarray(inside) >= threshold).mean())


def detection_scores(inside: np.ndarray, outside: np.ndarray) -> dict[str, float]:
    """Both: ``auroc`` and ``fpr95``."""
    return {"auroc": auroc(inside, outside), "fpr95": false_positive_rate(inside, outside)}


def conformal_threshold(probabilities: np.ndarray, y: np.ndarray, alpha: float = 0.1) -> float:
    """Q of conformal sets from held-out probabilities (n, classes) and labels (n,); infinite where n is too small."""
    alpha = number("alpha", alpha, "0.1 leaves out the label of one in ten", above=0.0)
    require(alpha < 1, f"alpha must be less than 1, got {alpha}; try 0.1.")
    scores = np.sort(1.0 - np.asarray(probabilities, np.float64)[np.arange(len(y)), y])
    rank = int(np.ceil((len(scores) + 1) * (1 - alpha)))
    return float(scores[rank - 1]) if rank <= len(scores) else float("inf")


def conformal_sets(probabilities: np.ndarray, threshold: float) -> np.ndarray:
    """Which classes (n, classes) belong to the set of every input."""
    return 1.0 - np.asarray(probabilities, np.float64) <= threshold


def temper(probabilities: np.ndarray, temperature: float) -> np.ndarray:
    """Probabilities p^(1/T) / sum p^(1/T), which for one model are those of logits / T."""
    logits = np.log(np.maximum(np.asarray(probabilities, np.float64), _TINY)) / temperature
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))


def temperature(probabilities: np.ndarray, y: np.ndarray) -> float:
    """The T > 0 at which `tempered` mean probabilities (n, classes) have the lowest NLL on held-out labels (n,).

    The mean is taken first and tempered then: a mean of tempered models is less sure than it should be again.
    """
    from scipy.optimize import minimize_scalar

    y = np.asarray(y)
    found = minimize_scalar(lambda log_t: nll(temper(probabilities, np.exp(log_t)), y), bounds=_LOG_T, method="bounded")
    return float(np.exp(found.x))


def nll(probabilities: np.ndarray, y: np.ndarray) -> float:
    """Mean -ln of the probability of the label."""
    return float(-np.log(np.maximum(probabilities[np.arange(len(y)), y], _TINY)).mean())


def _entropy(p: np.ndarray) -> np.ndarray:
    return np.asarray(-(p * np.log(np.maximum(p, _TINY))).sum(-1))


def _bins(confidence: np.ndarray, bins: int, is_equal_mass: bool) -> list[np.ndarray]:
    """Which predictions are in each bin that is not empty."""
    if is_equal_mass:
        return [p for p in np.array_split(np.argsort(confidence, kind="stable"), bins) if len(p)]
    place = np.minimum((confidence * bins).astype(int), bins - 1)
    return [np.flatnonzero(place == b) for b in np.unique(place)]


def _pairs(confidence: np.ndarray, is_right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    confidence, is_right = np.asarray(confidence, np.float64), np.asarray(is_right, bool)
    require(
        confidence.ndim == 1 and confidence.shape == is_right.shape and len(confidence) > 0,
        f"confidence and is_right must be of as many predictions, got {confidence.shape} and {is_right.shape}; check.",
    )
    return confidence, is_right
