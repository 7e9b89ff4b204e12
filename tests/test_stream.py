"""Streams: every example is a fresh key, the same for both models of a proposal, and runs are as those on data."""

import re
import warnings
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import trajens as tj
from tests import small_run
from tests.laws.test_stream_laws import WEIGHTS, exact_paths, loss
from tests.monte_carlo import Z
from tests.small_run import StopAfter, again, assert_same, fresh
from trajens.acceptance import Evidence, Past, Reason
from trajens.acceptance.moments import moments_of
from trajens.acceptance.penalty import PenaltyMemory
from trajens.app.report import load_view, page
from trajens.errors import InputError
from trajens.population import Endless, keys_of
from trajens.randomness import Key, key_of
from trajens.run.advice import ATTENTION, RunFacts, findings
from trajens.run.stored import StoredRun

CHUNK, MAX_BATCH, EPOCHS = 16, 40, 300
STREAM = tj.Stream(loss, 2, max_batch=MAX_BATCH)
TARGET = tj.Target(STREAM, tau=3, sigma=0.2, s=20.0)
SETTINGS = {"chains": 4, "burn_in": 100, "records": 6, "acceptance": tj.Penalty(CHUNK)}


def sample(target=TARGET, epochs=EPOCHS, **changes):
    return tj.sample(target, epochs, **{**SETTINGS, **changes})


def one(theta, key):
    """The loss of the laws as a user would write it, for one key."""
    key_x, key_y = jax.random.split(key)
    x = jax.random.normal(key_x, (2,))
    return 0.5 * (x @ (WEIGHTS - theta) + 0.5 * jax.random.normal(key_y)) ** 2


def test_members_are_keys_of_jax_by_their_position_in_the_batch():
    root = jax.random.key(7)
    members = Endless(64).draw(key_of(7), jnp.arange(5))
    for position, key in enumerate(keys_of(members)):
        assert key == jax.random.fold_in(root, position)
    lanes = Endless(64).draw(Key(jnp.arange(6, dtype=jnp.uint32), jnp.zeros(6, jnp.uint32)), jnp.zeros((6, 1)))
    assert len(np.unique(np.asarray(lanes).reshape(6, 2), axis=0)) == 6


def keys_that_were_asked_for(**changes):
    """Keys (calls, lanes, 2, m, 2), as the current and the proposed model of every lane saw them, of active lanes."""
    seen = []

    @dataclass(frozen=True)
    class Watched:
        name: str = str(sorted(changes))

        def __call__(self, theta, keys):
            return loss(theta, keys)

        def of_pairs(self, data, theta_pairs, keys, is_active):
            assert data == ()
            words = jnp.broadcast_to(jax.random.key_data(keys)[:, None], (*theta_pairs.shape[:2], keys.shape[1], 2))
            jax.debug.callback(lambda k, a: seen.append(np.array(k)[np.array(a)]), words, is_active)
            return jax.vmap(jax.vmap(loss, (0, None)))(theta_pairs, keys)

    target = tj.Target(tj.Stream(Watched(), 2), tau=3, sigma=0.2, s=20.0)
    sampler = tj.Sampler(target, tj.Settings(chains=2, acceptance=tj.Penalty(CHUNK, stages=1), **changes))
    state = sampler.init(np.zeros(2))
    seen.clear()
    _, tally = sampler.advance(state, 30)
    jax.effects_barrier()
    return np.concatenate([k.reshape(-1, 2, CHUNK, 2) for k in seen]), tally


def test_every_decision_has_keys_of_its_own_and_a_pair_of_models_the_same():
    found, tally = keys_that_were_asked_for()
    np.testing.assert_array_equal(found[:, 0], found[:, 1])
    every = found[:, 0].reshape(-1, 2)
    assert len(every) == int(np.sum(tally.examples))
    assert len(np.unique(every, axis=0)) == len(every)


@pytest.mark.slow
def test_all_models_of_one_proposal_see_the_same_keys():
    found, _ = keys_that_were_asked_for(move=tj.Segment(2), scan="random")
    keys, counts = np.unique(found[:, 0].reshape(-1, 2), axis=0, return_counts=True)
    assert len(keys) > 100
    # A span of two models is evaluated one model at a time, on the same chunk; ends of the path have one.
    assert set(counts) <= {1, 2}
    assert (counts == 2).mean() > 0.3


@pytest.mark.slow
def test_noise_that_both_models_share_costs_nothing():
    # Common random numbers: the noise of a thousand cancels, and a chunk is enough.
    noisy = tj.Stream(lambda theta, keys: 1000 * _normals(keys) + (theta**2).sum(), 2)
    run = sample(tj.Target(noisy, tau=2, sigma=0.2, s=50.0), acceptance=tj.Penalty(CHUNK, stages=1, tolerance=None))
    # Beside the pilots of models without a past.
    assert run.summary()["batch_size"] == CHUNK


