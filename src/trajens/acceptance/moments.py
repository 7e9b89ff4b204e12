"""Running centred moments of the loss differences seen so far, merged chunk by chunk.

    delta = mean_B - mean_A,  n = n_A + n_B
    M2 = M2_A + M2_B + delta^2 n_A n_B / n
    M3 = M3_A + M3_B + delta^3 n_A n_B (n_A - n_B) / n^2 + 3 delta (n_A M2_B - n_B M2_A) / n

(Chan, Golub, LeVeque 1983; Pebay 2008.) Sums of squares would cancel in float32; these do not.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp


class Moments(NamedTuple):
    """Count, mean, and centred sums of squares and cubes; all fields have one batch shape."""

    n: jax.Array
    mean: jax.Array
    m2: jax.Array
    m3: jax.Array

    @property
    def variance(self) -> jax.Array:
        """Unbiased sample variance S^2."""
        return self.m2 / jnp.maximum(self.n - 1, 1)

    @property
    def skewness(self) -> jax.Array:
        """Third standardised moment, 0 where the values show no spread at all."""
        spread = jnp.where(self.m2 > 0, self.m2, 1.0)
        return jnp.where(self.m2 > 0, self.m3 * jnp.sqrt(self.n / spread) / spread, 0.0)

    @property
    def third_cumulant(self) -> jax.Array:
        """k_3 / S^3, of the unbiased k-statistics; 0 of fewer than three values, or without spread."""
        n = self.n.astype(jnp.float32)
        return jnp.where(self.n > 2, self.skewness * jnp.sqrt(n * (n - 1)) / jnp.maximum(n - 2, 1.0), 0.0)


def no_moments(shape: tuple[int, ...]) -> Moments:
    """The moments of nothing."""
    zero = jnp.zeros(shape, jnp.float32)
    return Moments(jnp.zeros(shape, jnp.int32), zero, zero, zero)


def moments_of(values: jax.Array, is_valid: jax.Array | None = None) -> Moments:
    """Moments along the last axis, of the valid entries where `is_valid` is given."""
    if is_valid is None:
        count = jnp.full(values.shape[:-1], values.shape[-1], jnp.int32)
        weight = jnp.ones((), values.dtype)
    else:
        count = is_valid.sum(-1, dtype=jnp.int32)
        weight = is_valid.astype(values.dtype)
    mean = (values * weight).sum(-1) / jnp.maximum(count, 1)
    centred = (values - mean[..., None]) * weight
    square = centred * centred
    return Moments(count, mean, square.sum(-1), (square * centred).sum(-1))


def merge(a: Moments, b: Moments) -> Moments:
    """The moments of both sets together."""
    n_a, n_b = a.n.astype(jnp.float32), b.n.astype(jnp.float32)
    n = n_a + n_b
    share = n_b / jnp.maximum(n, 1.0)
    delta = b.mean - a.mean
    return Moments(
        a.n + b.n,
        a.mean + delta * share,
        a.m2 + b.m2 + delta * delta * n_a * share,
        a.m3
        + b.m3
        + delta**3 * n_a * share * (n_a - n_b) / jnp.maximum(n, 1.0)
        + 3.0 * delta * (n_a * b.m2 - n_b * a.m2) / jnp.maximum(n, 1.0),
    )
