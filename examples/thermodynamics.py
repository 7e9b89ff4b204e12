"""Free energies, as the evidence of models: `python examples/thermodynamics.py`.

With tau = 1, s = N and a loss that is minus the logarithm of a likelihood, Z(N)/Z(0) is the evidence of a model: the
probability of the data, averaged over the prior. Polynomials of three degrees are compared, whose evidence is known.
"""

import numpy as np

import trajens as tj
from trajens import thermo

N, NOISE = 40, 0.3
LADDER = np.concatenate([[0.0], np.geomspace(0.02, N, 15)])


def loss(theta, batch):
    """Minus the logarithm of a normal density, without its constant."""
    powers, y = batch
    return 0.5 * ((y - powers @ theta) / NOISE) ** 2


def exact(powers, y):
    """The same evidence in closed form: the data are normal, with a covariance of noise and prior."""
    covariance = NOISE**2 * np.eye(N) + powers @ powers.T
    sign, log_det = np.linalg.slogdet(covariance / NOISE**2)
    return -0.5 * (y @ np.linalg.solve(covariance, y) + sign * log_det)


def main(epochs=4000, per_s=8):
    """Print ln Z(N)/Z(0) of three models with its error, and its exact value."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, N)
    y = 0.5 - x + 1.5 * x**2 + NOISE * rng.standard_normal(N)
    found = []
    for degree in (1, 2, 3):
        powers = x[:, None] ** np.arange(degree + 1)
        problem = tj.Problem(loss, (powers, y), dim=degree + 1, prior=1.0)
        target = tj.Target(problem, tau=1, sigma=0.3, s=np.tile(LADDER, per_s))
        how = {"chains": per_s * len(LADDER), "acceptance": tj.Metropolis(), "exchange": tj.Exchange(every=10)}
        z = thermo.log_z(thermo.observe(tj.sample(target, epochs, keep_paths=True, **how)))
        found.append((z.log_z[-1], z.stderr[-1], exact(powers, y)))
        print("degree {}: ln Z = {:.2f} +- {:.2f}, exact {:.2f}".format(degree, *found[-1]))
    return found


if __name__ == "__main__":
    main()
