"""Plans keep the tolerance that is asked for, use it, and stay as they are after burn-in."""

import jax
import numpy as np
import pytest

import trajens as tj
from tests.evidence import evidence_of, plan_of
from trajens.acceptance.audit import Looked, acceptances, balance
from trajens.acceptance.penalty import PenaltyMemory
from trajens.acceptance.planning import Level, _corrected, within_tolerance
from trajens.run import audits as auditing
from trajens.run.control import FixedEpochs, RecordInfo

ERRORS = 3.5
SIZE, CHUNK, PROPOSALS = 1024, 8, 256
NOISE = 7.0
"""S of the loss differences, so that rho = 1 asks for some 50 examples."""


def proposals_of(kind, seed, number=PROPOSALS):
    """Loss differences with heavy tails and a mean of N(v/2, v), as small steps have, at s = 1."""
    rng = np.random.default_rng(seed)
    shape = number, SIZE
    if kind == "product":
        values = rng.standard_normal(shape) * rng.standard_normal(shape)
    else:
        values = rng.standard_t(5, shape) / np.sqrt(5 / 3)
    values *= NOISE
    values += 0.25 + np.sqrt(0.5) * rng.standard_normal((number, 1)) - values.mean(1, keepdims=True)
    one = np.ones(number, np.float32)
    return Looked(one, 0 * one, one, values.astype(np.float32))


def entries(rho=1.0, first=0.3, factor=1.0, number=PROPOSALS):
    fill = lambda value, kind=np.float32: np.full(number, value, kind)  # noqa: E731
    return PenaltyMemory(fill(NOISE**2), fill(9, np.int32), fill(rho), fill(first), fill(factor))


def planned(kind, tolerance, stages=2):
    test = tj.Penalty(CHUNK, tolerance=tolerance, stages=stages)
    looked = proposals_of(kind, seed=1)
    return test, within_tolerance(test, CHUNK, entries(), looked, tolerance, np.random.default_rng(2))


@pytest.mark.parametrize(
    "kind", [pytest.param("product", marks=pytest.mark.long), pytest.param("student", marks=pytest.mark.slow)]
)
def test_a_plan_keeps_its_tolerance_and_a_larger_one_allows_no_less_noise(kind):
    rhos = []
    for tolerance in (0.01, 0.1):
        test, found = planned(kind, tolerance)
        rho, first = found["rho"], found["first"]
        # Proposals that it has not seen, and many orders.
        fresh = proposals_of(kind, seed=7, number=1024)
        plan = entries(**found, number=1024)
        beta, error = balance(acceptances(test, CHUNK, plan, fresh, np.random.default_rng(3), orders=24)).slope()
        assert error < 0.4 * tolerance
        assert abs(beta) < tolerance + ERRORS * error
        assert 0 < rho <= np.float32(test.rho)
        assert first in (0.0, 0.0375, 0.075, 0.15, 0.3)
        rhos.append(rho)
    assert rhos[1] >= rhos[0]


@pytest.mark.slow
def test_the_largest_noise_is_beyond_the_tolerance_and_so_the_plan_had_something_to_do():
    test = tj.Penalty(CHUNK)
    fresh = proposals_of("product", seed=7, number=1024)
    found = acceptances(test, CHUNK, entries(test.rho, number=1024), fresh, np.random.default_rng(3), orders=24)
    beta, error = balance(found).slope()
    assert beta < -0.01 - ERRORS * error


def test_a_single_stage_is_planned_too():
    _, found = planned("product", 0.1, stages=1)
    assert found["first"] == 0.0
    assert 0 < found["rho"] <= np.float32(2.38)


@pytest.mark.slow
@pytest.mark.parametrize("stages", [1, 2])
def test_an_error_that_is_known_is_taken_out(stages):
    tolerance = 0.01
    test = tj.Penalty(CHUNK, tolerance=tolerance, stages=stages)
    some = proposals_of("product", seed=1, number=1024)
    found = within_tolerance(test, CHUNK, entries(number=1024), some, tolerance, np.random.default_rng(2))
    fresh = proposals_of("product", seed=7, number=4096)
    betas, errors = zip(
        *(
            balance(
                acceptances(test, CHUNK, entries(**plan, number=4096), fresh, np.random.default_rng(3), orders=6)
            ).slope()
            for plan in (found, {**found, "factor": 1.0})
        ),
        strict=True,
    )
    assert max(errors) < 0.2 * tolerance
    assert found["factor"] > 1.0
    assert betas[1] < -tolerance - ERRORS * errors[1], "without the factor it is not within the tolerance"
    assert abs(betas[0]) < 0.5 * tolerance + ERRORS * errors[0]


@pytest.mark.parametrize(("error", "is_taken"), [(0.001, True), (0.2, False)])
def test_a_correction_whose_own_error_is_not_known_is_not_taken(error, is_taken):
    def look(rho, factor=1.0, is_close=False):
        slope, beta = 0.02, -0.03
        far = error if factor > 1.5 else 0.001
        return Level(rho, 0.3, factor, beta + slope * (factor - 1), far, shift=0.0, acceptance=0.5, gain=1.0)

    found = _corrected(look, 2.0, 0.01)
    assert (found is not None) is is_taken


