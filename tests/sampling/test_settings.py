"""Bad input is refused before anything is compiled, in one sentence that says what was given."""

import math
import re

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trajens as tj

SIZE, TAU, EPOCHS, CHAINS = 40, 4, 100, 3
PROBLEM = tj.datasets.perceptron(size=SIZE).problem()
TARGET = tj.Target(PROBLEM, TAU, 0.1, 20.0)
X = np.arange(10.0, dtype=np.float32).reshape(5, 2)

_few = settings(deadline=None, max_examples=30)
_some = settings(deadline=None, max_examples=60)

NOT_FINITE = st.sampled_from([math.nan, math.inf, -math.inf])
NOT_A_NUMBER = st.text(max_size=8) | st.none() | st.just([]) | st.just({}) | st.complex_numbers()
NOT_WHOLE = st.floats(allow_nan=True).filter(lambda v: not (math.isfinite(v) and v == int(v))) | NOT_A_NUMBER
NOT_POSITIVE = st.floats(max_value=0.0) | st.integers(max_value=0) | NOT_FINITE | NOT_A_NUMBER
NOT_A_SHARE = NOT_POSITIVE | st.floats(min_value=1.0, exclude_min=True)
NEGATIVE = st.floats(max_value=0.0, exclude_max=True, allow_infinity=False)

POSITIVE = st.floats(1e-6, 1e6)
SHARE = st.floats(0.0, 1.0, exclude_min=True)
TILT = st.floats(0.0, 1e6) | st.integers(0, 10**6) | st.lists(st.floats(0.0, 1e6), min_size=1, max_size=5)


@pytest.fixture(scope="module", autouse=True)
def _nothing_is_compiled():
    """Fail where a bad input gets as far as the sampler."""

    def compiled(*args):
        raise AssertionError("the sampler was reached")

    compiled.lower = compiled
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trajens.sampling.sampler._advance", compiled)
        patch.setattr("trajens.sampling.sampler._measure", compiled)
        yield


def test_valid_input_does_reach_the_sampler():
    with pytest.raises(AssertionError, match="the sampler was reached"):
        tj.sample(TARGET, EPOCHS, chains=CHAINS)


# The target


@_some
@given(tau=st.integers(max_value=0) | st.integers(2**15 + 1, 2**200) | NOT_WHOLE)
def test_tau_must_be_a_whole_number_of_at_least_1(tau):
    _assert_refused(lambda: tj.Target(PROBLEM, tau, 0.1, 20.0), tau)


@_some
@given(sigma=NOT_POSITIVE)
def test_sigma_must_be_positive_and_finite(sigma):
    _assert_refused(lambda: tj.Target(PROBLEM, TAU, sigma, 20.0), sigma)


@_some
@given(prior=NOT_POSITIVE.filter(lambda v: v is not None and v != "auto"))
def test_prior_must_be_positive_and_finite(prior):
    _assert_refused(lambda: tj.Target(PROBLEM, TAU, 0.1, 20.0, prior=prior), prior)


@_some
@given(s=NEGATIVE | NOT_FINITE)
def test_s_must_not_be_negative_or_infinite(s):
    _assert_refused(lambda: tj.Target(PROBLEM, TAU, 0.1, s), s)


@_some
@given(bad=NEGATIVE | NOT_FINITE, good=st.lists(st.floats(0.0, 100.0), max_size=3))
def test_s_of_every_chain_must_not_be_negative_or_infinite(bad, good):
    _assert_refused(lambda: tj.Target(PROBLEM, TAU, 0.1, [*good, bad]), bad)


@_few
@given(s=st.text("abcxyz, .", max_size=5) | st.complex_numbers() | st.just([[1.0], [1.0, 2.0]]) | st.just({}))
def test_s_must_be_numbers(s):
    _assert_refused(lambda: tj.Target(PROBLEM, TAU, 0.1, s), s)


