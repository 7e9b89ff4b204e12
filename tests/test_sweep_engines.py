"""Engines of sweeps, without what they stand on: workers that do not start, a SLURM that refuses jobs."""

import contextlib
from types import SimpleNamespace

import pytest

from trajens.errors import InputError
from trajens.sweeps.engines import local
from trajens.sweeps.engines import slurm as engines
from trajens.sweeps.kept import SweepDirectory
from trajens.sweeps.state import Outcome, State, keep_outcome
from trajens.sweeps.task import Task


@pytest.mark.parametrize("failures", [0, 2, 3])
def test_workers_that_are_killed_while_they_start_are_started_again(monkeypatch, failures):
    left = [failures]

    def cluster(**_):
        left[0] -= 1
        if left[0] >= 0:
            raise RuntimeError("Nanny failed to start.")
        return "a cluster"

    monkeypatch.setattr(local, "SpecCluster", cluster)
    if failures < 3:
        assert local._cluster([{}], {}) == "a cluster"
    else:
        with pytest.raises(InputError, match=r"must start, got RuntimeError: Nanny failed to start, 3 times"):
            local._cluster([{}], {})


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
    keep_outcome(directory, "seed=3", Outcome(State.FAILED, "a sentence"))
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
