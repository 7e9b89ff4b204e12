"""Losses of the paths that a run has kept, in memory and on disk, and what they say of a sampler that is exact."""

import itertools
from dataclasses import replace

import jax
import numpy as np
import pytest

import trajens as tj
from tests.monte_carlo import Z
from trajens import thermo
from trajens.app.experiment import Experiment
from trajens.app.resolve import resolve
from trajens.sampling.measure import compiled_losses_of_models

DATA = tj.datasets.perceptron(seed=3, size=40, noise=0.5)
S = np.array([10.0, 20.0, 40.0])
TARGET = tj.Target(DATA.problem(), tau=3, sigma=0.3, s=np.tile(S, 32), prior=0.5)
SETTINGS = {"chains": 96, "burn_in": 300, "records": 24, "keep_paths": True, "acceptance": tj.Metropolis()}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return tj.sample(TARGET, 1500, out=tmp_path_factory.mktemp("run") / "a", **SETTINGS)


@pytest.fixture(scope="module")
def observed(run):
    return thermo.observe(run)


def test_losses_are_those_that_the_run_recorded(run, observed):
    records = run.records
    after = records["epoch"][0] > run.burn_in
    assert observed.losses.shape == (96, after.sum(), 3)
    np.testing.assert_allclose(observed.losses.mean(-1), records["loss"][:, after], rtol=1e-5)
    np.testing.assert_array_equal(observed.epochs, records["epoch"][0, after])
    np.testing.assert_array_equal(observed.s, TARGET.s_of_chains(96))
    np.testing.assert_array_equal(observed.loss_error, 0.0)
    every = thermo.observe(run, burn_in=0)
    assert every.draws == run.history.shape[1]
    np.testing.assert_array_equal(every.losses[:, -observed.draws :], observed.losses)


def test_a_sampled_ladder_has_the_exact_thermodynamics(run, observed):
    exact = [tj.exact.perceptron(DATA.x, DATA.y, 3, 0.3, s, 0.5) for s in S]
    curve, free = thermo.curve(observed), thermo.log_z(observed)
    scores = [
        (curve.loss - [e.loss for e in exact]) / curve.loss_stderr,
        (curve.variance - [e.variance for e in exact]) / curve.variance_stderr,
        (free.log_z - [e.log_z - exact[0].log_z for e in exact])[1:] / free.stderr[1:],
    ]
    assert np.abs(np.concatenate(scores)).max() < Z
    shared = thermo.overlap(run)
    for level, one in enumerate(map(thermo.overlap, exact)):
        off = (shared.distance_between[level] - one.distance_between[0]) / shared.distance_between_stderr[level]
        assert np.abs(off).max() < Z
    assert (thermo.correlation_times(thermo.observe(run, burn_in=0)).records >= 0.5).all()


def test_examples_beyond_whole_chunks_count_once():
    data = tj.datasets.perceptron(seed=1, size=300, noise=0.5)
    problem, models = data.problem(), np.random.default_rng(0).standard_normal((6, 2)).astype(np.float32)
    sums = compiled_losses_of_models(problem.loss, problem.data, models, np.arange(300))
    assert sums.shape == (2, 6)
    exact = 0.5 * ((data.y - models.astype(np.float64) @ np.asarray(data.x, np.float64).T) ** 2).sum(1)
    np.testing.assert_allclose(np.asarray(sums, np.float64).sum(0), exact, rtol=1e-5)


def test_a_stored_run_is_observed_with_its_problem(run, observed):
    stored = tj.StoredRun(run.out.path)
    again = thermo.observe(stored, DATA.problem())
    np.testing.assert_array_equal(again.losses, observed.losses)
    np.testing.assert_array_equal(again.s, observed.s)
    np.testing.assert_array_equal(thermo.overlap(stored).along, thermo.overlap(run).along)
    with pytest.raises(tj.InputError, match=r"observe\(run, problem\)"):
        thermo.observe(stored)
    with pytest.raises(tj.InputError, match="2 parameters of the models of the run, got 3"):
        thermo.observe(stored, tj.models.linear(2).problem(np.ones((4, 2)), np.zeros(4), loss="squared"))
    in_memory = replace(run, out=None, kept=np.array(run.history))
    np.testing.assert_array_equal(thermo.observe(in_memory).losses, observed.losses)


def test_a_run_of_the_command_line_knows_its_problem(tmp_path):
    options = {"problem": "perceptron", "epochs": 60, "chains": 2, "tau": 2, "s": 50.0, "keep_paths": True}
    made = Experiment(resolve(options)).run(tmp_path / "a")
    np.testing.assert_array_equal(thermo.observe(tj.StoredRun(tmp_path / "a")).losses, thermo.observe(made).losses)


def test_a_part_of_the_examples_is_the_same_for_all_paths(run, observed, monkeypatch):
    part = thermo.observe(run, examples=33)
    assert part.share == 32 / 40
    assert part.groups.shape == (16, *observed.losses.shape)
    np.testing.assert_allclose(part.groups.mean(0), part.losses)
    x, y = np.asarray(DATA.x, np.float64), np.asarray(DATA.y, np.float64)
    paths = np.asarray(run.history[:, -observed.draws :], np.float64)
    by_example = 0.5 * (y - paths @ x.T) ** 2
    np.testing.assert_allclose(by_example.mean(-1), observed.losses, rtol=1e-5)
    # Each group is the mean of two examples, and no example is in two groups.
    some = by_example.reshape(-1, 40)[:50]
    pairs = np.array(list(itertools.combinations(range(40), 2)))
    means = some[:, pairs].mean(-1)
    found = [np.abs(means - group[:, None]).max(0) for group in part.groups.reshape(16, -1)[:, :50]]
    assert np.max([np.min(off) for off in found]) < 1e-5
    assert len(np.unique([pairs[np.argmin(off)] for off in found])) == 32
    # In other pieces they are the same.
    monkeypatch.setattr("trajens.thermo.observation._MOST_PAIRS", 7)
    np.testing.assert_allclose(thermo.observe(run, examples=33).losses, part.losses, rtol=1e-6)


@pytest.mark.slow
def test_a_stream_is_observed_on_the_same_keys():
    def one(theta, key):
        return 0.5 * (theta[0] - jax.random.normal(key)) ** 2

    stream = tj.Stream(jax.vmap(one, in_axes=(None, 0)), dim=1)
    run = tj.sample(tj.Target(stream, 2, 0.5, 4.0, 1.0), 200, chains=2, records=6, keep_paths=True)
    found = thermo.observe(run, examples=512)
    assert found.share == 0.0
    expected = 0.5 * (np.asarray(run.history[:, -found.draws :, :, 0], np.float64) ** 2 + 1)
    assert np.abs(found.losses - expected).mean() < 0.2
    assert (found.loss_error > 0).all()


def test_runs_that_cannot_be_observed_are_refused(run):
    with pytest.raises(tj.InputError, match="keep_paths=True"):
        thermo.observe(replace(run, kept=None))
    rising = run.records | {"s": run.records["s"] + run.records["epoch"]}
    with pytest.raises(tj.InputError, match="must not change after burn-in"):
        thermo.observe(replace(run, records=rising))
    with pytest.raises(tj.InputError, match="record after burn-in"):
        thermo.observe(run, burn_in=10**6)
    with pytest.raises(tj.InputError, match=r"in 1\.\.40"):
        thermo.observe(run, examples=41)
    with pytest.raises(tj.InputError, match="at least 32"):
        thermo.observe(run, examples=20)
