"""Sweeps: what a driver does with the outcomes of tasks, what is told of them, and that nothing is lost by any kill."""

import contextlib
import csv
import io
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime

import numpy as np
import pytest
import typer
from rich.console import Console

import trajens as tj
from tests.app.sweeps.sweeping import assert_same, children_of, command_of, finished, kill, started, trained, wait_for
from trajens.app.cli import app
from trajens.app.cli import sweep as engines
from trajens.app.cli import sweep as sweep_table
from trajens.app.experiment import Experiment
from trajens.app.sweeps import driver
from trajens.app.sweeps.directory import Outcome, SweepDirectory, TaskState, keep_outcome
from trajens.app.sweeps.lease import Lease
from trajens.app.sweeps.plan import Plan
from trajens.app.sweeps.results import Reached, parquet_of, read_progress, rows_of, table_of
from trajens.errors import InputError
from trajens.run.stored import StoredRun

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
    outcomes = dict.fromkeys(["seed=1", "seed=3"], Outcome(TaskState.COMPLETE)) | {
        "seed=2": Outcome(TaskState.FAILED, "a sentence")
    }
    swept = tj.sweep(PLAN, tmp_path / "a", Given(outcomes))
    assert swept.failed == {"seed=2": "a sentence"}
    assert not swept.is_complete
    engine = Given({"seed=2": Outcome(TaskState.COMPLETE), "seed=4": Outcome(TaskState.COMPLETE)})
    swept = tj.sweep({"options": SMALL, "grid": {"seed": [1, 2, 3, 4]}}, tmp_path / "a", engine)
    assert engine.submitted == ["seed=2", "seed=4"]
    assert swept.is_complete
    assert swept.run("seed=4") == tmp_path / "a" / "runs" / "seed=4"
    assert not (tmp_path / "a" / "lease").exists()


def test_a_stop_asks_those_at_work_and_takes_back_the_rest(tmp_path):
    engine = Given({f"seed={i}": Outcome(TaskState.STOPPED) for i in (1, 2, 3)}, after=5)
    directory, seen = SweepDirectory(tmp_path / "a"), []

    def stop():
        if not directory.task("seed=1", "lease").exists():
            Lease(directory.task("seed=1", "lease")).take()
        return True

    swept = tj.sweep(PLAN, tmp_path / "a", engine, stop=stop, show=lambda o: seen.append(dict(o)))
    assert engine.cancelled == ["seed=2", "seed=3"]
    assert directory.stop.exists()
    assert {outcome.state for outcome in swept.outcomes.values()} == {TaskState.STOPPED}
    assert seen[0]["seed=2"].state is TaskState.WAITING
    tj.sweep(PLAN, tmp_path / "a", Given({f"seed={i}": Outcome(TaskState.COMPLETE) for i in (1, 2, 3)}))
    assert not directory.stop.exists()


def test_programs_are_shared_in_a_folder_of_the_user_alone(tmp_path, monkeypatch):
    monkeypatch.delenv(driver._FOLDER, raising=False)
    directory, folder = SweepDirectory(tmp_path), tmp_path / driver.COMPILED
    assert driver._shared_programs(directory)[driver._FOLDER] == str(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o777)
    with pytest.warns(UserWarning, match=f"'{folder}' can be written by others: programs that are compiled are not"):
        assert driver._shared_programs(directory) == {}
    # What the user has chosen is the user's.
    monkeypatch.setenv(driver._FOLDER, "elsewhere")
    assert driver._shared_programs(directory)[driver._FOLDER] == "elsewhere"
    monkeypatch.delenv(driver._FOLDER)
    folder.chmod(0o700)
    monkeypatch.setattr(os, "getuid", lambda: folder.stat().st_uid + 1)
    with pytest.warns(UserWarning, match="can be written by others"):
        assert driver._shared_programs(directory) == {}


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
    monkeypatch.setattr("trajens.app.sweeps.lease.BEAT", 0.0)
    engine = Given({f"seed={i}": Outcome(TaskState.STOPPED) for i in (1, 2, 3)}, after=10**6)
    lease = tmp_path / "a" / "lease"
    swept = tj.sweep(PLAN, tmp_path / "a", engine, stop=lambda: lease.write_text("{}") and False)
    assert engine.cancelled == ["seed=1", "seed=2", "seed=3"]
    assert not swept.is_complete


