"""The tilt s: values of the schedules, and that a run follows them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trajens as tj
from trajens.schedule import split

Z = 6.0
DATA = tj.datasets.perceptron(seed=0, size=64, noise=0.1)
PROBLEM = DATA.problem()
HALF, COLD, RECORDS = 200, 1e6, 8
HEAT_THEN_COOL = tj.schedule.stepped([(0, 0.0), (HALF, COLD)])
CHAINS = 4
SETTINGS = {
    "chains": CHAINS,
    "scan": "random",
    "move": tj.SingleSite(),
    "records": RECORDS,
    "burn_in": 0,
    "initial": np.zeros(2),
}


def _of_the_user(epoch):
    """The same as a plain function."""
    return jnp.where(epoch < HALF, 0.0, COLD)


# Test, schedule, acceptance at Delta = 0.
TESTS = {
    "metropolis": (tj.Metropolis(), HEAT_THEN_COOL, 1.0),
    "barker": (tj.Barker(), _of_the_user, 0.5),
    "minibatch": (tj.MinibatchBarker(16), HEAT_THEN_COOL, 0.5),
    "penalty": (tj.Penalty(16), HEAT_THEN_COOL, 1.0),
}


def test_linear_goes_in_equal_steps_and_stays():
    s = tj.schedule.linear(10.0, 50.0, 1000)
    np.testing.assert_allclose(_values(s, [0, 250, 500, 1000, 1001, 10**9]), [10, 20, 30, 50, 50, 50], rtol=1e-6)


def test_linear_may_fall_and_may_start_at_0():
    np.testing.assert_allclose(_values(tj.schedule.linear(0.0, 5.0, 10), [0, 5, 10, 20]), [0, 2.5, 5, 5], rtol=1e-6)
    np.testing.assert_allclose(_values(tj.schedule.linear(5.0, 0.0, 10), [0, 5, 10, 20]), [5, 2.5, 0, 0], rtol=1e-6)


def test_exponential_goes_by_equal_factors_and_stays():
    s = tj.schedule.exponential(1.0, 10000.0, 1000)
    np.testing.assert_allclose(_values(s, [0, 250, 500, 750, 1000, 2000]), [1, 10, 100, 1000, 10000, 10000], rtol=1e-5)


def test_stepped_is_constant_from_each_epoch_on():
    s = tj.schedule.stepped([(0, 5.0), (100, 20.0), (250, 1.0)])
    epochs = [0, 1, 99, 100, 101, 249, 250, 10**9]
    np.testing.assert_array_equal(_values(s, epochs), [5, 5, 5, 20, 20, 20, 1, 1])


def test_one_step_is_a_constant():
    np.testing.assert_array_equal(_values(tj.schedule.stepped([(0, 7.0)]), [0, 1, 1000]), [7, 7, 7])


@settings(deadline=None, max_examples=50)
@given(
    start=st.floats(0.01, 1e4),
    stop=st.floats(0.01, 1e4),
    epochs=st.integers(1, 10**6),
    build=st.sampled_from([tj.schedule.linear, tj.schedule.exponential]),
)
def test_ramps_start_and_stop_where_they_should_and_stay_between(start, stop, epochs, build):
    s = build(start, stop, epochs)
    first, middle, last, beyond = np.asarray(s(jnp.array([0, epochs // 2, epochs, 2 * epochs])))
    rounding = 1e-5 * (max(start, stop) if build is tj.schedule.linear else 1.0)
    assert first == pytest.approx(start, rel=1e-5)
    assert last == pytest.approx(stop, rel=1e-5, abs=rounding)
    assert beyond == pytest.approx(last, rel=1e-5, abs=rounding)
    assert min(start, stop) - rounding <= middle <= max(start, stop) * (1 + 1e-5)


def test_equal_schedules_are_equal_and_hash_equal():
    builders = [
        lambda x: tj.schedule.linear(1.0, x, 10),
        lambda x: tj.schedule.exponential(1.0, x, 10),
        lambda x: tj.schedule.stepped([(0, 1.0), (10, x)]),
    ]
    for build in builders:
        assert build(5.0) == build(5)
        assert hash(build(5.0)) == hash(build(5))
        assert build(5.0) != build(6.0)
    assert len({build(5.0) for build in builders}) == 3


def test_a_number_is_not_a_schedule():
    values, schedule = split(20)
    assert (values.shape, float(values), schedule) == ((), 20.0, None)


def test_a_list_is_one_number_per_chain():
    values, schedule = split([1, 2.5, 0])
    assert (values.tolist(), schedule) == ([1.0, 2.5, 0.0], None)
    target = tj.Target(PROBLEM, 2, 0.1, [1, 2.5, 0])
    assert target.s_of_chains(3).tolist() == [1.0, 2.5, 0.0]


@pytest.mark.parametrize(
    "name", [name if name == "penalty" else pytest.param(name, marks=pytest.mark.slow) for name in TESTS]
)
def test_every_test_anneals_along_a_schedule(name):
    test, schedule, acceptance_at_0 = TESTS[name]
    run = tj.sample(tj.Target(PROBLEM, 2, 0.1, schedule), 2 * HALF, acceptance=test, **SETTINGS)
    epochs = run.records["epoch"]
    np.testing.assert_array_equal(run.records["s"], np.where(epochs < HALF, 0.0, COLD))
    is_hot = epochs[0] <= HALF
    assert is_hot.sum() == RECORDS // 2
    # At s = 0 the loss has no influence, and acceptance is that of Delta = 0.
    error = Z * np.sqrt(acceptance_at_0 * (1 - acceptance_at_0) / (CHAINS * HALF))
    assert abs(run.records["acceptance"][:, is_hot].mean() - acceptance_at_0) <= error
    # At s = 1e6 all but the smallest rises of the loss are rejected.
    losses = run.records["loss"].mean(0)
    assert losses[-1] < losses[is_hot][-1]
    assert run.records["acceptance"][:, ~is_hot].mean() < acceptance_at_0


def test_each_chain_samples_at_its_own_s():
    values = [0.0, 1.0, 30.0, 1000.0]
    run = tj.sample(tj.Target(PROBLEM, 2, 0.1, values), 400, acceptance=tj.Metropolis(), **SETTINGS)
    np.testing.assert_array_equal(run.records["s"], np.tile(np.array(values)[:, None], (1, RECORDS)))
    # Random numbers belong to a chain, so that it does the same when the others have its s too.
    for chain, s in enumerate(values):
        alike = tj.sample(tj.Target(PROBLEM, 2, 0.1, s), 400, acceptance=tj.Metropolis(), **SETTINGS)
        np.testing.assert_array_equal(alike.paths[chain], run.paths[chain])


def _values(schedule, epochs):
    """As the sampler has them: traced."""
    return np.asarray(jax.jit(schedule)(jnp.asarray(epochs, jnp.int32)))
