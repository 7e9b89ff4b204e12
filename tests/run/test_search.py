"""The s at which held-out examples are predicted best is found, kept, and the same in a run that is resumed."""

import math

import numpy as np
import pytest

import trajens as tj
from tests.run.test_control import PAIRS, RECORDS, TAU, passed
from tests.small_run import StopAfter
from trajens.losses import Weighted, WeightedData
from trajens.records import MAX_EPOCHS
from trajens.run.advice import RunFacts
from trajens.run.control import SEARCHED, Budget, likelihood_s
from trajens.run.outcome import report
from trajens.run.search import (
    BINS,
    HIGHEST,
    LOWEST,
    SEARCHING,
    USUAL,
    WIDTH,
    add_record,
    at_likelihoods,
    best_likelihoods,
    likelihoods_at,
    no_search,
    predictive_loss,
)
from trajens.run.start import search_budget
from trajens.run.state import pack
from trajens.run.train import train_as_set_up, training_setup
from trajens.sampling.program import Control

SIZE = 400
CONTROLLER = Budget(PAIRS, RECORDS, TAU, likely_size=SIZE, searched_on=100)


def searched(loss, records=100, noise=0.0):
    rng, found = np.random.default_rng(0), no_search()
    for part in np.arange(records) / records:
        c = likelihoods_at(part)
        found = add_record(found, c, loss(c) + noise * rng.standard_normal())
    return found


@pytest.mark.parametrize("best", [0.8, 1.5, 3.0])
@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_the_best_number_of_likelihoods_is_found_in_noise(best, noise):
    found = best_likelihoods(searched(lambda c: 0.5 + 0.1 * math.log(c / best) ** 2, noise=noise), 10_000)
    assert found == pytest.approx(best, rel=0.03 if noise == 0 else 0.15)


def test_few_examples_say_little_and_the_end_of_the_range_is_an_end():
    curve = searched(lambda c: -0.1 * math.log(c))
    few, many = (best_likelihoods(curve, examples) for examples in (10, 10_000))
    # The most likely one of a linear loss: ln c = ln USUAL + examples slope WIDTH^2.
    assert few == pytest.approx(USUAL * math.exp(10 * 0.1 * WIDTH**2), rel=0.02)
    assert HIGHEST * 0.9 < many <= HIGHEST
    assert best_likelihoods(searched(lambda c: 0.1 * math.log(c)), 10_000) == pytest.approx(LOWEST, rel=0.12)


@pytest.mark.parametrize("best", [1.5, 3.0])
def test_models_that_learn_at_first_say_nothing_of_likelihoods(best):
    def plain(c):
        return 0.1 * math.log(c / best) ** 2

    def learning(c):
        return plain(c) + 8.0 * (c / LOWEST) ** -10

    # One piece of ln c has a part of it still.
    assert best_likelihoods(searched(learning), 10_000) == pytest.approx(best, rel=0.3)
    # Until the end.
    assert best_likelihoods(searched(lambda c: -5.0 * math.log(c)), 100) == USUAL


def test_what_is_not_known_leaves_what_is_usual():
    assert best_likelihoods(no_search(), 100) == USUAL
    assert best_likelihoods(searched(lambda c: math.nan), 100) == USUAL
    assert best_likelihoods(searched(lambda c: 1.0, records=3), 100) == USUAL
    assert no_search().shape == (2, BINS)


def test_models_are_asked_together():
    losses = np.random.default_rng(0).exponential(size=(30, 50))
    assert predictive_loss(losses, False) == pytest.approx(-np.log(np.exp(-losses).mean(0)).mean())
    # One model alone has its own loss, however large.
    assert predictive_loss(losses[:1] + 1e4, False) == pytest.approx(losses[0].mean() + 1e4)


def test_of_numbers_the_best_variance_of_labels_counts():
    rng = np.random.default_rng(1)
    for noise in (0.1, 3.0):
        y, outputs = noise * rng.standard_normal(4000), 0.1 * noise * rng.standard_normal((20, 1))
        found = predictive_loss((y - outputs) ** 2 / 2, True)
        assert found == pytest.approx(0.5 * math.log(2 * math.pi * noise**2) + 0.5, abs=0.05)
    assert math.isnan(predictive_loss(np.zeros((4, 5)), True))


