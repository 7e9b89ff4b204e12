"""Problems whose path law is known, for ``tolerance.py``: by linear algebra, transfer matrices or full-data runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import trajens as tj
from trajens.problem import Problem

_ROOM = 2**22
"""Numbers that are held at a time."""
_GRID = {1: 4001, 2: 241}
"""Points of a grid along each of so many parameters."""
_NARROW = 1e-13
"""Of the largest density, below which a grid ends."""


class Moments(NamedTuple):
    """Of a path law.

    Attributes
    ----------
    loss, slope : float
        Mean loss per model, and its derivative with respect to ln s.
    mean, spread : (dim,)
        Of the mean model of a path: its mean, and the standard deviation of one model of a path.
    loss_error : float
    mean_error : (dim,)
        0 where the law is exact.
    """

    loss: float
    slope: float
    mean: np.ndarray
    spread: np.ndarray
    loss_error: float = 0.0
    mean_error: Any = 0.0


class Law(NamedTuple):
    """tau, sigma and prior of a path."""

    tau: int
    sigma: float
    prior: float | None


@dataclass(frozen=True)
class Known:
    """A problem, the exact mean loss of any models, and the moments of its path law at an s."""

    problem: Problem
    losses: Callable[[np.ndarray], np.ndarray]
    moments: Callable[[Law, float], Moments]


def draws(kind: str, rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Numbers of mean 0, and of variance 1 where that is finite."""
    if kind == "normal":
        return rng.standard_normal(shape)
    if kind == "gamma":
        return rng.standard_gamma(1.0, shape) - 1.0
    if kind == "product":
        return rng.standard_normal(shape) * rng.standard_normal(shape)
    freedom = float(kind.removeprefix("t"))
    return rng.standard_t(freedom, shape) * (np.sqrt((freedom - 2) / freedom) if freedom > 2 else 1.0)


def quadratic(hessian: np.ndarray, solution: np.ndarray, minimum: float) -> Callable[[np.ndarray], np.ndarray]:
    """Losses (n,) of models (n, dim)."""

    def losses(models: np.ndarray) -> np.ndarray:
        offset = models - solution
        return np.asarray(minimum + 0.5 * np.einsum("ni,ij,nj->n", offset, hessian, offset))

    return losses


def exact_moments(x: np.ndarray, y: np.ndarray) -> Callable[[Law, float], Moments]:
    """Of a linear perceptron."""

    def moments(law: Law, s: float) -> Moments:
        exact = tj.exact.perceptron(x, y, law.tau, law.sigma, s, law.prior)
        spread = np.sqrt(np.einsum("tdtd->td", exact.covariance).mean(0))
        return Moments(exact.loss, -s * exact.variance / law.tau, exact.mean.mean(0), spread)

    return moments


def perceptron(kind: str, size: int, dim: int, noise: str | None = None, seed: int = 0) -> Known:
    """Squared error; inputs of one law, labels with errors of the same, or of another one."""
    rng = np.random.default_rng([seed, size, dim])
    x = draws(kind, rng, size, dim).astype(np.float32)
    y = (x @ rng.standard_normal(dim) + draws(noise or kind, rng, size)).astype(np.float32)
    wide, labels = x.astype(np.float64), y.astype(np.float64)
    solution = np.linalg.lstsq(wide, labels, rcond=None)[0]
    minimum = 0.5 * float(np.mean((labels - wide @ solution) ** 2))
    found = quadratic(wide.T @ wide / size, solution, minimum)
    problem = tj.datasets.PerceptronData(x, y).problem()
    return Known(problem, found, exact_moments(wide, labels))


