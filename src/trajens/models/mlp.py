"""Fully connected networks, and the linear model as the one without a hidden layer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from trajens.errors import InputError, choice, integer, require
from trajens.models.base import Layer, Model, scale_bytes

Activation = Callable[[jax.Array], jax.Array]

ACTIVATIONS: dict[str, Activation] = {
    "relu": jax.nn.relu,
    "tanh": jnp.tanh,
    "sigmoid": jax.nn.sigmoid,
    "step": lambda x: (x > 0).astype(jnp.float32),  # no gradient, and none is needed
}
"""By name; none of them ever falls, so that a maximum may be taken before them."""

ACTIVATION = "relu"
"""That of hidden layers, unless another is asked for."""
HIDDEN = 32
"""Units of the one hidden layer, unless others are asked for."""


@dataclass(frozen=True)
class Mlp(Model):
    """A network of dense layers: sizes[0] inputs, .., sizes[-1] outputs."""

    sizes: tuple[int, ...]
    activation: str = ACTIVATION

    @property
    def description(self) -> dict[str, Any]:
        return {"model": "mlp", "sizes": list(self.sizes), "activation": self.activation}

    @property
    def layers(self) -> tuple[Layer, ...]:
        return tuple(Layer((n, m)) for n, m in zip(self.sizes[:-1], self.sizes[1:], strict=True))

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (self.sizes[0],)

    def apply(self, theta: jax.Array, x: jax.Array) -> jax.Array:
        return dense(scale_bytes(x).reshape(x.shape[0], -1), self.unpack(theta), ACTIVATIONS[self.activation])


def dense(h: jax.Array, parts: Sequence[tuple[jax.Array, jax.Array]], activation: Activation) -> jax.Array:
    """Outputs of dense layers, weights and biases each; the last one has no activation."""
    *hidden, (w, b) = parts
    for w_h, b_h in hidden:
        h = activation(h @ w_h + b_h)
    return h @ w + b


def mlp(sizes: Sequence[int], activation: str = ACTIVATION) -> Mlp:
    """A fully connected network.

    Parameters
    ----------
    sizes : sequence of int
        Inputs, hidden units of every layer, outputs; for example (784, 32, 10).
    activation : "relu", "tanh", "sigmoid" or "step"
    """
    try:
        given: list[Any] = list(sizes)
    except TypeError:
        raise InputError(f"sizes must be at least two whole numbers, got {sizes!r}; try (784, 32, 10).") from None
    require(len(given) >= 2, f"sizes must be at least two whole numbers, got {sizes!r}; try (784, 32, 10).")
    whole = tuple(integer("every one of sizes", n, 1, "try (784, 32, 10)") for n in given)
    return Mlp(whole, choice("activation", activation, ACTIVATIONS))


def linear(dim: int, outputs: int = 1) -> Mlp:
    """A linear model of `dim` inputs with a bias: dim * outputs + outputs parameters."""
    return Mlp((integer("dim", dim, 1, "give the number of inputs"), integer("outputs", outputs, 1, "give classes")))
