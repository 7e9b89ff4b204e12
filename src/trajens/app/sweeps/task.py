"""Task: go on with this run until it is complete. Done again, it does what is left, and then nothing.

The run is in a process beside, which ends with that of the task: a worker that is killed leaves nobody behind who would
write, and code that holds Python's lock for long keeps no worker from answering. JAX is loaded there and not here, and
tasks that follow each other on a worker share the process and what it has compiled. `Runner` is this end of
`trajens.app.sweeps.child`.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from trajens.app.sweeps.directory import Outcome, SweepDirectory, TaskState, is_begun, keep_outcome, kept_outcome
from trajens.app.sweeps.lease import WATCHED, Lease
from trajens.errors import INTERRUPTED, STOPPED, StorageError
from trajens.files import Lock, storage_errors
from trajens.storage.checkpoint import checkpoints

_here = threading.local()


class Runner:
    """A process of `trajens.app.sweeps.child`, in a session of its own: Ctrl-C at a terminal is not for it."""

    def __init__(self, environment: dict[str, str]):
        self.environment = environment
        self._code: int | None = None
        self._process = subprocess.Popen(
            [sys.executable, "-m", "trajens.app.sweeps.child", str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **environment},
            start_new_session=True,
        )
        # A thread that ends forgets its runner.
        self._end = weakref.finalize(self, _end, self._process)
        self._end.atexit = False

    @property
    def is_free(self) -> bool:
        """Whether it lives, and did its last command, if there was one."""
        return self._process.poll() is None and self._code is not None

    @property
    def memory(self) -> int:
        """Bytes that it has in memory."""
        with contextlib.suppress(OSError, ValueError, IndexError):
            pages = Path(f"/proc/{self._process.pid}/statm").read_text(encoding="utf-8").split()[1]
            return int(pages) * os.sysconf("SC_PAGE_SIZE")
        return 0

    def begin(self, arguments: list[str], log: Path) -> None:
        """Start with a command; one that cannot be given, since the process has died, ends as that did."""
        self._code = None
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(json.dumps({"arguments": arguments, "log": str(log)}).encode() + b"\n")
            self._process.stdin.flush()

    def wait(self, seconds: float) -> int | None:
        """The exit code of the command, negative for the signal that killed the process; None if it goes on."""
        stdout = self._process.stdout
        assert stdout is not None
        # A process with many runners has descriptors of numbers that select() does not take.
        waiting = select.poll()
        waiting.register(stdout, select.POLLIN)
        if self._code is None and waiting.poll(1000 * seconds):
            answer = stdout.readline()
            self._code = int(answer) if answer.endswith(b"\n") else self._process.wait()
        return self._code

    def stop(self) -> None:
        """Ask the command to save itself and end."""
        self._process.send_signal(signal.SIGTERM)

    def close(self) -> None:
        """End the process, whatever it does."""
        self._end()


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        assert stream is not None
        with contextlib.suppress(OSError):
            stream.close()


def runner(environment: dict[str, str], most_memory: int) -> Runner:
    """The runner of this thread: that of the last task, unless it ended, takes half the memory, or is another's."""
    last: Runner | None = getattr(_here, "runner", None)
    is_fit = last is not None and last.is_free and last.environment == environment
    if last is not None and not (is_fit and (most_memory == 0 or last.memory < most_memory / 2)):
        last.close()
        last = None
    _here.runner = Runner(environment) if last is None else last
    return _here.runner


def save(seconds: float) -> None:
    """Ask what the runner of this thread is at, if anything, to save itself, and wait for that."""
    last: Runner | None = getattr(_here, "runner", None)
    if last is not None and not last.is_free:
        last.stop()
        last.wait(seconds)


DEATHS = 3
"""How often a process may be killed without having saved anything new."""
MEMORY = "TRAJENS_MEMORY"
"""Variable with the bytes that a run may take on this worker."""
_POLL = 0.5
_LOCK_SECONDS = 10.0
_KILL_SECONDS = 120.0
"""How long a run that was asked to stop may take for its block and its checkpoint."""


