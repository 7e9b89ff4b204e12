"""Minibatch Barker (Seita et al. 2018, the paper's test): the noise of the minibatch becomes the logistic.

Grow b until rho^2 <= rho_t^2, the cut-off fires or b = N; then accept iff

    b = N:      Delta + X_log > 0                  (exact Barker)
    cut off:    Delta* > 0
    otherwise:  Delta* + X_nc + X_corr > 0,  X_nc ~ N(0, rho_t^2 - rho^2),  X_corr ~ C_{rho_t}

where N(0, rho_t^2) + X_corr is logistic up to the error of the table. Growing until the *estimated* rho is
small enough selects batches with low estimates, which biases the sampled distribution by some per cent (`Penalty` with
a plan does not).

*Correction.* The distribution of X_corr is what must be added to N(0, rho^2) to make it (nearly) logistic.

No exact distribution exists for any rho > 0. Two approximations by symmetric atoms:

- "lp": minimise eps over p >= 0, sum p = 1, such that on x = 0, 0.05, .. 14
      |sum_j p_j (Phi((y_j - x)/rho) + Phi((-y_j - x)/rho)) / 2 - S(-x)| <= eps S(x) S(-x).
  The weight makes eps bound the error of logit A, which is the error of detailed balance. Below rho = 1 the
  optimum is under the tolerance of a linear program, and weighted non-negative least squares takes its place.
- "ridge": the paper's u = (M'M + lambda I)^-1 M'v, negatives clipped, put on the points and symmetrised.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np

from trajens.acceptance.base import AcceptanceTest, Evidence, Reason, Verdict, check_rho, given_chunk, minibatch_chunk
from trajens.errors import choice, number, require
from trajens.randomness import logistic, normal, uniform


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
    """The paper's regression on the grids of the authors' program: 4 cells + 1 points for x, 2 cells + 1 for y.

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


@dataclass(frozen=True)
class MinibatchBarker(AcceptanceTest):
    """The paper's adaptive test, with a corrected table and the variance of draws without replacement.

    Parameters
    ----------
    chunk : int, optional
        Examples the batch grows by; default 32, or 240 where there are more than 4096 examples.
    rho : float in (0, 1.5]
        rho_t, the noise of Delta* at which growing stops.
    table : "lp" or "ridge"
        Distribution of X_corr: the linear program (logit error below 1e-6 at rho = 1) or the paper's ridge regression.
    cutoff : (c_0, c_1) or None
        Decide by the sign of Delta* once |Delta*| > c_0 + c_1 rho.
    finite_population : bool
        Whether rho^2 has the factor 1 - b/N.
    skew_tolerance : float, optional
        Keep growing while |kappa_3| / 12 is above this.
    """

    chunk: int | None = None
    rho: float = 1.0
    table: str = "lp"
    cutoff: tuple[float, float] | None = (10.0, 5.0)
    finite_population: bool = True
    skew_tolerance: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "chunk", given_chunk(self.chunk))
        object.__setattr__(self, "rho", check_rho(self.rho))
        choice("table", self.table, ("lp", "ridge"))
        if self.cutoff is not None:
            require(
                isinstance(self.cutoff, (tuple, list)) and len(self.cutoff) == 2,
                f"cutoff must be None or two numbers (c_0, c_1), got {self.cutoff!r}; try (10.0, 5.0).",
            )
            pair = tuple(number("cutoff", c, "try (10.0, 5.0)", at_least=0.0) for c in self.cutoff)
            object.__setattr__(self, "cutoff", pair)
        if self.skew_tolerance is not None:
            number("skew_tolerance", self.skew_tolerance, "try 0.05, or None for no limit", above=0.0)

    def chunk_size(self, size: int) -> int:
        return minibatch_chunk(self.chunk, size)

    def resolved(self, size: int) -> Self:
        return replace(self, chunk=self.chunk_size(size))

    def decide(self, state: Any, evidence: Evidence, words: jax.Array) -> Verdict:
        delta = evidence.delta
        rho2 = evidence.noise(self.finite_population)
        is_quiet = rho2 <= self.rho**2
        if self.skew_tolerance is not None:
            is_quiet &= jnp.abs(evidence.third_cumulant()) <= 12.0 * self.skew_tolerance
        is_cut_off = jnp.zeros_like(is_quiet)
        if self.cutoff is not None:
            is_cut_off = jnp.abs(delta) > self.cutoff[0] + self.cutoff[1] * jnp.sqrt(rho2)
        x_nc = jnp.sqrt(jnp.maximum(self.rho**2 - rho2, 0.0)) * normal(words[0])
        x_corr = correction_table(self.rho, self.table).sample(words[1], words[2])
        is_accepted = jnp.where(
            evidence.is_complete,
            delta + logistic(words[3]) > 0,
            jnp.where(is_cut_off, delta > 0, delta + x_nc + x_corr > 0),
        )
        reason = jnp.where(evidence.is_complete, Reason.ALL_DATA, jnp.where(is_cut_off, Reason.CUT_OFF, Reason.TESTED))
        return Verdict(evidence.is_complete | is_cut_off | is_quiet, is_accepted, reason.astype(jnp.int32))


def paper_test(chunk: int | None = None) -> MinibatchBarker:
    """The paper's scheme, with the misprints of its Algorithm 1 corrected.

    Kept as in the paper: rho_t = 1, X_corr from a ridge regression with lambda = 10, a batch that grows until its
    estimated noise is small, S^2 / b for that noise without the factor 1 - b/N (as in the authors' program), and no
    check of normality. Corrected: the sign in Barker's probability, the first batch of one chunk, the cut-off
    |Delta*| > 10 + 5 rho with a branch of its own, the grids of the regression, and a table that is symmetric with its
    mass on points.
    """
    return MinibatchBarker(chunk, rho=1.0, table="ridge", finite_population=False)
