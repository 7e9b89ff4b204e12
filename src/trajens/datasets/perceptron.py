"""The paper's perceptron: a straight line with slope m and constant c, theta = (m, c).

x_i = (u_i, 1), u ~ U(0, 1);  y_i = m u_i + c + noise,  m ~ U(-1, 1), c ~ U(-2, 0);  l_i = (y_i - theta.x_i)^2 / 2
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from trajens.errors import integer, number
from trajens.population import MAX_SIZE
from trajens.problem import Problem

PERCEPTRON_BYTES = 48
"""Memory that one example takes while it is drawn, in double precision."""


class PerceptronData(NamedTuple):
    """Inputs (N, 2) and labels (N,), float32."""

    x: np.ndarray
    y: np.ndarray

    def problem(self) -> Problem:
        """The squared error as a `Problem`."""
        return Problem(perceptron_loss, self, self.x.shape[1])


def perceptron(seed: int = 0, size: int = 256, noise: float = 0.0) -> PerceptronData:
    """Draw a line and `size` points on it; `noise` is the standard deviation of the labels around it."""
    size = integer("size", size, 2, "the paper uses 256", MAX_SIZE)
    noise = number("noise", noise, "the paper uses 0", at_least=0.0)
    rng = np.random.default_rng(integer("seed", seed, 0, "any whole number will do"))
    slope, constant = rng.uniform(-1.0, 1.0), rng.uniform(-2.0, 0.0)
    u = rng.uniform(size=size)
    x = np.stack([u, np.ones(size)], axis=1).astype(np.float32)
    y = slope * u + constant + noise * rng.standard_normal(size)
    return PerceptronData(x, y.astype(np.float32))


def perceptron_loss(theta: jax.Array, batch: PerceptronData) -> jax.Array:
    """(y - theta.x)^2 / 2 of every example."""
    # Written out column by column, it fuses with what is around it; a reduction over two columns does not.
    residual = jnp.asarray(batch.y)
    for d in range(theta.shape[0]):
        residual = residual - batch.x[:, d] * theta[d]
    return 0.5 * residual**2
