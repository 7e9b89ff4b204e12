"""A run that cannot fit into memory is refused before it starts."""

from functools import partial

import jax
import numpy as np
import pytest

import trajens as tj
from trajens.losses import losses_of_pairs
from trajens.sampling import footprint
from trajens.sampling.footprint import bytes_at_work, bytes_free, bytes_held, bytes_needed
from trajens.sampling.kernel import state_like
from trajens.sampling.measure import MeasureAt, measure

DATA = tj.datasets.perceptron(size=64)
PROBLEM = DATA.problem()
PATH = 4 * 2  # bytes of a model


def target(tau=8, problem=PROBLEM):
    return tj.Target(problem, tau=tau, sigma=0.1, s=20.0)


def needed(tau=8, kept=0, problem=PROBLEM, **settings):
    one = target(tau, problem)
    return bytes_needed(one, tj.Settings(**settings).checked(one), kept)


def work(tau=8, problem=PROBLEM, **settings):
    one = target(tau, problem)
    return bytes_at_work(one, tj.Settings(**settings).checked(one))


def wide_problem():
    return tj.models.mlp((4, 2000, 3)).problem(np.zeros((64, 4), np.float32), np.arange(64) % 3)


def losses(examples, problem=PROBLEM):
    """Bytes held while a pair of models is evaluated."""
    like = (jax.ShapeDtypeStruct((1, 2, problem.dim), np.float32), jax.ShapeDtypeStruct((1, examples), np.int32))
    function = partial(losses_of_pairs, problem.loss, problem.data)
    return bytes_held(function, *like, jax.ShapeDtypeStruct((1,), bool), platform="cpu")


@pytest.fixture(autouse=True)
def _nothing_is_compiled(monkeypatch):
    def compiled(*args):
        raise AssertionError("the sampler was reached")

    compiled.lower = compiled
    for name in ("initial_paths", "_init", "_advance", "_measure"):
        monkeypatch.setattr(f"trajens.sampling.sampler.{name}", compiled)


def test_an_impossible_size_is_refused_in_one_sentence():
    with pytest.raises(tj.InputError, match="a run must fit into memory, got 1000000 chains of 32768 models") as caught:
        tj.sample(target(2**15), 100, chains=10**6)
    message = str(caught.value)
    assert "GiB" in message
    assert message.endswith("use fewer chains or a shorter path.")
    assert "\n" not in message


def test_records_that_cannot_be_held_are_refused_before_they_are_planned(monkeypatch):
    monkeypatch.setattr("trajens.run.run.plan_marks", None)
    with pytest.raises(tj.InputError, match=r"got 1000000000 records of 4 chains, .* ask for fewer records"):
        tj.sample(target(), 2 * 10**9, records=10**9)


def test_what_is_kept_in_memory_is_counted_and_what_is_kept_on_disk_is_not(monkeypatch, tmp_path):
    kept = 500 * 4 * 8 * PATH
    free = needed(chains=4, keep_paths=True) + kept // 2
    monkeypatch.setattr(footprint, "bytes_free", lambda device: free)
    settings = {"chains": 4, "records": 500, "burn_in": 0}
    with pytest.raises(tj.InputError, match=r"and 500 kept paths, .* keep the paths on disk with out"):
        tj.sample(target(), 1000, keep_paths=True, **settings)
    for fits in ({}, {"keep_paths": True, "out": tmp_path / "a"}):
        with pytest.raises(AssertionError, match="the sampler was reached"):
            tj.sample(target(), 1000, **settings, **fits)


def test_what_fits_exactly_is_not_refused_and_a_byte_more_is(monkeypatch):
    for spare in (0, -1):
        monkeypatch.setattr(footprint, "bytes_free", lambda device, spare=spare: needed(chains=4) + spare)
        with pytest.raises(tj.InputError if spare else AssertionError):
            tj.sample(target(), 100, chains=4)


def test_where_nobody_knows_what_is_free_nothing_is_refused(monkeypatch):
    monkeypatch.setattr(footprint, "bytes_free", lambda device: None)
    monkeypatch.setattr(footprint, "_bytes_of_host", lambda: None)
    with pytest.raises(AssertionError, match="the sampler was reached"):
        tj.sample(target(2**15), 100, chains=10**6)


def test_the_need_grows_with_chains_models_lanes_and_kept_paths():
    data = sum(leaf.nbytes for leaf in DATA)
    at_work = partial(work, chains=64)
    # Four copies of the paths, and what is computed with them.
    assert needed(chains=64) == data + 64 * 4 * 8 * PATH + at_work()
    # Four copies of the proposals of half as many lanes as models, and the losses of 32 examples on their way.
    assert at_work(acceptance=tj.Metropolis()) == 64 * 4 * (4 * PATH + losses(64))
    assert at_work(tau=16, acceptance=tj.Metropolis()) == 2 * at_work(acceptance=tj.Metropolis())
    assert work(chains=128) == 2 * at_work()
    assert at_work(move=tj.CentreOfMass(0.1)) > 4 * 64 * 8 * PATH
    assert needed(chains=2, kept=10, keep_paths=True) - needed(chains=2) == 10 * 2 * 8 * PATH
    assert needed(chains=2, kept=10) == needed(chains=2)
    larger = tj.datasets.perceptron(size=640).problem()
    assert needed(problem=larger, chains=1, acceptance=tj.Penalty(8)) > 10 * data


def test_an_audit_looks_at_no_more_at_a_time_than_the_sampler_or_a_few():
    wide = wide_problem()
    few = work(problem=wide, chains=1, scan="random")
    assert few == 16 * (4 * wide.dim * 4 + losses(64, wide))
    # As many lanes of its own.
    assert work(2, wide, chains=16, scan="random") == few


def test_hidden_layers_are_counted_as_the_compiler_counts_them():
    wide = wide_problem()
    one = target(8, wide)
    # One lane per chain to sample, and four pairs of models to measure.
    how = {"chains": 4, "acceptance": tj.Metropolis(), "scan": "random"}
    settings = tj.Settings(devices=jax.devices()[:1], **how).checked(one)
    sampler = tj.Sampler(one, settings)
    with jax.ensure_compile_time_eval():
        state = state_like(sampler.program, 4, wide.dim)
    measuring = partial(measure, sampler.program, chunk=64, is_all=True)
    look = MeasureAt.of(sampler.program.examples, 64, 0, sampler._directions)
    compiled = jax.jit(measuring).lower(sampler.inputs(), state, look).compile().memory_analysis()
    activations = 4 * 8 * 64 * 2000 * 4
    assert compiled.temp_size_in_bytes > 1.5 * activations
    assert 0.95 < work(problem=wide, **how) / compiled.temp_size_in_bytes < 1.2


def test_the_need_of_a_run_is_no_less_than_its_state_takes():
    model = tj.models.mlp((6, 5, 3))
    problem = model.problem(np.zeros((20, 6), np.float32), np.zeros(20, int))
    assert needed(problem=problem, chains=3) > 3 * 8 * model.dim * 4


def test_memory_of_this_machine_is_known_or_not():
    free = bytes_free(jax.devices()[0])
    assert free is None or 2**20 < free < 2**50
