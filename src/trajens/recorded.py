"""What is read off the records of a run, in memory or at rest."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from trajens.convergence import Group, by_s
from trajens.inference_data import inference_data
from trajens.records import Records


class HasRecords(Protocol):
    """A run, of which records and kept paths can be asked."""

    @property
    def records(self) -> Records:
        """Arrays (chains, records)."""

    @property
    def history(self) -> np.ndarray | None:
        """Paths (chains, records, tau, dim), where they were kept."""

    @property
    def burn_in(self) -> int:
        """The epoch at which averages begin."""


class Recorded:
    """What `Run` and `StoredRun` have in common."""

    def convergence(self: HasRecords, superchains: int | None = None) -> list[Group]:
        """R-hat, effective draws, errors and drifts of loss and projections, for the chains of every s after burn-in.

        Parameters
        ----------
        superchains : int, optional
            Of the chains of every s, neighbours that started from a common point each: nested R-hat in place of R-hat.

        Returns
        -------
        list of trajens.convergence.Group
        """
        return by_s(self.records, self.burn_in, superchains)

    def to_arviz(self: HasRecords, s: float | None = None, chains: Any = None) -> Any:
        """Records after burn-in for ArviZ; needs ``pip install 'trajens[arviz]'``.

        Parameters
        ----------
        s : float, optional
            Chains of this s; needed where there are several, which sample several laws.
        chains : sequence of int, optional
            Their numbers; default all of the s.

        Returns
        -------
        arviz.InferenceData, or xarray.DataTree from ArviZ 1 on
            With groups ``posterior`` (loss, projections of the models) and ``sample_stats``, see
            `trajens.inference_data`.
        """
        return inference_data(self.records, self.history, self.burn_in, s, chains)