def _normals(keys):
    return jax.vmap(jax.random.normal)(keys)


@pytest.mark.slow
def test_a_loss_without_randomness_is_sampled_exactly():
    still = tj.Stream(lambda theta, keys: jnp.full(keys.shape, 0.5 * (theta**2).sum()), 2, max_batch=2)
    run = sample(
        tj.Target(still, tau=1, sigma=0.5, s=8.0), 2000, chains=256, acceptance=tj.Penalty(2, stages=1, tolerance=None)
    )
    found = run.summary()
    assert abs(found["loss"] - 1 / 8) < Z * found["loss_stderr"]
    assert (run.records["loss_error"] == 0).all()


@pytest.fixture(scope="module")
def run():
    return sample()


def test_a_stop_and_a_resume_change_nothing(run, tmp_path):
    sample(out=fresh(tmp_path / "run"), stop=StopAfter(0))
    resumed = sample(out=again(tmp_path / "run"))
    assert_same(run, resumed)
    assert_same(run, sample(epochs=150, records=3).extend(150, records=3))
    stored = StoredRun(tmp_path / "run")
    assert "examples" not in stored.identity
    assert stored.identity["max_batch"] == MAX_BATCH
    assert stored.summary()["reasons"] == run.summary()["reasons"]


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2])
def test_the_number_of_devices_changes_nothing(run, count):
    other = sample(devices=jax.devices()[:count])
    np.testing.assert_array_equal(run.paths, other.paths)
    for name in run.records:
        # Sums of floats, and of programs that JAX keeps on disk, as this session does, the last bit of a variance.
        tolerance = 1e-6 if name in ("loss", "loss_error", "loss_deciding") else 0.0
        np.testing.assert_allclose(run.records[name], other.records[name], rtol=tolerance, err_msg=name)


@pytest.mark.slow
def test_what_is_evaluated_ahead_changes_nothing(run):
    # Three chunks of 16 are more than the 40 examples that may be read.
    assert_same(run, sample(ahead=3))


def test_a_run_is_not_resumed_with_another_stream(tmp_path):
    sample(out=tmp_path / "run", epochs=20, burn_in=5)
    for stream in (
        tj.Stream(loss, 2, max_batch=64),
        tj.Stream(lambda theta, keys: 2 * loss(theta, keys), 2, MAX_BATCH),
    ):
        with pytest.raises(tj.InputError, match="resumed with what it was begun with"):
            sample(tj.Target(stream, 3, 0.2, 20.0), out=again(tmp_path / "run"), epochs=20, burn_in=5)


def test_records_measure_on_fresh_keys_and_know_their_error(run):
    state = run.state
    sampler = tj.Sampler(TARGET, run.settings)
    offset = np.asarray(state.path, np.float64) - WEIGHTS
    hessian = np.linalg.inv(exact_paths(1, 1.0, 1.0).covariance.reshape(2, 2))
    exact = 0.5 * (0.25 + np.einsum("cti,ij,ctj->ct", offset, hessian, offset)).mean(1)
    found = [sampler.measure_at(state, epoch, 256) for epoch in range(400)]
    scores = np.array([(one.loss - exact) / one.loss_error for one in found])
    # Skewness moves the mean of such quotients by some hundredths.
    assert abs(scores.mean()) < 0.2 + Z / np.sqrt(scores.size)
    assert abs(scores.std() - 1) < 0.1
    # One measurement more is one more, not the same.
    assert len({float(one.loss[0]) for one in found}) == len(found)
    assert (run.records["loss_error"] > 0).all()


@pytest.mark.parametrize(
    ("test", "share"),
    [
        (tj.Penalty(CHUNK), 0.2),
        pytest.param(tj.Penalty(CHUNK, stages=1), 0.9, marks=pytest.mark.slow),
        pytest.param(tj.Penalty(CHUNK, plan=False), 0.5, marks=pytest.mark.slow),
    ],
    ids=["stages", "one stage", "growing"],
)
def test_batches_end_at_the_cap_and_say_so(test, share):
    run = sample(tj.Target(STREAM, 3, 0.2, 200.0), acceptance=test)
    reasons, after = run.summary()["reasons"], run.records["epoch"][0] > run.burn_in
    assert set(reasons) == {"tested", "cut_off", "all_data", "not_finite", "current_not_finite", "capped"}
    assert sum(reasons.values()) == 4 * 200
    # What a first stage refuses is refused as planned.
    assert reasons["capped"] > share * 800
    assert (run.records["batch_size"][:, after] <= MAX_BATCH).all()
    assert run.records["data_used"][:, -1].max() <= EPOCHS * MAX_BATCH
    found = {j.name: j for j in findings(RunFacts.of(run))}["Batches"]
    assert found.mark == ATTENTION
    assert "max_batch" in found.sentence


