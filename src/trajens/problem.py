"""Problem: the loss of one example, the data, and the number of parameters.

    L(theta) = (1/N) sum_i l_i(theta)

A problem knows nothing about paths or sampling. Models whose parameters are a pytree are flattened once,
here, with `Problem.from_pytree`.

Everything in the flat vector is sampled. So a pytree is refused where it holds what is no parameter: functions, whole
numbers, running statistics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from trajens.errors import InputError, choice, first_line, integer, number, require
from trajens.losses import Loss, PairLoss, Squared, Weighted, weights_without
from trajens.population import MAX_SIZE, Finite, Population
from trajens.precision import as_single, numbers, require_single, single, single_type

_COLLECTION = "batch_stats"
_STATISTICS = ("BatchStat", "StateIndex")
"""What running statistics are called: a collection of Flax's variables, and types of Flax (nnx) and Equinox."""


@dataclass(frozen=True)
class Unravel:
    """From a flat vector back to the pytree; leaves of less than 32 bits get their own type again."""

    back: Callable[[jax.Array], Any]
    types: tuple[np.dtype, ...]

    def __call__(self, theta: jax.Array) -> Any:
        leaves, structure = jax.tree.flatten(self.back(jnp.asarray(theta, jnp.float32)))
        typed = [leaf.astype(dtype) for leaf, dtype in zip(leaves, self.types, strict=True)]
        return jax.tree.unflatten(structure, typed)


@single
def flatten(name: str, params: Any) -> tuple[np.ndarray, Unravel]:
    """The parameters as a float32 vector (dim,), and the way back."""
    _refuse_statistics(name, params)
    leaves, structure = jax.tree_util.tree_flatten_with_path(params)
    types = tuple(_type_of(name, jax.tree_util.keystr(path), leaf) for path, leaf in leaves)
    values = [as_single(name + jax.tree_util.keystr(path), leaf).astype(np.float32) for path, leaf in leaves]
    flat, back = ravel_pytree(jax.tree.unflatten(structure, values))
    require(
        flat.size > 0,
        f"{name} must have parameters, got a {type(params).__name__} without any; pass the parameters of a model.",
    )
    return np.asarray(flat), Unravel(back, types)


def _refuse_statistics(name: str, params: Any) -> None:
    def is_node(node: Any) -> bool:
        return type(node).__name__ in _STATISTICS

    nodes, _ = jax.tree_util.tree_flatten_with_path(params, is_leaf=is_node)
    for path, node in nodes:
        is_collected = getattr(path[0], "key", None) == _COLLECTION if path else False
        require(
            not is_collected and not (is_node(node) and jax.tree.leaves(node)),
            f"{name} must hold parameters only, as all of it is sampled, got running statistics in "
            f"{jax.tree_util.keystr(path)}; pass the parameters alone, in Flax variables['params'], and use the "
            "statistics as constants inside the function.",
        )


def _type_of(name: str, place: str, leaf: Any) -> np.dtype:
    """The type a parameter is handed back in."""
    dtype = getattr(leaf, "dtype", None)
    dtype = np.asarray(leaf).dtype if dtype is None else dtype
    what = str(dtype) if hasattr(leaf, "dtype") else f"a {type(leaf).__name__}"
    require(
        jnp.issubdtype(dtype, jnp.floating),
        f"{name} must be a pytree of floating-point arrays, as all of it is sampled, got {what} in {place or 'it'}; "
        "split off the rest, in Equinox with eqx.partition(model, eqx.is_inexact_array), and put it back inside the "
        "function.",
    )
    return np.dtype(np.float32) if dtype.itemsize > 2 else dtype


_ALIGNMENT = 64

EXACT, NOISE = "exact", "noise"
"""Losses that are log-likelihoods, and those that are up to the variance of labels."""


