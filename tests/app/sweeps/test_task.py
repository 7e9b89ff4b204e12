"""Tasks of a sweep: one at a time, states that files tell, and a run that goes on after whatever happened to it."""

import json
import os
import platform
import signal
import subprocess
import sys
import threading
import time

import pytest

from tests.app.sweeps.sweeping import children_of, shared_programs, wait_for
from trajens.app.sweeps import lease as leases
from trajens.app.sweeps.directory import Outcome, SweepDirectory, TaskState, keep_outcome, outcome_of
from trajens.app.sweeps.lease import Lease, holder
from trajens.app.sweeps.plan import Plan
from trajens.app.sweeps.task import Task, save
from trajens.run.stored import StoredRun
from trajens.storage.checkpoint import checkpoints

SMALL = {"problem": "perceptron", "epochs": 200, "chains": 2, "records": 4, "tau": 2}


def directory_of(path, **options):
    directory = SweepDirectory(path)
    directory.begin()
    directory.keep({run.name: run.config.to_toml() for run in Plan.of({"options": {**SMALL, **options}}).runs})
    return directory


def task(directory):
    """A task whose processes leave each other their programs."""
    return Task(str(directory.path), "run", shared_programs())


def written(file, **changes):
    """A lease as another process would have made it."""
    found = json.loads(file.read_text())
    file.write_text(json.dumps({**found, "token": "other", **changes}))


def test_a_lease_is_held_by_one(tmp_path):
    first, second = Lease(tmp_path / "lease"), Lease(tmp_path / "lease")
    assert first.take()
    assert not second.take()
    assert holder(tmp_path / "lease") == f"{platform.node()}, process {os.getpid()}"
    second.release()
    assert first.keep()
    first.release()
    assert second.take()
    assert list(tmp_path.iterdir()) == [tmp_path / "lease"]


def test_a_lease_of_a_process_that_is_gone_is_free_at_once(tmp_path):
    code = f"from trajens.app.sweeps.lease import *; Lease(Path({str(tmp_path / 'lease')!r})).take()"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert holder(tmp_path / "lease") is None
    begin = time.monotonic()
    assert Lease(tmp_path / "lease").take()
    assert time.monotonic() - begin < leases.BEAT


def test_a_lease_of_another_machine_is_free_when_nobody_touches_it(tmp_path):
    file, mine = tmp_path / "lease", Lease(tmp_path / "lease", watched=0.5)
    Lease(file).take()
    written(file, machine="another")
    beating = threading.Event()

    def beat():
        while not beating.wait(0.02):
            os.utime(file)

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        assert not mine.take()
    finally:
        beating.set()
        thread.join()
    assert mine.take()


def test_who_lost_a_lease_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(leases, "BEAT", 0.0)
    lease = Lease(tmp_path / "lease")
    lease.take()
    assert lease.keep()
    written(tmp_path / "lease")
    assert not lease.keep()
    lease.release()
    assert (tmp_path / "lease").exists()


def test_of_many_who_want_a_lease_that_is_over_one_gets_it(tmp_path):
    for _ in range(20):
        Lease(tmp_path / "lease").take()
        written(tmp_path / "lease", pid=2**22 + 1)
        wanted, got, start = [Lease(tmp_path / "lease") for _ in range(8)], [], threading.Barrier(8)

        def want(lease, start=start, got=got):
            start.wait()
            if lease.take():
                got.append(lease)

        threads = [threading.Thread(target=want, args=(lease,)) for lease in wanted]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        holding = json.loads((tmp_path / "lease").read_text())["token"]
        assert sum(lease._token == holding for lease in got) == 1
        (tmp_path / "lease").unlink()


def test_states_are_read_from_files(tmp_path):
    directory = directory_of(tmp_path / "a")
    assert outcome_of(directory, "run") == (TaskState.WAITING, "")
    lease = Lease(directory.task("run", "lease"))
    lease.take()
    assert outcome_of(directory, "run").state is TaskState.RUNNING
    lease.release()
    directory.run("run").mkdir()
    (directory.run("run") / "config.toml").touch()
    assert outcome_of(directory, "run").state is TaskState.STOPPED
    keep_outcome(directory, "run", Outcome(TaskState.FAILED, "a sentence"))
    assert outcome_of(directory, "run") == (TaskState.FAILED, "a sentence")
    keep_outcome(directory, "run", Outcome(TaskState.COMPLETE))
    assert outcome_of(directory, "run").state is TaskState.STOPPED
    (directory.run("run") / "checkpoint-1.npz").touch()
    assert outcome_of(directory, "run").state is TaskState.COMPLETE
    directory.task("run", "json").write_text("{")
    assert outcome_of(directory, "run").state is TaskState.STOPPED


