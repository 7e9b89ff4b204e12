"""Path losses that were observed, by chain, draw and model: what all of `trajens.thermo` is computed from."""

from __future__ import annotations

from typing import Any

import numpy as np

from trajens.errors import number, require
from trajens.precision import numbers


class Observed:
    """Losses of paths drawn at several s.

    Chains of equal s are independent samples of one law. Where every s has as many chains, the r-th chain of every s is
    ladder r, and ladders are what is independent: chains of one ladder may have exchanged their paths.

    Parameters
    ----------
    s : array (chains,)
        The tilt of every chain.
    losses : array (chains, draws, tau)
        The loss of every model of every path drawn, burn-in left out.
    groups : array (groups, chains, draws, tau), optional
        Where `losses` were measured on a random part of the examples: those on disjoint groups of it of equal size,
        of which `losses` are the mean. From them follows what the choice of the part does to any result.
    share : float
        The part of all examples that was measured on; 1 without `groups`, 0 for a stream, which has no end.
    epochs : array (draws,), optional
        The epoch of every draw.
    """

    def __init__(self, s: Any, losses: Any, groups: Any = None, share: float = 1.0, epochs: Any = None):
        self.s = numbers("s", s).astype(np.float64)
        self.losses = numbers("losses", losses).astype(np.float64, copy=False)
        require(
            self.losses.ndim == 3 and self.losses.size > 0,
            f"losses must have shape (chains, draws, tau), got {self.losses.shape}; one model per path is tau = 1.",
        )
        chains, draws, _ = self.losses.shape
        require(
            self.s.shape == (chains,),
            f"s must be one number for each of {chains} chains, got shape {self.s.shape}; repeat that of equal chains.",
        )
        require(bool(np.isfinite(self.s).all()), f"s must be finite, got {self.s}; leave out what is not.")
        require_finite(self.losses)
        self.groups = None if groups is None else numbers("groups", groups)
        self.share = number(
            "share", share, "it is the part of all examples that was measured on", at_least=0, at_most=1
        )
        require(
            self.groups is None or (self.groups.shape[1:] == self.losses.shape and len(self.groups) > 1),
            f"groups must have shape (groups, *{self.losses.shape}) with two or more, got "
            f"{None if self.groups is None else self.groups.shape}; leave them out for losses on all data.",
        )
        require(
            self.groups is not None or self.share == 1.0,
            f"share must be 1 where there are no groups, got {share!r}; give the losses on groups of the examples.",
        )
        self.epochs = None if epochs is None else numbers("epochs", epochs).astype(np.float64)
        require(
            self.epochs is None or self.epochs.shape == (draws,),
            f"epochs must be one for each of {draws} draws, got {None if self.epochs is None else self.epochs.shape}; "
            "all chains are drawn from at the same ones.",
        )

    @property
    def chains(self) -> int:
        """How many there are, of all s."""
        return self.losses.shape[0]

    @property
    def draws(self) -> int:
        """Paths of every chain."""
        return self.losses.shape[1]

    @property
    def tau(self) -> int:
        """Models of a path."""
        return self.losses.shape[2]

    @property
    def path_loss(self) -> np.ndarray:
        """L = sum_t L(theta_t) of every path, (chains, draws)."""
        return self.losses.sum(-1)

    @property
    def levels(self) -> np.ndarray:
        """The different s, ascending."""
        return np.unique(self.s)

    @property
    def members(self) -> list[np.ndarray]:
        """The chains of every level, in their order: the r-th of each belongs to ladder r."""
        return [np.flatnonzero(self.s == s) for s in self.levels]

    @property
    def loss_error(self) -> np.ndarray:
        """Standard error (chains,) that the choice of examples leaves in the mean loss at the s of every chain.

        (1 - n/N)^1/2 times that of a mean over groups of the examples; 0 where all data were measured on. It is the
        same mistake at all chains of one s, and nearly so at others.
        """
        error = np.zeros(self.chains)
        if self.groups is not None:
            for chains in self.members:
                means = self.groups[:, chains].mean((1, 2, 3), dtype=np.float64)
                error[chains] = np.sqrt((1.0 - self.share) * means.var(ddof=1) / len(means))
        return error

    def __repr__(self) -> str:
        return f"Observed(levels={len(self.levels)}, chains={self.chains}, draws={self.draws}, tau={self.tau})"


def require_finite(losses: np.ndarray) -> None:
    """Refuse losses that are no numbers."""
    bad = int((~np.isfinite(losses)).sum())
    require(bad == 0, f"losses must be finite, got {bad} that are not; leave out those chains, or draw them again.")
