"""A trained ensemble comes back from its directory, and its scores are those of its members."""

import csv
import json

import numpy as np
import pytest

import trajens as tj
from tests.command import call
from trajens.app import cli
from trajens.app.evaluation import MODELS, load_ensemble
from trajens.app.experiment import Experiment
from trajens.app.resolve import resolve
from trajens.errors import InputError

RNG = np.random.default_rng(0)
X = RNG.standard_normal((300, 4)).astype(np.float32)
Y = (X @ [1.0, -1.0, 0.5, 0.0] > 0).astype(np.int64) + (X[:, 0] > 1)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run on a user's own file."""
    folder = tmp_path_factory.mktemp("own")
    np.savez(folder / "data.npz", x=X, y=Y)
    options = "--model mlp --hidden 8 --tau 3 --s 200 --sigma 0.2 --epochs 3000 --chunk 32 --records 5 --chains 2"
    # Still on its way when burn-in ends, so that a plan made there does not hold for long.
    options += " --tolerance 0.1"
    with pytest.raises(SystemExit) as exit_:
        cli.app(["train", str(folder / "data.npz"), *options.split(), "--out", str(folder / "run")])
    assert exit_.value.code == 0
    return folder


def test_an_ensemble_is_loaded_from_its_directory(trained):
    first, second = (tj.Ensemble.load(trained / "run", chain) for chain in (0, 1))
    np.testing.assert_array_equal(tj.Ensemble.load(trained / "run").path, np.concatenate([first.path, second.path]))
    assert first.path.shape == (3, 4 * 8 + 8 + 8 * 3 + 3)
    assert (first.path != second.path).any()
    assert first.evaluate(X, Y)["vote_accuracy"] > 0.8
    assert tj.Ensemble.load(trained / "run", 0, model=tj.models.mlp((4, 8, 3))).path.shape == first.path.shape


@pytest.mark.slow
def test_chains_of_a_network_start_from_different_models():
    problem = tj.models.mlp((4, 8, 3)).problem(X, Y)
    run = tj.sample(tj.Target(problem, 2, 0.1, 1.0, 0.3), 1, chains=400, records=1)
    first = run.paths[:, 0]
    spread = tj.models.mlp((4, 8, 3)).spread
    # One epoch changes a quarter of one model at most; the rest still is as it started.
    weights = spread > 0
    assert np.median(np.abs(first[:, weights]), axis=0) == pytest.approx(0.6745 * spread[weights], rel=0.35)
    assert np.median(np.abs(first[:, ~weights])) == 0.0


def test_evaluate_reports_the_scores_of_the_library(capsys, trained):
    code, out, _ = call(capsys, "evaluate", str(trained / "run"), "--data", str(trained / "data.npz"), "--json")
    report = json.loads(out)
    assert code == 0
    expected = tj.Ensemble.load(trained / "run").evaluate(X, Y)
    found = tj.Ensemble.load(trained / "run").scored(X, Y)
    calibrated = tj.ensemble.calibrated_scores(found.predictions, Y)
    assert report == {**expected, "data": "data.npz", "examples": 300, "calibrated": calibrated}
    code, out, _ = call(capsys, "evaluate", str(trained / "run"), "--chain", "1")
    assert code == 0
    assert "3 models on 300 examples of the training data" in out
    for words in (
        "vote",
        "mean probabilities",
        "single",
        "likelihood",
        "Brier",
        "calibration",
        "disagreement",
        "conformal",
    ):
        assert words in out


def test_data_from_outside_are_told_from_those_inside(capsys, trained, tmp_path):
    outside = np.random.default_rng(5).normal(0, 0.1, (70, X.shape[1])).astype(np.float32)
    np.savez(tmp_path / "outside.npz", x=outside)
    data = ["--data", str(trained / "data.npz"), "--data", str(tmp_path / "outside.npz")]
    code, out, err = call(capsys, "evaluate", str(trained / "run"), *data, "--json")
    assert code == 0, err
    ensemble = tj.Ensemble.load(trained / "run")
    assert json.loads(out)["outside"] == tj.ensemble.ood_scores(
        ensemble.summarise_predictions(X), ensemble.summarise_predictions(outside)
    )
    code, out, err = call(capsys, "evaluate", str(trained / "run"), *data)
    assert code == 0, err
    assert "telling 70 inputs of outside.npz from these" in out
    assert out.count("AUROC by") == 4
    code, _, err = call(capsys, "evaluate", str(trained / "run"), *data, "--data", "c.npz")
    assert code == 2
    assert "data must be given once, or twice" in err


