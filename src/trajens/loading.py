"""Ctrl-C that ends the process: while modules are loaded, and while a command has nothing to save."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn

from trajens.errors import INTERRUPTED

BEGAN = time.perf_counter()
"""When the program began, before what takes time was loaded."""

_SHOW_CURSOR = b"\x1b[?25h"


@contextlib.contextmanager
def leave_on_interrupt() -> Iterator[None]:
    """End the process at once.

    An exception would come out in the middle of somebody's import, as a traceback; and in a callback of the garbage
    collector, of which JAX has one, it would be swallowed, and the command go on.
    """
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


def end_at_once(text: str) -> NoReturn:
    """End an interrupted process with a line on stderr, where the cursor is to be seen again."""
    # The terminal may be gone.
    with contextlib.suppress(OSError):
        os.write(2, (_SHOW_CURSOR if os.isatty(2) else b"") + f"\ntrajens: {text}\n".encode())
    os._exit(INTERRUPTED)


def _leave(_: int, __: FrameType | None) -> None:
    end_at_once("interrupted; nothing more was written.")
