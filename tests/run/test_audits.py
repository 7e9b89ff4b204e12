"""The audit finds nothing in a balanced test, what is there in another, and leaves runs as they are."""

import json
import warnings
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
import pytest

import trajens as tj
from tests.command import call
from tests.small_run import content
from trajens.acceptance import Reason, Verdict
from trajens.acceptance.audit import Acceptances, Looked, acceptances, balance
from trajens.acceptance.penalty import PenaltyMemory
from trajens.randomness import uniform
from trajens.records import warn_of_tilt
from trajens.run import audits as auditing
from trajens.sampling.sampler import Sampler

ERRORS = 3.5
SIZE, CHUNK, PROPOSALS = 320, 16, 384


def normal_proposals(seed, spread=30.0, delta=2.0, proposals=PROPOSALS):
    """Loss differences that are normal, with means whose Delta is spread over +-`delta`, at s = 2."""
    rng = np.random.default_rng(seed)
    means = rng.uniform(-delta, delta, (proposals, 1))
    values = spread * rng.standard_normal((proposals, SIZE))
    values += means - values.mean(1, keepdims=True)
    two = np.full(proposals, 2.0, np.float32)
    return Looked(two, np.zeros_like(two), np.ones_like(two), (values / 2).astype(np.float32))


def entries(variance, rho, first, proposals=PROPOSALS):
    """A plan of every proposal."""
    fill = lambda value, kind=np.float32: np.full(proposals, value, kind)  # noqa: E731
    return PenaltyMemory(fill(variance), fill(9, np.int32), fill(rho), fill(first), fill(1))


def slope(test, plan, looked, seed=0, orders=8):
    return balance(acceptances(test, CHUNK, plan, looked, np.random.default_rng(seed), orders)).slope()


@dataclass(frozen=True)
class Halved(tj.Penalty):
    """A penalty test with half of the penalty."""

    def judge(self, state, evidence):
        found = super().judge(state, evidence)
        return found._replace(log_chance=0.5 * (found.log_chance + self._part(state, evidence)[0] * evidence.delta))


@dataclass(frozen=True)
class Scaled(tj.AcceptanceTest):
    """Metropolis with Delta times a factor, on all data, though it does not say so."""

    factor: float

    def chunk_size(self, size):
        return min(size, CHUNK)

    def decide(self, state, evidence, words):
        is_accepted = jnp.log(uniform(words[0])) < self.factor * evidence.delta
        return Verdict(evidence.is_complete, is_accepted, jnp.int32(Reason.ALL_DATA))


@pytest.mark.parametrize("first", [0.3, 0.0])
@pytest.mark.parametrize("stages", [1, 2])
def test_a_balanced_test_has_no_error(stages, first):
    looked = normal_proposals(stages)
    test = tj.Penalty(CHUNK, rho=1.35, tolerance=None, stages=stages)
    # 225 is the variance of differences at spread 30 and s = 2; b = 156.
    beta, error = slope(test, entries(225.0, 1.35, first), looked, orders=128)
    assert error < 0.008
    assert abs(beta) < ERRORS * error


def test_half_a_penalty_is_found():
    looked = normal_proposals(5)
    plan = entries(225.0, 1.35, 0.0)
    beta, error = slope(Halved(CHUNK, rho=1.35, tolerance=None), plan, looked)
    # ln(A/A') < Delta: noise is taken for information.
    assert beta < -0.1
    assert error < 0.02


@pytest.mark.parametrize("factor", [1.1, 0.95])
def test_a_wrong_factor_of_delta_is_found_as_it_is(factor):
    looked = normal_proposals(6)
    beta, error = slope(Scaled(factor), (), looked, orders=128)
    assert error < 0.01
    assert abs(beta - (factor - 1)) < ERRORS * error


def test_what_an_audit_expects_is_what_a_single_stage_does():
    looked = normal_proposals(7)
    found = acceptances(Scaled(1.0), CHUNK, (), looked, np.random.default_rng(0), 64)
    np.testing.assert_array_equal(found.examples, SIZE)
    for chance, delta in ((found.forward, found.delta), (found.reverse, -found.delta)):
        exact = np.minimum(1.0, np.exp(delta))
        error = np.sqrt(exact * (1 - exact) / 64).mean() / np.sqrt(PROPOSALS)
        assert abs((chance - exact).mean()) < 6 * error
    beta, error = balance(found).slope()
    assert abs(beta) < ERRORS * error


# Runs.

DATA = tj.datasets.perceptron(size=96, noise=0.5)
TARGET = tj.Target(DATA.problem(), tau=4, sigma=0.2, s=40.0)
SETTINGS = {"chains": 8, "burn_in": 100, "records": 6}


