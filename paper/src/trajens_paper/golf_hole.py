"""A loss with two phases, to which the same questions are put: a hole in a flat landscape.

    L(theta) = 1 - exp(-|theta|^2 / (2 w^2)),   theta in R^P,   first model N(0, 1),   tau = 1

Outside the hole there is room, inside the loss is low; where both weigh alike, the loss is near 0 or near 1 and hardly
ever between. The distribution of r = |theta| is one-dimensional, r^(P-1) exp(-r^2 / 2 - s L(r)), and so all is known.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import trajens as tj
from trajens.records import Records
from trajens_paper.frame import Show, kept_run

DIM, WIDTH = 4, 0.2
S = 11.11
"""Where Var L is largest."""
_STEP = 0.4


def golf_hole() -> tj.Problem:
    """The problem; its examples are all alike."""
    return tj.Problem(_loss, np.zeros((2, 1), np.float32), DIM, initial=np.zeros(DIM), spread=np.ones(DIM))


def sampled_hole(folder: Path, runs: int, epochs: int, seed: int, show: bool | Show = False) -> np.ndarray:
    """Losses (runs, draws) of a kept run at `S`, its first fifth left out."""
    target = tj.Target(golf_hole(), 1, _STEP, S, prior=1.0)
    draws = epochs // 20
    options: dict[str, Any] = {"chains": runs, "seed": seed, "burn_in": 0, "records": draws}
    records: Records = kept_run(folder, target, epochs, show, acceptance=tj.Metropolis(), **options).records
    return np.asarray(records["loss"][:, draws // 5 :], np.float64)


def exact_hole(s: float = S) -> tuple[np.ndarray, np.ndarray]:
    """Losses on a fine grid of r, and their probabilities."""
    r = np.linspace(1e-4, 8.0, 40_001)
    loss = 1 - np.exp(-(r**2) / (2 * WIDTH**2))
    logarithm = (DIM - 1) * np.log(r) - r**2 / 2 - s * loss
    weights = np.exp(logarithm - logarithm.max())
    return loss, weights / weights.sum()


def _loss(theta: jax.Array, batch: jax.Array) -> jax.Array:
    return jnp.full(batch.shape[:1], -jnp.expm1(-(theta**2).sum() / (2 * WIDTH**2)))
