"""A sum over the beginning of a file that is only ever appended to: what was added later is not looked at."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np

from trajens.storage.checkpoint import Arrays

_PART = 2**20


class Sum(NamedTuple):
    """Bytes, and their CRC-32."""

    length: int = 0
    crc: int = 0

    def grown(self, file: Path, length: int) -> Sum:
        """The sum of the first `length` bytes, or of all there are; those that are summed are not read again."""
        found, crc = self.length, self.crc
        if length > found:
            with file.open("rb") as stream:
                stream.seek(found)
                while part := stream.read(min(_PART, length - found)):
                    found, crc = found + len(part), zlib.crc32(part, crc)
        return Sum(found, crc)

    def is_of(self, file: Path) -> bool:
        """Whether a file begins with what was summed."""
        try:
            return Sum().grown(file, self.length) == self
        except OSError:
            return False

    def packed(self, name: str) -> Arrays:
        """As an array of a checkpoint."""
        return {_key(name): np.array(self, np.int64)}


def sum_in(arrays: Arrays, name: str) -> Sum | None:
    """What `Sum.packed` made an array of; None in runs of before."""
    return Sum(*map(int, arrays[_key(name)])) if _key(name) in arrays else None


def _key(name: str) -> str:
    return f"sum.{name}"
