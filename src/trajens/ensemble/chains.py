"""Which chains of a run an ensemble is made of."""

from __future__ import annotations

import numpy as np

from trajens.errors import InputError, integer

ALL = "all"
"""The name of all chains together."""


def chosen_chains(chain: int | str, chains: int) -> np.ndarray:
    """The numbers (1,) or (chains,) of the chains that `chain` means.

    Parameters
    ----------
    chain : int or str
        A whole number from 0, also as text, or "all".
    chains : int
        How many there are.
    """
    if isinstance(chain, str):
        if chain == ALL:
            return np.arange(chains)
        try:
            chain = int(chain)
        except ValueError:
            raise InputError(
                f"chain must be a whole number in 0..{chains - 1} or {ALL}, got {chain!r}; count from 0."
            ) from None
    return np.array([integer("chain", chain, 0, f"count from 0, or take '{ALL}'", chains - 1)])
