"""Counter-based random numbers: every number is a function of its key and its purpose.

    word(seed, chain, epoch, purpose, i) = Threefry-2x32(fold_in(fold_in(seed, chain), epoch); purpose, i)

An epoch is one proposal for one span of models, so the epoch number already names the model. Nothing here
keeps state: how the work is split over lanes, loops and devices cannot change a number.

The hash is bit for bit the one behind ``jax.random`` (``threefry2x32``). It is written out here because
JAX compiles it on CPUs as a loop, which XLA cannot fuse into its consumers; unrolled, it costs nothing
beside the loss. Keys that are arrays of NumPy give numbers of NumPy, on the host and without compiling anything.
"""

from __future__ import annotations

from enum import IntEnum
from statistics import NormalDist
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from trajens.compiling import elementwise

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))

_WORTH_LOADING = 2**15
"""Numbers from which on SciPy is faster than Python, the time to load it included."""


class Purpose(IntEnum):
    """What a word is used for; 0 is taken by `fold_in`."""

    SITE = 1
    KIND = 2
    MASK = 3
    NOISE = 4
    BATCH = 5
    TEST = 6
    MEASURE = 7
    START = 8
    OWN = 9
    """Not used by trajens: for moves, tests and scans of one's own."""
    AUDIT = 10
    EXCHANGE = 11
    PROJECT = 12


class Key(NamedTuple):
    """Two words of 32 bits; both fields have the batch shape of the key."""

    first: jax.Array
    second: jax.Array


def key_of(seed: int | jax.Array | np.ndarray) -> Key:
    """The root key of a seed in 0..2**32 - 1; the same as ``jax.random.key(seed)``."""
    xp = _kind(seed)
    word = xp.asarray(seed, np.uint32)
    return Key(xp.zeros_like(word), word)


def fold_in(key: Key, data: jax.Array | np.ndarray) -> Key:
    """A new key from a key and a whole number; the same as ``jax.random.fold_in``."""
    return Key(*_threefry(key, np.uint32(0), data.astype(np.uint32)))


def words(key: Key, purpose: Purpose, count: int) -> jax.Array:
    """`count` independent words for one purpose, along a new last axis."""
    blocks = (count + 1) // 2
    lifted = Key(key.first[..., None], key.second[..., None])
    xp = _kind(key.first)
    halves = _threefry(lifted, np.uint32(int(purpose)), xp.arange(blocks, dtype=np.uint32))
    return xp.concatenate(halves, axis=-1)[..., :count]


def uniform(word: jax.Array) -> jax.Array:
    """Uniform on the midpoints of 2**23 cells of (0, 1): never 0, never 1."""
    # The cell midpoint of 24 bits would round to 1 in float32.
    return ((word >> 9).astype(jnp.float32) + 0.5) * np.float32(2.0**-23)


def normal(word: jax.Array) -> jax.Array:
    """Standard normal by inversion of the distribution function."""
    return np.float32(np.sqrt(2.0)) * jax.lax.erf_inv(2.0 * uniform(word) - 1.0)


def normal_quantile(probability: np.ndarray) -> np.ndarray:
    """Where the standard normal distribution function is `probability`, in 64 bits."""
    if probability.size > _WORTH_LOADING:
        from scipy.special import ndtri

        return np.asarray(ndtri(probability))
    found = map(NormalDist().inv_cdf, probability.ravel().tolist())
    return np.fromiter(found, np.float64, probability.size).reshape(probability.shape)


def logistic(word: jax.Array) -> jax.Array:
    """Standard logistic by inversion of the distribution function."""
    u = uniform(word)
    return jnp.log(u) - jnp.log1p(-u)


def below(word: jax.Array, bound: int) -> jax.Array:
    """floor(word * bound / 2**32) for 1 <= bound < 2**16, without 64-bit arithmetic."""
    factor = jnp.uint32(bound)
    return ((word >> 16) * factor + (((word & 0xFFFF) * factor) >> 16)) >> 16


def _kind(array: Any) -> Any:
    """The library whose array it is."""
    return np if isinstance(array, np.ndarray) else jnp


def _threefry(key: Key, x0: Any, x1: Any) -> Any:
    """Threefry-2x32 with 20 rounds (Salmon, Moraes, Dror, Shaw 2011)."""
    if _kind(key.first) is np and _kind(x1) is np:
        return _hash(*key, x0, x1)
    return _traced(*key, x0, x1, results=2)


def _hash(first: Any, second: Any, x0: Any, x1: Any) -> Any:
    schedule = (first, second, first ^ second ^ np.uint32(0x1BD11BDA))
    x0, x1 = x0 + schedule[0], x1 + schedule[1]
    for group in range(5):
        for rotation in _ROTATIONS[group % 2]:
            x0 = x0 + x1
            x1 = ((x1 << np.uint32(rotation)) | (x1 >> np.uint32(32 - rotation))) ^ x0
        x0 = x0 + schedule[(group + 1) % 3]
        x1 = x1 + schedule[(group + 2) % 3] + np.uint32(group + 1)
    return x0, x1


_traced = elementwise("threefry", _hash)
