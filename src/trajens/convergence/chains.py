"""What the records of a run say of its chains: those of one s sample one law, and should agree on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from trajens.columns import DRAWS
from trajens.convergence.diagnostics import drift, ess_bulk, ess_tail, mcse, nested_rhat, rhat
from trajens.records import Records, after_burn_in, chains_by_s

OBSERVED = DRAWS
"""Columns that chains are compared by; runs of before have the loss only."""


class Observed(NamedTuple):
    """What draws of one quantity come to; see `trajens.convergence.diagnostics`."""

    mean: float
    mcse: float
    rhat: float
    ess_bulk: float
    ess_tail: float
    drift: float


@dataclass(frozen=True)
class Group:
    """Chains of one s.

    Attributes
    ----------
    s : float
    chains : (n,)
        Their numbers in the run.
    draws : int
        Records after burn-in, of each of them.
    observed : dict of Observed
        By the name of its column: the loss, and projections of the models.
    weight_drift : float
        Of the root mean square of the weights, in standard errors, see `drift`.
    """

    s: float
    chains: np.ndarray
    draws: int
    observed: dict[str, Observed]
    weight_drift: float

    @property
    def rhat(self) -> float:
        """The largest of what changes at all; NaN where nothing does, or one is not known."""
        return max((one.rhat for one in self._changing), key=_nan_first, default=np.nan)

    @property
    def ess(self) -> float:
        """The smallest, of bulk and tail, of what changes at all."""
        found = [min(one.ess_bulk, one.ess_tail) for one in self._changing]
        return -max((-value for value in found), key=_nan_first, default=np.nan)

    @property
    def _changing(self) -> list[Observed]:
        return [one for one in self.observed.values() if one.mcse != 0.0]


def by_s(records: Records, burn_in: int, superchains: int | None = None) -> list[Group]:
    """The chains of every s, smallest first, by their records after `burn_in`; none where there are none.

    Exchange between values of s makes chains of two of them depend on each other, never those of one.

    Parameters
    ----------
    records : Records
    burn_in : int
    superchains : int, optional
        Of the chains of every s; those of a superchain started from a common point, and nested R-hat takes the place of
        R-hat.
    """
    if not records:
        return []
    is_after = after_burn_in(records, burn_in)
    groups = []
    for value, chains in chains_by_s(records["s"][:, -1]):
        after = {name: records[name][chains][:, is_after] for name in (*OBSERVED, "weight_rms") if name in records}
        observed = {name: _observed(after[name], superchains) for name in OBSERVED if name in after}
        groups.append(Group(value, chains, int(is_after.sum()), observed, drift(after["weight_rms"])))
    return groups


def numbers(groups: list[Group]) -> dict[str, float]:
    """The worst R-hat and effective draws of all s, and the error of the mean loss of all chains by what these are."""
    chains = sum(len(group.chains) for group in groups)
    # Chains of several s are independent, or nearly so.
    share = [len(group.chains) / chains * group.observed["loss"].mcse for group in groups]
    return {
        "loss_mcse": float(np.sqrt(np.square(share).sum())),
        "rhat": max((group.rhat for group in groups), key=_nan_first, default=np.nan),
        "ess": -max((-group.ess for group in groups), key=_nan_first, default=np.nan),
    }


def _observed(values: np.ndarray, superchains: int | None) -> Observed:
    values = np.asarray(values, np.float64)
    between = rhat(values) if superchains is None else nested_rhat(values, superchains)
    mean = float(values.mean()) if values.size else np.nan
    return Observed(mean, mcse(values), between, ess_bulk(values), ess_tail(values), drift(values))


def _nan_first(value: float) -> float:
    """A key by which what is not known is the worst."""
    return np.inf if np.isnan(value) else value
