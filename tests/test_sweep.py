"""Sweeps: what a driver does with the outcomes of tasks, what is told of them, and that nothing is lost by any kill."""

import csv
import io
import os
import random
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import trajens as tj
from tests.sweeping import assert_same, children_of, command_of, finished, kill, started, trained, wait_for
from trajens.cli import app
from trajens.errors import InputError
from trajens.experiments import Experiment
from trajens.storage.stored import StoredRun
from trajens.sweeps import driver
from trajens.sweeps.kept import SweepDirectory
from trajens.sweeps.lease import Lease
from trajens.sweeps.looks import reached, rows_of, table_of
from trajens.sweeps.plan import Plan
from trajens.sweeps.state import Outcome, State, keep_outcome

SMALL = {"problem": "perceptron", "epochs": 200, "chains": 2, "records": 4, "tau": 2}
PLAN = {"options": SMALL, "grid": {"seed": [1, 2, 3]}}


class Given:
    """An engine whose tasks end as they are told to, when they are asked for the `after`-th time."""

    def __init__(self, outcomes, after=0):
        self.outcomes, self.after, self.submitted, self.cancelled = outcomes, after, [], []

    def submit(self, task):
        self.submitted.append(task.name)
        return GivenPending(self, task)

    def close(self):
        raise AssertionError("an engine that was given is not closed")


class GivenPending:
    def __init__(self, engine, task):
        self.engine, self.task, self.left = engine, task, engine.after

    def outcome(self):
        self.left -= 1
        if self.left >= 0:
            return None
        directory, outcome = SweepDirectory(self.task.path), self.engine.outcomes[self.task.name]
        keep_outcome(directory, self.task.name, outcome)
        directory.run(self.task.name).mkdir(exist_ok=True)
        (directory.run(self.task.name) / "checkpoint-1.npz").touch()
        return outcome

    def cancel(self):
        self.engine.cancelled.append(self.task.name)
        self.left = 0


def test_one_that_fails_is_told_and_tried_again_and_the_others_are_complete(tmp_path):
    outcomes = dict.fromkeys(["seed=1", "seed=3"], Outcome(State.COMPLETE)) | {
        "seed=2": Outcome(State.FAILED, "a sentence")
    }
    swept = tj.sweep(PLAN, tmp_path / "a", Given(outcomes))
    assert swept.failed == {"seed=2": "a sentence"}
    assert not swept.is_complete
    engine = Given({"seed=2": Outcome(State.COMPLETE), "seed=4": Outcome(State.COMPLETE)})
    swept = tj.sweep({"options": SMALL, "grid": {"seed": [1, 2, 3, 4]}}, tmp_path / "a", engine)
    assert engine.submitted == ["seed=2", "seed=4"]
    assert swept.is_complete
    assert swept.run("seed=4") == tmp_path / "a" / "runs" / "seed=4"
    assert not (tmp_path / "a" / "lease").exists()


def test_a_stop_asks_those_at_work_and_takes_back_the_rest(tmp_path):
    engine = Given({f"seed={i}": Outcome(State.STOPPED) for i in (1, 2, 3)}, after=5)
    directory, seen = SweepDirectory(tmp_path / "a"), []

    def stop():
        if not directory.task("seed=1", "lease").exists():
            Lease(directory.task("seed=1", "lease")).take()
        return True

    swept = tj.sweep(PLAN, tmp_path / "a", engine, stop=stop, show=lambda o: seen.append(dict(o)))
    assert engine.cancelled == ["seed=2", "seed=3"]
    assert directory.stop.exists()
    assert {outcome.state for outcome in swept.outcomes.values()} == {State.STOPPED}
    assert seen[0]["seed=2"].state is State.WAITING
    tj.sweep(PLAN, tmp_path / "a", Given({f"seed={i}": Outcome(State.COMPLETE) for i in (1, 2, 3)}))
    assert not directory.stop.exists()


def test_two_drivers_are_refused(tmp_path):
    directory = SweepDirectory(tmp_path / "a")
    directory.begin()
    lease = Lease(directory.lease)
    lease.take()
    with pytest.raises(InputError, match=rf"got a second one beside .*, process {os.getpid()}; wait for it"):
        tj.sweep(PLAN, tmp_path / "a", Given({}))
    lease.release()


def test_a_driver_that_lost_its_lease_stops(tmp_path, monkeypatch):
    monkeypatch.setattr(driver, "BEAT", 0.05)
    monkeypatch.setattr("trajens.sweeps.lease.BEAT", 0.0)
    engine = Given({f"seed={i}": Outcome(State.STOPPED) for i in (1, 2, 3)}, after=10**6)
    lease = tmp_path / "a" / "lease"
    swept = tj.sweep(PLAN, tmp_path / "a", engine, stop=lambda: lease.write_text("{}") and False)
    assert engine.cancelled == ["seed=1", "seed=2", "seed=3"]
    assert not swept.is_complete


