"""Minibatches without replacement: a keyed permutation evaluated where it is needed.

A generalised Feistel network (Black and Rogaway 2002) permutes the a x b rectangle

    L <- L + F_r(R) mod a,   R <- R + F_r(L) mod b,   x = L b + R,

and values >= N are mapped again until they fall below N ("cycle walking"). a and b are chosen such that the
excess e = a b - N is as small as possible; a walk visits each excess value at most once, so e unrolled
steps are always enough and the map is exactly a permutation of 0..N-1 without a loop, an index array or
any state.
"""

from __future__ import annotations

import math
from functools import cache

import jax
import jax.numpy as jnp

from trajens.randomness import Key, below
from trajens.steps import elementwise

MAX_SIZE = 2**30
"""Largest set that can be permuted: both sides of the rectangle stay below 2**16."""


def permute(key: Key, positions: jax.Array, size: int) -> jax.Array:
    """The values at `positions` of the permutation of 0..size-1 that belongs to `key`.

    Parameters
    ----------
    key : Key
        Batch shape (...,).
    positions : array of whole numbers in 0..size-1, shape (..., m)
    size : int
        Number of elements, 1..`MAX_SIZE`.

    Returns
    -------
    int32 array of the shape of `positions`.
    """
    value = positions.astype(jnp.uint32)
    return _traced(key.first[..., None], key.second[..., None], value, size=size)[0].astype(jnp.int32)


def _permuted(first: jax.Array, second: jax.Array, value: jax.Array, size: int) -> list[jax.Array]:
    (rows, columns), key = rectangle(size), Key(first, second)
    value = _feistel(key, value, rows, columns)
    for _ in range(rows * columns - size):
        value = jnp.where(value >= size, _feistel(key, value, rows, columns), value)
    return [value]


_traced = elementwise("permute", _permuted)


@cache
def rectangle(size: int) -> tuple[int, int]:
    """Sides (a, b) of the cheapest nearly square rectangle with a b >= size."""
    root = math.isqrt(size - 1) + 1 if size > 1 else 1
    sides = range(root, max(1, min(root, 2), root // 2) - 1, -1)

    def cost(sides: tuple[int, int]) -> tuple[int, int]:
        a, b = sides
        return (a * b - size + 1) * rounds(a, b), abs(a - b)

    return min(((a, -(-size // a)) for a in sides), key=cost)


def rounds(rows: int, columns: int) -> int:
    """Feistel rounds after which pair frequencies are uniform to about 2**-14.

    Two different inputs stay correlated only while their round functions collide; two rounds multiply that
    by about 1 / min(a, b).
    """
    shorter = max(2, min(rows, columns))
    return 2 * math.ceil(14 / math.log2(shorter))


def _feistel(key: Key, value: jax.Array, rows: int, columns: int) -> jax.Array:
    left, right = value // jnp.uint32(columns), value % jnp.uint32(columns)
    for r in range(rounds(rows, columns)):
        if r % 2 == 0:
            left = _add(left, below(_mix(right, key.first, r), rows), rows)
        else:
            right = _add(right, below(_mix(left, key.second, r), columns), columns)
    return left * jnp.uint32(columns) + right


def _add(a: jax.Array, b: jax.Array, modulus: int) -> jax.Array:
    total = a + b
    return jnp.where(total >= modulus, total - jnp.uint32(modulus), total)


def _mix(x: jax.Array, key: jax.Array, r: int) -> jax.Array:
    """A 32-bit mixer (two rounds of multiply and xor-shift) keyed before and between."""
    h = (x + jnp.uint32((r * 0x9E3779B9) & 0xFFFFFFFF)) * jnp.uint32(0x85EBCA6B) ^ key
    h = (h ^ (h >> 16)) * jnp.uint32(0x7FEB352D)
    h = (h ^ (h >> 15)) * jnp.uint32(0x846CA68B)
    return h ^ (h >> 16)
