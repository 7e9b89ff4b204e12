"""The evolution strategy finds a start, and nothing that is not finite."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trajens as tj
from tests.monte_carlo import Z
from trajens.losses import CrossEntropy, Weighted, WeightedData, ZeroOne, compiled_losses_of_pairs, guide_of
from trajens.randomness import fold_in, key_of
from trajens.sampling.starts import Evolution, Evolving, chain_keys, evolve, initial_paths

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
    return evolve(tj.Problem(loss, DATA, 2), key, Evolving.of(START), generations, HOW).model


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
    stopped = evolve(problem, key, Evolving.of(START), GENERATIONS, HOW, watch)
    assert [done for done, _ in told] == [64, 128, 192]
    assert all(losses.shape == (64, CHAINS) for _, losses in told)
    assert told[2][1][-1].mean() < told[0][1][0].mean()
    assert (stopped.model != found()).any()
    # From where they stood, they go on as if they had not been stopped.
    np.testing.assert_array_equal(evolve(problem, key, stopped, GENERATIONS, HOW).model, found())


LINEAR = tj.models.linear(2, 2)
CLASSES = DATA._replace(y=(DATA.y > np.median(DATA.y)).astype(np.int32))
WEIGHTS = np.linspace(0.5, 1.5, len(CLASSES.y), dtype=np.float32)


@pytest.mark.parametrize(
    ("counts", "is_seen_by", "data"),
    [
        (ZeroOne(LINEAR), CrossEntropy(LINEAR), CLASSES),
        (Weighted(ZeroOne(LINEAR)), Weighted(CrossEntropy(LINEAR)), WeightedData(CLASSES, WEIGHTS)),
    ],
)
def test_a_loss_that_counts_is_guided_by_the_cross_entropy_of_the_same_outputs(counts, is_seen_by, data):
    """Models are those of the other loss to the last bit, and the losses that are told are its own."""
    begin = Evolving.of(np.zeros((CHAINS, LINEAR.dim), np.float32))
    key = fold_in(key_of(np.uint32(0)), np.arange(CHAINS))

    def evolved(loss):
        told = []
        watch = lambda _, losses: bool(told.append(losses))  # noqa: E731
        return evolve(tj.Problem(loss, data, LINEAR.dim), key, begin, 256, HOW, watch).model, np.concatenate(told)

    assert guide_of(counts) == is_seen_by
    assert guide_of(is_seen_by) == is_seen_by
    models, wrong = evolved(counts)
    others, entropy = evolved(is_seen_by)
    np.testing.assert_array_equal(models, others)
    assert (np.abs(wrong - entropy) > 0.01).mean() > 0.9
    if isinstance(counts, ZeroOne):
        looked_at = 2 * HOW.pairs * HOW.examples
        np.testing.assert_allclose(wrong * looked_at, np.round(wrong * looked_at), atol=1e-3)


def test_a_loss_of_ones_own_may_name_its_guide():
    class Signs:
        def __init__(self, guide):
            if guide is not None:
                self.guide = guide

        def __call__(self, theta, batch):
            return (jnp.sign(batch.x @ theta) != jnp.sign(batch.y)).astype(jnp.float32)

    assert guide_of(Signs(least_squares)) is least_squares
    assert found(Signs(None)).shape == START.shape
    np.testing.assert_array_equal(found(Signs(least_squares)), found())


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


def ranked(theta, batch):
    """Compares every example with its neighbour in the batch."""
    outputs = batch.x @ theta
    return jnp.maximum(0.0, 1.0 - (outputs - jnp.roll(outputs, 1)))


def standardised(theta, batch):
    """By the mean of the batch, as networks in training do."""
    return 0.5 * (batch.y - (batch.x - batch.x.mean(0)) @ theta) ** 2


RNG = np.random.default_rng(0)


def with_noise(theta, batch):
    """Drawn when it is traced, a number or an array."""
    return least_squares(theta + RNG.standard_normal(2).astype(np.float32), batch)


def with_a_number(theta, batch):
    return least_squares(theta, batch) + RNG.standard_normal()


def at(loss, data=DATA, dim=2):
    problem = loss if isinstance(loss, tj.Problem) else tj.Problem(loss, data, dim, initial=np.ones(dim))
    return initial_paths(tj.Target(problem, 3, 0.1, 5.0), chain_keys(0, 2))


@pytest.mark.parametrize(
    ("loss", "sentence"),
    [
        (ranked, "others in its batch"),
        (standardised, "others in its batch"),
        (with_noise, "traced again"),
        (with_a_number, "traced again"),
    ],
)
def test_losses_that_depend_on_their_batch_or_on_when_they_are_traced_are_refused(loss, sentence):
    with pytest.raises(tj.InputError, match=sentence):
        at(loss)


def test_losses_of_one_example_each_are_taken():
    noise = np.random.default_rng(0).standard_normal(2).astype(np.float32)
    # Drawn once, however often it is traced; the 0-1 loss jumps, and a loss may be the same for all.
    fixed = lambda theta, batch: least_squares(theta + noise, batch)  # noqa: E731
    wrong = lambda theta, batch: ((batch.x @ theta > 0) != (batch.y > 0)).astype(jnp.float32)  # noqa: E731
    for loss in (least_squares, fixed, wrong, all_alike):
        assert np.isfinite(at(loss)).all()
    # Two examples are as few as there may be.
    assert at(least_squares, tj.datasets.PerceptronData(DATA.x[:2], DATA.y[:2])).shape == (2, 3, 2)


def test_a_stream_whose_examples_know_each_other_is_refused():
    one = jax.vmap(lambda theta, key: (jax.random.normal(key) - theta[0]) ** 2, in_axes=(None, 0))
    assert at(tj.Stream(one, 1)).shape == (2, 3, 1)
    with pytest.raises(tj.InputError, match="others in its batch"):
        at(tj.Stream(lambda theta, keys: one(theta, keys) + one(theta, keys).mean(), 1))


def test_nothing_more_is_compiled_to_look_at_other_batches():
    programs = compiled_losses_of_pairs.__wrapped__
    before = programs._cache_size()
    at(lambda theta, batch: 2.0 * least_squares(theta, batch))
    assert programs._cache_size() == before + 1


def test_chains_of_a_pytree_start_apart_but_for_the_first():
    params = {"a": np.float32([3.0, -4.0]), "b": np.float32(0.0)}
    loss = lambda params, batch: (batch.y - batch.x @ params["a"] - params["b"]) ** 2  # noqa: E731
    of_stream = tj.Stream.from_pytree(lambda p, keys: jnp.full(len(keys), p["a"].sum() + p["b"]), params)
    chains, of_all = 400, np.sqrt(25 / 3)
    for made in (tj.Problem.from_pytree(loss, DATA, params), of_stream):
        first = initial_paths(tj.Target(made, 2, 0.1, 5.0), chain_keys(0, chains))[:, 0]
        np.testing.assert_array_equal(first[0], [3.0, -4.0, 0.0])
        # An array of zeros has the size of all.
        np.testing.assert_allclose(
            first[1:].std(0), [np.sqrt(12.5), np.sqrt(12.5), of_all], rtol=Z / np.sqrt(2 * chains)
        )
    for spread in (0.0, 0.2):
        problem = tj.Problem.from_pytree(loss, DATA, params, spread=spread)
        first = initial_paths(tj.Target(problem, 2, 0.1, 5.0), chain_keys(0, chains))[:, 0]
        assert (first[0] == [3.0, -4.0, 0.0]).all() == (spread == 0)
        np.testing.assert_allclose(first.std(0), spread, rtol=Z / np.sqrt(2 * chains), atol=1e-6)
