"""Numbers made of records: errors of means of few values."""

import numpy as np
import pytest
from scipy import stats

from tests.monte_carlo import Z
from trajens.records import mean_and_error, of_few


@pytest.mark.parametrize("count", [2, 4, 64])
def test_a_mean_is_within_one_error_as_often_however_few_values_there_are(count):
    replications = 10_000
    found = [mean_and_error(one) for one in np.random.default_rng(count).standard_normal((replications, count))]
    share = np.mean([abs(mean) < error for mean, error in found])
    assert abs(share - 0.6827) < Z * np.sqrt(0.6827 * 0.3173 / replications)


def test_the_error_of_a_single_value_is_not_known():
    mean, error = mean_and_error(np.array([2.0]))
    assert mean == 2.0
    assert np.isnan(error)


def test_errors_from_few_chains_are_larger_by_students_law():
    for count in (2, 3, 4, 5, 8, 16, 64, 1000):
        assert of_few(count) == pytest.approx(stats.t.ppf(stats.norm.cdf(1.0), count - 1), rel=2e-3)
