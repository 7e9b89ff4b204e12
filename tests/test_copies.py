"""A data set with copies has the mean of the data, whatever the copies."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import trajens as tj
from trajens.copies import COPIES, copies_of, counts_by


@given(arrays(np.float64, st.integers(1, 40), elements=st.floats(0, 1e6)))
def test_every_example_has_a_copy_and_the_mean_is_that_of_the_data(scores):
    size = len(scores)
    copies = copies_of(counts_by(scores))
    counts = np.bincount(copies.example, minlength=size)
    assert counts.min() >= 1
    assert counts.sum() == len(copies.example) == COPIES * size
    losses = np.random.default_rng(0).standard_normal(size)
    assert np.mean((losses * copies.factor)[copies.example]) == pytest.approx(losses.mean(), abs=1e-6)


def test_copies_follow_the_scores():
    scores = np.array([0.0, 1.0, 1.0, 8.0])
    counts = counts_by(scores)
    assert counts[3] > counts[1] == counts[2] >= counts[0] == 1


@pytest.mark.parametrize("scores", [[1.0, -1.0], [np.nan, 1.0], [[1.0], [2.0]]])
def test_scores_that_are_none_are_refused(scores):
    with pytest.raises(tj.InputError, match="scores must be finite numbers >= 0"):
        counts_by(np.array(scores))


DATA = tj.datasets.perceptron(size=150, noise=1.0)
SCORES = np.where(np.arange(150) % 7 == 0, 20.0, np.linspace(0.0, 1.0, 150))
"""Strongly unequal, and nothing that divides evenly."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "test",
    [
        tj.Penalty(16),
        tj.Penalty(16, rho=1.0, tolerance=None, stages=1),
        tj.Penalty(600, rho=0.01, tolerance=None, stages=1),
        tj.MinibatchBarker(16, rho=0.5),
    ],
    ids=["default", "one stage", "all copies", "barker"],
)
def test_weighted_minibatches_sample_the_exact_law(test):
    target = tj.Target(DATA.problem(), tau=4, sigma=0.15, s=40.0)
    exact = tj.exact.perceptron(DATA.x, DATA.y, 4, 0.15, 40.0)
    settings = {"chains": 448, "burn_in": 400, "records": 40, "acceptance": test}
    run = tj.sample(target, 2000, scores=SCORES, initial=exact.mean.astype(np.float32), **settings)
    found = run.summary()
    assert found["loss_stderr"] < 0.01 * exact.excess
    assert abs(found["loss"] - exact.loss) < 0.01 * exact.excess + 3.5 * found["loss_stderr"]
