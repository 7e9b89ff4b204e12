"""A table of commands: each ends with the exit code and the sentence that is promised, and no traceback."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
import pytest

from trajens.app.cli import app
from trajens.app.experiment import Experiment

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "cli.md"
LONG = "a" * 300
IS_FULL = Path("/dev/full").exists()


class Row(NamedTuple):
    """A command, how it ends, and what of its stderr must be there; `how` arranges a process of its own."""

    command: str
    code: int
    sentence: str = ""
    how: str = "inside"
    environment: str = ""


INSIDE = [
    Row("--version", 0),
    Row("train --print-config", 0),
    Row("evaluate run --json", 0),
    Row("", 0),
    Row("paint", 2, "see trajens --help."),
    Row("train --colour red", 2, "see trajens train --help."),
    # Inputs that cannot be read.
    Row("train folder.csv", 2, "path must be a file that exists, got '{here}/folder.csv'; check the spelling."),
    Row("train broken-link.csv", 2, "got 'broken-link.csv'"),
    Row("train file/x.csv", 2, "got 'file/x.csv'"),
    Row("train loop.csv", 2, "got 'loop.csv'"),
    Row(f"train {LONG}.csv", 2, f"'{LONG}.csv' must be a file or folder that can be read, got File name too long;"),
    Row("train cut.npz", 2, "'{here}/cut.npz' must be a complete .npz of plain arrays, got BadZipFile: File is not a"),
    Row("train text.npz", 2, "pickled (object) data. If you trust the file"),
    Row("train --config folder.csv", 2, "got 'folder.csv': Is a directory"),
    Row(f"train --config {LONG}", 2, "File name too long"),
    Row("train perceptron --start loop.csv", 2, "directory must be that of a run"),
    Row("predict run loop.csv --out p.csv", 2, "path must be a file that exists, got 'loop.csv'"),
    Row("predict run folder.csv --out p.csv", 2, "path must be a file that exists, got 'folder.csv'"),
    Row(f"predict run {LONG}.csv --out p.csv", 2, "that can be read, got File name too long"),
    Row("predict file data.csv --out p.csv", 2, "'file' must be a whole file of Ensemble.save"),
    Row(f"evaluate run --data {LONG}.csv", 2, "that can be read, got File name too long"),
    Row("evaluate file/x", 2, "directory must be that of a run, got 'file/x'"),
    Row("resume file", 2, "got 'file' without config.toml"),
    Row("picture nowhere", 2, "directory must be that of a run, got 'nowhere'"),
    Row("sweep folder.csv --out s", 2, "plan must be a file that can be read, got 'folder.csv': Is a directory"),
    Row("sweep data.csv --out s", 2, "plan must be TOML, got 'data.csv'"),
    Row(
        "sweep status folder.csv", 2, "the directory must be that of a sweep, got '{here}/folder.csv' without plan.toml"
    ),
    Row("sweep gather run", 2, "the directory must be that of a sweep, got '{here}/run' without plan.toml"),
    Row("report nowhere", 2, "directory must be that of a run, got 'nowhere'"),
    # What cannot fit.
    Row(
        "train data.csv --hidden 1e9",
        2,
        "4 chains of 16 models of 5,000,000,002 parameters, which need about 4768.4 GiB",
    ),
    Row("train data.csv --hidden 1e15,1e15", 2, "use a smaller network, fewer chains or a shorter path."),
    Row("train data.csv --chains 1e9", 2, "got 1000000000 chains of 16 models of 162 parameters, which need about"),
    Row("train perceptron --chains 1e9", 2, "got 1000000000 chains of 8 models of 2 parameters, which need about"),
    Row("train data.csv --tau 1e9", 2, "tau must be a whole number in 1..32768, got 1000000000;"),
    Row("train data.csv --hidden 1e9 --tau 1e9", 2, "tau must be a whole number in 1..32768, got 1000000000;"),
    Row("train data.csv --epochs 2e9 --records 2e9", 2, "2000000000 records of 4 chains, which need about"),
    Row("train data.csv --epochs 1e30", 2, "epochs must be a whole number such as 8 or 2e5, got '1e30'"),
    Row("resume run --epochs 1e15", 2, "epochs must be a whole number in 1..2147483647"),
    Row("train perceptron --num-data 1e12", 2, "num-data must be a whole number in 2..1073741824"),
    Row("train perceptron --num-data 1e9", 2, "got 1000000000 examples, which need about 44.7 GiB"),
    Row("train perceptron --repeats 1e15", 2, "repeats must be a whole number in 1..65536"),
    # Numbers and pairs of options that mean nothing.
    Row("train data.csv --until-loss -1", 2, "until_loss must be a finite number > 0, got -1;"),
    Row("train data.csv --checkpoint-seconds -1", 2, "checkpoint_seconds must be a finite number >= 0, got -1;"),
    Row("train data.csv --sigma 1e308", 2, "sigma must be in 1e-12..1e12 to be squared in float32, got 1"),
    Row("train data.csv --sigma 1e309", 2, "sigma must be a finite number, got '1e309'"),
    Row("train data.csv --budget 1e308", 2, "budget must be"),
    Row(
        "train data.csv --acceptance metropolis --scores losses", 2, "scores must be even with --acceptance metropolis"
    ),
    # What train refuses, --print-config does not write down.
    Row("train data.csv --acceptance metropolis --scores losses --print-config", 2, "scores must be even with"),
    Row("train data.csv --acceptance barker --rho 0.1 --print-config", 2, "rho must be left out with"),
    Row("train data.csv --tau 0 --print-config", 2, "tau must be a whole number in 1..32768, got 0;"),
    Row("train data.csv --epochs 10 --burn-in 20 --print-config", 2, "burn"),
    # What cannot be written.
    Row("train perceptron --epochs 100 --out file", 3, "'file' must be written, got File exists"),
    Row("train perceptron --epochs 100 --out file/x", 3, "'file/x' must be written, got Not a directory"),
    Row("predict run data.csv --out file/x.csv", 3, "'file/x.csv' must be written"),
    Row(f"predict run data.csv --out {LONG}", 3, "must be written, got File name too long"),
    Row("report run --out file/x.html", 3, "'file/x.html' must be written"),
    Row("picture run --out file/x.png", 3, "'file/x.png' must be written"),
    Row("figure perceptron --out file", 3, "'file' must be written, got File exists"),
]
TRAIN = "train perceptron --tau 4 --epochs 1e8 --chains 2 --records 2"
FULL = "'stdout' must be written, got No space left on device; free some space"
PROCESSES = [
    Row("train --print-config", 3, FULL, "full stdout"),
    Row("evaluate run --json", 3, FULL, "full stdout", "PYTHONUNBUFFERED=1"),
    Row("evaluate run", 0, "", "gone reader"),
    Row("train --print-config", 0, "", "closed stdout"),
    Row("train perceptron --tau 0", 2, "", "full stderr"),
    Row(
        "info",
        2,
        "JAX_PLATFORMS must name platforms that are here, got 'nowhere', which JAX",
        "",
        "JAX_PLATFORMS=nowhere",
    ),
    Row("info", 2, "got invalid truth value 'maybe'", "", "JAX_ENABLE_X64=maybe"),
    Row("info", 130, "trajens: interrupted; nothing more was written.", "Ctrl-C while loading"),
    Row("sweep plan.toml --out swept", 4, "trajens: run failed: the loss of the initial path must be finite"),
    Row(f"{TRAIN} --out stopped", 75, "go on with: trajens resume stopped", "Ctrl-C while sampling"),
    Row(f"{TRAIN}", 1, "Traceback", "bug"),
]
SLOW = [
    *(
        Row(command, 2, "got 'cuda', which JAX", "", "JAX_PLATFORMS=cuda")
        for command in (
            "info",
            TRAIN,
            "evaluate run",
            "predict run data.csv --out q.csv",
            "picture run",
            "resume run",
            "figure perceptron",
        )
    ),
    *(
        Row(command, 3, FULL, "full stdout", unbuffered)
        for command in ("--version", "--help", "train --help", "info", "evaluate run", "resume run --json")
        for unbuffered in ("", "PYTHONUNBUFFERED=1")
    ),
    *(Row(command, 0, "", "gone reader") for command in ("--help", "info", "resume run --json")),
    Row(TRAIN, 130, "nothing was saved without --out", "Ctrl-C while sampling"),
    Row(
        "train locked.csv", 2, "locked.csv' must be a file or folder that can be read, got Permission denied", "nobody"
    ),
    Row("evaluate locked/run", 2, "'locked/run' must be a file or folder that can be read", "nobody"),
    Row("train perceptron --initial locked/run", 2, "must be a file or folder that can be read", "nobody"),
    Row("predict run locked/x.csv --out /tmp/q.csv", 2, "must be a file or folder that can be read", "nobody"),
    Row(
        "predict run data.csv --out locked/q.csv", 3, "'locked/q.csv' must be written, got Permission denied", "nobody"
    ),
    Row("train perceptron --epochs 100 --out locked/a", 3, "'locked/a' must be written", "nobody"),
]


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A folder with a run, and with all that is no file."""
    folder = tmp_path_factory.mktemp("here")
    x = np.random.default_rng(0).uniform(size=(100, 2))
    lines = [f"{a},{b},{i % 2}" for i, (a, b) in enumerate(x.tolist())]
    (folder / "data.csv").write_text("\n".join(["a,b,label", *lines]))
    (folder / "plan.toml").write_text('[options]\nproblem = "data.csv"\nloss = "squared"\nepochs = 100\nsigma = 1e12')
    (folder / "folder.csv").mkdir()
    (folder / "file").write_text("")
    (folder / "cut.npz").write_bytes(b"PK\x03\x04 cut off")
    (folder / "text.npz").write_text("words")
    (folder / "broken-link.csv").symlink_to("nowhere")
    (folder / "loop.csv").symlink_to("loop.csv")
    (folder / "locked").mkdir(mode=0o000)
    (folder / "locked.csv").touch(mode=0o000)
    command = ["train", str(folder / "data.csv"), "--hidden", "4", "--epochs", "500", "--records", "10"]
    with pytest.raises(SystemExit) as end:
        app([*command, "--out", str(folder / "run")], prog_name="trajens")
    assert end.value.code == 0
    return folder


