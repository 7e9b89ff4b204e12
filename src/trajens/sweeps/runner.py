"""The other end of `child`: a process that is given one command after the other, and ends with the thread it serves."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import weakref
from pathlib import Path

_here = threading.local()


class Runner:
    """A process of `trajens.sweeps.child`, in a session of its own: Ctrl-C at a terminal is not for it."""

    def __init__(self, environment: dict[str, str]):
        self.environment = environment
        self._code: int | None = None
        self._process = subprocess.Popen(
            [sys.executable, "-m", "trajens.sweeps.child", str(os.getpid())],
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