def follow(best):
    """S at every record of a made-up run whose models predict best at `best` likelihoods, and the last control."""
    control, search, settled, s = Control(MAX_EPOCHS, CONTROLLER.first_s(1e9, math.nan)), no_search(), math.inf, []
    for number in range(1, RECORDS + 1):
        used = PAIRS * number / RECORDS
        c = control.tilt * TAU / SIZE
        now = passed(used, PAIRS / RECORDS, epoch=number, predictive_loss=math.log(c / best) ** 2, search=search)
        update = CONTROLLER.update(now._replace(settled_pairs=settled), control)
        control, search = update.control, search if update.search is None else update.search
        settled = min(settled, used) if update.is_settled else settled
        s.append(control.tilt)
    return np.array(s), control


@pytest.mark.parametrize("best", [1.0, 3.5])
def test_s_rises_through_all_that_is_tried_and_stays_at_the_best(best):
    s, control = follow(best)
    last = round(SEARCHING * RECORDS)
    lowest, highest = (likelihood_s(SIZE, TAU, likelihoods=c) for c in (LOWEST, HIGHEST))
    assert CONTROLLER.first_s(1e9, math.nan) == pytest.approx(lowest)
    assert (np.diff(s[: last - 1]) > 0).all()
    assert s[last - 2] > 0.8 * highest
    assert s[-1] == pytest.approx(likelihood_s(SIZE, TAU, likelihoods=best), rel=0.1)
    assert (s[last - 1 :] == s[-1]).all()
    assert control.burn_in == pytest.approx(SEARCHED * last, abs=1.01)


def test_what_was_found_stays_where_a_clock_turns_out_to_be_for_more():
    found = searched(lambda c: math.log(c / 1.5) ** 2)
    s = likelihood_s(SIZE, TAU, likelihoods=best_likelihoods(found, 100))
    for used in (0.1, 0.19):
        now = passed(used * PAIRS, 1e4, predictive_loss=9.0, search=found, settled_pairs=0.09 * PAIRS)
        update = CONTROLLER.update(now, Control(MAX_EPOCHS, 1.0))
        assert update.is_settled
        assert update.control.tilt == pytest.approx(s)
        np.testing.assert_array_equal(update.search, found)


def test_only_a_likelihood_of_few_examples_with_some_held_out_is_searched():
    def chosen(size=300, kind="cross-entropy", share=0.2, **asked):
        problem = tj.models.linear(2, 2).problem(np.zeros((size, 2), np.float32), np.arange(size) % 2, kind)
        return training_setup(problem.hold_out(share) if share else problem, **asked).budget.searched_on

    assert chosen() == 60
    # A fifth is held out where nothing is said of it, if that is enough.
    assert chosen(share=0.0) == 60
    assert chosen(share=0.0, size=20) is None
    assert chosen(size=3000) is None
    assert training_setup(tj.models.linear(2, 2).problem(np.zeros((2000, 2)), np.arange(2000) % 2)).target.tau == TAU
    assert chosen(kind="0-1") is None
    assert chosen(s=10.0) is None
    assert chosen(loss=0.1) is None
    assert chosen(start="random") == 60
    assert chosen(start="evolution") is None
    assert chosen(start=np.zeros(6)) is None


def test_what_was_measured_is_smoothed_at_the_likelihoods_that_are_kept():
    c = np.geomspace(LOWEST, HIGHEST, 60)
    values = 1.0 + 0.1 * np.log(c) ** 2 + 0.01 * np.random.default_rng(0).standard_normal(60)
    # The mean over a piece of ln c of standard deviation 0.3 of a square is 0.09 above that in its middle.
    expected = 1.0 + 0.1 * (math.log(2.0) ** 2 + 0.09)
    assert at_likelihoods(c, values, 2.0) == pytest.approx(expected, abs=0.01)
    # No further than was measured, and without what is not finite.
    values[3] = math.nan
    assert at_likelihoods(c, values, 1e6) == pytest.approx(values[-1], abs=0.05)
    assert at_likelihoods(np.array([1.0, 4.0]), np.array([1.0, 2.0]), 2.0) == 1.5
    assert math.isnan(at_likelihoods(c[:1], np.array([math.nan]), 1.0))


