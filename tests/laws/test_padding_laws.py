"""Data that are padded by examples of weight 0 have the law of the data."""

import numpy as np
import pytest

import trajens as tj
from tests.laws.test_path_law import CHAINS, perceptron
from tests.monte_carlo import assert_path_law
from trajens.estimators.base import common_size, pad

TAU, SIGMA, S, PRIOR = 3, 0.5, 12.0, 1.0
DATA = perceptron(dim=2, size=50)
STATED, SIGMAS = 0.01, 3.5
"""What a minibatch test may be off by, of the excess loss, and standard errors of independent chains."""


def target():
    """A third of the examples less than there are after padding."""
    problem = pad(DATA.problem())
    assert problem.size == common_size(50) == 64
    return tj.Target(problem, TAU, SIGMA, S, PRIOR)


EXACT = tj.exact.perceptron(DATA.x, DATA.y, TAU, SIGMA, S, PRIOR)


@pytest.mark.slow
def test_padded_data_have_the_path_law_of_the_data():
    epochs, burn_in = 2000, 800
    run = tj.sample(
        target(),
        epochs,
        chains=CHAINS,
        burn_in=burn_in,
        acceptance=tj.Metropolis(),
        initial=np.full(2, 2.0),
        records=50,
        keep_paths=True,
    )
    is_after = run.records["epoch"][0] > burn_in
    assert_path_law(run.history[:, is_after], run.records["loss"][:, is_after], EXACT, "of padded data")


@pytest.mark.slow
def test_minibatches_of_padded_data_with_learnt_scores_have_its_loss():
    run = tj.sample(
        target(),
        3200,
        chains=448,
        burn_in=1200,
        records=40,
        acceptance=tj.Penalty(16),
        scores="losses",
        initial=np.full(2, 2.0),
    )
    found = run.summary()
    assert found["loss_stderr"] < 0.01 * EXACT.excess
    assert abs(found["loss"] - EXACT.loss) < STATED * EXACT.excess + SIGMAS * found["loss_stderr"]
    # Examples without a loss are hardly ever drawn.
    counts = run.control.copies
    assert (counts[50:] == 1).all()
    assert counts[:50].mean() > 4