def test_an_interrupt_in_python_asks_for_a_stop(tmp_path):
    engine = Given({f"seed={i}": Outcome(State.STOPPED) for i in (1, 2, 3)}, after=3)

    def interrupted():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tj.sweep(PLAN, tmp_path / "a", engine, stop=interrupted)
    assert (tmp_path / "a" / "stop").exists()
    assert not (tmp_path / "a" / "lease").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"engine": "cloud"}, "engine must be one of 'local', 'dask', 'slurm', got 'cloud'"),
        ({"engine": "dask"}, "scheduler must be the address of a Dask scheduler, got none"),
        ({"engine": "dask", "workers": 2, "scheduler": "tcp://h:1"}, "workers must be left out with the engine dask"),
        ({"engine": "local", "scheduler": "tcp://h:1"}, "scheduler must be left out with the engine local"),
        ({"engine": "slurm", "workers": 2}, "workers must be left out with the engine slurm"),
        ({"engine": 7}, "engine must be a name, a Dask Client or an Engine, got int"),
    ],
)
def test_engines_that_are_none_are_refused(tmp_path, arguments, sentence):
    with pytest.raises(InputError, match=re.escape(sentence)):
        tj.sweep(PLAN, tmp_path / "a", **arguments)


def test_workers_share_the_cores_or_the_gpus(monkeypatch):
    from trajens.sweeps.engines import local

    monkeypatch.setattr(local, "_cores", lambda: [0, 1, 2, 3, 6])
    assert [place["TRAJENS_CORES"] for place in local.places(2)] == ["0,1", "2,3,6"]
    assert [place["TRAJENS_CORES"] for place in local.places()] == ["0", "1", "2", "3", "6"]
    assert [place["TRAJENS_CORES"] for place in local.places(6)][-1] == "0"
    monkeypatch.setenv("JAX_PLATFORMS", "cuda,cpu")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,3")
    places = local.places(per_gpu=2)
    assert [place["CUDA_VISIBLE_DEVICES"] for place in places] == ["1", "3", "1", "3"]
    assert {place["XLA_PYTHON_CLIENT_MEM_FRACTION"] for place in places} == {"0.450"}
    assert "TRAJENS_CORES" not in places[0]


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """A sweep of which one run is complete, one with two s too, and one failed."""
    path = tmp_path_factory.mktemp("sweep") / "a"
    # As many chains in both, so that they are one program.
    options = {name: value for name, value in SMALL.items() if name != "chains"}
    rows = [{"s": 20, "chains": 4}, {"s": [5, 10], "chains": 2}, {"s": 30, "chains": 4}]
    plan = Plan.of({"options": options, "list": rows})
    directory = SweepDirectory(path)
    directory.begin()
    directory.keep({run.name: run.config.to_toml() for run in plan.runs})
    for run in plan.runs[:2]:
        Experiment(run.config).run(directory.run(run.name))
        keep_outcome(directory, run.name, Outcome(State.COMPLETE))
    keep_outcome(directory, "chains=4,s=30", Outcome(State.FAILED, "a sentence, with a comma"))
    return directory


def test_rows_have_what_varies_and_the_summary_of_every_s(swept):
    rows = list(csv.DictReader(io.StringIO(table_of(rows_of(swept)))))
    assert [(row["run"], row["state"], row["s"]) for row in rows] == [
        *(
            ("chains=4,s=20", "complete", "20.0"),
            ("chains=2,s=5+10", "complete", "5.0"),
            ("chains=2,s=5+10", "complete", "10.0"),
        ),
        ("chains=4,s=30", "failed", "30"),
    ]
    stored = StoredRun(swept.run("chains=2,s=5+10"))
    assert float(rows[2]["loss"]) == stored.summary([2, 3])["loss"]
    assert rows[3]["loss"] == ""
    assert rows[3]["sentence"] == "a sentence, with a comma"
    assert "tau" not in rows[0]


def test_how_far_a_run_has_come_is_read_from_its_records(swept):
    stored = StoredRun(swept.run("chains=4,s=20"))
    assert reached(swept.run("chains=4,s=20")) == (1.0, stored.records["loss"][:, -1].mean())
    assert all(np.isnan(reached(swept.run("chains=4,s=30"))))


