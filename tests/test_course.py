"""A course by data is a function of what was counted: how s rises, when burn-in ends and when the run does."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trajens as tj
from trajens.sampling.adapted import MAX_EPOCHS, Adapted
from trajens.sampling.course import BURN_IN, PLANNING, RENEWALS, RISING, SCORING, ByData, ByEpochs, Passed

PAIRS, RECORDS = 1e6, 100
TAU = 16


def passed(used, spent, begun=0.0, epoch=1000, epochs=100, renewals=0.0, loss=1.0, loss_error=0.0, recorded=0):
    return Passed(epoch, epochs, used, begun, spent, renewals, loss, loss_error, recorded)


def run_by(course, adapted, per_epoch=lambda epoch: 50.0, renewals=lambda used: 0.5, loss=lambda used: 1.0, begun=0.0):
    """What happens at every record of a made-up run, as (passed, turn); a thousand records are too many."""
    epoch, used, last, mark, told, recorded = 0, begun, 0, course.first_mark(per_epoch(0), 1, begun), [], 0
    while len(told) < 1000:
        spent = (mark - last) * per_epoch(last)
        used, epoch = used + spent, mark
        now = Passed(epoch, mark - last, used, begun, spent, renewals(used), loss(used), 0.0, recorded)
        turn = course.turn(now, adapted)
        told.append((now, turn))
        recorded += epoch > adapted.burn_in
        adapted, last = turn.adapted, mark
        if not turn.marks:
            return told
        assert len(turn.marks) == 1
        assert turn.marks[0] > mark
        mark = turn.marks[0]
    raise AssertionError("a course without end")


def costs(rng, spread):
    """Pairs per epoch that change from record to record, by factors of about `spread`."""
    return lambda epoch: 50.0 * math.exp(math.log(spread) * rng.standard_normal())


@given(st.floats(1e-4, 1.0), st.integers(0, 2**32 - 1), st.floats(1.0, 3.0), st.sampled_from([0.0, 0.6 * PAIRS]))
def test_s_rises_to_the_one_asked_for_by_equal_factors_for_equal_data(tilt, seed, spread, begun):
    course = ByData(PAIRS, RECORDS, TAU, is_to_s=True)
    per_epoch = costs(np.random.default_rng(seed), spread)
    told = run_by(course, Adapted(MAX_EPOCHS, tilt), per_epoch, begun=begun)
    early = [(now, turn) for now, turn in told if turn.adapted.burn_in == MAX_EPOCHS]
    for now, turn in early:
        # Whatever the records in between, ln s is a straight line in the data.
        part = min((now.used - begun) / (BURN_IN * (PAIRS - begun)) / RISING, 1.0)
        assert turn.adapted.tilt == pytest.approx(tilt ** (1.0 - part), rel=1e-6)
        assert turn.is_settled == (part >= 1.0)
    for _, turn in told[len(early) :]:
        assert turn.adapted.tilt == 1.0
        assert turn.is_settled


def test_s_rises_by_its_rate_with_every_renewal_and_at_most_doubles():
    course, adapted = ByData(PAIRS, RECORDS, TAU), Adapted(MAX_EPOCHS, 7.0)
    for renewals in (0.0, 0.5, 20.0):
        turn = course.turn(passed(1e4, 1e4, renewals=renewals), adapted)
        assert turn.adapted.tilt == pytest.approx(7.0 * math.exp(renewals / (2 * course.renewals(0.0))))
    assert course.turn(passed(1e4, 1e4, renewals=1e6), adapted).adapted.tilt == pytest.approx(14.0)


def test_larger_budgets_are_for_more_renewals():
    small, usual, large = (ByData(pairs * TAU, RECORDS, TAU).renewals(0.0) for pairs in (1e3, 5e5, 5e7))
    assert (small, usual) == (RENEWALS, RENEWALS)
    assert large == pytest.approx(RENEWALS * 100**0.8)
    assert ByData(1e9, RECORDS, TAU).renewals(0.9e9) == ByData(1e8, RECORDS, TAU).renewals(0.0)


def test_paths_that_lose_what_their_start_found_are_brought_back():
    course, adapted = ByData(PAIRS, RECORDS, TAU), Adapted(MAX_EPOCHS, 7.0, ceiling=0.5)

    def tilt(**told):
        return course.turn(passed(1e4, 1e4, **told), adapted).adapted.tilt

    usual = tilt(renewals=0.5, loss=0.4)
    assert tilt(renewals=0.5, loss=0.8) == pytest.approx(7.0 * (0.8 / 0.5) ** 0.5)
    # Not by chance, nor for a little, nor where a renewal takes too much of the budget, and not without a start.
    assert tilt(renewals=0.5, loss=0.8, loss_error=0.2) == usual
    assert tilt(renewals=0.5, loss=0.54) == usual
    assert tilt(renewals=0.07, loss=0.8) < 7.01
    assert course.turn(passed(1e4, 1e4, renewals=0.5), Adapted(MAX_EPOCHS, 7.0)).adapted.tilt == usual
    to_s = ByData(PAIRS, RECORDS, TAU, is_to_s=True)
    given = Adapted(MAX_EPOCHS, 0.5, ceiling=0.5)
    assert to_s.turn(passed(1e4, 1e4, renewals=0.5, loss=0.9), given).adapted.tilt < 0.6


def test_s_stops_rising_before_the_end_of_burn_in_unless_a_loss_is_to_be_reached():
    adapted, end = Adapted(MAX_EPOCHS, 7.0), BURN_IN * PAIRS
    before, after = (passed(part * end, 1e4, renewals=5.0) for part in (RISING - 0.01, RISING + 0.01))
    free, to_loss = ByData(PAIRS, RECORDS, TAU), ByData(PAIRS, RECORDS, TAU, loss=0.1)
    assert free.turn(before, adapted).adapted.tilt > 7.0
    assert free.turn(after, adapted).adapted.tilt == 7.0
    assert (free.turn(before, adapted).is_settled, free.turn(after, adapted).is_settled) == (False, True)
    assert to_loss.turn(after, adapted).adapted.tilt > 7.0


@given(st.integers(0, 2**32 - 1), st.floats(1.0, 3.0), st.booleans())
def test_s_never_falls_and_is_fixed_after_burn_in(seed, spread, is_to_s):
    rng = np.random.default_rng(seed)
    course = ByData(PAIRS, RECORDS, TAU, is_to_s)
    told = run_by(course, Adapted(MAX_EPOCHS, 0.1), costs(rng, spread), lambda used: rng.exponential(30.0))
    tilts = [0.1, *(turn.adapted.tilt for _, turn in told)]
    assert all(b >= a * (1 - 1e-12) for a, b in pairwise(tilts))
    assert len({turn.adapted.tilt for now, turn in told if now.epoch >= turn.adapted.burn_in}) == 1


@given(st.integers(0, 2**32 - 1), st.floats(1.0, 1.5), st.sampled_from([0.0, 0.6 * PAIRS]))
def test_burn_in_is_its_share_of_the_data_and_the_run_ends_with_its_budget(seed, spread, begun):
    course = ByData(PAIRS, RECORDS, TAU)
    told = run_by(course, Adapted(MAX_EPOCHS, 0.1), costs(np.random.default_rng(seed), spread), begun=begun)
    last = told[-1][1].adapted.burn_in
    (ended,) = [now for now, _ in told if now.epoch == last]
    piece = (PAIRS - begun) / RECORDS
    # A piece that is as long as the last one should have cost can cost several times that.
    assert begun + BURN_IN * (PAIRS - begun) <= ended.used < begun + BURN_IN * (PAIRS - begun) + 20 * piece
    assert told[-1][0].used > PAIRS - piece / 2
    assert told[-2][0].used <= PAIRS - piece / 2 or told[-2][0].recorded < 4
    assert sum(now.epoch > last for now, _ in told) >= 4


def test_burn_in_ends_where_the_loss_is_reached_and_s_stays_there():
    course = ByData(PAIRS, RECORDS, TAU, loss=0.2)
    told = run_by(course, Adapted(MAX_EPOCHS, 5.0), loss=lambda used: 1.0 - used / PAIRS * 4)
    reached = next(now for now, _ in told if now.loss <= 0.2)
    tilts = {turn.adapted.tilt for now, turn in told if now.epoch >= reached.epoch}
    assert {turn.adapted.burn_in for now, turn in told if now.epoch >= reached.epoch} == {reached.epoch}
    assert reached.used < 0.25 * PAIRS
    assert len(tilts) == 1
    assert tilts.pop() == told[told.index(next(t for t in told if t[0] is reached)) - 1][1].adapted.tilt
    never = run_by(course, Adapted(MAX_EPOCHS, 5.0), loss=lambda used: math.nan)
    assert never[-1][1].adapted.burn_in < never[-1][0].epoch


def test_batches_are_planned_and_examples_scored_once_at_each_part_of_burn_in():
    told = run_by(ByData(PAIRS, RECORDS, TAU), Adapted(MAX_EPOCHS, 1.0))
    burn_in = told[-1][1].adapted.burn_in
    for parts, is_due in ((PLANNING, lambda turn: turn.is_planning), (SCORING, lambda turn: turn.is_scoring)):
        due = [now.epoch / burn_in for now, turn in told if is_due(turn)]
        assert due == pytest.approx(parts, abs=1.5 / (BURN_IN * RECORDS))


def test_the_first_mark_is_a_piece_of_what_is_left_after_the_start():
    course = ByData(PAIRS, RECORDS, TAU)
    assert course.first_mark(50.0, 4, 0.0) == 200
    assert course.first_mark(50.0, 4, 0.6 * PAIRS) == 80
    assert course.first_mark(1e9, 4, 0.0) == 4


def test_one_piece_is_neither_much_longer_nor_much_shorter_than_the_one_before():
    course, adapted = ByData(PAIRS, RECORDS, TAU), Adapted(MAX_EPOCHS, 1.0)
    (cheap,) = course.turn(passed(1e4, 1.0), adapted).marks
    (dear,) = course.turn(passed(1e4, 1e5), adapted).marks
    assert (cheap, dear) == (1400, 1025)
    (single,) = course.turn(passed(1e4, 1e5, epochs=1), adapted).marks
    assert single == 1001


@pytest.mark.parametrize(
    "course", [ByData(PAIRS, RECORDS, TAU), ByData(PAIRS, RECORDS, TAU, is_to_s=True), ByData(1.0, 8, TAU)]
)
def test_a_course_without_data_still_goes_on(course):
    for begun in (0.0, course.pairs, 2 * course.pairs):
        told = passed(begun, 0.0, begun=begun)
        turn = course.turn(told, Adapted(MAX_EPOCHS, 0.5))
        assert math.isfinite(turn.adapted.tilt)
        assert turn.marks
        assert turn.marks[0] > told.epoch


def test_a_course_by_epochs_adapts_nothing_and_knows_its_marks():
    marks = np.arange(10, 101, 10)
    course = ByEpochs.over(marks, 80, None)
    adapted = Adapted(80)
    turns = {mark: course.turn(passed(1.0, 1.0, epoch=mark), adapted) for mark in marks.tolist()}
    assert [mark for mark, turn in turns.items() if turn.is_planning] == [10, 20, 40, 80]
    assert [mark for mark, turn in turns.items() if turn.is_scoring] == [10, 20, 40, 60]
    assert all(turn.adapted is adapted and turn.marks == () and turn.is_settled for turn in turns.values())


def test_a_schedule_is_settled_when_s_is_near_its_end():
    marks = np.arange(10, 101, 10)
    course = ByEpochs.over(marks, 80, tj.schedule.exponential(10.0, 100.0, 60))
    settled = [mark for mark in marks if course.turn(passed(1.0, 1.0, epoch=mark), Adapted(80)).is_settled]
    assert settled == [60, 70, 80, 90, 100]


def test_without_burn_in_a_course_by_epochs_has_nothing_to_learn():
    course = ByEpochs.over(np.arange(10, 101, 10), 0, None)
    assert course.planning == course.scoring == frozenset()
