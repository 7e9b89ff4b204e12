"""A data set with copies has the mean of the data, whatever the copies."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import trajens as tj
from tests.small_run import StopAfter, again, assert_same, fresh
from trajens.population import COPIES, copies_by, copies_of, even_counts, scores_by_errors, scores_by_losses
from trajens.run.control import REWEIGHTING, FixedEpochs
from trajens.run.loop import Loop
from trajens.sampling.sampler import first_control
from trajens.storage.checkpoint import checkpoints, load


@given(arrays(np.float64, st.integers(1, 40), elements=st.floats(0, 1e6)))
def test_every_example_has_a_copy_and_the_mean_is_that_of_the_data(scores):
    size = len(scores)
    copies = copies_of(copies_by(scores))
    counts = np.bincount(copies.example, minlength=size)
    assert counts.min() >= 1
    assert counts.sum() == len(copies.example) == COPIES * size
    losses = np.random.default_rng(0).standard_normal(size)
    assert np.mean((losses * copies.factor)[copies.example]) == pytest.approx(losses.mean(), abs=1e-6)


def test_copies_follow_the_scores():
    scores = np.array([0.0, 1.0, 1.0, 8.0])
    counts = copies_by(scores)
    assert counts[3] > counts[1] == counts[2] >= counts[0] == 1


def test_scores_of_wrong_answers_are_largest_where_models_disagree():
    right, seldom, half, wrong = scores_by_errors(np.array([0.0, 0.25, 0.5, 1.0]), 4)
    assert right == pytest.approx(wrong) == pytest.approx(np.sqrt(0.1 * 0.9))
    assert right < seldom < half == pytest.approx(0.5)
    # The more models agree, the surer it is; what is no number is one to look at.
    assert scores_by_errors(np.zeros(1), 16)[0] < right
    assert scores_by_errors(np.array([np.nan]), 16)[0] == pytest.approx(0.5)


@pytest.mark.parametrize("scores", [[1.0, -1.0], [np.nan, 1.0], [[1.0], [2.0]]])
def test_scores_that_are_none_are_refused(scores):
    with pytest.raises(tj.InputError, match="scores must be finite numbers >= 0"):
        copies_by(np.array(scores))


DATA = tj.datasets.perceptron(size=150, noise=1.0)
SCORES = np.where(np.arange(150) % 7 == 0, 20.0, np.linspace(0.0, 1.0, 150))
"""Strongly unequal, and nothing that divides evenly."""
TARGET = tj.Target(DATA.problem(), tau=4, sigma=0.3, s=40.0)
ALL_COPIES = tj.Penalty(150, rho=1e-3, tolerance=None, stages=1)
"""A test that asks for so little noise that it reads everything, from its first batch of four chunks on."""

BURN_IN, EPOCHS, RECORDS = 2000, 2800, 14
LEARNT = {"chains": 4, "burn_in": BURN_IN, "records": RECORDS, "acceptance": tj.Penalty(16), "scores": "losses"}


def test_all_copies_decide_as_all_data_do():
    settings = tj.Settings(chains=4, burn_in=100, acceptance=ALL_COPIES, scores=SCORES)
    copied, full = (
        tj.Sampler(TARGET, how) for how in (settings, replace(settings, acceptance=tj.Metropolis(), scores=None))
    )
    start = np.ones(2)
    (of_copies, counted), (of_data, all_data) = (s.advance(s.init(start), 400) for s in (copied, full))
    assert (np.asarray(counted.examples) == 400 * COPIES * 150).all()
    # The same proposals, the same random numbers, and the same mean loss difference but for rounding.
    np.testing.assert_array_equal(of_copies.path, of_data.path)
    np.testing.assert_array_equal(counted.accepted, all_data.accepted)
    assert (np.asarray(counted.accepted) > 20).all()


@pytest.fixture(scope="module")
def learnt():
    """A run whose scores are learnt, and the counts that it went on with after every record."""
    counts, iterate = [], Loop.iterate

    def noted(self, run, stop=None):
        recorded = run.recorded
        for now in iterate(self, run, stop):
            counts.extend([now.control.copies] * (now.recorded - recorded))
            recorded = now.recorded
            yield now

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Loop, "iterate", noted)
        run = tj.sample(TARGET, EPOCHS, **LEARNT)
    return run, counts, [first_control(run.target, run.settings).copies]


def test_scores_by_losses_are_learnt_at_the_marks_of_the_course_and_frozen_after_burn_in(learnt):
    run, counts, before = learnt
    assert all((early == even_counts(150)).all() for early in before)
    due = FixedEpochs(BURN_IN).due(REWEIGHTING, run.marks)
    changed = [
        int(mark)
        for mark, old, new in zip(run.marks, [before[-1], *counts], counts, strict=False)
        if (old != new).any()
    ]
    assert len(changed) > 2
    assert set(changed) <= due
    # Early ones cost too much to be made.
    assert changed == sorted(due)[-len(changed) :]
    assert max(changed) < BURN_IN
    assert (run.control.copies == counts[-1]).all()


def test_scores_by_losses_prefer_examples_of_large_loss(learnt):
    run = learnt[0]
    theta = run.paths.mean((0, 1))
    losses = 0.5 * (DATA.y - DATA.x @ theta) ** 2
    order = np.argsort(losses)
    counts = run.control.copies[order]
    assert counts.sum() == COPIES * 150
    assert counts[-15:].mean() > 2 * counts[:15].mean()


def test_recorded_losses_are_those_of_the_data(learnt):
    run = learnt[0]
    residual = DATA.y - run.paths.astype(np.float64) @ DATA.x.T
    np.testing.assert_allclose(run.records["loss"][:, -1], 0.5 * (residual**2).mean((1, 2)), rtol=1e-5)


def test_learnt_scores_are_stored_and_a_run_stopped_anywhere_goes_on_with_them(learnt, tmp_path, small_blocks):
    whole, out = learnt[0], tmp_path / "a"
    run = tj.sample(TARGET, EPOCHS, out=fresh(out), stop=StopAfter(30), **LEARNT)
    while not run.is_complete:
        np.testing.assert_array_equal(load(checkpoints(out)[0])["control.copies"], run.control.copies)
        run = tj.sample(TARGET, EPOCHS, out=again(out), stop=StopAfter(41), **LEARNT)
    assert_same(whole, run)
    np.testing.assert_array_equal(whole.control.copies, run.control.copies)


@pytest.mark.parametrize("scores", [None, SCORES])
def test_a_run_does_not_go_on_with_other_scores(tmp_path, scores):
    sizes = {**LEARNT, "burn_in": 20, "records": 2}
    tj.sample(TARGET, 40, out=tmp_path / "a", **sizes)
    with pytest.raises(tj.InputError, match="begun with scores losses"):
        tj.sample(TARGET, 40, out=again(tmp_path / "a"), **{**sizes, "scores": scores})


def test_losses_become_scores_whatever_they_are():
    np.testing.assert_allclose(scores_by_losses(np.array([0.0, 1.0, 4.0])), [0.0, 1.0, 2.0])
    np.testing.assert_allclose(scores_by_losses(np.array([-1.0, 0.0, 3.0])), [0.0, 1.0, 2.0])
    np.testing.assert_allclose(scores_by_losses(np.array([np.nan, 1.0, 4.0, np.inf])), [2.0, 1.0, 2.0, 2.0])
    np.testing.assert_array_equal(scores_by_losses(np.full(3, np.nan)), np.ones(3))


def test_a_test_that_takes_all_data_has_no_use_for_scores():
    with pytest.raises(tj.InputError, match="scores must be left out for a test that takes all data"):
        tj.sample(TARGET, 10, scores="losses", acceptance=tj.Metropolis())