@dataclass(frozen=True)
class Task:
    """What is handed to a worker: text and numbers only. `path` is the directory of the sweep, the same everywhere."""

    path: str
    name: str
    environment: dict[str, str] = field(default_factory=dict)
    watched: float = WATCHED

    def __call__(self, is_closed: Callable[[], bool] = lambda: False) -> Outcome:
        """Work on the run, once nobody else does, until its engine closes; where nothing can be written, it fails."""
        directory = SweepDirectory(self.path)
        try:
            with storage_errors(directory.path):
                return self._done(directory, is_closed)
        except StorageError as error:
            return Outcome(TaskState.FAILED, str(error))

    def _done(self, directory: SweepDirectory, is_closed: Callable[[], bool]) -> Outcome:
        def is_over() -> bool:
            return directory.stop.exists() or is_closed()

        lease = Lease(directory.task(self.name, "lease"), self.watched)
        while is_over() or not lease.take(is_over):
            if is_over():
                return Outcome(TaskState.STOPPED if is_begun(directory.run(self.name)) else TaskState.WAITING)
            time.sleep(_POLL)
        try:
            known = kept_outcome(directory, self.name)
            if known is not None and known.state is TaskState.COMPLETE:
                return known
            # What was said of an earlier process is not true of this one.
            directory.task(self.name, "json").unlink(missing_ok=True)
            outcome = self._worked(directory, lambda: lease.keep() and not is_closed())
            if outcome is None:
                return Outcome(TaskState.STOPPED, "its engine was closed, or another process works on it")
            keep_outcome(directory, self.name, outcome)
            return outcome
        finally:
            lease.release()

    def _worked(self, directory: SweepDirectory, is_ours: Callable[[], bool]) -> Outcome | None:
        """The outcome of one process after the other; None if the run was taken away."""
        run, deaths, saved = directory.run(self.name), 0, None
        while not directory.stop.exists():
            _await_lock(run / "lock", is_ours)
            attempt = _Attempt(self, directory)
            outcome = attempt.ended(is_ours)
            if outcome is None or attempt.code >= 0:
                return outcome
            newest = next(iter(checkpoints(run)), None)
            deaths = deaths + 1 if newest == saved else 1
            saved = newest
            if attempt.is_too_large or deaths >= DEATHS:
                return outcome
        return Outcome(TaskState.STOPPED, "asked to stop")


class _Attempt:
    """One command that goes on with a run."""

    def __init__(self, task: Task, directory: SweepDirectory):
        self._directory, run = directory, directory.run(task.name)
        options = ["train", "--config", str(directory.task(task.name, "toml")), "--out", str(run)]
        self._log = directory.task(task.name, "log")
        self._limit = int({**os.environ, **task.environment}.get(MEMORY, "0"))
        self._begin = self._log.stat().st_size if self._log.exists() else 0
        self.code, self.is_too_large = 0, False
        self._runner = runner(task.environment, self._limit)
        self._runner.begin(["resume", str(run)] if is_begun(run) else options, self._log)

    def ended(self, is_ours: Callable[[], bool]) -> Outcome | None:
        """Wait for it, and for the wish to stop; None if the run is not ours any more."""
        asked: float | None = None
        code: int | None = None
        try:
            while (code := self._runner.wait(_POLL)) is None:
                if not is_ours():
                    return None
                if self._limit and self._runner.memory > self._limit:
                    self.is_too_large = True
                    break
                if asked is None and self._directory.stop.exists():
                    asked = time.monotonic()
                    self._runner.stop()
                elif asked is not None and time.monotonic() - asked > _KILL_SECONDS:
                    break
        finally:
            # Whatever ends this, nobody is left behind; and what went wrong once has no part in the next.
            if code not in (0, STOPPED):
                self._runner.close()
        self.code = -signal.SIGKILL if code is None else code
        return self._outcome(asked is not None, self._limit)

    def _outcome(self, is_asked: bool, limit: int) -> Outcome:
        if self.code == 0:
            return Outcome(TaskState.COMPLETE)
        if self.is_too_large:
            return Outcome(
                TaskState.FAILED,
                f"the run must fit into the memory of its worker, {limit / 2**30:.1f} GiB, got more; use fewer "
                "workers, fewer chains or a smaller network.",
            )
        if is_asked or self.code in (STOPPED, INTERRUPTED):
            return Outcome(TaskState.STOPPED, "asked to stop")
        if self.code < 0:
            return Outcome(
                TaskState.FAILED,
                f"its process must not be killed, got signal {-self.code} {DEATHS} times without anything new saved; "
                f"see '{self._log}'.",
            )
        return Outcome(TaskState.FAILED, self._last_line() or f"its process ended with code {self.code}")

    def _last_line(self) -> str:
        """What the process said last; an error of ours is one sentence there, a bug the last line of a traceback."""
        lines: list[str] = []
        with contextlib.suppress(OSError), self._log.open("rb") as stream:
            stream.seek(self._begin)
            lines = stream.read().decode(errors="replace").strip().splitlines()
        return lines[-1].removeprefix("trajens: ").removeprefix("error: ") if lines else ""


def _await_lock(file: Path, is_ours: Callable[[], bool]) -> None:
    """Let a process that was killed a moment ago go: the kernel keeps its lock until it is gone."""
    begin = time.monotonic()
    while file.exists() and time.monotonic() - begin < _LOCK_SECONDS and is_ours():
        lock = Lock(file)
        if lock.take():
            lock.release()
            return
        time.sleep(_POLL)
