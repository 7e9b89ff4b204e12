"""Records on disk: text that people can open for the usual number of chains, plain bytes for thousands of them.

    records.csv   one line per record and chain
    records.bin   one row per record, see `Rows`

A record is appended in one piece. What was cut off at the end is left out when they are read.
"""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from trajens.errors import InputError, require
from trajens.files import append, cut, flush, storage_errors
from trajens.records import Records
from trajens.storage.rows import Rows

TEXT_CHAINS = 256
"""The most chains whose records are kept as text."""


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

    def flush(self) -> None:
        """Wait until they are on the disk."""
        if self.exists():
            with storage_errors(self.file):
                flush(self.file)

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
