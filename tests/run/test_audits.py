"""The audit finds nothing in a balanced test, what is there in another, and leaves runs as they are."""

import json
import re
import warnings
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
import pytest

import trajens as tj
from tests.command import call
from tests.small_run import content
from trajens.acceptance import Reason, Verdict
from trajens.acceptance.audit import Acceptances, Balance, Looked, acceptances, balance
from trajens.acceptance.penalty import PenaltyMemory
from trajens.columns import AUDITED, PROJECTIONS
from trajens.randomness import uniform
from trajens.records import (
    Audited,
    after_burn_in,
    average_audits,
    furthest,
    is_beyond,
    judge_shifts,
    mean_and_error,
    shifts_of_means,
    summarise_audits,
    warn_of_audits,
)
from trajens.run import audits as auditing
from trajens.run.advice import ATTENTION, OK, UNKNOWN, RunFacts, _shift
from trajens.sampling.measure import project
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
    assert np.isfinite(list(found.summary().values())).all()
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
def test_an_audit_says_nothing_of_means_at_an_s_of_which_it_looks_at_few_proposals():
    target = tj.Target(DATA.problem(), tau=4, sigma=0.2, s=np.linspace(10.0, 20.0, 8))
    found = tj.audit(sample(tj.Penalty(16), target=target), proposals=64)
    assert np.isfinite([found.tilt_error, found.tilt_error_stderr]).all()
    assert np.isnan([found.mean_shift, found.mean_shift_stderr]).all()


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
            if name not in (*sum(AUDITED, ()), "data_audited"):
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

    def off(found, along=None):
        # Along directions there is no error, only along Delta.
        known = balanced(found) if along is None else balanced(found, along)
        return known._replace(error=(0.2 if along is None else 0.0) * known.weight)

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
        warn_of_audits(audits(many), 0, 0.01)
    with pytest.warns(RuntimeWarning, match="off by"):
        warn_of_audits({**audits([[-0.143]]), "tilt_stderr": np.array([[0.005]])}, 0, 0.01)
    # Two numbers within 0.2 % of each other say little of their error.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_audits(audits([[0.0145], [0.0165]]), 0, 0.01)
        # Of a single one nothing is known where its own error was not written down.
        warn_of_audits(audits([[0.5]]), 0, 0.01)
        warn_of_audits({**audits([[0.015]]), "tilt_stderr": np.array([[0.004]])}, 0, 0.01)
        warn_of_audits(audits(many), 0, None)
        warn_of_audits(audits(many), 0, 0.05)


def shifts(force, spread):
    """Records of audits of a force along the first direction (chains, records), where paths have such a spread."""
    records, rng = audits(np.zeros_like(force)), np.random.default_rng(2)
    nothing = np.zeros_like(force)
    value, _, weight = AUDITED[1]
    others = {name: nothing for names in AUDITED[2:] for name in names}
    wide = {name: spread * rng.standard_normal(force.shape) for name in PROJECTIONS}
    return {**records, **others, value: force, weight: np.ones_like(force), **wide}


def test_a_shift_of_means_is_a_force_times_the_variance_in_standard_deviations():
    force = 0.5 + 0.1 * np.random.default_rng(0).standard_normal((8, 200))
    records = shifts(force, spread=0.2)
    found, width = furthest(shifts_of_means(records, 0)), records[PROJECTIONS[0]].std()
    assert found.value == pytest.approx(force.mean() * width)
    assert found.error == pytest.approx(force.std(ddof=1) / np.sqrt(force.size) * width)
    assert summarise_audits(records, 0)["mean_shift"] == found.value
    assert is_beyond(records, 0, 0.05)
    assert not is_beyond(records, 0, 0.2)
    with pytest.warns(RuntimeWarning, match="mean model is off by"):
        warn_of_audits(records, 0, 0.05)


def test_a_shift_is_told_of_the_s_where_it_is_worst():
    rng = np.random.default_rng(1)
    force = np.concatenate([0.1 * rng.standard_normal((4, 50)), 1.0 + 0.1 * rng.standard_normal((4, 50))])
    records = shifts(force, spread=0.1)
    records["s"] = np.repeat([10.0, 40.0], 4)[:, None] * np.ones_like(force)
    # Paths of the two are apart, which is no spread of either.
    for name in PROJECTIONS:
        records[name] += np.where(records["s"] > 20, 5.0, 0.0)
    found = furthest(shifts_of_means(records, 0))
    assert found.freedom == pytest.approx(199)
    assert found.value == pytest.approx(0.1, rel=0.2)


