"""The one tolerance of the statistical tests: Z times the Monte Carlo error over independent chains."""

import numpy as np

Z = 6.0
"""Two-sided false-alarm chance 2e-9 for a normal mean, below 1e-8 for Student's t with over 250 chains."""


def z_scores(by_chain, exact):
    """(mean - exact) / standard error, for estimates (chains, ...) of independent chains."""
    by_chain = np.asarray(by_chain, np.float64)
    error = by_chain.std(axis=0, ddof=1) / np.sqrt(by_chain.shape[0])
    return (by_chain.mean(axis=0) - exact) / error


def assert_agrees(by_chain, exact, what=""):
    """Every entry within Z standard errors of its exact value."""
    worst = np.abs(z_scores(by_chain, exact)).max()
    assert worst < Z, f"{what}: {worst:.1f} standard errors from the exact value"


def assert_path_law(history, losses, exact, what=""):
    """Mean and covariance of all entries of paths, and the mean loss, are those of the exact Gaussian.

    Parameters
    ----------
    history : (chains, records, tau, dim)
    losses : (chains, records)
        Mean loss per model of each path.
    exact : trajens.exact result
    what : str
        What to say where they are not.
    """
    offset = (np.asarray(history, np.float64) - exact.mean).reshape(*history.shape[:2], -1)
    entries = offset.shape[-1]
    assert_agrees(offset.mean(1), 0.0, f"mean {what}")
    covariance = np.einsum("crj,crk->cjk", offset, offset) / offset.shape[1]
    upper = np.triu_indices(entries)
    assert_agrees(covariance[:, *upper], exact.covariance.reshape(entries, entries)[upper], f"covariance {what}")
    assert_agrees(np.asarray(losses).mean(1), exact.loss, f"loss {what}")
