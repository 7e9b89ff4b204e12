"""Networks of binary weights: every weight is one of two numbers, the sign of its parameter at a fixed size.

    w = sign(theta) / (inputs of the layer)^1/2,   sign(0) = 1;   biases are real, and are their parameters themselves

A path is one of the parameters theta, with the distribution it has for any other network: its loss just depends on
nothing but signs and biases. Of one model with the Gaussian prior all signs are alike without a loss, so what is
sampled is

    p(signs, biases) ~ N(biases) exp(-s L(signs, biases)),

and in a path neighbours have a sign in common the more often, the smaller sigma is beside the prior.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from trajens.errors import require
from trajens.losses import outputs_of_pairs
from trajens.models.base import PRIOR, Layer, Model


@dataclass(frozen=True)
class Binary(Model):
    """The network `model` with the signs of its weights."""

    model: Model

    @property
    def description(self) -> dict[str, Any]:
        return {**self.model.description, "weights": "binary"}

    @property
    def layers(self) -> tuple[Layer, ...]:
        return self.model.layers

    @property
    def input_shape(self) -> tuple[int, ...]:
        return self.model.input_shape

    @property
    def spread(self) -> np.ndarray:
        # The size of what only its sign is used of means something beside the prior alone.
        return np.where(self.model.spread > 0, PRIOR, 0.0).astype(np.float32)

    def used(self, theta: jax.Array) -> jax.Array:
        """The weights and biases (..., dim) that the network has with the parameters `theta`."""
        size = jnp.asarray(self.model.spread)
        return jnp.where(size > 0, jnp.where(theta < 0, -size, size), theta)

    def apply(self, theta: jax.Array, x: jax.Array) -> jax.Array:
        return self.model.apply(self.used(theta), x)

    def apply_pairs(self, theta_pairs: jax.Array, x: jax.Array, indices: jax.Array, is_active: jax.Array) -> jax.Array:
        """Outputs (lanes, 2, m, outputs) of pairs of models, as the network itself has them."""
        return outputs_of_pairs(self.model, self.used(theta_pairs), x, indices, is_active)


def binary(model: Model) -> Binary:
    """A network with binary weights, the signs of its parameters at a fixed size; biases stay as they are.

    Parameters
    ----------
    model : Model
        One of `trajens.models`.
    """
    require(
        isinstance(model, Model) and not isinstance(model, Binary),
        f"model must be a network of trajens.models with real weights, got {model!r}; try binary(mlp((784, 32, 10))).",
    )
    return Binary(model)