@pytest.mark.parametrize("shape", [(0,), (2, 2), (1, 1, 1)])
def test_s_must_be_one_number_or_a_list(shape):
    _assert_refused(lambda: tj.Target(PROBLEM, TAU, 0.1, np.ones(shape)), shape)


@_few
@given(length=st.integers(1, 12).filter(lambda n: CHAINS % n != 0))
def test_s_must_have_numbers_that_the_chains_can_share(length):
    target = tj.Target(PROBLEM, TAU, 0.1, [1.0] * length)
    _assert_refused(lambda: tj.sample(target, EPOCHS, chains=CHAINS), shown=[f"{length} numbers", f"{CHAINS} chains"])


@pytest.mark.parametrize(
    ("schedule", "shown"),
    [
        (lambda epoch: epoch - 5.0, "-5.0"),
        (lambda epoch: epoch * jnp.nan, "nan"),
        (lambda epoch: 1.0 if epoch > 5 else 2.0, "TracerBoolConversionError"),
        (lambda epoch: "hot", "TypeError"),
    ],
)
def test_s_as_a_function_must_give_one_number_inside_jit(schedule, shown):
    message = _refusal(lambda: tj.Target(PROBLEM, TAU, 0.1, schedule))
    assert shown in message
    assert message.endswith(".")


@pytest.mark.parametrize("problem", [None, "problem", X])
def test_problem_must_be_a_problem(problem):
    _assert_refused(lambda: tj.Target(problem, TAU, 0.1, 20.0), shown=[type(problem).__name__])


# Schedules


@_few
@given(epochs=st.lists(st.integers(0, 1000), min_size=1, max_size=5).filter(lambda e: e[0] or e != sorted(set(e))))
def test_steps_must_start_at_0_and_increase(epochs):
    _assert_refused(lambda: tj.schedule.stepped([(epoch, 1.0) for epoch in epochs]), epochs)


def test_steps_must_not_be_empty():
    _assert_refused(lambda: tj.schedule.stepped([]), [])


@_few
@given(value=NEGATIVE | NOT_FINITE | NOT_A_NUMBER)
def test_values_of_steps_and_ramps_must_be_valid(value):
    _assert_refused(lambda: tj.schedule.stepped([(0, value)]), value)
    _assert_refused(lambda: tj.schedule.linear(value, 1.0, 10), value)
    _assert_refused(lambda: tj.schedule.linear(1.0, value, 10), value)


@_few
@given(value=NOT_POSITIVE)
def test_exponential_ramps_must_not_touch_0(value):
    _assert_refused(lambda: tj.schedule.exponential(value, 1.0, 10), value)
    _assert_refused(lambda: tj.schedule.exponential(1.0, value, 10), value)


@_few
@given(epochs=st.integers(max_value=0) | NOT_WHOLE)
def test_ramps_must_have_epochs(epochs):
    _assert_refused(lambda: tj.schedule.linear(1.0, 2.0, epochs), epochs)
    _assert_refused(lambda: tj.schedule.exponential(1.0, 2.0, epochs), epochs)


# Moves and scans


@_some
@given(share=NOT_A_SHARE)
@pytest.mark.parametrize("name", ["fraction", "refresh"])
@pytest.mark.parametrize("move", [tj.SingleSite, lambda **kw: tj.Segment(2, **kw)], ids=["single", "segment"])
def test_fraction_and_refresh_must_be_in_0_1(move, name, share):
    if name == "fraction" and share is None:  # the default
        return
    _assert_refused(lambda: move(**{name: share}), share)


@_few
@given(length=st.integers(max_value=0) | NOT_WHOLE)
def test_length_of_a_segment_must_be_a_whole_number_of_at_least_1(length):
    _assert_refused(lambda: tj.Segment(length), length)


