"""Data of nearly equal sizes as data of one size, so that folds of a cross-validation share a compilation.

The number of examples is compiled into a sampler. N examples are padded to N' by examples of weight 0, and the others
have the weight N' / N:

    (1/N') sum_i w_i l_i = (1/N) sum_{i <= N} l_i = L,

so the mean loss, and with it the law that is sampled at a given s, is that of the N examples. Examples that are held
out have the weight 0 too, and the law is that of the rest.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from trajens.losses import Weighted, WeightedData
from trajens.problem import Problem

LEAST = 64
"""The smallest size that data are padded to: so few cost nothing."""

_BITS = 4


def common_size(size: int) -> int:
    """N': the next number of four significant bits, at most an eighth above N; 64 at least.

    Folds whose sizes lie on both sides of such a number, for instance 128 and 129, have two.
    """
    step = 2 ** max(size.bit_length() - _BITS, 0)
    return max(LEAST, -(-size // step) * step)


def padded(problem: Problem, is_held_out: np.ndarray | None = None) -> Problem:
    """The same problem on data of a common size, without the examples (N,) that are held out."""
    size = common_size(problem.size)
    is_used = np.zeros(size, bool)
    is_used[: problem.size] = True if is_held_out is None else ~is_held_out
    weight = (is_used * (size / is_used.sum())).astype(np.float32)

    def lengthened(leaf: Any) -> np.ndarray:
        # With examples that are there: what has weight 0 must still have a finite loss.
        here = np.asarray(leaf)
        return np.concatenate([here, np.broadcast_to(here[:1], (size - len(here), *here.shape[1:]))])

    data = WeightedData(jax.tree.map(lengthened, problem.data), weight)
    return Problem(Weighted(problem.loss), data, problem.dim, problem.initial, problem.spread, problem.prior)
