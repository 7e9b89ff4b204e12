"""The law of X_corr: what must be added to N(0, rho^2) to make it (nearly) logistic.

No exact law exists for any rho > 0. Two approximations by symmetric atoms:

- "lp": minimise eps over p >= 0, sum p = 1, such that on x = 0, 0.05, .. 14
      |sum_j p_j (Phi((y_j - x)/rho) + Phi((-y_j - x)/rho)) / 2 - S(-x)| <= eps S(x) S(-x).
  The weight makes eps bound the error of logit A, which is the error of detailed balance. Below rho = 1 the
  optimum is under the tolerance of a linear program, and weighted non-negative least squares takes its place.
- "ridge": the paper's u = (M'M + lambda I)^-1 M'v, negatives clipped, put on the points and symmetrised.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from trajens.randomness import uniform


@dataclass(frozen=True, eq=False)
class CorrectionTable:
    """Symmetric atoms: |X_corr| = `atoms[j]` with probability `probabilities[j]`, sign random."""

    rho: float
    atoms: np.ndarray
    probabilities: np.ndarray

    def acceptance(self, delta: np.ndarray) -> np.ndarray:
        """P(Delta + N(0, rho^2) + X_corr > 0), exactly, in float64."""
        from scipy.special import ndtr

        d = np.asarray(delta, np.float64)[..., None]
        both = ndtr((d + self.atoms) / self.rho) + ndtr((d - self.atoms) / self.rho)
        return 0.5 * both @ self.probabilities

    def sample(self, word_atom: jax.Array, word_rest: jax.Array) -> jax.Array:
        """Draw X_corr by the alias method: one cell, one biased coin, one sign."""
        keep, alias = _alias_table(self.probabilities)
        cell = (uniform(word_atom) * keep.size).astype(jnp.int32)
        # The top bit is the sign, the others are the coin.
        coin = uniform(word_rest << 1)
        atom = jnp.where(coin < jnp.asarray(keep)[cell], cell, jnp.asarray(alias)[cell])
        size = jnp.asarray(self.atoms, jnp.float32)[atom]
        return jnp.where(word_rest >> 31 == 1, size, -size)


@cache
def correction_table(rho: float, method: str = "lp") -> CorrectionTable:
    """The table for N(0, rho^2); `method` is "lp" or "ridge"."""
    atoms, weights = (_ridge if method == "ridge" else _linear_program)(float(rho))
    used = weights > 1e-12
    return CorrectionTable(float(rho), atoms[used], weights[used] / weights[used].sum())


def _linear_program(rho: float) -> tuple[np.ndarray, np.ndarray]:
    # SciPy is imported where it is used: most runs never need a table, and it doubles the import time.
    from scipy import optimize
    from scipy.special import expit, ndtr

    x = np.arange(0.0, 14.0 + 1e-9, 0.05)
    y = np.arange(0.0, 14.0 + 3.0 * rho + 1e-9, 0.05)
    weight = expit(x) * expit(-x)
    smoothed = 0.5 * (ndtr((y - x[:, None]) / rho) + ndtr((-y - x[:, None]) / rho)) / weight[:, None]
    wanted = expit(-x) / weight
    if rho < 1.0:
        # A heavy row keeps the total at one.
        p, _ = optimize.nnls(np.vstack([smoothed, np.full(y.size, 1e7)]), np.append(wanted, 1e7), maxiter=20 * y.size)
        return y, p
    unit = 1e-3
    slack = np.full((x.size, 1), -unit)
    result = optimize.linprog(
        np.append(np.zeros(y.size), 1.0),
        A_ub=np.vstack([np.hstack([smoothed, slack]), np.hstack([-smoothed, slack])]),
        b_ub=np.concatenate([wanted, -wanted]),
        A_eq=np.append(np.ones(y.size), 0.0)[None],
        b_eq=[1.0],
        bounds=(0.0, None),
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if result.x is None:
        raise RuntimeError(f"the linear program for the correction at rho = {rho} failed: {result.message}")
    return y, result.x[:-1]


def _ridge(rho: float, half_width: float = 10.0, cells: int = 4000, penalty: float = 10.0) -> tuple[np.ndarray, ...]:
    """The paper's regression on its own grids, 4 cells + 1 points for x and 2 cells + 1 for y.

    M is smooth in x, so a Chebyshev expansion M = T C is exact to rounding with few terms, and the solution
    u = M'(M M' + lambda I)^-1 v needs only matrices of that many rows.
    """
    from numpy.polynomial import chebyshev
    from scipy.special import expit, ndtr

    x = np.linspace(-half_width, half_width, 4 * cells + 1)
    y = np.linspace(-2.0 * half_width, 2.0 * half_width, 2 * cells + 1)
    terms = int(20.0 * half_width / min(rho, 1.0))
    nodes = np.cos(np.pi * (np.arange(terms) + 0.5) / terms)
    coefficients = np.linalg.solve(
        chebyshev.chebvander(nodes, terms - 1), ndtr((half_width * nodes[:, None] - y) / rho)
    )
    q, r = np.linalg.qr(chebyshev.chebvander(x / half_width, terms - 1))
    b = r @ coefficients
    u = b.T @ np.linalg.solve(b @ b.T + penalty * np.eye(terms), q.T @ expit(x))
    u = np.maximum(u, 0.0)
    u = u + u[::-1]
    half = u[cells:].copy()
    half[0] /= 2.0
    return y[cells:], half / half.sum()


def _alias_table(p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Walker's alias method in Vose's form: keep cell i with probability keep[i], else take alias[i]."""
    scaled = p * p.size
    keep, alias = np.ones(p.size), np.arange(p.size)
    small = [i for i in range(p.size) if scaled[i] < 1.0]
    large = [i for i in range(p.size) if scaled[i] >= 1.0]
    while small and large:
        i, j = small.pop(), large[-1]
        keep[i], alias[i] = scaled[i], j
        scaled[j] -= 1.0 - scaled[i]
        if scaled[j] < 1.0:
            small.append(large.pop())
    return keep.astype(np.float32), alias.astype(np.int32)