@_few
@given(tau=st.integers(1, 6), extra=st.integers(0, 5), is_mixed=st.booleans())
def test_a_segment_must_be_shorter_than_the_path(tau, extra, is_mixed):
    move = tj.Segment(tau + extra)
    if is_mixed:
        move = tj.Mixture([(1.0, tj.SingleSite()), (1.0, move)])
    target = tj.Target(PROBLEM, tau, 0.1, 20.0)
    _assert_refused(lambda: tj.sample(target, EPOCHS, chains=CHAINS, move=move), tau + extra, shown=[f"tau = {tau}"])


def test_a_mixture_must_not_be_empty():
    _assert_refused(lambda: tj.Mixture([]), shown=["none"])


@_some
@given(weight=NOT_POSITIVE)
def test_weights_of_a_mixture_must_be_positive(weight):
    _assert_refused(lambda: tj.Mixture([(1.0, tj.SingleSite()), (weight, tj.SingleSite())]), weight)


@_few
@given(move=st.text(max_size=5) | st.none() | st.floats())
def test_a_mixture_must_hold_moves(move):
    _assert_refused(lambda: tj.Mixture([(1.0, move)]), move)


@_few
@given(width=NOT_POSITIVE)
def test_width_of_a_shift_must_be_positive(width):
    _assert_refused(lambda: tj.CentreOfMass(width), width)


@_few
@given(repeats=st.integers(max_value=0) | NOT_WHOLE)
def test_repeats_of_a_checkerboard_must_be_at_least_1(repeats):
    _assert_refused(lambda: tj.Checkerboard(repeats), repeats)


@_few
@given(scan=st.text(max_size=12).filter(lambda v: v not in ("random", "checkerboard")) | st.none() | st.integers())
def test_scan_must_be_a_known_name(scan):
    _assert_refused(
        lambda: tj.sample(TARGET, EPOCHS, chains=CHAINS, scan=scan), scan, shown=["'checkerboard', 'random'"]
    )


# Acceptance tests


@_some
@given(rho=NOT_POSITIVE | st.floats(min_value=1.5, exclude_min=True))
def test_rho_must_be_in_0_1_and_a_half(rho):
    _assert_refused(lambda: tj.MinibatchBarker(32, rho=rho), rho)


@_some
@given(rho=NOT_POSITIVE.filter(lambda v: v is not None) | st.floats(min_value=2.5, exclude_min=True))
@pytest.mark.parametrize("tolerance", [0.01, None])
def test_rho_of_the_penalty_must_be_in_0_2_and_a_half(rho, tolerance):
    _assert_refused(lambda: tj.Penalty(32, rho=rho, tolerance=tolerance), rho)


@_some
@given(tolerance=NOT_POSITIVE.filter(lambda v: v is not None) | st.floats(min_value=1.0, exclude_min=True))
def test_the_tolerance_must_be_in_0_1(tolerance):
    _assert_refused(lambda: tj.Penalty(32, tolerance=tolerance), tolerance)


@_some
@given(stages=st.integers(max_value=0) | st.integers(3, 10**6) | NOT_WHOLE)
def test_stages_must_be_1_or_2(stages):
    _assert_refused(lambda: tj.Penalty(32, stages=stages), stages)


@_some
@given(chunk=st.integers(max_value=1) | NOT_WHOLE.filter(lambda v: v is not None))
@pytest.mark.parametrize("test", [tj.MinibatchBarker, tj.Penalty])
def test_chunk_must_be_at_least_2(test, chunk):
    _assert_refused(lambda: test(chunk), chunk)


@_few
@given(chunk=st.integers(max_value=1) | st.integers(SIZE + 1, 10**6) | NOT_WHOLE.filter(lambda v: v is not None))
@pytest.mark.parametrize("test", [tj.Metropolis, tj.Barker])
def test_chunk_of_a_full_data_test_must_be_in_2_n(test, chunk):
    _assert_refused(lambda: tj.sample(TARGET, EPOCHS, chains=CHAINS, acceptance=test(chunk)), chunk)


