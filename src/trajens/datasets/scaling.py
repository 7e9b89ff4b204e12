"""Numbers on a scale that suits networks: (x - mean) / standard deviation of the training data."""

from __future__ import annotations

import numpy as np


def moments(values: np.ndarray) -> tuple[float, float]:
    """Mean and standard deviation, which is 0 where all values are the same."""
    # What is too large for float32 is refused when it is read.
    with np.errstate(over="ignore", invalid="ignore"):
        return float(values.mean()), 0.0 if values.min() == values.max() else float(values.std())


def standardised(values: np.ndarray, mean: np.ndarray, std: np.ndarray) -> np.ndarray:
    """(x - mean) / std; as it is where std is 0, and 0 where it is infinite."""
    is_varied = std > 0
    return np.where(is_varied, (values - mean) / np.where(is_varied, std, 1.0), values)