class Problem:
    """Per-example losses of a model with `dim` parameters on a data set of N examples.

    Parameters
    ----------
    loss : callable
        ``loss(theta, batch) -> (m,)``: the loss of each of the m examples in `batch`; `theta` has shape
        (dim,). It is compiled by JAX but never differentiated.
    data : pytree of arrays
        Every leaf has leading axis N; a batch is the same pytree with leading axis m. Numbers of any type and byte
        order become float32, or whole numbers of at most 32 bits; those that would be others there are refused.
    dim : int
        Number of parameters.
    initial : array (dim,), optional
        The model that paths start from when `sample` is given no other.
    spread : array (dim,), optional
        Standard deviations around `initial` (or 0) of the first model of every chain; default none around a given one.
    prior : float, optional
        Standard deviation of the Gaussian distribution of first models that suits the parameters, which `Target` takes
        unless it is told another; default none, a flat prior.
    layers : mapping of str to int, optional
        Names of the layers and their numbers of parameters, in the order of the parameters, for moves of a layer
        (`LayerMove`); default not known. `Problem.layers` has the slice of each.
    likelihood : "exact", "noise" or None
        Whether exp(-N L / v), L the mean loss, is a likelihood of the data: "exact" with v = 1, as of a cross-entropy;
        "noise" with v the unknown variance of labels, as of (y - f)^2 / 2; default None, it is none. `tj.train` stops
        raising s where a path weighs as much as some likelihoods.

    Attributes
    ----------
    held_out : Problem or None
        The same losses on examples that are not trained on, see `hold_out`.
    """

    held_out: Problem | None = None
    network: Any = None
    """What an ensemble predicts with, of a module of PyTorch; others have it in their loss, or none."""
    likelihood: str | None = None
    apart: np.ndarray | None = None
    """Spread (dim,) of all chains but the first around `initial`, where no `spread` was given; none where not known."""
    layers: dict[str, slice]
    """Parameters of every layer, by name; empty where they are not known."""

    @single
    def __init__(
        self,
        loss: Loss,
        data: Any,
        dim: int,
        initial: Any = None,
        spread: Any = None,
        prior: float | None = None,
        layers: Mapping[str, int] | None = None,
        likelihood: str | None = None,
    ):
        self.likelihood = None if likelihood is None else choice("likelihood", likelihood, (EXACT, NOISE))
        require(callable(loss), f"loss must be a function of (theta, batch), got {loss!r}; pass the function itself.")
        self.population: Population = Finite(_check_data(data))
        self.data = jax.tree.map(_own, data)
        self._describe(loss, dim, initial, spread, prior)
        if layers is not None:
            self.layers = slices_of(layers, self.dim)
        check_loss(loss, self.data, self.dim)
        if isinstance(loss, PairLoss):
            members = jax.ShapeDtypeStruct((_LANES, _MEMBERS), jnp.int32)
            check_pairs(loss, self.data, members, self.dim)

    def _describe(self, loss: Loss, dim: int, initial: Any, spread: Any, prior: float | None) -> None:
        """What is known of the model, whatever examples it is to be asked about."""
        self.dim = integer("dim", dim, 1, "give the number of parameters of the model")
        self.loss: Loss = loss
        self.layers = {}
        self._unravel: Callable[[jax.Array], Any] | None = None
        self.initial = None if initial is None else self._vector("initial", initial)
        self.spread = None if spread is None else self._vector("spread", spread)
        require(
            self.spread is None or bool((self.spread >= 0).all()),
            "spread must be standard deviations >= 0, got negative ones; use 0 for no spread.",
        )
        self.prior = None if prior is None else number("prior", prior, "use None for a flat prior", above=0.0)

    @property
    def size(self) -> int:
        """N."""
        return self.population.most

    @property
    def num_weighted(self) -> int:
        """Examples that have a part in the loss: N, less those of weight 0 (`trajens.losses.Weighted`)."""
        return int((self.data.weight > 0).sum()) if isinstance(self.loss, Weighted) else self.size

    @property
    def label_variance(self) -> float | None:
        """Variance of labels that are numbers, of a squared error; None of other losses."""
        loss, data, weight = self.loss, self.data, None
        if isinstance(loss, Weighted):
            loss, data, weight = loss.loss, data.data, np.asarray(data.weight, np.float64)
        if not isinstance(loss, Squared):
            return None
        y = np.asarray(data.y, np.float64)
        return float(np.average((y - np.average(y, weights=weight)) ** 2, weights=weight))

    def hold_out(self, share: float, seed: int = 0) -> Problem:
        """The same problem without a random share of its examples, which become those of `held_out`.

        Of a loss with weights, they stay in the data with the weight 0, so that nothing is compiled anew.
        """
        if isinstance(self.loss, Weighted):
            return self._with_weights_of_0(share, seed)
        chosen = held_out_examples(self.size, share, seed)
        rest, held_out = (self._on(where) for where in (~chosen, chosen))
        rest.held_out = held_out
        return rest

    def _with_weights_of_0(self, share: float, seed: int) -> Problem:
        weighted, loss = np.flatnonzero(np.asarray(self.data.weight) > 0), self.loss
        assert isinstance(loss, Weighted)
        chosen = np.zeros(self.size, bool)
        chosen[weighted[held_out_examples(len(weighted), share, seed)]] = True
        rest, held_out = copy(self), self._on(chosen)
        rest.data = self.data._replace(weight=_own(weights_without(np.asarray(self.data.weight), chosen)))
        held_out.loss, held_out.data = loss.loss, held_out.data.data
        rest.held_out = held_out
        return rest

    def with_loss(self, loss: Loss) -> Problem:
        """The same problem with the same losses computed in another way."""
        found = copy(self)
        found.loss = loss
        found.held_out = None if self.held_out is None else self.held_out.with_loss(loss)
        return found

    def _on(self, is_chosen: np.ndarray) -> Problem:
        """The same problem on some of its examples."""
        found, where = copy(self), np.flatnonzero(is_chosen)
        found.data = jax.tree.map(lambda leaf: leaf[where], self.data)
        found.population = Finite(_check_data(found.data))
        return found

    def _vector(self, name: str, value: Any) -> np.ndarray:
        given = numbers(name, value)
        with np.errstate(over="ignore"):
            values = given.astype(np.float32)
        require(
            bool(np.isfinite(values).all()),
            f"{name} must be finite numbers, got {value!r}; initialise the model again.",
        )
        require(
            given.shape == (self.dim,),
            f"{name} must have shape ({self.dim},), got {given.shape}; check the size of the model.",
        )
        return values

    @classmethod
    def from_pytree(
        cls,
        loss: Callable[[Any, Any], jax.Array],
        data: Any,
        params: Any,
        *,
        prior: float | None = None,
        spread: Any = None,
        likelihood: str | None = None,
    ) -> Problem:
        """The same for a model whose parameters are a pytree (Flax, Equinox, plain dicts).

        ``loss(params, batch) -> (m,)``. Paths start at `params`, floating-point arrays all of which are sampled: what a
        model has besides, functions or running statistics, belongs into the loss. `unravel` turns a row of a path
        back into a pytree, and `ravel` makes a row of a pytree.

        Parameters
        ----------
        loss : callable
        data : pytree of arrays (N, ...)
        params : pytree
        prior, likelihood
            As for `Problem`; without one the prior is flat.
        spread : float or pytree like `params`, optional
            Standard deviation of the models that chains start from around `params`; default for the first chain none,
            and for every other one the root mean square of each array, so that they start apart. For starts of one's
            own, give `sample` or `train` an array of ``[problem.ravel(p) for p in several]``
            as paths (chains, tau, dim).
        """
        flat, unravel = flatten("params", params)
        around = spread
        if spread is not None:
            around = np.full(flat.size, spread) if isinstance(spread, (int, float)) else flatten("spread", spread)[0]
        of_row = lambda theta, batch: loss(unravel(theta), batch)  # noqa: E731
        problem = cls(of_row, data, flat.size, flat, around, prior, likelihood=likelihood)
        problem._unravel = unravel
        problem.apart = sizes_of(params)
        return problem

    def ravel(self, params: Any) -> np.ndarray:
        """Parameters in the shape the model was given in, as one row (dim,) of a path."""
        return self._vector("params", flatten("params", params)[0])

    def unravel(self, theta: jax.Array) -> Any:
        """Parameters in the shape the model was given in."""
        return theta if self._unravel is None else self._unravel(theta)

    def __repr__(self) -> str:
        return f"Problem({getattr(self.loss, '__name__', self.loss)}, N={self.size}, dim={self.dim})"


