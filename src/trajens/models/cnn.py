"""The paper's convolutional network for 28 x 28 digits: 1906 parameters.

    conv 5x5 x 16 -> max pool 2 -> ReLU -> conv 3x3 x 8 -> max pool 4 -> ReLU -> dense 10

The second pool drops the last two rows and columns of its 10 x 10 input, so only 8 x 8 outputs of the second
convolution, 10 x 10 pooled outputs of the first and the top-left 24 x 24 pixels matter; the rest is not computed.
Max and ReLU commute with adding a bias, which therefore comes after pooling.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from trajens.kernels import Kernel
from trajens.models.base import Layer, Model, scaled


@dataclass(frozen=True)
class Cnn(Model):
    """The paper's network."""

    @property
    def description(self) -> dict[str, Any]:
        return {"model": "cnn"}

    @property
    def layers(self) -> tuple[Layer, ...]:
        return Layer((5, 5, 1, 16)), Layer((3, 3, 16, 8)), Layer((32, 10))

    @property
    def input_shape(self) -> tuple[int, ...]:
        return 28, 28

    @property
    def kernel(self) -> Kernel | None:
        return Kernel("cnn")

    def apply(self, theta: jax.Array, x: jax.Array) -> jax.Array:
        (w1, b1), (w2, b2), (w3, b3) = self.unpack(theta)
        images = scaled(x).reshape(-1, *self.input_shape, 1)
        h = _pooled(_convolved(images[:, :24, :24], w1), 2)
        h = jax.nn.relu(h + b1)
        h = jax.nn.relu(_pooled(_convolved(h, w2), 4) + b2)
        return h.reshape(h.shape[0], -1) @ w3 + b3


def cnn() -> Cnn:
    """The paper's network of 1906 parameters for 28 x 28 images and 10 classes."""
    return Cnn()


def _convolved(x: jax.Array, w: jax.Array) -> jax.Array:
    """Valid convolution of (m, side, side, inputs) as one matrix product over shifted copies."""
    k, side = w.shape[0], x.shape[1] - w.shape[0] + 1
    shifted = [x[:, i : i + side, j : j + side] for i in range(k) for j in range(k)]
    return jnp.concatenate(shifted, axis=-1) @ w.reshape(-1, w.shape[-1])


def _pooled(x: jax.Array, k: int) -> jax.Array:
    m, side, _, channels = x.shape
    return x.reshape(m, side // k, k, side // k, k, channels).max((2, 4))
