"""Running centred moments: merged chunks equal the direct computation, and nothing cancels."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from trajens.acceptance.moments import Moments, merge, moments_of, no_moments

CHUNKS, WIDTH = 6, 32
EPS = float(np.finfo(np.float32).eps)
UNDERFLOW = 1e-34  # some hundred results flushed to 0


@jax.jit
def _merged(values: jax.Array, is_valid: jax.Array) -> Moments:
    """Chunk after chunk, (chunks, width), as the sampler does."""
    step = lambda moments, chunk: (merge(moments, moments_of(*chunk)), None)  # noqa: E731
    return jax.lax.scan(step, no_moments(()), (values, is_valid))[0]


@jax.jit
def _merged_whole(values: jax.Array) -> Moments:
    step = lambda moments, chunk: (merge(moments, moments_of(chunk)), None)  # noqa: E731
    return jax.lax.scan(step, no_moments(()), values)[0]


def _assert_direct(moments: Moments, values: np.ndarray) -> None:
    """Equal to the float64 computation up to the rounding of float32, propagated through the formulas."""
    x = values.astype(np.float64)
    assert int(moments.n) == x.size
    if x.size == 0:
        assert [float(leaf) for leaf in moments] == [0.0] * 4
        return
    centred = x - x.mean()
    m2, m3, cubes = (centred**2).sum(), (centred**3).sum(), (np.abs(centred) ** 3).sum()
    e = 32 * EPS * np.abs(x).max() + UNDERFLOW  # error of a mean
    assert abs(float(moments.mean) - x.mean()) <= e
    assert abs(float(moments.m2) - m2) <= 64 * EPS * m2 + 4 * np.sqrt(m2 * x.size) * e + 4 * x.size * e**2 + UNDERFLOW
    bound = 256 * EPS * cubes + 12 * e * m2 + 12 * e**2 * np.sqrt(m2 * x.size) + 4 * x.size * e**3
    assert abs(float(moments.m3) - m3) <= bound + UNDERFLOW


@settings(deadline=None, max_examples=150)
@given(
    values=arrays(np.float32, (CHUNKS, WIDTH), elements=st.floats(-1000, 1000, width=32)),
    counts=st.lists(st.integers(0, WIDTH), min_size=CHUNKS, max_size=CHUNKS),
)
def test_chunks_of_any_size_merge_to_the_direct_moments(values, counts):
    is_valid = np.arange(WIDTH) < np.array(counts)[:, None]
    _assert_direct(_merged(values, is_valid), values[is_valid])


@settings(deadline=None, max_examples=50)
@given(
    values=arrays(np.float32, (CHUNKS, WIDTH), elements=st.floats(-1000, 1000, width=32)),
    last=st.integers(1, WIDTH),
)
def test_whole_chunks_and_a_masked_last_one_merge_to_the_direct_moments(values, last):
    is_valid = np.ones((CHUNKS, WIDTH), bool)
    is_valid[-1, last:] = False
    _assert_direct(_merged(values, is_valid), values[is_valid])
    _assert_direct(_merged_whole(values), values.ravel())


@settings(deadline=None, max_examples=50)
@given(
    values=arrays(np.float32, WIDTH, elements=st.floats(-1000, 1000, width=32)),
    padding=st.sampled_from([0.0, 1.0, -1e30, 3e38]),
    count=st.integers(0, WIDTH),
)
def test_masked_entries_have_no_influence(values, padding, count):
    is_valid = np.arange(WIDTH) < count
    filled = np.where(is_valid, values, np.float32(padding))
    for a, b in zip(moments_of(filled, is_valid), moments_of(np.where(is_valid, values, 0), is_valid), strict=True):
        assert float(a) == float(b)


def test_merging_with_nothing_changes_nothing():
    some = moments_of(jnp.array([1.0, 2.0, 4.0, 8.0]))
    for merged in (merge(some, no_moments(())), merge(no_moments(()), some)):
        assert [float(leaf) for leaf in merged] == [float(leaf) for leaf in some]


def test_variance_survives_where_a_sum_of_squares_cancels():
    rng = np.random.default_rng(0)
    values = (1e4 + 0.5 * rng.standard_normal((64, WIDTH))).astype(np.float32)
    exact = values.astype(np.float64).var(ddof=1)
    ours = float(_merged_whole(values).variance)
    total, squares = jnp.sum(values), jnp.sum(jnp.asarray(values) ** 2)
    naive = float((squares - total * total / values.size) / (values.size - 1))
    assert abs(naive / exact - 1.0) > 0.5
    assert abs(ours / exact - 1.0) < 1e-3


def test_skewness_survives_a_large_mean():
    rng = np.random.default_rng(1)
    values = (1e3 + rng.standard_exponential((64, WIDTH))).astype(np.float32)
    centred = values.astype(np.float64).ravel() - values.astype(np.float64).mean()
    exact = (centred**3).mean() / (centred**2).mean() ** 1.5
    assert float(_merged_whole(values).skewness) == pytest.approx(exact, rel=1e-3)


@pytest.mark.parametrize("constant", [0.0, 1.0, -3.5, 1024.0])
def test_skewness_of_constants_is_0(constant):
    moments = _merged_whole(np.full((CHUNKS, WIDTH), constant, np.float32))
    assert (float(moments.variance), float(moments.skewness)) == (0.0, 0.0)


@pytest.mark.parametrize("constant", [0.1, -12345.678, 1e-10, 1e10])
def test_constants_whose_mean_is_rounded_have_no_spread_beyond_rounding(constant):
    moments = moments_of(np.full(WIDTH, constant, np.float32))
    assert float(moments.variance) <= (8 * EPS * constant) ** 2
    assert np.isfinite(float(moments.skewness))


def test_moments_of_nothing_and_of_one_value_are_finite():
    assert float(no_moments(()).variance) == 0.0
    assert float(no_moments(()).skewness) == 0.0
    one = moments_of(jnp.array([3.0]))
    assert (float(one.variance), float(one.skewness)) == (0.0, 0.0)


def test_moments_are_taken_along_the_last_axis_of_a_batch():
    values = np.random.default_rng(2).normal(size=(3, 4, WIDTH)).astype(np.float32)
    together = moments_of(jnp.asarray(values))
    for i in np.ndindex(3, 4):
        _assert_direct(Moments(*(leaf[i] for leaf in together)), values[i])