def test_a_file_stands_for_the_run_it_was_exported_from(capsys, trained, tmp_path):
    run, file = str(trained / "run"), str(tmp_path / "new" / "both.npz")
    code, said, err = call(capsys, "export", run, "--chain", "all", "--out", file)
    assert (code, "wrote 6 models to" in said) == (0, True), err
    data = ["--data", str(trained / "data.npz"), "--json"]
    alone = json.loads(call(capsys, "evaluate", file, *data)[1])
    assert alone == json.loads(call(capsys, "evaluate", run, "--chain", "all", *data)[1])
    # Several sources are one ensemble.
    chain = str(tmp_path / "one.npz")
    assert call(capsys, "export", run, "--chain", "1", "--out", chain)[0] == 0
    both = json.loads(call(capsys, "evaluate", run, chain, "--chain", "0", *data)[1])
    assert both == alone
    answers = [tmp_path / "a.csv", tmp_path / "b.csv"]
    for source, out in zip((file, run), answers, strict=True):
        call(capsys, "predict", source, str(trained / "data.npz"), "--chain", "all", "--out", str(out))
    assert answers[0].read_text() == answers[1].read_text()
    for command, sentence in (
        (["export", run, "--out", file], "file must be a new one"),
        (["export", run, "--out", str(tmp_path)], "file must be a"),
        (["evaluate", file], "data must be given for an ensemble in a file"),
        (["evaluate", file, "--chain", "1", *data], "chain must be left out with a file"),
    ):
        code, _, err = call(capsys, *command)
        assert (code, sentence in err) == (2, True), err


def test_predict_writes_votes_and_mean_probabilities(capsys, trained, tmp_path):
    np.savez(tmp_path / "inputs.npz", x=X[:50])
    out = tmp_path / "predictions.csv"
    code, said, _ = call(capsys, "predict", str(trained / "run"), str(tmp_path / "inputs.npz"), "--out", str(out))
    assert code == 0
    assert "50 predictions" in said
    with out.open() as file:
        rows = list(csv.DictReader(file))
    ensemble = tj.Ensemble.load(trained / "run")
    assert [int(row["vote"]) for row in rows] == ensemble.predict(X[:50]).tolist()
    mean = np.array([[float(row[f"probability_{k}"]) for k in range(3)] for row in rows])
    np.testing.assert_allclose(mean, ensemble.predict_proba(X[:50]), rtol=1e-5)
    assert all(1 / 3 <= float(row["vote_agreement"]) <= 1 for row in rows)


@pytest.mark.slow
def test_picture_is_drawn_for_digits_and_for_tables(capsys, trained, tmp_path):
    code, _, err = call(capsys, "picture", str(trained / "run"), "--out", str(tmp_path / "table.png"))
    assert code == 0, err
    out = str(tmp_path / "digits")
    options = ["--tau", "3", "--epochs", "12", "--chunk", "24", "--records", "3", "--s", "5:10"]
    assert call(capsys, "train", "mnist", *options, "--out", out)[0] == 0
    code, _, err = call(capsys, "picture", out)
    assert code == 0, err
    for file in (tmp_path / "table.png", tmp_path / "digits" / "picture.png"):
        assert file.read_bytes().startswith(b"\x89PNG")
        assert file.stat().st_size > 50_000
    code, _, err = call(capsys, "picture", out, "--out", str(tmp_path / "a.gif"))
    assert (code, "must end in .png or .pdf" in err) == (2, True)


