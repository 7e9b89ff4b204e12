"""Minibatch tests are checked for bias, not only for running.

The noisy-label perceptron of 256 points, tau = 4, sigma = 0.1, s = 150: the noise of Delta_i is that of the labels, so
batches are a large part of the data and every shortcut shows.
"""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit, ndtri

import trajens as tj
from tests.evidence import ONE_STAGE, plan_of
from tests.monte_carlo import Z, assert_agrees
from trajens.acceptance import Evidence
from trajens.acceptance.moments import moments_of
from trajens.population import permute
from trajens.randomness import Key, Purpose, fold_in, key_of, words

DATA = tj.datasets.perceptron(seed=0, noise=1.0)
TAU, SIGMA, S = 4, 0.1, 150.0
EXACT = tj.exact.perceptron(DATA.x, DATA.y, TAU, SIGMA, S)


def relative_bias(test, epochs, chains, seed=1):
    """Bias of the excess loss and its standard error, both relative to the exact excess loss."""
    target = tj.Target(DATA.problem(), TAU, SIGMA, S)
    run = tj.sample(
        target,
        epochs,
        chains=chains,
        seed=seed,
        burn_in=epochs // 5,
        move=tj.SingleSite(),
        acceptance=test,
        scan="random",
        records=epochs // 100,
    )
    summary = run.summary()
    return (summary["loss"] - EXACT.loss) / EXACT.excess, summary["loss_stderr"] / EXACT.excess, summary


@pytest.mark.parametrize(
    ("epochs", "chains", "precision", "errors"),
    [
        pytest.param(8000, 1024, 0.0035, Z, marks=pytest.mark.slow),
        pytest.param(16_000, 4096, 0.0011, 0.0, marks=pytest.mark.long),
    ],
)
def test_planned_penalty_is_within_half_a_per_cent_of_the_exact_excess_loss(epochs, chains, precision, errors):
    bias, error, summary = relative_bias(tj.Penalty(32, rho=1.35, **ONE_STAGE), epochs=epochs, chains=chains)
    assert error < precision
    assert abs(bias) < 0.005 + errors * error
    # It reads half the data, and the loss on the deciding batch is low by a sizeable part of the excess.
    assert summary["batch_size"] < 0.55 * 256
    deciding = (summary["loss_deciding"] - EXACT.loss) / EXACT.excess
    assert -0.6 < deciding < -0.2


def test_a_pooled_plan_takes_equal_batches():
    test = tj.Penalty(32, pool=True, **ONE_STAGE)
    plan = test.init(2, 2)._replace(variance=jnp.array([[1.0, 3.0], [0.0, 8.0]]), seen=jnp.array([[1, 2], [0, 4]]))
    shared = test.view(plan)
    np.testing.assert_array_equal(shared.variance, [[2.0, 2.0], [8.0, 8.0]])
    assert (np.asarray(shared.seen) > 0).all()


@pytest.mark.slow
def test_a_pooled_plan_samples_the_same_law():
    test = tj.Penalty(32, pool=True, **ONE_STAGE)
    bias, error, _ = relative_bias(test, epochs=8000, chains=512)
    assert error < 0.004
    assert abs(bias) < Z * error


@pytest.mark.slow
def test_full_data_barker_has_no_bias():
    bias, error, _ = relative_bias(tj.Barker(), epochs=8000, chains=512)
    assert error < 0.004
    assert abs(bias) < Z * error


@pytest.mark.long
def test_the_papers_scheme_samples_a_colder_law():
    # Without the finite-population factor it reads too much noise into Delta*.
    bias, error, _ = relative_bias(tj.paper_test(16), epochs=12_000, chains=512)
    assert error < 0.004
    assert -0.050 < bias < -0.008


@pytest.mark.long
def test_stopping_by_the_estimated_noise_samples_a_hotter_law():
    # The factor and the table are right, yet growing until the estimate is low selects low estimates.
    bias, error, _ = relative_bias(tj.MinibatchBarker(16), epochs=12_000, chains=512)
    assert error < 0.004
    assert 0.0 < bias < 0.035


@cache
def decisions(test, size, batch, rho2, delta, draws=2**18):
    """Whether each of many independent batches without replacement accepts; the batch size is fixed.

    The population is that of normal quantiles with the exact mean `delta`, scaled so that (S^2/b)(1 - b/N) = rho2.
    """
    population = ndtri((np.arange(size) + 0.5) / size)
    population *= np.sqrt(rho2 * batch / (1 - batch / size) / population.var(ddof=1))
    state = plan_of(test, batch, size) if isinstance(test, tj.Penalty) else ()
    return jax.tree.map(np.asarray, _decisions(test, batch, draws, state, (population + delta).astype(np.float32)))


@partial(jax.jit, static_argnums=(0, 1, 2))
def _decisions(test, batch, draws, state, population):
    size = population.shape[0]

    def one(key):
        pair = words(key, Purpose.BATCH, 2)
        drawn = population[permute(Key(pair[0], pair[1]), jnp.arange(batch), size)]
        moments = moments_of(drawn)
        # Differences of losses have the opposite sign of Delta_i.
        evidence = Evidence(moments, jnp.float32(-1), jnp.float32(0), size)
        return test.decide(state, evidence, words(key, Purpose.TEST, 4))

    return jax.lax.map(one, fold_in(key_of(4), jnp.arange(draws)), batch_size=4096)


@pytest.mark.parametrize("delta", [-2.0, -1.0, 0.0, 1.0, 2.0])
def test_acceptance_at_half_the_data_is_the_logistic_only_with_the_finite_population_factor(delta):
    size, batch, rho2 = 512, 256, 0.6
    right = decisions(tj.MinibatchBarker(batch, rho=1.0), size, batch, rho2, delta)
    assert right.is_decided.all()
    assert_agrees(right.is_accepted, expit(delta), "with the factor")

    # Without it the test believes in rho^2 = 1.2 and adds too little to reach rho_t: too cold.
    wrong = decisions(tj.MinibatchBarker(batch, rho=1.3, finite_population=False), size, batch, rho2, delta)
    frequency = wrong.is_accepted[wrong.is_decided].mean()
    if delta != 0.0:
        assert (frequency - expit(delta)) * np.sign(delta) > 0.01


@pytest.mark.parametrize("delta", [-2.0, -1.0, 0.0, 1.0, 2.0])
def test_penalty_acceptance_at_half_the_data_obeys_detailed_balance(delta):
    size, batch, rho2 = 512, 256, 1.0
    there, back = (
        decisions(tj.Penalty(batch, **ONE_STAGE), size, batch, rho2, sign * delta).is_accepted for sign in (1, -1)
    )
    # A(Delta) exp(-Delta) = A(-Delta), from independent frequencies.
    a, b = there.mean(), back.mean()
    error = np.sqrt(np.exp(-2 * delta) * a * (1 - a) / there.size + b * (1 - b) / back.size)
    assert abs(a * np.exp(-delta) - b) < Z * error