def sample(acceptance, epochs=200, target=TARGET, **changes):
    return tj.sample(target, epochs, acceptance=acceptance, **{**SETTINGS, **changes})


@pytest.mark.slow
def test_a_wrong_factor_of_delta_is_found_in_a_run():
    found = tj.audit(sample(Scaled(1.1)), proposals=4096)
    assert (found.proposals, found.examples) == (4096, 96)
    assert found.batch_size == 96
    assert found.tilt_error_stderr < 0.02
    assert abs(found.tilt_error - 0.1) < ERRORS * found.tilt_error_stderr
    assert found.s_effective == pytest.approx(40.0 * (1 + found.tilt_error))


def error_loss(theta, batch):
    return ((batch.x @ theta > 0) != (batch.y > -1)).astype(jnp.float32)


MOVES = {
    "segment": tj.Segment(2),
    "mixture": tj.Mixture([(1.0, tj.SingleSite()), (1.0, tj.Segment(3)), (1.0, tj.CentreOfMass(0.05))]),
}
WAYS = {
    "paper": (TARGET, {"acceptance": tj.paper_test(16)}),
    "barker": (TARGET, {"acceptance": tj.MinibatchBarker(16)}),
    "no plan": (TARGET, {"acceptance": tj.Penalty(16, plan=False)}),
    "centre of mass": (TARGET, {"acceptance": tj.Penalty(16), "move": tj.CentreOfMass(0.05)}),
    "segment": (TARGET, {"acceptance": tj.Penalty(16), "move": MOVES["segment"]}),
    "mixture": (TARGET, {"acceptance": tj.paper_test(16), "move": MOVES["mixture"]}),
    "0-1 loss, many s": (
        tj.Target(tj.Problem(error_loss, DATA, 2), tau=4, sigma=0.2, s=[10.0, 20.0] * 4, prior=1.0),
        {"acceptance": tj.Penalty(16, pool=True)},
    ),
    "schedule": (
        tj.Target(DATA.problem(), tau=4, sigma=0.2, s=tj.schedule.linear(10.0, 40.0, 100)),
        {"acceptance": tj.Penalty(16)},
    ),
}


SOMETIMES = ("no plan", "mixture", "0-1 loss, many s", "schedule")


MARKS = {"paper": [], **dict.fromkeys(SOMETIMES, pytest.mark.slow)}


@pytest.mark.parametrize("way", [pytest.param(way, marks=MARKS.get(way, pytest.mark.long)) for way in WAYS])
def test_every_test_and_move_and_loss_is_audited(way):
    target, settings = WAYS[way]
    run = sample(target=target, **settings)
    found, again = tj.audit(run, proposals=64), tj.audit(run, proposals=64)
    np.testing.assert_equal(found.summary(), again.summary())
    assert (found.proposals, found.examples) == (64, 96)
    # Chains of several s have no common posterior in whose units a mean could be shifted.
    unknown = {"mean_shift", "mean_shift_stderr"} if way == "0-1 loss, many s" else set()
    assert {name for name, value in found.summary().items() if not np.isfinite(value)} == unknown
    assert 0 < found.acceptance < 1
    assert 0 < found.batch_size <= 96
    assert found.delta.shape == found.forward.shape == found.reverse.shape == (64,)
    s = {"0-1 loss, many s": 15.0}.get(way, 40.0)
    assert found.s_effective == pytest.approx(s * (1 + found.tilt_error))
    # As in the run itself, roughly.
    late = run.records["acceptance"][:, -3:].mean()
    assert found.acceptance == pytest.approx(late, abs=0.2)
    assert found.batch_size == pytest.approx(run.records["batch_size"][:, -3:].mean(), rel=0.35)


@pytest.mark.slow
def test_audits_after_burn_in_change_nothing_but_what_they_record(monkeypatch):
    monkeypatch.setattr(auditing, "_CHEAP", 0)
    settings = {"epochs": 3000, "burn_in": 500, "records": 12, "keep_paths": True}
    for acceptance in (tj.Penalty(16, tolerance=None), tj.paper_test(16)):
        monkeypatch.setattr(auditing, "SHARE", 0.02)
        audited = sample(acceptance, **settings)
        monkeypatch.setattr(auditing, "SHARE", 0.0)
        # What a last audit may take; without it there is one all the same.
        monkeypatch.setattr(auditing, "SHARE_AT_MOST", 0.0)
        left_alone = sample(acceptance, **settings)
        assert (audited.records["tilt_weight"] > 0).any()
        assert not (left_alone.records["tilt_weight"] > 0).any()
        np.testing.assert_array_equal(audited.history, left_alone.history)
        for name, column in audited.records.items():
            if name not in ("tilt_error", "tilt_stderr", "tilt_weight", "data_audited"):
                # A sum of floats depends on where blocks end, and those on the clock.
                rounding = 1e-5 if name == "loss_deciding" else 0.0
                np.testing.assert_allclose(column, left_alone.records[name], rtol=rounding, err_msg=name)


