"""Marks: the epochs at which a run is recorded, spread evenly over burn-in and over what follows."""

from __future__ import annotations

import numpy as np

from trajens.errors import integer, require
from trajens.sampling.adapted import MAX_EPOCHS

RECORDS = 200
"""How often a run is recorded, unless another number is asked for."""


def count(epochs: int, burn_in: int, records: int) -> int:
    """How many marks are planned, at most one an epoch."""
    require(
        burn_in < epochs,
        f"burn_in must be less than epochs = {epochs}, got {burn_in}; averages need epochs after burn-in.",
    )
    return max(_lowest(burn_in), min(integer("records", records, 1, "try 200"), epochs))


def planned(epochs: int, burn_in: int, records: int) -> np.ndarray:
    """About `records` marks, the last at `epochs` and one at the end of burn-in."""
    records = count(epochs, burn_in, records)
    early = min(max(round(records * burn_in / epochs), _lowest(burn_in) - 1), records - 1)
    return np.concatenate([_spread(burn_in, early), burn_in + _spread(epochs - burn_in, records - early)])


def extended(marks: np.ndarray, epochs: int, records: int | None = None) -> np.ndarray:
    """`marks` and those of `epochs` more, by default at the distance of the last two."""
    last = int(marks[-1])
    epochs = integer("epochs", epochs, 1, "give the number of epochs to add", MAX_EPOCHS - last)
    if records is None:
        records = max(1, round(epochs / np.diff(marks, prepend=0)[-1]))
    more = _spread(epochs, integer("records", records, 1, "try 200", epochs))
    return np.concatenate([marks, last + more])


def _lowest(burn_in: int) -> int:
    return 1 if burn_in == 0 else 2


def _spread(total: int, parts: int) -> np.ndarray:
    """`parts` marks at nearly equal distances, the last at `total`."""
    return np.unique(np.round(total * np.arange(1, parts + 1) / max(parts, 1)).astype(np.int64))
