"""Runs survive anything: SIGKILL at random moments, polite signals, and a user who is in a hurry."""

import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from trajens.run.stored import StoredRun
from trajens.storage.checkpoint import checkpoints

TRAIN = [
    "train",
    "perceptron",
    "--tau",
    "4",
    "--s",
    "50",
    "--chains",
    "2",
    "--records",
    "40",
    "--checkpoint-seconds",
    "0",
    "--seed",
    "3",
]


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """Programs compiled by one process are found by the next, so that restarts are quick."""
    cache = {
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path_factory.mktemp("compiled")),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    return {**os.environ, **cache}


def start(environment, *arguments):
    command = [sys.executable, "-m", "trajens", *map(str, arguments)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def finish(process):
    _, messages = process.communicate(timeout=300)
    return process.returncode, messages


def wait_for_checkpoint(process, out):
    begin = time.monotonic()
    while not checkpoints(out):
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() - begin < 120
        time.sleep(0.02)


@pytest.mark.slow
def test_a_run_killed_at_random_moments_ends_where_it_would_have_ended(environment, tmp_path):
    epochs = ["--epochs", "2e5"]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    begin = time.monotonic()
    assert finish(start(environment, *TRAIN, *epochs, "--out", whole))[0] == 0
    usual = time.monotonic() - begin
    rng = random.Random(0)
    kills = 0
    process = start(environment, *TRAIN, *epochs, "--out", killed)
    while kills < 8:
        # Any moment from the first import to well into sampling; later restarts find compiled programs and get further.
        time.sleep(rng.uniform(0.0, 0.3 * usual))
        process.send_signal(signal.SIGKILL)
        code, messages = finish(process)
        assert code in (-signal.SIGKILL, 0), messages
        kills += code == -signal.SIGKILL
        is_begun = (killed / "config.toml").exists()
        process = start(environment, *(("resume", killed) if is_begun else (*TRAIN, *epochs, "--out", killed)))
    code, messages = finish(process)
    assert code == 0, messages
    np.testing.assert_array_equal(StoredRun(whole).paths, StoredRun(killed).paths)
    expected, records = StoredRun(whole).records, StoredRun(killed).records
    for name in expected:
        tolerance = 1e-5 if name == "loss_deciding" else 0.0  # a sum of floats depends on where blocks end
        np.testing.assert_allclose(records[name], expected[name], rtol=tolerance, err_msg=name)


def when_written(process, file):
    """Wait until a file is written again, or the process has ended."""
    stamp = file.stat().st_mtime_ns if file.exists() else 0
    begin = time.monotonic()
    while process.poll() is None and (not file.exists() or file.stat().st_mtime_ns == stamp):
        assert time.monotonic() - begin < 120
        time.sleep(0.005)


@pytest.mark.slow
def test_a_start_by_evolution_killed_again_and_again_ends_where_it_would_have_ended(environment, tmp_path):
    rng = np.random.default_rng(0)
    table, whole, killed = tmp_path / "table.csv", tmp_path / "whole", tmp_path / "killed"
    rows = [f"{a:.3f},{b:.3f},{int(a > 0)}" for a, b in rng.standard_normal((60, 2))]
    table.write_text("\n".join(["a,b,y", *rows]) + "\n")
    train = ["train", table, "--hidden", "8", "--budget", "1e6", "--chains", "2", "--records", "8"]
    train += ["--start", "evolution", "--checkpoint-seconds", "0", "--out"]
    assert finish(start(environment, *train, whole))[0] == 0
    for kill in range(3):
        process = start(environment, *((*train, killed) if kill == 0 else ("resume", killed)))
        when_written(process, killed / "start.npz")
        process.send_signal(signal.SIGKILL)
        code, messages = finish(process)
        assert code == -signal.SIGKILL, messages
        assert not checkpoints(killed)
    # What a kill in the middle of writing leaves.
    (killed / ".start.npz-abcdefgh").write_bytes(b"PK")
    assert finish(start(environment, "resume", killed))[0] == 0
    np.testing.assert_array_equal(StoredRun(whole).paths, StoredRun(killed).paths)
    for name, values in StoredRun(whole).start_records.items():
        np.testing.assert_array_equal(StoredRun(killed).start_records[name], values)
    assert {file.name for file in killed.iterdir()} == {file.name for file in whole.iterdir()}


@pytest.mark.slow
def test_a_page_is_whole_whenever_its_watching_is_killed_and_the_run_goes_on(environment, tmp_path):
    out, page = tmp_path / "run", tmp_path / "page.html"
    run = start(environment, *TRAIN, "--epochs", "1e9", "--out", out)
    wait_for_checkpoint(run, out)
    rng = random.Random(0)
    for number in (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
        watching = start(environment, "report", out, "--watch", "--every", "0.05", "--out", page)
        when_written(watching, page)
        time.sleep(rng.uniform(0.0, 0.5))
        watching.send_signal(number)
        code, messages = finish(watching)
        assert code == (130 if number == signal.SIGINT else -number), messages
        assert "Traceback" not in messages
        assert page.read_text().rstrip().endswith("</html>")
    assert run.poll() is None
    run.send_signal(signal.SIGTERM)
    assert finish(run)[0] == 75


@pytest.mark.parametrize(
    "number",
    [signal.SIGTERM, *(pytest.param(other, marks=pytest.mark.slow) for other in (signal.SIGINT, signal.SIGUSR1))],
)
def test_a_polite_signal_saves_and_says_how_to_go_on(environment, tmp_path, number):
    out = tmp_path / "a"
    process = start(environment, *TRAIN, "--epochs", "1e9", "--out", out)
    wait_for_checkpoint(process, out)
    process.send_signal(number)
    code, messages = finish(process)
    assert code == 75, messages
    assert f"go on with: trajens resume {out}" in messages
    assert "Traceback" not in messages
    assert 0 < StoredRun(out).epoch < 1e9


_COLLECTED = """
import gc, os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from trajens import __main__ as program
from trajens.app.cli import info

def callback(*_):
    os.kill(os.getpid(), signal.SIGINT)

def collect():
    gc.callbacks.append(callback)
    gc.collect()
    return "nothing of it"

info.keep_compiled = collect
sys.argv = ["trajens", "info"]
program.main()
"""


def test_an_interrupt_that_falls_into_a_garbage_collection_is_heard(environment):
    done = subprocess.run([sys.executable, "-c", _COLLECTED], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (130, ""), done.stderr
    assert done.stderr == "\ntrajens: interrupted; nothing more was written.\n"


def test_a_second_interrupt_stops_at_once(environment, tmp_path):
    out = tmp_path / "a"
    # One block over all data of a long path takes much longer than a moment.
    slow = ["train", "mnist", "--tau", "32", "--acceptance", "metropolis", "--epochs", "1e6"]
    process = start(environment, *slow, "--checkpoint-seconds", "0", "--out", out)
    while not (out / "sessions.jsonl").exists():
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    begin = time.monotonic()
    code, messages = finish(process)
    assert code == 130, messages
    assert "stopped at once" in messages
    assert time.monotonic() - begin < 5