@pytest.fixture(scope="module")
def setup():
    rng = np.random.default_rng(3)
    x = rng.standard_normal((150, 3)).astype(np.float32)
    y = (x[:, 0] + rng.logistic(size=150) > 0).astype(np.int32)
    problem = tj.models.linear(3, 2).problem(x, y).hold_out(0.2)
    return training_setup(problem, tau=4, budget=4e5, records=40, settings={"chains": 2, "seed": 1})


def test_a_run_says_what_it_chose_and_is_the_same_when_it_is_resumed(setup, tmp_path):
    whole = train_as_set_up(setup, out=tmp_path / "whole")
    assert whole.run_state.search[1].sum() > RECORDS // 20
    c = float(whole.s[0]) * 4 / whole.target.problem.size
    assert c == pytest.approx(best_likelihoods(whole.run_state.search, 30))
    for run in (whole, tj.StoredRun(tmp_path / "whole")):
        facts = RunFacts.of(run)
        assert facts.is_searched
        assert facts.likelihoods == pytest.approx(c)
    assert f"{c:.2g} likelihoods" in report(whole)
    assert "held out" in report(whole)
    stopped = train_as_set_up(setup, out=tmp_path / "run", stop=lambda progress: progress.epoch > whole.burn_in // 3)
    assert not stopped.is_complete
    assert stopped.run_state.search[1].sum() > 0
    resumed = tj.resume(tmp_path / "run", setup.target.problem, progress=False)
    np.testing.assert_array_equal(resumed.paths, whole.paths)
    np.testing.assert_array_equal(pack(resumed.run_state)["search"], pack(whole.run_state)["search"])


def whole_problem(kind):
    """Labels whose noise is known, none of which are held out: of two classes, or numbers of variance 1/2."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((150, 3)).astype(np.float32)
    if kind == "cross-entropy":
        return tj.models.linear(3, 2).problem(x, (x[:, 0] + rng.logistic(size=150) > 0).astype(np.int32))
    return tj.models.linear(3, 1).problem(x, (x[:, 0] + rng.standard_normal(150)).astype(np.float32) / 2**0.5, kind)


def apart(kind="cross-entropy", budget=8e5):
    return training_setup(whole_problem(kind), tau=4, budget=budget, records=40, settings={"chains": 2, "seed": 1})


@pytest.fixture(scope="module")
def searched_before(tmp_path_factory):
    path = tmp_path_factory.mktemp("apart") / "whole"
    return train_as_set_up(apart(), out=path), path


def test_what_is_held_out_for_a_search_alone_is_trained_on_after_it(searched_before):
    run, path = searched_before
    assert run.target.problem.size == 150
    assert run.target.problem.held_out is None
    c = best_likelihoods(run.search, 30)
    np.testing.assert_allclose(run.records["s"], likelihood_s(150, 4, likelihoods=c), rtol=1e-6)
    begun = run.start_records
    assert set(begun) == {"data_used", "loss", "s", "loss_held_out"}
    pairs = run.run_state.start_pairs
    assert begun["data_used"][:, -1].mean() == pairs == pytest.approx(SEARCHING * 8e5 / 2, rel=0.1)
    # s rises through what is tried, on four fifths of the examples.
    lowest, highest = (likelihood_s(120, 4, likelihoods=c) for c in (LOWEST, HIGHEST))
    assert (begun["s"][:, 0], begun["s"][:, -2]) == pytest.approx((lowest, highest), rel=0.15)
    # Averages begin when a fifth of the rest was read, at the earliest.
    used, total = run.records["data_used"].mean(0), 8e5 / 2
    share = (used[run.records["epoch"][0] == run.burn_in][0] - pairs) / (total - pairs)
    assert 0.2 <= share < 0.4
    assert 0.8 * total < used[-1] < 1.2 * total
    for found in (run, tj.StoredRun(path)):
        facts = RunFacts.of(found)
        assert (facts.is_searched, facts.likelihoods) == (True, c)
        assert facts.started().way == "a search for s"
    assert "search for s" in report(run)
    assert not (path / "search").exists()


def test_the_noise_of_labels_is_that_of_the_likelihoods_that_are_kept():
    run = train_as_set_up(apart("squared", 4e6))
    c = best_likelihoods(run.search, 30)
    variance = likelihood_s(150, 4, likelihoods=c) / float(run.s[0])
    # Half of the variance is noise; its error in 30 examples is 26 %.
    assert variance == pytest.approx(0.5, abs=4 * 0.26 * 0.5)
    held_out = 2 * run.start_records["loss_held_out"].mean(0)
    assert held_out.min() < variance < held_out.max()


def test_no_variance_of_labels_is_larger_than_that_around_their_mean():
    problem = whole_problem("squared")
    x, y = (np.asarray(leaf) for leaf in problem.data)
    shifted = tj.models.linear(3, 1).problem(x, y + 100, "squared")
    assert shifted.label_variance == pytest.approx(np.var(y, dtype=np.float64), rel=1e-3)
    weight = np.where(np.arange(150) < 50, 3.0, 0.0).astype(np.float32)
    weighted = tj.Problem(Weighted(problem.loss), WeightedData(problem.data, weight), problem.dim)
    assert weighted.label_variance == pytest.approx(np.var(y[:50]), rel=1e-5)
    assert whole_problem("cross-entropy").label_variance is None
    budget = search_budget(shifted, apart("squared").budget, 2)
    # Models that know nothing of labels near 100 have a squared error of 1e4.
    assert budget.first_s(1e9, 5e3) == pytest.approx(likelihood_s(120, 4, shifted.label_variance, LOWEST))
    assert budget.first_s(1e9, 0.1) == pytest.approx(likelihood_s(120, 4, 0.2, LOWEST))


def test_a_run_that_is_stopped_in_its_search_goes_on_with_it(searched_before, tmp_path):
    whole, _ = searched_before
    with pytest.raises(tj.Stopped, match="stopped in the search for s"):
        train_as_set_up(apart(), out=tmp_path / "run", stop=StopAfter(3))
    assert (tmp_path / "run" / "search").is_dir()
    again = tj.RunDirectory(tmp_path / "run", resume=True)
    run = train_as_set_up(apart(), out=again)
    np.testing.assert_array_equal(run.paths, whole.paths)
    np.testing.assert_array_equal(run.start_records["s"], whole.start_records["s"])
    assert not (tmp_path / "run" / "search").exists()


def test_examples_with_weights_are_held_out_by_weights_of_0():
    problem, weight = whole_problem("cross-entropy"), np.where(np.arange(150) < 100, 1.5, 0.0).astype(np.float32)
    weighted = tj.Problem(Weighted(problem.loss), WeightedData(problem.data, weight), problem.dim)
    assert (weighted.size, weighted.num_weighted) == (150, 100)
    rest = weighted.hold_out(0.2)
    assert (rest.size, rest.num_weighted, rest.held_out.size) == (150, 80, 20)
    left = np.asarray(rest.data.weight)
    assert left.mean() == pytest.approx(1.0)
    assert set(np.round(left[left > 0], 5)) == {np.float32(150 / 80)}
    # What has no weight is never among them, and they are asked for without weights.
    inputs = np.asarray(problem.data[0])
    for row in np.asarray(rest.held_out.data[0]):
        [place] = np.flatnonzero((inputs == row).all(1))
        assert place < 100
        assert left[place] == 0
    assert rest.held_out.loss == problem.loss
    assert np.asarray(weighted.data.weight).sum() == 150
