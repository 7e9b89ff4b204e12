"""Losses: what one example costs a model, and how the losses of many pairs of models are computed.

A loss is a function ``loss(theta, batch) -> (m,)`` of flat parameters (dim,) and m examples. It may bring an
implementation of its own for what the sampler asks in every iteration, by a method

    of_pairs(data, theta_pairs, indices, is_active) -> (lanes, 2, m) float32

(`PairLoss`): the losses of the current and the proposed model of every lane on the examples `indices` of the data. That
is where native kernels come in. Any other loss is mapped over lanes and models; the sampler cannot tell.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

from trajens.kernels import Kernel
from trajens.precision import single

Loss = Callable[[jax.Array, Any], jax.Array]


@runtime_checkable
class PairLoss(Protocol):
    """A loss with an implementation of its own for pairs of models.

    `__call__` stays the definition: it is what `reference_losses` and every platform without a kernel use. Losses
    should be hashable and equal where they mean the same (frozen dataclasses are), so that they share a compilation.
    """

    def __call__(self, theta: jax.Array, batch: Any) -> jax.Array:
        """Loss (m,) of every example of `batch` for one model."""

    def of_pairs(self, data: Any, theta_pairs: jax.Array, indices: jax.Array, is_active: jax.Array) -> jax.Array:
        """Losses (lanes, 2, m) of `theta_pairs` (lanes, 2, dim) on the examples `indices` (lanes, m) of `data`.

        What comes out where `is_active` (lanes,) is False is not used: a kernel may skip it.
        """


@runtime_checkable
class CountingLoss(PairLoss, Protocol):
    """A loss whose examples cost steps of their own, as episodes of an environment do: it counts them."""

    def counted(
        self, data: Any, theta_pairs: jax.Array, indices: jax.Array, is_active: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """The losses of `of_pairs`, and the steps (lanes,) uint32 that they took, of both models of a pair together."""


@runtime_checkable
class Guided(Protocol):
    """A loss that most changes of a model leave as it is, and that names another one for the start of a training.

    The other one sees every change, and models with a low value of it have a low loss. It has no part in what is
    sampled.
    """

    @property
    def guide(self) -> Loss:
        """The loss that a start by evolution follows."""


def guide_of(loss: Loss) -> Loss:
    """The loss that a start by evolution follows: its `guide`, if it has one, or itself."""
    return loss.guide if isinstance(loss, Guided) else loss


def counted_losses_of_pairs(
    loss: Loss, data: Any, theta_pairs: jax.Array, indices: jax.Array, is_active: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """`losses_of_pairs`, and the steps (lanes,) they took; 0 of a loss that counts none."""
    if isinstance(loss, CountingLoss):
        return loss.counted(data, theta_pairs, indices, is_active)
    return losses_of_pairs(loss, data, theta_pairs, indices, is_active), jnp.zeros(is_active.shape, jnp.uint32)


def losses_of_pairs(
    loss: Loss, data: Any, theta_pairs: jax.Array, indices: jax.Array, is_active: jax.Array
) -> jax.Array:
    """Losses of the current and the proposed model of every lane on the lane's own minibatch.

    Parameters
    ----------
    loss : callable
        Asked for its `of_pairs` where it has one, see `PairLoss`.
    data : pytree of arrays (N, ...)
    theta_pairs : (lanes, 2, dim)
    indices : (lanes, m)
    is_active : (lanes,)
        What comes out for an inactive lane is not used.

    Returns
    -------
    (lanes, 2, m) float32
    """
    if isinstance(loss, PairLoss):
        return loss.of_pairs(data, theta_pairs, indices, is_active)
    return reference_losses(loss, data, theta_pairs, indices)


compiled_losses_of_pairs = single(jax.jit(losses_of_pairs, static_argnums=0))
"""`losses_of_pairs` for use outside of a compiled program."""


def reference_losses(loss: Loss, data: Any, theta_pairs: jax.Array, indices: jax.Array) -> jax.Array:
    """The same by definition, for every lane and on every platform."""
    batches = jax.tree.map(lambda leaf: leaf[indices], data)
    both = jax.vmap(loss, in_axes=(0, None))
    return jax.vmap(both)(theta_pairs, batches).astype(jnp.float32)


class Batch(NamedTuple):
    """Inputs (m, ...) and labels (m,)."""

    x: Any
    y: Any


class Network(Protocol):
    """What a loss asks of a model."""

    @property
    def kernel(self) -> Kernel | None:
        """The native kernel of its cross-entropy, if there is one."""

    def apply(self, theta: jax.Array, x: jax.Array) -> jax.Array:
        """Outputs (m, outputs) of the model `theta` on inputs (m, ...)."""


@runtime_checkable
class PairNetwork(Protocol):
    """A model with an implementation of its own for pairs of models; `apply` stays the definition."""

    def apply_pairs(self, theta_pairs: jax.Array, x: jax.Array, indices: jax.Array, is_active: jax.Array) -> jax.Array:
        """Outputs (lanes, 2, m, outputs) of `theta_pairs` (lanes, 2, dim) on the inputs `indices` (lanes, m) of x."""


def outputs_of_pairs(
    model: Network, theta_pairs: jax.Array, x: jax.Array, indices: jax.Array, is_active: jax.Array
) -> jax.Array:
    """Outputs (lanes, 2, m, outputs) of pairs of models, see `PairNetwork`; of any other model it is mapped."""
    if isinstance(model, PairNetwork):
        return model.apply_pairs(theta_pairs, x, indices, is_active)
    return jax.vmap(jax.vmap(model.apply, in_axes=(0, None)))(theta_pairs, x[indices])


@dataclass(frozen=True)
class OfOutputs(ABC):
    """A loss that looks at the outputs of a network and the label of every example."""

    model: Network

    @abstractmethod
    def of_outputs(self, outputs: jax.Array, y: jax.Array) -> jax.Array:
        """Losses (m,) of outputs (m, outputs) and labels (m,)."""

    def __call__(self, theta: jax.Array, batch: Batch) -> jax.Array:
        return self.of_outputs(self.model.apply(theta, batch.x), batch.y)

    def of_pairs(self, data: Batch, theta_pairs: jax.Array, indices: jax.Array, is_active: jax.Array) -> jax.Array:
        """By what the model has for pairs, if it has something."""
        outputs = outputs_of_pairs(self.model, theta_pairs, data.x, indices, is_active)
        both = jax.vmap(self.of_outputs, in_axes=(0, None))
        return jax.vmap(both)(outputs, data.y[indices]).astype(jnp.float32)


@dataclass(frozen=True)
class CrossEntropy(OfOutputs):
    """-ln softmax(outputs)[label] of every example; equal models give equal losses, which share a compilation.

    Parameters
    ----------
    model : Network
    precision : "single" or "half", optional
        Of a native kernel that has both (CUDA); `tj.train` chooses half, all else single.
    """

    precision: str | None = field(default=None, repr=False)

    def of_outputs(self, outputs: jax.Array, y: jax.Array) -> jax.Array:
        # log_softmax subtracts the maximum: stable at any size of the weights.
        log_p = jax.nn.log_softmax(outputs)
        return -jnp.take_along_axis(log_p, y[:, None].astype(jnp.int32), axis=1)[:, 0]

    def of_pairs(self, data: Batch, theta_pairs: jax.Array, indices: jax.Array, is_active: jax.Array) -> jax.Array:
        """By a native kernel where the model has one for this platform and these data."""
        kernel, by_model = self.model.kernel, super().of_pairs
        if kernel is None or not kernel.is_for(data):
            return by_model(data, theta_pairs, indices, is_active)
        return replace(kernel, precision=self.precision)(by_model, data, theta_pairs, indices, is_active)


@dataclass(frozen=True)
class Squared(OfOutputs):
    """(y - output)^2 / 2 of every example."""

    def of_outputs(self, outputs: jax.Array, y: jax.Array) -> jax.Array:
        return 0.5 * (y - outputs[:, 0]) ** 2


@dataclass(frozen=True)
class ZeroOne(OfOutputs):
    """1 for every example whose largest output is not that of its label, else 0; of equal outputs the first counts.

    The mean loss is the part of wrong answers, so s is what the log-density falls by from all right to all wrong; one
    more wrong example of N costs s/N. Only the order of outputs matters, and what probabilities they would make does
    not. Outputs that are no numbers have a loss that is none.
    """

    @property
    def guide(self) -> Loss:
        """Cross-entropy of the same outputs, see `Guided`."""
        return CrossEntropy(self.model)

    def of_outputs(self, outputs: jax.Array, y: jax.Array) -> jax.Array:
        is_wrong = outputs.argmax(-1) != y
        return jnp.where(jnp.isnan(outputs).any(-1), jnp.nan, is_wrong.astype(jnp.float32))


class WeightedData(NamedTuple):
    """The data of a loss, a pytree of arrays (N, ...), and the weight (N,) of every example."""

    data: Any
    weight: Any


@dataclass(frozen=True)
class Weighted:
    """w_i l_i of every example, for data with weights; with <w> = 1 the mean loss is the weighted mean of the l_i.

    An example of weight 0 has no part in the loss: data padded to a common size by some, the rest with the weight
    N' / N, have the mean loss, and so the distribution, of the N examples. Losses of padded ones must be finite.
    """

    loss: Loss

    @property
    def guide(self) -> Loss:
        """With the same weights."""
        return Weighted(guide_of(self.loss))

    def __call__(self, theta: jax.Array, batch: WeightedData) -> jax.Array:
        return batch.weight * self.loss(theta, batch.data)

    def of_pairs(
        self, data: WeightedData, theta_pairs: jax.Array, indices: jax.Array, is_active: jax.Array
    ) -> jax.Array:
        """By what the loss has for pairs of models, if it has something."""
        losses = losses_of_pairs(self.loss, data.data, theta_pairs, indices, is_active)
        return losses * data.weight[indices][:, None]


def weights_without(weight: np.ndarray, is_left_out: np.ndarray) -> np.ndarray:
    """The weights (N,) of `Weighted` with those of some examples (N,) at 0, and the mean as it was."""
    rest = np.where(is_left_out, 0.0, np.asarray(weight, np.float64))
    return np.asarray(rest * (np.mean(weight, dtype=np.float64) / rest.mean()), np.float32)


LOSSES: dict[str, Callable[[Network], Loss]] = {
    "cross-entropy": CrossEntropy,
    "squared": Squared,
    "0-1": ZeroOne,
}
"""By name."""

OF_CLASSES = ("cross-entropy", "0-1")
"""Those of labels that are classes; the first, unless another is asked for."""
