"""A stream whose law is known: a perceptron with Gaussian inputs and label noise, all of them drawn from the key.

    x ~ N(0, H),  y = w.x + noise z,   L(theta) = (noise^2 + (theta - w)'H(theta - w)) / 2,

so that paths have the Gaussian law of any D + 1 points with the same second moments, `exact_paths`.
"""

from functools import partial

import jax
import numpy as np
import pytest

import trajens as tj
from tests.evidence import ONE_STAGE, plan_of
from tests.monte_carlo import Z, assert_path_law
from trajens.acceptance.audit import Looked, acceptances, balance
from trajens.randomness import Key, Purpose, normal, words

MIX = np.array([[1.0, 0.0], [0.6, 0.7]], np.float32)
"""Inputs are MIX times standard normals, H = MIX MIX'."""
WEIGHTS = np.array([0.8, -0.5], np.float32)
SIGMA, CHAINS, EPOCHS = 0.4, 288, 800


def loss(theta, keys, noise=0.5):
    """(y - theta.x)^2 / 2 of an example per key."""
    # The hash behind jax.random, but written out, which is faster on a CPU.
    pair = jax.random.key_data(keys)
    z = normal(words(Key(pair[:, 0], pair[:, 1]), Purpose.OWN, 3))
    return 0.5 * (noise * z[:, 2] + z[:, :2] @ (MIX.T @ (WEIGHTS - theta))) ** 2


def exact_paths(tau, sigma, s, prior=None, noise=0.5):
    """From points that have E[xx'] = H, E[xy] = Hw and a least-squares loss of noise^2 / 2."""
    x = np.concatenate([MIX.T, np.zeros((1, 2))]) * np.sqrt(3)
    y = np.append(x[:2] @ WEIGHTS, noise * np.sqrt(3))
    return tj.exact.perceptron(x, y, tau, sigma, s, prior)


STREAM = tj.Stream(loss, 2)
TESTS = {
    "penalty": tj.Penalty(16),
    "penalty, one stage": tj.Penalty(16, **ONE_STAGE),
    "penalty, pooled": tj.Penalty(16, pool=True),
    # Tests that grow their batches are biased where they look more than once or twice.
    "penalty, growing": tj.Penalty(64, plan=False),
    "barker": tj.MinibatchBarker(64),
    "the paper's": tj.paper_test(64),
}
MOVES = {"single site": tj.SingleSite(), "segments": tj.Mixture([(1.0, tj.Segment(2)), (1.0, tj.SingleSite(0.5))])}
QUICK = [("penalty, one stage", "single site", "checkerboard", 4, (4.0,))]
SLOW = [
    ("barker", "single site", "random", 1, (4.0,)),
    ("penalty", "segments", "random", 4, (4.0,)),
    ("penalty", "single site", "random", 1, (2.0, 8.0)),
]
SLOW += [("penalty", "single site", "checkerboard", 4, (8.0,))]
SLOW += [("penalty, pooled", "single site", "checkerboard", 4, (8.0,))]
SLOW += [
    ("penalty, growing", "single site", "random", 4, (4.0,)),
    ("the paper's", "single site", "checkerboard", 4, (4.0,)),
]
SLOW += [("barker", "segments", "checkerboard", 4, (2.0, 6.0))]
SOON = SLOW[:3]
CASES = QUICK + [pytest.param(*case, marks=pytest.mark.slow if case in SOON else pytest.mark.long) for case in SLOW]


def check(stream, test, move, scan, tau, tilts, prior=None):
    """The law of paths at several s, in one run."""
    s = np.repeat(tilts, CHAINS)
    run = tj.sample(
        tj.Target(stream, tau, SIGMA, s, prior),
        EPOCHS,
        chains=len(s),
        seed=3,
        burn_in=EPOCHS // 2,
        move=move,
        acceptance=test,
        scan=scan,
        initial=np.full(2, 2.0),
        records=20,
        keep_paths=True,
    )
    is_after = run.records["epoch"][0] > run.burn_in
    for tilt in tilts:
        those = s == tilt
        paths, losses = run.history[those][:, is_after], run.records["loss"][those][:, is_after]
        assert_path_law(paths, losses, exact_paths(tau, SIGMA, tilt, prior), f"s {tilt}")
    return run