@pytest.mark.parametrize("command", ["evaluate", "picture", "predict"])
def test_what_is_no_directory_of_a_run_is_one_sentence(capsys, tmp_path, command):
    more = [str(tmp_path / "x.npz")] if command == "predict" else []
    for path in (tmp_path, tmp_path / "missing"):
        code, out, err = call(capsys, command, str(path), *more)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert err.startswith("trajens: error: ")


@pytest.mark.slow
def test_runs_without_a_network_cannot_be_evaluated_and_regressions_can(capsys, tmp_path):
    options = ["--tau", "2", "--epochs", "20", "--records", "2", "--chains", "1"]
    assert call(capsys, "train", "perceptron", *options, "--out", str(tmp_path / "line"))[0] == 0
    code, _, err = call(capsys, "evaluate", str(tmp_path / "line"))
    assert (code, "must be one of a network" in err) == (2, True)
    np.savez(tmp_path / "real.npz", x=X, y=X[:, 0])
    options = ["--model", "linear", "--tau", "2", "--epochs", "20", "--records", "2", "--chunk", "16"]
    assert call(capsys, "train", str(tmp_path / "real.npz"), *options, "--out", str(tmp_path / "real"))[0] == 0
    code, out, _ = call(capsys, "evaluate", str(tmp_path / "real"), "--json")
    assert (code, json.loads(out)["rmse"] > 0) == (0, True)
    with pytest.raises(InputError, match="chain must be"):
        tj.Ensemble.load(tmp_path / "real", chain=5)
    assert Experiment.load(tmp_path / "real").model == tj.models.linear(4)


def test_inputs_without_labels_are_read(tmp_path):
    np.savez(tmp_path / "a.npz", x=X)
    np.testing.assert_array_equal(tj.datasets.load_inputs(tmp_path / "a.npz"), X)
    np.savez(tmp_path / "b.npz", z=X)
    np.save(tmp_path / "c.npy", X)
    bad = X.copy()
    bad[3, 1] = np.nan
    np.savez(tmp_path / "d.npz", x=bad)
    for name, sentence in (("b.npz", "must hold arrays x"), ("c.npy", "must"), ("d.npz", "finite"), ("e", "exists")):
        with pytest.raises(InputError, match=sentence):
            tj.datasets.load_inputs(tmp_path / name)


def test_labels_of_any_type_are_checked_and_counted_alike(trained):
    ensemble = tj.Ensemble.load(trained / "run")
    expected = ensemble.evaluate(X, Y)
    assert ensemble.evaluate(X, Y.astype(np.float64)) == expected
    for bad in (Y - 1, Y + 1, Y + 0.5):
        with pytest.raises(InputError, match=r"labels must be whole numbers in 0..2"):
            ensemble.evaluate(X, bad)


def test_images_are_the_same_in_bytes_and_in_other_whole_numbers():
    images = RNG.integers(0, 256, (20, 28, 28), dtype=np.uint8)
    ensemble = tj.Ensemble(tj.models.cnn(), np.stack([tj.models.cnn().init(0)]))
    np.testing.assert_array_equal(ensemble.predict_proba(images), ensemble.predict_proba(images.astype(np.int64)))


def test_whole_numbers_can_be_fitted_as_numbers_or_as_classes(tmp_path):
    np.savez(tmp_path / "a.npz", x=X, y=Y.astype(np.float32))
    options = {"problem": str(tmp_path / "a.npz")}
    assert Experiment(resolve(options)).model.outputs == 3
    assert Experiment(resolve(options, {"loss": "squared"})).model.outputs == 1
    assert Experiment(resolve(options, {"loss": "cross-entropy"})).problem.dim == tj.models.mlp((4, 32, 3)).dim
    np.savez(tmp_path / "one.npz", x=X, y=np.zeros(300, int))
    with pytest.raises(InputError, match="2 or more classes"):
        Experiment(resolve({"problem": str(tmp_path / "one.npz")})).model  # noqa: B018


