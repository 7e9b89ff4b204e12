"""A file of equal rows that is only ever appended to: a line of JSON that says what a row is, then plain bytes.

A row is an array of one shape and type. What is cut off at the end by a kill is told by its length and left out. Rows
are read through the operating system's mapping of the file: however many there are, they take no memory.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from trajens.errors import InputError
from trajens.files import append, cut

_LARGEST = 2**60


class Rows:
    """The rows in `file`, of `shape` and `dtype` where they are yet to be written."""

    def __init__(self, file: Path):
        self.file = file

    def append(self, row: np.ndarray) -> None:
        """Add one row, in one write; the first one decides what a row is."""
        content = np.ascontiguousarray(row)
        if not self.file.exists() or self.file.stat().st_size == 0:
            header = json.dumps({"shape": list(content.shape), "dtype": _described(content.dtype)})
            append(self.file, header.encode() + b"\n")
        append(self.file, content.reshape(-1).view(np.uint8).data if content.size else b"")

    def cut(self, count: int) -> None:
        """Leave `count` rows."""
        if not self.file.exists():
            return
        if count == 0:
            cut(self.file, 0)
            return
        offset, shape, dtype = self._header()
        cut(self.file, offset + count * _size(shape, dtype))

    def read(self, length: int | None = None) -> np.ndarray:
        """All whole rows (rows, ...) of the file, or of its first `length` bytes, mapped."""
        offset, shape, dtype = self._header()
        end = self.file.stat().st_size if length is None else length
        count = (end - offset) // max(1, _size(shape, dtype))
        if count <= 0:
            return np.zeros((0, *shape), dtype)
        return np.memmap(self.file, dtype, "r", offset, (count, *shape))

    def _header(self) -> tuple[int, tuple[int, ...], np.dtype[Any]]:
        try:
            with self.file.open("rb") as stream:
                line = stream.readline(1 << 20)
            header = json.loads(line)
            dtype = header["dtype"]
            fields = np.dtype(dtype if isinstance(dtype, str) else [(str(n), str(t)) for n, t in dtype])
            if fields.hasobject or not line.endswith(b"\n"):
                raise ValueError("a header that is cut off or of another kind")
            shape = tuple(int(n) for n in header["shape"])
            if any(n < 0 for n in shape):
                raise ValueError("a negative shape")
            if not 0 < _size(shape, fields) < _LARGEST:
                raise ValueError("rows of no bytes, or of more than there can be")
            return len(line), shape, fields
        except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise InputError(
                f"'{self.file}' must begin with a line that says what its rows are, got {error}; restore a copy."
            ) from None


def _described(dtype: np.dtype[Any]) -> Any:
    return dtype.str if dtype.names is None else [[name, dtype[name].str] for name in dtype.names]


def _size(shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    return math.prod(shape) * dtype.itemsize
