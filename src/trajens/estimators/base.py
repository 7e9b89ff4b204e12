"""Base of the classifier and the regressor: parameters, a scale of inputs, and training on a budget.

Inputs are standardised, (x - mean) / std of the training data; columns that do not vary there are 0.

*Padding.* Data of nearly equal sizes as data of one size, so that folds of a cross-validation share a compilation.

The number of examples is compiled into a sampler. N examples are padded to N' by examples of weight 0, and the others
have the weight N' / N:

    (1/N') sum_i w_i l_i = (1/N) sum_{i <= N} l_i = L,

so the mean loss, and with it the distribution that is sampled at a given s, is that of the N examples. Examples that
are held out have the weight 0 too, and the distribution is that of the rest.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

import jax
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from trajens.acceptance import Penalty
from trajens.datasets.arrays import moments, standardise
from trajens.ensemble import Ensemble, drawn_paths
from trajens.errors import integer, require
from trajens.losses import Weighted, WeightedData, weights_without
from trajens.models import ACTIVATION, mlp
from trajens.models.mlp import HIDDEN
from trajens.precision import require_unmasked
from trajens.problem import Problem
from trajens.run.control import LIKELIHOODS, likelihood_s
from trajens.run.run import Run
from trajens.run.start import AUTO
from trajens.run.train import TAU, is_searchable, train, usual_acceptance, usual_chains
from trajens.target import path_length

LEAST = 64
"""The smallest size that data are padded to: so few cost nothing."""

_BITS = 4


def common_size(size: int) -> int:
    """N': the next number of four significant bits, at most an eighth above N; 64 at least.

    Folds whose sizes lie on both sides of such a number, for instance 128 and 129, have two.
    """
    step = 2 ** max(size.bit_length() - _BITS, 0)
    return max(LEAST, -(-size // step) * step)


def pad(problem: Problem, is_held_out: np.ndarray | None = None) -> Problem:
    """The same problem on data of a common size, without the examples (N,) that are held out."""
    size = common_size(problem.size)
    is_used = np.zeros(size, bool)
    is_used[: problem.size] = True if is_held_out is None else ~is_held_out
    weight = weights_without(np.ones(size), ~is_used)

    def lengthened(leaf: Any) -> np.ndarray:
        # With examples that are there: what has weight 0 must still have a finite loss.
        here = np.asarray(leaf)
        return np.concatenate([here, np.broadcast_to(here[:1], (size - len(here), *here.shape[1:]))])

    data = WeightedData(jax.tree.map(lengthened, problem.data), weight)
    layers = {name: place.stop - place.start for name, place in problem.layers.items()} or None
    known: Any = {"prior": problem.prior, "layers": layers, "likelihood": problem.likelihood}
    return Problem(Weighted(problem.loss), data, problem.dim, problem.initial, problem.spread, **known)


PAIRS, PAIRS_PER_EXAMPLE, MOST_PAIRS = 4e6, 2e4, 5e7
"""Of the default budget, of every chain that is asked for: at least, for every example, and at most."""

_RECORDS, _DRAWS = 60, 12
"""Of a run, and those after burn-in whose paths predict: always as many, so that predicting compiles once."""

_KEPT = 2**27
"""Bytes of paths that are kept at most, so that predictions are averages over them and not over the last ones."""
_SEEDS = 2**31 - 1


class Trainable(Protocol):
    """A network that brings its problem, as those of `tj.models` do: outputs for predictions, a loss for training."""

    @property
    def dim(self) -> int:
        """Number of parameters."""

    @property
    def outputs(self) -> int:
        """Numbers the model gives per input: 1, or one per class."""

    def apply(self, theta: jax.Array, x: jax.Array) -> jax.Array:
        """Outputs (m, outputs) of the model `theta` (dim,) on inputs (m, n_features)."""

    def problem(self, x: Any, y: Any, loss: str) -> Problem:
        """The loss, "cross-entropy" or "squared", on inputs (N, n_features) and labels (N,)."""


@dataclass(eq=False, repr=False, kw_only=True)
class TrajectoryEnsemble(BaseEstimator):  # type: ignore[misc]
    """An ensemble of networks on a path, trained without gradients; see its two subclasses."""

    hidden_layer_sizes: tuple[int, ...] = (HIDDEN,)
    activation: str = ACTIVATION
    model: Trainable | Callable[[int, int], Trainable] | None = None
    tau: int | None = None
    chains: int | None = None
    budget: float | None = None
    s: float | None = None
    tolerance: float | None = Penalty.tolerance
    sigma: float | None = None
    prior: float | str | None = "auto"
    warm_start: bool = False
    random_state: int | np.random.RandomState | None = None
    verbose: bool = False

    _loss: ClassVar[str]

    def inputs(self, X: Any) -> np.ndarray:
        """Inputs (n, n_features) on the scale of the training data, as `ensemble_` takes them."""
        check_is_fitted(self)
        require_unmasked("X", X)
        return self._scaled(validate_data(self, X, dtype=np.float64, reset=False))

    def _scaled(self, x: np.ndarray) -> np.ndarray:
        return standardise(x, self.mean_, self.scale_).astype(np.float32)

    def _fitted(self, x: np.ndarray, y: np.ndarray, outputs: int) -> Self:
        """Trained on inputs (N, n_features) as they are and labels (N,) as the loss takes them."""
        if self.tau is not None:
            path_length(self.tau)
        if self.chains is not None:
            integer("chains", self.chains, 1, "use 1 or more independent paths")
        begin = self._path_of_before(x.shape[1], outputs)
        if begin is None:
            mean, std = np.array([moments(column) for column in x.T]).T
            # What has never varied says nothing: a weight for it would stay as random as it was.
            self.mean_, self.scale_ = mean, np.where(std > 0, std, np.inf)
        network, scaled = self._network(x.shape[1], outputs), self._scaled(x)
        problem = network.problem(scaled, y, self._loss)
        seed = int(check_random_state(self.random_state).randint(_SEEDS))
        run = self._trained(network, problem, scaled, y, AUTO if begin is None else begin, seed)
        self.path_ = run.paths
        models = run.paths.shape[0] * run.paths.shape[1]
        draws = run.paths[:, None] if run.history is None else drawn_paths(run, "all", most=_DRAWS * models)
        self.n_draws_ = draws.shape[0] * draws.shape[1]
        self.ensemble_ = Ensemble(network, draws.reshape(-1, draws.shape[-1]))
        found = run.summary()
        self.n_iter_, self.s_, self.loss_ = run.epochs, float(run.s[0]), float(found["loss"])
        self.tilt_error_ = 0.0 if run.settings.acceptance.takes_all_data else float(found["tilt_error"])
        return self

    @abstractmethod
    def _trained(
        self, network: Trainable, problem: Problem, x: np.ndarray, y: np.ndarray, start: Any, seed: int
    ) -> Run:
        """The last run on the data of `problem`, which are the inputs `x` and labels `y`."""

    def _is_searching(self, problem: Problem, start: Any) -> bool:
        """Whether `train` looks for the s that predicts best, as it does on few examples."""
        return self.s is None and isinstance(start, str) and is_searchable(problem)

    def _usual_s(self, size: int, start: Any, variance: float = 1.0) -> float:
        """The s of as many likelihoods of so many examples as before, where there was a fit; or of the usual number."""
        is_fresh = isinstance(start, str)
        tau = (self.tau or TAU) if is_fresh else start.shape[1]
        return likelihood_s(size, tau, variance, LIKELIHOODS if is_fresh else self.likelihoods_)

    def _run(self, problem: Problem, s: float | None, budget: float, start: Any, seed: int) -> Run:
        # Chains and models as asked for, or those of before; None leaves them to `train`.
        chains, tau = (self.chains, self.tau) if isinstance(start, str) else start.shape[:2]
        models = (chains or usual_chains(problem)) * (tau or TAU)
        asked: Any = {} if chains is None else {"chains": chains}
        return train(
            problem,
            tau=tau,
            budget=budget,
            s=s,
            start=start,
            **asked,
            sigma=self.sigma,
            prior=usual_prior(problem) if self.prior == "auto" else self.prior,
            seed=seed,
            acceptance=usual_acceptance(problem, models, tolerance=self.tolerance),
            records=_RECORDS,
            keep_paths=4 * _RECORDS * models * problem.dim <= _KEPT,
            progress=bool(self.verbose),
        )

    def _pairs(self, size: int) -> float:
        usual = min(max(PAIRS, PAIRS_PER_EXAMPLE * common_size(size)), MOST_PAIRS) * (self.chains or 1)
        return usual if self.budget is None else self.budget

    def _network(self, inputs: int, outputs: int) -> Trainable:
        """The network asked for, if it has as many outputs as there must be."""
        if self.model is None:
            return mlp((inputs, *self.hidden_layer_sizes, outputs), self.activation)
        is_made = not hasattr(self.model, "apply") and callable(self.model)
        network: Any = self.model(inputs, outputs) if is_made else self.model  # type: ignore[operator]
        wanted = ("dim", "outputs", "apply", "problem")
        missing = [name for name in wanted if not hasattr(network, name)]
        require(
            not missing,
            f"model must have {', '.join(wanted)}, got {network!r} without {', '.join(missing)}; try tj.models.mlp, or "
            "a function of the numbers of inputs and outputs that makes one.",
        )
        require(
            network.outputs == outputs,
            f"model must have {outputs} outputs for these labels, got {network.outputs}; give a function of the "
            "numbers of inputs and outputs that makes one.",
        )
        return network  # type: ignore[no-any-return]

    def _path_of_before(self, inputs: int, outputs: int) -> np.ndarray | None:
        """The path of the last fit, to go on from; None where there is none, or none is wanted."""
        if not (self.warm_start and hasattr(self, "path_")):
            return None
        before, dim = self.path_.shape, self._network(inputs, outputs).dim
        now = (self.chains or before[0], self.tau or before[1], dim)
        require(
            before == now and len(self.mean_) == inputs and self.ensemble_.model.outputs == outputs,
            f"warm_start must go on with paths of the same shape, (chains, tau, parameters) = {now}, got {before} from "
            "the last fit; keep features, classes and network, or set warm_start=False.",
        )
        return np.asarray(self.path_)


def usual_prior(problem: Problem) -> float | None:
    """The width of the distribution of first models that suits a problem, but no wider than its random parameters are.

    Networks of many inputs have small weights, and would otherwise be free to fit what is noise.
    """
    if problem.prior is None or problem.spread is None or not problem.spread.any():
        return problem.prior
    spread = problem.spread[problem.spread > 0]
    return min(problem.prior, float(np.sqrt(np.mean(np.square(spread)))))
