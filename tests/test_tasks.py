"""Ten tasks of a physicist, each in at most five lines of what a user types."""

import ast
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import trajens as tj
from trajens import thermo

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2)).astype(np.float32)
Y = (X[:, 0] * X[:, 1] > 0).astype(int)
MODEL = tj.models.mlp((2, 4, 2), "tanh")
PROBLEM = MODEL.problem(X, Y)
TARGET = tj.Target(PROBLEM, tau=3, sigma=0.1, s=20.0, prior=1.0)
LADDER = tj.Target(PROBLEM, tau=3, sigma=0.1, s=[5.0, 10.0, 20.0], prior=1.0)
HOW = {"records": 20, "acceptance": tj.Metropolis()}


OWN_PARAMS = {"w": np.zeros((2, 2), np.float32), "b": np.zeros(2, np.float32)}


def own_network(params, x):
    return x @ params["w"] + params["b"]


def own_loss(params, batch):
    outputs = own_network(params, batch[0])
    return jax.nn.logsumexp(outputs, axis=-1) - jnp.take_along_axis(outputs, batch[1][:, None], axis=-1)[:, 0]


@pytest.fixture(scope="module")
def run():
    return tj.sample(TARGET, 400, chains=4, keep_paths=True, **HOW)


@pytest.fixture(scope="module")
def ladder():
    return tj.sample(LADDER, 400, chains=6, keep_paths=True, **HOW)


def test_1_sample_at_one_s():
    target = tj.Target(PROBLEM, tau=3, sigma=0.1, s=20.0, prior=1.0)
    run = tj.sample(target, epochs=400, chains=4, **HOW)
    assert run.paths.shape == (4, 3, MODEL.dim)


def test_2_sweep_s():
    target = tj.Target(PROBLEM, tau=3, sigma=0.1, s=[5, 10, 20], prior=1.0)
    table = tj.sample(target, epochs=400, chains=6, **HOW).by_s()
    assert table["s"].tolist() == [5, 10, 20]


def test_3_the_mean_loss_with_its_error(run):
    row = run.by_s()[0]
    loss, error = 3 * row["loss"], 3 * row["loss_mcse"]
    assert 0 < error < loss


def test_4_the_free_energy(ladder):
    z = thermo.log_z(thermo.observe(ladder))
    assert (z.log_z[0], len(z.stderr)) == (0.0, 3)
    assert (np.diff(z.log_z) < 0).all()


def test_5_resume(tmp_path):
    tj.sample(TARGET, epochs=400, chains=4, out=tmp_path / "a", **HOW)
    run = tj.resume(tmp_path / "a", PROBLEM, epochs=100)
    assert run.epochs == 500


def test_6_a_loss_of_ones_own():
    problem = tj.Problem(lambda theta, batch: (batch[1] - batch[0] @ theta) ** 2, (X, X[:, 0]), dim=2, prior=1.0)
    run = tj.sample(tj.Target(problem, tau=2, sigma=0.1, s=50.0), epochs=200, chains=2, **HOW)
    assert run.summary()["loss"] < 1


def test_7_a_network_of_ones_own():
    problem = tj.Problem.from_pytree(own_loss, (X, Y), OWN_PARAMS, prior=1.0, spread=0.3)
    run = tj.sample(tj.Target(problem, tau=2, sigma=0.1, s=20.0), epochs=200, chains=2, **HOW)
    ensemble = tj.Ensemble.from_run(run, apply=own_network, outputs=2)
    assert ensemble.predict(X).shape == (60,)


def test_8_predict(run):
    last, every = tj.Ensemble.from_run(run), tj.Ensemble.from_draws(run)
    assert last.predict_proba(X).shape == every.predict_proba(X).shape == (60, 2)
    assert len(every.path) == run.draws.shape[1] * len(last.path)


def test_9_arviz(run):
    az = pytest.importorskip("arviz")
    assert "theta" in az.summary(run.to_arviz(), var_names=["theta"]).index[0]


def test_10_plot(run, ladder, tmp_path):
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("agg")
    run.plot()[0].figure.savefig(tmp_path / "run.png")
    ladder.plot_by_s().figure.savefig(tmp_path / "by_s.png")
    tj.report(run, tmp_path / "page.html", X, Y)
    plt.close("all")
    assert len(list(tmp_path.iterdir())) == 3


def test_each_task_takes_at_most_five_lines():
    tree = ast.parse(Path(__file__).read_text(encoding="utf-8"))
    tasks = [one for one in tree.body if isinstance(one, ast.FunctionDef) and one.name[5:6].isdigit()]
    assert len(tasks) == 10
    for task in tasks:
        lines = [ast.unparse(line) for line in task.body]
        typed = [line for line in lines if not line.startswith(("assert", "plt", "az = pytest"))]
        assert len(typed) <= 5, task.name