@pytest.mark.parametrize(("test", "move", "scan", "tau", "tilts"), CASES)
def test_the_law_of_paths_is_the_exact_gaussian(test, move, scan, tau, tilts):
    check(STREAM, TESTS[test], MOVES[move], scan, tau, tilts)


LOUD, STEP, TILT = 1.0, 0.2, 30.0
"""Noise of labels, sigma and s at which a decision needs some fifty examples."""


def bias_within(max_batch, test, epochs=800, chains=256):
    """Relative bias of the excess loss of single models, its error, and the run."""
    stream = tj.Stream(partial(loss, noise=LOUD), 2, max_batch)
    run = tj.sample(
        tj.Target(stream, 1, STEP, TILT),
        epochs,
        chains=chains,
        seed=5,
        burn_in=epochs // 3,
        acceptance=test,
        scan="random",
        initial=np.full(2, 1.0),
        # As many as are nearly independent: a run of half as many again has the error of this one with a sixth of them.
        records=96,
    )
    exact, found = exact_paths(1, STEP, TILT, noise=LOUD), run.summary()
    return (found["loss"] - exact.loss) / exact.excess, found["loss_stderr"] / exact.excess, run


def bias_at(s):
    """The bias that another s means."""
    exact = exact_paths(1, STEP, TILT, noise=LOUD)
    return (exact_paths(1, STEP, s, noise=LOUD).loss - exact.loss) / exact.excess


@pytest.mark.slow
def test_a_biased_decision_at_the_cap_is_counted_and_its_bias_is_audited():
    bias, error, run = bias_within(32, tj.MinibatchBarker(16))
    assert bias > Z * error, "the case must be biased to show anything"
    reasons = run.summary()["reasons"]
    assert reasons["capped"] > 0.4 * sum(reasons.values())
    assert reasons["all_data"] == 0
    found = tj.audit(run, proposals=512)
    assert found.tilt_error < -Z * found.tilt_error_stderr
    assert abs(bias - bias_at(found.s_effective)) < Z * error


@pytest.mark.slow
@pytest.mark.parametrize("max_batch", [16, 4096])
def test_the_audit_foretells_the_bias_of_the_penalty_test(max_batch):
    bias, error, run = bias_within(max_batch, tj.Penalty(16, **ONE_STAGE), epochs=1200, chains=384)
    found = tj.audit(run, proposals=512)
    assert abs(bias - bias_at(found.s_effective)) < Z * error
    reasons = run.summary()["reasons"]
    assert reasons["capped"] == (sum(reasons.values()) if max_batch == 16 else 0)


@pytest.mark.slow
def test_a_planned_penalty_has_no_bias_on_a_stream():
    bias, error, run = bias_within(4096, tj.Penalty(32), epochs=2000, chains=768)
    assert error < 0.02
    assert abs(bias) < tj.acceptance.penalty.TOLERANCE + Z * error
    assert run.summary()["reasons"]["capped"] == 0


@pytest.mark.parametrize("limit", [None, 32])
def test_an_audit_takes_what_it_looked_at_for_a_stream_only_where_there_is_one(limit):
    # Half of the examples: without replacement their mean has half the variance that it has with it.
    rng = np.random.default_rng(0)
    proposals, examples, batch = 512, 64, 32
    test = tj.Penalty(batch, **ONE_STAGE)
    delta = rng.normal(0, 1.5, proposals)
    differences = rng.standard_normal((proposals, examples))
    differences -= differences.mean(1, keepdims=True)
    spread = np.sqrt(batch) * (np.sqrt(2.0) if limit is None else 1.0)
    looked = Looked(
        np.ones(proposals, np.float32),
        np.zeros(proposals, np.float32),
        np.ones(proposals, np.float32),
        (-delta[:, None] + spread * differences).astype(np.float32),
        limit,
    )
    one = plan_of(test, batch, examples)
    plan = jax.tree.map(lambda leaf: np.full(proposals, leaf), one)
    if limit is not None:
        # Without a last factor of 1 - b/N the same noise needs a larger plan, which the limit cuts off.
        plan = plan._replace(variance=2 * plan.variance)
    beta, error = balance(acceptances(test, batch, plan, looked, rng, 16)).slope()
    assert error < 0.01
    assert abs(beta) < 0.03
