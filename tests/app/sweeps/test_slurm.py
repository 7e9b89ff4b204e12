"""Sweeps on a real SLURM, through what befalls jobs there: time limits, preemption, ``scancel``, kills of all kinds.

``make cluster`` brings up the SLURM of `tests/cluster/slurm.sh`, whose partitions are meant below. Every run ends, bit
for bit, as it does alone.
"""

import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.app.sweeps.sweeping import assert_same, finished, kill, started, trained, wait_for
from trajens.app.sweeps.directory import SweepDirectory
from trajens.run.stored import StoredRun
from trajens.storage.checkpoint import checkpoints

pytestmark = pytest.mark.cluster

SHORT, LONG = 400_000, 1_500_000
"""Epochs of runs that live long enough to be disturbed, and, on a busy core, longer than a job of a minute."""


@pytest.fixture(autouse=True, scope="module")
def slurm():
    if shutil.which("sinfo") is None or subprocess.run(["sinfo"], capture_output=True).returncode != 0:
        pytest.skip("there is no SLURM that answers; use make cluster")


@pytest.fixture(autouse=True)
def nothing_is_left_in_the_queue(slurm):
    yield
    left = said("squeue", "-h", "-o", "%i %j %T")
    subprocess.run(["scancel", "--user=root"], check=True)
    assert left == ""


class Sweep:
    """One in a folder of its own, with runs seed=1, seed=2, .."""

    def __init__(self, folder, epochs, seeds):
        folder.mkdir()
        self.folder, self.directory = folder, SweepDirectory(folder / "a")
        options = f'problem = "perceptron"\nepochs = {epochs}\nchains = 1\nrecords = 20\ncheckpoint_seconds = 0\n'
        (folder / "plan.toml").write_text(f"[options]\n{options}[grid]\nseed = {seeds}\n")
        self.names = [f"seed={seed}" for seed in seeds]

    def started(self, partition="main", minutes=5):
        return started(self.folder, "--engine", "slurm", "--minutes", minutes, "--slurm", f"partition={partition}")

    def await_runs(self):
        """Until all of them have saved something."""
        wait_for(lambda: all(len(checkpoints(self.directory.run(name))) > 1 for name in self.names))

    def job(self, name):
        return self.directory.task(name, "job").read_text()

    def sessions(self, name):
        return len(StoredRun(self.directory.run(name)).sessions)

    def what_jobs_said(self):
        return "".join(file.read_text() for file in sorted((self.directory.path / "slurm").glob("*.err")))


@pytest.fixture(scope="module")
def assert_all_undisturbed(tmp_path_factory):
    """A run that nobody disturbed is made once for each number of epochs."""
    known, folder = {}, tmp_path_factory.mktemp("whole")

    def check(sweep, epochs):
        new = [name for name in sweep.names if (name, epochs) not in known]
        known.update({(name, epochs): folder / f"{name},{epochs}" for name in new})
        trained([(sweep.directory.task(name, "toml"), known[name, epochs]) for name in new])
        for name in sweep.names:
            assert_same(StoredRun(sweep.directory.run(name)), StoredRun(known[name, epochs]))

    return check