def test_an_interrupt_in_python_asks_for_a_stop(tmp_path):
    engine = Given({f"seed={i}": Outcome(TaskState.STOPPED) for i in (1, 2, 3)}, after=3)

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
    from trajens.app.sweeps.engines import local

    monkeypatch.setattr(local, "_cores", lambda: [0, 1, 2, 3, 6])
    assert [place["TRAJENS_CORES"] for place in local.places(2)] == ["0,1", "2,3,6"]
    assert [place["TRAJENS_CORES"] for place in local.places()] == ["0", "1", "2", "3", "6"]
    assert [place["TRAJENS_CORES"] for place in local.places(6)][-1] == "0"
    assert [place["TRAJENS_CORES"] for place in local.places(tasks=1)] == ["0,1,2,3,6"]
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
        keep_outcome(directory, run.name, Outcome(TaskState.COMPLETE))
    keep_outcome(directory, "chains=4,s=30", Outcome(TaskState.FAILED, "a sentence, with a comma"))
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


def test_an_option_is_no_number_of_the_same_name(tmp_path):
    directory = SweepDirectory(tmp_path / "a")
    directory.begin()
    plan = Plan.of({"options": SMALL, "grid": {"acceptance": ["penalty", "paper"]}})
    directory.keep({run.name: run.config.to_toml() for run in plan.runs})
    keep_outcome(directory, "acceptance=paper", Outcome(TaskState.FAILED, "a sentence"))
    assert [row["option_acceptance"] for row in rows_of(directory)] == ["penalty", "paper"]
    assert "acceptance" not in rows_of(directory)[0]


def test_how_far_a_run_has_come_is_read_from_its_records(swept):
    stored = StoredRun(swept.run("chains=4,s=20"))
    share, loss, left = read_progress(swept.run("chains=4,s=20"))
    assert (share, loss) == (1.0, stored.records["loss"][:, -1].mean())
    assert left == 0 or np.isnan(left)
    assert all(np.isnan(read_progress(swept.run("chains=4,s=30"))))


def test_the_time_left_is_what_the_rest_takes_at_the_speed_since_the_last_start(swept, tmp_path):
    """Half of the records after 30 s; of a run that went on from there, half of the rest after 30 s."""
    run = tmp_path / "run"
    shutil.copytree(swept.run("chains=4,s=20"), run)
    lines = (run / "records.csv").read_text().splitlines(keepends=True)
    epochs = sorted({int(line.split(",")[1]) for line in lines[1:]})
    (run / "records.csv").write_text("".join(line for line in lines if line[0] == "c" or int(line.split(",")[1]) < 200))
    share = epochs[-2] / 200
    now = time.time()
    sessions = [{"epoch": 0, "started": when(now - 40)}]
    (run / "sessions.jsonl").write_text(json.dumps(sessions[0]) + "\n")
    os.utime(run / "records.csv", (now - 10, now - 10))
    assert read_progress(run).left == pytest.approx((1 - share) * 30 / share - 10, abs=2)
    sessions.append({"epoch": epochs[0], "started": when(now - 40)})
    (run / "sessions.jsonl").write_text("".join(json.dumps(session) + "\n" for session in sessions))
    assert read_progress(run).left == pytest.approx((1 - share) * 30 / (share - epochs[0] / 200) - 10, abs=2)
    (run / "sessions.jsonl").write_text("")
    assert read_progress(run).share == share
    assert np.isnan(read_progress(run).left)


def when(moment):
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds")