@pytest.fixture(scope="module")
def planned():
    """A run that is long enough to be planned and audited."""
    return sample(tj.Penalty(16), epochs=6000, burn_in=3000, records=40)


@pytest.mark.slow
def test_audits_take_a_fiftieth_of_the_data_at_most(planned):
    records = planned.records
    audited, used = records["data_audited"], records["data_used"]
    assert (audited.mean(0) <= 0.02 * used.mean(0)).all()
    is_audited = records["tilt_weight"] > 0
    np.testing.assert_array_equal(is_audited.any(0), np.isfinite(records["tilt_error"]).any(0))
    # Something is spent exactly where an audit is recorded.
    np.testing.assert_array_equal(np.diff(audited.mean(0), prepend=0.0) > 0, is_audited.any(0))


@pytest.mark.slow
def test_the_end_of_burn_in_is_audited_and_the_first_record_after_it_that_can_be_afforded(planned):
    records = planned.records
    epoch, used = records["epoch"][0], records["data_used"].mean(0)
    is_audited = (records["tilt_weight"] > 0).any(0)
    assert is_audited[epoch == 3000].all()
    after = epoch > 3000
    spent = records["data_audited"].mean(0)[epoch == 3000][0]
    # 64 proposals of all chains are 8 of each, on 96 examples.
    is_affordable = 0.02 * used - spent >= 8 * 96
    first = np.flatnonzero(after & is_affordable)[0]
    assert is_audited[first]
    assert not is_audited[after & (np.arange(len(epoch)) < first)].any()
    found = planned.summary()
    assert np.isfinite([found["tilt_error"], found["tilt_error_stderr"]]).all()
    assert found["s_effective"] == pytest.approx(40.0 * (1 + found["tilt_error"]))


def test_the_end_of_a_run_is_audited_whatever_was_spent_at_the_end_of_burn_in():
    target = tj.Target(tj.datasets.perceptron(size=300, noise=0.5).problem(), 3, 0.1, 20.0)
    sampler = Sampler(target, tj.Settings(chains=4, burn_in=50, acceptance=tj.Penalty(16)).checked(target))
    auditor, state = auditing.Auditor(sampler), sampler.init()

    def proposals(used, is_last):
        now = auditing.Occasion(100, sampler.control, used, 0.1 * used, is_first=True, is_last=is_last)
        return auditor._affordable(state, now, auditing.SHARE * used - now.audited)[0]

    enough = auditing.pairs_for_audit(300, 64, 4)
    # 64 proposals of four chains, on all examples, for a tenth of the data.
    assert enough == 16 * 300 / 0.1
    assert proposals(enough, is_last=True) == 16
    assert proposals(0.9 * enough, is_last=True) == 0
    assert proposals(enough, is_last=False) == 0


@pytest.mark.long
def test_a_plan_beyond_its_tolerance_is_warned_of(monkeypatch):
    monkeypatch.setattr(auditing, "SHARE", 0.5)
    monkeypatch.setattr(auditing, "_CHEAP", 0)
    balanced = auditing.balance
    off = lambda found: balanced(found)._replace(error=0.2 * balanced(found).weight)  # noqa: E731
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sample(tj.Penalty(16, tolerance=0.5), epochs=400, burn_in=200)
    monkeypatch.setattr(auditing, "balance", off)
    with pytest.warns(RuntimeWarning, match=r"s that is off by \+20\.0% \+- 0\.0%, more than the tolerance of 10\.0%"):
        sample(tj.Penalty(16, tolerance=0.1), epochs=400, burn_in=200)
    # Without a tolerance there is nothing to exceed.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sample(tj.Penalty(16, tolerance=None), epochs=400, burn_in=200)


def test_full_data_are_not_audited():
    run = sample(tj.Metropolis(), epochs=150)
    assert not (run.records["tilt_weight"] > 0).any()
    assert np.isnan(run.records["tilt_error"]).all()
    assert (run.records["data_audited"] == 0).all()


TRAIN = ["train", "perceptron", "--tau", "4", "--s", "50", "--epochs", "400", "--chains", "4", "--records", "6"]


