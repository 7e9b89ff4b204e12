"""What tests of sweeps share: the command, who works for it, and that a run ended as one that nobody disturbed."""

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from tests.small_run import assert_same_records


def shared_programs():
    """Variables by which processes of one session of tests leave each other their programs."""
    return {
        "JAX_COMPILATION_CACHE_DIR": os.environ["TRAJENS_TESTS_COMPILED"],
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.3",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }


def started(folder, *options, **how):
    """``trajens sweep plan.toml --out a`` in a folder."""
    command = [sys.executable, "-m", "trajens", "sweep", "plan.toml", "--out", "a", *map(str, options)]
    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, cwd=folder, env={**os.environ, **shared_programs()}, **streams, **how)


def finished(process, code=0, seconds=500):
    """What a driver said, once it has ended as it should."""
    messages = process.communicate(timeout=seconds)[1]
    assert process.returncode == code, messages
    return messages


def trained(runs):
    """``trajens train`` for every pair of options and directory, alone; in one process, which loads JAX once."""
    code = "import json, sys; from trajens.app.cli import app\n"
    code += "for c, o in json.loads(sys.argv[1]): app(['train', '--config', c, '--out', o], standalone_mode=False)"
    command = [sys.executable, "-c", code, json.dumps([[str(config), str(out)] for config, out in runs])]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, **shared_programs()})


def assert_same(found, expected):
    """Two complete runs are the same, bit for bit."""
    assert found.is_complete
    np.testing.assert_array_equal(found.paths, expected.paths)
    assert_same_records(found.records, expected.records)


def children_of(pid):
    """Processes that a process has started, by any of its threads."""
    found = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += [int(word) for word in file.read_text().split()]
    return sorted(found)


def command_of(pid):
    """The command line of a process."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def kill(pid):
    """SIGKILL, to a process that may be gone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def wait_for(condition, seconds=120):
    """Wait until something is so."""
    begin = time.monotonic()
    while not condition():
        assert time.monotonic() - begin < seconds
        time.sleep(0.05)


class Here:
    """An engine that does one task after the other, in the process of the driver."""

    def __init__(self, **environment):
        self.environment = {**shared_programs(), **environment}

    def submit(self, task):
        """Begin when it is asked how it ended."""
        return HerePending(dataclasses.replace(task, environment=self.environment))

    def close(self):
        """Nobody is to be let go."""


class HerePending:
    """A task that has not begun."""

    def __init__(self, task):
        self._task = task

    def outcome(self):
        """Do it."""
        return self._task()

    def cancel(self):
        """Do not: a task that is asked for while everybody stops does nothing."""