def test_a_run_on_a_budget_is_as_far_as_its_data(swept, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(swept.run("chains=4,s=20"), run)
    used = StoredRun(run).records["data_used"][:, -1].sum()
    (run / "config.toml").write_text(f"budget = {4.0 * used}\n")
    assert read_progress(run).share == 0.25


def test_a_table_in_parquet_has_types_and_the_sentences_of_what_failed(swept, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    with pytest.raises(SystemExit) as end:
        app(["sweep", "gather", str(swept.path), "--out", str(tmp_path / "t.parquet")], prog_name="trajens")
    assert end.value.code == 0
    table, rows = parquet.read_table(tmp_path / "t.parquet"), rows_of(swept)
    types = {field.name: str(field.type) for field in table.schema}
    assert list(types) == list(csv.DictReader(io.StringIO(table_of(rows))).fieldnames)
    assert {types[name] for name in ("run", "state", "sentence")} == {"string"}
    assert {types[name] for name in ("s", "loss", "loss_stderr", "acceptance", "seconds", "tilt_error")} == {"double"}
    assert {types[name] for name in ("chains", "epochs", "data_used")} == {"int64"}
    found = table.to_pylist()
    assert found[3] == {
        **dict.fromkeys(types),
        **{"run": "chains=4,s=30", "state": "failed", "chains": 4, "s": 30.0, "sentence": "a sentence, with a comma"},
    }
    for row, expected in zip(found[:3], rows[:3], strict=True):
        assert {name: row[name] for name in ("run", "loss", "data_used")} == {
            name: expected[name] for name in ("run", "loss", "data_used")
        }
        assert (row["tilt_error"] is None) == np.isnan(expected["tilt_error"])


def test_columns_of_parquet_are_as_narrow_as_their_values():
    pyarrow_parquet = pytest.importorskip("pyarrow.parquet")
    rows = [
        {"prior": "flat", "tau": 4, "sigma": 1, "tune": True, "hidden": [4, 2], "loss": None, "sentence": ""},
        {"prior": 0.3, "tau": None, "sigma": 0.5, "tune": None, "hidden": None, "sentence": "failed"},
    ]
    table = pyarrow_parquet.read_table(io.BytesIO(parquet_of(rows)))
    assert {field.name: str(field.type) for field in table.schema} == {
        **{"prior": "string", "tau": "int64", "sigma": "double", "tune": "bool", "hidden": "string"},
        **{"loss": "double", "sentence": "string"},
    }
    assert table["tau"].to_pylist() == [4, None]
    assert table["prior"].to_pylist() == ["flat", "0.3"]
    assert table["hidden"].to_pylist() == ["[4, 2]", None]


def test_a_table_in_parquet_without_pyarrow_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"pip install 'trajens\[parquet\]', or write a \.csv file"):
        parquet_of([{"run": "a", "sentence": ""}])


def test_runs_without_a_summary_have_a_row_for_every_s(tmp_path):
    plan = Plan.of({"options": SMALL, "list": [{"s": [5, 10]}, {"s": "60:1000"}, {"s": 30}]})
    directory = SweepDirectory(tmp_path / "a")
    directory.begin()
    directory.keep({run.name: run.config.to_toml() for run in plan.runs})
    keep_outcome(directory, plan.runs[0].name, Outcome(TaskState.FAILED, "a sentence"))
    assert [(row["s"], row["state"], row["sentence"]) for row in rows_of(directory)] == [
        *((5.0, "failed", "a sentence"), (10.0, "failed", "a sentence")),
        *((1000.0, "waiting", ""), (30, "waiting", "")),
    ]


class Lines:
    """In the place of a console that is no terminal."""

    is_terminal = is_dumb_terminal = False

    def __init__(self):
        self.lines = []

    def print(self, text, **_):
        self.lines.append(text)


def test_a_line_says_what_failed_and_what_is_left_of_everything(swept, monkeypatch):
    monkeypatch.setattr(sweep_table, "_LINE_SECONDS", 0.0)
    table, shares = sweep_table.SweepTable(swept), {"a": 0.0, "b": 0.5, "c": 0.0, "d": 0.0}
    table._console = Lines()
    monkeypatch.setattr(sweep_table, "read_progress", lambda run: Reached(shares[run.name], 1.0, 7.0))
    outcomes = {name: Outcome(TaskState.WAITING) for name in shares}
    table(outcomes)
    table._began = time.monotonic() - 60
    # One and a quarter done in a minute, of one that failed nothing is left: another one and a half and a quarter.
    outcomes |= {
        "a": Outcome(TaskState.COMPLETE),
        "b": Outcome(TaskState.RUNNING),
        "c": Outcome(TaskState.FAILED, "a [sentence]"),
    }
    shares["b"] = 0.75
    table(outcomes)
    table(outcomes)
    assert table._console.lines[0] == "sweep  0 of 4 runs complete, 4 waiting"
    assert table._console.lines[1:] == [
        "sweep  c failed: a [sentence]",
        *["sweep  1 of 4 runs complete, 1 running, 1 failed, 1 waiting  left about 60 s"] * 2,
    ]
    drawn = io.StringIO()
    Console(file=drawn, width=200).print(sweep_table.make_table(swept, outcomes, 2))
    running, failed, more = [line.split("│")[1:-1] for line in drawn.getvalue().splitlines() if line.startswith("│")]
    assert [cell.strip() for cell in running] == ["b", "running", "75%", "7 s", "1", ""]
    assert [cell.strip() for cell in failed] == ["c", "failed", "0%", "", "1", "a [sentence]"]
    assert more[0].strip() == "and 2 more"


@pytest.mark.parametrize(
    ("seconds", "text"), [(3.4, "3 s"), (99.4, "99 s"), (100, "1:40 min"), (5999, "99:59 min"), (40000, "11:06 h")]
)
def test_times_are_said_as_a_clock_does(seconds, text):
    assert sweep_table._seconds(seconds) == text


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


@pytest.mark.parametrize(
    ("states", "code"),
    [
        ({"a": TaskState.COMPLETE, "b": TaskState.COMPLETE}, None),
        ({"a": TaskState.COMPLETE, "b": TaskState.FAILED}, 4),
        ({"a": TaskState.STOPPED, "b": TaskState.FAILED}, 75),
    ],
)
def test_an_engine_on_the_command_line_tells_what_failed_and_exits_by_it(monkeypatch, capsys, tmp_path, states, code):
    told = {}

    def sweep(plan, out, **asked):
        told.update({name: value for name, value in asked.items() if value and name not in ("stop", "show")})
        return driver.Swept(out, {name: Outcome(state, "a sentence") for name, state in states.items()})

    monkeypatch.setattr(engines, "sweep", sweep)
    asked = engines.EngineOptions("slurm", minutes=9, slurm=["gpus-per-node=1", "partition=a=b"])
    with contextlib.ExitStack() as stack:
        if code is not None:
            end = stack.enter_context(pytest.raises(typer.Exit))
        assert asked.swept(tmp_path / "plan.toml", tmp_path / "a").is_complete
    assert code is None or end.value.exit_code == code
    assert told == {"engine": "slurm", "minutes": 9, "slurm": {"gpus_per_node": 1, "partition": "a=b"}}
    assert ("trajens: b failed: a sentence" in capsys.readouterr().err) == (states["b"] is TaskState.FAILED)


def test_trajens_and_a_task_are_loaded_without_dask_and_a_task_without_jax():
    code = "import sys, trajens; trajens.sample; assert not {'dask', 'distributed'} & {*sys.modules}"
    subprocess.run([sys.executable, "-c", code], check=True)
    code = "import sys, trajens.app.sweeps.task; assert not {'dask', 'jax'} & {*sys.modules}"
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
def test_a_sweep_whose_runs_and_driver_are_killed_ends_where_it_would_have_ended(tmp_path, undisturbed, seed):
    (tmp_path / "plan.toml").write_text(KILLED)
    rng, killed = random.Random(seed), []
    kinds = 2 * ["driver", "run"]
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
        orphans = alive(process.pid, "run")
        kill(rng.choice(victims))
        if kind == "driver":
            process.communicate()
            wait_for(lambda orphans=orphans: not any(map(command_of, orphans)), 5)
            process = started(tmp_path, "--workers", 2)
    finished(process)
    assert len(killed) > 2
    directory = SweepDirectory(tmp_path / "a")
    for name, expected in undisturbed.items():
        assert_same(StoredRun(directory.run(name)), expected)


def alive(driver, kind):
    """Processes of a sweep: the driver, or those that run for it."""
    runs = [pid for pid in children_of(driver) if b"sweeps.child" in command_of(pid)]
    return {"driver": [driver], "run": runs}[kind]


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