def said(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def restarts(job):
    return int(re.search(r"Restarts=(\d+)", said("scontrol", "show", "job", job))[1])


def test_a_run_longer_than_its_jobs_goes_on_in_the_next(tmp_path, assert_all_undisturbed):
    for times in (1, 3, 9):
        sweep = Sweep(tmp_path / str(times), times * LONG, [1])
        finished(sweep.started(minutes=1))
        # On a faster core, a longer run.
        if restarts(sweep.job("seed=1")) > 0:
            break
    assert restarts(sweep.job("seed=1")) > 0
    assert sweep.sessions("seed=1") > 1
    assert "this job is timed-out" in sweep.what_jobs_said()
    assert_all_undisturbed(sweep, times * LONG)


@pytest.fixture(params=["killed", "signalled"])
def preemption(request):
    """What SLURM does with a job that must go: kill it, or send it the signal of its time limit first."""
    file = Path(os.environ["SLURM_CONF"])
    usual = file.read_text()
    if request.param == "signalled":
        file.write_text(f"{usual}SlurmctldParameters=preempt_send_user_signal\n")
    subprocess.run(["scontrol", "reconfigure"], check=True)
    yield request.param
    file.write_text(usual)
    subprocess.run(["scontrol", "reconfigure"], check=True)


def test_a_job_that_is_preempted_goes_on(tmp_path, assert_all_undisturbed, preemption):
    sweeps = {partition: Sweep(tmp_path / partition, SHORT, [1]) for partition in ("main", "warned", "lost")}
    drivers = [sweep.started(partition) for partition, sweep in sweeps.items()]
    for sweep in sweeps.values():
        sweep.await_runs()
    jobs = {partition: sweep.job("seed=1") for partition, sweep in sweeps.items()}
    subprocess.run(["sbatch", "-o", "/dev/null", "-p", "high", "-c", "4", "--wrap", "true"], check=True)
    for driver in drivers:
        finished(driver)
    for partition, sweep in sweeps.items():
        assert sweep.sessions("seed=1") > 1
        assert ("Caught signal SIGUSR2" in sweep.what_jobs_said()) == (preemption == "signalled"), partition
        assert_all_undisturbed(sweep, SHORT)
    assert restarts(jobs["main"]) > 0
    if preemption == "killed":
        assert sweeps["lost"].job("seed=1") != jobs["lost"]


def test_a_job_that_is_cancelled_or_killed_is_submitted_again_and_the_others_are_not(tmp_path, assert_all_undisturbed):
    sweep = Sweep(tmp_path / "a", SHORT, [1, 2, 3])
    driver = sweep.started()
    sweep.await_runs()
    jobs = {name: sweep.job(name) for name in sweep.names}
    subprocess.run(["scancel", jobs["seed=1"]], check=True)
    kill(json.loads(sweep.directory.task("seed=2", "lease").read_text())["pid"])
    finished(driver)
    assert [sweep.job(name) == jobs[name] for name in sweep.names] == [False, False, True]
    assert [sweep.sessions(name) for name in sweep.names] == [2, 2, 1]
    assert_all_undisturbed(sweep, SHORT)


def test_jobs_go_on_without_their_driver_and_the_next_one_goes_on_with_them(tmp_path, assert_all_undisturbed):
    sweep = Sweep(tmp_path / "a", SHORT, [1, 2])
    driver = sweep.started()
    sweep.await_runs()
    kill(driver.pid)
    driver.communicate()
    jobs = {name: sweep.job(name) for name in sweep.names}
    # Nobody is there to see it.
    subprocess.run(["scancel", jobs["seed=1"]], check=True)
    saved = checkpoints(sweep.directory.run("seed=2"))
    wait_for(lambda: checkpoints(sweep.directory.run("seed=2")) != saved)
    driver = sweep.started()
    wait_for(lambda: sweep.job("seed=1") != jobs["seed=1"])
    assert "must be driven by one process at a time" in finished(sweep.started(), 2)
    finished(driver)
    assert sweep.job("seed=2") == jobs["seed=2"]
    assert [sweep.sessions(name) for name in sweep.names] == [2, 1]
    assert_all_undisturbed(sweep, SHORT)


def test_a_sweep_that_is_stopped_leaves_no_jobs_and_the_same_command_goes_on(tmp_path, assert_all_undisturbed):
    sweep = Sweep(tmp_path / "a", SHORT, [1])
    driver = sweep.started()
    sweep.await_runs()
    driver.send_signal(signal.SIGINT)
    assert "the same command goes on" in finished(driver, 75)
    assert said("squeue", "-h") == ""
    finished(sweep.started())
    assert sweep.sessions("seed=1") == 2
    assert_all_undisturbed(sweep, SHORT)


def test_a_job_that_slurm_refuses_is_a_sentence(tmp_path):
    sweep = Sweep(tmp_path / "a", SHORT, [1])
    messages = finished(sweep.started("nowhere"), 2)
    assert "invalid partition" in messages
    assert "Traceback" not in messages