def called(capsys, command):
    with pytest.raises(SystemExit) as end:
        app(shlex.split(command), prog_name="trajens")
    return end.value.code, capsys.readouterr().err


@pytest.mark.parametrize("row", INSIDE, ids=lambda row: row.command.replace(LONG, "long") or "nothing")
def test_a_command_in_this_process(here, capsys, monkeypatch, row):
    monkeypatch.chdir(here)
    code, err = called(capsys, row.command)
    assert code == row.code, err
    assert row.sentence.replace("{here}", str(here)) in err
    if row.sentence:
        assert err.startswith("trajens: error: ")
        assert err.count("\n") == 1


def named(row):
    return " ".join(part for part in (row.environment, row.command or "nothing", row.how) if part)


@pytest.mark.parametrize("row", [*PROCESSES, *(pytest.param(row, marks=pytest.mark.slow) for row in SLOW)], ids=named)
def test_a_command_in_a_process_of_its_own(here, row):
    code, err = ran(row, here)
    assert code == row.code, err
    assert row.sentence.replace("{here}", str(here)) in err
    assert ("Traceback" in err) == (row.how == "bug")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_a_name_that_is_not_utf8(here):
    """A page is written, since it needs no name; options that cannot be written down are refused."""
    run, data = os.fsdecode(os.fsencode(here) + b"/b\xff"), os.fsdecode(os.fsencode(here) + b"/d\xff.csv")
    shutil.copytree(here / "run", run)
    shutil.copy(here / "data.csv", data)
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8:strict"}
    called = lambda *command: subprocess.run(  # noqa: E731
        [sys.executable, "-m", "trajens", *command], capture_output=True, encoding="utf-8", env=environment
    )
    told = called("report", run)
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout.endswith("b\\udcff/report.html\n")
    assert "b\\udcff" in Path(run, "report.html").read_text(encoding="utf-8")
    told = called("train", data, "--epochs", "100", "--out", str(here / "new"))
    assert told.returncode == 2
    assert "problem must be a text in UTF-8, got '" in told.stderr
    assert told.stderr.count("\n") == 1
    assert not (here / "new").exists()