@_few
@given(chunk=st.integers(SIZE + 1, 10**6))
@pytest.mark.parametrize("test", [tj.MinibatchBarker, tj.Penalty])
def test_chunk_must_not_exceed_the_data(test, chunk):
    _assert_refused(
        lambda: tj.sample(TARGET, EPOCHS, chains=CHAINS, acceptance=test(chunk)), chunk, shown=[f"{SIZE} examples"]
    )


@_few
@given(table=st.text(max_size=8).filter(lambda v: v not in ("lp", "ridge")) | st.none() | st.integers())
def test_table_must_be_a_known_name(table):
    _assert_refused(lambda: tj.MinibatchBarker(32, table=table), table, shown=["'lp', 'ridge'"])


@_few
@given(
    cutoff=st.floats()
    | st.text(max_size=4)
    | st.lists(st.floats(0.0, 10.0), max_size=4).filter(lambda v: len(v) != 2)
    | st.lists(st.floats(0.0, 10.0), max_size=4).filter(lambda v: len(v) != 2).map(tuple)
)
def test_cutoff_must_be_two_numbers(cutoff):
    _assert_refused(lambda: tj.MinibatchBarker(32, cutoff=cutoff), cutoff)


@_few
@given(bad=NEGATIVE | NOT_FINITE | NOT_A_NUMBER, good=st.floats(0.0, 10.0), is_first=st.booleans())
def test_both_numbers_of_the_cutoff_must_be_valid(bad, good, is_first):
    _assert_refused(lambda: tj.MinibatchBarker(32, cutoff=(bad, good) if is_first else (good, bad)), bad)


@_few
@given(tolerance=NOT_POSITIVE.filter(lambda v: v is not None))
def test_skew_tolerance_must_be_positive(tolerance):
    _assert_refused(lambda: tj.MinibatchBarker(32, skew_tolerance=tolerance), tolerance)


# The problem


@_few
@given(places=st.sets(st.integers(0, X.size - 1), min_size=1), bad=NOT_FINITE, dtype=st.sampled_from(["f4", "f8"]))
def test_data_must_be_finite(places, bad, dtype):
    data = X.astype(dtype)
    data.flat[list(places)] = bad
    _assert_refused(lambda: tj.Problem(_loss, data, 2), shown=[f"{len(places)} NaN or infinite", f"of {X.size}"])


@_few
@given(sizes=st.lists(st.integers(2, 9), min_size=2, max_size=3).filter(lambda n: len(set(n)) > 1))
def test_arrays_of_data_must_have_equal_length(sizes):
    data = [np.ones((n, 2), np.float32) for n in sizes]
    _assert_refused(lambda: tj.Problem(_loss, data, 2), shown=[str(sorted(set(sizes)))])


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        ((), "none"),
        (np.float32(1.0), "()"),
        (np.array(["a", "b"]), "<U1"),
        (np.ones((3, 2), complex), "complex128"),
        (np.array([None, 1]), "object"),
        (X[:1], "1"),
        (X[:0], "0"),
    ],
)
def test_data_must_be_at_least_two_rows_of_numbers(data, shown):
    _assert_refused(lambda: tj.Problem(_loss, data, 2), shown=[shown])


@pytest.mark.parametrize(
    ("loss", "shown"),
    [
        (lambda theta, x: _loss(theta, x).mean(), "()"),
        (lambda theta, x: _loss(theta, x)[:, None], "(2, 1)"),
        (lambda theta, x: _loss(theta, x)[:1], "(1,)"),
        (lambda theta, x: jnp.zeros(2), "(2,)"),
        (lambda theta, x: 1.0, "()"),
        (lambda theta, x: [_loss(theta, x)], "list"),
        (lambda theta, x: {"loss": _loss(theta, x)}, "dict"),
        (lambda theta, x: None, "NoneType"),
        (lambda theta, x: _loss(theta, x) > 1, "bool"),
        (lambda theta, x: _loss(theta, x) * 1j, "complex64"),
    ],
    ids=["scalar", "column", "one", "always two", "float", "list", "dict", "none", "bool", "complex"],
)
def test_a_loss_must_return_one_number_per_example(loss, shown):
    _assert_refused(lambda: tj.Problem(loss, X, 2), shown=[f"got {shown}"])


