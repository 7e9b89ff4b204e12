"""Thermodynamics against exact laws: values within Z errors, and error bars that cover as often as they say."""

import numpy as np
import pytest
from scipy import stats

import trajens as tj
from tests.monte_carlo import Z, assert_agrees, z_scores
from tests.thermo.ladders import Bits, Gaussian
from trajens import thermo
from trajens.thermo.estimate import estimate
from trajens.thermo.fluctuations import _integrated as _time
from trajens.thermo.fluctuations import variance_of
from trajens.thermo.free_energy import _integrated

GAUSSIAN, BITS = Gaussian(), Bits()


def assert_within(value, stderr, exact, what=""):
    """Every entry within Z of its standard errors, which are numbers."""
    assert np.isfinite(stderr).all(), what
    scores = np.abs(np.asarray(value) - exact) / stderr
    assert np.max(scores) < Z, f"{what}: {np.max(scores):.1f} standard errors from the exact value"


def assert_covers(scores, chains, what=""):
    """Scores (replications, ...) are within 1 as often as those of Student's law with `chains` - 1 degrees, or inf."""
    expected = 2 * stats.t(chains - 1).cdf(1.0) - 1
    found = (np.abs(scores) < 1).mean(0)
    error = np.sqrt(expected * (1 - expected) / len(scores))
    assert np.abs(found - expected).max() < Z * error, f"{what}: {found} instead of {expected:.3f} +- {error:.3f}"


def replicated(count, by_mbar, ladders=16, draws=40):
    """Scores of all results over many replications of a short ladder, the results themselves, and what is exact."""
    rng = np.random.default_rng(1)
    middle = float(np.sqrt(GAUSSIAN.s[1] * GAUSSIAN.s[2]))
    exact = {"loss": GAUSSIAN.loss, "variance": GAUSSIAN.variance, "integration": GAUSSIAN.log_z[1:]}
    if by_mbar:
        exact |= {"mbar": GAUSSIAN.log_z[1:], "rate": np.delete(GAUSSIAN.rate(2), 2)}
        exact |= {"reweighted": np.array([GAUSSIAN.at(middle).loss])}
    scores, values = ({name: [] for name in exact} for _ in range(2))
    for _ in range(count):
        observed = GAUSSIAN.observed(rng, ladders, draws)
        curve, integral = thermo.curve(observed), thermo.log_z(observed, "integration")
        found = {
            "loss": (curve.loss, curve.loss_stderr),
            "variance": (curve.variance, curve.variance_stderr),
            "integration": (integral.log_z[1:], integral.stderr[1:]),
        }
        if by_mbar:
            mbar, rate = thermo.log_z(observed), thermo.rate_function(observed, GAUSSIAN.s[2])
            at = thermo.reweight(observed, middle)
            found["mbar"] = mbar.log_z[1:], mbar.stderr[1:]
            found["rate"] = np.delete(rate.rate, 2), np.delete(rate.rate_stderr, 2)
            found["reweighted"] = np.array([at.mean]), np.array([at.stderr])
        for name, (value, stderr) in found.items():
            scores[name].append((value - exact[name]) / stderr)
            values[name].append(value)
    return {name: (np.array(scores[name]), np.array(values[name]), exact[name]) for name in exact}


@pytest.mark.parametrize("ladders", [2, 4])
def test_errors_from_few_ladders_cover_as_often_as_those_from_many(ladders):
    rng, scores = np.random.default_rng(ladders), []
    for _ in range(1500):
        found = estimate(GAUSSIAN.observed(rng, ladders, 12), lambda sample: np.array([a.mean() for a in sample.loss]))
        scores.append((found.value - GAUSSIAN.tau * GAUSSIAN.loss) / found.stderr)
    assert_covers(np.array(scores), np.inf, f"{ladders} ladders")


@pytest.mark.parametrize(
    ("count", "by_mbar"), [(150, False), pytest.param(500, True, marks=pytest.mark.slow)], ids=["some", "all"]
)
def test_error_bars_cover_the_exact_values_as_often_as_they_say(count, by_mbar):
    for name, (scores, values, exact) in replicated(count, by_mbar).items():
        assert_covers(scores, np.inf, name)
        if name != "rate":
            assert_agrees(values, exact, name)


