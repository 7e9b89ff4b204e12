"""Acceptance at fixed Delta: the frequency of every test follows its formula when Delta* has known normal noise."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import expit, logit, ndtr

import trajens as tj
from tests.evidence import ONE_STAGE, evidence_of, plan_at, plan_of
from trajens.acceptance import Reason
from trajens.acceptance.barker import correction_table
from trajens.randomness import Purpose, fold_in, key_of, normal, uniform, words

Z = 6.0
DRAWS = 2**20
DELTAS = np.array([-4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0])
SIZE, BATCH = 2**30, 2**16  # both so large that 1/b and b/N are below every Monte Carlo error
SIGNIFICANCE = 1e-9

# rho, sup error of A, max error of logit A for |x| <= 12; as printed in the theory, to one or two digits
PRINTED = [
    (0.9, 3e-9, 1e-8),
    (1.0, 1.6e-7, 7e-7),
    (1.1, 4e-6, 1.7e-5),
    (1.2, 4.5e-5, 2e-4),
    (1.3, 2.8e-4, 1.3e-3),
    (1.4, 1.1e-3, 5e-3),
]
ROUNDING_OF_PRINT = 1.3
RIDGE_ERROR = 7e-4


def test_metropolis_accepts_with_min_1_exp_delta():
    accepted = _acceptance(tj.Metropolis(), rho=0.0, b=SIZE)
    _assert_frequencies(accepted, np.minimum(1.0, np.exp(DELTAS)))


def test_barker_accepts_with_the_logistic():
    accepted = _acceptance(tj.Barker(), rho=0.0, b=SIZE)
    _assert_frequencies(accepted, expit(DELTAS))


@pytest.mark.parametrize("test", [tj.Metropolis(), tj.Barker()], ids=["metropolis", "barker"])
def test_full_data_tests_wait_for_all_data(test):
    for b, is_decided in ((1, False), (99, False), (100, True)):
        assert bool(_decide(test, 50.0, 0.0, b=b, size=100).is_decided) is is_decided
    assert int(_decide(test, 50.0, 0.0, b=100, size=100).reason) == Reason.ALL_DATA


@pytest.mark.parametrize(
    ("rho_t", "table", "error"),
    [(1.0, "lp", 1.6e-7), (1.3, "lp", 2.8e-4), (1.0, "ridge", 6e-4)],
)
def test_minibatch_barker_accepts_with_the_logistic_at_every_noise(rho_t, table, error):
    test = tj.MinibatchBarker(32, rho=rho_t, table=table)
    for share in (0.0, 0.7, 0.999):
        accepted = _acceptance(test, rho=share * rho_t)
        _assert_frequencies(accepted, expit(DELTAS), ROUNDING_OF_PRINT * error)


def test_the_paper_test_is_the_ridge_table_without_the_finite_population_factor():
    assert tj.paper_test(240) == tj.MinibatchBarker(240, rho=1.0, table="ridge", finite_population=False)


@pytest.mark.parametrize("rho", [0.5, 1.0, 1.35])
def test_penalty_accepts_by_its_formula(rho):
    accepted = _acceptance(tj.Penalty(32, rho=1.5, **ONE_STAGE), rho)
    _assert_frequencies(accepted, _penalty_formula(DELTAS, rho))


def test_penalty_without_noise_is_metropolis():
    accepted = _acceptance(tj.Penalty(32, rho=1.5, **ONE_STAGE), rho=0.0)
    _assert_frequencies(accepted, np.minimum(1.0, np.exp(DELTAS)))


@settings(deadline=None, max_examples=200)
@given(delta=st.floats(-20.0, 20.0), rho=st.floats(0.05, 1.5))
def test_the_penalty_formula_is_detailed_balanced(delta, rho):
    forward, backward = _penalty_formula(delta, rho), _penalty_formula(-delta, rho)
    assert np.log(forward / backward) == pytest.approx(delta, abs=1e-9)


@pytest.mark.parametrize("rho", [0.5, 1.0, 1.35])
def test_penalty_frequencies_are_detailed_balanced(rho):
    accepted = _acceptance(tj.Penalty(32, rho=1.5, **ONE_STAGE), rho)
    log_ratio = np.log(accepted / accepted[::-1])
    relative = (1.0 - accepted) / (DRAWS * accepted)
    assert (np.abs(log_ratio - DELTAS) <= Z * np.sqrt(relative + relative[::-1])).all()


@settings(deadline=None, max_examples=100)
@given(
    word=st.integers(0, 2**32 - 1),
    b=st.integers(2, 1000),
    rho2=st.floats(0.0, 2.25),
    side=st.sampled_from([-1.0, 1.0]),
)
def test_penalty_has_all_three_terms(word, b, rho2, side):
    size = 4000
    penalty = rho2 / 2 + rho2**2 / (4 * (b + 1)) + rho2**3 / (3 * (b + 1) * (b + 3))
    threshold = float(jnp.log(uniform(jnp.uint32(word)))) + penalty
    delta = threshold + side * 1e-5 * (1.0 + abs(threshold))
    verdict = _decide(tj.Penalty(32, **ONE_STAGE), delta, rho2 * b / (1 - b / size), b=b, size=size, word=word)
    assert bool(verdict.is_accepted) == (side > 0)


@pytest.mark.parametrize("size", [256, 1000, 60000])
def test_the_planned_batch_is_the_smallest_that_reaches_rho(size):
    chunk, rho, s = 32, 1.35, 7.0
    test = tj.Penalty(chunk, rho=rho, **ONE_STAGE)
    for variance in np.geomspace(1e-3, 1e6, 28):
        plan = plan_at(test, variance / s**2, seen=5)
        b = int(test.planned_batch(plan, jnp.float32(s), size))
        assert b == size or b % chunk == 0
        assert _noise(variance, b, size) <= rho**2 * (1 + 1e-4)
        if b > chunk:
            # The last chunk may be cut off by the end of the data.
            fewer = (b - 1) // chunk * chunk
            assert _noise(variance, fewer, size) >= rho**2 * (1 - 1e-4)


@pytest.mark.parametrize("size", [256, 60000])
def test_the_noise_of_a_first_stage_is_bounded_at_any_variance(size):
    # Where the plan takes all data the first stage does, or noise would refuse everything.
    test = tj.Penalty(32, rho=2.0, tolerance=None)
    for variance in np.geomspace(1e2, 1e12, 21):
        plan = jax.tree.map(lambda leaf: leaf[0, 0], test.init(1, 1))
        plan = plan._replace(variance=jnp.float32(variance), seen=jnp.int32(5))
        b = int(test.planned_batch(plan, jnp.float32(1), size))
        part = float(plan.first) if 2 * variance * float(plan.first) / test.rho**2 > 32 and b < size else 1.0
        assert part**2 * _noise(variance, b, size) <= part * test.rho**2 * (1 + 1e-4)


@pytest.mark.parametrize("size", [256, 60000])
def test_a_second_stage_is_the_smallest_that_reaches_rho_after_the_first(size):
    test, divided = tj.Penalty(32, rho=2.0, tolerance=None), 0
    for variance in np.geomspace(1e2, 1e8, 25):
        plan = jax.tree.map(lambda leaf: leaf[0, 0], test.init(1, 1))
        plan = plan._replace(variance=jnp.float32(variance), seen=jnp.int32(5))
        first, second = (int(test.planned_batch(plan, jnp.float32(1), size, stage)) for stage in (0, 1))
        left = size - first
        if not 32 < second < left:
            continue
        divided += 1
        # Var X_2 = (1 - b_1/N)^2 S^2 (1/b_2 - 1/(N - b_1))
        noise, more = ((left / size) ** 2 * variance * (1 / b - 1 / left) for b in (second, second - 32))
        assert noise <= test.rho**2 * (1 + 1e-4)
        assert more >= test.rho**2 * (1 - 1e-4)
    assert divided > 2


def test_planned_penalty_decides_when_the_plan_is_reached_whatever_the_noise():
    test = tj.Penalty(32, **ONE_STAGE)
    for variance in (0.0, 1.0, 1e6):
        for b, is_decided in ((32, False), (96, False), (128, True), (160, True)):
            assert bool(_decide(test, 0.0, variance, b=b, size=1000, planned=128).is_decided) is is_decided


def test_minibatch_barker_decides_in_the_order_complete_then_cut_off_then_noise():
    test = tj.MinibatchBarker(32, rho=1.0)
    quiet, loud = 50.0, 1e4  # rho^2 = 0.25 and 50 at b = 100 of N = 200
    cases = [
        # delta, variance, b, decided, reason
        (0.0, quiet, 100, True, Reason.TESTED),
        (0.0, loud, 100, False, Reason.TESTED),
        (14.0, quiet, 100, True, Reason.CUT_OFF),
        (-14.0, quiet, 100, True, Reason.CUT_OFF),
        (1000.0, loud, 100, True, Reason.CUT_OFF),
        (1000.0, loud, 200, True, Reason.ALL_DATA),
        (0.0, loud, 200, True, Reason.ALL_DATA),
    ]
    for delta, variance, b, is_decided, reason in cases:
        verdict = _decide(test, delta, variance, b=b, size=200)
        assert bool(verdict.is_decided) is is_decided
        if is_decided:
            assert int(verdict.reason) == reason


def test_all_data_is_exact_barker_even_where_the_cut_off_would_fire():
    # With thresholds 0 the cut-off fires for every delta; the logistic must still decide.
    test = tj.MinibatchBarker(32, cutoff=(0.0, 0.0))
    accepted = _acceptance(test, rho=0.0, b=SIZE)
    _assert_frequencies(accepted, expit(DELTAS))


def test_a_cut_off_decides_by_the_sign():
    test = tj.MinibatchBarker(32, cutoff=(0.0, 0.0))
    accepted = _acceptance(test, rho=0.0)
    away = DELTAS != 0
    np.testing.assert_array_equal(accepted[away], (DELTAS > 0)[away])


def test_the_cut_off_fires_beyond_c0_plus_c1_rho():
    test = tj.MinibatchBarker(32, cutoff=(10.0, 5.0))
    size, b = 10**6, 100
    for rho in (0.1, 0.5, 1.0, 3.0):
        variance = rho**2 * b / (1 - b / size)
        for sign in (-1.0, 1.0):
            for factor, reason in ((0.999, Reason.TESTED), (1.001, Reason.CUT_OFF)):
                verdict = _decide(test, sign * factor * (10.0 + 5.0 * rho), variance, b=b, size=size)
                assert int(verdict.reason) == reason


@pytest.mark.parametrize("cutoff", [(10.0, 5.0), None])
@pytest.mark.parametrize("delta", [-100.0, -1.0, 0.0, 1.0, 100.0])
def test_no_spread_in_the_sample_is_decided_without_nan(delta, cutoff):
    planned = (tj.Penalty(32, **ONE_STAGE), tj.Penalty(32, pool=True, **ONE_STAGE))
    for test in (
        tj.MinibatchBarker(32, cutoff=cutoff, skew_tolerance=0.05),
        *planned,
        tj.Penalty(32, plan=False),
    ):
        for b in (1, 32, 100):
            verdict = _decide(test, delta, 0.0, b=b, size=100)
            # A plan is never for less than a chunk.
            assert bool(verdict.is_decided) is (b >= 32 or test not in planned)
            assert bool(verdict.is_accepted) == (delta > 0) or abs(delta) < 100
    assert float(evidence_of(delta, 0.0, 32, 100).third_cumulant()) == 0.0


def test_a_skew_tolerance_keeps_the_batch_growing():
    evidence = evidence_of(0.0, 40.0, 50, 1000, skewness=30.0)
    skew = abs(float(evidence.third_cumulant())) / 12
    rho2 = 40.0 / 50 * (1 - 50 / 1000)
    assert skew == pytest.approx(rho2**1.5 * 30.0 / np.sqrt(50) / 12, rel=1e-5)
    for factor, is_decided in ((0.99, False), (1.01, True)):
        test = tj.MinibatchBarker(32, rho=1.0, skew_tolerance=factor * skew)
        assert bool(test.decide((), evidence, jnp.zeros(4, jnp.uint32)).is_decided) is is_decided


def test_the_finite_population_factor_is_1_minus_b_over_n():
    for variance in (0.0, 1.0, 37.5):
        for b, size in ((1, 10), (32, 256), (64, 256), (100, 60000), (256, 256)):
            evidence = evidence_of(0.0, variance, b, size)
            assert float(evidence.noise(False)) == pytest.approx(variance / b, rel=1e-6)
            assert float(evidence.noise()) == pytest.approx(variance / b * (1 - b / size), rel=1e-6)


def test_the_noise_of_all_data_is_0():
    for size in (2, 3, 53, 256, 60000):
        evidence = evidence_of(0.0, 10.0, size, size)
        assert float(evidence.noise()) == 0.0
        assert float(evidence.noise(False)) > 0.0
        assert bool(evidence.is_complete)


def test_the_finite_population_factor_is_the_variance_of_a_mean_without_replacement():
    size, b, repeats = 40, 16, 200_000
    rng = np.random.default_rng(0)
    population = rng.standard_normal(size)
    means = population[rng.random((repeats, size)).argpartition(b, axis=1)[:, :b]].mean(1)
    expected = float(evidence_of(0.0, population.var(ddof=1), b, size).noise())
    # The error of a variance from normal draws is sqrt(2 / repeats) of it; a mean of 16 is close to normal.
    assert means.var() == pytest.approx(expected, rel=Z * np.sqrt(2 / repeats))


@pytest.mark.parametrize("finite_population", [True, False])
def test_minibatch_barker_uses_the_finite_population_factor_where_asked(finite_population):
    # rho^2 is 0.9 with the factor and 1.8 without.
    test = tj.MinibatchBarker(32, rho=1.0, finite_population=finite_population)
    assert bool(_decide(test, 0.0, 180.0, b=100, size=200).is_decided) is finite_population


@pytest.mark.parametrize(("rho", "sup_error", "logit_error"), PRINTED)
def test_the_linear_program_is_as_close_to_the_logistic_as_printed(rho, sup_error, logit_error):
    x = np.arange(-14.0, 1e-9, 0.005)  # the other half by symmetry, where 1 - A would lose digits
    accepted = correction_table(rho, "lp").acceptance(x)
    assert np.abs(accepted - expit(x)).max() <= ROUNDING_OF_PRINT * sup_error
    inner = x >= -12.0
    assert np.abs(logit(accepted[inner]) - x[inner]).max() <= ROUNDING_OF_PRINT * logit_error


def test_the_ridge_table_has_the_error_of_the_paper_and_is_centred():
    x = np.arange(-14.0, 14.001, 0.01)
    table = correction_table(1.0, "ridge")
    error = np.abs(table.acceptance(x) - expit(x)).max()
    assert 1e-4 < error <= RIDGE_ERROR
    assert table.acceptance(np.float64(0.0)) == pytest.approx(0.5, abs=1e-12)


@pytest.mark.parametrize(("rho", "method"), [(0.9, "lp"), (1.0, "lp"), (1.35, "lp"), (1.5, "lp"), (1.0, "ridge")])
def test_tables_are_symmetric_probabilities(rho, method):
    table = correction_table(rho, method)
    assert (table.probabilities > 0).all()
    assert table.probabilities.sum() == pytest.approx(1.0, abs=1e-12)
    assert (table.atoms >= 0).all()
    x = np.linspace(0.0, 12.0, 49)
    np.testing.assert_allclose(table.acceptance(x) + table.acceptance(-x), 1.0, atol=1e-12)


@pytest.mark.parametrize(("rho", "method"), [(1.0, "lp"), (1.3, "lp"), (1.0, "ridge")])
def test_sampled_corrections_have_the_probabilities_of_the_table(rho, method):
    table = correction_table(rho, method)
    random = words(_keys(17), Purpose.TEST, 2)
    drawn = np.asarray(table.sample(random[:, 0], random[:, 1]))
    atoms = table.atoms.astype(np.float32)
    place = np.searchsorted(atoms, np.abs(drawn))
    np.testing.assert_array_equal(atoms[place], np.abs(drawn))
    counts = np.bincount(2 * place + (drawn > 0), minlength=2 * atoms.size).astype(float)
    expected = DRAWS * np.repeat(table.probabilities / 2, 2)
    if atoms[0] == 0:  # has no sign
        counts[0], counts[1] = counts[0] / 2, counts[0] / 2
        counts, expected = np.append(counts[0] * 2, counts[2:]), np.append(expected[0] * 2, expected[2:])
    assert stats.chisquare(*_pooled(counts, expected)).pvalue > SIGNIFICANCE


@cache
def _acceptance(test: tj.acceptance.AcceptanceTest, rho: float, b: int = BATCH) -> np.ndarray:
    """Frequency of acceptance at every Delta when Delta* ~ N(Delta, rho^2); all draws must be decided."""
    # The variance that makes the noise rho^2, finite-population factor included.
    variance = rho**2 * b / (1 - b / SIZE) if b < SIZE else 0.0
    accepted, decided = _frequencies(test, jnp.asarray(DELTAS, jnp.float32), rho, variance, b)
    assert (np.asarray(decided) == DRAWS).all()
    return np.asarray(accepted) / DRAWS


@partial(jax.jit, static_argnums=0)
def _frequencies(test, deltas, rho, variance, b):  # type: ignore[no-untyped-def]
    def at(case):  # type: ignore[no-untyped-def]
        delta, seed = case
        keys = _keys(seed)
        # Without the barrier the hash would be fused into each of its many consumers and computed again there.
        noise, random = jax.lax.optimization_barrier(
            (normal(words(keys, Purpose.NOISE, 1)[:, 0]), words(keys, Purpose.TEST, test.num_words))
        )

        def one(delta_star, random):  # type: ignore[no-untyped-def]
            return test.decide(_unplanned(test), evidence_of(delta_star, variance, b, SIZE), random)

        verdict = jax.vmap(one)(delta + rho * noise, random)
        return verdict.is_accepted.sum(), verdict.is_decided.sum()

    return jax.lax.map(at, (deltas, jnp.arange(deltas.size)))


def _keys(seed):  # type: ignore[no-untyped-def]
    return fold_in(key_of(seed), jnp.arange(DRAWS))


def _assert_frequencies(accepted: np.ndarray, expected: np.ndarray, table_error: float = 0.0) -> None:
    # One draw more covers formulas at 0 and 1, and the cells of the uniform numbers.
    error = Z * np.sqrt(expected * (1 - expected) / DRAWS) + 1.0 / DRAWS + table_error
    worst = np.argmax(np.abs(accepted - expected) - error)
    assert (np.abs(accepted - expected) <= error).all(), (DELTAS[worst], accepted[worst], expected[worst])


def _penalty_formula(delta, rho):  # type: ignore[no-untyped-def]
    return ndtr((delta - rho**2 / 2) / rho) + np.exp(delta) * ndtr(-(delta + rho**2 / 2) / rho)


def _unplanned(test):  # type: ignore[no-untyped-def]
    """What a test remembers that decides after its first chunk; nothing, but for a plan of the smallest batch."""
    return plan_at(test, 0.0) if isinstance(test, tj.Penalty) and test.plan else ()


def _decide(test, delta, variance, b, size, planned=None, word=2**31):  # type: ignore[no-untyped-def]
    random = jnp.full(test.num_words, word, jnp.uint32)
    state = _unplanned(test) if planned is None else plan_of(test, planned, size)
    return test.decide(state, evidence_of(delta, variance, b, size), random)


def _noise(variance: float, b: int, size: int) -> float:
    return variance / b * (1 - b / size)


def _pooled(counts: np.ndarray, expected: np.ndarray, least: float = 20.0) -> tuple[np.ndarray, np.ndarray]:
    """All rare cells as one, so that every cell expects enough draws."""
    is_rare = expected < least
    if not is_rare.any():
        return counts, expected
    rare = counts[is_rare].sum(), expected[is_rare].sum()
    return np.append(counts[~is_rare], rare[0]), np.append(expected[~is_rare], rare[1])
