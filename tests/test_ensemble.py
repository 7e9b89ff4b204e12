"""Votes, means and scores of an ensemble, against their definitions."""

import numpy as np
import pytest

import trajens as tj
from trajens.ensemble import expected_calibration_error, scores, vote

RNG = np.random.default_rng(2)


def random_members(tau=5, n=40, classes=4):
    raw = RNG.gamma(0.5, size=(tau, n, classes))
    return raw / raw.sum(-1, keepdims=True), RNG.integers(0, classes, n)


def test_votes_go_to_the_majority_and_ties_to_the_smallest_label():
    choices = np.array([[2, 1, 3], [2, 3, 0], [0, 1, 3], [0, 3, 1]])
    np.testing.assert_array_equal(vote(np.eye(4)[choices]), [0, 1, 3])


def test_scores_are_their_definitions():
    members, y = random_members()
    got = scores(members, y)
    mean = members.mean(0)
    assert got["nll"] == pytest.approx(-np.mean([np.log(mean[i, k]) for i, k in enumerate(y)]))
    one_hot = np.eye(4)[y]
    assert got["brier"] == pytest.approx(np.mean(np.sum((mean - one_hot) ** 2, axis=1)))
    assert got["mean_accuracy"] == pytest.approx(np.mean(mean.argmax(1) == y))
    assert got["single_accuracy"] == pytest.approx(np.mean([np.mean(m.argmax(1) == y) for m in members]))
    pairs = [(a, b) for a in range(5) for b in range(5) if a != b]
    differ = [np.mean(members[a].argmax(1) != members[b].argmax(1)) for a, b in pairs]
    assert got["disagreement"] == pytest.approx(np.mean(differ))
    assert len(got["accuracy_by_members"]) == 5
    assert got["accuracy_by_members"][-1] == got["vote_accuracy"]


def test_calibration_error_vanishes_for_calibrated_predictions_and_not_for_sure_ones():
    n = 150_000
    confidence = RNG.uniform(0.5, 1.0, n)
    probabilities = np.stack([confidence, 1 - confidence], axis=1)
    y = (RNG.random(n) > confidence).astype(int)
    # 15 bins of 10 000: each |accuracy - confidence| is a half-normal of at most 0.005.
    assert expected_calibration_error(probabilities, y) < 0.01
    sure = np.eye(2)[np.zeros(n, int)]
    assert expected_calibration_error(sure, y) == pytest.approx(np.mean(y), abs=1e-9)


def test_chunks_do_not_change_predictions():
    model = tj.models.mlp((6, 3, 3))
    ensemble = tj.Ensemble(model, np.stack([model.init(seed) for seed in range(4)]))
    x = RNG.standard_normal((23, 6)).astype(np.float32)
    whole = ensemble.member_proba(x)
    assert whole.shape == (4, 23, 3)
    np.testing.assert_allclose(whole.sum(-1), 1.0, rtol=1e-5)
    np.testing.assert_allclose(ensemble.member_proba(x, chunk=5), whole, rtol=1e-5)
    np.testing.assert_allclose(ensemble.predict_proba(x), whole.mean(0), rtol=1e-6)
    np.testing.assert_array_equal(ensemble.predict(x), vote(whole))
    assert ensemble.member_proba(x[:0]).shape == (4, 0, 3)


def test_bad_input_is_refused():
    model = tj.models.mlp((6, 3))
    with pytest.raises(tj.InputError, match="tau, 21"):
        tj.Ensemble(model, np.zeros(model.dim))
    ensemble = tj.Ensemble(model, np.zeros((2, model.dim)))
    with pytest.raises(tj.InputError, match="shape"):
        ensemble.predict(np.zeros((4, 5)))
    with pytest.raises(tj.InputError, match="one label"):
        ensemble.evaluate(np.zeros((4, 6)), np.zeros(3, int))
