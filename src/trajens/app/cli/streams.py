"""Streams of the command line, which may be full or closed, and numbers on their way in and out.

Who closes a pipe, as ``| head -1`` does, has read enough: the rest is not printed, and the work goes on. A disk that is
full under ``> file`` is a file that could not be written.

``2e5`` is a whole number, and JSON has no NaN.
"""

from __future__ import annotations

import contextlib
import io
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from trajens.files import storage_errors


@contextlib.contextmanager
def printing() -> Iterator[None]:
    """While it lasts, and when it ends, what cannot be printed on stdout is a `StorageError`; stderr may be lost."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _guarded(sys.stdout, True), _guarded(sys.stderr, False)
    try:
        yield
    finally:
        printed, told = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = before
        for stream in (told, printed):
            if stream is not None:
                stream.flush()


def say(text: str) -> None:
    """A line on stderr, if anybody is there to read it."""
    with contextlib.suppress(OSError, ValueError):
        typer.echo(text, err=True)


def _guarded(stream: Any, is_needed: bool) -> Any:
    buffer = getattr(stream, "buffer", None)
    # With PYTHONUNBUFFERED there is no buffer between.
    raw = getattr(buffer, "raw", buffer)
    if not (isinstance(stream, io.TextIOWrapper) and isinstance(raw, io.FileIO)):
        # Tests and notebooks have streams of their own, and a process may have none.
        return stream
    stream.flush()
    output = _Output(raw.fileno(), is_needed)
    return io.TextIOWrapper(
        output if buffer is raw else io.BufferedWriter(output),  # type: ignore[arg-type]
        stream.encoding,
        # The name of a file need not be UTF-8, and a terminal need not know every letter.
        "backslashreplace" if stream.errors == "strict" else stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


class _Output(io.FileIO):
    """A file descriptor that is not closed; what follows the first failure is not written."""

    def __init__(self, number: int, is_needed: bool):
        super().__init__(number, "wb", closefd=False)
        self._is_needed, self._is_lost = is_needed, False

    def write(self, content: Any, /) -> int:
        # Nothing is written by those who want to know what kind of stream this is, and swallow its errors.
        if len(content) > 0 and not self._is_lost:
            try:
                return super().write(content) or 0
            except OSError as error:
                # What is left in a buffer would be tried again, and again when the process ends.
                self._is_lost = True
                if self._is_needed and not isinstance(error, BrokenPipeError):
                    with storage_errors(Path("stdout")):
                        raise
        return memoryview(content).nbytes


def finite(value: Any) -> Any:
    """`value` with every NaN and infinity inside replaced by None."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