def test_a_perceptron_has_its_exact_thermodynamics():
    observed = GAUSSIAN.observed(np.random.default_rng(0), 64, 40)
    curve = thermo.curve(observed)
    np.testing.assert_array_equal(curve.s, GAUSSIAN.s)
    assert_within(curve.loss, curve.loss_stderr, GAUSSIAN.loss, "loss")
    assert_within(curve.variance, curve.variance_stderr, GAUSSIAN.variance, "variance")
    for method in ("mbar", "integration"):
        found = thermo.log_z(observed, method)
        assert found.log_z[0] == found.stderr[0] == 0.0
        assert_within(found.log_z[1:], found.stderr[1:], GAUSSIAN.log_z[1:], method)
    rate = thermo.rate_function(observed)
    assert rate.reference == GAUSSIAN.s[0]
    assert rate.rate[0] == rate.rate_stderr[0] == 0.0
    assert_within(rate.rate[1:], rate.rate_stderr[1:], GAUSSIAN.rate(0)[1:], "rate function")
    between = np.sqrt(GAUSSIAN.s[:-1] * GAUSSIAN.s[1:])
    at = thermo.reweight(observed, between)
    assert_within(at.mean, at.stderr, [GAUSSIAN.at(s).loss for s in between], "reweighted loss")
    assert (at.ess > 1000).all()


def test_paths_of_bits_have_the_thermodynamics_of_all_states():
    observed, first_bit = BITS.draw(np.random.default_rng(0), 64, 40)
    curve = thermo.curve(observed)
    mean = np.array([BITS.mean(BITS.loss, s) for s in BITS.s])
    variance = np.array([BITS.mean(BITS.loss**2, s) for s in BITS.s]) - mean**2
    assert_within(curve.loss, curve.loss_stderr, mean / BITS.tau, "loss")
    assert_within(curve.variance, curve.variance_stderr, variance, "variance")
    mbar = thermo.log_z(observed)
    assert_within(mbar.log_z[1:], mbar.stderr[1:], BITS.log_z[1:], "mbar")
    integral = thermo.log_z(observed, "integration")
    off = np.abs(_integrated(BITS.s, mean, variance) - BITS.log_z)[1:]
    assert_within(integral.log_z[1:], integral.stderr[1:] + off / Z, BITS.log_z[1:], "integration")
    rate = thermo.rate_function(observed, 1.0)
    exact = -(BITS.s - 1.0) * mean - (BITS.log_z - BITS.log_z[1])
    assert_within(np.delete(rate.rate, 1), np.delete(rate.rate_stderr, 1), np.delete(exact, 1), "rate function")
    at = thermo.reweight(observed, 3.0, first_bit)
    assert_within(at.mean, at.stderr, BITS.mean(BITS.first_bit, 3.0), "first bit")


def test_the_variance_of_short_chains_is_not_biased():
    rng = np.random.default_rng(0)
    law = rng.standard_normal((4000, 4, 1)) + rng.standard_normal((4000, 4, 6))
    assert_agrees([variance_of(chains) for chains in law], 2.0, "variance of chains with a mean of their own")


def test_integration_is_of_fourth_order_and_knows_what_it_leaves_out():
    errors, told = [], []
    for steps in (3, 6):
        s = np.geomspace(GAUSSIAN.s[0], GAUSSIAN.s[-1], steps + 1)
        exact = [GAUSSIAN.at(one) for one in s]
        mean, variance = (np.array([getattr(e, name) for e in exact]) for name in ("loss", "variance"))
        near = 1e-4 * s
        third = [
            (GAUSSIAN.at(a - h).variance - GAUSSIAN.at(a + h).variance) / (2 * h) for a, h in zip(s, near, strict=True)
        ]
        by_two = _integrated(s, GAUSSIAN.tau * mean, variance)[-1]
        by_three = _integrated(s, GAUSSIAN.tau * mean, variance, third)[-1]
        errors.append(by_two - GAUSSIAN.log_z[-1])
        told.append(by_two - by_three)
    assert 13 < errors[0] / errors[1] < 19
    assert 0.7 < told[1] / errors[1] < 1.3


def test_integration_from_s_0_goes_along_s():
    s = np.linspace(0.0, 2.0, 5)
    mean = np.array([BITS.mean(BITS.loss, one) for one in s])
    variance = np.array([BITS.mean(BITS.loss**2, one) for one in s]) - mean**2
    exact = np.log(BITS.z(2.0) / BITS.z(0.0))
    assert abs(_integrated(s, mean, variance)[-1] - exact) < 3e-4 * abs(exact)


