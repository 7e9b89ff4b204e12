"""A stream whose law is known: a perceptron with Gaussian inputs and label noise, all of them drawn from the key.

    x ~ N(0, H),  y = w.x + noise z,   L(theta) = (noise^2 + (theta - w)'H(theta - w)) / 2,

so that paths have the Gaussian law of any D + 1 points with the same second moments, `exact_paths`.
"""

from functools import partial

import jax
import numpy as np
import pytest

import trajens as tj
from tests.evidence import ONE_STAGE
from tests.monte_carlo import Z, assert_path_law
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
QUICK = [("penalty", "single site", "checkerboard", 4, (4.0,)), ("barker", "single site", "random", 1, (4.0,))]
SLOW = [("penalty", move, "random", 4, (2.0, 8.0)) for move in MOVES]
SLOW += [("penalty, one stage", "single site", "checkerboard", 4, (2.0, 8.0))]
SLOW += [("penalty, one stage", "single site", "random", 1, (2.0, 8.0))]
SLOW += [("penalty, pooled", "single site", "checkerboard", 4, (2.0, 8.0))]
SLOW += [(test, "single site", "checkerboard", 4, (2.0, 6.0)) for test in ("penalty, growing", "the paper's")]
SLOW += [("barker", move, "checkerboard", 4, (2.0, 6.0)) for move in MOVES]
CASES = QUICK + [pytest.param(*case, marks=pytest.mark.slow) for case in SLOW]


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


def bias_within(max_batch, test, epochs=1200, chains=256):
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
        records=16,
    )
    exact, found = exact_paths(1, STEP, TILT, noise=LOUD), run.summary()
    return (found["loss"] - exact.loss) / exact.excess, found["loss_stderr"] / exact.excess, run


def bias_at(s):
    """The bias that another s means."""
    exact = exact_paths(1, STEP, TILT, noise=LOUD)
    return (exact_paths(1, STEP, s, noise=LOUD).loss - exact.loss) / exact.excess


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
@pytest.mark.parametrize("max_batch", [16, 48, 4096])
def test_the_audit_foretells_the_bias_of_the_penalty_test(max_batch):
    bias, error, run = bias_within(max_batch, tj.Penalty(16, **ONE_STAGE), epochs=2400, chains=512)
    found = tj.audit(run, proposals=512)
    assert abs(bias - bias_at(found.s_effective)) < Z * error
    reasons = run.summary()["reasons"]
    share = reasons["capped"] / sum(reasons.values())
    assert share == 1.0 if max_batch == 16 else share == 0.0 if max_batch == 4096 else share > 0.0


@pytest.mark.slow
def test_a_planned_penalty_has_no_bias_on_a_stream():
    bias, error, run = bias_within(4096, tj.Penalty(32), epochs=4000, chains=1024)
    assert error < 0.012
    assert abs(bias) < tj.acceptance.penalty.TOLERANCE + Z * error
    assert run.summary()["reasons"]["capped"] == 0
