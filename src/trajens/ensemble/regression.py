"""How good and how sure an ensemble of regressors is.

    m(x) = (1/tau) sum_t f_t(x),    spread(x)^2 = (1/tau) sum_t (f_t(x) - m(x))^2

The law of a label is taken to be the normal N(m(x), spread(x)^2 + noise^2).
"""

from __future__ import annotations

from statistics import NormalDist
from typing import Any

import numpy as np

from trajens.errors import number, require

MIN_VARIANCE = 1e-12
"""Of the law of a label, in the units of the labels squared: models that agree to the last digit are not certain."""


def regression_scores(member_outputs: np.ndarray, y: np.ndarray, noise: float | None = None) -> dict[str, Any]:
    """How good and how sure an ensemble is, from the outputs (tau, n) of its models.

    Parameters
    ----------
    member_outputs : (tau, n)
    y : (n,)
    noise : float, optional
        Standard deviation of the labels around the true function, in their units. It must be known from elsewhere,
        never from these labels. Default: none, so that the law of a label has the variance of the models alone, at
        least 1e-12. With the loss (y - f)^2 / 2 and a tilt s, models are drawn as if it were (N/s)^1/2, N being the
        number of training data: give that to ask whether the ensemble is right about itself.

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
    """`regression_scores` of inputs that come in parts; a few numbers are kept of each, not what every model said."""

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
    """How often a label lies in the central `share` of its normal law."""
    return float((np.abs(error) <= NormalDist().inv_cdf(0.5 + share / 2) * np.sqrt(variance)).mean())