@pytest.mark.slow
def test_a_task_makes_a_run_complete_and_then_does_nothing(tmp_path):
    directory = directory_of(tmp_path / "a")
    assert task(directory)() == Outcome(TaskState.COMPLETE)
    assert StoredRun(directory.run("run")).is_complete
    assert task(directory)() == Outcome(TaskState.COMPLETE)
    assert len(StoredRun(directory.run("run")).sessions) == 1
    assert not directory.task("run", "lease").exists()


def test_a_setting_that_fails_says_so(tmp_path):
    data = tmp_path / "bad.csv"
    data.write_text("a,label\n1,0\n2,1\n")
    directory = SweepDirectory(tmp_path / "a")
    directory.begin()
    plan = Plan.of({"options": {"problem": str(data), "epochs": 100}})
    directory.keep({run.name: run.config.to_toml() for run in plan.runs})
    data.write_text("a,label\n1,0\n2026-01-31,1\n")
    outcome = task(directory)()
    assert outcome.state is TaskState.FAILED
    assert "bad.csv' must" in outcome.sentence
    assert outcome_of(directory, "run") == outcome


@pytest.mark.slow
def test_a_task_stops_when_asked_and_goes_on_when_not(tmp_path):
    directory = directory_of(tmp_path / "a", epochs=2**31 - 1, checkpoint_seconds=0.0)
    found = []
    thread = threading.Thread(target=lambda: found.append(task(directory)()))
    thread.start()
    wait_for(lambda: checkpoints(directory.run("run")))
    directory.stop.touch()
    thread.join()
    assert found == [Outcome(TaskState.STOPPED, "asked to stop")]
    assert task(directory)().state is TaskState.STOPPED
    assert 0 < StoredRun(directory.run("run")).epoch < 2**31 - 1


@pytest.mark.slow
def test_a_process_that_is_killed_is_started_again_and_one_without_a_parent_ends(tmp_path):
    directory = directory_of(tmp_path / "a", epochs=2**31 - 1, checkpoint_seconds=0.0)
    code = f"from trajens.app.sweeps.task import Task; Task({str(directory.path)!r}, 'run')()"
    parent = subprocess.Popen([sys.executable, "-c", code])
    wait_for(lambda: checkpoints(directory.run("run")))
    [child] = children_of(parent.pid)
    os.kill(child, signal.SIGKILL)
    wait_for(lambda: children_of(parent.pid) not in ([], [child]))
    [child] = children_of(parent.pid)
    parent.kill()
    parent.wait()
    wait_for(lambda: not os.path.exists(f"/proc/{child}"))
    assert outcome_of(directory, "run").state is TaskState.STOPPED


@pytest.mark.slow
def test_a_run_saves_itself_when_the_time_of_its_job_is_over(tmp_path):
    directory = directory_of(tmp_path / "a", epochs=2**31 - 1, checkpoint_seconds=1e6)

    def is_over(*_):
        save(60)
        raise SystemExit

    def tell():
        wait_for(lambda: checkpoints(directory.run("run")))
        os.kill(os.getpid(), signal.SIGUSR2)

    usual = signal.signal(signal.SIGUSR2, is_over)
    thread = threading.Thread(target=tell)
    thread.start()
    try:
        with pytest.raises(SystemExit):
            task(directory)()
    finally:
        thread.join()
        signal.signal(signal.SIGUSR2, usual)
    assert StoredRun(directory.run("run")).epoch > 0
    assert not directory.task("run", "lease").exists()


@pytest.mark.slow
def test_a_run_that_is_killed_without_end_fails(tmp_path, monkeypatch):
    directory = directory_of(tmp_path / "a")
    outcome = Task(str(directory.path), "run", {"PYTHONPATH": suicide(tmp_path)})()
    assert outcome.state is TaskState.FAILED
    assert "got signal 9 3 times" in outcome.sentence


@pytest.mark.slow
@pytest.mark.parametrize("is_of_the_place", [False, True])
def test_a_run_larger_than_its_worker_fails(tmp_path, monkeypatch, is_of_the_place):
    monkeypatch.setenv("TRAJENS_MEMORY", str(2**40 if is_of_the_place else 50 * 2**20))
    place = {"TRAJENS_MEMORY": str(50 * 2**20)} if is_of_the_place else {}
    outcome = Task(str(directory_of(tmp_path / "a").path), "run", place)()
    assert outcome.state is TaskState.FAILED
    assert "must fit into the memory of its worker" in outcome.sentence


def suicide(folder):
    (folder / "jax.py").write_text("import os; os.kill(os.getpid(), 9)")
    return str(folder)
