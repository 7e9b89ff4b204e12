"""Losses that are not finite: such proposals are rejected and counted, and no path ever leaves the finite numbers."""

import warnings

import jax.numpy as jnp
import numpy as np
import pytest

import trajens as tj
from trajens.columns import AUDITED

EPOCHS = 400
EDGE = 0.2
DATA = np.random.default_rng(0).normal(0.1, 0.3, size=(300, 2)).astype(np.float32)
BAD_VALUES = (np.nan, np.inf, -np.inf)


def _squared(theta, batch):
    return 0.5 * ((theta - batch) ** 2).sum(1)


def _bad_beyond_edges(theta, batch):
    """NaN, infinite or infinitely good for half of the examples, beyond one edge each."""
    beyond = [theta[0] > EDGE, theta[1] > EDGE, theta[1] < -EDGE]
    bad = jnp.select(beyond, [jnp.float32(value) for value in BAD_VALUES], jnp.float32(0))
    return _squared(theta, batch) + jnp.where(batch[:, 0] > 0.1, bad, 0.0)


def _bad_late_examples(theta, batch):
    """Infinite for examples marked by a label, until theta_1 is positive."""
    values, label = batch
    return jnp.where((label > 0) & (theta[0] <= 0.0), jnp.inf, _squared(theta, values))


BEYOND_EDGES = tj.Target(tj.Problem(_bad_beyond_edges, DATA, 2), tau=4, sigma=0.1, s=20.0, prior=1.0)
TESTS = {"metropolis": tj.Metropolis(), "penalty": tj.Penalty(32)}


@pytest.mark.parametrize("name", TESTS)
def test_proposals_with_a_bad_loss_are_rejected_and_counted(name):
    run = _sampled(BEYOND_EDGES, acceptance=TESTS[name])
    _assert_sound(run)
    reasons = run.summary()["reasons"]
    assert reasons["not_finite"] > 0
    assert reasons["current_not_finite"] == 0
    assert sum(reasons.values()) == 4 * EPOCHS
    _assert_within_edges(run)


@pytest.mark.slow
def test_a_bad_model_anywhere_in_a_longer_proposal_rejects_all_of_it():
    move = tj.Mixture([(1.0, tj.Segment(2)), (1.0, tj.CentreOfMass(0.1))])
    run = _sampled(BEYOND_EDGES, acceptance=TESTS["penalty"], move=move)
    _assert_sound(run)
    assert run.summary()["reasons"]["not_finite"] > 0
    _assert_within_edges(run)


def test_a_current_model_with_a_bad_loss_is_left_and_reported():
    # Only examples that the check of the start does not look at are bad.
    label = (np.arange(300) >= 256).astype(np.int32)
    target = tj.Target(tj.Problem(_bad_late_examples, (DATA, label), 2), tau=1, sigma=0.1, s=1.0, prior=1.0)
    with pytest.warns(RuntimeWarning, match="current model was not finite"):
        run = _sampled(target, acceptance=TESTS["metropolis"], initial=[-0.05, 0.0])
    assert np.isfinite(run.history).all()
    reasons = run.summary()["reasons"]
    # Each chain starts at a bad model and leaves it once, for a good one.
    assert reasons["current_not_finite"] == 4
    assert (run.paths[..., 0] > 0.0).all()
    assert np.isfinite(run.records["loss"][:, -1]).all()
    # Nothing is left to report.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        extended = run.extend(EPOCHS)
    assert extended.summary()["reasons"]["current_not_finite"] == 4


@pytest.mark.parametrize("bad", BAD_VALUES)
def test_an_initial_path_with_a_bad_loss_is_refused(bad):
    problem = tj.Problem(lambda theta, batch: jnp.where(theta[0] > EDGE, bad, _squared(theta, batch)), DATA, 2)
    target = tj.Target(problem, tau=4, sigma=0.1, s=20.0)
    path = np.zeros((4, 2), np.float32)
    path[2, 0] = 1.0
    # One of four models is bad on the 256 examples that are looked at, in each of two chains.
    with pytest.raises(tj.InputError, match="got 512 NaN or infinite values of 2048"):
        tj.sample(target, EPOCHS, chains=2, initial=path)


def test_a_finite_loss_whose_variance_overflows_leaves_the_plan_finite():
    loss = lambda theta, batch: jnp.where((theta[0] > EDGE) & (batch[:, 0] > 0), 1e25, _squared(theta, batch))  # noqa: E731
    target = tj.Target(tj.Problem(loss, DATA, 2), tau=4, sigma=0.1, s=20.0, prior=1.0)
    run = _sampled(target, acceptance=TESTS["penalty"], burn_in=EPOCHS // 2)
    assert np.isfinite(run.state.acceptance.variance).all()


def _sampled(target, acceptance, move=None, initial=None, burn_in=0):
    move = tj.SingleSite() if move is None else move
    initial = np.zeros((4, 2)) if initial is None else initial
    return tj.sample(
        target,
        EPOCHS,
        chains=4,
        seed=1,
        burn_in=burn_in,
        move=move,
        acceptance=acceptance,
        scan="random",
        initial=initial,
        records=20,
        keep_paths=True,
    )


def _assert_sound(run):
    """All that is recorded is finite, and chains moved."""
    assert np.isfinite(run.history).all()
    for name, values in run.records.items():
        # There is no audit of so few data.
        assert np.isfinite(values).all() or name in (*sum(AUDITED, ()), "move_size"), name
    assert 0.0 < run.summary()["acceptance"] < 1.0


def _assert_within_edges(run):
    # A batch of 32 misses the bad half of the examples once in 2^32 times.
    assert (run.history[..., 0] <= EDGE).all()
    assert (np.abs(run.history[..., 1]) <= EDGE).all()