def sizes_of(params: Any) -> np.ndarray:
    """The root mean square of the array that each parameter (dim,) is in; of all, where these are 0."""
    leaves = [np.asarray(leaf, np.float32).ravel() for leaf in jax.tree.leaves(params)]
    of_all = np.sqrt(np.mean(np.square(np.concatenate(leaves))))
    each = [np.full(leaf.size, np.sqrt(np.mean(np.square(leaf))) or of_all, np.float32) for leaf in leaves if leaf.size]
    return np.concatenate(each)


def held_out_examples(size: int, share: float, seed: int = 0) -> np.ndarray:
    """Which of `size` examples (size,) are held out: a random share of them, two at least."""
    share = number("share held out", share, "try 0.2", above=0.0, at_most=0.9)
    count = max(round(share * size), 2)
    require(
        size - count >= 2,
        f"examples must be left to train on, got {size} of which {count} are held out; hold out none, or give more.",
    )
    chosen = np.zeros(size, bool)
    chosen[np.random.default_rng(seed).permutation(size)[:count]] = True
    return chosen


def slices_of(layers: Mapping[str, int], dim: int) -> dict[str, slice]:
    """Slices of consecutive layers with these numbers of parameters, `dim` together."""
    advice = "give the layers in the order of their parameters"
    sizes = [integer(f"the size of layer {name!r}", size, 1, advice) for name, size in layers.items()]
    stops = list(accumulate(sizes))
    require(
        stops[-1:] == [dim],
        f"layers must have {dim} parameters together, got {sum(sizes)}; {advice}, with all of them.",
    )
    return {name: slice(stop - size, stop) for name, size, stop in zip(layers, sizes, stops, strict=True)}


