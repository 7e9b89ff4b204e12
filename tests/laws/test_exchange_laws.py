"""Exchange of paths between s leaves the law of every s as it is, and takes paths over barriers.

Exchanges are frequent here, so that one that is accepted too often, or with the wrong sign, shows at once.
"""

import jax.numpy as jnp
import numpy as np
import pytest

import trajens as tj
from tests.monte_carlo import Z, assert_agrees, assert_path_law

DATA = tj.datasets.perceptron(seed=0, noise=1.0)
TAU, SIGMA, LEVELS = 3, 0.1, (20.0, 60.0, 150.0)


def exchanging(ladders, epochs, acceptance, levels=LEVELS, problem=None, **settings):
    target = tj.Target(problem or DATA.problem(), TAU, SIGMA, np.tile(levels, ladders))
    settings = {"exchange": tj.Exchange(every=4, space=False), "records": 75, **settings}
    return tj.sample(target, epochs, chains=ladders * len(levels), acceptance=acceptance, **settings)


@pytest.mark.parametrize(
    "own", [None, pytest.param(tj.Barker(), marks=pytest.mark.long)], ids=["the run's test", "a test of its own"]
)
def test_every_level_samples_its_exact_law(own):
    exchange = tj.Exchange(every=4, acceptance=own, space=False)
    run = exchanging(256, 1500, tj.Metropolis(), seed=2, exchange=exchange, keep_paths=True)
    after = run.records["epoch"][0] > run.burn_in
    for level, s in enumerate(LEVELS):
        exact = tj.exact.perceptron(DATA.x, DATA.y, TAU, SIGMA, s)
        chains = slice(level, None, len(LEVELS))
        losses = run.records["loss"][chains][:, after]
        assert_path_law(run.history[chains][:, after], losses, exact, f"at s = {s:g}")
    rates = run.records["swap_acceptance"][:, after].reshape(-1, len(LEVELS), after.sum()).mean((0, 2))
    assert (rates[:2] > 0.1).all()
    assert np.isnan(rates[2])


def in_the_law(levels, ladders):
    """Paths drawn from the laws of the levels."""
    rng = np.random.default_rng(3)

    def drawn(s):
        exact = tj.exact.perceptron(DATA.x, DATA.y, TAU, SIGMA, s)
        root = np.linalg.cholesky(exact.covariance.reshape(exact.mean.size, -1))
        noise = rng.standard_normal((ladders, exact.mean.size)) @ root.T
        return exact.mean + noise.reshape(ladders, *exact.mean.shape)

    return np.stack([drawn(s) for s in levels], 1).reshape(-1, TAU, 2).astype(np.float32)


@pytest.mark.slow
def test_levels_that_moved_in_burn_in_sample_their_exact_laws():
    ladders, levels = 192, (5.0, 10.0, 40.0, 150.0)
    # A start far away is not forgotten at small s in so short a run, whether levels move or not.
    start = in_the_law(levels, ladders)
    exchange = tj.Exchange(every=4)
    run = exchanging(ladders, 1500, tj.Metropolis(), levels, seed=4, exchange=exchange, keep_paths=True, initial=start)
    after, moved = run.records["epoch"][0] > run.burn_in, run.s[: len(levels)]
    np.testing.assert_array_equal(moved[[0, -1]], [5.0, 150.0])
    assert (np.abs(np.log(moved[1:-1] / levels[1:-1])) > 0.2).all()
    for level, s in enumerate(moved):
        exact = tj.exact.perceptron(DATA.x, DATA.y, TAU, SIGMA, float(s))
        chains = slice(level, None, len(levels))
        assert_path_law(run.history[chains][:, after], run.records["loss"][chains][:, after], exact, f"at s = {s:g}")


@pytest.mark.parametrize(
    "scores",
    [pytest.param(None, marks=pytest.mark.slow), pytest.param("losses", marks=pytest.mark.long)],
    ids=["even", "weighted"],
)
def test_exchanges_on_minibatches_keep_the_loss_of_every_level(scores):
    levels = (60.0, 150.0, 300.0)
    exchange = tj.Exchange(every=12, space=False)
    run = exchanging(256, 3000, tj.Penalty(16), levels, seed=5, scores=scores, burn_in=1200, exchange=exchange)
    after = run.records["epoch"][0] > run.burn_in
    for level, s in enumerate(levels):
        exact = tj.exact.perceptron(DATA.x, DATA.y, TAU, SIGMA, s)
        losses = run.records["loss"][level :: len(levels)][:, after].mean(1)
        error = losses.std(ddof=1) / np.sqrt(len(losses)) / exact.excess
        # One per cent of s is the tolerance, and the excess loss goes like a power of s that is at most one.
        assert error < 0.015
        assert abs(losses.mean() - exact.loss) / exact.excess < 0.01 + Z * error


