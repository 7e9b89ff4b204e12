"""Options come from defaults, a file and flags, in this order, and a run directory says what they were."""

import json
import tomllib
from dataclasses import fields, replace
from inspect import signature
from pathlib import Path

import numpy as np
import pytest

import trajens as tj
from tests.command import call
from trajens.app.config import OPTIONS, Config
from trajens.app.experiment import Experiment
from trajens.app.kinds import tilts
from trajens.app.resolve import resolve
from trajens.errors import InputError
from trajens.moves.base import usual_fraction
from trajens.randomness import key_of
from trajens.run.start import EVOLUTION, RANDOM
from trajens.run.train import RECORDS, RECORDS_OF_FEW, TAU, TAU_OF_FEW, training_setup, usual_move
from trajens.sampling.settings import SettingsDict, default_burn_in
from trajens.storage.options import read_toml


def test_flags_override_the_file_which_overrides_the_defaults(tmp_path):
    file = tmp_path / "options.toml"
    file.write_text('problem = "mnist"\ntau = 16\nepochs = 1000\nburn-in = 100\n')
    config = resolve(read_toml(file), {"tau": 4, "sigma": None})
    assert (config.tau, config.burn_in, config.sigma, config.model, config.prior) == (4, 100, 0.05, "cnn", 0.3)