def ran(row, folder):
    """Exit code and stderr of a row."""
    if "full" in row.how and not IS_FULL:
        pytest.skip("there is no /dev/full")
    program = ["-m", "trajens"]
    if row.how == "bug":
        program = ["-c", "import trajens.run.run as r; r.plan_marks = None; from trajens.app.cli import main; main()"]
    if row.how == "Ctrl-C while loading":
        # The signal comes from within, in the middle of loading JAX, however fast the machine is.
        program = [
            "-c",
            # Where tests run in the background, SIGINT is ignored from the start.
            "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); import sys; "
            "sys.path.insert(0, 'slow'); import runpy; runpy.run_module('trajens', {}, '__main__')",
        ]
        (folder / "slow").mkdir(exist_ok=True)
        interrupt = "import os, signal, time; os.kill(os.getpid(), signal.SIGINT); time.sleep(30)"
        (folder / "slow" / "jax.py").write_text(interrupt)
    usual = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    environment = {**usual, **dict(pair.split("=") for pair in row.environment.split())}
    before = {
        "nobody": as_nobody(folder) if row.how == "nobody" else [],
        "closed stdout": ["sh", "-c", 'exec "$@" >&-', "sh"],
    }.get(row.how, [])
    reader, writer = os.pipe()
    if row.how == "gone reader":
        os.close(reader)
    with open("/dev/full" if IS_FULL else os.devnull, "w") as full:
        process = subprocess.Popen(
            [*before, sys.executable, *program, *shlex.split(row.command)],
            cwd=folder,
            env=environment,
            stdout={"full stdout": full, "gone reader": writer}.get(row.how, subprocess.DEVNULL),
            stderr=full if row.how == "full stderr" else subprocess.PIPE,
            text=True,
        )
    os.close(writer)
    if row.how == "Ctrl-C while sampling":
        interrupt_when_sampling(process, folder)
    err = process.communicate(timeout=120)[1] or ""
    if row.how != "gone reader":
        os.close(reader)
    return process.returncode, err