@pytest.mark.parametrize(
    ("loss", "shown"),
    [
        (lambda theta, x: x @ theta[:1], "TypeError"),
        (lambda theta: theta, "TypeError"),
        (lambda theta, x: float(theta[0]), "ConcretizationTypeError"),
        (lambda theta, x: {}["weights"], "KeyError"),
        (lambda theta, x: "low", "TypeError"),
    ],
    ids=["shapes", "arguments", "float", "key", "text"],
)
def test_a_loss_that_fails_is_refused_with_its_own_error(loss, shown):
    # The sentence quotes an error that is not ours.
    message = _refusal(lambda: tj.Problem(loss, X, 2))
    assert shown in message
    assert message.endswith(".")


@_few
@given(loss=st.none() | st.text(max_size=5) | st.floats())
def test_a_loss_must_be_a_function(loss):
    _assert_refused(lambda: tj.Problem(loss, X, 2), loss)


@_few
@given(dim=st.integers(max_value=0) | NOT_WHOLE)
def test_dim_must_be_a_whole_number_of_at_least_1(dim):
    _assert_refused(lambda: tj.Problem(_loss, X, dim), dim)


@pytest.mark.parametrize("shape", [(), (1,), (3,), (1, 2)])
def test_the_initial_model_of_a_problem_must_be_one_model(shape):
    _assert_refused(lambda: tj.Problem(_loss, X, 2, initial=np.zeros(shape)), shape)


# The run


@_few
@given(epochs=st.integers(1, 1000), extra=st.integers(0, 1000))
def test_burn_in_must_be_less_than_epochs(epochs, extra):
    _assert_refused(
        lambda: tj.sample(TARGET, epochs, chains=CHAINS, burn_in=epochs + extra),
        epochs + extra,
        shown=[f"epochs = {epochs}"],
    )


@_some
@given(name=st.sampled_from(["epochs", "chains", "records"]), value=st.integers(max_value=0) | NOT_WHOLE)
def test_counts_must_be_whole_numbers_of_at_least_1(name, value):
    _assert_refused(lambda: tj.sample(TARGET, **{"epochs": EPOCHS, "chains": CHAINS, name: value}), value)


@_some
@given(value=st.integers(max_value=-1) | NOT_WHOLE.filter(lambda v: v is not None))
def test_burn_in_must_be_a_whole_number_of_at_least_0(value):
    _assert_refused(lambda: tj.sample(TARGET, EPOCHS, chains=CHAINS, burn_in=value), value)


@_some
@given(seed=st.integers(max_value=-1) | st.integers(2**32, 2**200) | NOT_WHOLE)
def test_seed_must_have_32_bits(seed):
    _assert_refused(lambda: tj.sample(TARGET, EPOCHS, chains=CHAINS, seed=seed), seed)


@_few
@given(shape=st.lists(st.integers(0, 5), max_size=4).map(tuple))
def test_initial_must_be_a_model_a_path_or_paths(shape):
    if shape in {(2,), (TAU, 2), (CHAINS, TAU, 2)}:
        return
    _assert_refused(lambda: tj.sample(TARGET, EPOCHS, chains=CHAINS, initial=np.zeros(shape)), shape)


@_few
@given(
    shape=st.sampled_from([(2,), (TAU, 2), (CHAINS, TAU, 2)]),
    count=st.integers(1, 2),
    bad=NOT_FINITE,
)
def test_initial_must_be_finite(shape, count, bad):
    initial = np.zeros(shape)
    initial.flat[:count] = bad
    _assert_refused(lambda: tj.sample(TARGET, EPOCHS, chains=CHAINS, initial=initial), shown=[f"got {count} NaN"])