def test_a_written_config_reads_back_as_the_same(tmp_path):
    for options in (
        {"problem": "mnist", "s": "60:1000", "epochs": 1000},
        {"problem": "perceptron", "s": "5,10", "prior": 0.5, "segment": 3, "seed": "4,2"},
        {"problem": "mnist", "model": "mlp", "hidden": "64,32", "activation": "step", "prior": "flat"},
        {"problem": "mnist", "model": "mlp", "activation": "step", "weights": "binary", "loss": "0-1"},
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


@pytest.mark.slow
def test_several_seeds_make_the_chains_of_runs_with_one_seed_each():
    options = {"problem": "perceptron", "tau": 2, "epochs": 100, "records": 2, "s": [5, 10], "chains": 2}
    both = Experiment(resolve(options, {"seed": "3,7"})).run()
    assert both.paths.shape[0] == 8
    for seed, places in ((3, [0, 1, 4, 5]), (7, [2, 3, 6, 7])):
        alone = Experiment(resolve(options, {"seed": seed})).run()
        # Another number of chains may be rounded in another way, by less than any difference of random numbers.
        np.testing.assert_allclose(both.paths[places], alone.paths, atol=1e-5)


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
        ({}, "problem must be one of perceptron, mnist, an environment such as CartPole-v1 or a file"),
        (
            {"problem": "cifar"},
            "problem must be one of perceptron, mnist, an environment such as CartPole-v1 or a file",
        ),
        ({"problem": "mnist", "size": 3}, "options must be among problem, model"),
        ({"problem": "mnist", "noise": 0.1}, "noise must be left out with mnist"),
        ({"problem": "perceptron", "model": "cnn"}, "model must be left out with perceptron"),
        ({"problem": "mnist", "s": "1:2:3"}, "s must be a number, several as 5,10,20, or an annealing"),
        ({"problem": "mnist", "s": "five"}, "s must be a number, several"),
        ({"problem": "mnist", "s": "0:10"}, "s must be a finite number > 0"),
        ({"problem": "mnist", "epochs": 50, "anneal": 10}, "anneal must be left out with a fixed s"),
        ({"problem": "mnist", "prior": "wide"}, "prior must be flat or a standard deviation"),
        ({"problem": "mnist", "hidden": "32"}, "hidden and activation must be left out with --model cnn"),
        ({"problem": "mnist", "weights": "ternary"}, "weights must be one of 'real', 'binary', got 'ternary'"),
        ({"problem": "perceptron", "weights": "binary"}, "weights must be left out with perceptron"),
        ({"problem": "perceptron", "loss": "0-1"}, "loss must be left out with perceptron"),
        ({"problem": "mnist", "epochs": 0}, "epochs must be a whole number at least 1"),
        ({"problem": "mnist", "start": 5}, "start must be a text"),
        ({"problem": "mnist", "tau": "eight"}, "tau must be a whole number such as 8 or 2e5, got 'eight'"),
        ({"problem": "mnist", "tau": 2.5}, "tau must be a whole number such as 8 or 2e5, got 2.5"),
        ({"problem": "mnist", "pool": "no"}, "pool must be true or false"),
        ({"problem": "mnist", "s": True}, "s must be a number, several"),
        ({"problem": "perceptron", "noise": []}, "noise must be a finite number"),
        ({"problem": "mnist", "seed": {"a": 1}}, "seed must be a whole number"),
        ({"problem": "mnist", "rho": float("nan")}, "rho must be a finite number"),
        ({"problem": "mnist", "chains": 10**20}, "chains must be a whole number"),
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
    for name in {name for name, option in OPTIONS.items() if option.is_flag} | {"problem"}:
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
    initial = Experiment(options).initial
    assert initial.shape == (2, 2, 2)
    code, _, err = call(capsys, *small, "--start", str(tmp_path / "a"), "--out", str(tmp_path / "b"))
    assert code == 0, err
    code, _, err = call(capsys, *small, "--start", str(tmp_path / "a"), "--tau", "3")
    assert (code, "initial must have shape" in err) == (2, True)
    code, _, err = call(capsys, *small, "--start", str(tmp_path / "nowhere"))
    assert (code, err.count("\n")) == (2, 1)


def test_a_new_run_writes_its_own_config(capsys, tmp_path):
    (tmp_path / "a").mkdir()
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


DEFAULTS = {
    "chains": tj.Settings().chains,
    "seed": tj.Settings().seed,
    "scan": tj.Settings().scan,
    "records": signature(tj.sample).parameters["records"].default,
    "ahead": tj.Settings().ahead,
    "refresh": tj.SingleSite().refresh,
    "repeats": tj.Checkerboard().repeats,
    "checkpoint_seconds": signature(tj.RunDirectory).parameters["checkpoint_seconds"].default,
    "segment": None,
    "centre_of_mass": None,
    "start": signature(tj.sample).parameters["initial"].default,
}


@pytest.mark.parametrize("name", DEFAULTS)
def test_python_and_the_command_line_have_the_same_default(name):
    assert getattr(resolve({"problem": "mnist", "epochs": 1000}), name) == DEFAULTS[name]
    assert getattr(tj.Settings(), name, DEFAULTS[name]) == DEFAULTS[name]


TRAINED = ("tau", "budget", "chains", "records", "start", "seed", "ahead", "sigma", "s")


@pytest.mark.parametrize("name", TRAINED)
def test_training_has_the_same_default_in_python_and_on_the_command_line(name):
    if name in ("chains", "tau", "start"):
        experiment = Experiment(resolve({"problem": "mnist"}))
        assert (experiment.chains, experiment.target.tau, experiment.start) == (1, TAU, "evolution")
        return
    known = {"seed": tj.Settings().seed, "ahead": tj.Settings().ahead}
    default = known[name] if name in known else signature(tj.train).parameters[name].default
    assert getattr(resolve({"problem": "mnist"}), name) == default


@pytest.mark.parametrize(("size", "chains", "test"), [(200, 4, "Metropolis"), (2000, 1, "Penalty")])
def test_training_on_few_examples_reads_all_of_them_in_several_chains(size, chains, test, tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "data.npz", x=rng.standard_normal((size, 3)), y=np.arange(size) % 2)
    experiment = Experiment(resolve({"problem": str(tmp_path / "data.npz"), "budget": 1e8}))
    _, settings, budget = experiment._training
    _, own, its = training_setup(experiment.problem, budget=1e8)
    assert (settings.chains, own.chains) == (chains, chains)
    assert (type(settings.acceptance).__name__, type(own.acceptance).__name__) == (test, test)
    assert settings.scores == own.scores
    assert budget.records == its.records == (RECORDS_OF_FEW if chains > 1 else RECORDS)
    assert budget.searched_on == its.searched_on == (size // 5 if chains > 1 else None)
    assert not budget.is_searched_before
    assert experiment.target.tau == (TAU_OF_FEW if chains > 1 else TAU)
    assert experiment.start == (RANDOM if chains > 1 else EVOLUTION)
    whole = Experiment(resolve({"problem": str(tmp_path / "data.npz"), "hold_out": 0.0}))
    target, _, budget = whole._training
    assert target.problem.size == size
    # Nothing is held out in the end: what the search leaves out comes back.
    assert (budget.is_searched_before, whole.start) == ((True, RANDOM) if chains > 1 else (False, EVOLUTION))
    asked = {"problem": str(tmp_path / "data.npz"), "tolerance": 0.02, "chains": 3}
    _, settings, _ = Experiment(resolve(asked))._training
    assert (settings.chains, settings.acceptance.tolerance, settings.acceptance.pool) == (3, 0.02, True)


def test_training_is_the_same_in_python_and_on_the_command_line():
    experiment = Experiment(resolve({"problem": "mnist", "budget": 1e6, "chains": 2, "until_loss": 0.3}))
    target, settings, budget = training_setup(experiment.problem, budget=1e6, loss=0.3, settings={"chains": 2})
    mine, own, its = experiment._training
    assert its == budget
    assert str(mine) == str(target)
    chunk = settings.acceptance.chunk_size(60_000)
    assert own == replace(settings, acceptance=replace(settings.acceptance, chunk=chunk))


def test_one_layer_is_moved_at_a_time_unless_something_is_said_of_moves():
    experiment = Experiment(resolve({"problem": "mnist"}))
    assert experiment.move == usual_move(experiment.problem) == training_setup(experiment.problem).settings.move
    assert isinstance(experiment.move, tj.BalancedMixture)
    # What a run writes down means the same.
    assert Experiment(resolve(tomllib.loads(experiment._written))).move == experiment.move
    for said in ({"by_layer": False}, {"fraction": 0.1}, {"tune": False}, {"epochs": 100}):
        assert isinstance(Experiment(resolve({"problem": "mnist", **said})).move, tj.SingleSite)
    x, y = np.zeros((1100, 20), np.float32), np.arange(1100) % 2
    for small in (tj.models.mlp((20, 40, 2)), tj.models.binary(tj.models.mlp((20, 60, 2)))):
        assert isinstance(usual_move(small.problem(x, y)), tj.SingleSite)
    large = tj.models.mlp((20, 60, 2))
    assert isinstance(usual_move(large.problem(x, y)), tj.BalancedMixture)
    assert isinstance(usual_move(large.problem(x[:1024], y[:1024])), tj.SingleSite)
    asked = Experiment(resolve({"problem": "mnist", "epochs": 100, "fraction": 0.1, "by_layer": True})).move
    assert [move for _, move in asked.moves] == [
        tj.LayerMove(n, tj.SingleSite(0.1)) for n in ("conv1", "conv2", "dense1")
    ]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"burn_in": 10}, "burn_in must be left out without --epochs"),
        ({"budget": 1e6, "epochs": 10}, "budget must be left out with --epochs 10"),
        ({"minutes": 1, "budget": 1e6}, "budget must be left out with --minutes 1"),
        ({"s": "10:20"}, "s must be where it ends"),
        ({"start": "evolution", "epochs": 10}, "start must be random or the directory of a run with --epochs"),
        ({"until_loss": 0.1, "epochs": 10}, "until_loss must be left out with --epochs"),
    ],
)
def test_a_run_is_as_long_as_its_budget_or_its_epochs(options, sentence):
    with pytest.raises(InputError, match=sentence):
        resolve({"problem": "mnist", **options})


