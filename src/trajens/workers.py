"""Callers of a host function: one after the other, in threads, or in processes of their own.

This module is what a spawned process loads to call the function, so it loads no JAX.
"""

from __future__ import annotations

import pickle
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any

from trajens.errors import InputError, choice, first_line, integer, require

THREADS, PROCESSES = "threads", "processes"
"""Kinds of workers."""

_function: Callable[..., Any]
"""The function of a worker process."""


class Callers:
    """Workers that call one function, started at the first call.

    A single worker calls in the thread that asks, one call at a time: most functions are not made for several threads.

    Parameters
    ----------
    function : callable
        For processes it must be importable: they are spawned, and know it by its module and name.
    workers : int
    pool : "threads" or "processes"
    """

    def __init__(self, function: Callable[..., Any], workers: int = 1, pool: str = THREADS):
        self.function = function
        self.workers = integer("workers", workers, 1, "one worker per core is usual")
        self._is_spawning = choice("pool", pool, (THREADS, PROCESSES)) == PROCESSES
        self._lock = threading.Lock()
        self._executor: Executor | None = None
        if self._is_spawning:
            _require_importable(function)

    def call(self, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Results of the function for each tuple of arguments, in their order; its exceptions come out as they are."""
        if self.workers == 1 and not self._is_spawning:
            with self._lock:
                return [self.function(*given) for given in arguments]
        executor = self._started()
        if not self._is_spawning:
            return list(executor.map(self._call_here, arguments))
        share = -(-len(arguments) // self.workers)
        try:
            return list(executor.map(_call_there, arguments, chunksize=max(share, 1)))
        except BrokenProcessPool:
            # A later call starts anew.
            self._executor = None
            raise

    def _call_here(self, given: tuple[Any, ...]) -> Any:
        return self.function(*given)

    def _started(self) -> Executor:
        with self._lock:
            if self._executor is None and self._is_spawning:
                self._executor = ProcessPoolExecutor(
                    self.workers, mp_context=get_context("spawn"), initializer=_take, initargs=(self.function,)
                )
            elif self._executor is None:
                self._executor = ThreadPoolExecutor(self.workers, "trajens-external")
            return self._executor


def _require_importable(function: Callable[..., Any]) -> None:
    """Refuse a function that a spawned process could not find."""
    advice = "define it at the top of a file that can be imported, or use threads"
    try:
        pickle.dumps(function)
    except Exception as error:
        raise InputError(
            f"a function for processes must be importable, got {function!r}, which gives {first_line(error)}; {advice}."
        ) from None
    is_typed = getattr(function, "__module__", None) == "__main__" and not hasattr(sys.modules["__main__"], "__file__")
    require(not is_typed, f"a function for processes must be importable, got {function!r} of no file; {advice}.")


def _take(function: Callable[..., Any]) -> None:
    global _function
    _function = function


def _call_there(given: tuple[Any, ...]) -> Any:
    return _function(*given)
