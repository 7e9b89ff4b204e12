"""Programs that were compiled before are kept on disk, so that the same command compiles nothing the second time.

JAX does this when it is told a folder; its keys hold the program, the versions of JAX and XLA, and their flags. Here is
which folder, one for each kind of CPU, for a home may be shared by machines that know different instructions; that it
does not grow for ever; and that entries which cannot be read, as of a process that was killed, are made again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import re
import stat
from pathlib import Path

import jax

from trajens.cache import VARIABLE, cache_folder

MOST_BYTES = 256 * 2**20
"""What all entries may take; beyond it the oldest go."""
_OF_JAX = "JAX_COMPILATION_CACHE_DIR"
_SHORTEST = "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"
_TROUBLE = re.compile(r"Error (?:reading|writing) persistent compilation cache entry for '(\w+)")


def keep_compiled() -> str:
    """Tell JAX where to keep programs, unless it was told before, and say where that is or why there is none."""
    if not jax.config.values["jax_enable_compilation_cache"]:
        return "off, by JAX_ENABLE_COMPILATION_CACHE"
    if not (told := jax.config.values["jax_compilation_cache_dir"]):
        if (kept := cache_folder()) is None:
            return f"off, by {VARIABLE}" if VARIABLE in os.environ else "off: there is no home folder"
        folder = kept / "xla" / _kind_of_cpu()
        if trouble := _unfit(folder):
            return f"off: {folder} {trouble}; name another folder in {VARIABLE}"
        _shrink(folder)
        told = str(folder)
        jax.config.update("jax_compilation_cache_dir", told)
        if _SHORTEST not in os.environ:
            jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    elif _OF_JAX in os.environ:
        return f"{told}, by {_OF_JAX}"
    return told


def is_forgiven(warning: str) -> bool:
    """Whether a warning is about entries that could not be read or written; the first are removed, to be made again.

    JAX compiles in their place, and would warn of them for ever.
    """
    found = _TROUBLE.match(warning)
    if found and (folder := jax.config.values["jax_compilation_cache_dir"]):
        with contextlib.suppress(OSError):
            for entry in Path(folder).glob(f"{found[1]}-*-cache"):
                entry.unlink(missing_ok=True)
    return found is not None


def _unfit(folder: Path) -> str:
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


def _shrink(folder: Path) -> None:
    """Remove the oldest entries of all kinds of CPU, until the rest takes no more than it may."""
    with contextlib.suppress(OSError):
        found = [(entry, entry.stat()) for entry in folder.parent.glob("*/*-cache")]
        left = sum(about.st_size for _, about in found)
        for entry, about in sorted(found, key=lambda pair: pair[1].st_mtime):
            if left <= MOST_BYTES:
                return
            entry.unlink(missing_ok=True)
            left -= about.st_size


def _kind_of_cpu() -> str:
    """A name for the instructions that this machine knows."""
    known = [platform.machine(), platform.processor()]
    with contextlib.suppress(OSError):
        # One of the processors; on Arm, Features stands for flags.
        first = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").split("\n\n")[0]
        known += re.findall(r"^(?:model name|CPU part|flags|Features)\s*:.*$", first, re.MULTILINE)
    return f"{platform.machine() or 'cpu'}-{hashlib.sha256(' '.join(known).encode()).hexdigest()[:8]}"
