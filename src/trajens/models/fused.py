"""A convolution, its pool, bias and activation in one kernel for NVIDIA GPUs, which makes the patches on its way.

XLA writes patches and products to memory and reads them again, some 300 kB of a pair of models and an image. Here a
program takes a tile of pools, reads the pixels that their cells (`trajens.models.cells`) see straight from the images,
multiplies them with the weights of all positions of a cell at once, and writes what is left after the pool.

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

from trajens.models.cells import Stage, of_cells

_WIDEST, _FEWEST = 256, 16
"""Columns of a product, the most that a program takes, and the rows that it must have."""
_OF_BYTES, _OF_NUMBERS = (8192, 16), (4096, 32)
"""Sums that a program holds in registers, and numbers of a patch at a time; what was fastest."""
_WARPS, _STAGES = 4, 2
"""Warps that work on a program, and loads ahead of their products."""
_NARROWEST = 16
"""Columns that a product of tensor cores must have."""
_SIDE = 2
"""Side of the cells, where the pool and the width of the product allow."""
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


def is_for(channels: tuple[int, ...]) -> bool:
    """Whether the products are narrow enough, of pairs of models in the first stage and of single ones after it."""
    outputs = (2 * channels[0], *channels[1:])
    return all(_columns(n) <= _WIDEST for n in outputs)


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

    n is the power of two that holds the outputs; what is more has no meaning.
    """
    groups, m = source.starts.shape
    outputs = w.shape[-1]
    f = _side(stage, outputs)
    n = _columns(outputs, f)
    is_bytes = source.x.dtype == jnp.uint8
    sums, taps = _OF_BYTES if is_bytes else _OF_NUMBERS
    cells = cells or max(_FEWEST, sums // (n * f**2))
    weights = jax.vmap(partial(of_cells, f=f))(jnp.pad(w, [(0, 0)] * 4 + [(0, n - outputs)]))
    weights = jnp.pad(weights, ((0, 0), (0, -weights.shape[1] % taps), (0, 0)))
    weights = _in_pieces(weights) if is_bytes else weights[:, None]
    bias = jnp.pad(b, ((0, 0), (0, n - outputs)))
    size = m * stage.rows * stage.columns
    layout = _Layout(stage, f, width=source.width, pixel=source.pixel, cells=cells, taps=taps, activation=activation)
    call = pl.pallas_call(
        partial(_program, layout),
        grid=(groups, pl.cdiv(size, cells)),
        out_shape=jax.ShapeDtypeStruct((groups, size, n), jnp.float32),
        interpret=interpret,
        compiler_params=None if interpret else plgpu.CompilerParams(num_warps=_WARPS, num_stages=_STAGES),
    )
    said: jax.Array = call(source.x, source.starts, weights, bias)
    return said.reshape(groups, m, stage.rows, stage.columns, n)


class _Layout(NamedTuple):
    """What a program knows: the side of its cells, how many pools and numbers of a patch it takes, and its `Source`."""

    stage: Stage
    side: int
    width: int
    pixel: int
    cells: int
    taps: int
    activation: Callable[[jax.Array], jax.Array]


def _program(layout: _Layout, x: Any, starts: Any, w: Any, b: Any, out: Any) -> None:
    """What one program does: `cells` pools of a group."""
    stage, f, width, pixel, cells, taps, activation = layout
    g, tile = pl.program_id(0), pl.program_id(1)
    pools = stage.rows * stage.columns
    side, left = stage.kernel + f - 1, stage.pool // f
    row = tile * cells + jnp.arange(cells, dtype=jnp.int32)
    is_row = row < starts.shape[1] * pools
    pool = row % pools
    start = plgpu.load(starts.at[g, row // pools], mask=is_row, other=0)
    start += (pool // stage.columns * width + pool % stage.columns) * (stage.pool * pixel)

    def part(more: int, k: Any, total: jax.Array) -> jax.Array:
        tap = k * taps + jnp.arange(taps, dtype=jnp.int32)
        place = tap // stage.inputs
        offset = (place // side * width + place % side) * pixel + tap % stage.inputs + more
        is_seen = is_row[:, None] & (place < side * side)[None, :]
        seen = plgpu.load(x.at[start[:, None] + offset[None, :]], mask=is_seen, other=0)
        # Tensor cores take bfloat16, which holds bytes.
        seen = seen.astype(jnp.float32).astype(w.dtype)
        return _product(seen, [w[g, i, pl.ds(k * taps, taps), :] for i in range(w.shape[1])], total)

    most = None
    for i, j in ((i, j) for i in range(left) for j in range(left)):
        of_cell = partial(part, (i * width + j) * f * pixel)
        parts, total = w.shape[2] // taps, jnp.zeros((cells, w.shape[3]), jnp.float32)
        total = of_cell(0, total) if parts == 1 else jax.lax.fori_loop(0, parts, of_cell, total)
        most = total if most is None else jnp.maximum(most, total)
    assert most is not None
    most = most if f == 1 else most.reshape(cells, f * f, -1).max(1)
    most = most * _SCALE if x.dtype == jnp.uint8 else most
    said = activation(most + b[g, :][None, :])
    place = out.at[g, pl.ds(tile * cells, cells), :]
    plgpu.store(place, said, mask=jnp.broadcast_to(is_row[:, None], said.shape))


def _columns(outputs: int, side: int = 1) -> int:
    """Columns of a product for every position of a cell, a power of two as everything in these kernels."""
    return max(_NARROWEST // side**2, 1 << (outputs - 1).bit_length())


def _side(stage: Stage, outputs: int) -> int:
    """Side of the cells."""
    is_narrow = _SIDE**2 * _columns(outputs, _SIDE) <= _WIDEST
    return _SIDE if is_narrow and stage.pool % _SIDE == 0 else 1


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
