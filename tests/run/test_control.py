"""A controller by data is a function of what was counted: how s rises, when burn-in ends and when the run does."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trajens as tj
from trajens.records import MAX_EPOCHS
from trajens.run.control import (
    BURN_IN,
    LEFT,
    LIKELIHOODS,
    PLANNING,
    RENEWALS,
    REWEIGHTING,
    RISING,
    RISING_SOON,
    SETTLING,
    STANDING,
    Budget,
    FixedEpochs,
    RecordInfo,
)
from trajens.sampling.program import Control

PAIRS, RECORDS = 1e6, 100
TAU = 16


def passed(used, spent, begun=0.0, epoch=1000, epochs=100, renewals=0.0, loss=1.0, marks=(1000,), **more):
    """What a controller is told."""
    own = {"pairs_used": used, "pairs": spent, "start_pairs": begun, "loss_error": 0.0, "recorded": 0, **more}
    return RecordInfo(epoch=epoch, epochs=epochs, renewals=renewals, loss=loss, marks=np.array(marks), **own)


def run_by(
    controller, control, per_epoch=lambda epoch: 50.0, renewals=lambda used: 0.5, loss=lambda used: 1.0, begun=0.0
):
    """What happens at every record of a made-up run, as (passed, turn); a thousand records are too many."""
    epoch, used, last, mark, told, recorded = 0, begun, 0, controller.first_mark(per_epoch(0), 1, begun), [], 0
    while len(told) < 1000:
        spent = (mark - last) * per_epoch(last)
        used, epoch = used + spent, mark
        now = passed(used, spent, begun, epoch, mark - last, renewals(used), loss(used), (mark,), recorded=recorded)
        turn = controller.update(now, control)
        told.append((now, turn))
        recorded += epoch > control.burn_in
        control, last = turn.control, mark
        if not turn.marks:
            return told
        assert len(turn.marks) == 1
        assert turn.marks[0] > mark
        mark = turn.marks[0]
    raise AssertionError("a controller without end")


def costs(rng, spread):
    """Pairs per epoch that change from record to record, by factors of about `spread`."""
    return lambda epoch: 50.0 * math.exp(math.log(spread) * rng.standard_normal())


@given(st.floats(1e-4, 1.0), st.integers(0, 2**32 - 1), st.floats(1.0, 3.0), st.sampled_from([0.0, 0.6 * PAIRS]))
def test_s_rises_to_the_one_asked_for_by_equal_factors_for_equal_data(tilt, seed, spread, begun):
    controller = Budget(PAIRS, RECORDS, TAU, is_to_s=True)
    per_epoch = costs(np.random.default_rng(seed), spread)
    told = run_by(controller, Control(MAX_EPOCHS, tilt), per_epoch, renewals=lambda used: 1e3, begun=begun)
    early = [(now, turn) for now, turn in told if turn.control.burn_in == MAX_EPOCHS]
    for now, turn in early:
        # Whatever the records in between, ln s is a straight line in the data.
        part = min((now.pairs_used - begun) / (BURN_IN * (PAIRS - begun)) / RISING, 1.0)
        assert turn.control.tilt == pytest.approx(tilt ** (1.0 - part), rel=1e-6)
        assert turn.is_settled == (part >= 1.0)
    for _, turn in told[len(early) :]:
        assert turn.control.tilt == 1.0
        assert turn.is_settled


def test_s_rises_by_its_rate_with_every_renewal_and_at_most_doubles():
    controller, control = Budget(PAIRS, RECORDS, TAU), Control(MAX_EPOCHS, 7.0)
    for renewals in (0.0, 0.5, 20.0):
        turn = controller.update(passed(1e4, 1e4, renewals=renewals), control)
        assert turn.control.tilt == pytest.approx(7.0 * math.exp(renewals / (2 * controller.renewals(0.0))))
    assert controller.update(passed(1e4, 1e4, renewals=1e6), control).control.tilt == pytest.approx(14.0)


def test_larger_budgets_are_for_more_renewals():
    small, usual, large = (Budget(pairs * TAU, RECORDS, TAU).renewals(0.0) for pairs in (1e3, 5e5, 5e7))
    assert (small, usual) == (RENEWALS, RENEWALS)
    assert large == pytest.approx(RENEWALS * 100**0.4)
    assert Budget(1e9, RECORDS, TAU).renewals(0.9e9) == Budget(1e8, RECORDS, TAU).renewals(0.0)


def test_paths_that_lose_what_their_start_found_are_brought_back():
    controller, control = Budget(PAIRS, RECORDS, TAU), Control(MAX_EPOCHS, 7.0)

    def tilt(**told):
        return controller.update(passed(1e4, 1e4, reference_loss=0.5, **told), control).control.tilt

    usual = tilt(renewals=0.5, loss=0.4)
    assert tilt(renewals=0.5, loss=0.8) == pytest.approx(7.0 * (0.8 / 0.5) ** 0.5)
    # Not by chance, nor for a little, nor where a renewal takes too much of the budget, and not without a start.
    assert tilt(renewals=0.5, loss=0.8, loss_error=0.2) == usual
    assert tilt(renewals=0.5, loss=0.54) == usual
    assert tilt(renewals=0.07, loss=0.8) < 7.01
    assert controller.update(passed(1e4, 1e4, renewals=0.5), Control(MAX_EPOCHS, 7.0)).control.tilt == usual
    to_s = Budget(PAIRS, RECORDS, TAU, is_to_s=True)
    given = Control(MAX_EPOCHS, 0.5)
    assert to_s.update(passed(1e4, 1e4, renewals=0.5, loss=0.9, reference_loss=0.5), given).control.tilt < 0.6


def test_s_stops_rising_before_the_end_of_burn_in_unless_a_loss_is_to_be_reached():
    control, end = Control(MAX_EPOCHS, 7.0), BURN_IN * PAIRS
    before, after = (passed(part * end, 1e4, renewals=5.0) for part in (RISING - 0.01, RISING + 0.01))
    free, to_loss = Budget(PAIRS, RECORDS, TAU), Budget(PAIRS, RECORDS, TAU, loss=0.1)
    assert free.update(before, control).control.tilt > 7.0
    assert free.update(after, control).control.tilt == 7.0
    assert (free.update(before, control).is_settled, free.update(after, control).is_settled) == (False, True)
    assert to_loss.update(after, control).control.tilt > 7.0


@given(st.integers(0, 2**32 - 1), st.floats(1.0, 3.0), st.booleans())
def test_s_never_falls_and_is_fixed_after_burn_in(seed, spread, is_to_s):
    rng = np.random.default_rng(seed)
    controller = Budget(PAIRS, RECORDS, TAU, is_to_s)
    told = run_by(controller, Control(MAX_EPOCHS, 0.1), costs(rng, spread), lambda used: rng.exponential(30.0))
    tilts = [0.1, *(turn.control.tilt for _, turn in told)]
    assert all(b >= a * (1 - 1e-12) for a, b in pairwise(tilts))
    assert len({turn.control.tilt for now, turn in told if now.epoch >= turn.control.burn_in}) == 1


@given(st.integers(0, 2**32 - 1), st.floats(1.0, 1.5), st.sampled_from([0.0, 0.6 * PAIRS]))
def test_burn_in_is_its_share_of_the_data_and_the_run_ends_with_its_budget(seed, spread, begun):
    controller = Budget(PAIRS, RECORDS, TAU)
    told = run_by(controller, Control(MAX_EPOCHS, 0.1), costs(np.random.default_rng(seed), spread), begun=begun)
    last = told[-1][1].control.burn_in
    (ended,) = [now for now, _ in told if now.epoch == last]
    piece = (PAIRS - begun) / RECORDS
    # A piece that is as long as the last one should have cost can cost several times that.
    assert begun + BURN_IN * (PAIRS - begun) <= ended.pairs_used < begun + BURN_IN * (PAIRS - begun) + 20 * piece
    assert told[-1][0].pairs_used > PAIRS - piece / 2
    assert told[-2][0].pairs_used <= PAIRS - piece / 2 or told[-2][0].recorded < 4
    assert sum(now.epoch > last for now, _ in told) >= 4


def test_an_s_that_takes_much_data_is_reached_soon_and_burn_in_lasts_as_long_again():
    controller, tilt, end = Budget(PAIRS, RECORDS, TAU, is_to_s=True), 0.05, BURN_IN * PAIRS
    rest = (1 - RISING) * end
    # Renewals with 100 pairs, at the s that is asked for where decisions read four times as many examples.
    enough = STANDING * 4 * 100 / rest
    for renewals, part in ((0.9 * enough, RISING_SOON), (1.1 * enough, RISING)):
        now = passed(0.1 * end, 100, renewals=renewals, growth=lambda: 4.0)
        told = controller.update(now, Control(MAX_EPOCHS, tilt)).control.tilt
        slope = math.log(told / tilt) / -math.log(tilt)
        assert slope == pytest.approx(100 / (part * end - (0.1 * end - 100)), rel=1e-6)
    # A thousandth of a renewal at every record is never enough: s is there after a part of burn-in, and stays.
    told = run_by(controller, Control(MAX_EPOCHS, tilt), renewals=lambda used: 1e-3)
    there = next(now.pairs_used for now, turn in told if turn.is_settled)
    over = next(now.pairs_used for now, turn in told if turn.control.burn_in < MAX_EPOCHS)
    assert there == pytest.approx(RISING_SOON * end, rel=0.05)
    assert there < PAIRS / 3
    plenty = run_by(controller, Control(MAX_EPOCHS, tilt), renewals=lambda used: 1e3)
    assert next(now.pairs_used for now, turn in plenty if turn.is_settled) == pytest.approx(RISING * end, rel=0.05)
    assert over == pytest.approx(end, rel=0.05)


def test_burn_in_ends_where_the_loss_is_reached_and_s_stays_there():
    controller = Budget(PAIRS, RECORDS, TAU, loss=0.2)
    told = run_by(controller, Control(MAX_EPOCHS, 5.0), loss=lambda used: 1.0 - used / PAIRS * 4)
    reached = next(now for now, _ in told if now.loss <= 0.2)
    tilts = {turn.control.tilt for now, turn in told if now.epoch >= reached.epoch}
    assert {turn.control.burn_in for now, turn in told if now.epoch >= reached.epoch} == {reached.epoch}
    assert reached.pairs_used < 0.25 * PAIRS
    assert len(tilts) == 1
    assert tilts.pop() == told[told.index(next(t for t in told if t[0] is reached)) - 1][1].control.tilt
    never = run_by(controller, Control(MAX_EPOCHS, 5.0), loss=lambda used: math.nan)
    assert never[-1][1].control.burn_in < never[-1][0].epoch


def test_batches_are_planned_and_examples_scored_once_at_each_part_of_burn_in():
    told = run_by(Budget(PAIRS, RECORDS, TAU), Control(MAX_EPOCHS, 1.0))
    burn_in = told[-1][1].control.burn_in
    for parts, is_due in ((PLANNING, lambda turn: turn.is_planning), (REWEIGHTING, lambda turn: turn.is_reweighting)):
        due = [now.epoch / burn_in for now, turn in told if is_due(turn)]
        assert due == pytest.approx(parts, abs=1.5 / (BURN_IN * RECORDS))


def test_the_first_mark_is_a_piece_of_what_is_left_after_the_start():
    controller = Budget(PAIRS, RECORDS, TAU)
    assert controller.first_mark(50.0, 4, 0.0) == 200
    assert controller.first_mark(50.0, 4, 0.6 * PAIRS) == 80
    assert controller.first_mark(1e9, 4, 0.0) == 4


def test_one_piece_is_neither_much_longer_nor_much_shorter_than_the_one_before():
    controller, control = Budget(PAIRS, RECORDS, TAU), Control(MAX_EPOCHS, 1.0)
    (cheap,) = controller.update(passed(1e4, 1.0), control).marks
    (dear,) = controller.update(passed(1e4, 1e5), control).marks
    assert (cheap, dear) == (1400, 1025)
    (single,) = controller.update(passed(1e4, 1e5, epochs=1), control).marks
    assert single == 1001


@pytest.mark.parametrize(
    "controller", [Budget(PAIRS, RECORDS, TAU), Budget(PAIRS, RECORDS, TAU, is_to_s=True), Budget(1.0, 8, TAU)]
)
def test_a_course_without_data_still_goes_on(controller):
    for begun in (0.0, controller.pairs, 2 * controller.pairs):
        told = passed(begun, 0.0, begun=begun)
        turn = controller.update(told, Control(MAX_EPOCHS, 0.5))
        assert math.isfinite(turn.control.tilt)
        assert turn.marks
        assert turn.marks[0] > told.epoch


def test_a_course_by_epochs_adapts_nothing_and_knows_its_marks():
    marks = np.arange(10, 101, 10)
    controller = FixedEpochs(80)
    control = Control(80)
    turns = {mark: controller.update(passed(1.0, 1.0, epoch=mark, marks=marks), control) for mark in marks.tolist()}
    assert [mark for mark, turn in turns.items() if turn.is_planning] == [10, 20, 40, 80]
    assert [mark for mark, turn in turns.items() if turn.is_reweighting] == [10, 20, 40, 60]
    assert all(turn.control is control and turn.marks == () and turn.is_settled for turn in turns.values())


def test_a_schedule_is_settled_when_s_is_near_its_end():
    marks = np.arange(10, 101, 10)
    controller = FixedEpochs(80, tj.schedule.exponential(10.0, 100.0, 60))
    settled = [
        mark for mark in marks if controller.update(passed(1.0, 1.0, epoch=mark, marks=marks), Control(80)).is_settled
    ]
    assert settled == [60, 70, 80, 90, 100]


def test_without_burn_in_a_course_by_epochs_has_nothing_to_learn():
    assert FixedEpochs(0).due(PLANNING, np.arange(10, 101, 10)) == frozenset()


def test_s_stops_where_the_models_of_a_path_weigh_as_much_as_some_likelihoods():
    controller = Budget(PAIRS, RECORDS, TAU, likely_size=200)
    largest = LIKELIHOODS * 200 / TAU
    assert controller.largest_s(math.nan) == largest
    told = run_by(controller, Control(MAX_EPOCHS, 1.0), renewals=lambda used: 20.0)
    s = [turn.control.tilt for _, turn in told]
    assert max(s) == pytest.approx(largest)
    assert s[-1] == pytest.approx(largest)
    free = run_by(Budget(PAIRS, RECORDS, TAU), Control(MAX_EPOCHS, 1.0), renewals=lambda used: 20.0)
    assert free[-1][1].control.tilt > 10 * largest


def test_the_variance_of_labels_is_twice_the_loss_of_examples_that_are_held_out():
    controller = Budget(PAIRS, RECORDS, TAU, likely_size=200, is_noise_unknown=True)
    for loss in (0.5, 0.05):
        assert controller.largest_s(loss) == pytest.approx(LIKELIHOODS * 200 / (TAU * 2 * loss))
    # Nothing is known of the noise: nothing stops s.
    assert controller.largest_s(math.nan) == math.inf
    # s falls again where labels turn out to be noisier than it looked.
    control = Control(MAX_EPOCHS, controller.largest_s(0.1))
    turn = controller.update(passed(1e4, 1e4, held_out_loss=0.125), control)
    assert turn.control.tilt == pytest.approx(controller.largest_s(0.125))


@pytest.mark.parametrize("asked", [{"is_to_s": True}, {"loss": 0.1}])
def test_an_s_or_a_loss_that_was_asked_for_is_not_stopped_at_likelihoods(asked):
    assert Budget(PAIRS, RECORDS, TAU, likely_size=200, **asked).largest_s(0.1) == math.inf


def test_burn_in_lasts_as_long_again_as_an_s_took_that_is_reached_soon():
    controller, total = Budget(PAIRS, RECORDS, TAU, is_to_s=True), PAIRS
    settled = RISING_SOON * BURN_IN * total
    # With the last 1e4 pairs; of all since s stands still there must be enough renewals too.
    many, few = (factor * STANDING * 1e4 / (1.1 * settled) for factor in (1.1, 0.9))
    for used, renewals, is_over in (
        (1.9 * settled, 100 * many, False),
        (2.1 * settled, many, True),
        (2.1 * settled, few, False),
    ):
        now = passed(used, 1e4, renewals=renewals, settled_pairs=settled)
        turn = controller.update(now, Control(MAX_EPOCHS, 1.0))
        assert (turn.control.burn_in < MAX_EPOCHS) is is_over
        assert turn.control.tilt == 1.0


def test_burn_in_lasts_as_long_again_as_s_took_to_be_as_large_as_it_may():
    controller, control = Budget(PAIRS, RECORDS, TAU, likely_size=200), Control(MAX_EPOCHS, 37.5)
    for settled, used, is_over in (
        (0.05 * PAIRS, 0.19 * PAIRS, False),
        (0.05 * PAIRS, (SETTLING + 0.01) * PAIRS, True),
        (0.3 * PAIRS, 0.59 * PAIRS, False),
        (0.3 * PAIRS, 0.61 * PAIRS, True),
        (math.inf, 0.7 * PAIRS, False),
    ):
        turn = controller.update(passed(used, 1e4, settled_pairs=settled), control)
        assert (turn.control.burn_in == 1000) == is_over, (settled, used)
    # Without an s to stop at, burn-in is most of the run.
    turn = Budget(PAIRS, RECORDS, TAU).update(passed(0.61 * PAIRS, 1e4, settled_pairs=0.1 * PAIRS), control)
    assert turn.control.burn_in == MAX_EPOCHS


def test_a_budget_of_seconds_is_found_again_from_the_rate():
    controller, control = Budget(PAIRS, RECORDS, TAU, seconds=60.0), Control(MAX_EPOCHS, 1.0)
    assert controller.update(passed(1e4, 1e4, seconds=1.0), control).clock_pairs == PAIRS
    # Half a minute is left, and a machine that does 1e3 a second.
    turn = controller.update(passed(1e5, 1e4, seconds=30.0, rate=1e3), control)
    assert turn.clock_pairs == pytest.approx(1e5 + 3e4)
    # What was decided stands where nothing new is known, as in a run that is resumed.
    turn = controller.update(passed(1.1e5, 1e4, seconds=31.0, clock_pairs=1.3e5), control)
    assert turn.clock_pairs == 1.3e5
    late = controller.update(passed(1e5, 1e4, seconds=61.0, rate=1e3, recorded=8), Control(10, 1.0))
    assert late.marks == ()
    assert math.isnan(Budget(PAIRS, RECORDS, TAU).update(passed(1e4, 1e4, seconds=1.0, rate=9.0), control).clock_pairs)


def test_a_run_on_a_clock_ends_in_time_on_a_machine_that_becomes_slower():
    controller, control = Budget(PAIRS, RECORDS, TAU, seconds=60.0), Control(MAX_EPOCHS, 1.0)
    used, seconds, epoch, epochs, clock, recorded = 0.0, 0.0, 0, 200, math.nan, 0
    for _ in range(2000):
        # 50 pairs an epoch, at first twice as fast as was measured before the run, and then at a fifth of it.
        spent, speed = 50.0 * epochs, 2 * PAIRS / 60 if seconds < 20 else PAIRS / 300
        used, seconds, epoch = used + spent, seconds + spent / speed, epoch + epochs
        more = {"seconds": seconds, "rate": used / seconds, "clock_pairs": clock, "recorded": recorded}
        turn = controller.update(passed(used, spent, epoch=epoch, epochs=epochs, marks=(epoch,), **more), control)
        recorded += epoch > control.burn_in
        control, clock = turn.control, turn.clock_pairs
        if not turn.marks:
            break
        epochs = turn.marks[0] - epoch
    assert 0.8 * 60 < seconds < 1.2 * 60
    assert control.burn_in < epoch


def test_burn_in_goes_on_for_a_piece_where_audits_find_the_tolerance_broken_and_enough_is_left():
    budget = Budget(PAIRS, RECORDS, TAU)
    over = Control(2.0, 900, None)
    late = BURN_IN * PAIRS + 2 * PAIRS / RECORDS

    def follow(used, control=over, recorded=2, is_beyond=True):
        now = passed(used, PAIRS / RECORDS, recorded=recorded, is_beyond=lambda: is_beyond)
        return budget.update(now, control)

    reopened = follow(late)
    assert reopened.control == over._replace(burn_in=MAX_EPOCHS)
    assert not reopened.is_planning
    assert reopened.marks
    # A piece later it ends, and batches are planned again.
    ended = follow(late + PAIRS / RECORDS, reopened.control, recorded=0)
    assert (ended.control.burn_in, ended.is_planning) == (1000, True)
    assert ended.control.tilt == over.tilt
    for kept in (
        follow(late, is_beyond=False),
        # Nothing has been audited yet, or too little would be left.
        follow(late, recorded=0),
        follow((1 - 0.9 * LEFT) * PAIRS),
    ):
        assert (kept.control, kept.is_planning) == (over, False)
