"""Skewed loss differences make no force: what the penalty test takes off u for its third cumulant."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

import trajens as tj
from tests.evidence import evidence_of, plan_at
from trajens.acceptance import Evidence
from trajens.acceptance.base import Past
from trajens.acceptance.moments import moments_of
from trajens.acceptance.penalty import PenaltyMemory, _taken_off

Z = 6.0
DRAWS = 2**16
PART = 0.3


def c_of(r):
    """The factor of T, as derived."""
    return 1 / 3 - norm.pdf(r / 2) / (4 * r * norm.cdf(-r / 2))


@pytest.mark.parametrize("part", [1.0, 0.7, PART])
def test_what_is_taken_off_is_the_derived_factor_times_t(part):
    b, variance, skewness = 4000, 3000.0, 0.8
    evidence = evidence_of(0.0, variance, b, size=2**30, skewness=skewness)
    rho2 = part**2 * variance / b
    t = part**3 * skewness * variance**1.5 / b**2
    found = float(_taken_off(evidence, part, jnp.float32(rho2), jnp.float32(1)))
    # The formula of the code is close to c(r) for r > 1; below, T is small.
    assert found == pytest.approx(c_of(np.sqrt(rho2 + 2 * part**2)) * t, abs=(0.003 if part > 0.5 else 0.06) * t)


def test_the_third_cumulant_of_a_batch_has_no_bias_and_that_of_its_mean_the_factor_of_a_finite_population():
    size, b, repeats = 60, 20, 100_000
    rng = np.random.default_rng(0)
    population = rng.standard_exponential(size).astype(np.float32)
    drawn = population[rng.random((repeats, size)).argpartition(b, axis=1)[:, :b]]
    moments = jax.jit(moments_of)(drawn)
    k3 = np.asarray(moments.third_cumulant * moments.variance**1.5, np.float64)
    centred = population.astype(np.float64) - population.mean(dtype=np.float64)
    whole = (centred**3).sum() * size / ((size - 1) * (size - 2))
    assert abs(k3.mean() - whole) < Z * k3.std() / np.sqrt(repeats)
    evidence = Evidence(moments_of(population[:b]), jnp.float32(1), jnp.float32(0), size)
    t = -float(evidence.skew() / evidence.moments.third_cumulant / evidence.moments.variance**1.5) * whole
    cubes = (drawn.mean(1, dtype=np.float64) - population.mean(dtype=np.float64)) ** 3
    assert abs(cubes.mean() - t * (1 - 2 * b / size)) < Z * cubes.std() / np.sqrt(repeats)
    # Covariance of the mean with its estimated variance.
    rho2 = np.asarray(moments.variance, np.float64) * (1 / b - 1 / size)
    products = (drawn.mean(1, dtype=np.float64) - population.mean(dtype=np.float64)) * (rho2 - rho2.mean())
    assert abs(products.mean() - t * (1 - b / size)) < Z * products.std() / np.sqrt(repeats)


def test_nothing_is_taken_off_with_all_data():
    for size in (3, 64, 1000):
        moments = moments_of(jnp.asarray(np.random.default_rng(0).standard_exponential(size), jnp.float32))
        evidence = Evidence(moments, jnp.float32(50), jnp.float32(0), size)
        assert float(_taken_off(evidence, 1.0, evidence.noise(), jnp.float32(1.1))) == 0.0
        half = evidence._replace(size=2 * size, past=Past(jnp.int32(size), jnp.float32(0)), stage=1)
        assert float(_taken_off(half, 0.7, half.noise(), jnp.float32(1.1))) == 0.0


@pytest.mark.parametrize("b", [1, 2, 3])
def test_few_values_and_no_spread_are_finite(b):
    for values in (np.zeros(b), np.arange(b)):
        evidence = Evidence(moments_of(jnp.asarray(values, jnp.float32)), jnp.float32(9), jnp.float32(0), 1000)
        assert np.isfinite(float(_taken_off(evidence, 1.0, evidence.noise(), jnp.float32(1))))


def test_without_a_tolerance_the_formula_is_as_it_stands():
    evidence = evidence_of(0.0, 60.0, 48, 2**30, skewness=3.0)
    chances = []
    for tolerance in (None, 0.01):
        test = tj.Penalty(16, rho=1.35, stages=1, tolerance=tolerance)
        chances.append(float(test.judge(plan_at(test, 60.0), evidence).log_chance))
    rho2 = 60.0 / 48
    u = rho2 / 2 + rho2**2 / (4 * 49) + rho2**3 / (3 * 49 * 51)
    assert chances[0] == pytest.approx(-u, rel=1e-5)
    assert chances[1] > chances[0] + 0.05


@cache
def odd_error(kind, rho, b, size, stages, is_taken):
    """Mean over Delta of (ln A/A' - Delta), weighted with the flux, and its error; T stays as it is in both."""
    rng = np.random.default_rng(b)
    whole = {"gamma": lambda n: (rng.standard_gamma(16 / 9, n) - 16 / 9) * 0.75, "normal": rng.standard_normal}[kind]
    population = whole(size)
    population = (population - population.mean()) / population.std(ddof=1)
    test = tj.Penalty(2, rho=2.38, stages=stages, tolerance=0.01 if is_taken else None)
    first = PART if stages == 2 else 0.0
    b1 = round(PART * b) if stages == 2 else 0
    spread = rho * np.sqrt(b / (1 - (b + b1) / size) * size / (size - b1))
    state = PenaltyMemory(*(jnp.float32(v) for v in (1e9, 9, 2.38, first, 1.0)))
    deltas = np.linspace(-3, 3, 7).astype(np.float32)
    weight = np.exp(-(deltas**2) / 4) * 2 * np.cosh(deltas / 2)

    @jax.jit
    def chances(values, sign):
        """Ln of the chance of accepting at every Delta; -l_i is Delta_i."""

        def one(values):
            def at(delta):
                drawn = -sign * values - delta
                later = moments_of(drawn[b1:])
                if stages == 1:
                    evidence = Evidence(later, jnp.float32(1), jnp.float32(0), size)
                    return jnp.minimum(test.judge(state, evidence).log_chance, 0.0)
                early = moments_of(drawn[:b1])
                zero = Past(jnp.int32(0), jnp.float32(0))
                before = Evidence(early, jnp.float32(1), jnp.float32(0), size, past=zero, stage=jnp.int32(0))
                after = Evidence(later, jnp.float32(1), jnp.float32(0), size, Past(early.n, early.mean), jnp.int32(1))
                found = [jnp.minimum(test.judge(state, e).log_chance, 0.0) for e in (before, after)]
                return found[0] + found[1]

            return jnp.exp(jax.vmap(at)(sign * deltas))

        return jax.lax.map(one, values, batch_size=1024)

    rows = rng.random((DRAWS, size)).argpartition(b + b1, axis=1)[:, : b + b1]
    values = (spread * population[rows]).astype(np.float32)
    there, back = (np.asarray(chances(values, sign), np.float64) for sign in (1.0, -1.0))
    pulls = there / (1 + np.exp(deltas)) - back / (1 + np.exp(-deltas))
    flux = ((there.mean(0) / (1 + np.exp(deltas)) + back.mean(0) / (1 + np.exp(-deltas))) / 2 * weight).sum()
    found = pulls @ weight / flux
    return found.mean(), found.std() / np.sqrt(len(found))


@pytest.mark.slow
@pytest.mark.parametrize(("rho", "b", "size", "stages"), [(1.35, 48, 1000, 1), (1.35, 96, 256, 1), (2.2, 96, 1000, 2)])
def test_the_force_of_skewed_differences_is_mostly_taken_out(rho, b, size, stages):
    plain, _ = odd_error("gamma", rho, b, size, stages, False)
    corrected, error = odd_error("gamma", rho, b, size, stages, True)
    assert plain < -0.03
    assert error < 0.15 * abs(plain)
    assert abs(corrected) < 0.25 * abs(plain) + 3.5 * error


@pytest.mark.slow
def test_normal_differences_have_no_force_and_get_none():
    corrected, error = odd_error("normal", 1.35, 48, 2000, 1, True)
    # What a finite population of normal numbers has of skewness itself is below the error.
    assert abs(corrected) < Z * error
