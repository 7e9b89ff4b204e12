"""Convergence: whether chains agree with each other, and how many independent draws they are worth."""

from trajens.convergence.criteria import Converged, Group, Observed, by_s
from trajens.convergence.diagnostics import drift, ess_bulk, ess_mean, ess_tail, mcse, nested_rhat, rhat

__all__ = [
    "Converged",
    "Group",
    "Observed",
    "by_s",
    "drift",
    "ess_bulk",
    "ess_mean",
    "ess_tail",
    "mcse",
    "nested_rhat",
    "rhat",
]