def interrupt_when_sampling(process, folder):
    """When its handler is in place, which a process without a directory does not tell."""
    handled = 1 << (signal.SIGTERM - 1)
    begin = time.monotonic()
    while time.monotonic() - begin < 60:
        status = Path(f"/proc/{process.pid}/status")
        caught = re.search(r"SigCgt:\s*(\w+)", status.read_text()) if status.exists() else None
        if caught is not None and int(caught[1], 16) & handled:
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)


def as_nobody(folder):
    """What a command is run by, since permissions bind all but root."""
    if os.getuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        pytest.skip("root cannot become nobody without setpriv")
    for path in [folder, *folder.parents][:4]:
        if path.stat().st_mode & 0o005 == 0:
            path.chmod(0o755)
    return ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


@pytest.mark.parametrize(
    "plan",
    ["5", "[[1, 2]]", "[" * 100_000, "[1e400]", "[50, 99999999999999999999]", "{marks}, 99999999999]", "{marks}, -5]"],
    ids=lambda plan: plan[:20],
)
def test_a_damaged_plan_is_a_warning_and_the_checkpoint_is_gone_by(here, tmp_path, capsys, monkeypatch, plan):
    warned = []
    monkeypatch.setattr("warnings.showwarning", lambda message, *_, **__: warned.append(str(message)))
    shutil.copytree(here / "run", tmp_path / "run")
    file = tmp_path / "run" / "plan.json"
    file.write_text(plan.replace("{marks}", file.read_text().rstrip("]")))
    with pytest.warns(UserWarning, match=r"the plan '.*plan\.json' is damaged"):
        code, err = called(capsys, f"resume {tmp_path / 'run'}")
    assert code == 0, err


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (MemoryError("Unable to allocate 7.28 TiB"), "got MemoryError: Unable to allocate 7.28 TiB; use fewer chains"),
        (jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory: 1.5 GiB\nmore"), "Out of memory: 1.5 GiB; use"),
        (PermissionError(13, "Permission denied", "a.b/c.d"), "'a.b/c.d' must be a file or folder that can be read"),
    ],
)
def test_what_only_shows_while_running_is_a_sentence_too(capsys, monkeypatch, error, sentence):
    def fails(*_, **__):
        raise error

    monkeypatch.setattr(Experiment, "run", fails)
    code, err = called(capsys, "train perceptron")
    assert code == 2
    assert sentence in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("error", [OSError("no file"), jax.errors.JaxRuntimeError("INTERNAL: a bug")])
def test_a_bug_stays_a_bug(monkeypatch, error):
    def fails(*_, **__):
        raise error

    monkeypatch.setattr(Experiment, "run", fails)
    with pytest.raises(type(error), match=str(error)):
        app(["train", "perceptron"], prog_name="trajens")


def test_a_figure_that_is_interrupted_can_be_gone_on_with(capsys, monkeypatch, tmp_path):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("trajens.run.loop.Loop._advance_block", interrupted)
    with pytest.warns(UserWarning, match="interrupted at epoch 0"):
        code, err = called(capsys, f"figure perceptron --out {tmp_path / 'f'}")
    assert code == 130
    assert "trajens: interrupted" in err


def test_the_exit_codes_in_the_documentation_are_those_of_the_table():
    [table] = re.findall(r"## Exit codes\n\n(.*?)\n\n", PAGE.read_text(), re.DOTALL)
    listed = {int(code) for code in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)}
    assert listed == {row.code for row in (*INSIDE, *PROCESSES)}
