"""The command line keeps its contract: one JSON object, exit codes, one sentence for bad input."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import jax
import pytest

import trajens as tj
from tests.command import call
from trajens.app.cli.commands import COMMANDS, known_commands
from trajens.app.cli.environment import num_cores
from trajens.app.cli.streams import finite
from trajens.app.experiment import Experiment
from trajens.app.kinds import whole
from trajens.app.resolve import resolve

SMALL = ["train", "perceptron", "--tau", "4", "--s", "50", "--epochs", "4e3", "--chains", "8", "--records", "40"]


def experiment(**options):
    return Experiment(resolve({"problem": "perceptron"}, options))


def test_json_is_one_object_with_the_summary_and_the_exact_loss(capsys):
    code, out, _ = call(capsys, *SMALL, "--json")
    report = json.loads(out)
    assert code == 0
    assert out.count("\n") == 1
    data = tj.datasets.perceptron()
    assert report["exact_loss"] == tj.exact.perceptron(data.x, data.y, 4, 0.1, 50.0).loss
    assert report["exact_z"] == (report["loss"] - report["exact_loss"]) / report["loss_stderr"]
    assert abs(report["exact_z"]) < 6
    assert (report["epochs"], report["burn_in"], report["chains"]) == (4000, 800, 8)
    assert sum(report["reasons"].values()) == 8 * 3200
    assert 0 < report["acceptance"] < 1
    assert 32 <= report["batch_size"] <= 256
    for name in ("loss_deciding", "data_used", "weight_rms", "data_measured", "seconds"):
        assert report[name] > 0
    settings = report["settings"]
    expected = {"tau": 4, "acceptance": "penalty", "scan": "checkerboard", "seed": 0}
    assert {name: settings[name] for name in expected} == expected


def test_table_has_the_same_numbers_in_words(capsys):
    code, out, _ = call(capsys, *SMALL)
    assert code == 0
    for words in ("measured", "standard error", "exact", "acceptance", "mean batch", "data used", "tested"):
        assert words in out


def test_one_chain_has_no_standard_error_and_a_process_keeps_stdout_clean():
    command = [sys.executable, "-m", "trajens", *SMALL, "--chains", "1", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["loss_stderr"] is None
    assert report["exact_z"] is None
    assert "sampling" in done.stderr


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ("--tau 0", "tau must be a whole number"),
        ("--acceptance nonsense", "acceptance must be one of 'penalty', 'minibatch-barker', 'paper', 'barker'"),
        ("--rho 9", "rho must be"),
        ("--rho 1 --acceptance paper", "rho must be left out with --acceptance paper"),
        ("--chunk 1000", "chunk must be a whole number in 2..256, got 1000"),
        ("--chunk 1000 --acceptance barker", "chunk must be a whole number in 2..256, got 1000"),
        ("--epochs 2.5", "epochs must be a whole number"),
        ("--burn-in 4e3", "burn_in must be less than epochs = 4000"),
        ("--s -1", "s must be a finite number >= 0"),
        ("--num-data 1", "num-data must be a whole number in 2..1073741824"),
        ("--segment 4", "length of a segment must be"),
        ("--centre-of-mass 0", "centre-of-mass must be a finite number > 0"),
        ("--scan diagonal", "scan must be one of 'checkerboard', 'random'"),
        ("--chains 0", "chains must be a whole number at least 1"),
    ],
)
def test_bad_input_is_one_sentence_on_stderr_and_exit_code_2(capsys, option, sentence):
    code, out, err = call(capsys, *SMALL, *option.split())
    assert code == 2
    assert out == ""
    assert err.startswith(f"trajens: error: {sentence}")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "command",
    [
        "figure 9z",
        "figure perceptron --scale huge",
        "figure perceptron --seed -1",
        "figure perceptron --seed one",
        "train fashion",
        "train perceptron --epochs many",
        "train perceptron --tau",
        "train --colour red",
        "resume",
        "paint",
        "--loud",
        "bench fast",
    ],
)
def test_what_does_not_exist_is_exit_code_2(capsys, command):
    code, out, err = call(capsys, *command.split())
    assert code == 2
    assert out == ""
    assert err.startswith("trajens: error: ")
    assert err.count("\n") == 1


def test_interruption_is_exit_code_130(capsys, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(Experiment, "run", interrupted)
    code, out, err = call(capsys, *SMALL)
    assert (code, out) == (130, "")
    assert err.startswith("trajens: interrupted")


def test_info_names_versions_devices_and_the_kernel(capsys):
    code, out, _ = call(capsys, "info")
    assert code == 0
    for words in (tj.__version__, jax.__version__, str(jax.devices()[0]), str(num_cores()), "JAX definition"):
        assert words in out


def test_version_and_help(capsys):
    assert call(capsys, "--version") == (0, f"trajens {tj.__version__}\n", "")
    code, out, _ = call(capsys, "--help")
    assert code == 0
    for command in ("train", "figure", "info"):
        assert command in out


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ("()", "trajens-paper, which is not installed; try pip install ./paper from a clone."),
        ("[m.EntryPoint('figure', 'nowhere.at_all:figure', '')]", "No module named 'nowhere'; install nowhere again."),
    ],
)
def test_a_command_of_another_distribution_that_is_not_here_is_refused_in_a_sentence(found, words):
    code = (
        f"import importlib.metadata as m; m.entry_points = lambda **_: {found};"
        "from trajens.app.cli import app; app(['figure', 'perceptron'], prog_name='trajens')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert done.stderr.startswith("trajens: error: ")
    assert words in done.stderr


def test_an_interrupt_while_a_command_is_loaded_ends_at_once(tmp_path):
    (tmp_path / "slow.py").write_text("import os, signal, time; os.kill(os.getpid(), signal.SIGINT); time.sleep(30)")
    code = (
        # Where tests run in the background, SIGINT is ignored from the start.
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
        "import importlib.metadata as m; m.entry_points = lambda **_: [m.EntryPoint('wait', 'slow:wait', '')];"
        "from trajens.app.cli import app; app(['wait'], prog_name='trajens')"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "\ntrajens: interrupted; nothing more was written.\n")


@pytest.mark.parametrize("name", COMMANDS)
def test_the_first_line_of_a_command_is_that_of_its_own_help(name):
    command = known_commands()[name]
    assert command.help == command.loaded.help.split("\n\n")[0].replace("\n", " ")


def test_benchmarks_are_scripts(capsys):
    for command in (["bench"], ["bench", "kernel", "--json"], ["bench", "sampler"]):
        code, out, err = call(capsys, *command)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert "try python benchmarks/kernel.py or python benchmarks/sampler.py." in err


def test_a_process_uses_every_core_and_leaves_matplotlib_alone():
    code = (
        "import sys, jax, trajens.app.cli.environment as d, trajens.app.cli.commands as c; d.use_all_cores();"
        "[command.loaded for command in c.known_commands().values()];"
        "print(len(jax.devices('cpu')) == d.num_cores(), 'matplotlib' in sys.modules)"
    )
    free = {name: value for name, value in os.environ.items() if name not in ("XLA_FLAGS", "JAX_NUM_CPU_DEVICES")}
    done = subprocess.run([sys.executable, "-c", code], env=free, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False"]


@pytest.mark.parametrize(("text", "value"), [("200000", 200000), ("2e5", 200000), ("-3", -3)])
def test_whole_numbers_may_have_an_exponent(text, value):
    assert whole("epochs", text) == value
    assert type(whole("epochs", text)) is int


def test_importing_the_library_loads_neither_options_nor_the_command_line():
    code = "import sys, trajens; trajens.Run; print(*map(repr, sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stdout
    assert "trajens.run" in loaded
    for name in ("trajens.app", "trajens.plots", "trajens_paper", "typer", "scipy.optimize"):
        assert f"'{name}" not in loaded, name


def test_importing_the_package_alone_loads_nothing_that_takes_time():
    code = "import sys, trajens as tj; print('jax' in sys.modules, tj.errors.__name__, {*tj.__all__} <= {*dir(tj)})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "trajens.errors", "True"]


def test_json_has_no_nan():
    assert finite({"a": float("nan"), "b": {"c": float("-inf"), "d": 1.0}, "e": "nan"}) == {
        "a": None,
        "b": {"c": None, "d": 1.0},
        "e": "nan",
    }


@pytest.mark.parametrize(
    ("name", "chunk", "rho", "test"),
    [
        ("penalty", None, None, tj.Penalty(32)),
        ("penalty", 16, 1.0, tj.Penalty(16, rho=1.0)),
        ("minibatch-barker", None, 1.2, tj.MinibatchBarker(32, rho=1.2)),
        ("paper", 64, None, tj.paper_test(64)),
        ("barker", None, None, tj.Barker()),
        ("metropolis", 64, None, tj.Metropolis(64)),
    ],
)
def test_names_of_tests_mean_the_tests_of_the_library(name, chunk, rho, test):
    assert experiment(acceptance=name, chunk=chunk, rho=rho).acceptance == test


def test_options_of_moves_mean_the_moves_of_the_library():
    assert experiment(fraction=0.5, refresh=0.9).move == tj.SingleSite(0.5, 0.9)
    assert experiment(segment=3).move == tj.Segment(3, 1.0)
    mixture = tj.Mixture([(8, tj.Segment(3, 1.0)), (1, tj.CentreOfMass(0.2))])
    assert experiment(segment=3, centre_of_mass=0.2).move == mixture
