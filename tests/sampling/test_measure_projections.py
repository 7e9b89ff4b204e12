"""Projections of the mean model: on directions that are the same everywhere, recorded by runs that know of them."""

import numpy as np
import pytest

from tests import small_run
from trajens.columns import PROJECTIONS
from trajens.sampling.measure import directions, project

KNOWN = [[-0.42854136, 0.90352213], [0.9409316, -0.33859673], [-0.6847009, -0.7288242]]


@pytest.mark.parametrize("dim", [1, 2, 3, 1000])
def test_directions_have_length_one_and_are_a_function_of_the_dimension(dim):
    found = directions(dim)
    assert (found.shape, found.dtype) == ((3, dim), np.float32)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0, rtol=1e-6)
    directions.cache_clear()
    np.testing.assert_array_equal(directions(dim), found)


def test_directions_are_known_and_lie_anywhere():
    # Records of two versions can be compared only while these stay.
    np.testing.assert_allclose(directions(2), KNOWN, atol=2e-6)
    many = directions(10_000)
    assert np.abs(many @ many.T - np.eye(3)).max() < 6 / 100
    # Entries are normal: a third of them beyond one standard deviation.
    assert (np.abs(many) > 0.01).mean() == pytest.approx(0.3173, abs=6 * np.sqrt(0.32 * 0.68 / 30_000))


def test_the_mean_model_is_what_is_projected():
    run = small_run.sample(None, keep_paths=True)
    expected = project(np.asarray(run.history, np.float64).mean(2))
    for k, name in enumerate(PROJECTIONS):
        np.testing.assert_allclose(run.records[name], expected[..., k], rtol=1e-5, atol=1e-6)
