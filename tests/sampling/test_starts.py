"""The evolution strategy finds a start, and nothing that is not finite."""

from functools import cache

import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import trajens as tj
from trajens.randomness import fold_in, key_of
from trajens.sampling.starts import Evolution, Evolving, evolved

DATA = tj.datasets.perceptron(noise=0.3)
CHAINS, GENERATIONS = 3, 600
HOW = Evolution(pairs=8, examples=32, scale=0.7)
BEST = np.linalg.lstsq(DATA.x, DATA.y, rcond=None)[0]
START = np.float32([[3.0, 3.0], [-3.0, 0.0], [BEST[0], 0.5]])


def least_squares(theta, batch):
    return 0.5 * (batch.y - batch.x @ theta) ** 2


def with_holes(theta, batch):
    """The same, but not defined just below the best slope, and infinite just above it."""
    best = jnp.asarray(BEST[0])
    loss = jnp.where(theta[0] < best - 0.1, jnp.nan, least_squares(theta, batch))
    return jnp.where((theta[0] > best + 0.1) & (theta[0] < best + 0.2), jnp.inf, loss)


def all_alike(theta, batch):
    return jnp.full(batch.y.shape, 0.25) + 0.0 * theta[0]


@cache
def found(loss=least_squares, seed=0, generations=GENERATIONS):
    key = fold_in(key_of(np.uint32(seed)), np.arange(CHAINS))
    return evolved(tj.Problem(loss, DATA, 2), key, Evolving.of(START), generations, HOW).model


def mean_losses(models):
    return np.array([0.5 * np.mean((DATA.y - DATA.x @ theta) ** 2) for theta in models])


def test_every_chain_comes_close_to_the_least_squares():
    best = tj.exact.perceptron(DATA.x, DATA.y, 1, 1.0, 1.0).minimum
    above = mean_losses(found()) - best
    assert (mean_losses(START) - best > 0.2).all()
    assert (above < 0.01).all()
    assert len(np.unique(found()[:, 0])) == CHAINS


def test_a_seed_says_what_is_found():
    first = found()
    np.testing.assert_array_equal(first, found.__wrapped__())
    assert (first != found(seed=1)).any()


def test_no_generations_leave_the_models_as_they_are():
    np.testing.assert_array_equal(found(generations=0), START)


def test_losses_that_are_not_finite_leave_finite_models_and_say_nothing():
    models = found(with_holes)
    assert np.isfinite(models).all()
    # Where there is no loss on either side, there is no way to go.
    np.testing.assert_array_equal(models[1], START[1])
    assert (mean_losses(models) < mean_losses(START))[[0, 2]].all()


def test_losses_that_are_all_alike_leave_the_models_as_they_are():
    np.testing.assert_array_equal(found(all_alike), START)


def test_a_watch_is_told_of_generations_and_can_stop_them():
    told = []
    key = fold_in(key_of(np.uint32(0)), np.arange(CHAINS))

    def watch(now, losses):
        told.append((now.done, losses))
        return len(told) == 3

    problem = tj.Problem(least_squares, DATA, 2)
    stopped = evolved(problem, key, Evolving.of(START), GENERATIONS, HOW, watch)
    assert [done for done, _ in told] == [64, 128, 192]
    assert all(losses.shape == (64, CHAINS) for _, losses in told)
    assert told[2][1][-1].mean() < told[0][1][0].mean()
    assert (stopped.model != found()).any()
    # From where they stood, they go on as if they had not been stopped.
    np.testing.assert_array_equal(evolved(problem, key, stopped, GENERATIONS, HOW).model, found())


@given(st.floats(0.0, 1e12), st.integers(2, 10**6))
def test_a_strategy_within_a_budget_keeps_to_it_and_uses_nearly_all(budget, size):
    how, generations = Evolution().within(budget, size)
    one = how.pairs * how.examples
    assert generations * one <= budget
    assert how.examples <= size
    assert budget - generations * one < one
    assert how.pairs >= Evolution.pairs


def test_a_larger_budget_has_more_generations_and_larger_ones():
    small, large = (Evolution().within(budget, 60_000) for budget in (1.5e7, 1.5e9))
    assert small[0].pairs * small[0].examples < large[0].pairs * large[0].examples
    assert small[1] < large[1]
    assert small[0] == Evolution()
