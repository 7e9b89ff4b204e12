"""Measuring: on all of few examples, on as many of many as a tenth of the sampling pays for, and counted."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trajens as tj
from tests.small_run import StopAfter, again, assert_same, fresh
from trajens.sampling.measure import examples_per_measurement

SIZE, TAU, EPOCHS = 2048, 3, 240
TARGET = tj.Target(tj.datasets.perceptron(size=SIZE, noise=0.3).problem(), TAU, sigma=0.1, s=400.0)
SETTINGS = {"chains": 4, "burn_in": 60, "acceptance": tj.Penalty(64)}


@settings(deadline=None, max_examples=200)
@given(size=st.integers(2, 1024), tau=st.integers(1, 64), evaluations=st.floats(0.0, 1e12))
def test_few_data_are_all_measured(size, tau, evaluations):
    assert examples_per_measurement(size, tau, evaluations) == size


@settings(deadline=None, max_examples=300)
@given(size=st.integers(1025, 10**7), tau=st.integers(1, 64), evaluations=st.floats(0.0, 1e12))
def test_many_data_are_measured_for_a_tenth_of_the_sampling(size, tau, evaluations):
    examples = examples_per_measurement(size, tau, evaluations)
    most = size if size <= 8192 else 4096
    assert 64 <= examples <= most
    assert examples == most or examples == 2 ** round(math.log2(examples))
    cost = examples * tau / 2
    assert cost <= 0.1 * evaluations * (1 + 1e-9) or examples == 64
    # As many as can be paid for: twice as many would be too many.
    assert examples == most or 2 * cost > 0.1 * evaluations


def test_without_a_bound_as_many_as_are_worth_it():
    sizes = {100: 100, 1024: 1024, 1025: 1025, 8192: 8192, 8193: 4096, 60_000: 4096}
    assert {size: examples_per_measurement(size, 8) for size in sizes} == sizes


def test_more_sampling_pays_for_more_examples():
    counts = [examples_per_measurement(60_000, 8, 10.0**power) for power in np.arange(2, 9, 0.25)]
    assert counts == sorted(counts)
    assert counts[0] == 64
    assert counts[-1] == 4096


def sample(out=None, records=6, **changes):
    return tj.sample(TARGET, EPOCHS, records=records, out=out, **{**SETTINGS, **changes})


def examples_of(run):
    """Examples of every record, (records,), the same in every chain."""
    measured = np.diff(run.records["data_measured"], axis=1, prepend=0) / TAU
    assert (measured == measured[0]).all()
    return measured[0]


@pytest.mark.slow
def test_what_was_measured_is_counted():
    for records in (1, 6, 60):
        run = sample(records=records, burn_in=0)
        used = np.diff(run.records["data_used"], axis=1, prepend=0).mean(0)
        expected = [examples_per_measurement(SIZE, TAU, float(evaluations)) for evaluations in used]
        np.testing.assert_array_equal(examples_of(run), expected)
        summary = run.summary()
        assert summary["data_measured"] == run.records["data_measured"][:, -1].sum()
        # Two models share a pair of evaluations.
        assert summary["data_measured"] / 2 <= max(0.1 * summary["data_used"], 4 * records * TAU * 64 / 2)
        np.testing.assert_array_equal(run.records["loss_error"][0] > 0, examples_of(run) < SIZE)


@pytest.mark.slow
def test_fewer_examples_are_an_honest_estimate():
    few, many = sample(records=60, burn_in=0), sample(records=6, burn_in=0)
    assert examples_of(few)[-1] < examples_of(many)[-1]
    np.testing.assert_array_equal(few.paths, many.paths)
    at = np.isin(few.records["epoch"][0], many.records["epoch"][0])
    difference = few.records["loss"][:, at] - many.records["loss"]
    error = np.hypot(few.records["loss_error"][:, at], many.records["loss_error"])
    assert (np.abs(difference) < 6 * error).all()


@pytest.mark.parametrize("records", [pytest.param(6, marks=pytest.mark.slow), 60])
def test_records_do_not_depend_on_a_stop(tmp_path, small_blocks, records):
    whole = sample(records=records)
    run, stops = sample(fresh(tmp_path / "a"), records, stop=StopAfter(0)), 0
    while not run.is_complete:
        run, stops = sample(again(tmp_path / "a"), records, stop=StopAfter(stops % 4)), stops + 1
    assert stops > 3
    assert_same(whole, run)


def measured_with(offset):
    """The loss of a path with so much added to the loss of every example, less it again."""
    data = tj.datasets.perceptron(size=300, noise=0.3)
    # A number of the data, so that all offsets share a compilation.
    examples = {"x": data.x, "y": data.y, "offset": np.full(300, offset, np.float32)}
    loss = lambda theta, batch: 0.5 * (batch["y"] - batch["x"] @ theta) ** 2 + batch["offset"]  # noqa: E731
    sampler = tj.Sampler(tj.Target(tj.Problem(loss, examples, 2), 3, 0.1, 20.0), tj.Settings(chains=4, seed=3))
    return sampler.measure(sampler.init())


def test_a_constant_in_the_loss_does_not_spoil_its_mean():
    plain = measured_with(0.0)
    for offset in (-1e4, 1e4):
        far = measured_with(offset)
        assert far.loss.dtype == np.float64
        # Every loss is rounded to 5e-4, evenly, and the mean is over 900 of them.
        np.testing.assert_allclose(far.loss - offset, plain.loss, atol=6 * 5e-4 / np.sqrt(900))
        np.testing.assert_allclose(far.loss_error, plain.loss_error, rtol=1e-3)


def test_what_32_bits_do_not_carry_is_warned_of():
    with pytest.warns(RuntimeWarning, match="take a constant off"):
        measured_with(1e6)
    problem = tj.Problem(lambda theta, batch: (theta[0] - batch) ** 2, np.zeros(8, np.float32), 1)
    for sigma, is_coarse in ((1e-4, True), (0.1, False)):
        sampler = tj.Sampler(tj.Target(problem, 3, sigma, 1e-6), tj.Settings(chains=2))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            sampler.measure(sampler.init(np.full(1, 1e4)))
        assert any("apart, which is much of sigma" in str(one.message) for one in caught) is is_coarse
