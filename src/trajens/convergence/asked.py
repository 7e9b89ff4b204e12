"""What is asked of chains before they count as converged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from trajens.convergence.chains import Group
from trajens.errors import InputError, integer, number

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
                found.append(f"R-hat {group.rhat:.3g}{at} (asked: {self.rhat:g})")
            if not group.ess >= self.ess:
                found.append(f"{group.ess:.0f} effective draws{at} (asked: {self.ess:g})")
            if self.error is not None and not loss.mcse <= self.error:
                found.append(f"an error of the loss of {loss.mcse:.2g}{at} (asked: {self.error:g})")
            if not (np.abs(drifts) <= DRIFT).all():
                found.append(f"halves that differ by {np.abs(drifts).max():.1f} errors{at} (at most {DRIFT:g})")
        return found


def in_words(groups: list[Group]) -> str:
    """Whether chains have converged by what is usually asked of them, and else what is lacking."""
    lacking = Converged().lacking(groups)
    return f"not {CONVERGED}: {'; '.join(lacking)}" if lacking else CONVERGED
