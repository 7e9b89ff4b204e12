"""Options come from defaults, a file and flags, in this order, and a run directory says what they were."""

import json
from pathlib import Path

import numpy as np
import pytest

import trajens as tj
from tests.test_cli import call
from trajens.config import OPTIONS, Config, read_toml, resolve, tilts
from trajens.errors import InputError
from trajens.experiment import Experiment


def test_flags_override_the_file_which_overrides_the_defaults(tmp_path):
    file = tmp_path / "options.toml"
    file.write_text('problem = "mnist"\ntau = 16\nburn-in = 100\n')
    config = resolve(read_toml(file), {"tau": 4, "sigma": None})
    assert (config.tau, config.burn_in, config.sigma, config.model, config.prior) == (4, 100, 0.05, "cnn", 0.3)


def test_a_written_config_reads_back_as_the_same(tmp_path):
    for options in (
        {"problem": "mnist", "s": "60:1000", "epochs": 1000},
        {"problem": "perceptron", "s": "5,10", "prior": 0.5, "segment": 3},
        {"problem": "mnist", "model": "mlp", "hidden": "64,32", "activation": "step", "prior": "flat"},
    ):
        config = resolve(options)
        file = tmp_path / "config.toml"
        file.write_text(config.to_toml())
        assert resolve(read_toml(file)) == config


def test_what_depends_on_other_options_is_written_down():
    config = resolve({"problem": "mnist", "s": "60:1000", "epochs": 1000})
    assert (config.burn_in, config.anneal) == (200, 200)
    target = Experiment(config).target
    assert target.schedule == tj.schedule.exponential(60, 1000, 200)


def test_several_s_make_that_many_chains_each():
    experiment = Experiment(resolve({"problem": "perceptron", "s": "5,10,20", "chains": 2}))
    assert experiment.chains == 6
    np.testing.assert_array_equal(experiment.target.s_of_chains(6), [5, 5, 10, 10, 20, 20])


@pytest.mark.parametrize(
    ("s", "values"),
    [
        (50, ([50.0], None)),
        ("5,10", ([5.0, 10.0], None)),
        ([5, 1e2], ([5.0, 100.0], None)),
        ("6e1:1e3", ([1.0], (60, 1000))),
    ],
)
def test_ways_to_write_s(s, values):
    assert tilts(s) == values


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "problem must be one of perceptron, mnist or a file"),
        ({"problem": "cifar"}, "problem must be one of perceptron, mnist or a file with data, got 'cifar'"),
        ({"problem": "mnist", "size": 3}, "options must be among problem, model"),
        ({"problem": "mnist", "noise": 0.1}, "noise must be left out with mnist"),
        ({"problem": "perceptron", "model": "cnn"}, "model must be left out with perceptron"),
        ({"problem": "mnist", "s": "1:2:3"}, "s must be a number, several as 5,10,20, or an annealing"),
        ({"problem": "mnist", "s": "five"}, "s must be a number, several"),
        ({"problem": "mnist", "s": "0:10"}, "s must be a finite number > 0"),
        ({"problem": "mnist", "anneal": 10}, "anneal must be left out with a fixed s"),
        ({"problem": "mnist", "prior": "wide"}, "prior must be flat or a standard deviation"),
        ({"problem": "mnist", "hidden": "32"}, "hidden and activation must be left out with --model cnn"),
        ({"problem": "mnist", "epochs": 0}, "epochs must be a whole number at least 1"),
        ({"problem": "mnist", "start": 5}, "start must be a text"),
        ({"problem": "mnist", "tau": "eight"}, "tau must be a number"),
        ({"problem": "mnist", "pool": "no"}, "pool must be true or false"),
        ({"problem": "mnist", "s": True}, "s must be a number, a text or a list"),
        ({"problem": "mnist", "noise": []}, "noise must be a number"),
        ({"problem": "mnist", "seed": {"a": 1}}, "seed must be a number"),
        ({"problem": "mnist", "rho": float("nan")}, "rho must be a number"),
        ({"problem": "mnist", "chains": 10**20}, "chains must be a number"),
    ],
)
def test_bad_options_are_refused_with_a_sentence(options, sentence):
    with pytest.raises(InputError) as caught:
        resolve(options)
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(("text", "sentence"), [("tau = ", "config must be TOML"), (None, "config must be a file")])
def test_bad_files_are_refused_with_a_sentence(tmp_path, text, sentence):
    file = tmp_path / "options.toml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(InputError, match=sentence):
        read_toml(file)


