"""The process that runs what it is told to, one after the other: ``python -m trajens.app.sweeps.child PARENT``.

Every line of its stdin is an order, ``{"arguments": [..], "log": FILE}``: the rest of a command ``trajens ..``, and
where what it says is appended to. The answer is a line with the exit code. Runs that follow each other in one process
load JAX once and share its programs. It ends with the process that started it, and with its stdin.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import signal
import sys
import threading
import time
import traceback
import warnings
from importlib import import_module

CORES = "TRAJENS_CORES"
"""Variable with the cores that runs may use; JAX then has a device and a thread for each."""
_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Do what is ordered, after what must be arranged before JAX is loaded."""
    _end_with(int(sys.argv[1]))
    # SLURM sends this to all processes of a job when its time is over; it is the parent's to answer.
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    cores = os.environ.get(CORES)
    if cores and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {int(core) for core in cores.split(",")})
    with os.fdopen(os.dup(1), "w") as answers:
        _say_to(os.devnull)
        for line in sys.stdin:
            order = json.loads(line)
            print(_ran(order["arguments"], order["log"]), file=answers, flush=True)


def _ran(arguments: list[str], log: str) -> int:
    """The exit code of a command; a bug is one, and leaves its traceback."""
    _say_to(log)
    sys.argv = ["trajens", *arguments]
    try:
        # A warning is given once in a process, unless it is told that something else begins.
        with warnings.catch_warnings():
            import_module("trajens.app.cli").main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        _say_to(os.devnull)
        # Arrays of the run that is over may be held by circles; what lasts need not be looked through again.
        gc.collect()
        gc.freeze()
    return 0


def _say_to(file: str) -> None:
    """Let stdout and stderr go to the end of a file."""
    sys.stdout.flush()
    sys.stderr.flush()
    handle = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    os.close(handle)


def _end_with(parent: int) -> None:
    """Be killed when the parent ends: what is saved is enough, and the next one must not find us at work."""
    if sys.platform == "linux":
        # The kernel means the thread that started us.
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    else:
        threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    if os.getppid() != parent:
        os._exit(1)


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


if __name__ == "__main__":
    main()
