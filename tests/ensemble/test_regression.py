"""Ensembles of regressors: means, spreads and scores against their definitions, in Python and on the command line."""

import json

import numpy as np
import pytest
from scipy.stats import norm

import trajens as tj
from tests.command import call
from tests.ensemble.test_ensemble import assert_same_scores
from trajens.app import cli
from trajens.ensemble import regression_scores

RNG = np.random.default_rng(5)
X = RNG.standard_normal((120, 3)).astype(np.float32)
Y = X @ np.array([1.0, -2.0, 0.5]) + 0.1 * RNG.standard_normal(120)


def some_ensemble(tau=4):
    """Linear models around the true one, and what they say of X."""
    theta = np.array([1.0, -2.0, 0.5, 0.0]) + 0.1 * RNG.standard_normal((tau, 4))
    return tj.Ensemble(tj.models.linear(3), theta), theta[:, :3] @ X.T + theta[:, 3:]


def test_the_mean_and_the_spread_of_members_are_predicted():
    ensemble, outputs = some_ensemble()
    assert not ensemble.is_classifier
    assert ensemble.member_outputs(X).shape == (4, 120)
    np.testing.assert_allclose(ensemble.member_outputs(X), outputs, atol=1e-5)
    np.testing.assert_allclose(ensemble.member_outputs(X, chunk=7), outputs, atol=1e-5)
    mean, spread = ensemble.predict(X, return_std=True)
    np.testing.assert_allclose(mean, sum(outputs) / 4, atol=1e-5)
    np.testing.assert_allclose(spread, np.sqrt(sum((f - sum(outputs) / 4) ** 2 for f in outputs) / 4), atol=1e-5)
    np.testing.assert_array_equal(ensemble.predict(X), mean)
    assert ensemble.predict(X[:0]).shape == (0,)


@pytest.mark.parametrize("noise", [None, 0.0, 0.3])
def test_scores_are_their_definitions(noise):
    outputs = Y + 0.4 * RNG.standard_normal(120) + 0.2 * RNG.standard_normal((5, 120))
    got = regression_scores(outputs, Y, noise)
    mean = outputs.mean(0)
    variance = ((outputs - mean) ** 2).mean(0) + (noise or 0.0) ** 2
    assert got["rmse"] == pytest.approx(np.sqrt(np.mean((Y - mean) ** 2)))
    assert got["r2"] == pytest.approx(1 - np.sum((Y - mean) ** 2) / np.sum((Y - np.mean(Y)) ** 2))
    assert got["single_rmse"] == pytest.approx(np.mean([np.sqrt(np.mean((Y - f) ** 2)) for f in outputs]))
    assert got["spread"] == pytest.approx(np.sqrt(np.mean((outputs - mean) ** 2)))
    law = norm(mean, np.sqrt(variance))
    assert got["nll"] == pytest.approx(-np.mean(law.logpdf(Y)))
    for share, name in ((0.68, "coverage_68"), (0.95, "coverage_95")):
        low, high = law.interval(share)
        assert got[name] == pytest.approx(np.mean((low <= Y) & (high >= Y)))
        assert 0 < got[name] < 1
    by_members = [np.sqrt(np.mean((Y - outputs[: k + 1].mean(0)) ** 2)) for k in range(5)]
    np.testing.assert_allclose(got["rmse_by_members"], by_members)


def test_a_right_law_covers_as_often_as_it_says():
    n = 40_000
    outputs = RNG.standard_normal((1, n)).repeat(3, 0) + np.array([[-0.5], [0.0], [0.5]])
    noise = 1.2
    y = outputs.mean(0) + np.sqrt(0.5 / 3 + noise**2) * RNG.standard_normal(n)
    got = regression_scores(outputs, y, noise)
    # Standard errors of shares of 40 000: 0.0023 and 0.0011.
    assert got["coverage_68"] == pytest.approx(0.68, abs=0.01)
    assert got["coverage_95"] == pytest.approx(0.95, abs=0.005)
    without = regression_scores(outputs, y)
    assert without["coverage_95"] < 0.6
    assert without["nll"] > got["nll"] + 1


def test_members_that_agree_have_a_law_of_the_smallest_variance():
    outputs = np.zeros((2, 3))
    got = regression_scores(outputs, np.array([0.0, 0.0, 1e-6]))
    assert got["nll"] == pytest.approx(0.5 * np.log(2 * np.pi * 1e-12) + 1 / 6)
    assert got["coverage_68"] == pytest.approx(2 / 3)
    assert got["spread"] == 0.0


def test_labels_that_are_all_equal_have_no_share_that_is_explained():
    for label in (0.0, 0.1):
        got = regression_scores(np.ones((2, 7)), np.full(7, label))
        assert np.isnan(got["r2"])
        assert got["rmse"] == pytest.approx(1 - label)


