"""Counter-based random numbers: the hash of ``jax.random``, and the laws made from its words."""

from functools import cache
from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.extend.random import threefry_2x32
from scipy import stats

from trajens.randomness import Key, Purpose, below, fold_in, key_of, logistic, normal, uniform, words

SEEDS = (0, 1, 2, 12345, 2**31 - 1, 2**31, 2**32 - 1)
SIGNIFICANCE = 1e-6
EXTREMES = jnp.array([0, 2**32 - 1], jnp.uint32)


@pytest.mark.parametrize("seed", [0, 1, 12345, 2**31 - 1])
def test_root_key_is_that_of_jax(seed):
    expected = jax.random.key_data(jax.random.key(seed, impl="threefry2x32"))
    np.testing.assert_array_equal(_data(key_of(seed)), expected)


@pytest.mark.parametrize("seed", SEEDS)
def test_fold_in_is_that_of_jax_bit_for_bit(seed):
    numbers = np.array([0, 1, 2, 3, 1000, 2**31 - 1, 2**31, 2**32 - 1], np.uint32)
    expected = jax.vmap(lambda n: jax.random.key_data(jax.random.fold_in(_reference(seed), n)))(numbers)
    np.testing.assert_array_equal(_data(fold_in(key_of(seed), jnp.asarray(numbers))), expected)


def test_repeated_fold_in_is_that_of_jax_bit_for_bit():
    chains, epochs = np.arange(5, dtype=np.uint32), np.arange(1000, 1007, dtype=np.uint32)
    root = _reference(7)
    twice = jax.vmap(lambda c: jax.vmap(lambda e: jax.random.fold_in(jax.random.fold_in(root, c), e))(epochs))(chains)
    chain = fold_in(key_of(7), jnp.asarray(chains))
    ours = fold_in(Key(chain.first[:, None], chain.second[:, None]), jnp.asarray(epochs))
    np.testing.assert_array_equal(_data(ours), jax.random.key_data(twice))


@pytest.mark.parametrize("count", [1, 2, 5])
def test_words_are_threefry_of_purpose_and_index(count):
    blocks = (count + 1) // 2
    for seed in (0, 12345, 2**32 - 1):
        for purpose in Purpose:
            key = key_of(seed)
            counters = jnp.concatenate([jnp.full(blocks, int(purpose)), jnp.arange(blocks)]).astype(jnp.uint32)
            expected = threefry_2x32(jnp.stack(key), counters)[:count]
            np.testing.assert_array_equal(words(key, purpose, count), expected)


def test_words_of_a_batch_of_keys_are_those_of_each_key():
    keys = fold_in(key_of(3), jnp.arange(4))
    together = np.asarray(words(keys, Purpose.NOISE, 5))
    for i in range(4):
        one = words(Key(keys.first[i], keys.second[i]), Purpose.NOISE, 5)
        np.testing.assert_array_equal(together[i], one)


def test_purposes_give_different_words():
    for seed in SEEDS:
        key = key_of(seed)
        drawn = {purpose: np.asarray(words(key, purpose, 64)) for purpose in Purpose}
        folded = _data(fold_in(key, jnp.arange(32))).T.ravel()
        for a, b in combinations([folded, *drawn.values()], 2):
            assert not (a == b).any()


def test_no_purpose_is_the_counter_of_fold_in():
    assert min(Purpose) > 0
    assert len({int(purpose) for purpose in Purpose}) == len(Purpose)


@settings(deadline=None, max_examples=200)
@given(word=st.integers(0, 2**32 - 1), bound=st.integers(1, 2**16 - 1))
def test_below_is_the_exact_floor(word, bound):
    assert int(below(jnp.uint32(word), bound)) == word * bound // 2**32


@pytest.mark.parametrize("bound", [1, 2, 3, 255, 256, 40000, 2**16 - 1])
def test_below_is_the_exact_floor_at_every_edge(bound):
    # The smallest word of every value, and the word before it.
    firsts = [-(-value * 2**32 // bound) for value in range(bound)]
    edges = np.array(sorted({w for first in firsts for w in (first - 1, first) if w >= 0} | {2**32 - 1}))
    expected = [int(w) * bound >> 32 for w in edges]
    np.testing.assert_array_equal(below(jnp.asarray(edges.astype(np.uint32)), bound), expected)


def test_uniform_lies_strictly_between_0_and_1_in_every_cell():
    cells = jnp.arange(2**23, dtype=jnp.uint32) << 9
    for low_bits in (0, 2**9 - 1):
        u = np.asarray(uniform(cells | jnp.uint32(low_bits)))
        np.testing.assert_array_equal(u, (np.arange(2**23) + 0.5) / 2**23)
        assert u.min() > 0.0
        assert u.max() < 1.0


@pytest.mark.parametrize("law", [normal, logistic])
def test_extreme_words_give_finite_and_opposite_values(law):
    low, high = np.asarray(law(EXTREMES))
    assert np.isfinite([low, high]).all()
    assert low < 0 < high
    assert low == pytest.approx(-high, rel=1e-6)


@pytest.mark.parametrize("law", [normal, logistic])
def test_complementary_words_give_opposite_values(law):
    word = words(key_of(11), Purpose.TEST, 2**16)
    value, opposite = np.asarray(law(word), np.float64), np.asarray(law(~word), np.float64)
    assert np.abs(value + opposite).max() <= 16 * np.finfo(np.float32).eps * (1.0 + np.abs(value).max())


@pytest.mark.parametrize(("law", "reference"), [(normal, stats.norm), (logistic, stats.logistic)])
def test_values_follow_their_law(law, reference):
    values = np.asarray(law(_words_of_epochs()), np.float64).ravel()
    assert stats.kstest(values, reference.cdf).pvalue > SIGNIFICANCE


def test_normals_of_neighbouring_epochs_are_uncorrelated():
    values = np.asarray(normal(_words_of_epochs()), np.float64)
    pairs = (values[1:] * values[:-1]).ravel()
    assert abs(pairs.mean()) <= 6.0 / np.sqrt(pairs.size)


@cache
def _words_of_epochs() -> jax.Array:
    return words(fold_in(key_of(5), jnp.arange(2**14)), Purpose.NOISE, 16)


def _reference(seed: int) -> jax.Array:
    """The same key as a typed key of JAX."""
    return jax.random.wrap_key_data(jnp.array([0, seed], jnp.uint32), impl="threefry2x32")


def _data(key: Key) -> np.ndarray:
    return np.stack([np.asarray(key.first), np.asarray(key.second)], axis=-1)