def test_a_plan_that_its_first_stage_uses_up_tests_all_of_delta_and_says_so():
    test = tj.Penalty(CHUNK, tolerance=None)
    # 60 examples at s = 1: two chunks in the first stage, four in the second.
    plan = PenaltyMemory(jnp.float32(60 * 4), jnp.int32(5), jnp.float32(2), jnp.float32(0.3), jnp.float32(1))
    assert [int(test.planned_batch(plan, jnp.float32(1), np.inf, stage)) for stage in (0, 1)] == [32, 64]
    assert int(test.most_examples(plan, jnp.float32(1), np.inf)) == 96
    past = Past(jnp.int32(0), jnp.float32(0))
    values, words = jnp.linspace(-1.0, 1.5, 32), jnp.full(4, 2**32 - 1, jnp.uint32)
    for limit, part, is_last in ((32, 1.0, True), (96, 0.3, False)):
        evidence = Evidence(moments_of(values), jnp.float32(1), jnp.float32(0), np.inf, past, jnp.int32(0), limit)
        # Without a factor 1 - b/N.
        rho2 = part**2 * float(np.var(values, ddof=1)) / 32
        np.testing.assert_allclose(evidence.noise(), rho2 / part**2, rtol=1e-5)
        judgement = test.judge(plan, evidence)
        u = rho2 / 2 + rho2**2 / (4 * 33) + rho2**3 / (3 * 33 * 35)
        np.testing.assert_allclose(judgement.log_chance, -part * 0.25 - u, rtol=1e-4)
        assert bool(judgement.is_last) == is_last
        reason = test.decide(plan, evidence, words).reason
        assert int(reason) == (Reason.CAPPED if is_last else Reason.TESTED)


def test_data_of_a_fixed_size_have_no_cap():
    run = small_run.sample(None)
    assert "capped" not in run.records
    assert "capped" not in run.summary()["reasons"]
    assert "Batches" not in {j.name for j in findings(RunFacts.of(run))}


def test_what_a_simulator_breaks_at_never_enters_a_path():
    def broken(theta, keys):
        beyond = [theta[0] > 1.0, theta[1] > 1.0, theta[1] < -1.0]
        bad = jnp.select(beyond, [jnp.float32(value) for value in (jnp.nan, jnp.inf, -jnp.inf)], jnp.float32(0))
        # It breaks for half of the keys, and is better than anything else for the others.
        is_bad, (first, _) = jnp.any(jnp.array(beyond)), jax.random.key_data(keys).T
        return jnp.where(is_bad, jnp.where(first % 2 == 0, bad, -100.0), loss(theta, keys))

    target = tj.Target(tj.Stream(broken, 2), tau=3, sigma=0.3, s=20.0)
    run = sample(target, initial=np.zeros(2), keep_paths=True)
    assert np.isfinite(run.records["loss"]).all()
    assert run.records["not_finite"].sum() > 0
    assert run.records["current_not_finite"].sum() == 0
    assert (run.history[..., 0] <= 1.0).all()
    assert (np.abs(run.history[..., 1]) <= 1.0).all()


def test_a_start_at_which_the_simulator_breaks_is_refused():
    broken = tj.Stream(lambda theta, keys: jnp.where(theta[0] > 1.0, jnp.nan, loss(theta, keys)), 2)
    with pytest.raises(tj.InputError, match="loss of the initial path must be finite"):
        sample(tj.Target(broken, 3, 0.2, 20.0), initial=np.full(2, 2.0))


