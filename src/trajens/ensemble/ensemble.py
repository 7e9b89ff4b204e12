"""Ensemble: a path used for prediction, tau models that vote, or whose probabilities or outputs are averaged."""

from __future__ import annotations

import html
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
    apply_members,
    members_of,
    parameters_of,
)
from trajens.ensemble.saved import Saved, read_ensemble, write_ensemble
from trajens.ensemble.scores import RegressionScores, Scores, vote
from trajens.ensemble.selection import chain_of, drawn_paths, last_paths
from trajens.ensemble.uncertainty import Predictions, summarise_predictions
from trajens.errors import integer, require
from trajens.models import described
from trajens.models.base import Model
from trajens.precision import numbers
from trajens.run.identity import fingerprint_network, require_same_network
from trajens.run.run import Run
from trajens.run.stored import StoredRun
from trajens.run.tables import Summary


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
        run: Run | StoredRun,
        model: Predictor | None = None,
        chain: int | str | None = None,
        apply: Apply | None = None,
        outputs: int | None = None,
        *,
        s: float | None = None,
    ) -> Ensemble:
        """The last paths of all chains of a run, one after the other, which must be of one s.

        Parameters
        ----------
        run : Run or StoredRun
        model : Predictor, optional
            Default: that of the run's problem, if it is one of `tj.models`.
        chain : int or str, optional
            The path of one chain, from 0; "all" joins those of all chains, whatever their s.
        apply, outputs
            In place of a model, for a problem of pytrees: ``apply(params, x) -> (m, outputs)``, see `from_apply`.
        s : float, optional
            The chains of this s, of a run of several.
        """
        return cls._of(run, last_paths(run, chain_of(chain, s)), model, apply, outputs)

    @classmethod
    def from_draws(
        cls,
        run: Run | StoredRun | str | Path,
        model: Predictor | None = None,
        chain: int | str | None = None,
        apply: Apply | None = None,
        outputs: int | None = None,
        *,
        s: float | None = None,
        thin: int | None = None,
        most: int | None = None,
    ) -> Ensemble:
        """The paths of all chains at all records after burn-in: the average over the posterior, not its last draw.

        The run must have kept them, ``keep_paths=True``. Models are in the order chain, draw, place in the path.

        Parameters
        ----------
        run : Run, StoredRun or directory of a run
        model, chain, apply, outputs, s
            As for `from_run`.
        thin : int, optional
            Take every so many-th record, the last included.
        most : int, optional
            Models at most, taken evenly over records; default as many as 1 GiB of parameters holds.
        """
        found = StoredRun(run) if isinstance(run, (str, Path)) else run
        draws = drawn_paths(found, chain_of(chain, s), thin, most)
        return cls._of(found, draws.reshape(-1, draws.shape[-1]), model, apply, outputs)

    @classmethod
    def _of(
        cls,
        run: Run | StoredRun,
        path: np.ndarray,
        model: Predictor | None,
        apply: Apply | None = None,
        outputs: int | None = None,
    ) -> Ensemble:
        """An ensemble of models of a run, with the model it is of, or the function that was given in its place."""
        problem = None if isinstance(run, StoredRun) else run.target.problem
        if apply is not None:
            require(
                model is None, "model and apply must not both be given: each says what the model is; leave one out."
            )
            require(
                outputs is not None, "outputs must be given with apply, got none; give the number of classes, or 1."
            )
            return cls.from_apply(apply, path, outputs or 0, None if problem is None else problem.unravel)
        if isinstance(run, StoredRun):
            found = cls(model_of(run) if model is None else model, path)
            run.require_network(found._members.compiled)
            return found
        problem = run.target.problem
        witness = fingerprint_network(problem)
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
    def load(
        cls,
        source: str | Path | StoredRun,
        chain: int | str | None = None,
        model: Predictor | None = None,
        *,
        draws: bool = False,
        most: int | None = None,
    ) -> Ensemble:
        """What `save` wrote; or the paths of all chains, of one s, in the newest checkpoint of a run.

        Inputs are on the scale of the training; for those of a file, see `Reading.inputs`. So are the outputs of a
        run, see `rescaled`; those of a file are as they were when it was saved.

        Parameters
        ----------
        source : str, Path or StoredRun
            A file, or the directory of a run.
        chain : int or str, optional
            Of a run, from 0; "s=80" takes the chains of that s, "all" those of all chains, whatever their s.
        model : Predictor, optional
            Default: what the file or run says; one with a loss of the user's own knows none, see `Applied.of`. One
            whose outputs are not those of the network that was trained is refused, where that is known.
        draws : bool
            Of a run that kept its paths: those at all records after burn-in, as `from_draws` takes them.
        most : int, optional
            With `draws`: models at most.
        """
        require(draws or most is None, f"most must be left out without draws, got {most!r}; add draws=True.")
        if not isinstance(source, StoredRun) and not Path(source).is_dir():
            require(not draws, f"draws are those of a run, got the file '{source}'; give the directory of the run.")
            saved = read_ensemble(Path(source), model)
            return cls(saved.model, saved.path, saved.reading, saved.units)
        stored = source if isinstance(source, StoredRun) else StoredRun(source)
        if draws:
            return cls.from_draws(stored, model, chain, most=most)
        return cls.from_run(stored, model, chain)

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
        return cls(*apply_members(apply, members, outputs, unravel))

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

    def evaluate(self, x: Any, y: Any, noise: float | None = None, progress: bool = False) -> Summary:
        """Plain numbers on labelled inputs, see `scores` and `regression_scores`: a dict that prints as a table.

        `noise` is for regressors: the standard deviation of the labels around the true function.
        """
        return Summary(self.scored(x, y, noise, progress).result())

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

    def plot_reliability(self, x: Any, y: Any, axes: Any = None) -> Any:
        """Draw how often classifiers are right against how sure they are; see `plots.plot_reliability`.

        Needs ``pip install 'trajens[figures]'``. Takes and returns axes of Matplotlib.
        """
        from trajens.plots import plot_reliability

        self._require_classes("evaluate")
        return plot_reliability(self.summarise_predictions(x), numbers("labels", y), axes)

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(repr(self))}</p>"

    def __repr__(self) -> str:
        kind = "classifiers" if self.is_classifier else "regressors"
        return f"Ensemble({len(self.path)} {kind} of {self.model})"

    def _require_classes(self, instead: str) -> None:
        require(self.is_classifier, f"probabilities are those of classifiers, got a model of 1 output; use {instead}.")


def model_of(run: StoredRun) -> Model:
    """The network of a run."""
    require(
        run.model is not None,
        f"the run must be one of a network, got '{run.path}', which has none; pass the model it belongs to.",
    )
    return described(run.model or {})


def _is_like(one: Predictor, other: Predictor) -> bool:
    """Whether two models made of one function have the same parameters; their ways back are never equal."""
    return (
        isinstance(one, Applied)
        and isinstance(other, Applied)
        and one.function == other.function
        and parameters_of(one) == parameters_of(other)
    )