def test_the_commands_that_look(swept, capsys, tmp_path):
    def called(*arguments):
        with pytest.raises(SystemExit) as end:
            app(["sweep", *map(str, arguments)], prog_name="trajens")
        assert end.value.code == 0
        return capsys.readouterr().out

    assert "2 of 3 runs complete, 1 failed" in called("status", swept.path)
    assert called("gather", swept.path) == table_of(rows_of(swept))
    assert called("gather", swept.path, "--out", tmp_path / "t.csv") == ""
    assert (tmp_path / "t.csv").read_text() == table_of(rows_of(swept))


def test_trajens_and_a_task_are_loaded_without_dask_and_a_task_without_jax():
    code = "import sys, trajens; trajens.sample; assert not {'dask', 'distributed'} & {*sys.modules}"
    subprocess.run([sys.executable, "-c", code], check=True)
    code = "import sys, trajens.sweeps.task; assert not {'dask', 'jax'} & {*sys.modules}"
    subprocess.run([sys.executable, "-c", code], check=True)


KILLED = """
[options]
problem = "perceptron"
epochs = 100000
chains = 1
records = 20
checkpoint_seconds = 0
[grid]
tau = [4, 8]
seed = [1, 2]
"""


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The runs of the plan above, alone: name -> run."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "plan.toml").write_text(KILLED)
    runs = Plan.of(folder / "plan.toml").runs
    for run in runs:
        (folder / f"{run.name}.toml").write_text(run.config.to_toml())
    trained([(folder / f"{run.name}.toml", folder / run.name) for run in runs])
    return {run.name: StoredRun(folder / run.name) for run in runs}


@pytest.mark.parametrize(
    "seed",
    [pytest.param(0, marks=pytest.mark.slow), *(pytest.param(more, marks=pytest.mark.long) for more in (1, 2, 3))],
)
def test_a_sweep_whose_workers_and_driver_are_killed_ends_where_it_would_have_ended(tmp_path, undisturbed, seed):
    (tmp_path / "plan.toml").write_text(KILLED)
    rng, killed = random.Random(seed), []
    # A driver is slow to come back.
    kinds = ["driver", *2 * ["worker", "run"]]
    rng.shuffle(kinds)
    process = started(tmp_path, "--workers", 2)
    for kind in kinds:
        # Any moment, from the first import to the last checkpoint.
        time.sleep(rng.uniform(0.0, 2.5))
        victims = alive(process.pid, kind)
        while process.poll() is None and not victims:
            time.sleep(0.05)
            victims = alive(process.pid, kind)
        if process.poll() is not None:
            break
        killed.append(kind)
        kill(rng.choice(victims))
        if kind == "driver":
            process.communicate()
            process = started(tmp_path, "--workers", 2)
    finished(process)
    assert len(killed) > 2
    directory = SweepDirectory(tmp_path / "a")
    for name, expected in undisturbed.items():
        assert_same(StoredRun(directory.run(name)), expected)


def alive(driver, kind):
    """Processes of a sweep: the driver, its workers, or those that run for them."""
    workers = [pid for pid in children_of(driver) if b"spawn_main" in command_of(pid)]
    runs = [pid for worker in workers for pid in children_of(worker) if b"sweeps.child" in command_of(pid)]
    return {"driver": [driver], "worker": workers, "run": runs}[kind]


@pytest.mark.slow
def test_ctrl_c_stops_a_sweep_and_the_same_command_goes_on(tmp_path, undisturbed):
    (tmp_path / "plan.toml").write_text(KILLED)
    process = started(tmp_path, "--workers", 1, start_new_session=True)
    directory = SweepDirectory(tmp_path / "a")
    wait_for(lambda: directory.path.exists() and list(directory.runs.glob("*/checkpoint-*.npz")))
    # As a terminal does: to everybody in front of it.
    os.killpg(process.pid, signal.SIGINT)
    assert "the same command goes on" in finished(process, 75)
    assert any("asked to stop" in file.read_text() for file in directory.tasks.glob("*.json"))
    assert not list(directory.tasks.glob("*.lease"))
    finished(started(tmp_path, "--workers", 1))
    for name, expected in undisturbed.items():
        assert_same(StoredRun(directory.run(name)), expected)


@pytest.mark.slow
def test_a_cluster_of_somebody_elses_is_used_by_its_address_and_by_its_client(tmp_path):
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        assert tj.sweep(PLAN, tmp_path / "a", client).is_complete
        assert tj.sweep(PLAN, tmp_path / "b", "dask", scheduler=cluster.scheduler_address).is_complete
        assert client.status == "running"
    for name in ("seed=1", "seed=2", "seed=3"):
        paths = [StoredRun(tmp_path / where / "runs" / name).paths for where in "ab"]
        np.testing.assert_array_equal(*paths)