def test_an_ensemble_is_evaluated_in_parts_with_the_numbers_of_the_whole():
    ensemble, _ = some_ensemble()
    x = np.tile(X, (20, 1))[:2345]
    y = np.tile(Y, 20)[:2345]
    for noise in (None, 0.2):
        expected = regression_scores(ensemble.member_outputs(x), y, noise)
        assert_same_scores(ensemble.evaluate(x, y, noise), expected, rel=1e-9)
    sizes = [(place.stop - place.start, part.shape) for place, part in ensemble.parts(x)]
    assert sizes == [(1000, (4, 1000)), (1000, (4, 1000)), (345, (4, 345))]
    assert ensemble.evaluate(x, y.round().astype(int)) == ensemble.evaluate(x, y.round())


@pytest.mark.slow
def test_a_sampled_regression_is_better_than_its_members():
    model = tj.models.linear(3)
    s = 1000.0
    run = tj.sample(tj.Target(model.problem(X, Y, "squared"), 4, 0.02, s), 4000, chains=2, records=4)
    for chain in (0, "all"):
        found = tj.Ensemble.from_run(run, model, chain).evaluate(X, Y, noise=0.1)
        assert found["rmse"] < found["single_rmse"] < 0.5
        assert found["r2"] > 0.97
    assert len(found["rmse_by_members"]) == 8


def test_functions_of_one_output_may_leave_out_its_axis():
    ensemble, outputs = some_ensemble()
    models = [{"w": theta[:3], "b": theta[3]} for theta in ensemble.path]
    for apply in (lambda p, x: x @ p["w"] + p["b"], lambda p, x: (x @ p["w"] + p["b"])[:, None]):
        found = tj.Ensemble.from_apply(apply, models, outputs=1)
        np.testing.assert_allclose(found.member_outputs(X), outputs, atol=1e-5)
        assert_same_scores(found.evaluate(X, Y), ensemble.evaluate(X, Y))


def test_predictions_in_other_units_have_errors_in_those_units():
    ensemble, outputs = some_ensemble()
    rescaled = ensemble.rescaled(100.0, 7.0)
    np.testing.assert_allclose(rescaled.member_outputs(X), 100 + 7 * outputs, rtol=1e-5)
    got, before = rescaled.evaluate(X, 100 + 7 * Y, noise=0.7), ensemble.evaluate(X, Y, noise=0.1)
    for name in ("rmse", "single_rmse", "spread"):
        assert got[name] == pytest.approx(7 * before[name], rel=1e-4)
    assert got["nll"] == pytest.approx(before["nll"] + np.log(7), rel=1e-4)
    assert got["r2"] == pytest.approx(before["r2"], rel=1e-4)
    far = ensemble.rescaled(1e9, 1.0)
    assert far.evaluate(X, 1e9 + Y)["spread"] == pytest.approx(ensemble.evaluate(X, Y)["spread"], rel=1e-4)
    np.testing.assert_allclose(rescaled.rescaled(-100.0, 2.0).predict(X), 100 + 14 * outputs.mean(0), rtol=1e-4)
    with pytest.raises(tj.InputError, match="only regressors"):
        tj.Ensemble(tj.models.linear(3, 2), np.zeros((2, 8))).rescaled(0.0, 1.0)


def test_what_is_for_classifiers_is_refused_and_the_other_way_round():
    ensemble, _ = some_ensemble()
    for method in (ensemble.member_proba, ensemble.predict_proba):
        with pytest.raises(tj.InputError, match="those of classifiers"):
            method(X)
    for bad in (Y[:5], Y[:, None], np.where(Y > 0, np.nan, Y), Y.astype(str)):
        with pytest.raises(tj.InputError, match=r"y must hold one label|labels must be (finite|an array of) numbers"):
            ensemble.evaluate(X, bad)
    for noise in (-0.1, np.nan, "much", True):
        with pytest.raises(tj.InputError, match="noise must be a finite number >= 0"):
            ensemble.evaluate(X, Y, noise)
    classifier = tj.Ensemble(tj.models.linear(3, 2), np.zeros((2, 8)))
    with pytest.raises(tj.InputError, match="return_std must be left out"):
        classifier.predict(X, return_std=True)
    with pytest.raises(tj.InputError, match="noise must be left out"):
        classifier.evaluate(X, Y > 0, noise=0.1)


# Command line ----------------------------------------------------------------------------------------------------

