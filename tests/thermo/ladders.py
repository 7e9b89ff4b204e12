"""Ladders of chains that are drawn from exact laws, without a sampler: Gaussian paths, and paths of a few bits."""

import itertools
from functools import cached_property

import numpy as np

import trajens as tj
from trajens import thermo


class Gaussian:
    """Paths of the perceptron, from their exact mean and covariance; chains of one ladder share random numbers."""

    data = tj.datasets.perceptron(seed=3, size=40, noise=0.5)
    tau, sigma, prior = 3, 0.3, 0.5
    s = np.geomspace(5.0, 80.0, 5)

    def __init__(self):
        self.x, self.y = (np.asarray(part, np.float64) for part in (self.data.x, self.data.y))
        self.exact = [self.at(s) for s in self.s]
        self.loss = np.array([exact.loss for exact in self.exact])
        self.variance = np.array([exact.variance for exact in self.exact])
        self.log_z = np.array([exact.log_z - self.exact[0].log_z for exact in self.exact])
        size = self.exact[0].mean.size
        self._roots = [np.linalg.cholesky(exact.covariance.reshape(size, size)) for exact in self.exact]

    def at(self, s):
        return tj.exact.perceptron(self.x, self.y, self.tau, self.sigma, s, self.prior)

    def rate(self, reference):
        """The rate function at a level."""
        free = self.log_z - self.log_z[reference]
        return -(self.s - self.s[reference]) * self.loss * self.tau - free

    def draw(self, rng, ladders, draws, memory=0.8, shared=0.7):
        """Tilts (chains,) and paths (chains, draws, tau, 2): Gaussian chains whose draws are correlated by `memory`."""
        shape = (ladders, draws, self.exact[0].mean.size)
        common = rng.standard_normal(shape)
        levels = []
        for exact, root in zip(self.exact, self._roots, strict=True):
            noise = shared * common + np.sqrt(1 - shared**2) * rng.standard_normal(shape)
            for d in range(1, draws):
                noise[:, d] = memory * noise[:, d - 1] + np.sqrt(1 - memory**2) * noise[:, d]
            levels.append((noise @ root.T + exact.mean.ravel()).reshape(ladders, draws, *exact.mean.shape))
        # By ladder, then by s, so that nothing depends on chains of equal s being neighbours.
        return np.tile(self.s, ladders), np.stack(levels, 1).reshape(-1, *levels[0].shape[1:])

    def losses(self, paths):
        return 0.5 * ((self.y - paths @ self.x.T) ** 2).mean(-1)

    def observed(self, rng, ladders, draws, **options):
        s, paths = self.draw(rng, ladders, draws, **options)
        return thermo.Observed(s, self.losses(paths))


class Bits:
    """Paths of three models of three bits: 512 of them, all known. A bit that flips costs a factor exp(-1)."""

    tau, bits = 3, 3
    s = np.array([0.0, 1.0, 2.0, 4.0])

    def __init__(self):
        models = np.array(list(itertools.product([0, 1], repeat=self.bits)))
        of_model = ((models @ [1.0, 2.0, 3.0] - 2.5) ** 2 / 4 + 0.3 * models[:, 0] * models[:, 2]) / 2
        self.paths = np.array(list(itertools.product(range(len(models)), repeat=self.tau)))
        flips = np.abs(np.diff(models[self.paths], axis=1)).sum((1, 2))
        self.free = np.exp(-flips)
        self.losses = of_model[self.paths]
        self.loss = self.losses.sum(1)
        self.first_bit = models[self.paths][:, :, 0].mean(1)

    def z(self, s):
        return (self.free * np.exp(-s * self.loss)).sum()

    def law(self, s):
        return self.free * np.exp(-s * self.loss) / self.z(s)

    def mean(self, values, s):
        return self.law(s) @ values

    @cached_property
    def log_z(self):
        return np.log([self.z(s) / self.z(self.s[0]) for s in self.s])

    def draw(self, rng, ladders, draws):
        """What was observed, and the first bit of every path, a model on average, (chains, draws)."""
        chosen = np.stack([rng.choice(len(self.loss), (ladders, draws), p=self.law(s)) for s in self.s])
        chosen = chosen.reshape(-1, draws)
        return thermo.Observed(np.repeat(self.s, ladders), self.losses[chosen]), self.first_bit[chosen]
