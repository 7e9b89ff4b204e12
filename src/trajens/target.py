"""The tilted path density, and the untilted distribution of one model given its neighbours.

    pi(Theta) ~ p(theta_1) prod_t exp(-|theta_{t+1} - theta_t|^2 / (2 sigma^2)) exp(-s sum_t L(theta_t))

p(theta_1) is flat (what the paper's moves imply; not normalisable for a bounded loss) or N(0, prior^2) (recommended).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from trajens import schedule
from trajens.errors import integer, number, require
from trajens.problem import Problem


class PathLaw(NamedTuple):
    """The untilted Gaussian chain: theta_1 with precision `prior_precision` (0: flat), steps of `sigma`."""

    sigma: jax.Array
    prior_precision: jax.Array

    def conditional(self, path: jax.Array, t: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Mean and standard deviation of model `t` of a path (tau, dim), tau > 1, given its neighbours."""
        tau = path.shape[0]
        before, after = path[jnp.maximum(t - 1, 0)], path[jnp.minimum(t + 1, tau - 1)]
        return self.given_next(*self.forward(before, t > 0, jnp.float32(1)), after, t < tau - 1)

    def forward(self, before: jax.Array, has_before: jax.Array, steps: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Mean and precision of a model from what is fixed before it, ignoring all that follows.

        N(theta_a, steps sigma^2) when model a, `steps` earlier, is fixed; else the model is number `steps`
        of the path, N(0, sigma_0^2 + (steps - 1) sigma^2).
        """
        free = self.prior_precision / (1.0 + self.prior_precision * (steps - 1) * self.sigma**2)
        precision = jnp.where(has_before, 1.0 / (steps * self.sigma**2), free)
        return jnp.where(has_before, before, 0.0), precision

    def given_next(
        self, mean: jax.Array, precision: jax.Array, after: jax.Array, has_after: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Mean and standard deviation after also fixing the next model, one step of sigma away."""
        bond = jnp.where(has_after, 1.0 / self.sigma**2, 0.0)
        total = precision + bond
        # In this order a compiler has no choice of roundings: other forms differ by one bit between device counts.
        return mean + (after - mean) * (bond / total), jax.lax.rsqrt(total)


def path_length(tau: Any) -> int:
    """`tau` as a number of models that a path may have."""
    return integer("tau", tau, 1, "use 1 for a single model, 8 to 64 for an ensemble", 2**15)


class Target:
    """A tilted distribution of paths of `tau` models.

    Parameters
    ----------
    problem : Problem
    tau : int
        Number of models in a path.
    sigma : float
        Standard deviation of one step between neighbouring models.
    s : float, several floats, or schedule
        Tilt towards low loss; it multiplies the *mean* loss of each model. Several are given to as many chains each, in
        order: of ``s=[5, 20, 80]`` and 48 chains the first 16 have 5. See `Run.by_s` for a table.
    prior : "auto", None or float
        Distribution of the first model: None is flat, a number is the standard deviation of a Gaussian around 0; "auto"
        is what suits the parameters of the problem, `Problem.prior`: 0.3 for the networks of `trajens.models`, else
        flat.
    """

    def __init__(self, problem: Problem, tau: int, sigma: float, s: Any, prior: float | str | None = "auto"):
        require(
            isinstance(problem, Problem),
            f"problem must be a trajens.Problem, got {type(problem).__name__}; wrap the loss and the data in one.",
        )
        self.problem = problem
        self.tau = path_length(tau)
        self.sigma = number("sigma", sigma, "try 0.05 to 0.1", above=0.0)
        require(
            1e-12 <= self.sigma <= 1e12,
            f"sigma must be in 1e-12..1e12 to be squared in float32, got {sigma!r}; rescale the parameters.",
        )
        self.s = s
        self.s_values, self.schedule = schedule.split(s)
        self.prior: float | None = problem.prior if prior == "auto" else None
        if prior is not None and prior != "auto":
            self.prior = number("prior", prior, "use None for a flat prior or try 0.3", above=0.0)
            require(
                1e-12 <= self.prior <= 1e12,
                f"prior must be in 1e-12..1e12 to be squared in float32, got {prior!r}; use None for a flat prior.",
            )

    @property
    def law(self) -> PathLaw:
        """The untilted chain as arrays."""
        precision = 0.0 if self.prior is None else self.prior**-2
        return PathLaw(np.float32(self.sigma), np.float32(precision))  # type: ignore[arg-type]

    def s_of_chains(self, chains: int) -> np.ndarray:
        """The factor of s of every chain, shape (chains,)."""
        values = np.atleast_1d(self.s_values)
        require(
            chains % len(values) == 0,
            f"s must be one number, or some that chains can be divided into, got {len(values)} numbers for {chains} "
            f"chains; set chains to a multiple of {len(values)}, for instance {16 * len(values)}.",
        )
        return np.repeat(values, chains // len(values)).astype(np.float32)

    def s_at(self, epoch: int, chains: int) -> np.ndarray:
        """The s of every chain at an epoch, shape (chains,)."""
        tilt = 1.0 if self.schedule is None else schedule.value_at(self.schedule, epoch)
        return self.s_of_chains(chains).astype(np.float64) * tilt

    @staticmethod
    def checked(target: Any) -> Target:
        """`target`, if it is one."""
        require(
            isinstance(target, Target),
            f"target must be a trajens.Target, got {type(target).__name__}; build one from a Problem.",
        )
        return target  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"Target({self.problem}, tau={self.tau}, sigma={self.sigma:g}, s={self.s}, prior={self.prior})"
