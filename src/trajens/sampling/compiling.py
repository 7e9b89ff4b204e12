"""Programs that are compiled in threads while something else is done, and waited for where they are needed.

Tracing a program runs Python, perhaps the user's, and stays with whoever asks; compiling it lets go of the interpreter.
What was compiled is found by the call that needs it, since JAX knows it by the same trace. A call that differs in
anything compiles by itself, as it would have without this.
"""

from __future__ import annotations

from collections.abc import Hashable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cache
from typing import Any

_THREADS = 4


class Compiling:
    """What is being compiled, by name."""

    def __init__(self) -> None:
        self._begun: dict[Hashable, Future[Any]] = {}

    def begin(self, name: Hashable, function: Any, *given: Any) -> None:
        """Compile a function of `jax.jit` for arguments like these, once for every name."""
        if name not in self._begun:
            self._begun[name] = _threads().submit(function.lower(*given).compile)

    def finish(self, name: Hashable) -> None:
        """Wait until it is compiled, if that was begun; what has failed will fail again where it is called."""
        if name in self._begun:
            wait([self._begun[name]])


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS, "trajens-compiling")
