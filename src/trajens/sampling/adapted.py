"""What a run adapts between two records, on the host: the tilt, the end of burn-in, the copies of examples."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

MAX_EPOCHS = 2**31 - 1
"""Of a run, which counts them in 32 bits."""


class Adapted(NamedTuple):
    """The same for all chains.

    Attributes
    ----------
    burn_in : int
        The epoch at which averages begin and adaptation ends; one that is never reached while that is not known.
    tilt : float
        Factor of s.
    counts : (N,) or None
        Copies of every example, see `trajens.copies`; None without.
    ceiling : float
        The loss of a trained start, above which paths should not rise.
    levels : (chains,) or None
        The s of chains in place of those of the target, where levels were moved, see `trajens.sampling.ladder`.
    """

    burn_in: int
    tilt: float = 1.0
    counts: np.ndarray | None = None
    ceiling: float = math.inf
    levels: np.ndarray | None = None
