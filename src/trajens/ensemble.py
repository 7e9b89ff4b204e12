"""A path used for prediction: tau models that vote, or whose probabilities are averaged.

- vote: the class most models choose, ties to the smallest label
- mean: p(k | x) = (1/tau) sum_t p_t(k | x)
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from trajens.directory import last_paths
from trajens.errors import integer, require
from trajens.experiment import Experiment
from trajens.models.base import Model, as_bytes
from trajens.run import Run

_BINS = 15


class Ensemble:
    """The models of one path of a classifier.

    Parameters
    ----------
    model : Model
        What the parameters belong to.
    path : (tau, dim)
    """

    def __init__(self, model: Model, path: Any):
        require(
            model.outputs > 1,
            f"an ensemble must be one of classifiers, got a model of {model.outputs} output; use the paths themselves.",
        )
        self.model = model
        self.path = np.asarray(path, np.float32)
        require(
            self.path.ndim == 2 and self.path.shape[1] == model.dim and len(self.path) > 0,
            f"path must have shape (tau, {model.dim}), got {self.path.shape}; pass one chain of run.paths.",
        )
        # One model after the other, which on a CPU is twice as fast as all at once, and takes less memory.
        self._probabilities = jax.jit(
            lambda path, x: jax.lax.map(lambda theta: jax.nn.softmax(model.apply(theta, x)), path)
        )

    @classmethod
    def from_run(cls, run: Run, model: Model, chain: int = 0) -> Ensemble:
        """The last path of one chain of a run."""
        return cls(model, run.paths[integer("chain", chain, 0, "count from 0", len(run.paths) - 1)])

    @classmethod
    def load(cls, directory: str | Path, chain: int = 0, model: Model | None = None) -> Ensemble:
        """The path of one chain in the newest checkpoint of a run.

        Parameters
        ----------
        directory : str or Path
        chain : int
        model : Model, optional
            Default: what the run's ``config.toml`` says; a run made in Python has none.
        """
        paths = last_paths(directory)
        if model is None:
            model = Experiment.load(directory).model
        return cls(model, paths[integer("chain", chain, 0, "count from 0", len(paths) - 1)])

    def member_proba(self, x: Any, chunk: int = 1000) -> np.ndarray:
        """Probabilities (tau, n, classes) of every model, for inputs of any number, `chunk` at a time."""
        x = as_bytes(np.asarray(x))
        require(
            x.dtype.kind in "biuf" and x.ndim > 1 and np.prod(x.shape[1:]) == np.prod(self.model.input_shape),
            f"x must have shape (n, {', '.join(map(str, self.model.input_shape))}), got {x.shape}; check the data.",
        )
        chunk = integer("chunk", chunk, 1, "try 1000")
        parts = [np.empty((len(self.path), 0, self.model.outputs), np.float32)]
        for start in range(0, len(x), chunk):
            part = x[start : start + chunk]
            # Always the same shape, so that the last, shorter part compiles nothing.
            padded = np.concatenate([part, np.zeros((chunk - len(part), *x.shape[1:]), x.dtype)])
            parts.append(np.asarray(self._probabilities(jnp.asarray(self.path), jnp.asarray(padded)))[:, : len(part)])
        return np.concatenate(parts, axis=1)

    def predict_proba(self, x: Any) -> np.ndarray:
        """Mean probabilities (n, classes)."""
        return self.member_proba(x).mean(0)

    def predict(self, x: Any) -> np.ndarray:
        """The vote (n,)."""
        return vote(self.member_proba(x))

    def evaluate(self, x: Any, y: Any) -> dict[str, Any]:
        """Plain numbers on labelled inputs; see `scores`."""
        return scores(self.member_proba(x), np.asarray(y))


def vote(member_proba: np.ndarray) -> np.ndarray:
    """Majority vote (n,) of models (tau, n, classes), ties to the smallest label."""
    return _votes(member_proba)[-1].argmax(-1)


def scores(member_proba: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """How good and how sure an ensemble is.

    Returns
    -------
    dict
        ``vote_accuracy``, ``mean_accuracy`` (of the averaged probabilities), ``single_accuracy`` (mean over models),
        ``nll``, ``brier`` and ``ece`` (15 bins of equal mass) of the averaged probabilities, ``disagreement`` (share of
        pairs of models that differ), and ``accuracy_by_members`` (vote of the first 1..tau models).
    """
    tau, n, classes = member_proba.shape
    require(
        n > 0 and y.shape == (n,),
        f"y must hold one label for each of {n} inputs, got shape {y.shape}; check the data.",
    )
    is_label = y.dtype.kind in "biuf" and bool(((y >= 0) & (y < classes) & (y == np.round(y))).all())
    require(is_label, f"labels must be whole numbers in 0..{classes - 1}, got others; check the data.")
    y = y.astype(np.int64)
    mean = member_proba.astype(np.float64).mean(0)
    votes = _votes(member_proba)
    by_members = (votes.argmax(-1) == y).mean(1)
    counts = votes[-1]
    same = ((counts * (counts - 1)).sum(-1) / max(tau * (tau - 1), 1)).mean()
    return {
        "vote_accuracy": float(by_members[-1]),
        "mean_accuracy": float((mean.argmax(-1) == y).mean()),
        "single_accuracy": float((member_proba.argmax(-1) == y).mean()),
        "nll": float(-np.log(np.maximum(mean[np.arange(n), y], 1e-38)).mean()),
        "brier": float(((mean - (np.arange(classes) == y[:, None])) ** 2).sum(-1).mean()),
        "ece": expected_calibration_error(mean, y),
        "disagreement": float(1.0 - same) if tau > 1 else 0.0,
        "accuracy_by_members": by_members.tolist(),
    }


def _votes(member_proba: np.ndarray) -> np.ndarray:
    """Votes (tau, n, classes) of the first 1..tau models for every class."""
    is_chosen = member_proba.argmax(-1)[..., None] == np.arange(member_proba.shape[-1])
    return is_chosen.cumsum(0)


def expected_calibration_error(probabilities: np.ndarray, y: np.ndarray, bins: int = _BINS) -> float:
    """Mean |accuracy - confidence| over bins of equally many predictions, ordered by confidence."""
    confidence = probabilities.max(-1)
    is_right = probabilities.argmax(-1) == y
    order = np.argsort(confidence, kind="stable")
    parts = [part for part in np.array_split(order, bins) if len(part)]
    return float(sum(abs(is_right[p].mean() - confidence[p].mean()) * len(p) for p in parts) / len(y))
