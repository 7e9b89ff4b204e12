"""Criteria of convergence: how far chains of one s agree in their records, and what is asked of them.

Chains of one s sample one distribution, and should agree on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from trajens.columns import DRAWS
from trajens.convergence.diagnostics import drift, ess_bulk, ess_tail, mcse, nested_rhat, rhat
from trajens.errors import InputError, integer, number
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


CONVERGED = "converged"
"""What asks for the usual."""

FEWEST_DRAWS = 8
"""Records of a chain after burn-in that anything is said of."""

DRIFT = 2.5
"""Standard errors between the two halves of a run that may be chance.

R-hat does not see a start that has not been forgotten if it is off by two errors of the mean; halves that differ do.
"""


@dataclass(frozen=True)
class Converged:
    """Of the chains of every s: R-hat and effective draws of loss and projections, error of the loss.

    Parameters
    ----------
    rhat : float
        The largest rank-normalised split R-hat, above 1.
    ess : float
        The fewest effective draws, in bulk and tails, of all chains together. Errors of runs that ended by 400 of them
        are what they say, those of 100 to 200 a tenth too small; fewer are refused.
    error : float, optional
        The largest standard error of the mean loss per model; default any.
    superchains : int, optional
        Groups of chains of every s that started from a common point each; for nested R-hat in place of R-hat.
    """

    rhat: float = 1.01
    ess: float = 400.0
    error: float | None = None
    superchains: int | None = None

    def __post_init__(self) -> None:
        # As floats: a run that is resumed knows them by how they are written.
        object.__setattr__(self, "rhat", number("rhat", self.rhat, "try 1.01", above=1.0))
        object.__setattr__(self, "ess", number("ess", self.ess, "try 400", at_least=100.0))
        if self.error is not None:
            error = number("error", self.error, "give a standard error of the loss, or leave it out", above=0.0)
            object.__setattr__(self, "error", error)
        if self.superchains is not None:
            integer("superchains", self.superchains, 2, "leave it out for chains that start from points of their own")

    @classmethod
    def named(cls, until: Any) -> Converged:
        """What ``until=`` asks for: "converged", or one of these."""
        if isinstance(until, cls):
            return until
        if isinstance(until, str) and until == CONVERGED:
            return cls()
        raise InputError(f"until must be '{CONVERGED}' or a trajens.Converged, got {until!r}; try until='{CONVERGED}'.")

    def lacking(self, groups: list[Group]) -> list[str]:
        """What is not as asked, in words; nothing where chains have converged."""
        if not groups or min(group.draws for group in groups) < FEWEST_DRAWS:
            return [f"fewer than {FEWEST_DRAWS} records after burn-in"]
        found = []
        for group in groups:
            at = f" at s = {group.s:.4g}" if len(groups) > 1 else ""
            loss = group.observed["loss"]
            drifts = np.array([loss.drift, group.weight_drift])
            # Written so that what is not a number is never enough.
            if not group.rhat <= self.rhat:
                found.append(f"R-hat {_told_apart(group.rhat, self.rhat)}{at} (asked: {self.rhat:g})")
            if not group.ess >= self.ess:
                found.append(f"{_told_apart(group.ess, self.ess)} effective draws{at} (asked: {self.ess:g})")
            if self.error is not None and not loss.mcse <= self.error:
                found.append(
                    f"an error of the loss of {_told_apart(loss.mcse, self.error)}{at} (asked: {self.error:g})"
                )
            if not (np.abs(drifts) <= DRIFT).all():
                found.append(f"halves that differ by {np.abs(drifts).max():.1f} errors{at} (at most {DRIFT:g})")
        return found


def _told_apart(value: float, asked: float) -> str:
    """A number in three digits, or in as many as tell it apart from what was asked for."""
    rounded = (float(f"{value:.{digits}g}") for digits in range(3, 18))
    return f"{next(number for number in rounded if number != asked):,.12g}"


def in_words(groups: list[Group]) -> str:
    """Whether chains have converged by what is usually asked of them, and else what is lacking."""
    lacking = Converged().lacking(groups)
    return f"not {CONVERGED}: {'; '.join(lacking)}" if lacking else CONVERGED
