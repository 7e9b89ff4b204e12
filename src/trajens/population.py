"""Populations that minibatches are drawn from: N examples without replacement, copies of them, or an endless stream.

A *member* is what a loss is asked about: the number of an example in 0..N-1, or, of a stream, a key of its own as two
words of 32 bits. Members of a decision are a function of its key and of their positions in its batch.

*Permutation.* Examples are drawn without replacement by a keyed permutation, evaluated where it is needed.

A generalised Feistel network (Black and Rogaway 2002) permutes the a x b rectangle

    L <- L + F_r(R) mod a,   R <- R + F_r(L) mod b,   x = L b + R,

and values >= N are mapped again until they fall below N ("cycle walking"). a and b are chosen such that the
excess e = a b - N is as small as possible; a walk visits each excess value at most once, so e unrolled
steps are always enough and the map is exactly a permutation of 0..N-1 without a loop, an index array or
any state.

*Copies.* Weighted minibatches are those of a data set with copies: examples that matter more are drawn more often.

Example i has c_i >= 1 copies in a population of M = sum c_i, each with the loss l_i M / (N c_i). The mean over the
population is the mean loss L exactly, so batches without replacement, the finite-population factor and every formula
stay as they are with M for N, and at b = M the answer is exact. Copies are dealt out by scores q_i,

    q_i = (1 - eps) score_i / sum_j score_j + eps / N,   c_i about q_i M,

which may be anything that is not negative: they change the noise of a decision, and not the distribution that is
sampled. The noise is smallest for scores like the spread of an example's loss differences; the root of its loss is near
that.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from trajens.compiling import elementwise
from trajens.errors import require
from trajens.randomness import Key, below, fold_in, key_of

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


@dataclass(frozen=True)
class Population(ABC):
    """Hashable, as it is compiled in.

    Parameters
    ----------
    most : int
        The most members that a decision may read.
    """

    most: int

    @property
    @abstractmethod
    def size(self) -> int | float:
        """N, or infinity."""

    @property
    @abstractmethod
    def limit(self) -> int | None:
        """Members after which a decision must do without more although there are some; None where there are none."""

    @abstractmethod
    def draw(self, key: Key, positions: jax.Array) -> jax.Array:
        """The members at `positions` (..., m) of the order that belongs to `key` (...,)."""

    @abstractmethod
    def at(self, positions: Any) -> Any:
        """The members at `positions` of an order that is always the same."""

    @abstractmethod
    def some(self, count: int) -> np.ndarray:
        """`count` members from all over, always the same."""


@dataclass(frozen=True)
class Finite(Population):
    """`most` examples, drawn without replacement; members are their numbers, (..., m) int32."""

    @property
    def size(self) -> int:
        return self.most

    @property
    def limit(self) -> None:
        return None

    def draw(self, key: Key, positions: jax.Array) -> jax.Array:
        return permute(key, self.at(positions), self.size)

    def at(self, positions: Any) -> Any:
        # Only the last chunks can reach beyond the data; what does is not counted.
        return (np if isinstance(positions, np.ndarray) else jnp).minimum(positions, self.size - 1)

    def some(self, count: int) -> np.ndarray:
        return np.linspace(0, self.size - 1, count).astype(np.int32)


@dataclass(frozen=True)
class Endless(Population):
    """Fresh examples without an end, of which a decision reads `most`; members are keys, (..., m, 2) uint32."""

    @property
    def size(self) -> float:
        return math.inf

    @property
    def limit(self) -> int:
        return self.most

    def draw(self, key: Key, positions: jax.Array) -> jax.Array:
        lifted = Key(key.first[..., None], key.second[..., None])
        return jnp.stack(fold_in(lifted, positions), axis=-1)

    def at(self, positions: Any) -> Any:
        return self.draw(key_of(0), jnp.asarray(positions))

    def some(self, count: int) -> np.ndarray:
        return np.asarray(self.at(np.arange(count)))


def keys_of(members: jax.Array) -> jax.Array:
    """The members (..., m, 2) of a stream as keys of ``jax.random``, (..., m)."""
    return jax.random.wrap_key_data(members, impl="threefry2x32")


COPIES = 4
"""M / N."""

_EVEN = 0.1
"""eps, the part of the copies that is dealt out evenly."""


class Copies(NamedTuple):
    """The example (M,) of every copy, and the factor M / (N c_i) (N,) of every example's loss."""

    example: jax.Array
    factor: jax.Array


def copies_of(counts: np.ndarray) -> Copies:
    """The population in which example i has `counts[i]` copies, `COPIES` N in all."""
    example = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    return Copies(example, (COPIES / counts).astype(np.float32))  # type: ignore[arg-type]


def even_counts(size: int) -> np.ndarray:
    """As many copies of every example."""
    return np.full(size, COPIES, np.int32)


def scores_by_losses(losses: np.ndarray) -> np.ndarray:
    """Roots of the mean losses (N,) of some models; where losses can be negative, above the lowest of them."""
    is_sound = np.isfinite(losses)
    if not is_sound.any():
        return np.ones(len(losses))
    # An example whose loss is not finite is one to look at.
    above = np.where(is_sound, losses, losses[is_sound].max()).astype(np.float64)
    return np.asarray(np.sqrt(above - min(0.0, float(above.min()))))


def scores_by_errors(errors: np.ndarray, models: int) -> np.ndarray:
    """The same of a 0-1 loss, for parts (N,) of so many models that are wrong: p is wrong in truth, (p (1 - p))^1/2.

    What all models get wrong changes as little as what all get right. p is not known better than to 1 / models: an
    example that no model has wrong so far may be the next one to change, and must not weigh much when it does.
    """
    wrong = (np.where(np.isfinite(errors), errors, 0.5).astype(np.float64) * models + 0.5) / (models + 1)
    return np.asarray(np.sqrt(wrong * (1 - wrong)))


def copies_by(scores: np.ndarray) -> np.ndarray:
    """`COPIES` N copies, dealt out by `scores` (N,): at least one of every example."""
    scores = np.asarray(scores, np.float64)
    require(
        scores.ndim == 1 and np.isfinite(scores).all() and bool((scores >= 0).all()),
        f"scores must be finite numbers >= 0, one for every example, got an array of shape {scores.shape}; "
        "use the root of each example's loss.",
    )
    size, total = len(scores), scores.sum()
    even = np.full(size, 1 / size)
    share = even if total == 0 else (1 - _EVEN) * scores / total + _EVEN * even
    # One copy of each, and the rest by largest remainders of what is beyond it.
    beyond = np.maximum(COPIES * size * share - 1, 0.0)
    left = (COPIES - 1) * size
    beyond *= left / beyond.sum() if beyond.sum() > 0 else 0.0
    counts = np.floor(beyond).astype(np.int64)
    remainder = np.argsort(counts - beyond, kind="stable")[: left - counts.sum()]
    counts[remainder] += 1
    return (counts + 1).astype(np.int32)
