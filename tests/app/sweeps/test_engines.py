"""Engines of sweeps, without what they stand on: threads with tasks that do nothing, a SLURM that refuses jobs."""

import contextlib
import signal
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

from tests.app.sweeps.sweeping import wait_for
from trajens.app.sweeps.directory import Outcome, SweepDirectory, TaskState, keep_outcome
from trajens.app.sweeps.engines import local
from trajens.app.sweeps.engines import slurm as engines
from trajens.app.sweeps.task import Task, runner
from trajens.errors import InputError


class Held:
    """In the place of a task: says where it is done, and ends when it is let go or its engine is closed."""

    def __init__(self, places, let_go):
        self.places, self.let_go = places, let_go

    def __call__(self, task, is_closed):
        self.places.append(task.environment)
        while not self.let_go.wait(0.01):
            if is_closed():
                return Outcome(TaskState.STOPPED, "closed")
        if task.name == "bad":
            raise ValueError("a bug")
        return Outcome(TaskState.COMPLETE)


@pytest.fixture
def held(monkeypatch):
    found = Held([], threading.Event())
    monkeypatch.setattr(Task, "__call__", lambda task, is_closed: found(task, is_closed))
    monkeypatch.setattr(local, "places", lambda *_: [{"PLACE": "0"}, {"PLACE": "1"}])
    return found


def test_every_thread_of_this_machine_has_a_place_of_its_own_and_the_rest_waits(held):
    with contextlib.closing(local.LocalEngine()) as engine:
        pending = [engine.submit(Task("a", name, {"MORE": "2"})) for name in ("good", "bad", "later", "never")]
        wait_for(lambda: len(held.places) == 2)
        assert sorted(place["PLACE"] for place in held.places) == ["0", "1"]
        assert {place["MORE"] for place in held.places} == {"2"}
        assert [waiting.outcome() for waiting in pending] == 4 * [None]
        pending[3].cancel()
        held.let_go.set()
        wait_for(lambda: all(waiting.outcome() for waiting in pending))
    assert [waiting.outcome() for waiting in pending] == [
        *(Outcome(TaskState.COMPLETE), Outcome(TaskState.FAILED, "ValueError: a bug"), Outcome(TaskState.COMPLETE)),
        Outcome(TaskState.WAITING, "taken back"),
    ]


def test_an_engine_of_this_machine_that_is_closed_ends_what_it_is_at_and_begins_nothing(held):
    engine = local.LocalEngine()
    pending = [engine.submit(Task("a", name)) for name in ("one", "two", "three")]
    wait_for(lambda: len(held.places) == 2)
    engine.close()
    states = [waiting.outcome().state for waiting in pending]
    assert states == [TaskState.STOPPED, TaskState.STOPPED, TaskState.WAITING]
    assert len(held.places) == 2


def test_an_engine_of_this_machine_needs_no_dask():
    code = "import sys; from trajens.app.sweeps.engines import engine_named; engine_named('local', 'a', 1).close()"
    code += "; assert not {'dask', 'distributed'} & {*sys.modules}"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_runner_ends_with_its_thread():
    found = []
    thread = threading.Thread(target=lambda: found.append(runner({}, 0)._process))
    thread.start()
    thread.join()
    assert found[0].returncode == -signal.SIGKILL


class FakeSlurm:
    """Takes arrays of jobs and forgets them when it is told to; `asked` counts what it was asked for."""

    def __init__(self, monkeypatch):
        self.arrays, self.gone, self.asked, self.is_away, self.now = [], set(), [], False, 1000.0
        monkeypatch.setattr(engines.submitit, "AutoExecutor", lambda *_, **__: self)
        monkeypatch.setattr(engines, "_called", self.called)
        monkeypatch.setattr(engines, "time", SimpleNamespace(monotonic=lambda: self.now))

    def update_parameters(self, **_):
        pass

    @contextlib.contextmanager
    def batch(self):
        self.arrays.append([])
        yield
        if self.is_away:
            self.arrays.pop()
            raise engines.submitit.core.utils.FailedJobError("sbatch: error: Unable to contact slurm controller")

    def submit(self, _):
        self.arrays[-1].append(f"{len(self.arrays)}_{len(self.arrays[-1])}")
        return SimpleNamespace(job_id=self.arrays[-1][-1])

    def called(self, *command):
        self.asked.append(command[0])
        return "\n".join(job for array in self.arrays for job in array if job not in self.gone)


@pytest.fixture
def slurm(monkeypatch):
    return FakeSlurm(monkeypatch)


def handed(tmp_path, count):
    directory = SweepDirectory(tmp_path / "a")
    directory.begin()
    engine = engines.SlurmEngine(str(directory.path))
    return directory, [engine.submit(Task(str(directory.path), f"seed={i}")) for i in range(count)]


def test_the_queue_is_asked_for_once_in_ten_seconds_and_files_only_of_jobs_that_left_it(tmp_path, slurm, monkeypatch):
    directory, pending = handed(tmp_path, 30)
    assert [waiting.outcome() for waiting in pending] == 30 * [None]
    assert len(slurm.arrays) == 1
    monkeypatch.setattr(engines, "holder", lambda file: pytest.fail(f"looked at {file}"))
    begin = len(slurm.asked)
    for _ in range(300):
        slurm.now += 0.1
        assert not any(waiting.outcome() for waiting in pending)
    assert slurm.asked[begin:] in (2 * ["squeue"], 3 * ["squeue"])
    monkeypatch.setattr(engines, "holder", lambda _: None)
    keep_outcome(directory, "seed=3", Outcome(TaskState.FAILED, "a sentence"))
    slurm.gone.add(pending[3].job)
    slurm.now += 11.0
    assert [i for i, waiting in enumerate(pending) if waiting.outcome()] == [3]


def test_a_slurm_that_refuses_at_first_is_an_error_and_later_on_is_asked_again(tmp_path, slurm):
    slurm.is_away = True
    with pytest.raises(InputError, match="must be such as SLURM takes, got sbatch: error: Unable to contact slurm"):
        handed(tmp_path, 1)[1][0].outcome()
    slurm.is_away = False
    _, [waiting] = handed(tmp_path, 1)
    assert waiting.outcome() is None
    slurm.gone.add(lost := waiting.job)
    slurm.is_away = True
    slurm.now += 11.0
    for _ in range(5):
        assert waiting.outcome() is None
        slurm.now += 1.5
    assert waiting.job is None
    slurm.is_away = False
    slurm.now += 11.0
    assert waiting.outcome() is None
    assert waiting.job not in (None, lost)
    # One that never takes anything again is told of.
    slurm.gone.add(waiting.job)
    slurm.is_away = True
    for _ in range(61):
        slurm.now += 11.0
        assert waiting.outcome() is None
    slurm.now += 11.0
    with pytest.raises(InputError, match="must be such as SLURM takes"):
        waiting.outcome()