@pytest.mark.parametrize(
    ("shift", "expected"),
    [(0.0, {0.0, 0.3}), pytest.param(60.0, {0.0375, 0.075, 0.15}, marks=pytest.mark.slow)],
)
def test_hopeless_proposals_get_a_small_first_stage(shift, expected):
    # Normal differences, of which noise alone asks for many; an eighth of the proposals is good.
    rng = np.random.default_rng(3)
    values = 60 * rng.standard_normal((PROPOSALS, SIZE))
    good = 0.5 + rng.standard_normal(PROPOSALS)
    means = np.where(np.arange(PROPOSALS) % 8 == 0, good, shift + good)
    values += means[:, None] - values.mean(1, keepdims=True)
    one = np.ones(PROPOSALS, np.float32)
    looked = Looked(one, 0 * one, one, values.astype(np.float32))
    plan = entries()._replace(variance=np.full(PROPOSALS, 3600, np.float32))
    found = within_tolerance(tj.Penalty(CHUNK, rho=1.0), CHUNK, plan, looked, 0.1, np.random.default_rng(2))
    assert found["first"] in expected


def test_a_factor_of_u_changes_the_chance_of_accepting_and_nothing_else():
    test = tj.Penalty(CHUNK, stages=1)
    evidence = evidence_of(0.3, 1.2, b=64, size=SIZE)
    plain, more = (
        test.judge(plan_of(test, 64, SIZE)._replace(factor=np.float32(factor)), evidence) for factor in (1.0, 1.5)
    )
    u = 0.3 - plain.log_chance
    np.testing.assert_allclose(more.log_chance, 0.3 - 1.5 * u, rtol=1e-5)
    assert plain.is_ready == more.is_ready


# Runs.

DATA = tj.datasets.perceptron(size=96, noise=0.5)


@pytest.fixture
def cheap(monkeypatch):
    """Audits that a short burn-in can afford."""
    monkeypatch.setattr(auditing, "_CHEAP", 0)
    monkeypatch.setattr(auditing, "SHARE", 1.0)


def sampler_of(s, burn_in=400, chains=8, acceptance=None):
    target = tj.Target(DATA.problem(), tau=4, sigma=0.2, s=s)
    return tj.Sampler(target, tj.Settings(chains=chains, burn_in=burn_in, acceptance=acceptance or tj.Penalty(8)))


@pytest.mark.usefixtures("cheap")
@pytest.mark.long
def test_plans_are_made_in_burn_in_and_frozen_after_it():
    target = tj.Target(DATA.problem(), tau=4, sigma=0.2, s=40.0)
    settings = {"chains": 8, "burn_in": 400, "records": 16, "acceptance": tj.Penalty(8)}
    early = tj.sample(target, 401, **{**settings, "records": 9})
    late = tj.sample(target, 800, **settings)
    is_audited = late.records["tilt_weight"] > 0
    assert is_audited[:, late.records["epoch"][0] > 400].any()
    assert is_audited[:, late.records["epoch"][0] == 400].all()
    jax.tree.map(np.testing.assert_array_equal, early.state.acceptance, late.state.acceptance)
    # It is not what it began with, and one for all models of the same s.
    rho = np.asarray(late.state.acceptance.rho)
    assert len(np.unique(rho)) == 1
    assert rho.flat[0] != 1.0


@pytest.mark.usefixtures("cheap")
@pytest.mark.long
def test_every_s_has_its_own_noise():
    s = np.repeat([5.0, 60.0], 4)
    run = tj.sample(
        tj.Target(DATA.problem(), tau=4, sigma=0.2, s=s),
        500,
        chains=8,
        burn_in=400,
        records=10,
        acceptance=tj.Penalty(8),
    )
    rho = np.asarray(run.state.acceptance.rho).reshape(8, -1)
    assert (rho == rho[:, :1]).all()
    assert (rho[:4] == rho[0]).all()
    assert (rho[4:] == rho[4]).all()
    assert rho[0, 0] != rho[4, 0]


def test_many_s_are_planned_in_groups():
    groups = auditing._groups(np.linspace(1.0, 2.0, 32)[::-1])
    assert len(groups) == 8
    assert sorted(np.concatenate(groups)) == list(range(32))
    assert [len(auditing._groups(np.full(5, 3.0))), len(auditing._groups(np.array([2.0, 1.0, 2.0])))] == [1, 2]


MARKS = np.concatenate([np.arange(25, 401, 25), [600, 800]])


def turn_at(sampler, epoch):
    told = {"pairs_used": 1e9, "start_pairs": 0.0, "pairs": 1e6, "renewals": 1.0, "loss": 0.5, "loss_error": 0.0}
    info = RecordInfo(epoch=epoch, epochs=25, recorded=0, marks=MARKS, **told)
    return FixedEpochs(sampler.settings.burn_in, sampler.target.schedule).update(info, sampler.control)


