"""A stream: examples that are simulated when they are asked for, so that there is no end of them.

    L(theta) = E_key[l(theta, key)]

Every example is a key of its own, drawn afresh for every decision; both models of a proposal see the same keys. All
else is as for a `trajens.Problem` of infinitely many examples: the noise of a decision is S^2 / b, without the factor
1 - b/N, and there is no such thing as all data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from trajens.errors import InputError, integer, require
from trajens.losses import CountingLoss, PairLoss
from trajens.population import MAX_SIZE, Endless, keys_of
from trajens.precision import single
from trajens.problem import Problem, check_loss, check_pairs, flatten, sizes_of

MAX_BATCH = 4096
"""Examples that a decision may read, unless another number is asked for."""


class Stream(Problem):
    """Losses of a model with `dim` parameters on examples that a simulator makes of keys: episodes, samples, worlds.

    It is used like a `trajens.Problem`: `Target`, `sample` and `train` take it. The distribution that is sampled is
    that of the *expected* loss,

        pi(Theta) ~ p(theta_1) prod_t exp(-|theta_{t+1} - theta_t|^2 / (2 sigma^2)) exp(-s sum_t L(theta_t)),
        L(theta) = E_key[loss(theta, key)],

    and losses that are recorded are means over fresh keys, with their error (``loss_error``).

    Parameters
    ----------
    loss : callable
        ``loss(theta, keys) -> (m,)``: the loss on each of m examples; `theta` has shape (dim,), and `keys` (m,) are
        typed keys of ``jax.random`` (as ``jax.random.key`` makes them), one for each example. All that is random in an
        example must come of its key, by ``jax.random.split``, ``normal`` and so on, and of nothing else: a number
        from anywhere else is drawn once, when the loss is compiled, and stays. The usual way is to write the loss for
        one key and to map it, ``jax.vmap(one, in_axes=(None, 0))``. It is compiled but never differentiated.

        A loss may also have a method ``of_pairs(data, theta_pairs, keys, is_active) -> (lanes, 2, m)`` for the losses
        of many pairs of models at once, see `trajens.PairLoss`; `data` are (), and `keys` have shape (lanes, m).
    dim : int
        Number of parameters.
    max_batch : int
        The most examples that one decision may read. A test that asks for more must decide without, and the decision is
        counted as ``capped``: a `Penalty` is then noisier, and accepts less; other tests are biased, as audits show.
    initial, spread, prior
        As for `trajens.Problem`.

    Examples
    --------
    >>> def one(theta, key):  # doctest: +SKIP
    ...     key_x, key_noise = jax.random.split(key)
    ...     x = jax.random.normal(key_x, (2,))
    ...     y = x @ jnp.array([1.0, -0.5]) + 0.3 * jax.random.normal(key_noise)
    ...     return 0.5 * (y - x @ theta) ** 2
    >>> stream = tj.Stream(jax.vmap(one, in_axes=(None, 0)), dim=2)  # doctest: +SKIP
    >>> run = tj.train(stream, tau=8, budget=1e6)  # doctest: +SKIP
    """

    @single
    def __init__(
        self,
        loss: Callable[[jax.Array, jax.Array], jax.Array],
        dim: int,
        max_batch: int = MAX_BATCH,
        initial: Any = None,
        spread: Any = None,
        prior: float | None = None,
    ):
        require(callable(loss), f"loss must be a function of (theta, keys), got {loss!r}; pass the function itself.")
        advice = "as many examples as one decision may read at most, for instance 4096"
        self.population = Endless(integer("max_batch", max_batch, 2, advice, MAX_SIZE))
        self.data = ()
        simulated = CountedSimulated(loss) if isinstance(loss, CountingLoss) else Simulated(loss)
        self._describe(simulated, dim, initial, spread, prior)
        like = jax.ShapeDtypeStruct
        check_loss(
            simulated,
            like((1, 2), jnp.uint32),
            self.dim,
            "keys",
            "{m} keys, an array of shape ({m},)",
            "write it for one key and map it, jax.vmap(one, in_axes=(None, 0))",
        )
        check_pairs(simulated, self.data, like((3, 4, 2), jnp.uint32), self.dim)

    @classmethod
    def from_pytree(  # type: ignore[override]
        cls, loss: Callable[[Any, jax.Array], jax.Array], params: Any, max_batch: int = MAX_BATCH
    ) -> Stream:
        """The same for a model whose parameters are a pytree, ``loss(params, keys) -> (m,)``: see `Problem`."""
        flat, unravel = flatten("params", params)
        stream = cls(lambda theta, keys: loss(unravel(theta), keys), flat.size, max_batch, initial=flat)
        stream._unravel = unravel
        stream.apart = sizes_of(params)
        return stream

    @property
    def size(self) -> float:  # type: ignore[override]
        """Infinite."""
        return self.population.size

    @property
    def max_batch(self) -> int:
        """The most examples that one decision may read."""
        return self.population.most

    def hold_out(self, share: float, seed: int = 0) -> Stream:
        """Refused: every decision reads fresh examples, and the loss that is recorded is that of new ones."""
        raise InputError(
            f"examples of a stream must not be held out, got a share of {share}; leave it out, for its losses "
            "are of new ones anyway."
        )

    def __repr__(self) -> str:
        return f"Stream({self.loss}, dim={self.dim}, max_batch={self.max_batch})"


@dataclass(frozen=True)
class Simulated:
    """The loss of a stream, on keys that are given as words (m, 2)."""

    loss: Callable[[jax.Array, jax.Array], jax.Array]

    def __call__(self, theta: jax.Array, batch: jax.Array) -> jax.Array:
        return self.loss(theta, keys_of(batch))

    def of_pairs(self, data: Any, theta_pairs: jax.Array, indices: jax.Array, is_active: jax.Array) -> jax.Array:
        """Losses (lanes, 2, m) on the keys `indices` (lanes, m, 2): the same for both models of a pair."""
        keys = keys_of(indices)
        if isinstance(self.loss, PairLoss):
            return self.loss.of_pairs(data, theta_pairs, keys, is_active)
        both = jax.vmap(self.loss, in_axes=(0, None))
        return jax.vmap(both)(theta_pairs, keys).astype(jnp.float32)

    def __repr__(self) -> str:
        return str(getattr(self.loss, "__name__", self.loss))


@dataclass(frozen=True, repr=False)
class CountedSimulated(Simulated):
    """The same of a loss that counts its steps, see `trajens.losses.CountingLoss`."""

    loss: CountingLoss

    def counted(
        self, data: Any, theta_pairs: jax.Array, indices: jax.Array, is_active: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """The losses of `of_pairs`, and the steps (lanes,) that they took."""
        return self.loss.counted(data, theta_pairs, keys_of(indices), is_active)
