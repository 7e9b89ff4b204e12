"""Stopping a run from outside: SIGINT, SIGTERM, SIGUSR1 and SIGHUP let a block finish; a second SIGINT does not."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from types import FrameType
from typing import Any

from trajens.loading import end_at_once

_NAMES = ("SIGINT", "SIGTERM", "SIGUSR1", "SIGHUP")
_SIGNALS = tuple(getattr(signal, name) for name in _NAMES if hasattr(signal, name))  # Windows has the first two


class StopOnSignal:
    """A context that catches the signals, and says when called whether there was one.

    Python handles a signal only between two of its own instructions, which a compiled block can keep waiting. So
    signals are read from a socket by a thread, which can end the process at once.
    """

    def __init__(self) -> None:
        self._is_asked = threading.Event()

    def __call__(self) -> bool:
        return self._is_asked.is_set()

    def __enter__(self) -> StopOnSignal:
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        self._before: dict[int, Any] = {number: signal.signal(number, _ignore) for number in _SIGNALS}
        self._wakeup = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(self._wakeup)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._writer.close()
        self._thread.join()
        self._reader.close()

    def _listen(self) -> None:
        interrupts = 0
        while received := self._reader.recv(1):
            if received[0] not in _SIGNALS:
                continue
            interrupts += received[0] == signal.SIGINT
            if interrupts > 1:
                end_at_once("stopped at once; what was saved before is intact.")
            is_first = not self._is_asked.is_set()
            self._is_asked.set()
            if is_first:
                # The terminal may be gone: that is what SIGHUP says.
                with contextlib.suppress(OSError):
                    os.write(2, b"\ntrajens: stopping after this block; Ctrl-C stops at once.\n")


def _ignore(_: int, __: FrameType | None) -> None:
    # A handler of Python's own must be there for the signal to reach the socket.
    pass
