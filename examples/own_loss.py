"""A loss of your own in JAX, without a derivative: `python examples/own_loss.py`.

A curve of saturation, y = a x / (b + x), is fitted to measurements of which some are wrong. The loss of a measurement
is 1 where the curve misses it by more than a tolerance, and else 0: outliers cannot pull the curve.
"""

import jax.numpy as jnp
import numpy as np

import trajens as tj

TRUTH, TOLERANCE = np.array([2.0, 0.5]), 0.1


def curve(theta, x):
    """Parameters are logarithms, so that a and b are positive."""
    a, b = jnp.exp(theta)
    return a * x / (b + x)


def loss(theta, batch):
    """Losses (m,) of the examples in a batch."""
    x, y = batch
    return jnp.where(jnp.abs(y - curve(theta, x)) > TOLERANCE, 1.0, 0.0)


def main(epochs=20_000):
    """Sample curves, and print the mean and the spread of their parameters."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 3, 300)
    y = TRUTH[0] * x / (TRUTH[1] + x) + 0.04 * rng.standard_normal(300)
    y[:60] += rng.uniform(0, 3, 60)  # outliers, all on one side
    problem = tj.Problem(loss, (x, y), dim=2, prior=1.0)
    target = tj.Target(problem, tau=4, sigma=0.05, s=300.0)
    run = tj.sample(target, epochs, chains=8, acceptance=tj.Metropolis(), keep_paths=True)
    print(run.by_s())
    draws = np.exp(run.draws.reshape(-1, 2))
    for name, mean, spread, true in zip("ab", draws.mean(0), draws.std(0), TRUTH, strict=True):
        print(f"{name} = {mean:.2f} +- {spread:.2f} (true: {true})")
    return draws


if __name__ == "__main__":
    main()
