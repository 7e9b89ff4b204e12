"""Environment of a command: the devices that JAX sees, and programs that were compiled before.

*Devices.* One JAX device per CPU core: chains are spread over devices, and by default JAX sees a single one.

*Programs.* Programs that were compiled before are kept on disk, so that the same command compiles nothing the second
time.

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
from pathlib import Path

import jax

from trajens.errors import InputError, first_line
from trajens.files import CACHE_VARIABLE, cache_folder, unfit_for_programs


def num_cores() -> int:
    """Cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def use_all_cores() -> None:
    """Give JAX one CPU device per core, unless the user chose a number or JAX is already running."""
    _give_all_cores()
    require_devices()


def require_devices() -> None:
    """Refuse a platform that JAX was told to use and cannot."""
    try:
        jax.devices()
    except (RuntimeError, AssertionError) as error:
        # Without a plugin for it, JAX answers the platform cuda with an empty AssertionError.
        reason = f" ({first_line(error)})" if str(error) else ""
        raise InputError(
            f"JAX_PLATFORMS must name platforms that are here, got '{jax.config.values['jax_platforms']}', which JAX "
            f"cannot use{reason}; unset it, or use JAX_PLATFORMS=cpu."
        ) from None


def _give_all_cores() -> None:
    is_chosen = getattr(jax.config, "jax_num_cpu_devices", 0) > 0
    if is_chosen or "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", ""):
        return
    try:
        jax.config.update("jax_num_cpu_devices", num_cores())
    except RuntimeError:
        # The number of devices is fixed once JAX has used one.
        return


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
            return f"off, by {CACHE_VARIABLE}" if CACHE_VARIABLE in os.environ else "off: there is no home folder"
        folder = kept / "xla" / _kind_of_cpu()
        if trouble := unfit_for_programs(folder):
            return f"off: {folder} {trouble}; name another folder in {CACHE_VARIABLE}"
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