@pytest.mark.parametrize("initial", ["zeros", {}, [[0.0], [0.0, 1.0]]])
def test_initial_must_be_numbers(initial):
    _assert_refused(lambda: tj.sample(TARGET, EPOCHS, chains=CHAINS, initial=initial), shown=[type(initial).__name__])


@_few
@given(given_=st.text(max_size=5) | st.floats() | st.just(tj.SingleSite) | st.just(tj.Penalty))
def test_move_test_and_target_must_be_what_they_are_called(given_):
    _assert_refused(lambda: tj.sample(TARGET, EPOCHS, chains=CHAINS, move=given_), given_)
    _assert_refused(lambda: tj.sample(TARGET, EPOCHS, chains=CHAINS, acceptance=given_), given_)
    _assert_refused(lambda: tj.sample(given_, EPOCHS, chains=CHAINS), shown=[type(given_).__name__])


# What should be refused and is not, or not well


@pytest.mark.parametrize(
    "call",
    [
        lambda: tj.Target(PROBLEM, True, 0.1, 20.0),
        lambda: tj.Target(PROBLEM, TAU, 0.1, True),
        lambda: tj.Penalty(32, rho=True),
        lambda: tj.Target(PROBLEM, TAU, 0.1, "20"),
        lambda: tj.Target(PROBLEM, TAU, 0.1, 1e39),
        lambda: tj.Target(PROBLEM, TAU, 1e-30, 20.0),
        lambda: tj.Target(PROBLEM, 10**400, 0.1, 20.0),
        lambda: tj.Target(PROBLEM, TAU, 10**400, 20.0),
        lambda: tj.Mixture([tj.SingleSite()]),
        lambda: tj.Mixture(1.0),
        lambda: tj.schedule.stepped([5]),
        lambda: tj.schedule.stepped([(0, 1.0, 2.0)]),
        lambda: tj.Problem(_loss, X, 2, initial="zeros"),
    ],
    ids=[
        "tau is a truth value",
        "s is a truth value",
        "rho is a truth value",
        "s is a string of digits",
        "s overflows float32",
        "sigma squared underflows float32",
        "tau overflows a float",
        "sigma overflows a float",
        "move without a weight",
        "mixture of a number",
        "step without a value",
        "step of three",
        "initial model is text",
    ],
)
def test_is_refused(call):
    _refusal(call)


@pytest.mark.parametrize(
    "get", [lambda: tj.Segment(2.0).length, lambda: tj.Checkerboard(2.0).repeats], ids=["length", "repeats"]
)
def test_whole_floats_are_kept_as_integers(get):
    assert isinstance(get(), int)


@pytest.mark.parametrize(
    ("call", "shown"),
    [
        (lambda: tj.Target(PROBLEM, TAU, 0.1, None), "None"),
        (lambda: tj.Target(PROBLEM, TAU, 0.1, lambda epoch: epoch * jnp.ones(3)), "(3,)"),
        (lambda: tj.Problem(_loss, X, 2, initial=[0.0, math.nan]), "nan"),
    ],
    ids=["s", "s of three numbers", "initial"],
)
def test_message_shows_what_was_given(call, shown):
    assert shown in _refusal(call)


# Valid input


@_some
@given(tau=st.integers(1, 2**15), sigma=POSITIVE, s=TILT, prior=st.none() | POSITIVE)
def test_valid_targets_are_accepted(tau, sigma, s, prior):
    target = tj.Target(PROBLEM, tau, sigma, s, prior)
    assert (target.tau, target.sigma, target.prior) == (tau, sigma, prior)
    np.testing.assert_array_equal(target.s_values, np.asarray(s, np.float32))


