"""Checkpoints: arrays in a file that is either complete and correct, or not there.

A checkpoint is a plain ``.npz`` that NumPy opens, with a SHA-256 over the names, types, shapes and bytes of all its
arrays. It is written beside its place, flushed to the disk and renamed; the last two are kept, so a damaged one is no
loss. Of files that are only ever appended to it keeps a `Sum` over what it counts of them.
"""

from __future__ import annotations

import contextlib
import hashlib
import warnings
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from trajens.errors import InputError
from trajens.files import in_shell, write_atomically

Arrays = dict[str, np.ndarray]
PATTERN = "checkpoint-*.npz"
_NUM_KEPT = 2
_DIGEST = "sha256"
_BLOCK_BYTES = 2**20


def save(folder: Path, epoch: int, arrays: Arrays) -> Path:
    """Write the checkpoint of `epoch`; those before the last two are removed once it is in place."""
    file = folder / _name(epoch)
    write(file, arrays)
    for old in checkpoints(folder)[_NUM_KEPT:]:
        with contextlib.suppress(OSError):
            old.unlink()
    return file


def write(file: Path, arrays: Arrays) -> None:
    """Write arrays with their sum, to be read by `load`."""
    everything: dict[str, Any] = {**arrays, _DIGEST: np.array(_digest(arrays))}
    write_atomically(file, lambda stream: np.savez(stream, allow_pickle=False, **everything))


def checkpoints(folder: Path) -> list[Path]:
    """The checkpoints of a folder, newest first."""
    return sorted(folder.glob(PATTERN), reverse=True)


def load_newest(folder: Path, before: int | None = None, falls_back: bool = True) -> Arrays | None:
    """The newest checkpoint that is whole, with a warning for every damaged one; None where there are none.

    With `before`: the newest of those of an earlier epoch. A damaged newest one is refused unless `falls_back`.
    """
    files = [file for file in checkpoints(folder) if before is None or file.name < _name(before)]
    for file in files:
        try:
            return load(file)
        except PermissionError as error:
            raise InputError(
                f"'{file}' must be a checkpoint that may be read, got {error.strerror}; check its permissions."
            ) from None
        except Exception as error:  # whatever an archive of arbitrary bytes makes its reader raise
            if not falls_back and len(files) > 1:
                raise InputError(
                    f"'{file}' must be a whole checkpoint, got a damaged one ({error}); trajens resume "
                    f"{in_shell(folder)} goes back to the one before and makes it again."
                ) from None
            warnings.warn(f"the checkpoint '{file}' is damaged ({error}); going back to the one before.", stacklevel=2)
    if files:
        raise InputError(
            f"'{folder}' must hold a checkpoint that can be read, got {len(files)} damaged ones; restore one from a "
            "copy, or start again in a new directory."
        )
    return None


def set_aside_newer(folder: Path, epoch: int) -> None:
    """Rename the damaged checkpoints after that of `epoch`, so that they do not count as the last two."""
    for file in checkpoints(folder):
        if file.name > _name(epoch):
            with contextlib.suppress(OSError):
                file.replace(file.with_name(f"damaged-{file.name}"))


def load(file: Path) -> Arrays:
    """The arrays of one checkpoint, or a ValueError if they are not those that were saved."""
    with np.load(file, allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files}
    expected = str(arrays.pop(_DIGEST))
    if _digest(arrays) != expected:
        raise ValueError("its checksum does not match its content")
    return arrays


def _name(epoch: int) -> str:
    return f"checkpoint-{epoch:010d}.npz"


def _digest(arrays: Arrays) -> str:
    hasher = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        hasher.update(f"{name} {array.dtype.str} {array.shape};".encode())
        # As bytes without a copy; text and arrays without elements have no such view.
        is_plain = array.dtype.kind in "biufc" and array.size > 0
        hasher.update(array.reshape(-1).view(np.uint8).data if is_plain else array.tobytes())
    return hasher.hexdigest()


class Sum(NamedTuple):
    """Length and CRC-32 of the beginning of a file that is only ever appended to."""

    length: int = 0
    crc: int = 0

    def grown(self, file: Path, length: int) -> Sum:
        """The sum of the first `length` bytes, or of all there are; those that are summed are not read again."""
        found, crc = self.length, self.crc
        if length > found:
            with file.open("rb") as stream:
                stream.seek(found)
                while part := stream.read(min(_BLOCK_BYTES, length - found)):
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
        return {_sum_name(name): np.array(self, np.int64)}


def sum_in(arrays: Arrays, name: str) -> Sum | None:
    """The sum in a checkpoint that `Sum.packed` made an array of; None where there is none."""
    return Sum(*map(int, arrays[_sum_name(name)])) if _sum_name(name) in arrays else None


def _sum_name(name: str) -> str:
    return f"sum.{name}"
