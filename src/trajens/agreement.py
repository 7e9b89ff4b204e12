"""Whether the chains of a run agree, in words."""

from __future__ import annotations

import numpy as np

from trajens.convergence import Converged, Group, by_s
from trajens.convergence.asked import FEWEST_DRAWS
from trajens.judgement import ATTENTION, OK, UNKNOWN, Judgement
from trajens.records import Records

NAME = "Convergence"

_SURELY = 1.1
"""An R-hat that few draws do not explain."""


def agreement(records: Records, burn_in: int, asked: Converged | None, longer: str) -> Judgement:
    """The judgement on R-hat and effective draws after burn-in.

    Parameters
    ----------
    records : Records
    burn_in : int
    asked : Converged, optional
        What the run was to go on for; default the usual, of which is only said whether it is there.
    longer : str
        How to go on; empty where that is not to be advised.
    """
    usual = Converged() if asked is None else asked
    groups = by_s(records, burn_in, usual.superchains)
    if not groups or groups[0].draws < FEWEST_DRAWS:
        draws = groups[0].draws if groups else 0
        few = f"{draws} records after burn-in, of {FEWEST_DRAWS} that are needed"
        return Judgement(NAME, UNKNOWN, f"Cannot say whether chains agree: there are {few}.")
    worst = max(groups, key=lambda group: np.inf if np.isnan(group.rhat) else group.rhat)
    fewest = min(group.ess for group in groups)
    lacking = usual.lacking(groups)
    found = f"{_rhat(worst, len(groups), usual)}, and {fewest:,.0f} draws are effective"
    if not lacking:
        return Judgement(NAME, OK, f"{_who(worst)} agree: {found}.")
    if asked is not None:
        following = f"the run has not converged as was asked: go on with {longer}" if longer else ""
        return Judgement(NAME, ATTENTION, f"Asked for and not reached: {'; '.join(lacking)}.", following)
    if not np.isfinite(fewest) or np.isnan(worst.rhat):
        return Judgement(NAME, UNKNOWN, "Cannot say whether chains agree: nothing changes, or is not finite.")
    if worst.rhat > _SURELY or (fewest >= usual.ess and worst.rhat > usual.rhat):
        following = f"{_who(worst).lower()} do not agree yet: go on with {longer}" if longer else ""
        return Judgement(NAME, ATTENTION, f"{_who(worst)} do not agree yet: {found}.", following)
    if fewest < usual.ess:
        few = f"{usual.ess:g} are needed to tell for sure"
        return Judgement(NAME, UNKNOWN, f"Cannot say whether {_who(worst).lower()} agree: {found}; {few}.")
    return Judgement(NAME, ATTENTION, f"{_who(worst)} agree, but the run still moves: {'; '.join(lacking)}.")


def _who(group: Group) -> str:
    return "The halves of the chain" if len(group.chains) == 1 else "Chains"


def _rhat(worst: Group, groups: int, asked: Converged) -> str:
    kind = "R-hat" if asked.superchains is None else "nested R-hat"
    where = f" at s = {worst.s:.4g}, where it is worst" if groups > 1 else ""
    return f"{kind} of loss and models is {worst.rhat:.3f}{where} (good: {asked.rhat:g} at most)"
