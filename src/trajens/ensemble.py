"""A path used for prediction: tau models that vote, or whose probabilities are averaged.

- vote: the class most models choose, ties to the smallest label
- mean: p(k | x) = (1/tau) sum_t p_t(k | x)
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from trajens.errors import integer, require
from trajens.models import described
from trajens.models.base import Model, as_bytes
from trajens.run import Run
from trajens.storage.stored import StoredRun

CHUNK = 1000
"""Inputs that are evaluated at a time."""
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
            Default: what the run says; one with a loss of the user's own knows none.
        """
        stored = StoredRun(directory)
        paths = stored.paths
        model = model_of(stored) if model is None else model
        return cls(model, paths[integer("chain", chain, 0, "count from 0", len(paths) - 1)])

    def member_proba(self, x: Any, chunk: int = CHUNK) -> np.ndarray:
        """Probabilities (tau, n, classes) of every model, for inputs of any number, `chunk` at a time."""
        x = np.asarray(x)
        members = np.empty((len(self.path), len(x), self.model.outputs), np.float32)
        for place, part in self.parts(x, chunk):
            members[:, place] = part
        return members

    def predict_proba(self, x: Any) -> np.ndarray:
        """Mean probabilities (n, classes)."""
        x = np.asarray(x)
        mean = np.empty((len(x), self.model.outputs), np.float32)
        for place, part in self.parts(x):
            mean[place] = part.mean(0)
        return mean

    def predict(self, x: Any) -> np.ndarray:
        """The vote (n,)."""
        x = np.asarray(x)
        chosen = np.empty(len(x), np.int64)
        for place, part in self.parts(x):
            chosen[place] = vote(part)
        return chosen

    def evaluate(self, x: Any, y: Any) -> dict[str, Any]:
        """Plain numbers on labelled inputs, see `scores`; what the models say is not kept."""
        x, y = np.asarray(x), np.asarray(y)
        found = Scores(len(self.path), self.model.outputs)
        y = found.labels(y, len(x))
        for place, part in self.parts(x):
            found.add(part, y[place])
        return found.result()

    def _inputs(self, x: Any) -> np.ndarray:
        x = as_bytes(np.asarray(x))
        require(
            x.dtype.kind in "biuf" and x.ndim > 1 and np.prod(x.shape[1:]) == np.prod(self.model.input_shape),
            f"x must have shape (n, {', '.join(map(str, self.model.input_shape))}), got {x.shape}; check the data.",
        )
        return x

    def parts(self, x: Any, chunk: int = CHUNK) -> Iterator[tuple[slice, np.ndarray]]:
        """Probabilities (tau, m, classes) of every model for `chunk` inputs at a time, and which inputs these are."""
        x = self._inputs(x)
        chunk = integer("chunk", chunk, 1, "try 1000")
        path = jnp.asarray(self.path)
        for start in range(0, len(x), chunk):
            part = x[start : start + chunk]
            # Always the same shape, so that the last, shorter part compiles nothing.
            padded = np.concatenate([part, np.zeros((chunk - len(part), *x.shape[1:]), x.dtype)])
            yield slice(start, start + len(part)), np.asarray(_probabilities(self.model, path, padded))[:, : len(part)]


def model_of(run: StoredRun) -> Model:
    """The network of a run."""
    require(
        run.model is not None,
        f"the run must be one of a network, got '{run.path}', which has none; pass the model it belongs to.",
    )
    return described(run.model or {})


@partial(jax.jit, static_argnums=0)
def _probabilities(model: Model, path: jax.Array, x: jax.Array) -> jax.Array:
    """(tau, m, classes); equal models share a compilation."""
    # One model after the other, which on a CPU is twice as fast as all at once, and takes less memory.
    return jax.lax.map(lambda theta: jax.nn.softmax(model.apply(theta, x)), path)


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
