"""Two stages are one detailed balanced test: their acceptance, their examples, and runs that use them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr

import trajens as tj
from tests import small_run
from tests.monte_carlo import Z
from trajens.acceptance import Evidence, Past, Reason
from trajens.acceptance.moments import moments_of, no_moments
from trajens.acceptance.penalty import PenaltyMemory
from trajens.randomness import Purpose, fold_in, key_of, words
from trajens.run import audits as auditing
from trajens.sampling import kernel

# b1 + b2 = 0.7 N: what a first stage leaves to draw from shows in both the estimate and its noise.
SIZE, CHUNK, BATCHES, PART = 60, 14, (14, 28), 0.4
SPREAD = 11.0
DRAWS = 2**18
DELTAS = (-3.0, -1.0, 0.0, 1.0, 3.0)
TEST = tj.Penalty(CHUNK, rho=2.0, tolerance=None)


def plan_for(wanted, size, first, rho=2.0, seen=5):
    """What `Penalty` remembers when it would take `wanted` examples of `size` in a single stage, at s = 1."""
    variance = wanted * size * rho**2 / (size - wanted)
    return PenaltyMemory(jnp.float32(variance), jnp.int32(seen), jnp.float32(rho), jnp.float32(first), jnp.float32(1))


PLAN = plan_for(24.0, SIZE, PART)


def stage_noises():
    """Var(lambda_j Delta*) of both stages, from the variances of means without replacement."""
    b1, b2 = BATCHES
    first = SPREAD**2 * (1 / b1 - 1 / SIZE)
    second = (1 - b1 / SIZE) ** 2 * SPREAD**2 * (1 / b2 - 1 / (SIZE - b1))
    return PART**2 * first, (1 - PART) ** 2 * second


def known_variance(delta, rho2):
    """The formula of the penalty test."""
    rho = np.sqrt(rho2)
    return ndtr((delta - rho2 / 2) / rho) + np.exp(delta) * ndtr(-(delta + rho2 / 2) / rho)


def estimated_variance(delta, rho2, b):
    """The same with the variance estimated from b normal numbers: an average over chi-square."""
    rho = np.sqrt(rho2)
    cells = (np.arange(20_000) + 0.5) / 20_000
    found = rho2 * stats.chi2.ppf(cells, b - 1) / (b - 1)
    u = found / 2 + found**2 / (4 * (b + 1)) + found**3 / (3 * (b + 1) * (b + 3))
    x = delta - u
    return float(np.mean(ndtr(x / rho) + np.exp(x + rho2 / 2) * ndtr(-x / rho - rho)))


def frequency(delta, seed, batches=BATCHES, is_reused=False):
    """How often two stages accept a proposal whose Delta_i are normal and have mean `delta` exactly.

    Every draw has a finite population of its own, so the first numbers of it are a batch without replacement.
    """
    rng = np.random.default_rng(seed)
    population = SPREAD * rng.standard_normal((DRAWS, SIZE), np.float32)
    population += delta - population.mean(1, keepdims=True)
    b1, b2 = batches
    second = population[:, :b2] if is_reused else population[:, b1 : b1 + b2]
    random = words(fold_in(key_of(seed), jnp.arange(DRAWS)), Purpose.TEST, TEST.num_words)
    return np.asarray(_two_stages(population[:, :b1], second, random))


@jax.jit
def _two_stages(first, second, random):
    # Loss differences have the opposite sign of Delta_i.
    evidence = lambda values, past, stage: Evidence(values, jnp.float32(-1), jnp.float32(0), SIZE, past, stage)  # noqa: E731

    def one(first, second, words):
        nothing = Past(jnp.int32(0), jnp.float32(0))
        seen = moments_of(first)
        verdict = TEST.decide(PLAN, evidence(seen, nothing, jnp.int32(0)), words)
        past, left = nothing.plus(seen, jnp.bool_(True))
        is_clear = jnp.bool_(left.n == 0)
        last = TEST.decide(PLAN, evidence(moments_of(second), past, jnp.int32(1)), words)
        # Refused in the first stage or passed on, and decided in the second.
        is_sound = is_clear & (verdict.is_decided ^ verdict.is_passed) & ~verdict.is_accepted & last.is_decided
        return jnp.where(is_sound, verdict.is_passed & last.is_accepted, jnp.nan)

    return jax.vmap(one)(first, second, random)


@pytest.fixture(scope="module")
def frequencies():
    return {delta: frequency(delta, seed).mean() for seed, delta in enumerate(DELTAS)}


def test_the_plan_divides_its_batch():
    b = [int(TEST.planned_batch(PLAN, jnp.float32(1), SIZE, stage)) for stage in (0, 1)]
    assert tuple(b) == BATCHES
    assert int(TEST.most_examples(PLAN, jnp.float32(1), SIZE)) == sum(BATCHES)
    assert sum(BATCHES) == 0.7 * SIZE


@pytest.mark.parametrize("delta", DELTAS)
def test_two_stages_accept_by_the_product_of_their_formulas(frequencies, delta):
    parts = PART * delta, (1 - PART) * delta
    expected = np.prod([estimated_variance(d, v, b) for d, v, b in zip(parts, stage_noises(), BATCHES, strict=True)])
    error = np.sqrt(expected * (1 - expected) / DRAWS)
    assert abs(frequencies[delta] - expected) < Z * error
    # With the variance known, as in the formula of the module, it is not far from that.
    assert expected == pytest.approx(
        np.prod([known_variance(*pair) for pair in zip(parts, stage_noises(), strict=True)]), rel=0.06
    )


@pytest.mark.parametrize("delta", [1.0, 3.0])
def test_two_stages_are_detailed_balanced(frequencies, delta):
    assert abs(_imbalance(frequencies[delta], frequencies[-delta], delta)) < Z


def test_balance_would_be_lost_if_the_second_stage_used_the_examples_of_the_first():
    there, back = (frequency(delta, 20, is_reused=True).mean() for delta in (3.0, -3.0))
    assert abs(_imbalance(there, back, 3.0)) > 2 * Z


def _imbalance(there, back, delta):
    """ln(A / A') - Delta in standard errors."""
    error = np.sqrt((1 - there) / (DRAWS * there) + (1 - back) / (DRAWS * back))
    return (np.log(there / back) - delta) / error


def test_a_second_stage_with_all_that_is_left_knows_delta():
    rng = np.random.default_rng(3)
    values = rng.standard_normal(SIZE).astype(np.float32) * SPREAD + 1.5
    for b1 in (2, 14, 59):
        past, _ = Past(jnp.int32(0), jnp.float32(0)).plus(moments_of(jnp.asarray(values[:b1])), jnp.bool_(True))
        rest = moments_of(jnp.asarray(values[b1:]))
        evidence = Evidence(rest, jnp.float32(-1), jnp.float32(0.25), SIZE, past, jnp.int32(1))
        assert bool(evidence.is_complete)
        assert (int(evidence.b), int(evidence.seen)) == (SIZE - b1, SIZE)
        assert float(evidence.noise()) == 0.0
        assert float(evidence.delta) == pytest.approx(0.25 + values.mean(dtype=np.float64), rel=1e-5)
        _, log_chance, is_last = TEST.judge(PLAN, evidence)
        assert float(log_chance) == pytest.approx((1 - PART) * float(evidence.delta), rel=1e-6)
        assert bool(is_last)


def test_all_data_in_the_first_stage_test_all_of_delta_at_once():
    values = jnp.asarray(np.random.default_rng(4).standard_normal(SIZE) - 1.0, jnp.float32)
    nothing = Past(jnp.int32(0), jnp.float32(0))
    evidence = Evidence(moments_of(values), jnp.float32(-1), jnp.float32(0), SIZE, nothing, jnp.int32(0))
    is_ready, log_chance, is_last = TEST.judge(PLAN, evidence)
    assert bool(is_ready)
    assert bool(is_last)
    assert float(log_chance) == float(evidence.delta)
    verdict = TEST.decide(PLAN, evidence, jnp.zeros(4, jnp.uint32))
    assert bool(verdict.is_decided)
    assert not bool(verdict.is_passed)
    assert int(verdict.reason) == Reason.ALL_DATA


def test_a_first_stage_of_less_than_half_a_chunk_is_left_out():
    for wanted, undivided in ((14.5, True), (15.5, False)):
        plan = plan_for(wanted, SIZE, PART)
        assert int(TEST.planned_batch(plan, jnp.float32(1), SIZE)) == (28 if undivided else 14)
        assert int(TEST.most_examples(plan, jnp.float32(1), SIZE)) == 28
        seen = no_moments(())._replace(n=jnp.int32(28))
        evidence = Evidence(seen, jnp.float32(1), jnp.float32(-0.5), SIZE, Past(jnp.int32(0), jnp.float32(0)), 0)
        _, log_chance, is_last = TEST.judge(plan, evidence)
        assert bool(is_last) is undivided
        assert float(log_chance) == pytest.approx(-0.5 if undivided else -0.5 * PART)


# The sampler.

DATA = tj.datasets.perceptron(size=96, noise=0.5)
TARGET = tj.Target(DATA.problem(), tau=4, sigma=0.2, s=40.0)


def sample(acceptance, epochs=300, **changes):
    settings = {"chains": 4, "burn_in": 100, "records": 6, "scan": "checkerboard", "keep_paths": True}
    return tj.sample(TARGET, epochs, acceptance=acceptance, **{**settings, **changes})


@pytest.mark.slow
def test_a_second_stage_reads_other_examples_and_all_are_counted(monkeypatch):
    looked = []
    evaluate = kernel._evaluate

    def recording(program, inputs, task, lanes, pair):
        jax.debug.callback(
            lambda *found: looked.append([np.array(a) for a in found]),
            task.epoch,
            task.members,
            lanes.batch.stage,
            lanes.batch.seen,
            task.is_active,
        )
        return evaluate(program, inputs, task, lanes, pair)

    monkeypatch.setattr(kernel, "_evaluate", recording)
    # A size of chunk that no other test has, so that no compiled program is found.
    run = sample(tj.Penalty(11, rho=1.0, tolerance=None), chains=1, epochs=200)
    jax.effects_barrier()
    examples, stages = {}, {}
    for epoch, indices, stage, seen, is_active in looked:
        for lane in np.flatnonzero(is_active[0]):
            begin = int(seen[0, lane])
            mine = indices[0, lane][: 96 - begin]
            examples.setdefault(int(epoch[0, lane]), []).append(mine)
            stages.setdefault(int(epoch[0, lane]), []).append(int(stage[0, lane]))
    assert sorted(examples) == list(range(200))
    read = 0
    for epoch, parts in examples.items():
        together = np.concatenate(parts)
        assert len(np.unique(together)) == len(together), epoch
        assert stages[epoch] == sorted(stages[epoch])
        read += len(together)
    is_two_stage = [max(found) == 1 for found in stages.values()]
    assert 0.05 < np.mean(is_two_stage) < 0.95
    assert int(run.records["data_used"][0, -1]) == read


@pytest.mark.parametrize("rho", [0.7, 1.5])
@pytest.mark.long
def test_stages_do_not_depend_on_how_many_chunks_are_evaluated_at_once(rho):
    acceptance = tj.Penalty(8, rho=rho, tolerance=None)
    small_run.assert_same(sample(acceptance), sample(acceptance, ahead=3))


@pytest.mark.slow
def test_moves_of_several_models_have_stages():
    moves = [(1.0, tj.SingleSite()), (1.0, tj.Segment(3)), (0.5, tj.CentreOfMass(0.05))]
    run = sample(tj.Penalty(8, rho=1.0, tolerance=None), move=tj.Mixture(moves))
    plan = jax.tree.map(np.asarray, run.state.acceptance)
    test = tj.Penalty(8, rho=1.0, tolerance=None)
    batches = [np.asarray(test.planned_batch(plan, 40.0, 96, stage)) for stage in (0, 1)]
    is_used = plan.seen > 0
    # Every kind has divided plans, and between a first stage and both is read.
    assert is_used.any(2).all()
    assert (batches[0] < batches[1])[is_used].mean() > 0.5
    late = run.records["batch_size"][:, -3:].mean()
    assert batches[0][is_used].mean() < late < sum(batches)[is_used].mean()
    assert 0 < run.records["acceptance"][:, -3:].mean() < 1


@pytest.mark.long
@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("blocks", [8, 17])
def test_a_run_with_audits_is_resumed_bit_for_bit(tmp_path, monkeypatch, blocks):
    # Audits of few parameters are too dear for so short a burn-in.
    monkeypatch.setattr(auditing, "_CHEAP", 0)
    monkeypatch.setattr(auditing, "SHARE", 0.3)
    settings = {"chains": 8, "burn_in": 480, "records": 20, "acceptance": tj.Penalty(8), "epochs": 800}
    whole = sample(out=small_run.fresh(tmp_path / "whole"), **settings)
    part = sample(out=small_run.fresh(tmp_path / "part"), stop=small_run.StopAfter(blocks), **settings)
    assert 0 < part.epochs < 480
    resumed = sample(out=small_run.again(tmp_path / "part"), **settings)
    small_run.assert_same(resumed, whole)
    jax.tree.map(np.testing.assert_array_equal, resumed.state.acceptance, whole.state.acceptance)
    is_audited = whole.records["tilt_weight"][0] > 0
    audited = whole.records["epoch"][0][is_audited]
    assert (audited <= 480).sum() >= 2
    assert (audited > 480).any()
