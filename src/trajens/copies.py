"""Weighted minibatches: a data set with copies, in which examples that matter more are drawn more often.

Example i has c_i >= 1 copies in a population of M = sum c_i, each with the loss l_i M / (N c_i). The mean over the
population is the mean loss L exactly, so batches without replacement, the finite-population factor and every formula
stay as they are with M for N, and at b = M the answer is exact. Copies are dealt out by scores q_i,

    q_i = (1 - eps) score_i / sum_j score_j + eps / N,   c_i about q_i M,

which may be anything that is not negative: they change the noise of a decision, and not the law that is sampled. The
noise is smallest for scores like the spread of an example's loss differences; the root of its loss is near that.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np

from trajens.errors import require

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


def counts_by(scores: np.ndarray) -> np.ndarray:
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