@pytest.mark.long
def test_a_network_without_derivatives_is_trained_resumed_and_evaluated(capsys, tmp_path):
    np.savez(tmp_path / "data.npz", x=X, y=Y)
    options = "--hidden 8 --activation step --weights binary --loss 0-1 --tau 3 --epochs 600 --s 300 --chains 2"
    options += " --records 4 --tolerance 0.5"
    assert call(capsys, "train", str(tmp_path / "data.npz"), *options.split(), "--out", str(tmp_path / "run"))[0] == 0
    assert call(capsys, "resume", str(tmp_path / "run"), "--epochs", "800")[0] == 0
    ensemble = tj.Ensemble.load(tmp_path / "run")
    assert ensemble.model == tj.models.binary(tj.models.mlp((4, 8, 3), "step"))
    code, out, _ = call(capsys, "evaluate", str(tmp_path / "run"), "--json")
    found = json.loads(out)
    assert (code, found["vote_accuracy"]) == (0, pytest.approx(ensemble.evaluate(X, Y)["vote_accuracy"]))
    # The loss of the run is the part of wrong answers, which was two thirds.
    loss = tj.StoredRun(tmp_path / "run").records["loss"][:, -1].mean()
    assert loss == pytest.approx(1 - found["single_accuracy"], abs=1e-6)
    assert loss < 0.4


def test_networks_can_be_used_without_the_data_they_were_trained_on(capsys, tmp_path):
    np.savez(tmp_path / "data.npz", x=X, y=Y)
    options = ["--hidden", "8,6", "--tau", "2", "--epochs", "20", "--records", "2", "--chunk", "16"]
    assert call(capsys, "train", str(tmp_path / "data.npz"), *options, "--out", str(tmp_path / "run"))[0] == 0
    (tmp_path / "data.npz").rename(tmp_path / "moved.npz")
    assert tj.Ensemble.load(tmp_path / "run").model == tj.models.mlp((4, 8, 6, 3))
    assert call(capsys, "evaluate", str(tmp_path / "run"), "--data", str(tmp_path / "moved.npz"))[0] == 0
    for command in ("evaluate", "resume"):
        code, _, err = call(capsys, command, str(tmp_path / "run"))
        assert (code, "must be a file that exists" in err) == (2, True)


def test_few_examples_predict_by_kept_paths_and_their_search_knows_the_noise(capsys, tmp_path):
    noise = 0.5
    y = X @ [2.0, -1.0, 0.5, 0.0] + noise * RNG.standard_normal(300).astype(np.float32)
    np.savez(tmp_path / "data.npz", x=X, y=y.astype(np.float32))
    options = "--hidden 4 --budget 8e6 --hold-out 0 --seed 2 --records 40"
    assert call(capsys, "train", str(tmp_path / "data.npz"), *options.split(), "--out", str(tmp_path / "run"))[0] == 0
    run = tj.StoredRun(tmp_path / "run")
    assert run.history is not None
    found = {}
    for way in ([], ["--last"], ["--draws"]):
        code, out, err = call(capsys, "evaluate", str(tmp_path / "run"), *way, "--json")
        assert code == 0, err
        found[" ".join(way)] = json.loads(out)
    chains, tau, _ = run.paths.shape
    every = run.draws.shape[1] * chains * tau
    numbers = [len(load_ensemble(run, draws=draws).path) for draws in (None, False, True)]
    assert numbers == [min(MODELS, every) // (chains * tau) * chains * tau, chains * tau, every]
    # Nothing is held out in the end, and intervals have the noise of labels all the same.
    for scores in found.values():
        assert scores["examples"] == 300
        assert 0.55 < scores["coverage_68"] < 0.85
        assert scores["nll"] < 0.5 * np.log(2 * np.pi * noise**2) + 0.5 + 0.25
    # What kept no paths has its last ones.
    options += f" --no-keep-paths --out {tmp_path}/b"
    assert call(capsys, "train", str(tmp_path / "data.npz"), *options.split())[0] == 0
    assert tj.StoredRun(tmp_path / "b").history is None
    assert len(load_ensemble(tmp_path / "b").path) == chains * tau
