"""A convolution, its pool, bias and activation in one kernel for NVIDIA GPUs, which makes the patches on its way.

XLA writes patches and products to memory and reads them again, some 300 kB of a pair of models and an image. Here a
program takes a tile of cells (`trajens.models.cells`), reads the pixels that they see straight from the images, and
writes what is left after the pool.

Products are as exact as in float32. Bytes are whole numbers that bfloat16 holds without rounding, weights are sums of
three of them, and tensor cores add the products in float32. Other inputs are multiplied in float32: splitting both
factors into parts for the tensor cores was half as fast.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plgpu

from trajens.models.cells import Stage

_SUMS, _FEWEST = 8192, 16
"""Sums that a program holds in registers, and the rows that a product must have: pools that a program takes."""
_TAPS, _WARPS = 32, 4
"""Numbers of a patch at a time, and warps that work on them."""
_NARROWEST = 16
"""Columns that a product of tensor cores must have."""
_WIDEST = 3
_PIECES = 3
_SCALE = 1 / 255


class Source(NamedTuple):
    """Images in one flat array.

    Attributes
    ----------
    x : (size,)
    starts : (groups, m) int32
        Where they begin.
    width, pixel : int
        Pixels of a row, and numbers from one pixel to the next.
    """

    x: jax.Array
    starts: jax.Array
    width: int
    pixel: int


def is_for(stages: tuple[Stage, ...], channels: tuple[int, ...]) -> bool:
    """Whether the sums of a program fit, of pairs of models in the first stage and of single ones after it."""
    outputs = (2 * channels[0], *channels[1:])
    return all(_sums(stage, n) * _FEWEST <= _SUMS for stage, n in zip(stages, outputs, strict=True))


def features(
    stages: tuple[Stage, ...],
    parts: list[tuple[jax.Array, jax.Array]],
    x: jax.Array,
    indices: jax.Array,
    activation: Callable[[jax.Array], jax.Array],
    cells: int | None = None,
    interpret: bool = False,
) -> jax.Array:
    """What is left (lanes, 2, m, rows, columns, outputs) of images `indices` (lanes, m) of x after all convolutions.

    x (N, height, width, inputs) are bytes, or float32; parts are weights (lanes, 2, ...) and biases of every stage.
    """
    lanes, m = indices.shape
    (w, b), *others = parts
    joined, bias = jnp.moveaxis(w, 1, -2).reshape(lanes, *w.shape[2:-1], -1), b.reshape(lanes, -1)
    places = indices.astype(jnp.int32) * (x.size // len(x))
    source = Source(x.reshape(-1), places, x.shape[2], x.shape[3])
    h = convolve(stages[0], source, joined, bias, activation, cells=cells, interpret=interpret)
    # Both models of a pair stand side by side in a pixel.
    models, outputs = jnp.arange(2, dtype=jnp.int32)[:, None], w.shape[-1]
    places = _starts(lanes, m, h)[:, None] + models * outputs
    for stage, (w, b) in zip(stages[1:], others, strict=True):
        source = Source(h.reshape(-1), places.reshape(2 * lanes, m), h.shape[3], h.shape[4])
        weights, bias = w.reshape(-1, *w.shape[2:]), b.reshape(2 * lanes, -1)
        h = convolve(stage, source, weights, bias, activation, cells=cells, interpret=interpret)
        outputs = w.shape[-1]
        places = _starts(2 * lanes, m, h)
    if not others:
        return jnp.moveaxis(h[..., : 2 * outputs].reshape(*h.shape[:-1], 2, outputs), -2, 1)
    return h[..., :outputs].reshape(lanes, 2, *h.shape[1:-1], outputs)


def _starts(groups: int, m: int, h: jax.Array) -> jax.Array:
    """Where images (groups, m) of h begin, one after the other."""
    return jnp.arange(groups * m, dtype=jnp.int32).reshape(groups, m) * (h.size // (groups * m))


def convolve(
    stage: Stage,
    source: Source,
    w: jax.Array,
    b: jax.Array,
    activation: Callable[[jax.Array], jax.Array],
    cells: int | None = None,
    interpret: bool = False,
) -> jax.Array:
    """Activations (groups, m, rows, columns, n) of images (groups, m) by weights (groups, kernel, kernel, ..).

    n is the number of outputs, or the least power of two that tensor cores take; what is more has no meaning.
    """
    groups, m = source.starts.shape
    f, outputs = _side(stage), w.shape[-1]
    n = _columns(outputs)
    cells = cells or 1 << (_SUMS // _sums(stage, outputs)).bit_length() - 1
    moved = [
        jnp.pad(w, ((0, 0), (i, f - 1 - i), (j, f - 1 - j), (0, 0), (0, n - outputs)))
        for i in range(f)
        for j in range(f)
    ]
    weights = jnp.stack(moved, axis=1).reshape(groups, f * f, -1, n)
    weights = jnp.pad(weights, ((0, 0), (0, 0), (0, -weights.shape[2] % _TAPS), (0, 0)))
    is_bytes = source.x.dtype == jnp.uint8
    weights = _in_pieces(weights) if is_bytes else weights[:, None]
    bias = jnp.pad(b, ((0, 0), (0, n - outputs)))
    size = m * stage.rows * stage.columns
    call = pl.pallas_call(
        partial(_program, _Layout(stage, source.width, source.pixel, cells, activation)),
        grid=(groups, pl.cdiv(size, cells)),
        out_shape=jax.ShapeDtypeStruct((groups, size, n), jnp.float32),
        interpret=interpret,
        compiler_params=None if interpret else plgpu.CompilerParams(num_warps=_WARPS, num_stages=2),
    )
    said: jax.Array = call(source.x, source.starts, weights, bias)
    return said.reshape(groups, m, stage.rows, stage.columns, n)


class _Layout(NamedTuple):
    """What a program knows before it runs: `width` and `pixel` of its `Source`, and how many cells it takes."""

    stage: Stage
    width: int
    pixel: int
    cells: int
    activation: Callable[[jax.Array], jax.Array]


def _program(layout: _Layout, x: Any, starts: Any, w: Any, b: Any, out: Any) -> None:
    """What one program does: `cells` cells of a group."""
    stage, width, pixel, cells, activation = layout
    g, tile = pl.program_id(0), pl.program_id(1)
    f, pools = _side(stage), stage.rows * stage.columns
    side, left = stage.kernel + f - 1, stage.pool // f
    row = tile * cells + jnp.arange(cells, dtype=jnp.int32)
    is_row = row < starts.shape[1] * pools
    pool = row % pools
    start = plgpu.load(starts.at[g, row // pools], mask=is_row, other=0)
    start += (pool // stage.columns * width + pool % stage.columns) * (stage.pool * pixel)

    def part(more: int, k: Any, sums: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        tap = k * _TAPS + jnp.arange(_TAPS, dtype=jnp.int32)
        place = tap // stage.inputs
        offset = (place // side * width + place % side) * pixel + tap % stage.inputs + more
        is_seen = is_row[:, None] & (place < side * side)[None, :]
        seen = plgpu.load(x.at[start[:, None] + offset[None, :]], mask=is_seen, other=0)
        # Tensor cores take bfloat16, which holds bytes.
        seen = seen.astype(jnp.float32).astype(w.dtype)
        at = pl.ds(k * _TAPS, _TAPS)
        return tuple(
            _product(seen, [w[g, i, p, at, :] for i in range(w.shape[1])], total) for p, total in enumerate(sums)
        )

    most = None
    for i, j in ((i, j) for i in range(left) for j in range(left)):
        sums = tuple(jnp.zeros((cells, b.shape[1]), jnp.float32) for _ in range(f * f))
        of_cell = partial(part, (i * width + j) * f * pixel)
        parts = w.shape[3] // _TAPS
        sums = of_cell(0, sums) if parts == 1 else jax.lax.fori_loop(0, parts, of_cell, sums)
        for one in sums:
            most = one if most is None else jnp.maximum(most, one)
    assert most is not None
    most = most * _SCALE if x.dtype == jnp.uint8 else most
    said = activation(most + b[g, :][None, :])
    place = out.at[g, pl.ds(tile * cells, cells), :]
    plgpu.store(place, said, mask=jnp.broadcast_to(is_row[:, None], said.shape))


def _columns(outputs: int) -> int:
    """Columns of a product: a power of two."""
    return max(_NARROWEST, 1 << (outputs - 1).bit_length())


def _sums(stage: Stage, outputs: int) -> int:
    """Sums of a pool."""
    return _columns(outputs) * _side(stage) ** 2


def _side(stage: Stage) -> int:
    """Side of the cells: with more positions, their sums would not fit into registers."""
    return max(f for f in range(1, _WIDEST + 1) if stage.pool % f == 0)


def _product(seen: jax.Array, pieces: list[jax.Array], total: jax.Array) -> jax.Array:
    """`total` and the products with the pieces of weights, the smallest one first."""
    how = jax.lax.Precision.HIGHEST if seen.dtype == jnp.float32 else None
    for piece in reversed(pieces):
        total += jax.lax.dot(seen, piece, precision=how, preferred_element_type=jnp.float32)
    return total


def _in_pieces(w: jax.Array) -> jax.Array:
    """Weights (groups, ...) as sums of bfloat16, (groups, 3, ...)."""
    pieces = []
    for _ in range(_PIECES):
        # XLA would take a conversion there and back for nothing.
        rounded = jax.lax.reduce_precision(w, exponent_bits=8, mantissa_bits=7)
        pieces.append(rounded.astype(jnp.bfloat16))
        w = w - rounded
    return jnp.stack(pieces, axis=1)
