"""Convergence: whether chains agree with each other, and how many independent draws they are worth."""

from trajens.convergence.diagnostics import drift, ess_bulk, ess_mean, ess_tail, mcse, nested_rhat, rhat

__all__ = ["drift", "ess_bulk", "ess_mean", "ess_tail", "mcse", "nested_rhat", "rhat"]
