"""The keyed permutation: exactly a permutation, uniform over single positions and pairs, fresh every epoch."""

import math
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from trajens.population import MAX_SIZE, permute, rectangle
from trajens.randomness import Key, Purpose, fold_in, key_of, words

SIGNIFICANCE = 1e-9  # about six standard deviations
NUM_KEYS = 2**19


@pytest.mark.parametrize("size", range(2, 71))
def test_a_whole_batch_is_a_permutation(size):
    # Positions beyond the end repeat the last one, as in the last chunk of the sampler: one shape for all sizes.
    positions = jnp.asarray(np.tile(np.minimum(np.arange(70), size - 1), (8, 1)))
    drawn = np.asarray(permute(_batch_keys(size, 8), positions, size))
    np.testing.assert_array_equal(np.sort(drawn[:, :size], axis=1), np.tile(np.arange(size), (8, 1)))


def test_a_single_example_is_permuted_to_itself():
    assert permute(_batch_keys(0, 3), jnp.zeros((3, 1), jnp.int32), 1).tolist() == [[0], [0], [0]]


@pytest.mark.parametrize(("size", "m"), [(53, 8), (64, 24), (70, 69), (31, 32)])
def test_chunks_that_do_not_divide_the_data_cover_it_once(size, m):
    keys = _batch_keys(1, 4)
    drawn = []
    for start in range(0, size, m):
        positions = np.minimum(start + np.arange(m), size - 1)
        chunk = np.asarray(_permuted(keys, np.tile(positions, (4, 1)), size))
        drawn.append(chunk[:, : min(m, size - start)])
    together = np.concatenate(drawn, axis=1)
    np.testing.assert_array_equal(np.sort(together, axis=1), np.tile(np.arange(size), (4, 1)))


@pytest.mark.parametrize("size", [26146, 50021, 60000])
def test_large_sets_have_no_duplicates(size):
    keys = _batch_keys(2, 2)
    drawn = np.asarray(_permuted(keys, np.tile(np.arange(size), (2, 1)), size))
    np.testing.assert_array_equal(np.sort(drawn, axis=1), np.tile(np.arange(size), (2, 1)))
    assert (drawn[0] != drawn[1]).any()


def test_a_minibatch_of_the_largest_set_is_in_range_without_duplicates():
    places = np.tile(MAX_SIZE - 1 - np.arange(1000), (4, 1))
    drawn = np.asarray(_permuted(_batch_keys(3, 4), places, MAX_SIZE))
    assert drawn.min() >= 0
    assert drawn.max() < MAX_SIZE
    assert all(np.unique(row).size == 1000 for row in drawn)


@pytest.mark.parametrize("size", [3, 7, 16, 53, 256])
def test_single_and_pair_frequencies_are_uniform(size):
    drawn = _drawn(size)
    for column in drawn.T:
        assert _p_value_of_uniform(np.bincount(column, minlength=size)) > SIGNIFICANCE
    for i, j in ((0, 1), (0, 2), (1, 2)):
        joint = np.bincount(drawn[:, i] * size + drawn[:, j], minlength=size**2).reshape(size, size)
        assert not np.diagonal(joint).any()
        assert _p_value_of_uniform(joint[~np.eye(size, dtype=bool)]) > SIGNIFICANCE


@pytest.mark.parametrize("size", [3, 4])
def test_all_orders_of_few_examples_are_equally_frequent(size):
    # Three places of at most four determine the order.
    orders, counts = np.unique(_drawn(size) @ size ** np.arange(3), return_counts=True)
    assert orders.size == math.factorial(size)
    assert _p_value_of_uniform(counts) > SIGNIFICANCE


@pytest.mark.parametrize("lag", [1, 2])
@pytest.mark.parametrize("size", [7, 16, 53])
def test_batches_of_consecutive_epochs_are_independent(size, lag):
    first = _drawn(size)[:, 0]
    joint = np.bincount(first[:-lag] * size + first[lag:], minlength=size**2)
    assert _p_value_of_uniform(joint) > SIGNIFICANCE


def test_the_excess_that_cycle_walking_unrolls_is_small():
    excess = {}
    for size in [*range(1, 10_001), 26_146, 50_000, 50_021, 60_000, 1_281_167, 10**9 + 7, MAX_SIZE - 1, MAX_SIZE]:
        rows, columns = rectangle(size)
        assert min(rows, columns) >= 1
        assert max(rows, columns) < 2**16
        excess[size] = rows * columns - size
    assert min(excess.values()) >= 0
    assert max(excess.values()) <= 20
    assert np.mean(list(excess.values())) < 2.0
    assert excess[60_000] == 0


@cache
def _drawn(size: int) -> np.ndarray:
    """The examples at the places 0, 1 and N - 1 in each of many consecutive epochs, (epochs, 3)."""
    places = np.tile([0, 1, size - 1], (NUM_KEYS, 1))
    return np.asarray(_permuted(_batch_keys(size, NUM_KEYS), places, size)).astype(np.int64)


_permuted = jax.jit(permute, static_argnums=2)


@partial(jax.jit, static_argnums=1)
def _batch_keys(seed: int, count: int) -> Key:
    """Keys of consecutive epochs, made as the sampler makes them."""
    pair = words(fold_in(key_of(seed), jnp.arange(count)), Purpose.BATCH, 2)
    return Key(pair[:, 0], pair[:, 1])


def _p_value_of_uniform(counts: np.ndarray) -> float:
    return float(stats.chisquare(counts).pvalue)