OPTIONS = "--model linear --tau 3 --s 300 --sigma 0.05 --epochs 600 --chunk 32 --records 5 --chains 2"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run on a user's own numbers."""
    folder = tmp_path_factory.mktemp("numbers")
    np.savez(folder / "data.npz", x=X, y=Y)
    with pytest.raises(SystemExit) as exit_:
        cli.app(["train", str(folder / "data.npz"), *OPTIONS.split(), "--out", str(folder / "run")])
    assert exit_.value.code == 0
    return folder


def test_evaluate_reports_the_scores_of_the_library(capsys, trained):
    run, data = str(trained / "run"), ["--data", str(trained / "data.npz")]
    for chain, options, noise in ((None, [], None), ("all", ["--chain", "all", "--noise", "0.1"], 0.1)):
        code, out, err = call(capsys, "evaluate", run, *data, *options, "--json")
        assert code == 0, err
        expected = tj.Ensemble.load(run, chain).evaluate(X, Y, noise)
        report = json.loads(out)
        assert (report.pop("data"), report.pop("examples")) == ("data.npz", 120)
        assert_same_scores(report, expected, rel=1e-5)
    code, out, _ = call(capsys, "evaluate", run, "--chain", "1")
    assert code == 0
    assert "3 models on 120 examples of the training data" in out
    assert f"{tj.Ensemble.load(run, 1).evaluate(X, Y)['rmse']:.4g}" in out
    for words in ("error of the mean", "single models", "explained", "spread", "likelihood", "central 95", "mean of 3"):
        assert words in out


def test_errors_on_a_table_are_in_the_units_of_its_labels(capsys, tmp_path):
    lines = [f"{a},{b},{c},{1000 + 50 * y}" for (a, b, c), y in zip(X.tolist(), Y.tolist(), strict=True)]
    (tmp_path / "table.csv").write_text("\n".join(["a,b,c,y", *lines]))
    run = str(tmp_path / "run")
    assert call(capsys, "train", str(tmp_path / "table.csv"), *OPTIONS.split(), "--out", run)[0] == 0
    ensemble, x, y = tj.Ensemble.load(run, "all"), X.astype(np.float64), 1000 + 50 * Y
    scaled = ensemble.member_outputs(((x - x.mean(0)) / x.std(0)).astype(np.float32))
    expected = regression_scores(y.mean() + y.std() * scaled.astype(np.float64), y, 5.0)
    for data in ([], ["--data", str(tmp_path / "table.csv")]):
        code, out, err = call(capsys, "evaluate", run, *data, "--chain", "all", "--noise", "5", "--json")
        assert code == 0, err
        report = json.loads(out)
        assert report["rmse"] > 2
        assert report["r2"] > 0.5
        for name, value in expected.items():
            assert report[name] == pytest.approx(value, rel=1e-3), name


def test_labels_without_variance_are_null_in_json(capsys, trained, tmp_path):
    np.savez(tmp_path / "flat.npz", x=X, y=np.full(120, 0.5))
    code, out, _ = call(capsys, "evaluate", str(trained / "run"), "--data", str(tmp_path / "flat.npz"), "--json")
    assert (code, json.loads(out)["r2"]) == (0, None)


def test_a_regression_is_drawn(capsys, trained, tmp_path):
    for chain in ("0", "all"):
        file = tmp_path / f"{chain}.png"
        code, _, err = call(capsys, "picture", str(trained / "run"), "--chain", chain, "--out", str(file))
        assert code == 0, err
        assert file.read_bytes().startswith(b"\x89PNG")
        assert file.stat().st_size > 50_000


def test_the_panels_of_a_regression_show_its_numbers(trained):
    from matplotlib.figure import Figure

    from trajens.app.picture import _draw_numbers
    from trajens.datasets import Labelled

    ensemble = tj.Ensemble.load(trained / "run")
    left, right = Figure().subplots(1, 2)
    _draw_numbers(left, right, ensemble, Labelled(X, Y), "these")
    expected = ensemble.evaluate(X, Y)
    np.testing.assert_allclose(left.lines[0].get_ydata(), expected["rmse_by_members"])
    assert left.lines[1].get_ydata()[0] == expected["single_rmse"]
    points, _, (bars,) = right.containers[0]
    mean, spread = ensemble.predict(X, return_std=True)
    np.testing.assert_allclose(points.get_xdata(), Y)
    np.testing.assert_allclose(points.get_ydata(), mean)
    ends = np.array([segment[:, 1] for segment in bars.get_segments()])
    np.testing.assert_allclose(ends, np.stack([mean - spread, mean + spread], axis=1))


@pytest.mark.parametrize("noise", ["much", "-1", "nan"])
def test_a_noise_that_is_none_is_one_sentence(capsys, trained, noise):
    code, out, err = call(capsys, "evaluate", str(trained / "run"), "--noise", noise)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "noise must be a" in err
