"""Tables that are only ever appended to: records as text or bytes, and rows of arrays.

    records.csv   one line per record and chain, text that people can open
    records.bin   one row per record, for thousands of chains
    history.bin   one row of paths per record

A file of rows begins with a line of JSON that says what a row is, an array of one shape and type; plain bytes follow.
A record is appended in one piece. What a kill has cut off at the end is told by its length and left out. Rows are read
through the operating system's mapping of the file: however many there are, they take no memory.
"""

from __future__ import annotations

import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from trajens.errors import InputError, require
from trajens.files import append, cut, storage_errors
from trajens.records import Records

TEXT_CHAINS = 256
"""The most chains whose records are kept as text."""
_LARGEST_ROW = 2**60
"""Bytes of a row at most; a header that says more is damaged."""


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
            if not 0 < _size(shape, fields) < _LARGEST_ROW:
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


class RecordFile:
    """The records of the run in a folder."""

    def __init__(self, folder: Path):
        self._text, self._bytes = folder / "records.csv", folder / "records.bin"

    @property
    def file(self) -> Path:
        """Where they are."""
        return self._bytes if self._bytes.exists() else self._text

    def exists(self) -> bool:
        """Whether there are any."""
        return self.file.exists()

    def append(self, record: Records) -> None:
        """Add one record (chains, 1)."""
        chains = len(record["epoch"])
        with storage_errors(self.file):
            if chains > TEXT_CHAINS:
                dtype = [(name, values.dtype.newbyteorder("<")) for name, values in record.items()]
                row = np.empty(chains, dtype)
                for name, values in record.items():
                    row[name] = values[:, 0]
                Rows(self._bytes).append(row)
                return
            names = list(record)
            lines = "" if self._text.exists() and self._text.stat().st_size else f"chain,{','.join(names)}\n"
            columns = [map(repr, record[name][:, 0].tolist()) for name in names]
            lines += "".join(
                ",".join([str(chain), *row]) + "\n" for chain, row in enumerate(zip(*columns, strict=True))
            )
            append(self._text, lines.encode())

    def cut(self, recorded: int, chains: int) -> None:
        """Leave the first `recorded` records."""
        if self._bytes.exists():
            Rows(self._bytes).cut(recorded)
        elif self._text.exists():
            kept, rows = 0, recorded * chains
            with self._text.open("rb") as stream:
                for _, line in zip(range(rows + 1 if rows else 0), stream, strict=False):
                    kept += len(line)
            cut(self._text, kept)

    def read(self, length: int | None = None) -> Records:
        """All whole records of the file, or of its first `length` bytes, as arrays (chains, records)."""
        if self._bytes.exists():
            rows = Rows(self._bytes).read(length)
            names = rows.dtype.names
            require(names is not None, f"'{self._bytes}' must hold named columns, got none; restore it from a copy.")
            return {name: np.ascontiguousarray(rows[name].T) for name in names or ()} if len(rows) else {}
        require(
            self._text.is_file(),
            f"records must be in a file that exists, got '{self._text}'; is it in the directory of a run?",
        )
        return _read_text(self._text, length)


def _read_text(file: Path, length: int | None) -> Records:
    try:
        with file.open("rb") as stream:
            header, _, text = stream.read(length).decode().partition("\n")
        text = text[: text.rfind("\n") + 1]
        # Records of earlier versions have spaces in their names.
        names = [name.replace(" ", "_") for name in header.strip().split(",")]
        if not text:
            return {}
        first = text[: text.index("\n")].split(",")
        require(
            len(first) == len(names) and names[0] == "chain" and "epoch" in names,
            f"'{file}' must hold one line per record and chain; restore it from a copy.",
        )
        dtype = [(name, _type(cell)) for name, cell in zip(names, first, strict=True)]
        rows = np.loadtxt(io.StringIO(text), dtype, comments=None, delimiter=",", ndmin=1)
        chains = 1 + int(rows["chain"].max())
        count = len(rows) // chains
        rows = rows[: count * chains].reshape(count, chains)
        is_whole = bool((rows["chain"] == np.arange(chains)).all())
        require(is_whole, f"'{file}' must hold one line per record and chain; restore it from a copy.")
    except (UnicodeDecodeError, ValueError, IndexError, OverflowError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"'{file}' must be the records of a run, got {error}; restore it from a copy.") from None
    return {name: np.ascontiguousarray(rows[name].T) for name in names if name != "chain"}


def _type(cell: str) -> str:
    """Whole numbers are written without a point, an exponent, inf or nan."""
    return "<f8" if any(c in cell for c in ".ein") else "<i8"