def test_print_config_prints_every_option_that_applies_and_does_nothing_else(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = call(capsys, "train", "mnist", "--tau", "4", "--epochs", "2e5", "--print-config")
    assert (code, err) == (0, "")
    Path("printed.toml").write_text(out)
    assert resolve(read_toml(Path("printed.toml"))) == resolve({"problem": "mnist", "tau": 4, "epochs": 200_000})
    code, default, _ = call(capsys, "train", "--print-config")
    assert (code, 'problem = "mnist"' in default) == (0, True)
    code, again, _ = call(capsys, "train", "--config", "printed.toml", "--print-config")
    assert (code, again) == (0, out)
    assert list(tmp_path.iterdir()) == [tmp_path / "printed.toml"]


def test_every_option_is_a_flag(capsys):
    code, out, _ = call(capsys, "train", "--help")
    assert code == 0
    for name in set(OPTIONS) - {"sizes"}:
        assert name.replace("_", "-") in out
    assert Config("mnist").problem == "mnist"


def test_a_run_directory_says_what_was_done_and_does_it_again(capsys, tmp_path):
    small = ["train", "perceptron", "--tau", "2", "--epochs", "400", "--records", "4", "--chains", "2", "--json"]
    code, out, err = call(capsys, *small, "--out", str(tmp_path / "a"))
    assert code == 0, err
    report = json.loads(out)
    code, again, _ = call(capsys, "train", "--config", str(tmp_path / "a" / "config.toml"), "--json")
    assert code == 0
    assert json.loads(again)["loss"] == report["loss"]
    code, resumed, _ = call(capsys, "resume", str(tmp_path / "a"), "--epochs", "100", "--json")
    assert (code, json.loads(resumed)["epochs"]) == (0, 500)
    code, _, err = call(capsys, *small, "--out", str(tmp_path / "a"))
    assert (code, err.count("\n")) == (2, 1)
    code, _, err = call(capsys, "resume", str(tmp_path / "b"))
    assert code == 2
    assert "without config.toml" in err
    (tmp_path / "file").touch()
    code, _, err = call(capsys, *small, "--out", str(tmp_path / "file" / "a"))
    assert code == 3
    assert err.startswith("trajens: error: '")


def test_several_s_are_reported_side_by_side(capsys):
    small = ["train", "perceptron", "--tau", "2", "--epochs", "400", "--records", "4", "--chains", "2", "--s", "5,50"]
    code, out, _ = call(capsys, *small, "--json")
    report = json.loads(out)
    assert code == 0
    assert [group["s"] for group in report["by_s"]] == [5.0, 50.0]
    assert report["by_s"][0]["loss"] > report["by_s"][1]["loss"]
    code, out, _ = call(capsys, *small)
    assert code == 0


def test_a_run_can_start_where_another_ended(capsys, tmp_path):
    small = ["train", "perceptron", "--tau", "2", "--epochs", "40", "--records", "2", "--chains", "2"]
    assert call(capsys, *small, "--out", str(tmp_path / "a"))[0] == 0
    options = resolve({"problem": "perceptron", "tau": 2, "chains": 2, "start": str(tmp_path / "a")})
    initial = Experiment(options).arguments()["initial"]
    assert initial.shape == (2, 2, 2)
    code, _, err = call(capsys, *small, "--start", str(tmp_path / "a"), "--out", str(tmp_path / "b"))
    assert code == 0, err
    code, _, err = call(capsys, *small, "--start", str(tmp_path / "a"), "--tau", "3")
    assert (code, "initial must have shape" in err) == (2, True)
    code, _, err = call(capsys, *small, "--start", str(tmp_path / "nowhere"))
    assert (code, err.count("\n")) == (2, 1)


def test_a_new_run_writes_its_own_config(capsys, tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "config.toml").write_text('problem = "mnist"\n')
    small = ["train", "perceptron", "--tau", "3", "--epochs", "40", "--records", "2", "--chains", "1"]
    assert call(capsys, *small, "--out", str(tmp_path / "a"))[0] == 0
    assert read_toml(tmp_path / "a" / "config.toml")["tau"] == 3


def test_paths_of_any_letters_are_written_and_read(tmp_path):
    file = tmp_path / "d\U0001f600\x7f.npz"
    np.savez(file, x=np.zeros((4, 2)), y=np.array([0, 1, 0, 1]))
    config = resolve({"problem": str(file)})
    (tmp_path / "config.toml").write_text(config.to_toml())
    assert resolve(read_toml(tmp_path / "config.toml")) == config


def test_several_s_of_one_chain_have_no_error_in_json(capsys):
    small = ["train", "perceptron", "--tau", "2", "--epochs", "40", "--records", "2", "--chains", "1"]
    code, out, _ = call(capsys, *small, "--s", "5,50", "--json")
    assert (code, json.loads(out)["by_s"][0]["loss_stderr"]) == (0, None)


def test_a_resumed_run_does_not_need_what_it_started_from(capsys, tmp_path):
    small = ["train", "perceptron", "--tau", "2", "--epochs", "40", "--records", "2", "--chains", "1"]
    assert call(capsys, *small, "--out", str(tmp_path / "a"))[0] == 0
    assert call(capsys, *small, "--start", str(tmp_path / "a"), "--out", str(tmp_path / "b"))[0] == 0
    (tmp_path / "a").rename(tmp_path / "gone")
    code, _, err = call(capsys, "resume", str(tmp_path / "b"), "--epochs", "10")
    assert code == 0, err
