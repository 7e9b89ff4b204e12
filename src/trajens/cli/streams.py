"""What is printed, on streams that may be full or closed.

Who closes a pipe, as ``| head -1`` does, has read enough: the rest is not printed, and the work goes on. A disk that is
full under ``> file`` is a file that could not be written.
"""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from trajens.files import storage_errors


@contextlib.contextmanager
def printing() -> Iterator[None]:
    """While it lasts, and when it ends, what cannot be printed on stdout is a `StorageError`."""
    before = sys.stdout
    # Tests and notebooks have streams of their own.
    raw = getattr(getattr(before, "buffer", None), "raw", None)
    if not isinstance(raw, io.FileIO):
        yield
        return
    before.flush()
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(_Output(raw.fileno())),
        before.encoding,
        before.errors,
        line_buffering=before.isatty(),
    )
    try:
        yield
    finally:
        stream, sys.stdout = sys.stdout, before
        stream.flush()


def say(text: str) -> None:
    """A line on stderr, if anybody is there to read it."""
    with contextlib.suppress(OSError, ValueError):
        typer.echo(text, err=True)


class _Output(io.FileIO):
    """A file descriptor that is not closed; what follows the first failure is not written."""

    def __init__(self, number: int):
        super().__init__(number, "wb", closefd=False)
        self._is_lost = False

    def write(self, content: Any, /) -> int:
        size = memoryview(content).nbytes
        if self._is_lost:
            return size
        try:
            with contextlib.suppress(BrokenPipeError):
                return super().write(content) or 0
        except OSError:
            # What is left in the buffer is tried again when the process ends.
            self._is_lost = True
            with storage_errors(Path("stdout")):
                raise
        self._is_lost = True
        return size
