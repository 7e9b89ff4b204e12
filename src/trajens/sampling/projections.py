"""Fixed random directions in the space of models, on which paths are projected at every record.

    projection_k = u_k . (mean over t of theta_t),   u_k a unit vector drawn evenly from the sphere

Losses may agree where models do not: they are what chains of one s are compared by besides. The directions depend on
the number of parameters only, so that projections of any two runs of one network can be compared.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from trajens.columns import PROJECTIONS
from trajens.randomness import Purpose, key_of, normal_quantile, words


@lru_cache(maxsize=8)
def directions(dim: int) -> np.ndarray:
    """Unit vectors (projections, dim); the first `dim` normal numbers of the keys 0, 1, 2, normalised."""
    # On the host, in 64 bits: the same on all devices.
    drawn = words(key_of(np.arange(len(PROJECTIONS))), Purpose.PROJECT, dim)
    normal = normal_quantile(np.asarray(((drawn >> 9) + 0.5) * 2.0**-23))
    return np.asarray(normal / np.linalg.norm(normal, axis=1, keepdims=True), np.float32)


def projected(models: np.ndarray) -> np.ndarray:
    """Projections (..., projections) of models (..., dim)."""
    return np.asarray(np.asarray(models, np.float64) @ directions(models.shape[-1]).T.astype(np.float64))
