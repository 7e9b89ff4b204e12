"""Redraw one model given its neighbours: a bridge inside the path, shooting at its ends.

    interior: N((theta_{t-1} + theta_{t+1}) / 2, sigma^2 / 2)
    last:     N(theta_{tau-1}, sigma^2)
    first:    flat prior N(theta_2, sigma^2); Gaussian prior: variance v = 1/(1/sigma_0^2 + 1/sigma^2),
              mean v theta_2 / sigma^2

Left invariant: the untilted chain. A path of one model has no neighbour to be drawn from: it takes a step
of sigma, reversible for its prior.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from trajens.moves.base import Proposal, Redraw, Share, Site, mask, partially_refreshed
from trajens.randomness import Key, Purpose, normal, words
from trajens.target import PathLaw


@dataclass(frozen=True)
class SingleSite(Redraw):
    """The paper's move.

    Parameters
    ----------
    fraction : float in (0, 1], optional
        Share of the coordinates that is redrawn; exactly round(fraction * dim) of them, at least one. Default: all of
        up to 32, a quarter of more.
    refresh : float in (0, 1]
        beta of the partial refresh; 1 is a full redraw.
    """

    fraction: float | None = None
    refresh: float = 1.0

    def redraw(
        self, key: Key, path: jax.Array, site: Site, law: PathLaw, fraction: Share | None, refresh: Share
    ) -> Proposal:
        tau, dim = path.shape
        t = site.first
        old = path[t]
        noise = normal(words(key, Purpose.NOISE, dim))
        if tau == 1:
            # The step has the size of sigma, or of the prior where that is narrower; its shrinking factor
            # keeps N(0, sigma_0^2) and is 1 for a flat prior.
            beta = refresh * jnp.minimum(1.0, law.sigma * jnp.sqrt(law.prior_precision))
            step = refresh * jnp.minimum(law.sigma, jax.lax.rsqrt(law.prior_precision))
            new = jnp.sqrt(1.0 - beta**2) * old + step * noise
        else:
            mean, std = law.conditional(path, t)
            new = partially_refreshed(old, mean, std * noise, refresh)
        return Proposal(mask(key, new, old, fraction)[None], jnp.float32(0))
