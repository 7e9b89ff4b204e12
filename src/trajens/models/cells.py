"""A convolution and the max pool behind it as one matrix product.

Every lane of the sampler has models of its own. Mapped over them, a convolution becomes one of many groups, which XLA
does badly; a matrix product of patches and weights it does well. A row of patches holds what a *cell* of f x f
positions sees, (k + f - 1)^2 pixels of all inputs, and the weights have a column for every output at every position of
the cell, zero where it does not look:

    (cells, (k + f - 1)^2 inputs) x ((k + f - 1)^2 inputs, f^2 outputs) -> maximum over the f^2 positions

The product is wider, which matters to small networks, and there are fewer patches, for ((k + f - 1) / k)^2 times the
multiplications. Maximum and monotone activations commute with adding a bias, which therefore comes after the pool;
rows and columns that pools drop are not computed.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

_FLOAT = 4
_MOST_WORK = 2.0
"""Times the multiplications of a convolution that cells may take."""
_WIDE = 64
"""Outputs of a product that is wide enough without cells."""
_MANY = 8
"""Inputs of a pixel that can be copied by itself."""


class Stage(NamedTuple):
    """A convolution of kernel x kernel and the pool behind it.

    Attributes
    ----------
    rows, columns : int
        Of the pooled outputs that matter.
    inputs : int
        Channels of the input.
    """

    kernel: int
    pool: int
    rows: int
    columns: int
    inputs: int

    @property
    def used(self) -> tuple[int, int]:
        """Rows and columns of the input that matter."""
        more = self.kernel - 1
        return self.rows * self.pool + more, self.columns * self.pool + more

    def cell(self, outputs: int) -> int:
        """Side f of the cells, a divisor of the pool, for a product of so many outputs."""
        sides = [f for f in range(1, self.pool + 1) if self.pool % f == 0 and self._work(f) <= _MOST_WORK]
        return 1 if outputs >= _WIDE else sides[-1]

    def _work(self, f: int) -> float:
        return ((self.kernel + f - 1) / self.kernel) ** 2

    def bytes_of_image(self, outputs: int) -> int:
        """Patches of an image and what comes out of their product."""
        f = self.cell(outputs)
        cells = self.rows * self.columns * (self.pool // f) ** 2
        return _FLOAT * cells * ((self.kernel + f - 1) ** 2 * self.inputs + f**2 * outputs)

    def convolved(self, x: jax.Array, w: jax.Array) -> jax.Array:
        """Pooled convolution (m, rows, columns, outputs) of x (m, used, used, inputs) by w (kernel, kernel, ..)."""
        f, outputs = self.cell(w.shape[-1]), w.shape[-1]
        product = self._patches(x, f) @ of_cells(w, f)
        most = product.reshape(*product.shape[:-1], f * f, outputs).max(-2)
        left = self.pool // f
        return most.reshape(len(x), self.rows, left, self.columns, left, outputs).max((2, 4))

    def _patches(self, x: jax.Array, f: int) -> jax.Array:
        """What every cell sees, (m, rows of cells, columns of cells, (kernel + f - 1)^2 inputs)."""
        side, inputs = self.kernel + f - 1, self.inputs
        right = self.columns * self.pool // f
        down, across = f * (self.rows * self.pool // f - 1) + 1, f * (right - 1) + 1
        if inputs >= _MANY:
            seen = [x[:, i : i + down : f, j : j + across : f] for i in range(side) for j in range(side)]
            return jnp.concatenate(seen, axis=-1)
        # Pixels of few numbers are copied slowly: whole windows of a row at a time, and then rows of windows.
        flat = x.reshape(*x.shape[:2], -1)
        windows = [flat[:, :, j * f * inputs : (j * f + side) * inputs] for j in range(right)]
        rows = jnp.stack(windows, axis=2)
        return jnp.concatenate([rows[:, i : i + down : f] for i in range(side)], axis=-1)


def of_cells(w: jax.Array, f: int) -> jax.Array:
    """Weights ((kernel + f - 1)^2 inputs, f^2 outputs) of all positions of a cell."""
    moved = [jnp.pad(w, ((i, f - 1 - i), (j, f - 1 - j), (0, 0), (0, 0))) for i in range(f) for j in range(f)]
    return jnp.stack(moved, axis=3).reshape(-1, f * f * w.shape[-1])
