"""Figures of runs: what is drawn is what was recorded, on axes that were given or are new."""

import numpy as np
import pytest

import trajens as tj
from trajens.ensemble.uncertainty import reliability

plt = pytest.importorskip("matplotlib.pyplot")
DATA = tj.datasets.perceptron(noise=0.3)
S = (5.0, 20.0, 80.0)


@pytest.fixture(autouse=True)
def _closed():
    plt.switch_backend("agg")
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def run():
    target = tj.Target(DATA.problem(), tau=5, sigma=0.1, s=S)
    return tj.sample(target, 600, chains=6, records=12, acceptance=tj.Metropolis())


def test_a_run_is_drawn_against_epochs_and_pairs(run):
    loss, tilt, rate, batch = run.plot()
    assert [axes.get_ylabel() for axes in (loss, tilt, rate, batch)][1] == "$s$"
    lines = [line for line in loss.get_lines() if line.get_label().startswith("$s =")]
    assert len(lines) == 3
    np.testing.assert_allclose(lines[1].get_ydata(), run.records["loss"][2:4].mean(0))
    np.testing.assert_allclose(lines[1].get_xdata(), run.records["epoch"][0])
    figure = plt.figure()
    given = figure.subplots(4)
    assert run.plot(given, against="pairs")[0] is given[0]
    np.testing.assert_allclose(given[3].get_lines()[0].get_xdata(), run.records["data_used"][:2].mean(0))
    with pytest.raises(tj.InputError, match="axes must be 4"):
        run.plot(given[:3])
    with pytest.raises(tj.InputError, match="axes must be 4"):
        run.plot([1, 2, 3, 4])
    with pytest.raises(tj.InputError, match="against"):
        run.plot(against="time")


def test_the_start_is_drawn_where_there_was_one():
    model = tj.models.mlp((2, 3, 2), "tanh")
    x = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32)
    problem = model.problem(x, (x[:, 0] > 0).astype(int))
    run = tj.train(problem, tau=2, budget=2e5, records=8, start="evolution", progress=False)
    axes = run.plot()
    dashed = [line for line in axes[0].get_lines() if line.get_label() == "start by evolution"]
    np.testing.assert_allclose(dashed[0].get_ydata(), run.start_records["loss"].mean(0))
    assert dashed[0].get_xdata()[-1] <= run.records["data_used"].min()


def test_the_loss_against_s_has_the_exact_curve(run):
    axes = run.plot_by_s()
    curve = next(line for line in axes.get_lines() if line.get_label() == "exact")
    expected = [tj.exact.perceptron(DATA.x, DATA.y, 5, 0.1, s).loss for s in (S[0], S[-1])]
    np.testing.assert_allclose(curve.get_ydata()[[0, -1]], expected, rtol=1e-6)
    plain = run.plot_by_s(exact=False)
    assert "exact" not in [line.get_label() for line in plain.get_lines()]
    own = run.plot_by_s(exact=lambda s: 1 / s, axes=plt.figure().subplots())
    np.testing.assert_allclose(own.get_lines()[-1].get_ydata()[0], 1 / S[0], rtol=1e-6)


def test_an_exact_curve_that_is_not_known_is_refused():
    problem = tj.Problem(lambda theta, batch: (batch - theta[0]) ** 2, np.zeros(20, np.float32), dim=1)
    run = tj.sample(tj.Target(problem, 2, 0.1, 5.0), 40, chains=2, records=4, acceptance=tj.Metropolis())
    with pytest.raises(tj.InputError, match="exact must be a function of s"):
        run.plot_by_s(exact=True)
    with pytest.raises(tj.InputError, match="exact must be a function of s, True or False, got list"):
        run.plot_by_s(exact=[0.1, 0.2])
    with pytest.raises(tj.InputError, match="exact must give one number for every s"):
        run.plot_by_s(exact=lambda s: np.ones(3))
    assert run.plot_by_s().get_xlabel() == "$s$"


def test_reliability_is_drawn_of_classifiers():
    model = tj.models.mlp((2, 3, 2), "tanh")
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(200, 2)).astype(np.float32), rng.integers(0, 2, 200)
    ensemble = tj.Ensemble(model, rng.normal(size=(4, model.dim)))
    axes = ensemble.plot_reliability(x, y)
    said = ensemble.summarise_predictions(x)
    expected = reliability(said.confidence, said.is_right(y))
    drawn = next(line for line in axes.get_lines() if len(line.get_xdata()) == len(expected.confidence))
    np.testing.assert_allclose(drawn.get_ydata(), expected.accuracy)
    with pytest.raises(tj.InputError, match="one label per input"):
        ensemble.plot_reliability(x, y[:3])
    regressor = tj.Ensemble(tj.models.mlp((2, 3, 1), "tanh"), np.ones((2, 13)))
    with pytest.raises(tj.InputError, match="classifiers"):
        regressor.plot_reliability(x, y)
