"""The process of a run that ends with the one that started it: ``python -m trajens.sweeps.child PARENT ARGUMENT..``.

The rest is ``trajens ARGUMENT..``. `CORES` names the cores it may use; JAX then has a device and a thread for each.
"""

from __future__ import annotations

import ctypes
import os
import runpy
import signal
import sys
import threading
import time

CORES = "TRAJENS_CORES"
_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Run the command line, after what must be arranged before JAX is loaded."""
    parent = int(sys.argv[1])
    _end_with(parent)
    cores = os.environ.get(CORES)
    if cores and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {int(core) for core in cores.split(",")})
    sys.argv = ["trajens", *sys.argv[2:]]
    runpy.run_module("trajens", run_name="__main__")


def _end_with(parent: int) -> None:
    """Be killed when the parent ends: what is saved is enough, and the next one must not find us at work."""
    if sys.platform == "linux":
        # The kernel means the thread that started us: it must wait for us, and a task does.
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
