"""Two problems whose answer is known, for the programs that are asked about the network: one has two phases, one not.

`HolePaths`: the hole in a flat landscape of `golf_hole`, for a path so stiff that all its models are in the hole or
none is. Where both weigh alike, the loss jumps from 1 to nearly 0: coexistence.

`Perceptron`: linear regression, whose paths are a Gaussian: `trajens.exact.perceptron` has the mean and the variance of
the path loss at every s. The loss falls as far as that of the network, and nothing jumps.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import jax
import numpy as np

import trajens as tj
from trajens.acceptance import AcceptanceTest
from trajens.exact import ExactPaths
from trajens.moves import CentreOfMass, Mixture, Proposer, SingleSite
from trajens_paper.golf_hole import WIDTH, golf_hole


@dataclass(frozen=True)
class HolePaths:
    """Paths of the golf hole, short beside the hole; `shift` is how far one is moved as a whole."""

    sigma: float = WIDTH / 10
    prior: float = 1.0
    shift: float = 2 * WIDTH

    @cached_property
    def problem(self) -> tj.Problem:
        """The hole."""
        return golf_hole()

    def acceptance(self, tau: int) -> AcceptanceTest:
        """Exact; its examples are all alike."""
        return tj.Metropolis()

    def move(self, tau: int) -> Proposer:
        """As often a whole path as one of its models."""
        return Mixture([(1.0, SingleSite()), (1.0, CentreOfMass(self.shift))])


@dataclass(frozen=True)
class Perceptron:
    """Linear regression, a label with `noise` for each of `inputs` numbers, of which an example has one."""

    sigma: float = 0.05
    prior: float = 0.3
    inputs: int = 64
    noise: float = 0.3

    @cached_property
    def _data(self) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(0)
        place = np.arange(self.inputs)
        y = self._size * self.prior * rng.normal(size=self.inputs) + self.noise * rng.normal(size=self.inputs)
        return place, y.astype(np.float32)

    @property
    def _size(self) -> float:
        """Of the one number of an example, so that the Hessian is one."""
        return float(np.sqrt(self.inputs))

    @cached_property
    def problem(self) -> tj.Problem:
        """Half the square of what is left of a label."""
        return tj.Problem(self._loss, self._data, self.inputs)

    def _loss(self, theta: jax.Array, batch: tuple[jax.Array, jax.Array]) -> jax.Array:
        place, y = batch
        return (y - self._size * theta[place]) ** 2 / 2

    def acceptance(self, tau: int) -> AcceptanceTest:
        """Exact."""
        return tj.Metropolis()

    def move(self, tau: int) -> Proposer:
        """One model at a time, and the whole path by far and by little."""
        shifts = [(0.25, CentreOfMass(width)) for width in (self.sigma, self.sigma / 3)]
        return Mixture([(1.0, SingleSite()), *shifts])

    def exact(self, tau: int, s: float) -> ExactPaths:
        """The distribution of a path."""
        place, y = self._data
        return tj.exact.perceptron(self._size * np.eye(self.inputs)[place], y, tau, self.sigma, s, self.prior)
