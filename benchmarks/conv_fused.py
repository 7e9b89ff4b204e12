"""Convolutions for pairs of models as one kernel a layer, which makes patches on its way, in Pallas (Triton)."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plgpu

BLOCK_K = 32


class Layer(NamedTuple):
    """One convolution with its pool, for `groups` sets of weights.

    Attributes
    ----------
    rows, columns : int
        Of the pooled outputs.
    width, pixel : int
        Pixels of a row of the input, and numbers from one pixel to the next.
    image : int
        Numbers of an image of the input.
    """

    kernel: int
    pool: int
    rows: int
    columns: int
    inputs: int
    width: int
    pixel: int
    image: int

    @property
    def taps(self) -> int:
        return self.kernel**2 * self.inputs


def _kernel(layer: Layer, m: int, block: int, how: Any, is_bytes: bool, x, places, w, b, out) -> None:  # type: ignore[no-untyped-def]
    g, t = pl.program_id(0), pl.program_id(1)
    cells = layer.rows * layer.columns
    row = t * block + jnp.arange(block, dtype=jnp.int32)
    is_row = row < m * cells
    cell = row % cells
    start = plgpu.load(places.at[g, row // cells], mask=is_row, other=0)
    down, right = cell // layer.columns, cell % layer.columns
    start = start + (down * layer.width + right) * (layer.pool * layer.pixel)
    offsets = [(i * layer.width + j) * layer.pixel for i in range(layer.pool) for j in range(layer.pool)]
    n = b.shape[1]

    def part(k: Any, sums: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        tap = k * BLOCK_K + jnp.arange(BLOCK_K, dtype=jnp.int32)
        channel, place = tap % layer.inputs, tap // layer.inputs
        off = (place // layer.kernel * layer.width + place % layer.kernel) * layer.pixel + channel
        is_in = is_row[:, None] & (tap < layer.taps)[None, :]
        weights = [w[g, i, pl.ds(k * BLOCK_K, BLOCK_K), :] for i in range(w.shape[1])]
        found = []
        for total, more in zip(sums, offsets, strict=True):
            seen = plgpu.load(x.at[start[:, None] + off[None, :] + more], mask=is_in, other=0)
            if is_bytes:
                seen = seen.astype(jnp.float32).astype(jnp.bfloat16)
            for piece in weights:
                total = total + lax.dot(seen, piece, precision=how, preferred_element_type=jnp.float32)
            found.append(total)
        return tuple(found)

    parts = -(-layer.taps // BLOCK_K)
    sums = tuple(jnp.zeros((block, n), jnp.float32) for _ in offsets)
    sums = part(0, sums) if parts == 1 else lax.fori_loop(0, parts, part, sums)
    most = sums[0]
    for one in sums[1:]:
        most = jnp.maximum(most, one)
    if is_bytes:
        most = most * (1 / 255)
    said = jnp.maximum(most + b[g, :][None, :], 0.0)
    plgpu.store(out.at[g, pl.ds(t * block, block), :], said, mask=jnp.broadcast_to(is_row[:, None], said.shape))


def convolved(
    layer: Layer, x: jax.Array, places: jax.Array, w: jax.Array, b: jax.Array, how: Any, block: int, interpret: bool
) -> jax.Array:
    """Outputs (groups, m, rows, columns, n) with bias and ReLU, n at least 16 and a power of two.

    x is flat, `places` (groups, m) say where the images begin in it, w (groups, kernel, kernel, inputs, outputs).
    """
    groups, m = places.shape
    n = max(16, 2 ** math.ceil(math.log2(w.shape[-1])))
    flat = w.reshape(groups, -1, w.shape[-1])
    taps = -(-flat.shape[1] // BLOCK_K) * BLOCK_K
    flat = jnp.pad(flat, ((0, 0), (0, taps - flat.shape[1]), (0, n - flat.shape[2])))
    bias = jnp.pad(b, ((0, 0), (0, n - b.shape[1])))
    is_bytes = x.dtype == jnp.uint8
    pieces = [flat]
    if is_bytes:
        pieces, left = [], flat
        for _ in range(3):
            pieces.append(left.astype(jnp.bfloat16))
            left = left - pieces[-1].astype(jnp.float32)
    size = m * layer.rows * layer.columns
    call = pl.pallas_call(
        partial(_kernel, layer, m, block, None if is_bytes else how, is_bytes),
        grid=(groups, pl.cdiv(size, block)),
        out_shape=jax.ShapeDtypeStruct((groups, size, n), jnp.float32),
        interpret=interpret,
        **({} if interpret else {"compiler_params": plgpu.CompilerParams(num_warps=4, num_stages=2)}),
    )
    out = call(x, places, jnp.stack(pieces, axis=1), bias)
    return out.reshape(groups, m, layer.rows, layer.columns, n)


def fused(
    net: Any, data: Any, pairs: jax.Array, indices: jax.Array, how: Any, block: int = 128, interpret: bool = False
) -> jax.Array:
    """Outputs (lanes, 2, m, features) of the convolutions and the rest of the parts."""
    x, y = data
    lanes, m = indices.shape
    parts, p, k = net.unpack(pairs), net.pool, net.kernel
    sides = [net.sides[-1]]
    for _ in net.channels[1:]:
        sides.insert(0, sides[0] * p + k - 1)
    side, colours = x.shape[1], x.shape[3]
    (w, b), *others = parts
    first = Layer(k, p, sides[0], sides[0], colours, side, colours, side * side * colours)
    joined = jnp.moveaxis(w, 1, -2).reshape(lanes, *w.shape[2:-1], -1)
    h = convolved(first, x.reshape(-1), indices * first.image, joined, b.reshape(lanes, -1), how, block, interpret)
    pixel, outputs = h.shape[-1], w.shape[-1]
    image = sides[0] ** 2 * pixel
    # Both models of a pair stand in one pixel.
    starts = (jnp.arange(lanes * m, dtype=jnp.int32) * image).reshape(lanes, 1, m)
    starts = (starts + jnp.arange(2, dtype=jnp.int32)[:, None] * outputs).reshape(2 * lanes, m)
    for (w, b), last, now in zip(others, sides, sides[1:], strict=False):
        layer = Layer(k, p, now, now, w.shape[-2], last, pixel, image)
        weights = w.reshape(-1, *w.shape[2:])
        h = convolved(layer, h.reshape(-1), starts, weights, b.reshape(2 * lanes, -1), how, block, interpret)
        pixel, outputs = h.shape[-1], w.shape[-1]
        image = now**2 * pixel
        starts = (jnp.arange(2 * lanes * m, dtype=jnp.int32) * image).reshape(2 * lanes, m)
    h = h[..., :outputs].reshape(lanes, 2, m, -1)
    for i, (w, b) in enumerate(others[len(net.channels) - 1 :]):
        h = jnp.einsum("lpmi,lpio->lpmo", h, w, precision=lax.Precision.HIGHEST) + b[:, :, None]
        h = h if i == len(net.hidden) else jax.nn.relu(h)
    log_p = jax.nn.log_softmax(h)
    labels = jnp.broadcast_to(y[indices][:, None, :, None].astype(jnp.int32), (*h.shape[:3], 1))
    return -jnp.take_along_axis(log_p, labels, axis=-1)[..., 0]
