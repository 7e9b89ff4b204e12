"""Fit a simulator written in NumPy; its rates are sampled, without derivatives: `python examples/numpy_simulator.py`.

An epidemic was counted for twelve weeks. The simulator makes an epidemic of rates and of chance, here normal numbers.
An example is one draw of chance, and its loss is how far the epidemic that it makes is from the one that was counted.
"""

import numpy as np

import trajens as tj

PEOPLE, WEEKS, TRUTH = 1000, 12, np.log([1.5, 0.5])


def some_of(number, chance, z):
    """How many of a number, each with some chance: a binomial number, about, made of a normal one."""
    return np.clip(np.round(number * chance + np.sqrt(number * chance * (1 - chance)) * z), 0, number)


def epidemics(theta, z):
    """Who is ill after every week (m, weeks), for m draws of chance z (m, weeks, 2); theta are logarithms of rates."""
    infection, recovery = np.exp(np.clip(theta, -20, 20))
    healthy, ill = np.full(len(z), PEOPLE - 50.0), np.full(len(z), 50.0)
    counts = []
    for week in range(WEEKS):
        infected = some_of(healthy, 1 - np.exp(-infection * ill / PEOPLE), z[:, week, 0])
        ill = ill + infected - some_of(ill, 1 - np.exp(-recovery), z[:, week, 1])
        healthy = healthy - infected
        counts.append(ill)
    return np.stack(counts, axis=1)


RNG = np.random.default_rng(3)
COUNTED = epidemics(TRUTH, RNG.standard_normal((1, WEEKS, 2)))


def loss(theta, z):
    """Squared distances (m,) of epidemics from the one that was counted; roots of counts have equal noise."""
    return 0.5 * np.mean((np.sqrt(epidemics(theta, z)) - np.sqrt(COUNTED)) ** 2, axis=1)


def main(epochs=1000):
    """Sample rates, and print their means and spreads."""
    chance = RNG.standard_normal((512, WEEKS, 2))
    problem = tj.external(loss, chance, dim=2, initial=np.zeros(2), spread=np.full(2, 0.5))
    target = tj.Target(problem, tau=4, sigma=0.1, s=4.0, prior=1.0)
    run = tj.sample(target, epochs, chains=4, acceptance=tj.Penalty(16), keep_paths=True)
    found = run.summary()
    print(f"loss {found['loss']:.3f} +- {found['loss_stderr']:.3f}, {found['batch_size']:.0f} epidemics per decision")
    logs = run.draws.reshape(-1, 2)
    for name, mean, spread, true in zip(("infection", "recovery"), logs.mean(0), logs.std(0), TRUTH, strict=True):
        print(f"rate of {name}: {np.exp(mean):.2f} within a factor of {np.exp(spread):.2f} (true: {np.exp(true):.2f})")
    return logs


if __name__ == "__main__":
    main()
