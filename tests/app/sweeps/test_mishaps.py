"""Sweeps in a world that fails them: settings that cannot be run, full disks, clusters that lose machines."""

import contextlib
import functools
import json
import os
import platform
import shutil
import subprocess
import sys

import numpy as np
import pytest

import trajens as tj
from tests.app.sweeps.sweeping import Here, assert_same, kill, shared_programs, trained, wait_for
from trajens.app.cli import app
from trajens.app.sweeps.directory import SweepDirectory
from trajens.app.sweeps.lease import BEAT
from trajens.app.sweeps.task import Task
from trajens.run.stored import StoredRun
from trajens.storage.checkpoint import checkpoints

MAY_NAME_HOSTS = shutil.which("unshare") is not None and not subprocess.call(
    ["unshare", "--uts", "true"], stderr=subprocess.DEVNULL
)
SMALL = {"epochs": 2000, "chains": 1, "records": 4, "tau": 2}


def may(*command):
    """Whether a command is there and this user may use it."""
    return shutil.which(command[0]) is not None and subprocess.run(command, capture_output=True).returncode == 0


MAY_NAME_HOSTS = may("unshare", "--uts", "true")


@pytest.mark.slow
def test_settings_that_fail_are_told_with_their_sentences_and_tried_again(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("trajens.app.sweeps.driver.engine_named", lambda *_, **__: Here())
    monkeypatch.chdir(tmp_path)
    table = ["a,b,y", *(f"{a},{b},{a + b}" for a, b in np.random.default_rng(0).normal(size=(100, 2)))]
    (tmp_path / "good.csv").write_text("\n".join(table))
    (tmp_path / "bad.csv").write_text("\n".join([*table, "1,one,1"]))
    options = "\n".join(f"{name} = {value}" for name, value in SMALL.items())
    rows = ['problem = "good.csv"', 'problem = "good.csv"\nsigma = 1e12', 'problem = "bad.csv"']
    (tmp_path / "plan.toml").write_text("\n[[list]]\n".join([f"[options]\n{options}", *rows]))

    def swept():
        with pytest.raises(SystemExit) as end:
            app(["sweep", "plan.toml", "--out", "a"], prog_name="trajens")
        return end.value.code, capsys.readouterr().err

    code, messages = swept()
    assert code == 2
    assert "got 1 of 3 that are not" in messages
    assert "problem = 'bad.csv': column 'b' of" in messages
    (tmp_path / "bad.csv").write_text("\n".join(table))
    for _ in range(2):
        code, messages = swept()
        assert code == 4
        assert "problem=good.csv,sigma=1000000000000 failed: the loss of the initial path must be finite" in messages
        assert "2 of 3 runs complete, 1 failed" in messages


@pytest.fixture
def disk(tmp_path):
    """A file system of a megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if not may("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)):
        pytest.skip("this user may not mount a file system")
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.mark.slow
def test_a_sweep_on_a_full_disk_fails_with_a_sentence_and_goes_on_when_there_is_room(tmp_path, disk):
    options = {**SMALL, "problem": "perceptron", "checkpoint_seconds": 0, "records": 400}
    plan, there = {"options": options, "grid": {"seed": [1, 2]}}, os.statvfs(disk)
    # Room for the plan and for a part of the first run; then not even for the reasons.
    (disk / "ballast").write_bytes(bytes(there.f_bavail * there.f_frsize - 96 * 1024))
    failed = tj.sweep(plan, disk / "a", Here()).failed
    for name, file in {"seed=1": "checkpoint-", "seed=2": "seed=2.json"}.items():
        assert file in failed[name]
        assert "must be written, got No space left on device; free some space" in failed[name]
    saved = StoredRun(disk / "a" / "runs" / "seed=1").epoch
    assert 0 < saved < options["epochs"]
    (disk / "ballast").unlink()
    swept = tj.sweep(plan, disk / "a", Here())
    assert swept.is_complete
    assert not list((disk / "a" / "tasks").glob(".*"))
    directory = SweepDirectory(disk / "a")
    trained([(directory.task(name, "toml"), tmp_path / name) for name in swept.outcomes])
    for name in swept.outcomes:
        assert_same(StoredRun(swept.run(name)), StoredRun(tmp_path / name))


@pytest.fixture
def hosts(tmp_path):
    """The address of a scheduler of Dask, and a worker of it on each of two hosts, which share the disk and no more."""
    known, processes = tmp_path / "scheduler.json", {}
    here = ["--scheduler-file", known, "--host", "127.0.0.1", "--no-dashboard"]

    def started(name, *command):
        (tmp_path / name).mkdir()
        environment = {**os.environ, **shared_programs()}
        with (tmp_path / name / "log").open("wb") as log:
            told = {"stdout": log, "stderr": log, "cwd": tmp_path / name, "env": environment}
            processes[name] = subprocess.Popen([*map(str, command)], **told)

    dask = [sys.executable, "-m", "dask"]
    started("scheduler", *dask, "scheduler", *here, "--port", 0, "--dashboard-address", "127.0.0.1:0")
    for name in ("one", "two"):
        alone = ["unshare", "--uts", "sh", "-c", f'hostname {name} && exec "$@"', "sh"] if MAY_NAME_HOSTS else []
        options = ["--no-nanny", "--nthreads", 1, "--local-directory", tmp_path / name / "scratch"]
        started(name, *alone, *dask, "worker", *here, *options)
    try:
        wait_for(lambda: known.exists() and known.stat().st_size > 0)
        yield json.loads(known.read_text())["address"], {name: processes[name] for name in ("one", "two")}
    finally:
        for process in processes.values():
            process.kill()
            process.wait()


@pytest.mark.slow
def test_a_cluster_that_loses_a_host_ends_as_if_it_had_not(tmp_path, hosts, monkeypatch):
    address, workers = hosts
    # The lease of a host that is gone is watched before it is taken; not for half a minute here.
    monkeypatch.setattr("trajens.app.sweeps.driver.Task", functools.partial(Task, watched=2 * BEAT))
    options = {**SMALL, "problem": "perceptron", "epochs": 50_000, "records": 50, "checkpoint_seconds": 0}
    directory, lost = SweepDirectory(tmp_path / "a"), []

    def lose():
        """Kill one host when its run has saved something; never ask for a stop."""
        for name in [] if lost else ("seed=1", "seed=2", "seed=3"):
            with contextlib.suppress(OSError):
                holding = json.loads(directory.task(name, "lease").read_text())["pid"]
                if holding == workers["one"].pid and len(checkpoints(directory.run(name))) > 1:
                    kill(workers["one"].pid)
                    lost.append(name)

    plan = {"options": options, "grid": {"seed": [1, 2, 3]}}
    swept = tj.sweep(plan, directory.path, "dask", scheduler=address, stop=lose)
    assert swept.is_complete
    where = [session["host"] for session in StoredRun(swept.run(lost[0])).sessions]
    assert where == (["one", "two"] if MAY_NAME_HOSTS else 2 * [platform.node()])
    trained([(directory.task(name, "toml"), tmp_path / name) for name in swept.outcomes])
    for name in swept.outcomes:
        assert_same(StoredRun(swept.run(name)), StoredRun(tmp_path / name))