def test_a_part_of_the_examples_brings_its_error_and_no_bias():
    rng = np.random.default_rng(0)
    size, part, groups = 160, 64, 16
    path = rng.standard_normal((1, 8, 30, 2))
    losses = rng.gamma(2.0, size=(size, 1, 1, 1)) * (2 + 0.3 * path + 3 * rng.standard_normal((size, 8, 30, 2)))
    s = np.repeat([1.0, 1.2], 4)
    every = thermo.Observed(s, losses.mean(0))
    whole = thermo.curve(every), thermo.log_z(every, "integration")
    off, told = [], []
    for _ in range(150):
        some = losses[rng.choice(size, part, replace=False)].reshape(groups, -1, 8, 30, 2).mean(1)
        observed = thermo.Observed(s, some.mean(0), some, part / size)
        curve, free = thermo.curve(observed), thermo.log_z(observed, "integration")
        plain = thermo.curve(thermo.Observed(s, some.mean(0)))
        off.append(
            [
                curve.loss[0] - whole[0].loss[0],
                curve.variance[0] - whole[0].variance[0],
                free.log_z[1] - whole[1].log_z[1],
                plain.variance[0] - whole[0].variance[0],
            ]
        )
        assert np.sqrt(curve.loss_stderr[0] ** 2 - plain.loss_stderr[0] ** 2) == pytest.approx(observed.loss_error[0])
        told.append([observed.loss_error[0], np.sqrt(max(free.stderr[1] ** 2 - whole[1].stderr[1] ** 2, 0))])
    off, told = np.array(off), np.array(told)
    assert_agrees(off[:, :3], 0.0, "results from a part of the examples")
    assert z_scores(off[:, 3], 0.0) > 2 * Z
    assert_covers(off[:, :1] / told[:, :1], groups)
    assert 0.8 < np.sqrt((told[:, 1] ** 2).mean()) / off[:, 2].std() < 1.25


def test_chains_may_be_more_at_some_s():
    observed = GAUSSIAN.observed(np.random.default_rng(0), 33, 40)
    fewer = thermo.Observed(observed.s[:-2], observed.losses[:-2])
    assert sorted(len(chains) for chains in fewer.members) == [32, 32, 33, 33, 33]
    found = thermo.log_z(fewer)
    assert_within(found.log_z[1:], found.stderr[1:], GAUSSIAN.log_z[1:])
    with pytest.raises(tj.InputError, match="two at least"):
        thermo.curve(thermo.Observed([1.0, 1.0, 2.0], np.ones((3, 4, 1))))


def test_ladders_that_share_random_numbers_are_left_out_together():
    """With the same noise at all s, errors of ln Z are larger than those of independent chains."""
    rng = np.random.default_rng(2)
    alike, apart = (
        np.mean([thermo.log_z(GAUSSIAN.observed(rng, 16, 40, shared=shared)).stderr[-1] for _ in range(8)])
        for shared in (1.0, 0.0)
    )
    assert alike > 1.3 * apart


def test_a_single_chain_has_no_error():
    observed = GAUSSIAN.observed(np.random.default_rng(0), 1, 400)
    assert np.isnan(thermo.curve(observed).loss_stderr).all()
    found = thermo.log_z(observed)
    assert np.isnan(found.stderr).all()
    assert np.isfinite(found.log_z).all()
    one = thermo.Observed(observed.s[:1], observed.losses[:1])
    assert thermo.reweight(one, one.s[0]).mean == pytest.approx(one.losses.mean())


def test_overlaps_are_those_of_the_gaussian():
    s, paths = GAUSSIAN.draw(np.random.default_rng(0), 64, 30)
    found = thermo.overlap(paths, s)
    np.testing.assert_array_equal(found.s, GAUSSIAN.s)
    apart = ~np.eye(GAUSSIAN.tau, dtype=bool)
    for level, exact in enumerate(map(thermo.overlap, GAUSSIAN.exact)):
        np.testing.assert_allclose(np.diagonal(found.along[level]), 1.0)
        np.testing.assert_allclose(np.diagonal(found.distance_along[level]), 0.0, atol=1e-12)
        for name, where in {"along": apart, "distance_along": apart, "between": ..., "distance_between": ...}.items():
            value, stderr = (getattr(found, n)[level][where] for n in (name, f"{name}_stderr"))
            assert_within(value, stderr, getattr(exact, name)[0][where], name)
    single = thermo.overlap(paths[:1])
    assert np.isnan(single.between).all()
    np.testing.assert_allclose(np.diagonal(single.along[0]), 1.0)


def test_overlaps_are_what_they_are_defined_to_be():
    paths = np.random.default_rng(0).standard_normal((3, 2, 4, 5)) + 1.0
    found = thermo.overlap(paths)
    draws = [(a, b) for a in range(3) for b in range(3) if a != b]
    between = np.mean([np.einsum("itd,jud->tu", paths[a], paths[b]) / (4 * 5) for a, b in draws], 0)
    along = np.einsum("citd,ciud->tu", paths, paths) / (3 * 2 * 5)
    gaps = [paths[a][:, None, :, None] - paths[b][None, :, None] for a, b in draws]
    np.testing.assert_allclose(found.distance_between[0], np.mean(np.square(gaps), (0, 1, 2, 5)))
    gaps = paths[:, :, :, None] - paths[:, :, None]
    np.testing.assert_allclose(found.distance_along[0], np.mean(gaps**2, (0, 1, 4)), atol=1e-12)
    size = np.sqrt(np.outer(np.diag(along), np.diag(along)))
    np.testing.assert_allclose(found.along[0], along / size)
    np.testing.assert_allclose(found.between[0], between / size)