REFUSED = {
    "full data": (lambda: sample(acceptance=tj.Metropolis()), "test on minibatches for a stream"),
    "full data, barker": (lambda: sample(acceptance=tj.Barker()), "test on minibatches for a stream"),
    "scores": (lambda: sample(scores="losses"), "scores must be left out for a stream"),
    "scores of one's own": (lambda: sample(scores=np.ones(MAX_BATCH)), "scores must be left out for a stream"),
    "scores in training": (lambda: tj.train(STREAM, scores="losses"), "scores must be left out for a stream"),
    "a chunk beyond the cap": (lambda: sample(acceptance=tj.Penalty(41)), r"chunk must be .* in 2\.\.40, got 41"),
    "too small a cap": (lambda: tj.Stream(loss, 2, max_batch=1), "max_batch must be"),
    "half a cap": (lambda: tj.Stream(loss, 2, max_batch=2.5), "max_batch must be"),
    "no parameters": (lambda: tj.Stream(loss, 0), "dim must be"),
    "no function": (lambda: tj.Stream(3, 2), "function of \\(theta, keys\\)"),
    "one key at a time": (lambda: tj.Stream(one, 2), "jax.vmap\\(one, in_axes=\\(None, 0\\)\\)"),
    "a mean": (lambda: tj.Stream(lambda theta, keys: loss(theta, keys).mean(), 2), r"shape \(2,\) for 2 examples"),
    "a column": (lambda: tj.Stream(lambda theta, keys: loss(theta, keys)[:, None], 2), r"got \(2, 1\)"),
    "complex": (lambda: tj.Stream(lambda theta, keys: loss(theta, keys) + 1j, 2), "must return real numbers"),
    "truth": (lambda: tj.Stream(lambda theta, keys: loss(theta, keys) > 0, 2), "must return real numbers"),
    "two results": (lambda: tj.Stream(lambda theta, keys: (loss(theta, keys),) * 2, 2), "got tuple"),
    "other parameters": (
        lambda: tj.Stream(lambda theta, keys: loss(theta[:1] @ np.ones(3), keys), 2),
        "failed on theta",
    ),
    "data": (lambda: tj.Stream(loss, np.zeros((5, 2))), "dim must be"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_refused_in_one_sentence(case):
    call, message = REFUSED[case]
    with pytest.raises(tj.InputError, match=message) as caught:
        call()
    assert re.fullmatch(r"[^\n]+\.", str(caught.value))


@pytest.mark.slow
def test_whole_numbers_and_half_precision_are_losses_too():
    for dtype in (jnp.int32, jnp.bfloat16, jnp.float16):
        stream = tj.Stream(lambda theta, keys, dtype=dtype: (10 * loss(theta, keys)).astype(dtype), 2)
        found = tj.Sampler(tj.Target(stream, 1, 0.2, 1.0), tj.Settings(chains=1))
        assert np.isfinite(found.measure(found.init(np.zeros(2)), 64).loss).all()


@pytest.mark.slow
def test_training_needs_nothing_but_the_stream(tmp_path, capsys):
    stream = tj.Stream(jax.vmap(one, in_axes=(None, 0)), 2, max_batch=256)
    settings = {"tau": 2, "budget": 1e5, "records": 8, "out": tmp_path / "run"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = tj.train(stream, **settings, progress=True)
    said = capsys.readouterr().out
    assert re.search(r"batches of \d+\n", said)
    best = 0.125
    errors = run.records["loss_error"][:, run.records["epoch"][0] > run.burn_in]
    error = np.sqrt((errors**2).sum()) / errors.size
    assert best - Z * error < run.summary()["loss"] < 1.2 * best
    assert "Stream(one, dim=2, max_batch=256)" in repr(run)

    part = tj.train(stream, **{**settings, "out": fresh(tmp_path / "stopped")}, progress=False, stop=StopAfter(2))
    assert not part.is_complete
    assert_same(run, tj.train(stream, **{**settings, "out": again(tmp_path / "stopped")}, progress=False))

    members = tj.Ensemble.from_run(run, apply=lambda theta, x: (x @ theta)[:, None], outputs=1)
    x = np.eye(2, dtype=np.float32)
    np.testing.assert_allclose(members.predict(x), WEIGHTS, atol=0.2)
    with pytest.raises(tj.InputError, match="model must be given for Stream"):
        tj.Ensemble.from_run(run)

    html = page([load_view(tmp_path / "run")])
    assert "asked for more examples than max_batch" in html
    assert "The ensemble was not tried on data" in html
    assert "<svg" in html


@pytest.mark.slow
def test_parameters_may_be_a_tree():
    params = {"slope": np.zeros(2, np.float32)}
    stream = tj.Stream.from_pytree(lambda params, keys: loss(params["slope"], keys), params, max_batch=MAX_BATCH)
    assert (stream.dim, stream.max_batch, stream.size) == (2, MAX_BATCH, np.inf)
    np.testing.assert_array_equal(stream.unravel(jnp.ones(2))["slope"], np.ones(2))
    plain = tj.Stream(loss, 2, MAX_BATCH, initial=np.zeros(2))
    assert_same(sample(tj.Target(stream, 3, 0.2, 20.0)), sample(tj.Target(plain, 3, 0.2, 20.0)))


def test_nothing_can_be_held_out_of_a_stream():
    stream = tj.Stream(lambda theta, keys: jnp.zeros(len(keys)) + theta[0] ** 2, 1)
    with pytest.raises(InputError, match="examples of a stream must not be held out, got a share of"):
        stream.hold_out(0.2)
