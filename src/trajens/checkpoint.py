"""Checkpoints: arrays in a file that is either complete and correct, or not there.

A checkpoint is a plain ``.npz`` that NumPy opens, with a SHA-256 over the names, types, shapes and bytes of all its
arrays. It is written beside its place, flushed to the disk and renamed; the last two are kept, so a damaged one is no
loss.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from trajens.errors import InputError, StorageError

Arrays = dict[str, np.ndarray]
_KEPT = 2
_DIGEST = "sha256"


def save(folder: Path, epoch: int, arrays: Arrays) -> Path:
    """Write the checkpoint of `epoch`; those before the last two are removed once it is in place."""
    content = io.BytesIO()
    np.savez(content, allow_pickle=False, **arrays, **{_DIGEST: np.array(_digest(arrays))})
    file = folder / f"checkpoint-{epoch:010d}.npz"
    write_atomically(file, content.getvalue())
    for old in checkpoints(folder)[_KEPT:]:
        with contextlib.suppress(OSError):
            old.unlink()
    return file


def checkpoints(folder: Path) -> list[Path]:
    """The checkpoints of a folder, newest first."""
    return sorted(folder.glob("checkpoint-*.npz"), reverse=True)


def load_newest(folder: Path) -> Arrays | None:
    """The newest checkpoint that is whole, with a warning for every damaged one; None where there are none."""
    files = checkpoints(folder)
    for file in files:
        try:
            return load(file)
        except Exception as error:  # whatever an archive of arbitrary bytes makes its reader raise
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
        if file.name > f"checkpoint-{epoch:010d}.npz":
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


def write_atomically(file: Path, content: bytes) -> None:
    """Write beside `file`, flush to the disk, rename: a reader sees all of it or what was there before."""
    with storage_errors(file):
        handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}-")
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
                # As open to others as any file the user makes; temporary ones are not.
                os.fchmod(stream.fileno(), 0o666 & ~_umask())
            os.replace(name, file)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise
        _flush_folder(file.parent)


@contextlib.contextmanager
def storage_errors(file: Path) -> Iterator[None]:
    """Turn the errors of the operating system into a sentence."""
    try:
        yield
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        advice = "free some space" if is_full else "check the path and its permissions"
        raise StorageError(
            f"'{file}' must be written, got {error.strerror or error}; {advice}, what was saved before is intact."
        ) from error


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def _flush_folder(folder: Path) -> None:
    """Make a rename last; some file systems cannot, and then nothing more can be done."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _digest(arrays: Arrays) -> str:
    hasher = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        hasher.update(f"{name} {array.dtype.str} {array.shape};".encode())
        hasher.update(array.tobytes())
    return hasher.hexdigest()
