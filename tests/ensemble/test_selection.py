"""Which chains and which kept paths an ensemble is made of."""

import numpy as np
import pytest

import trajens as tj
from trajens.ensemble import chosen_chains, drawn_paths, last_paths
from trajens.records import after_burn_in

X = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32)
Y = (X.sum(1) > 0).astype(int)
MODEL = tj.models.mlp((2, 3, 2), "tanh")
CHAINS, TAU, EPOCHS = 4, 3, 300


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A run of one s, in memory and stored, with its paths."""
    target = tj.Target(MODEL.problem(X, Y), TAU, 0.1, s=20.0, prior=1.0)
    out = tmp_path_factory.mktemp("kept") / "run"
    options = {"chains": CHAINS, "records": 10, "keep_paths": True, "acceptance": tj.Metropolis()}
    return tj.sample(target, EPOCHS, **options), tj.sample(target, EPOCHS, out=out, **options)


@pytest.fixture(scope="module")
def ladder():
    target = tj.Target(MODEL.problem(X, Y), TAU, 0.1, s=np.repeat([5.0, 20.0], 2), prior=1.0)
    return tj.sample(target, EPOCHS, chains=CHAINS, records=10, acceptance=tj.Metropolis())


def test_all_chains_of_one_s_are_one_ensemble(kept):
    run, stored = kept
    for found in (tj.Ensemble.from_run(run), tj.Ensemble.from_run(stored), tj.Ensemble.load(stored.out.path)):
        np.testing.assert_array_equal(found.path, run.paths.reshape(-1, MODEL.dim))
    assert repr(tj.Ensemble.from_run(run)).startswith(f"Ensemble({CHAINS * TAU} classifiers of ")


def test_several_s_are_refused_by_name_and_one_can_be_chosen(ladder):
    with pytest.raises(tj.InputError, match="s = 5, 20; choose one"):
        tj.Ensemble.from_run(ladder)
    np.testing.assert_array_equal(tj.Ensemble.from_run(ladder, s=20).path, np.concatenate(ladder.paths[2:]))
    np.testing.assert_array_equal(tj.Ensemble.from_run(ladder, chain="s=5").path, np.concatenate(ladder.paths[:2]))
    assert len(tj.Ensemble.from_run(ladder, chain="all").path) == CHAINS * TAU
    with pytest.raises(tj.InputError, match="5, 20, got 7"):
        tj.Ensemble.from_run(ladder, s=7)
    with pytest.raises(tj.InputError, match="must not both"):
        tj.Ensemble.from_run(ladder, chain=1, s=5)
    with pytest.raises(tj.InputError, match="with a number X"):
        chosen_chains("s=high", 2)


def test_draws_are_the_paths_after_burn_in(kept):
    run, stored = kept
    is_after = after_burn_in(run.records, run.burn_in)
    expected = run.history[:, is_after]
    assert 3 <= expected.shape[1] < run.history.shape[1]
    np.testing.assert_array_equal(drawn_paths(run), expected)
    np.testing.assert_array_equal(drawn_paths(tj.StoredRun(stored.out.path)), expected)
    np.testing.assert_array_equal(drawn_paths(run, 1), expected[1:2])
    for found in (tj.Ensemble.from_draws(run), tj.Ensemble.from_draws(stored.out.path)):
        np.testing.assert_array_equal(found.path, expected.reshape(-1, MODEL.dim))
    # The last draw is the last path.
    np.testing.assert_array_equal(drawn_paths(run)[:, -1].reshape(-1, MODEL.dim), last_paths(run))


def test_draws_are_thinned_evenly_and_end_with_the_last(kept):
    run, _ = kept
    every = drawn_paths(run)
    count = every.shape[1]
    np.testing.assert_array_equal(drawn_paths(run, thin=2), every[:, (count - 1) % 2 :: 2])
    for most in range(1, count + 1):
        some = drawn_paths(run, most=most * CHAINS * TAU)
        assert some.shape[1] == most
        np.testing.assert_array_equal(some[:, -1], every[:, -1])
    np.testing.assert_array_equal(drawn_paths(run, most=10**9), every)
    with pytest.raises(tj.InputError, match="one draw is 4 chains x 3 models"):
        drawn_paths(run, most=CHAINS * TAU - 1)


def test_a_run_without_paths_has_no_draws(ladder):
    with pytest.raises(tj.InputError, match="keep_paths=True"):
        tj.Ensemble.from_draws(ladder, s=5)