@pytest.mark.parametrize("problem", ["mnist", "perceptron"])
def test_python_and_the_command_line_mean_the_same_run_where_nothing_is_asked_for(problem, monkeypatch):
    experiment = Experiment(resolve({"problem": problem, "epochs": 1000}))
    usual = tj.Settings().checked(experiment.target)
    size, dim = experiment.problem.size, experiment.problem.dim
    assert experiment.scan == usual.scan
    assert experiment.acceptance == replace(usual.acceptance, chunk=usual.acceptance.chunk_size(size))
    assert experiment.move == tj.SingleSite(usual_fraction(dim))
    path = np.zeros((2, dim), np.float32)
    law = experiment.target.law
    site = tj.moves.Site(np.int32(0), np.int32(0), np.int32(1))
    drawn = [np.asarray(move.propose(key_of(1), path, site, law).models) for move in (usual.move, experiment.move)]
    np.testing.assert_array_equal(*drawn)
    assert experiment.target.prior == tj.Target(experiment.problem, 2, 0.1, 1.0).prior
    assert experiment.config.burn_in == default_burn_in(experiment.config.epochs)


@pytest.mark.parametrize("acceptance", ["penalty", "minibatch-barker", "paper", "barker", "metropolis"])
def test_tests_without_options_are_those_of_the_library(acceptance):
    test = Experiment(resolve({"problem": "mnist", "epochs": 1000, "acceptance": acceptance})).acceptance
    usual = {"penalty": tj.Penalty(), "minibatch-barker": tj.MinibatchBarker(), "paper": tj.paper_test()}
    if acceptance in usual:
        assert test == replace(usual[acceptance], chunk=usual[acceptance].chunk_size(60_000))
    else:
        assert test == {"barker": tj.Barker(), "metropolis": tj.Metropolis()}[acceptance]


