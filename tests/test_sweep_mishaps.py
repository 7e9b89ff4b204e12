"""Sweeps in a world that fails them: settings that cannot be run, full disks, clusters that lose machines."""

import os
import shutil
import subprocess

import numpy as np
import pytest

import trajens as tj
from tests.sweeping import Here, assert_same, trained
from trajens.cli import app
from trajens.storage.stored import StoredRun
from trajens.sweeps.kept import SweepDirectory

SMALL = {"epochs": 2000, "chains": 1, "records": 4, "tau": 2}


@pytest.mark.slow
def test_settings_that_fail_are_told_with_their_sentences_and_tried_again(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("trajens.sweeps.driver.engine_named", lambda *_, **__: Here())
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
    assert code == 4
    assert "problem=good.csv,sigma=1000000000000 failed: the loss of the initial path must be finite" in messages
    assert "problem=bad.csv failed: " in messages
    assert "1 of 3 runs complete, 2 failed" in messages
    (tmp_path / "bad.csv").write_text("\n".join(table))
    code, messages = swept()
    assert code == 4
    assert "2 of 3 runs complete, 1 failed" in messages


@pytest.fixture
def disk(tmp_path):
    """A file system of a megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True).returncode != 0:
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
    assert "must be written, got No space left on device; free some space" in failed["seed=1"]
    assert "must be written, got not even the reason; free some space" in failed["seed=2"]
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