def test_correlation_times_of_few_short_chains_are_not_far_off():
    rng, memory = np.random.default_rng(0), 0.7
    noise = rng.standard_normal((600, 5, 60))
    for d in range(1, 60):
        noise[..., d] = memory * noise[..., d - 1] + np.sqrt(1 - memory**2) * noise[..., d]
    mean = np.mean([_time(chains) for chains in noise])
    assert mean == pytest.approx((1 + memory) / (1 - memory), rel=0.08)


def test_correlation_times_are_those_of_the_chains():
    memory = 0.8
    observed = GAUSSIAN.observed(np.random.default_rng(0), 32, 400, memory=memory)
    observed = thermo.Observed(observed.s, observed.losses, epochs=1000 + 50 * np.arange(400))
    found = thermo.correlation_times(observed)
    level = GAUSSIAN.exact[2]
    hessian = GAUSSIAN.x.T @ GAUSSIAN.x / len(GAUSSIAN.x)
    each, linear, square = 0.0, 0.0, 0.0
    gradient = (level.mean - np.linalg.lstsq(GAUSSIAN.x, GAUSSIAN.y, rcond=None)[0]) @ hessian
    for t in range(GAUSSIAN.tau):
        smeared = hessian @ level.covariance[t, :, t]
        each += 0.5 * np.trace(smeared @ smeared) + gradient[t] @ level.covariance[t, :, t] @ gradient[t]
    linear = gradient.ravel() @ level.covariance.reshape(gradient.size, -1) @ gradient.ravel()
    square = level.variance - linear
    # Of x and of x^2 in turn: correlations memory^k and memory^2k.
    time = (linear * (1 + memory) / (1 - memory) + square * (1 + memory**2) / (1 - memory**2)) / level.variance
    assert found.records[2] == pytest.approx(time, abs=0.05 * time + Z * found.records_stderr[2])
    assert found.records_stderr[2] < 0.1 * time
    np.testing.assert_allclose(found.epochs, 50 * found.records)
    assert_within(found.along_t[2], found.along_t_stderr[2], level.variance / each, "along t")
    np.testing.assert_allclose(found.effective, 32 * 400 / found.records)


def test_what_draws_cannot_tell_is_refused():
    rng = np.random.default_rng(0)
    observed = GAUSSIAN.observed(rng, 8, 30)
    with pytest.raises(tj.InputError, match="draws at least to tell their correlation time"):
        thermo.correlation_times(observed)
    with pytest.raises(tj.InputError, match="standard deviations of the loss beyond"):
        thermo.reweight(observed, 2 * GAUSSIAN.s[-1])
    with pytest.raises(tj.InputError, match="worth 50 at least"):
        thermo.reweight(thermo.Observed(observed.s[:20], observed.losses[:20, :3]), 10.0)
    ends = np.isin(observed.s, GAUSSIAN.s[[0, -1]])
    with pytest.raises(tj.InputError, match="sample at an s in between"):
        thermo.log_z(thermo.Observed(observed.s[ends], 100 * observed.losses[ends]))
    with pytest.raises(tj.InputError, match="two different s"):
        thermo.log_z(thermo.Observed([1.0, 1.0], np.ones((2, 3, 1))))
    with pytest.raises(tj.InputError, match="reference must be one of"):
        thermo.rate_function(observed, 6.0)
    with pytest.raises(tj.InputError, match="one of 'mbar', 'integration'"):
        thermo.log_z(observed, "euler")
    with pytest.raises(tj.InputError, match="values must be one for each"):
        thermo.reweight(observed, 10.0, np.ones(3))
    with pytest.raises(tj.InputError, match="shape"):
        thermo.overlap(np.ones((3, 2)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"losses": np.ones((2, 3))}, "shape"),
        ({"s": [1.0]}, "one number for each of 2 chains"),
        ({"losses": np.full((2, 3, 1), np.nan)}, "6 that are not"),
        ({"s": [1.0, np.inf]}, "s must be finite"),
        ({"groups": np.ones((1, 2, 3, 1)), "share": 0.5}, "groups must have shape"),
        ({"share": 0.5}, "share must be 1"),
        ({"epochs": [1, 2]}, "one for each of 3 draws"),
    ],
)
def test_what_was_observed_must_fit_together(changes, message):
    with pytest.raises(tj.InputError, match=message):
        thermo.Observed(**({"s": [1.0, 2.0], "losses": np.ones((2, 3, 1))} | changes))