def test_every_option_has_a_meaning_and_a_group_and_only_known_fields():
    assert list(OPTIONS) == [field.name for field in fields(Config)]
    for name, option in OPTIONS.items():
        assert option.help.endswith("."), name
        assert option.group in ("Problem", "Target", "Moves", "Acceptance", "Run")


def test_old_names_still_work_with_a_warning(capsys, tmp_path):
    with pytest.warns(FutureWarning, match="test is now called acceptance"):
        assert resolve({"problem": "mnist", "test": "paper"}).acceptance == "paper"
    with pytest.warns(FutureWarning, match="initial is now called start"):
        assert resolve({"problem": "mnist", "initial": str(tmp_path)}).start == str(tmp_path)
    with pytest.raises(InputError, match="acceptance must be given once"):
        resolve({"problem": "mnist", "test": "paper", "acceptance": "paper"})
    with pytest.warns(FutureWarning, match="test is now called acceptance"):
        code, out, _ = call(capsys, "train", "mnist", "--test", "paper", "--print-config")
    assert (code, 'acceptance = "paper"' in out) == (0, True)
    assert "--test" not in call(capsys, "train", "--help")[1]


def test_a_run_writes_down_what_the_library_decided(capsys, tmp_path):
    np.savez(tmp_path / "data.npz", x=np.zeros((40, 3)), y=np.arange(40) % 3)
    small = ["--tau", "2", "--epochs", "20", "--records", "2", "--chains", "1", "--out", str(tmp_path / "run")]
    assert call(capsys, "train", str(tmp_path / "data.npz"), *small)[0] == 0
    written = tj.StoredRun(tmp_path / "run").config
    expected = {"sizes": [3, 32, 3], "activation": "relu", "loss": "cross-entropy", "chunk": 32, "rho": 2.38}
    expected |= {"tolerance": 0.01, "stages": 2}
    assert {name: written[name] for name in expected} == expected
    assert (written["fraction"], written["prior"]) == (0.25, 0.3)
    assert call(capsys, "resume", str(tmp_path / "run"), "--epochs", "10")[0] == 0


def test_keywords_of_sample_and_train_are_the_fields_of_settings():
    renamed = {"example_weights"}
    assert set(SettingsDict.__annotations__) == {one.name for one in fields(tj.Settings)} | renamed
    undeciding = {one.name for one in fields(tj.Settings)} - set(tj.Settings().deciding())
    assert undeciding == {"devices", "ahead"}


def test_a_setting_that_is_misspelt_is_named():
    with pytest.raises(tj.InputError, match="got 'chain'; check the spelling"):
        tj.sample(tj.Target(tj.datasets.perceptron().problem(), 3, 0.1, 1.0), 10, chain=3)