@_some
@given(fraction=SHARE, refresh=SHARE, length=st.integers(1, 100), weight=POSITIVE, width=POSITIVE)
def test_valid_moves_are_accepted(fraction, refresh, length, weight, width):
    single, segment = tj.SingleSite(fraction, refresh), tj.Segment(length, fraction, refresh)
    mixture = tj.Mixture([(weight, single), (1, segment), (0.5, tj.CentreOfMass(width))])
    mixture = tj.Mixture([(1.0, mixture), (weight, single)])
    mixture.check(length + 1)
    assert len(mixture.components) == 4
    assert hash(mixture) == hash(tj.Mixture(mixture.moves))


@_some
@given(
    chunk=st.integers(2, SIZE),
    rho=st.floats(0.0, 1.5, exclude_min=True) | st.just(1),
    table=st.sampled_from(["lp", "ridge"]),
    cutoff=st.none() | st.tuples(st.floats(0.0, 100.0), st.integers(0, 100)) | st.just([10.0, 5.0]),
    skew_tolerance=st.none() | POSITIVE,
    flag=st.booleans(),
    tolerance=st.none() | st.floats(0.0, 1.0, exclude_min=True) | st.just(1),
    stages=st.sampled_from([1, 2]),
)
def test_valid_acceptance_tests_are_accepted(chunk, rho, table, cutoff, skew_tolerance, flag, tolerance, stages):
    tests = [
        tj.MinibatchBarker(chunk, rho, table, cutoff, flag, skew_tolerance),
        tj.Penalty(chunk, rho, flag),
        tj.Penalty(chunk, rho + 1.0, tolerance=tolerance, stages=stages),
        tj.Metropolis(chunk),
        tj.Barker(chunk),
        tj.paper_test(chunk),
    ]
    for test in tests:
        assert test.chunk_size(SIZE) == chunk
        hash(test)


@_some
@given(
    start=POSITIVE,
    stop=POSITIVE,
    epochs=st.integers(1, 2**31 - 1),
    steps=st.lists(st.integers(1, 10**6), unique=True, max_size=5),
    repeats=st.integers(1, 100),
)
def test_valid_schedules_and_scans_are_accepted(start, stop, epochs, steps, repeats):
    schedules = [
        tj.schedule.linear(start, stop, epochs),
        tj.schedule.exponential(start, stop, epochs),
        tj.schedule.stepped([(0, start), *((epoch, stop) for epoch in sorted(steps))]),
    ]
    for schedule in schedules:
        hash(schedule)
    assert tj.Checkerboard(repeats).repeats == repeats


@_few
@given(
    size=st.integers(2, 6),
    width=st.integers(1, 3),
    dtype=st.sampled_from(["f2", "f4", "f8", "i4", "u1", "bool"]),
    start=st.sampled_from([None, 0.5]),
)
def test_valid_problems_are_accepted(size, width, dtype, start):
    data = {"x": np.ones((size, width), dtype), "y": np.arange(size)}
    loss = lambda theta, batch: (batch["x"] * theta).sum(1) - batch["y"]  # noqa: E731
    problem = tj.Problem(loss, data, width, initial=None if start is None else [start] * width)
    assert (problem.size, problem.dim) == (size, width)


def _loss(theta, x):
    return x[:, 0] * theta[0]


def _refusal(call) -> str:
    with pytest.raises(tj.InputError) as caught:
        call()
    assert isinstance(caught.value, ValueError)
    return str(caught.value)


_NOTHING = object()


def _assert_refused(call, value=_NOTHING, shown=()) -> None:
    """Refused in one sentence that shows the value that was given, or the words in `shown`."""
    message = _refusal(call)
    for words in shown:
        assert words in message
    if value is not _NOTHING:
        given = re.compile("got (shape |epochs )?" + re.escape(repr(value)))
        assert given.search(message)
        message = given.sub("got _", message)
    assert message.endswith(".")
    assert "\n" not in message
    assert re.search(r"[.!?]\s", message) is None
