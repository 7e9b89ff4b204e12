"""Shift the whole path: theta_t <- theta_t + delta for all t, delta ~ N(0, width^2).

The steps of the path do not change. Left invariant: the untilted chain with a flat prior; a Gaussian prior
enters through log_ratio = ln p(theta_1') - ln p(theta_1).
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from trajens.errors import number
from trajens.moves.base import Move, Proposal, Site
from trajens.randomness import Key, Purpose, normal, words
from trajens.target import PathLaw


@dataclass(frozen=True)
class CentreOfMass(Move):
    """Move the slow mode of long paths; use it in a `Mixture` with a move that changes their shape.

    Parameters
    ----------
    width : float
        Standard deviation of the shift in every coordinate.
    """

    width: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", number("width", self.width, "try sigma or less", above=0.0))

    def span(self, tau: int) -> int:
        return tau

    def positions(self, tau: int) -> int:
        return 1

    def period(self, tau: int) -> int:
        return 1

    def site_at(self, i: jax.Array, tau: int) -> tuple[jax.Array, jax.Array]:
        return jnp.int32(0), jnp.int32(tau)

    def propose(self, key: Key, path: jax.Array, site: Site, law: PathLaw) -> Proposal:
        delta = self.width * normal(words(key, Purpose.NOISE, path.shape[1]))
        # |theta_1 + delta|^2 - |theta_1|^2, written so that it does not cancel.
        growth = jnp.sum(delta * (2.0 * path[0] + delta))
        return Proposal(path + delta, -0.5 * law.prior_precision * growth)