def _check_data(data: Any) -> int:
    leaves = jax.tree.leaves(data)
    require(len(leaves) > 0, "data must hold at least one array, got none; pass a pytree such as (x, y).")
    sizes = set()
    for leaf in leaves:
        array = numbers("data", leaf)
        require(
            array.ndim >= 1,
            f"data must be arrays of numbers with a leading axis of examples, got {array.dtype} of shape "
            f"{array.shape}; stack the examples along axis 0.",
        )
        sizes.add(array.shape[0])
        require_single("data", array)
    require(
        len(sizes) == 1,
        f"every array of data must have the same leading axis N, got {sorted(sizes)}; check which array is cut off.",
    )
    return integer("the number of examples N", sizes.pop(), 2, "give at least two examples", MAX_SIZE)


def _own(leaf: Any) -> jax.Array:
    """An array that what becomes of the caller's cannot change; one copy, where `jnp.asarray` makes two."""
    given = numbers("data", leaf)
    dtype = single_type(given.dtype)
    if isinstance(leaf, jax.Array) and leaf.dtype == dtype:
        return leaf
    # JAX takes over an array that begins where it would have put it, and would copy any other once more.
    room = np.empty(given.size + _ALIGNMENT // dtype.itemsize, dtype)
    begin = -room.ctypes.data % _ALIGNMENT // dtype.itemsize
    copy = room[begin : begin + given.size].reshape(given.shape)
    np.copyto(copy, given, casting="unsafe")
    return jax.device_put(copy, may_alias=True)


def check_loss(
    loss: Loss,
    data: Any,
    dim: int,
    batch: str = "batch",
    examples: str = "a batch of {m} examples",
    advice: str = "try it on a slice of your data",
) -> None:
    """Refuse a loss that fails on a batch of examples like `data`, or gives no loss for each; how to say so."""
    called = f"loss(theta, {batch})"
    for m in (2, 3):
        like = jax.tree.map(lambda leaf, m=m: jax.ShapeDtypeStruct((m, *leaf.shape[1:]), leaf.dtype), data)
        try:
            out = jax.eval_shape(loss, jax.ShapeDtypeStruct((dim,), jnp.float32), like)
        except Exception as error:
            raise InputError(
                f"{called} failed on theta of shape ({dim},) and {examples.format(m=m)} with {first_line(error)}; "
                f"{advice}."
            ) from error
        shape = getattr(out, "shape", None)
        require(
            shape == (m,),
            f"{called} must return one loss per example, shape ({m},) for {m} examples, got "
            f"{shape if shape is not None else type(out).__name__}; do not average over the batch.",
        )
        require(
            jnp.issubdtype(out.dtype, jnp.floating) or jnp.issubdtype(out.dtype, jnp.integer),
            f"{called} must return real numbers, got {out.dtype}; convert them to float32.",
        )


_LANES, _MEMBERS = 3, 4


def check_pairs(loss: PairLoss, data: Any, members: Any, dim: int) -> None:
    """Refuse an implementation for pairs of models that gives another shape than the sampler asks for.

    `members` are those of some lanes, in shape and type.
    """
    lanes, m = members.shape[:2]
    like = jax.ShapeDtypeStruct
    try:
        out = jax.eval_shape(
            loss.of_pairs, data, like((lanes, 2, dim), jnp.float32), members, like((lanes,), jnp.bool_)
        )
    except Exception as error:
        raise InputError(
            f"of_pairs of the loss failed on {lanes} lanes and batches of {m} examples with {first_line(error)}; "
            "compare it with trajens.losses.reference_losses."
        ) from error
    is_right = getattr(out, "shape", None) == (lanes, 2, m) and out.dtype == jnp.float32
    require(
        is_right,
        f"of_pairs of the loss must return float32 of shape ({lanes}, 2, {m}) for {lanes} lanes and batches of {m}, "
        f"got {out}; compare it with trajens.losses.reference_losses.",
    )
