"""A path used for prediction: tau models that vote, or whose probabilities or outputs are averaged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal, overload

import jax
import jax.numpy as jnp
import numpy as np

from trajens.ensemble.chains import chosen_chains
from trajens.ensemble.classification import Scores, vote
from trajens.ensemble.predictor import Apply, Predictor, Unhashable, applied, check_apply
from trajens.ensemble.regression import RegressionScores
from trajens.ensemble.uncertainty import Said, said
from trajens.errors import integer, require
from trajens.models import described
from trajens.models.base import Model, as_bytes
from trajens.precision import as_single, numbers, require_single, single, single_type
from trajens.run import Run
from trajens.storage.stored import StoredRun
from trajens.storage.witness import require_same_network, witness_of

CHUNK = 1000
"""Inputs that are evaluated at a time."""
_PLAIN = (0.0, 1.0)
"""Mean and standard deviation of labels that are used as they are."""


class Ensemble:
    """The models of one path, or of those of several chains.

    A model of one output is a regressor, of more a classifier, whose outputs are logits.

    Parameters
    ----------
    model : Predictor
        What the parameters belong to: one of `tj.models`, or anything with ``dim``, ``outputs`` and ``apply``.
    path : (tau, dim)
    """

    def __init__(self, model: Predictor, path: Any):
        self.model = model
        self.path = as_single("path", path).astype(np.float32)
        require(
            self.path.ndim == 2 and self.path.shape[1] == model.dim and len(self.path) > 0,
            f"path must have shape (tau, {model.dim}), got {self.path.shape}; pass one chain of run.paths.",
        )
        self._compiled = _hashable(model)
        self._units = _PLAIN

    @classmethod
    def from_run(cls, run: Run, model: Predictor, chain: int | str = 0) -> Ensemble:
        """The last path of one chain of a run; with "all" those of all chains, one after the other."""
        found, witness = cls(model, _joined(run.paths, chain)), witness_of(run.target.problem)
        if witness is not None and found._compiled != witness.network:
            require_same_network(witness.arrays(run.paths), run.paths, found._compiled, "the run")
        return found

    @classmethod
    def load(cls, directory: str | Path | StoredRun, chain: int | str = 0, model: Predictor | None = None) -> Ensemble:
        """The path of one chain in the newest checkpoint of a run, or those of all chains.

        Inputs and outputs are on the scale of the training; for a run of ``trajens train`` on a table, see
        `trajens.datasets.Reading` and `rescaled`.

        Parameters
        ----------
        directory : str, Path or StoredRun
        chain : int or str
            From 0; "all" joins the paths of all chains, one after the other, whatever their s.
        model : Predictor, optional
            Default: what the run says; one with a loss of the user's own knows none. One whose outputs are not those
            of the network the run was trained with is refused, where the run knows that.
        """
        stored = directory if isinstance(directory, StoredRun) else StoredRun(directory)
        paths = stored.paths
        found = cls(model_of(stored) if model is None else model, _joined(paths, chain))
        stored.require_network(found._compiled)
        return found

    @classmethod
    def from_apply(
        cls, apply: Apply, members: Any, outputs: int, unravel: Callable[[jax.Array], Any] | None = None
    ) -> Ensemble:
        """An ensemble of models of another library, or of one's own.

        Parameters
        ----------
        apply : callable
            ``apply(params, x) -> (m, outputs)``: outputs for inputs (m, ...), of every input by itself; logits where
            there is more than one. It is compiled by JAX.
        members : (tau, dim) or list of pytrees
            A path, or the parameters of every model.
        outputs : int
            Classes, or 1 for a regression.
        unravel : callable, optional
            What makes `params` of a row of the path, `Problem.unravel`; default: they are the row itself.

        Examples
        --------
        >>> def apply(params, x):
        ...     return x @ params["w"] + params["b"]
        >>> models = [{"w": jnp.eye(2), "b": jnp.zeros(2)}, {"w": jnp.eye(2), "b": jnp.ones(2)}]
        >>> tj.Ensemble.from_apply(apply, models, outputs=2).predict([[3.0, 1.0], [1.0, 2.0]]).tolist()
        [0, 1]

        With the problem and the run of a model in Flax:

        >>> problem = tj.Problem.from_pytree(loss, (x, y), params)  # doctest: +SKIP
        >>> run = tj.sample(tj.Target(problem, 8, 0.1, 100.0, prior=1.0), 20_000)  # doctest: +SKIP
        >>> tj.Ensemble.from_apply(net.apply, run.paths[0], 2, problem.unravel).evaluate(x, y)  # doctest: +SKIP
        """
        return cls(*applied(apply, members, outputs, unravel))

    def rescaled(self, mean: float, std: float) -> Ensemble:
        """Regressors that say mean + std f: labels that were standardised for training, in their own units."""
        require(not self.is_classifier, "only regressors can be rescaled, got classifiers; leave it out.")
        found = Ensemble(self.model, self.path)
        found._units = mean + std * self._units[0], std * self._units[1]
        return found

    @property
    def is_classifier(self) -> bool:
        """Whether its models choose among classes."""
        return self.model.outputs > 1

    def member_outputs(self, x: Any, chunk: int = CHUNK) -> np.ndarray:
        """Outputs of every model: (tau, n) of regressors, logits (tau, n, classes) of classifiers."""
        return self._collected(x, chunk, is_probability=False)

    def member_proba(self, x: Any, chunk: int = CHUNK) -> np.ndarray:
        """Probabilities (tau, n, classes) of every model, for inputs of any number, `chunk` at a time."""
        self._require_classes("member_outputs")
        return self._collected(x, chunk, is_probability=True)

    def predict_proba(self, x: Any) -> np.ndarray:
        """Mean probabilities (n, classes)."""
        self._require_classes("predict")
        x = self._inputs(x)
        mean = np.empty((len(x), self.model.outputs), np.float32)
        for place, part in self._parts(x):
            mean[place] = part.mean(0)
        return mean

    @overload
    def predict(self, x: Any, return_std: Literal[False] = False) -> np.ndarray: ...

    @overload
    def predict(self, x: Any, return_std: Literal[True]) -> tuple[np.ndarray, np.ndarray]: ...

    def predict(self, x: Any, return_std: bool = False) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """The vote (n,) of classifiers, or the mean (n,) of regressors.

        With `return_std`, which is for regressors, also their spread (n,): the standard deviation of the models around
        their mean, ((1/tau) sum_t (f_t - mean)^2)^1/2.
        """
        x = self._inputs(x)
        if self.is_classifier:
            require(not return_std, "return_std must be left out for classifiers, got True; use predict_proba.")
            chosen = np.empty(len(x), np.int64)
            for place, part in self._parts(x):
                chosen[place] = vote(part)
            return chosen
        mean, spread = np.empty(len(x)), np.empty(len(x))
        for place, part in self._parts(x):
            mean[place], spread[place] = part.mean(0, np.float64), part.std(0, np.float64)
        return (mean, spread) if return_std else mean

    def evaluate(self, x: Any, y: Any, noise: float | None = None) -> dict[str, Any]:
        """Plain numbers on labelled inputs, see `scores` and `regression_scores`; what the models say is not kept.

        `noise` is for regressors: the standard deviation of the labels around the true function.
        """
        x, y = self._inputs(x), numbers("labels", y)
        found: Scores | RegressionScores
        if self.is_classifier:
            require(noise is None, f"noise must be left out for classifiers, got {noise!r}; leave it out.")
            found = Scores(len(self.path), self.model.outputs)
        else:
            found = RegressionScores(len(self.path), noise)
        y = found.labels(y, len(x))
        for place, part in self._parts(x):
            found.add(part, y[place])
        return found.result()

    def said(self, x: Any) -> Said:
        """What classifiers say of inputs together: mean probabilities, votes, entropies, disagreement."""
        self._require_classes("predict")
        return Said.joined([said(part) for _, part in self._parts(self._inputs(x))])

    def parts(self, x: Any, chunk: int = CHUNK) -> Iterator[tuple[slice, np.ndarray]]:
        """What every model says of `chunk` inputs at a time, and which inputs these are.

        Probabilities (tau, m, classes) of classifiers, outputs (tau, m) of regressors.
        """
        return self._parts(self._inputs(x), integer("chunk", chunk, 1, "try 1000"))

    def _parts(
        self, x: np.ndarray, chunk: int = CHUNK, is_probability: bool | None = None
    ) -> Iterator[tuple[slice, np.ndarray]]:
        """`parts` of inputs that were checked; by default probabilities of classifiers."""
        is_probability = self.is_classifier if is_probability is None else is_probability
        # On the device once, for all parts.
        path = jax.device_put(self.path)
        dtype = single_type(x.dtype)
        for start in range(0, len(x), chunk):
            part = x[start : start + chunk].astype(dtype, copy=False)
            # Always the same shape, so that the last, shorter part compiles nothing.
            padded = np.concatenate([part, np.zeros((chunk - len(part), *x.shape[1:]), dtype)])
            said = self._say(is_probability, path, padded)[:, : len(part)]
            yield slice(start, start + len(part)), said if self.is_classifier else self._in_units(said[..., 0])

    @single
    def _say(self, is_probability: bool, path: jax.Array, x: np.ndarray) -> np.ndarray:
        return np.asarray(_said(self._compiled, is_probability, path, x))

    def _in_units(self, outputs: np.ndarray) -> np.ndarray:
        if self._units == _PLAIN:
            return outputs
        # In double precision: a mean far from 0 would take the digits of the spread.
        return self._units[0] + self._units[1] * outputs.astype(np.float64)

    def _collected(self, x: Any, chunk: int, is_probability: bool) -> np.ndarray:
        x, chunk = self._inputs(x), integer("chunk", chunk, 1, "try 1000")
        shape = (len(self.path), len(x), self.model.outputs)
        dtype = np.float32 if self._units == _PLAIN else np.float64
        members = np.empty(shape if self.is_classifier else shape[:2], dtype)
        for place, part in self._parts(x, chunk, is_probability):
            members[:, place] = part
        return members

    def _inputs(self, x: Any) -> np.ndarray:
        x = numbers("x", x)
        is_ours = isinstance(self.model, Model)
        x = as_bytes(x) if is_ours else x
        shape = getattr(self.model, "input_shape", None)
        is_shaped = x.ndim > 0 if shape is None else x.ndim > 1 and np.prod(x.shape[1:]) == np.prod(shape)
        accepted = "..." if shape is None else ", ".join(map(str, shape))
        require(
            bool(is_shaped),
            f"x must have shape (n, {accepted}), got {x.shape}; check the data.",
        )
        require_single("x", x)
        if not is_ours and len(x) > 0:
            check_apply(self.model, x[:CHUNK])
        return x

    def _require_classes(self, instead: str) -> None:
        require(self.is_classifier, f"probabilities are those of classifiers, got a model of 1 output; use {instead}.")


def model_of(run: StoredRun) -> Model:
    """The network of a run."""
    require(
        run.model is not None,
        f"the run must be one of a network, got '{run.path}', which has none; pass the model it belongs to.",
    )
    return described(run.model or {})


def _joined(paths: np.ndarray, chain: int | str) -> np.ndarray:
    """The paths of the chosen chains, one after the other."""
    return np.concatenate(paths[chosen_chains(chain, len(paths))])


def _hashable(model: Predictor) -> Any:
    try:
        hash(model)
    except TypeError:
        return Unhashable(model)
    return model


@partial(jax.jit, static_argnums=(0, 1))
def _said(model: Predictor, is_probability: bool, path: jax.Array, x: jax.Array) -> jax.Array:
    """Outputs (tau, m, outputs), or probabilities; equal models share a compilation."""
    # One model after the other, which on a CPU is twice as fast as all at once, and takes less memory.
    finish = jax.nn.softmax if is_probability else jnp.asarray
    return jax.lax.map(lambda theta: finish(model.apply(theta, x)), path)