def test_annealing_has_a_larger_tolerance_until_s_is_reached():
    def tolerance(s, epoch, **settings):
        sampler = sampler_of(s, **settings)
        return auditing.tolerance_of(sampler.settings.acceptance, turn_at(sampler, epoch))

    ramp = tj.schedule.linear(1.0, 40.0, 300)
    assert [tolerance(ramp, epoch) for epoch in (50, 100, 200, 299, 400)] == [0.1, 0.1, 0.1, 0.01, 0.01]
    # The end of burn-in counts, whatever s does after it.
    to_the_end = tj.schedule.linear(1.0, 40.0, 800)
    assert [tolerance(to_the_end, epoch) for epoch in (200, 400)] == [0.1, 0.01]
    assert tolerance(ramp, 50, acceptance=tj.Penalty(8, tolerance=0.2)) == 0.2
    assert tolerance(40.0, 50) == 0.01
    assert tolerance(40.0, 50, acceptance=tj.Penalty(8, tolerance=None)) is None


def test_audits_in_burn_in_are_at_an_eighth_a_quarter_a_half_and_all_of_it(monkeypatch):
    sampler = sampler_of(40.0)
    auditor, due = auditing.Auditor(sampler), []
    monkeypatch.setattr(auditing.Auditor, "_affordable", lambda self, state, now, _: due.append(now.epoch) or (0, 0))
    for epoch in MARKS:
        turn = turn_at(sampler, int(epoch))
        now = auditing.Occasion(int(epoch), sampler.control, 1e9, 0.0, is_first=True, is_last=False)
        assert auditor.audit_if_due(None, now, turn) == (None, None)
    assert due == [50, 100, 200, 400, 600, 800]


def test_large_batches_do_not_keep_burn_in_from_ending_with_an_audit(monkeypatch):
    monkeypatch.setattr(auditing, "largest_batch", lambda *_: 1000)
    monkeypatch.setattr(auditing, "examples_per_proposal", lambda size, batch: max(1024, 8 * batch))
    sampler = sampler_of(40.0)
    auditor, end, chains = auditing.Auditor(sampler), sampler.control.burn_in, sampler.settings.chains
    # A fiftieth of the data is less than 64 proposals on 8000 examples take; a tenth is enough, or is not.
    # After burn-in it is the end of the run that must not go without, if nothing was audited since.
    for epoch, used, proposals, is_first, is_last in (
        (end, 2e7, 64, True, False),
        (end // 2, 2e7, 0, True, False),
        (end, 4.5e6, 0, True, False),
        (2 * end, 2e7, 64, True, True),
        (2 * end, 2e7, 0, True, False),
        (2 * end, 2e7, 0, False, True),
    ):
        now = auditing.Occasion(epoch, sampler.control, used / chains, 0.0, is_first, is_last)
        found, _ = auditor._affordable(None, now, 0.016 * used / chains)
        assert found * chains == proposals


@pytest.mark.parametrize("stages", [1, 2])
def test_until_an_audit_a_plan_is_careful(stages):
    plan = tj.Penalty(8, stages=stages).init(2, 3)
    assert plan.rho.shape == (2, 3)
    assert (np.asarray(plan.rho) == 1.0).all()
    assert (np.asarray(plan.first) == np.float32(0.3 if stages == 2 else 0.0)).all()
    assert (np.asarray(tj.Penalty(8, rho=0.7).init(1, 1).rho) == np.float32(0.7)).all()
    assert (np.asarray(tj.Penalty(8, rho=2.0, tolerance=None).init(1, 1).rho) == 2.0).all()


def skewed_steps(seed, number):
    """Loss differences that are skewed in the direction of the step, which moves the mean by 0.3 of its spread."""
    rng = np.random.default_rng(seed)
    way = rng.choice([-1.0, 1.0], number)
    values = way[:, None] * NOISE * (rng.standard_gamma(0.1, (number, SIZE)) - 0.1) / np.sqrt(0.1)
    values += 0.25 + np.sqrt(0.5) * rng.standard_normal((number, 1)) - values.mean(1, keepdims=True)
    one = np.ones(number, np.float32)
    return Looked(one, 0 * one, one, values.astype(np.float32), shifts=0.3 * way[:, None])


@pytest.mark.slow
def test_a_plan_keeps_its_tolerance_of_means_where_they_are_seen_to_move():
    tolerance, test = 0.05, tj.Penalty(CHUNK, tolerance=0.05)
    looked, fresh = skewed_steps(1, 512), skewed_steps(2, 1024)
    found, rhos = {}, {}
    for name, some in (("seen", looked), ("not told", looked._replace(shifts=np.zeros((512, 0))))):
        plan = within_tolerance(test, CHUNK, entries(number=512), some, tolerance, np.random.default_rng(3))
        decided = acceptances(test, CHUNK, entries(**plan, number=1024), fresh, np.random.default_rng(4), orders=24)
        found[name], rhos[name] = balance(decided, fresh.shifts[:, 0]).slope(), plan["rho"]
    shift, error = found["seen"]
    assert error < 0.5 * tolerance
    assert abs(shift) < tolerance + ERRORS * error
    # Without it the force is beyond the tolerance.
    shift, error = found["not told"]
    assert abs(shift) > tolerance + ERRORS * error
    assert rhos["seen"] < rhos["not told"]
