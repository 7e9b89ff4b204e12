"""How the loss falls in a start by evolution: what its generations were told anyway, averaged over pieces of them."""

from __future__ import annotations

import numpy as np

from trajens.records import Records

RECORDS = 128
"""Pieces of a start, at most."""

_SUMS, _COUNTS = "losses", "counted"


class StartCurve:
    """Losses of a start against the pairs that it took; nothing is evaluated for it.

    The loss of a generation is the mean over all models theta +- spread z that it tried, on its minibatch.

    Parameters
    ----------
    generations, chains : int
        Of the whole start.
    kept : dict of arrays, optional
        What `arrays` were when it was interrupted. Where these are missing, generations before are not known.
    """

    def __init__(self, generations: int, chains: int, kept: dict[str, np.ndarray] | None = None):
        self._generations = generations
        self._piece = max(1, -(-generations // RECORDS))
        pieces = -(-generations // self._piece)
        self._sums, self._counts = np.zeros((pieces, chains)), np.zeros(pieces, np.int64)
        if kept is not None and kept.get(_SUMS, self._counts).shape == self._sums.shape:
            self._sums, self._counts = kept[_SUMS].copy(), kept[_COUNTS].copy()

    def add(self, done: int, losses: np.ndarray) -> None:
        """Count the losses (n, chains) of the last n of `done` generations."""
        pieces = np.arange(done - len(losses), done) // self._piece
        # One after the other, so that sums do not depend on how many come at a time.
        np.add.at(self._sums, pieces, losses)
        np.add.at(self._counts, pieces, 1)

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """All that is needed to go on with it."""
        return {_SUMS: self._sums, _COUNTS: self._counts}

    def records(self, pairs: int) -> Records:
        """Pairs so far (``data_used``) and the mean loss since the record before, as arrays (chains, records).

        `pairs` are those of a generation, per chain.
        """
        is_known = self._counts > 0
        ends = np.minimum(self._piece * np.arange(1, len(self._counts) + 1), self._generations)[is_known]
        loss = (self._sums[is_known] / self._counts[is_known, None]).T
        return {"data_used": np.broadcast_to(pairs * ends, loss.shape).copy(), "loss": np.ascontiguousarray(loss)}