@pytest.mark.parametrize(("second", "verdict"), [(0.0, True), (0.05, False), (0.012, None)])
def test_a_tolerance_of_means_is_kept_where_every_direction_keeps_it(second, verdict):
    rng = np.random.default_rng(4)
    # The first is surely away from 0, further than the second in units of its error, and within the tolerance.
    records = shifts(0.005 + 0.0002 * rng.standard_normal((4, 50)), spread=1.0)
    value, _, weight = AUDITED[2]
    scattered = 0.1 * rng.standard_normal((4, 50)) if second else 0.01 * rng.standard_normal((4, 50))
    records |= {value: second + scattered - scattered.mean(), weight: np.ones((4, 50))}
    found = shifts_of_means(records, 0)
    assert furthest(found).value == pytest.approx(0.005, rel=0.15)
    is_kept, deciding = judge_shifts(found, 0.02)
    assert is_kept is verdict
    assert deciding.value == pytest.approx(second or 0.005, rel=0.15)
    assert is_beyond(records, 0, 0.02) is (verdict is False)
    case = RunFacts(
        records=records,
        burn_in=0,
        epochs=50,
        last_epoch=50,
        is_complete=True,
        prior=None,
        tolerance=0.02,
        is_exact=False,
        pairs=None,
        asked_loss=None,
    )
    said = _shift(case)
    assert said.mark == {True: OK, False: ATTENTION, None: UNKNOWN}[verdict]
    assert f"{deciding.value:+.3f}" in said.sentence
    if verdict is False:
        with pytest.warns(RuntimeWarning, match=re.escape(f"mean model is off by {deciding.value:+.3f}")):
            warn_of_audits(records, 0, 0.02)


def test_nothing_is_said_of_means_that_were_not_audited():
    assert judge_shifts([], 0.01)[0] is None
    assert shifts_of_means(audits(np.zeros((2, 3))), 0) == []


def test_the_worst_of_many_is_beyond_only_where_chance_does_not_make_it_so():
    rng = np.random.default_rng(3)
    beyond = 0
    for _ in range(300):
        one = [Audited(*(rng.standard_normal(), 1.0), freedom=1000) for _ in range(3)]
        beyond += furthest(one).is_within(1e-9, looks=3) is False
    # Two tails of 0.025 / 3 of three directions.
    assert 1 <= beyond <= 35


@pytest.mark.parametrize(
    ("levels", "chains", "proposals"), [(1, 1, 64), (1, 4, 16), (12, 1, 5), (12, 4, 5), (4, 16, 4)]
)
def test_balanced_decisions_are_seldom_accused_however_few_proposals_tell_of_an_s(levels, chains, proposals):
    rng, accused, total = np.random.default_rng(5), 0, 200
    for _ in range(total):
        # Of unequal flux, as proposals are.
        shape = (3, levels * chains, proposals)
        flux, x, e = np.exp(0.5 * rng.standard_normal(shape)), *rng.standard_normal((2, *shape))
        slopes = [
            [Balance(f * a * b, f * a**2).slope() for f, a, b in zip(*three, strict=True)]
            for three in zip(flux, x, e, strict=True)
        ]
        weight = (flux * x**2).sum(2)
        records = audits(np.zeros((levels * chains, 1)))
        records |= {"epoch": np.full((levels * chains, 2), [50, 100])}
        records |= {name: rng.standard_normal((levels * chains, 2)) for name in PROJECTIONS}
        records |= {"s": np.repeat(np.arange(levels) + 1.0, chains)[:, None] * np.ones(2)}
        none = np.zeros((levels * chains, 1))
        for k, (value, error, known) in enumerate(AUDITED[1:]):
            columns = (np.array(slopes[k])[:, :1], np.array(slopes[k])[:, 1:], weight[k][:, None])
            records |= {n: np.hstack([none, c]) for n, c in zip((value, error, known), columns, strict=True)}
        accused += judge_shifts(shifts_of_means(records, 0), 1e-9)[0] is False
    assert accused < 0.1 * total


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
def test_audits_say_how_far_skewness_moves_means():
    from tests.laws.test_skewness_laws import DATA as SKEWED
    from tests.laws.test_skewness_laws import EXACT, SIGMA, TAU, S

    exact = project(EXACT.mean.mean(0))
    for test in (tj.MinibatchBarker(32), tj.Penalty()):
        target = tj.Target(SKEWED.problem(), TAU, SIGMA, S)
        run = tj.sample(target, 12_000, chains=128, burn_in=1000, records=120, acceptance=test)
        is_after = after_burn_in(run.records, run.burn_in)
        found, worst = run.summary(), []
        for k, name in enumerate(PROJECTIONS):
            values = run.records[name][:, is_after]
            mean, error = mean_and_error(values.mean(1))
            audited = average_audits(run.records, AUDITED[1 + k], is_after).scaled(values.std())
            measured = (mean - exact[k]) / values.std()
            bound = ERRORS * np.hypot(error / values.std(), audited.error)
            # To first order, along one direction: the response of others is not in it.
            assert abs(audited.value - measured) < 0.02 + 0.25 * abs(measured) + bound, (test, k)
            worst.append(audited)
        assert (found["mean_shift"], found["mean_shift_stderr"]) == furthest(worst)[:2]
        again = tj.audit(run, proposals=1024)
        bound = ERRORS * np.hypot(again.mean_shift_stderr, max(one.error for one in worst))
        assert min(abs(again.mean_shift - one.value) for one in worst) < bound
        # A test that is told to keep a hundredth is not accused, and one that moves means by a third is seen through.
        many, is_moved = tj.audit(run, proposals=8192), isinstance(test, tj.MinibatchBarker)
        assert (abs(many.mean_shift) - ERRORS * many.mean_shift_stderr > 0.03) is is_moved
        assert is_moved or not is_beyond(run.records, run.burn_in, 0.03)