def test_the_command_line_prints_an_audit_and_changes_nothing(capsys, tmp_path):
    folder = tmp_path / "run"
    code, *_ = call(capsys, *TRAIN, "--out", str(folder))
    assert code == 0
    before = content(folder)
    code, out, _ = call(capsys, "audit", str(folder), "--json", "--proposals", "64", "--examples", "200")
    assert code == 0
    found = json.loads(out)
    assert list(found) == [
        "tilt_error",
        "tilt_error_stderr",
        "s_effective",
        "mean_shift",
        "mean_shift_stderr",
        "acceptance",
        "batch_size",
        "proposals",
        "examples",
    ]
    assert (found["proposals"], found["examples"]) == (64, 200)
    assert found["s_effective"] == pytest.approx(50.0 * (1 + found["tilt_error"]))
    code, out, _ = call(capsys, "audit", str(folder), "--proposals", "64", "--examples", "200")
    assert code == 0
    for words in ("error of s", "s that is sampled", "acceptance", "mean batch", "64 proposals, 200 examples"):
        assert words in out
    assert content(folder) == before


def test_the_command_line_refuses_to_audit_full_data(capsys, tmp_path):
    folder = tmp_path / "run"
    code, *_ = call(capsys, *TRAIN, "--acceptance", "metropolis", "--out", str(folder))
    assert code == 0
    before = content(folder)
    code, out, err = call(capsys, "audit", str(folder), "--json")
    assert code == 2
    assert out == ""
    assert "must be a run with minibatches, got one whose decisions use all data" in " ".join(err.split())
    assert content(folder) == before


def audits(beta):
    """Records of as many audits of chains as `beta` (chains, records) has, all after burn-in."""
    beta = np.asarray(beta, np.float64)
    epoch = np.broadcast_to(100 * np.arange(1, beta.shape[1] + 1), beta.shape)
    return {"epoch": epoch, "s": np.ones_like(beta), "tilt_error": beta, "tilt_weight": np.ones_like(beta)}


def test_a_single_chain_with_many_audits_is_warned_of_and_two_samples_that_agree_are_not():
    many = 0.03 + 0.005 * np.random.default_rng(0).standard_normal((1, 30))
    with pytest.warns(RuntimeWarning, match="off by"):
        warn_of_tilt(audits(many), 0, 0.01)
    with pytest.warns(RuntimeWarning, match="off by"):
        warn_of_tilt({**audits([[-0.143]]), "tilt_stderr": np.array([[0.005]])}, 0, 0.01)
    # Two numbers within 0.2 % of each other say little of their error.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_tilt(audits([[0.0145], [0.0165]]), 0, 0.01)
        # Of a single one nothing is known where its own error was not written down.
        warn_of_tilt(audits([[0.5]]), 0, 0.01)
        warn_of_tilt({**audits([[0.015]]), "tilt_stderr": np.array([[0.004]])}, 0, 0.01)
        warn_of_tilt(audits(many), 0, None)
        warn_of_tilt(audits(many), 0, 0.05)


def test_a_force_along_a_change_is_the_slope_that_is_found():
    rng = np.random.default_rng(1)
    delta, change = 0.3 * rng.standard_normal((2, 4000))
    for force in (0.0, 0.7):
        reverse = np.full(delta.shape, 0.2)
        found = Acceptances(delta, reverse * np.exp(delta + force * change), reverse, reverse)
        slope, error = balance(found, change).slope()
        assert error < 0.005
        # e is not small enough for its flux to be that of balance to first order.
        assert slope == pytest.approx(force, abs=6 * error + 0.01 * force)
        assert abs(balance(found).slope()[0]) < 0.06


@pytest.mark.slow
def test_an_audit_says_which_way_skewness_moves_means():
    from tests.laws.test_skewness_laws import DATA as SKEWED
    from tests.laws.test_skewness_laws import SIGMA, TAU, S

    shifts = {}
    for test in (tj.MinibatchBarker(32), tj.Penalty()):
        target = tj.Target(SKEWED.problem(), TAU, SIGMA, S)
        run = tj.sample(target, 3000, chains=64, burn_in=1000, records=40, acceptance=test)
        found = tj.audit(run, proposals=1024)
        shifts[type(test)] = found
        assert found.mean_shift_stderr < 0.06
    assert abs(shifts[tj.MinibatchBarker].mean_shift) > 0.1 + 3.5 * shifts[tj.MinibatchBarker].mean_shift_stderr
    assert abs(shifts[tj.Penalty].mean_shift) < 0.03 + 3.5 * shifts[tj.Penalty].mean_shift_stderr
