"""Redraw a segment of neighbouring models given the two models around it ("staging").

Backwards from the last model of the segment, each is drawn given the next one and all that is fixed before:

    theta_j | theta_{j+1} ~ N((mu_j / V_j + theta_{j+1} / sigma^2) v_j, v_j),  1/v_j = 1/V_j + 1/sigma^2

with (mu_j, V_j) = (theta_a, j sigma^2) behind a fixed model a, and (0, sigma_0^2 + (j-1) sigma^2) at the start
of the path. At the end of the path the last model has no next one: v = V. Left invariant: the untilted chain.

Segments start at every model, and up to length - 1 before the first; cut off at the ends of the path, so that every
model is redrawn equally often.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from trajens.errors import integer, require
from trajens.moves.base import Proposal, Redraw, Share, Site, mask, partially_refreshed
from trajens.randomness import Key, Purpose, normal, words
from trajens.target import PathLaw


@dataclass(frozen=True)
class Segment(Redraw):
    """Redraw up to `length` models at once.

    Parameters
    ----------
    length : int
        Models in a segment, less than tau.
    fraction : float in (0, 1], optional
        Share of the coordinates that is redrawn, the same ones in the whole segment. Default: all of up to 32, a
        quarter of more.
    refresh : float in (0, 1]
        beta of the partial refresh; 1 is a full redraw.
    """

    length: int
    fraction: float | None = None
    refresh: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "length", integer("length", self.length, 1, "try 2 to 8 models"))
        super().__post_init__()

    def check(self, tau: int) -> None:
        require(
            self.length < tau,
            f"length of a segment must be in 1..{tau - 1} for tau = {tau}, got {self.length}; a segment needs a "
            "model beside it that stays, use SingleSite for tau = 1.",
        )

    def span(self, tau: int) -> int:
        return self.length

    def positions(self, tau: int) -> int:
        return tau + self.length - 1

    def period(self, tau: int) -> int:
        return self.length + 1

    def site_at(self, i: jax.Array, tau: int) -> tuple[jax.Array, jax.Array]:
        start = i + 1 - self.length
        return jnp.maximum(start, 0), jnp.minimum(start + self.length, tau)

    def redraw(
        self, key: Key, path: jax.Array, site: Site, law: PathLaw, fraction: Share | None, refresh: Share
    ) -> Proposal:
        tau, dim = path.shape
        rows = site.first + jnp.arange(self.length)
        old = path[jnp.minimum(rows, tau - 1)]
        noise = normal(words(key, Purpose.NOISE, self.length * dim)).reshape(self.length, dim)
        before, has_before = path[jnp.maximum(site.first - 1, 0)], site.first > 0
        # Mean and noise of the segment follow the same linear recursion; the partial refresh needs both.
        next_mean, next_noise = path[jnp.minimum(site.stop, tau - 1)], jnp.zeros(dim, path.dtype)
        has_next = site.stop < tau
        new = []
        for j in reversed(range(self.length)):
            is_used = site.first + j < site.stop
            mean, precision = law.forward(before, has_before, jnp.float32(j + 1))
            mean, std = law.given_next(mean, precision, next_mean, has_next)
            pull, _ = law.given_next(jnp.zeros_like(mean), precision, next_noise, has_next)
            fluctuation = pull + std * noise[j]
            new.append(partially_refreshed(old[j], mean, fluctuation, refresh))
            next_mean = jnp.where(is_used, mean, next_mean)
            next_noise = jnp.where(is_used, fluctuation, next_noise)
            has_next = has_next | is_used
        return Proposal(mask(key, jnp.stack(new[::-1]), old, fraction), jnp.float32(0))
