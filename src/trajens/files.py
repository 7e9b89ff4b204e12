"""Files that are whole or not there: atomic writes, appending, locks, errors as sentences, and the folder of the cache.

The cache holds what can be made again: unpacked data, and programs that were compiled.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from trajens.errors import StorageError, require

try:
    import fcntl
except ImportError:  # Windows has no flock; there, nothing keeps a second process away.
    fcntl = None  # type: ignore[assignment]

_BINARY = getattr(os, "O_BINARY", 0)  # Windows would write a newline as two bytes
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What the operating system says when there is no room."""


def write_atomically(file: Path, content: bytes | Callable[[IO[bytes]], None]) -> None:
    """Write beside `file`, flush to the disk, rename: a reader sees all of it or what was there before.

    Parameters
    ----------
    file : Path
    content : bytes or callable
        What to write, or a function that writes it to a stream: what is large need not be held in memory twice.
    """
    with storage_errors(file):
        handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}-")
        try:
            with os.fdopen(handle, "wb") as stream:
                if callable(content):
                    content(stream)
                else:
                    stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
                if hasattr(os, "fchmod"):
                    # As open to others as any file the user makes; temporary ones are not.
                    os.fchmod(stream.fileno(), 0o666 & ~_umask())
            os.replace(name, file)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise
        _flush_folder(file.parent)


def write_with_folder(file: Path, content: bytes | Callable[[IO[bytes]], None]) -> None:
    """`write_atomically` into a folder that is made if need be."""
    with storage_errors(file):
        file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, content)


def remove_leftovers(folder: Path, *names: str) -> None:
    """Remove what `write_atomically` leaves beside files of these names, or patterns, when its process is killed."""
    for name in names:
        for file in folder.glob(f".{name}-????????"):
            with contextlib.suppress(OSError):
                file.unlink()


def append(file: Path, content: bytes | memoryview) -> None:
    """Write at the end of a file; a kill leaves all of it or a part that a reader can tell by its length."""
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | _BINARY, 0o666)
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(handle, rest) :]
    finally:
        os.close(handle)


def cut(file: Path, length: int) -> None:
    """Leave the first `length` bytes of a file."""
    with file.open("r+b") as stream:
        stream.truncate(length)
        os.fsync(stream.fileno())


def flush(file: Path) -> None:
    """Wait until what was appended to a file is on the disk."""
    # Windows flushes only what is open for writing.
    with file.open("r+b") as stream:
        os.fsync(stream.fileno())


class Lock:
    """A file, or a folder, that one process holds at a time; the operating system lets go of it when a process ends."""

    def __init__(self, path: Path):
        self._path = path
        self._handle: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        """What is copied or pickled: a copy holds nothing."""
        return {"_path": self._path, "_handle": None}

    def take(self, wait: bool = False) -> bool:
        """Take the lock, after waiting for it if asked to; whether it was to be had."""
        is_folder = self._path.is_dir()
        if is_folder and fcntl is None:
            return True  # type: ignore[unreachable] # Windows does not open folders
        mode = os.O_RDONLY if is_folder else os.O_RDWR | os.O_CREAT
        handle = os.open(self._path, mode, 0o666)
        try:
            if fcntl is not None:
                fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except OSError:
            os.close(handle)
            return False
        self._handle = handle
        if not self.is_held():
            # Somebody removed the file between the two calls: what was locked has no name any more.
            self.release()
            return False
        return True

    def is_taken(self) -> bool:
        """Whether a process holds the file, which stays as it is; where that cannot be told, as on Windows, it may."""
        if fcntl is None:
            return True  # type: ignore[unreachable]
        try:
            handle = os.open(self._path, os.O_RDONLY)
        except OSError:
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(handle)
        return False

    def is_held(self) -> bool:
        """Whether it was taken, and the file at its place is still the one that was."""
        if self._handle is None:
            return False
        try:
            return os.path.samestat(os.fstat(self._handle), os.stat(self._path))
        except OSError:
            return False

    def release(self) -> None:
        """Let go of it, if it is held."""
        if self._handle is not None:
            os.close(self._handle)
        self._handle = None

    def __enter__(self) -> Lock:
        self.take(wait=True)
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


@contextlib.contextmanager
def storage_errors(file: Path) -> Iterator[None]:
    """Turn the errors of the operating system into a sentence."""
    try:
        yield
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        advice = "free some space" if error.errno in FULL else "check the path and its permissions"
        # Whoever has removed the folder has removed what was saved there.
        rest = ", what was saved before is intact" if file.parent.is_dir() else ""
        raise StorageError(f"'{file}' must be written, got {error.strerror or error}; {advice}{rest}.") from error


def path_of(given: Any) -> Path:
    """The path that a user gave, or an `InputError`."""
    require(
        isinstance(given, (str, Path)),
        f"path must be the directory of a run, got {given!r}; give a name such as runs/a.",
    )
    return Path(given)


def in_shell(path: str | Path) -> str:
    """A path as a shell reads it, for commands that are printed."""
    text = f".{os.sep}{path}" if str(path).startswith("-") else str(path)
    return subprocess.list2cmdline([text]) if os.name == "nt" else shlex.quote(text)


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


CACHE_VARIABLE = "TRAJENS_CACHE"
"""Variable with another folder, or `CACHE_OFF` for none."""
CACHE_OFF = "off"


def cache_folder() -> Path | None:
    """``$TRAJENS_CACHE``, or ``trajens`` in the user's cache folder; None where nothing can or shall be kept."""
    if chosen := os.environ.get(CACHE_VARIABLE):
        return None if chosen.lower() == CACHE_OFF else Path(chosen).absolute()
    try:
        home = Path.home()
    except RuntimeError:
        # Nobody with an entry of their own, as some containers have it.
        return None
    if sys.platform == "darwin":
        base = home / "Library" / "Caches"
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    return base / "trajens"


def unfit_for_programs(folder: Path) -> str:
    """Why programs cannot be kept in a folder, which is made if need be; nothing where they can."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.stat()
    except OSError as error:
        return f"cannot be made ({error.strerror})"
    if not os.access(folder, os.W_OK | os.X_OK):
        return "cannot be written"
    # What stands there is run: nobody else may put anything into it.
    if hasattr(os, "getuid") and (found.st_uid != os.getuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)):
        return "can be written by others"
    return ""
