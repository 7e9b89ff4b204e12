"""Levels of vector instructions of the CPU kernel: AVX-512, AVX2 with fused multiply-adds, SSE2, NEON.

The library holds the kernel once for each level of its family of processors and uses the fastest that the machine can
run. ``$TRAJENS_CPU_LEVEL`` names another. Sums within a channel have one order at every level, so levels that fuse
multiply-adds (all but SSE2) give the same losses bit for bit.
"""

from __future__ import annotations

import ctypes
import os
import time

from trajens.errors import require

VARIABLE = "TRAJENS_CPU_LEVEL"
NAMES = {"avx512": "AVX-512", "avx2": "AVX2", "sse2": "SSE2", "neon": "NEON", "generic": "no vector instructions known"}
"""Names of the levels, and what processors call them."""

_ROUNDS = 20_000
"""Rounds of multiply-adds between two looks at the clock: some tenths of a millisecond."""


class CpuLevels:
    """The levels of a loaded CPU library that this machine can run.

    Parameters
    ----------
    library : ctypes.CDLL
        The CPU kernels. `AttributeError` where it has no levels.
    """

    def __init__(self, library: ctypes.CDLL):
        library.trajens_cpu_levels.restype = ctypes.c_char_p
        library.trajens_cpu_use.restype = ctypes.c_bool
        library.trajens_cpu_is_fused.restype = ctypes.c_bool
        library.trajens_cpu_multiply_adds.restype = ctypes.c_double
        library.trajens_cpu_multiply_adds.argtypes = [ctypes.c_int64]
        self._library = library
        self.names: tuple[str, ...] = tuple(library.trajens_cpu_levels().decode().split())
        """Levels that this machine can run, the fastest first."""
        self.use(os.environ.get(VARIABLE) or self.names[0])

    def use(self, name: str) -> None:
        """Compute with the level `name` from the next call of the kernel on, in this process."""
        require(
            name in self.names,
            f"{VARIABLE} must be a level that this processor can run ({', '.join(self.names)}), got {name!r}; leave it "
            "out for the fastest.",
        )
        self._library.trajens_cpu_use(name.encode())
        self.in_use = name

    @property
    def is_fused(self) -> bool:
        """Whether a multiply-add of the level in use rounds once."""
        return bool(self._library.trajens_cpu_is_fused())

    def multiply_adds_per_second(self, seconds: float) -> float:
        """Multiply-adds per second of one core at the level in use, without any memory: the limit of its units.

        The best of many short rounds counts: other work on the machine only ever slows down.
        """
        best, begin = 0.0, time.perf_counter()
        while (last := time.perf_counter()) - begin < seconds or best == 0.0:
            done = self._library.trajens_cpu_multiply_adds(_ROUNDS)
            best = max(best, done / (time.perf_counter() - last))
        return best

    def __str__(self) -> str:
        others = [NAMES[name] for name in self.names if name != self.in_use]
        return NAMES[self.in_use] + (f" (also here: {', '.join(others)})" if others else "")
