"""Single precision inside, whatever JAX was told: the same bits with 64 bits switched on, and nobody else's changed."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import trajens as tj
from tests import small_run
from tests.command import call
from tests.run.test_reproducibility import SETTINGS, assert_same_run, sample
from trajens.precision import single

CASES = {
    **SETTINGS,
    "minibatch": {"move": tj.Segment(2), "acceptance": tj.MinibatchBarker(24), "scan": "random"},
    "pooled": {"move": tj.SingleSite(0.5, 0.7), "acceptance": tj.Penalty(24, pool=True), "scan": "checkerboard"},
    "barker": {"move": tj.SingleSite(), "acceptance": tj.Barker(), "scan": "random"},
    "metropolis": {"move": tj.SingleSite(), "acceptance": tj.Metropolis(7), "scan": "checkerboard"},
}
QUICK = ("penalty",)


@pytest.fixture
def wide():
    """A switch of JAX's 64 bits, which are off again after the test."""
    yield lambda is_on: jax.config.update("jax_enable_x64", is_on)
    jax.config.update("jax_enable_x64", False)


def is_wide():
    return jnp.zeros(()).dtype == jnp.float64


@pytest.mark.parametrize(
    "settings",
    [pytest.param(how, id=name, marks=[] if name in QUICK else pytest.mark.slow) for name, how in CASES.items()],
)
def test_a_run_has_the_same_bits(wide, settings):
    narrow = sample(**settings)
    wide(True)
    target = tj.Target(tj.datasets.perceptron(noise=0.3).problem(), tau=5, sigma=0.1, s=80.0)
    run = sample(target=target, **settings)
    assert_same_run(narrow, run)
    assert {leaf.dtype.itemsize for leaf in jax.tree.leaves(run.state)} == {4}
    assert is_wide()


def careless(data):
    """A run of functions that leave types to JAX, with constants in the precision of the moment."""
    shift = jnp.asarray([0.1, 0.2])

    def loss(theta, batch):
        assert not is_wide()
        x, y = batch
        weights = jnp.linspace(0.5, 1.5, 2) + jnp.zeros(2)
        return (y - x @ (theta * weights - shift)) ** 2 + jnp.arange(len(y)) * 0

    s = tj.schedule.stepped([(0, 10.0), (100, 50.0)])
    target = tj.Target(tj.Problem(loss, data, 2), 4, 0.1, lambda epoch: s(epoch) * (1 + epoch / 1000), prior=1.0)
    observe = {"largest": lambda path: path.max(), "positive": lambda path: (path > 0).sum()}
    seen = []
    run = tj.sample(target, 200, chains=2, records=2, observe=observe, progress=lambda _: seen.append(is_wide()))
    return run, seen


@pytest.mark.filterwarnings("ignore:Explicitly requested dtype float64")
@pytest.mark.long
def test_functions_of_the_user_are_in_single_precision_and_callbacks_in_theirs(wide):
    x = np.random.default_rng(0).standard_normal((64, 2))
    data = x, x @ [1.0, -1.0]
    narrow, seen = careless(data)
    assert set(seen) == {False}
    wide(True)
    run, seen = careless(tuple(jnp.asarray(part) for part in data))
    assert set(seen) == {True}
    assert_same_run(narrow, run)


def test_only_the_call_itself_is_in_single_precision(wide):
    wide(True)

    @single
    def fail():
        assert not is_wide()
        raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert is_wide()


@pytest.mark.parametrize(
    "is_wide_first", [pytest.param(False, marks=pytest.mark.slow), pytest.param(True, marks=pytest.mark.long)]
)
def test_a_run_is_resumed_with_the_other_precision(wide, tmp_path, is_wide_first):
    whole = small_run.sample(None)
    wide(is_wide_first)
    halfway = small_run.sample(small_run.fresh(tmp_path / "run"), epochs=300)
    assert halfway.epochs == 300
    wide(not is_wide_first)
    resumed = small_run.sample(small_run.again(tmp_path / "run"))
    assert resumed.epochs == small_run.EPOCHS
    np.testing.assert_array_equal(whole.paths, resumed.paths)


@pytest.mark.long
def test_predictions_and_scores_are_the_same(wide):
    x, y = tj.datasets.mnist().test_x[:40], tj.datasets.mnist().test_y[:40]
    model = tj.models.cnn()
    path = np.stack([model.init(seed) for seed in range(2)])

    def found():
        ensemble = tj.Ensemble(model, path)
        target = tj.Target(model.problem(x, y), tau=2, sigma=0.1, s=10.0)  # the native kernel, where there is one
        run = tj.sample(target, 20, chains=1, records=1, initial=path, acceptance=tj.Metropolis(20))
        return ensemble.predict_proba(x), ensemble.evaluate(x, y), run

    narrow = found()
    wide(True)
    proba, scores, run = found()
    np.testing.assert_array_equal(narrow[0], proba)
    assert proba.dtype == np.float32
    assert narrow[1] == scores
    assert_same_run(narrow[2], run)


def test_other_functions_and_their_parameters_are_in_single_precision(wide):
    kinds = set()

    def apply(params, x):
        assert not is_wide()
        kinds.update((params["w"].dtype, x.dtype))
        return x @ params["w"] + jnp.zeros(2)

    wide(True)
    models = [{"w": jnp.eye(2)}]
    assert models[0]["w"].dtype == jnp.float64
    ensemble = tj.Ensemble.from_apply(apply, models, outputs=2)
    assert ensemble.predict([[3.0, 1.0], [1.0, 2.0]]).tolist() == [0, 1]
    problem = tj.Problem.from_pytree(lambda p, batch: (batch @ p["w"]).sum(1), np.ones((4, 2)), models[0])
    assert jax.vmap(problem.unravel)(np.ones((3, 4)))["w"].shape == (3, 2, 2)
    assert problem.unravel(np.ones(4))["w"].dtype == np.float32
    assert kinds == {np.dtype(np.float32)}


LAW = """
import jax, conftest
assert jax.numpy.zeros(()).dtype == "float64"
import trajens as tj
from tests.laws.test_path_law import MOVES, S, SIGMA, TAU, check, perceptron
move = MOVES["single site, masked"]
check(perceptron(), TAU, SIGMA, S, 0.6, move=move, acceptance=tj.Barker(), scan="checkerboard")
"""


@pytest.mark.slow
def test_the_path_law_holds_with_64_bits_in_the_environment():
    env = {**os.environ, "JAX_ENABLE_X64": "1"}
    done = subprocess.run([sys.executable, "-c", LAW], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.long
def test_the_command_line_works_with_64_bits(wide, tmp_path, capsys):
    images = tmp_path / "images.npz"
    np.savez(images, x=tj.datasets.mnist().test_x[:20])
    said = {}
    for is_on in (False, True):
        wide(is_on)
        run, answers = str(tmp_path / f"run{is_on}"), str(tmp_path / f"answers{is_on}.csv")
        train = ["train", "mnist", "--tau", "2", "--epochs", "100", "--chains", "1", "--records", "2", "--out", run]
        for command in (
            train,
            ["resume", run, "--epochs", "100"],
            ["evaluate", run, "--json"],
            ["predict", run, str(images), "--out", answers],
            ["picture", run],
        ):
            code, out, err = call(capsys, *command)
            assert code == 0, (command, err)
            if command[0] == "evaluate":
                said[is_on] = out, tj.StoredRun(run).paths
        said[is_on] += (Path(answers).read_text(),)
    np.testing.assert_array_equal(said[False][1], said[True][1])
    assert said[False][2] == said[True][2]