def stream(kind: str) -> Known:
    """Examples that do not end: x of a law with variance 1, y = 0.5 x + an error of the same law; one parameter."""

    def one(theta: jax.Array, key: jax.Array) -> jax.Array:
        keys = jax.random.split(key)
        if kind == "gamma":
            x, error = (jax.random.exponential(k) - 1.0 for k in keys)
        elif kind == "normal":
            x, error = (jax.random.normal(k) for k in keys)
        else:
            freedom = float(kind.removeprefix("t"))
            x, error = (jax.random.t(k, freedom) * np.sqrt((freedom - 2) / freedom) for k in keys)
        return 0.5 * (0.5 * x + error - x * theta[0]) ** 2

    problem = tj.Stream(jax.vmap(one, in_axes=(None, 0)), 1, max_batch=8192, initial=np.array([0.5]))
    # Two examples with the same mean loss for every model.
    law = exact_moments(np.ones((2, 1)), np.array([1.5, -0.5]))
    return Known(problem, quadratic(np.eye(1), np.array([0.5]), 0.5), law)


LOSSES: dict[str, Callable[[Any, Any], Any]] = {
    "absolute": lambda line, y: jnp.abs(y - line),
    "logistic": lambda line, y: jnp.logaddexp(0.0, -y * line),
    "0-1": lambda line, y: ((line > 0) != (y > 0)).astype(jnp.float32),
    "Huber": lambda line, y: jnp.where(jnp.abs(y - line) < 1, 0.5 * (y - line) ** 2, jnp.abs(y - line) - 0.5),
}
"""Losses of one example, of a linear model."""


@dataclass(frozen=True)
class OfLine:
    """The loss of x theta, or of 0.3 + x theta with a 0-1 loss of one parameter, which knows no scale."""

    kind: str

    def __call__(self, theta: jax.Array, batch: Any) -> jax.Array:
        """Losses (m,)."""
        x, y = batch
        constant = 0.3 if self.kind == "0-1" and x.shape[1] == 1 else 0.0
        return LOSSES[self.kind]((x * theta).sum(-1) + constant, y)


def linear(loss: str, kind: str, size: int, dim: int, seed: int = 0) -> Known:
    """A linear model of one or two parameters with another loss, its law on a grid."""
    x, y = _line_data(loss, kind, size, dim, seed)
    losses = _losses_of(OfLine(loss), x, y)
    return Known(tj.Problem(OfLine(loss), (x, y), dim), losses, _on_a_grid(losses, dim))


def table(loss: str, size: int, seed: int = 0) -> Known:
    """Six columns: amounts, a skewed one, two classes of three as 0 and 1; the law by a long run on all data."""
    rng = np.random.default_rng([seed, size, 7])
    amounts = np.column_stack([rng.standard_normal(size), rng.standard_gamma(1.0, size) - 1, rng.standard_t(4, size)])
    classes = rng.choice(3, size, p=[0.6, 0.3, 0.1])
    x = np.column_stack([np.ones(size), amounts, classes == 1, classes == 2]).astype(np.float32)
    y = _labels(loss, x @ rng.standard_normal(x.shape[1]) * 0.5, rng)
    problem = tj.Problem(OfLine(loss), (x, y), x.shape[1])
    losses = _losses_of(OfLine(loss), x, y)
    return Known(problem, losses, _by_full_data(problem, losses))


