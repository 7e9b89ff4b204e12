"""Who works on something, where the file system knows no locks that all machines see.

A lease is a file that is made with O_EXCL, which network file systems do for one process only, and touched every few
seconds by the one who holds it. It says which process of which machine that is. One whose process is gone from this
machine is free at once; one of another machine when nobody touched it while it was watched for `WATCHED` seconds, so
that clocks need not agree. Who finds that his lease has become another's must stop.

What is assumed: a file that is opened shows what others wrote to it before (NFS: close-to-open), a rename is atomic,
and a process that lives is never kept from touching its file for as long as `WATCHED`.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import time
import uuid
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from trajens.files import FULL

BEAT = 3.0
"""Seconds between two touches."""
WATCHED = 30.0


class Lease:
    """Held by one process at a time; it says so by calling `keep`, at least every few seconds."""

    def __init__(self, file: Path, watched: float = WATCHED):
        self._file, self._watched = file, watched
        self._token, self._touched = "", 0.0

    def take(self, is_asked_to_stop: Callable[[], bool] = lambda: False) -> bool:
        """Take it where it is free; whether it was to be had. May watch another machine's for a while."""
        self._token = uuid.uuid4().hex
        if self._make():
            return True
        found = _read(self._file)
        if found is not None and not self._is_over(found, is_asked_to_stop):
            return False
        self._remove(found)
        return self._make()

    def keep(self) -> bool:
        """Say that the holder lives; False if it was taken away, so that he must stop."""
        if time.monotonic() - self._touched >= BEAT:
            found = _read(self._file)
            if found is None or found.get("token") != self._token:
                return False
            with contextlib.suppress(OSError):
                os.utime(self._file)
            self._touched = time.monotonic()
        return True

    def release(self) -> None:
        """Give it back, if it is still one's own."""
        found = _read(self._file)
        if found is not None and found.get("token") == self._token:
            self._file.unlink(missing_ok=True)

    def _make(self) -> bool:
        content = {"token": self._token, "host": platform.node(), **_process(os.getpid())}
        # Whole when it gets its name: a reader never sees a part. Linking fails where there is one.
        aside = self._file.with_name(f".{self._file.name}-{self._token[:8]}")
        try:
            aside.write_text(json.dumps(content))
            os.link(aside, self._file)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno in FULL:
                raise
            # A file system without links.
            return self._made_alone(json.dumps(content).encode())
        finally:
            aside.unlink(missing_ok=True)
        self._touched = time.monotonic()
        return True

    def _made_alone(self, content: bytes) -> bool:
        try:
            handle = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            return False
        os.write(handle, content)
        os.close(handle)
        self._touched = time.monotonic()
        return True

    def _is_over(self, found: dict[str, Any], is_asked_to_stop: Callable[[], bool]) -> bool:
        """Whether the one who made it is gone."""
        if found.get("machine") == _machine():
            return not _lives(found)
        begin = time.monotonic()
        while time.monotonic() - begin < self._watched:
            if is_asked_to_stop():
                return False
            time.sleep(min(1.0, self._watched / 5))
            if _read(self._file) != found:
                return False
        return True

    def _remove(self, judged: dict[str, Any] | None) -> None:
        """Take away the lease that was judged to be over, and no other that came in its place meanwhile."""
        aside = self._file.with_name(f".{self._file.name}-{self._token[:8]}")
        try:
            os.rename(self._file, aside)
        except FileNotFoundError:
            return
        taken = _read(aside)
        if judged is not None and taken is not None and taken.get("token") != judged.get("token"):
            with contextlib.suppress(OSError):
                os.link(aside, self._file)
        aside.unlink(missing_ok=True)


def holder(file: Path) -> str | None:
    """The host and process that hold a lease, as far as one can tell by looking once; None if nobody does."""
    found = _read(file)
    if found is None:
        return None
    if found.get("machine") == _machine():
        is_held = _lives(found)
    else:
        # Here clocks count, but nothing depends on it beyond what is shown.
        is_held = time.time() - float(found["touched"]) < 2 * WATCHED
    return f"{found.get('host')}, process {found.get('pid')}" if is_held else None


def _read(file: Path) -> dict[str, Any] | None:
    """What a lease says and when it was touched; opening it is what makes a network file system look."""
    try:
        with file.open("rb") as stream:
            touched = os.fstat(stream.fileno()).st_mtime
            found = json.loads(stream.read())
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        found, touched = {}, 0.0
    return {**(found if isinstance(found, dict) else {}), "touched": touched}


def _lives(found: dict[str, Any]) -> bool:
    return _process(found.get("pid", 0)) == {name: found.get(name) for name in ("machine", "pid", "began")}


def _process(pid: int) -> dict[str, Any]:
    """A process among all that this machine has had; numbers are used again, but not together with the time."""
    began = ""
    with contextlib.suppress(OSError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        # A process that has ended and was not yet asked for its code does nothing any more.
        began = "" if fields[0] in "ZX" else fields[19]
    if not Path("/proc/self/stat").exists():
        began = "unknown" if _answers(pid) else ""
    return {"machine": _machine(), "pid": pid if began else None, "began": began}


def _answers(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return True


@cache
def _machine() -> str:
    """The machine since it was started, and the processes of it that can be seen from here."""
    parts = [platform.node()]
    with contextlib.suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip())
        parts.append(os.readlink("/proc/self/ns/pid"))
    return " ".join(parts)