@pytest.mark.long
def test_a_stream_exchanges_within_the_law_of_its_levels():
    """Inputs N(0, 1), labels x theta* + N(0, 1): H = 1, so that <L> is that of a perceptron of one parameter."""

    def loss(theta, keys):
        import jax

        def one(key):
            x, noise = jax.random.normal(key, (2,))
            return 0.5 * (0.5 * x + noise - theta[0] * x) ** 2

        return jax.vmap(one)(keys)

    levels, ladders = (10.0, 25.0, 60.0), 256
    target = tj.Target(tj.Stream(loss, 1, max_batch=4096), TAU, SIGMA, np.tile(levels, ladders))
    run = tj.sample(
        target,
        3000,
        chains=ladders * 3,
        exchange=tj.Exchange(every=8, space=False),
        acceptance=tj.Penalty(16),
        keep_paths=True,
        records=60,
        initial=np.array([0.5]),
        burn_in=1500,
    )
    after = run.records["epoch"][0] > run.burn_in
    kappa = 2 - 2 * np.cos(np.pi * np.arange(TAU) / TAU)
    for level, s in enumerate(levels):
        excess = 0.5 * (1 / (s + kappa / SIGMA**2)).sum() / TAU
        paths = run.history[level::3][:, after, :, 0].astype(np.float64)
        found = 0.5 * ((paths - 0.5) ** 2).mean((1, 2))
        error = found.std(ddof=1) / np.sqrt(ladders)
        assert abs(found.mean() - excess) < 0.02 * excess + Z * error


class TestDoubleWell:
    """Two wells of which the right one is a little higher: (theta^2 - 1)^2 + 0.01 theta."""

    LEVELS, TAU, SIGMA, PRIOR, LADDERS = (1.0, 2.2, 5.0, 12.0, 40.0), 2, 0.3, 1.0, 96

    def sampled(self, exchange):
        def loss(theta, batch):
            return (theta[0] ** 2 - 1) ** 2 + 0.01 * theta[0] + 0.0 * batch

        problem = tj.Problem(loss, np.zeros(4, np.float32), dim=1)
        target = tj.Target(problem, self.TAU, self.SIGMA, np.repeat(self.LEVELS, self.LADDERS), self.PRIOR)
        return tj.sample(
            target,
            6000,
            chains=len(self.LEVELS) * self.LADDERS,
            initial=np.ones(1),
            acceptance=tj.Metropolis(),
            exchange=exchange,
            observe={"right": lambda path: (path[0, 0] > 0).astype(jnp.float32)},
            records=120,
            burn_in=3000,
        )

    def right(self, run):
        """Part of the time on the right, (ladders,) at the largest s."""
        after = run.records["epoch"][0] > run.burn_in
        return run.records["right"][-self.LADDERS :][:, after].mean(1)

    def exact(self, s):
        theta = np.linspace(-2.5, 2.5, 1001)
        loss = (theta**2 - 1) ** 2 + 0.01 * theta
        log = -(theta[:, None] ** 2) / (2 * self.PRIOR**2) - (theta[:, None] - theta) ** 2 / (2 * self.SIGMA**2)
        density = np.exp(log - s * (loss[:, None] + loss) + 2 * s * loss.min())
        return density[theta > 0].sum() / density.sum()

    def test_single_chains_are_stuck_where_they_began(self):
        assert (self.right(self.sampled(None)) == 1.0).all()

    def test_exchange_brings_them_to_the_law(self):
        run = self.sampled(tj.Exchange(every=8))
        assert_agrees(self.right(run), self.exact(self.LEVELS[-1]), "part on the right")
        assert run.records["round_trips"][:, -1].sum() > 20 * self.LADDERS
        np.testing.assert_allclose(run.s[[0, -1]], [1.0, 40.0])