def _line_data(loss: str, kind: str, size: int, dim: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([seed, size, dim])
    x = draws("normal" if kind == "t2" else kind, rng, size, dim).astype(np.float32)
    line = x @ np.array([1.0, -0.5])[:dim]
    if loss in ("absolute", "Huber"):
        return x, (line + draws(kind, rng, size)).astype(np.float32)
    return x, _labels(loss, line, rng)


def _labels(loss: str, line: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Numbers with heavy-tailed errors, or signs of a logistic law."""
    if loss in ("absolute", "Huber"):
        return (line + rng.standard_t(3, len(line))).astype(np.float32)
    return np.sign(line + rng.logistic(size=len(line))).astype(np.float32)


def _losses_of(loss: OfLine, x: np.ndarray, y: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Mean losses (n,) of models (n, dim) on all data."""
    mean = jax.jit(lambda models: jax.vmap(lambda theta: loss(theta, (x, y)).mean())(models))
    most = max(1, _ROOM // len(x))

    def losses(models: np.ndarray) -> np.ndarray:
        models = np.asarray(models, np.float32)
        # One shape for all calls.
        parts = [np.resize(models[k : k + most], (most, models.shape[1])) for k in range(0, len(models), most)]
        return np.concatenate([np.asarray(mean(part), np.float64) for part in parts])[: len(models)]

    return losses


def _on_a_grid(losses: Callable[[np.ndarray], np.ndarray], dim: int) -> Callable[[Law, float], Moments]:
    """The law by products of transfer matrices, which factorise along the parameters of a grid."""

    def moments(law: Law, s: float) -> Moments:
        shape = (_GRID[dim],) * dim
        low, high = [-8.0] * dim, [8.0] * dim
        # The grid is narrowed to where there is something.
        for _ in range(4):
            axes = [np.linspace(a, b, _GRID[dim]) for a, b in zip(low, high, strict=True)]
            points = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, dim)
            loss = losses(points).reshape(shape)
            marginals = _marginals(loss, axes, points.reshape(*shape, dim), law, s)
            total = marginals.sum(0)
            low, high = [], []
            for k in range(dim):
                along = total.sum(tuple(j for j in range(dim) if j != k))
                there = np.flatnonzero(along > _NARROW * along.max())
                low.append(axes[k][max(there[0] - 1, 0)])
                high.append(axes[k][min(there[-1] + 1, len(axes[k]) - 1)])
        flat = marginals.reshape(law.tau, -1)
        mean = flat @ points
        spread = np.sqrt((flat @ points**2 - mean**2).mean(0))
        step = 1e-3
        slope = [
            (_marginals(loss, axes, points.reshape(*shape, dim), law, s * np.exp(d)) * loss).sum() / law.tau
            for d in (-step, step)
        ]
        value = float((marginals * loss).sum() / law.tau)
        return Moments(value, float(slope[1] - slope[0]) / (2 * step), mean.mean(0), spread)

    return moments


def _marginals(loss: np.ndarray, axes: list[np.ndarray], points: np.ndarray, law: Law, s: float) -> np.ndarray:
    """Of every model of a path, (tau, grid)."""
    weight = np.exp(-s * (loss - loss.min()))
    first = 1.0 if law.prior is None else np.exp(-(points**2).sum(-1) / (2 * law.prior**2))
    steps = [np.exp(-((a[:, None] - a) ** 2) / (2 * law.sigma**2)) for a in axes]

    def moved(values: np.ndarray) -> np.ndarray:
        for k, step in enumerate(steps):
            values = np.moveaxis(np.tensordot(step, values, (1, k)), 0, k)
        return values / values.max()

    forward = [weight * first]
    for _ in range(law.tau - 1):
        forward.append(weight * moved(forward[-1]))
    backward = [np.ones_like(weight)]
    for _ in range(law.tau - 1):
        backward.append(moved(weight * backward[-1]))
    found = np.array([a * b for a, b in zip(forward, backward[::-1], strict=True)])
    return np.asarray(found / found.reshape(law.tau, -1).sum(1).reshape(-1, *[1] * weight.ndim))


CHAINS, EPOCHS = 128, 6000
"""Of runs on all data that stand in for an exact law."""


def _by_full_data(problem: Problem, losses: Callable[[np.ndarray], np.ndarray]) -> Callable[[Law, float], Moments]:
    def moments(law: Law, s: float) -> Moments:
        run = tj.sample(
            tj.Target(problem, law.tau, law.sigma, s, law.prior),
            EPOCHS,
            chains=CHAINS,
            seed=1,
            acceptance=tj.Metropolis(),
            tune=True,
            keep_paths=True,
            records=100,
        )
        models = run.draws.reshape(-1, problem.dim)
        of_models = losses(models).reshape(run.draws.shape[:3])
        slope = -s * of_models.sum(-1).var() / law.tau
        mean, mean_error = over_chains(run.draws.mean((1, 2)))
        loss, error = over_chains(of_models.mean((1, 2)))
        spread = run.draws.astype(np.float64).std((0, 1, 2))
        return Moments(float(loss), float(slope), mean, spread, float(error), mean_error)

    return moments


def over_chains(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard error of `values` (chains, ...)."""
    values = np.asarray(values, np.float64)
    return values.mean(0), values.std(0, ddof=1) / np.sqrt(len(values))
