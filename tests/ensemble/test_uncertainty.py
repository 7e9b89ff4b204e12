"""Numbers of uncertainty are those of their definitions, and of closed forms."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trajens as tj
from trajens.ensemble import uncertainty as un

RNG = np.random.default_rng(0)


def dirichlet(tau, n, classes, seed=0):
    return np.random.default_rng(seed).dirichlet(np.full(classes, 0.5), (tau, n))


def test_entropies_add_up_and_are_those_of_known_cases():
    found = un.entropies(dirichlet(5, 40, 4))
    np.testing.assert_allclose(found.total, found.expected + found.mutual_information, atol=1e-12)
    sure = np.zeros((2, 1, 2))
    sure[0, 0, 0] = sure[1, 0, 1] = 1.0  # both sure, of different classes
    apart = un.entropies(sure)
    assert (apart.total[0], apart.expected[0]) == pytest.approx((np.log(2), 0.0))
    alike = un.entropies(np.full((3, 1, 4), 0.25))
    assert (alike.total[0], alike.mutual_information[0]) == pytest.approx((np.log(4), 0.0))


def test_disagreement_is_the_share_of_pairs_that_differ():
    proba = dirichlet(6, 30, 3)
    chosen = proba.argmax(-1)
    pairs = [(a, b) for a in range(6) for b in range(a)]
    expected = np.mean([chosen[a] != chosen[b] for a, b in pairs], axis=0)
    np.testing.assert_allclose(un.disagreement(un.counted_votes(proba)), expected)
    assert (un.disagreement(un.counted_votes(proba[:1])) == 0).all()


@pytest.mark.parametrize("is_equal_mass", [True, False])
def test_calibrated_confidences_have_no_error_and_others_theirs(is_equal_mass):
    confidence = RNG.uniform(0.2, 1.0, 200_000)
    is_right = RNG.uniform(size=confidence.size) < confidence
    assert un.reliability(confidence, is_right, is_equal_mass=is_equal_mass).expected_error < 0.01
    # Always 0.9 sure and right in 0.6 of the cases.
    often = un.reliability(np.full(1000, 0.9), np.arange(1000) < 600, is_equal_mass=False)
    assert (often.expected_error, often.largest_error) == pytest.approx((0.3, 0.3))


def test_bins_of_equal_width_are_those_of_the_definition():
    confidence, is_right = RNG.uniform(size=500), RNG.uniform(size=500) < 0.5
    found = un.reliability(confidence, is_right, 10, is_equal_mass=False)
    expected = 0.0
    for low in np.arange(10) / 10:
        here = (confidence >= low) & (confidence < low + 0.1)
        expected += here.mean() * abs(is_right[here].mean() - confidence[here].mean())
    assert found.expected_error == pytest.approx(expected)
    assert found.weight.sum() == pytest.approx(1.0)


def test_the_error_of_equal_mass_is_that_of_scores():
    proba, y = dirichlet(1, 300, 5)[0], RNG.integers(0, 5, 300)
    found = un.reliability(proba.max(1), proba.argmax(1) == y)
    assert found.expected_error == pytest.approx(tj.ensemble.expected_calibration_error(proba, y))


def test_the_parts_of_the_brier_score_add_up_to_it():
    proba, y = dirichlet(1, 700, 4)[0], RNG.integers(0, 4, 700)
    brier = ((proba - np.eye(4)[y]) ** 2).sum(1).mean()
    assert un.brier_parts(proba, y).score == pytest.approx(brier)


def test_the_parts_of_the_brier_score_are_those_of_the_definition():
    # Two forecasts, each as often: a class of chance 0.2 where 0.4 is said, of 0.8 where 0.9 is.
    p, o = np.repeat([0.4, 0.9], 500), np.tile(np.arange(500) < 100, 2)
    o[500:] = np.arange(500) < 400
    found = un.brier_parts(np.stack([1 - p, p], 1), o.astype(int), bins=2)
    assert found.within == pytest.approx(0.0, abs=1e-12)
    assert found.reliability == pytest.approx(2 * (0.5 * 0.2**2 + 0.5 * 0.1**2))
    assert found.resolution == pytest.approx(2 * 0.3**2)
    assert found.uncertainty == pytest.approx(2 * 0.25)


def test_selective_risk_of_known_orders():
    is_right = np.array([True, True, False, False])
    best = un.selective(np.array([0.9, 0.8, 0.7, 0.6]), is_right)
    np.testing.assert_allclose(best.risk, [0, 0, 1 / 3, 1 / 2])
    np.testing.assert_allclose(best.coverage, [0.25, 0.5, 0.75, 1.0])
    assert best.area == pytest.approx((1 / 3 + 1 / 2) / 4)
    unsure = un.selective(np.full(4, 0.5), is_right)
    np.testing.assert_allclose(unsure.risk, 0.5)


@settings(deadline=None)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=30), st.lists(st.integers(0, 5), min_size=1, max_size=30))
def test_auroc_is_the_share_of_pairs_in_order(inside, outside):
    pairs = [1.0 if b > a else 0.5 if a == b else 0.0 for a in inside for b in outside]
    assert un.auroc(np.array(inside), np.array(outside)) == pytest.approx(np.mean(pairs))


def test_the_rate_of_false_positives_is_at_the_threshold_that_finds_enough():
    inside, outside = RNG.normal(size=20_000), RNG.normal(2.0, 1.0, 20_000)
    # 95 % of N(2, 1) lie above 2 - 1.645; of N(0, 1) that many more than Phi(-0.355).
    assert un.false_positive_rate(inside, outside) == pytest.approx(0.361, abs=0.015)
    assert un.false_positive_rate(np.zeros(5), np.ones(5)) == 0.0


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.3])
def test_conformal_sets_hold_the_label_as_often_as_they_promise(alpha):
    n, repeats, held = 50, 4000, []
    rng = np.random.default_rng(1)
    for _ in range(repeats):
        # Models that are wrong about everything: the promise does not depend on them.
        proba = rng.dirichlet(np.full(4, 0.3), n + 1)
        y = (proba.argmax(1) + (rng.uniform(size=n + 1) < 0.4)) % 4
        threshold = un.conformal_threshold(proba[:n], y[:n], alpha)
        held.append(un.conformal_sets(proba[n:], threshold)[0, y[n]])
    covered, error = np.mean(held), (alpha * (1 - alpha) / repeats) ** 0.5
    assert 1 - alpha - 3.5 * error < covered < 1 - alpha + 1 / (n + 1) + 3.5 * error


def test_too_few_examples_promise_nothing_but_all_classes():
    threshold = un.conformal_threshold(np.full((5, 3), 1 / 3), np.zeros(5, int), 0.1)
    assert threshold == float("inf")
    assert un.conformal_sets(np.eye(3), threshold).all()


def test_a_temperature_undoes_the_one_that_was_there():
    logits = RNG.normal(size=(20_000, 3)) * 2
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    y = (p.cumsum(-1) > RNG.uniform(size=(20_000, 1))).argmax(-1)
    np.testing.assert_allclose(un.temper(p, 0.4), np.exp(2.5 * logits) / np.exp(2.5 * logits).sum(-1, keepdims=True))
    assert un.temperature(un.temper(p, 0.4), y) == pytest.approx(2.5, rel=0.05)
    assert un.temperature(p, y) == pytest.approx(1.0, rel=0.05)


def test_what_calibration_is_worth_is_said_of_the_half_that_had_no_part_in_it():
    rng = np.random.default_rng(3)
    logits = rng.normal(size=(4000, 4)) * 2
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    y = (p.cumsum(-1) > rng.uniform(size=(4000, 1))).argmax(-1)
    sure = un.summarise_predictions(un.temper(p, 0.4)[None])
    found = tj.ensemble.calibrated_scores(sure, y, alpha=0.2)
    other = np.random.default_rng(0).permutation(4000)[2000:]
    assert found["nll"] == pytest.approx(un.nll(sure.mean[other], y[other]))
    assert found["tempered_nll"] == pytest.approx(un.nll(p[other], y[other]), abs=0.01)
    assert found["tempered_ece"] < 0.03 < found["ece"]
    # 2000 examples on each side: 5 standard deviations of both.
    assert abs(found["coverage"] - 0.8) < 5 * (2 * 0.16 / 2000) ** 0.5
    assert 1 < found["set_size"] < 4
    with pytest.raises(tj.InputError, match="2 or more"):
        tj.ensemble.calibrated_scores(un.summarise_predictions(p[None, :1]), y[:1])


def test_scores_are_those_of_the_mean_probabilities():
    member, y = dirichlet(5, 400, 3, 4), np.random.default_rng(4).integers(0, 3, 400)
    found, mean = tj.ensemble.scores(member, y), member.mean(0)
    confidence, is_right = mean.max(1), mean.argmax(1) == y
    surest = np.argsort(-confidence)[:360]
    assert found["risk_at_90"] == pytest.approx(1 - is_right[surest].mean())
    assert found["aurc"] == pytest.approx(un.selective(confidence, is_right).risk.mean())
    parts = np.array_split(np.argsort(confidence), 15)
    gaps = [abs(confidence[p].mean() - is_right[p].mean()) for p in parts]
    assert found["ece"] == pytest.approx(np.average(gaps, weights=[len(p) for p in parts]))
    assert found["mce"] == pytest.approx(max(gaps))
    assert found["ece_equal_width"] == pytest.approx(un.reliability(confidence, is_right, 15, False).expected_error)
    entropy = -(mean * np.log(mean)).sum(1).mean()
    expected = -(member * np.log(member)).sum(2).mean()
    assert found["entropy"] == pytest.approx(entropy)
    assert found["expected_entropy"] == pytest.approx(expected)
    assert found["mutual_information"] == pytest.approx(entropy - expected)
    assert found["brier"] == pytest.approx(((mean - np.eye(3)[y]) ** 2).sum(1).mean())
    assert found["brier_uncertainty"] == pytest.approx(sum(np.mean(y == k) * np.mean(y != k) for k in range(3)))


def test_inputs_from_outside_are_told_by_every_measure():
    inside, outside = (
        un.summarise_predictions(dirichlet(4, 300, 3, 1) ** 3),
        un.summarise_predictions(dirichlet(4, 200, 3, 2)),
    )
    found = tj.ensemble.ood_scores(inside, outside)
    one, other = inside.entropies, outside.entropies
    assert found["entropy"]["auroc"] == pytest.approx(un.auroc(one.total, other.total))
    assert found["mutual_information"]["fpr95"] == pytest.approx(
        un.false_positive_rate(one.mutual_information, other.mutual_information)
    )
    assert found["disagreement"]["auroc"] == pytest.approx(un.auroc(inside.disagreement, outside.disagreement))
    assert found["confidence"]["auroc"] == pytest.approx(un.auroc(-inside.mean.max(1), -outside.mean.max(1)))


@pytest.mark.parametrize(("confidence", "is_right"), [([0.5], [True, False]), ([], []), ([[0.5]], [[True]])])
def test_what_does_not_belong_together_is_refused(confidence, is_right):
    with pytest.raises(tj.InputError, match="as many predictions"):
        un.selective(np.array(confidence), np.array(is_right, bool))


def test_the_old_name_of_ood_scores_warns():
    with pytest.warns(FutureWarning, match="ood_scores"):
        assert tj.ensemble.outside_scores is tj.ensemble.ood_scores
