"""Ensemble: a path used for prediction, tau models that vote, or whose probabilities or outputs are averaged."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, cast, overload

import jax
import numpy as np

from trajens.datasets import Reading
from trajens.ensemble.members import (
    CHUNK,
    PLAIN,
    Applied,
    Apply,
    Members,
    Predictor,
    applied,
    members_of,
    parameters_of,
)
from trajens.ensemble.saved import Saved, read_ensemble, write_ensemble
from trajens.ensemble.scores import RegressionScores, Scores, vote
from trajens.ensemble.uncertainty import Predictions, summarise_predictions
from trajens.errors import InputError, integer, require
from trajens.models import described
from trajens.models.base import Model
from trajens.precision import numbers
from trajens.run.identity import fingerprint_network, require_same_network
from trajens.run.run import Run
from trajens.run.stored import StoredRun

ALL = "all"
"""The name of all chains together."""


def chosen_chains(chain: int | str, chains: int) -> np.ndarray:
    """The numbers (1,) or (chains,) of the chains that `chain` means.

    Parameters
    ----------
    chain : int or str
        A whole number from 0, also as text, or "all".
    chains : int
        How many there are.
    """
    if isinstance(chain, str):
        if chain == ALL:
            return np.arange(chains)
        try:
            chain = int(chain)
        except ValueError:
            raise InputError(
                f"chain must be a whole number in 0..{chains - 1} or {ALL}, got {chain!r}; count from 0."
            ) from None
    return np.array([integer("chain", chain, 0, f"count from 0, or take '{ALL}'", chains - 1)])


class Ensemble:
    """The models of one path, or of those of several chains.

    A model of one output is a regressor, of more a classifier, whose outputs are logits.

    Parameters
    ----------
    model : Predictor
        What the parameters belong to: one of `tj.models`, or anything with ``dim``, ``outputs`` and ``apply``.
    path : (tau, dim)
    reading : Reading, optional
        How files with its inputs are read, of a run of ``trajens train``; kept and saved with it.
    units : (float, float)
        Mean and standard deviation of labels that were standardised for training: regressors say mean + std f.
    """

    def __init__(
        self,
        model: Predictor,
        path: Any,
        reading: Reading | None = None,
        units: tuple[float, float] = PLAIN,
    ):
        self._members = Members(model, path, units)
        self.reading = reading

    @property
    def model(self) -> Predictor:
        """What the parameters belong to."""
        return self._members.model

    @property
    def path(self) -> np.ndarray:
        """The parameters of its models (tau, dim)."""
        return self._members.path

    @property
    def units(self) -> tuple[float, float]:
        """Mean and standard deviation of the labels of regressors."""
        return self._members.units

    @classmethod
    def from_run(
        cls,
        run: Run,
        model: Predictor | None = None,
        chain: int | str = 0,
        apply: Apply | None = None,
        outputs: int | None = None,
    ) -> Ensemble:
        """The last path of one chain of a run; with "all" those of all chains, one after the other.

        Parameters
        ----------
        run : Run
        model : Predictor, optional
            Default: that of the run's problem, if it is one of `tj.models`.
        chain : int or str
        apply, outputs
            In place of a model, for a problem of pytrees: ``apply(params, x) -> (m, outputs)``, see `from_apply`.
        """
        problem = run.target.problem
        path, witness = _joined(run.paths, chain), fingerprint_network(problem)
        if apply is not None:
            require(
                model is None, "model and apply must not both be given: each says what the model is; leave one out."
            )
            require(
                outputs is not None, "outputs must be given with apply, got none; give the number of classes, or 1."
            )
            return cls.from_apply(apply, path, outputs or 0, problem.unravel)
        known = (problem.network or getattr(witness, "network", None)) if model is None else model
        require(
            isinstance(known, Model) or model is not None or problem.network is not None,
            f"model must be given for {problem}, which knows none; pass it, or apply and outputs.",
        )
        found = cls(cast(Predictor, known), path)
        if witness is not None and found._members.compiled != witness.network:
            require_same_network(witness.arrays(run.paths), run.paths, found._members.compiled, "the run")
        return found

    @classmethod
    def load(cls, source: str | Path | StoredRun, chain: int | str = 0, model: Predictor | None = None) -> Ensemble:
        """What `save` wrote; or the path of one chain in the newest checkpoint of a run, or those of all chains.

        Inputs are on the scale of the training; for those of a file, see `Reading.inputs`. So are the outputs of a
        run, see `rescaled`; those of a file are as they were when it was saved.

        Parameters
        ----------
        source : str, Path or StoredRun
            A file, or the directory of a run.
        chain : int or str
            Of a run, from 0; "all" joins the paths of all chains, one after the other, whatever their s.
        model : Predictor, optional
            Default: what the file or run says; one with a loss of the user's own knows none, see `Applied.of`. One
            whose outputs are not those of the network that was trained is refused, where that is known.
        """
        if not isinstance(source, StoredRun) and not Path(source).is_dir():
            saved = read_ensemble(Path(source), model)
            return cls(saved.model, saved.path, saved.reading, saved.units)
        stored = source if isinstance(source, StoredRun) else StoredRun(source)
        paths = stored.paths
        found = cls(model_of(stored) if model is None else model, _joined(paths, chain))
        stored.require_network(found._members.compiled)
        return found

    def save(self, file: str | Path, overwrite: bool = False) -> Path:
        """Write all there is to it into one file, for `load`: no run directory is needed, and no pickle used.

        A model of `tj.models` is known to the file. Of another one it holds the parameters, and `load` asks for it.
        """
        path = Path(file)
        write_ensemble(path, Saved(self.model, self.path, self.units, self.reading), overwrite)
        return path

    @classmethod
    def join(cls, ensembles: Iterable[Ensemble]) -> Ensemble:
        """The models of several ensembles, of chains or of runs, as one; all of one architecture and in one unit."""
        given = list(ensembles)
        require(len(given) > 0, "ensembles must be one or more, got none; pass some.")
        first = given[0]
        for number, other in enumerate(given[1:], start=1):
            is_alike = other.model == first.model or _is_like(other.model, first.model)
            require(
                is_alike and other.model.outputs == first.model.outputs,
                f"ensembles must be of one model, got {other.model} in number {number} and {first.model} in number 0; "
                "join those of one architecture.",
            )
            require(
                other.units == first.units and other.reading == first.reading,
                f"ensembles must have been trained on data that are read and scaled alike, got others in number "
                f"{number} than in number 0; join those of one table.",
            )
        return cls(first.model, np.concatenate([one.path for one in given]), first.reading, first.units)

    @property
    def members(self) -> list[Any]:
        """Parameters of every model in its own form: pytrees, or weights and biases of every layer."""
        return members_of(self.model, self.path)

    def state_dicts(self) -> list[dict[str, Any]]:
        """State dicts of every model, for ``load_state_dict`` of the module of PyTorch that was trained."""
        write = getattr(self.model, "state_dicts", None)
        require(write is not None, f"state dicts are those of PyTorch, got {self.model}; use members.")
        return cast(list[dict[str, Any]], cast(Any, write)(self.path))

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
        units = mean + std * self.units[0], std * self.units[1]
        return Ensemble(self.model, self.path, self.reading, units)

    @property
    def is_classifier(self) -> bool:
        """Whether its models choose among classes."""
        return self._members.is_classifier

    def member_outputs(self, x: Any, chunk: int = CHUNK, progress: bool = False) -> np.ndarray:
        """Outputs of every model: (tau, n) of regressors, logits (tau, n, classes) of classifiers."""
        return self._members.collected(x, chunk, progress, is_probability=False)

    def member_proba(self, x: Any, chunk: int = CHUNK, progress: bool = False) -> np.ndarray:
        """Probabilities (tau, n, classes) of every model, for inputs of any number, `chunk` at a time."""
        self._require_classes("member_outputs")
        return self._members.collected(x, chunk, progress, is_probability=True)

    def predict_proba(self, x: Any, progress: bool = False) -> np.ndarray:
        """Mean probabilities (n, classes)."""
        self._require_classes("predict")
        x = self._members.inputs(x)
        mean = np.empty((len(x), self.model.outputs), np.float32)
        for place, part in self._members.parts(x, progress=progress):
            mean[place] = part.mean(0)
        return mean

    @overload
    def predict(self, x: Any, return_std: Literal[False] = False, progress: bool = False) -> np.ndarray: ...

    @overload
    def predict(self, x: Any, return_std: Literal[True], progress: bool = False) -> tuple[np.ndarray, np.ndarray]: ...

    def predict(
        self, x: Any, return_std: bool = False, progress: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """The vote (n,) of classifiers, or the mean (n,) of regressors.

        With `return_std`, which is for regressors, also their spread (n,): the standard deviation of the models around
        their mean, ((1/tau) sum_t (f_t - mean)^2)^1/2.
        """
        x = self._members.inputs(x)
        if self.is_classifier:
            require(not return_std, "return_std must be left out for classifiers, got True; use predict_proba.")
            chosen = np.empty(len(x), np.int64)
            for place, part in self._members.parts(x, progress=progress):
                chosen[place] = vote(part)
            return chosen
        mean, spread = np.empty(len(x)), np.empty(len(x))
        for place, part in self._members.parts(x, progress=progress):
            mean[place], spread[place] = part.mean(0, np.float64), part.std(0, np.float64)
        return (mean, spread) if return_std else mean

    def evaluate(self, x: Any, y: Any, noise: float | None = None, progress: bool = False) -> dict[str, Any]:
        """Plain numbers on labelled inputs, see `scores` and `regression_scores`; what the models say is not kept.

        `noise` is for regressors: the standard deviation of the labels around the true function.
        """
        return self.scored(x, y, noise, progress).result()

    def scored(self, x: Any, y: Any, noise: float | None = None, progress: bool = False) -> Scores | RegressionScores:
        """The same with what the models say together of every input."""
        x, y = self._members.inputs(x), numbers("labels", y)
        found: Scores | RegressionScores
        if self.is_classifier:
            require(noise is None, f"noise must be left out for classifiers, got {noise!r}; leave it out.")
            found = Scores(len(self.path), self.model.outputs)
        else:
            found = RegressionScores(len(self.path), noise)
        y = found.labels(y, len(x))
        for place, part in self._members.parts(x, progress=progress):
            found.add(part, y[place])
        return found

    def summarise_predictions(self, x: Any, progress: bool = False) -> Predictions:
        """What classifiers say of inputs together: mean probabilities, votes, entropies, disagreement."""
        self._require_classes("predict")
        x = self._members.inputs(x)
        require(len(x) > 0, "x must be of one input or more, got none; pass some.")
        return Predictions.joined(
            [summarise_predictions(part) for _, part in self._members.parts(x, progress=progress)]
        )

    def said(self, x: Any, progress: bool = False) -> Predictions:
        """Old name of `summarise_predictions`."""
        message = "Ensemble.said is now called summarise_predictions, and its old name will go in the next version."
        warnings.warn(message, FutureWarning, stacklevel=2)
        return self.summarise_predictions(x, progress)

    def parts(self, x: Any, chunk: int = CHUNK, progress: bool = False) -> Iterator[tuple[slice, np.ndarray]]:
        """What every model says of `chunk` inputs at a time, and which inputs these are.

        Probabilities (tau, m, classes) of classifiers, outputs (tau, m) of regressors.
        """
        return self._members.parts(self._members.inputs(x), integer("chunk", chunk, 1, "try 1000"), progress)

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


def _is_like(one: Predictor, other: Predictor) -> bool:
    """Whether two models made of one function have the same parameters; their ways back are never equal."""
    return (
        isinstance(one, Applied)
        and isinstance(other, Applied)
        and one.function == other.function
        and parameters_of(one) == parameters_of(other)
    )
