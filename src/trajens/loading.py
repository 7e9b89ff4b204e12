"""Ctrl-C while modules are loaded."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType

from trajens.errors import INTERRUPTED


@contextlib.contextmanager
def leave_on_interrupt() -> Iterator[None]:
    """End the process at once: an exception would come out in the middle of somebody's import, and as a traceback."""
    # The signal may be ignored on purpose, as under nohup or in the background of a script.
    is_heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not (is_heard and threading.current_thread() is threading.main_thread()):
        yield
        return
    signal.signal(signal.SIGINT, _leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _leave(_: int, __: FrameType | None) -> None:
    with contextlib.suppress(OSError):
        os.write(2, b"\ntrajens: interrupted; nothing was written.\n")
    os._exit(INTERRUPTED)
