"""Errors that tell a user what was given, what is accepted and what to try; and the exit codes of the program.

An exit code of 0 is done, and 1, which Python gives an exception, a bug.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np


class InputError(ValueError):
    """Bad input, found before anything was compiled."""


class Stopped(Exception):
    """A run was stopped before there was one to return: in its start."""


class StorageError(OSError):
    """A file that could not be written; what was saved before is intact."""


def require(condition: bool, message: str) -> None:
    """Raise `InputError` with `message` unless `condition` holds."""
    if not condition:
        raise InputError(message)


def integer(name: str, value: Any, minimum: int, advice: str, maximum: int | None = None) -> int:
    """`value` as an int in [minimum, maximum], or an `InputError` that ends with `advice`."""
    accepted = f"at least {minimum}" if maximum is None else f"in {minimum}..{maximum}"
    message = f"{name} must be a whole number {accepted}, got {_shown(value)}; {advice}."
    require(not _is_no_number(value), message)
    try:
        whole = int(value)
        is_whole = bool(whole == value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(message) from None
    require(is_whole and whole >= minimum and (maximum is None or whole <= maximum), message)
    return whole


def number(
    name: str,
    value: Any,
    advice: str,
    above: float = -math.inf,
    at_most: float = math.inf,
    at_least: float = -math.inf,
) -> float:
    """`value` as a finite float in the stated range, or an `InputError` that ends with `advice`."""
    bounds = []
    if above > -math.inf:
        bounds.append(f"> {above:g}")
    if at_least > -math.inf:
        bounds.append(f">= {at_least:g}")
    if at_most < math.inf:
        bounds.append(f"<= {at_most:g}")
    accepted = "a finite number" + (" " + " and ".join(bounds) if bounds else "")
    message = f"{name} must be {accepted}, got {_shown(value)}; {advice}."
    require(not _is_no_number(value), message)
    try:
        result = float(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(message) from None
    require(math.isfinite(result) and result > above and at_least <= result <= at_most, message)
    return result


def choice(name: str, value: Any, accepted: Iterable[str]) -> str:
    """`value` if it is one of the accepted names, else an `InputError` that lists them."""
    names = list(accepted)
    listed = ", ".join(repr(n) for n in names)
    require(
        isinstance(value, str) and value in names,
        f"{name} must be one of {listed}, got {_shown(value)}; check the spelling.",
    )
    return str(value)


def pairs_of(name: str, value: Any, advice: str) -> list[tuple[Any, Any]]:
    """`value` as a list of pairs, or an `InputError` that ends with `advice`."""
    try:
        return [(first, second) for first, second in value]
    except (TypeError, ValueError):
        raise InputError(f"{name} must be a sequence of pairs, got {_shown(value)}; {advice}.") from None


def first_line(error: BaseException) -> str:
    """An error that is not ours, in one line: the first that says something, whole."""
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0] if text else 'no message'}"


def _is_no_number(value: Any) -> bool:
    """Truth values and text convert to numbers, but nobody means them as such."""
    return isinstance(value, (bool, np.bool_, str, bytes))


def _shown(value: Any) -> str:
    """The value as the user would recognise it, cut where it is endless."""
    try:
        text = " ".join(line.strip() for line in repr(value).splitlines())
    except ValueError:
        text = f"a {type(value).__name__} too large to print"
    return text if len(text) <= 80 else text[:77] + "..."


BAD_INPUT = 2
"""What was asked for cannot be done: an option, an input, its size or the machine."""
NOT_WRITTEN = 3
"""A file or stdout could not be written."""
SOME_FAILED = 4
"""Some runs of a sweep failed; the others are complete."""
STOPPED = 75
"""A run was asked to stop and saved itself: try again later (EX_TEMPFAIL)."""
INTERRUPTED = 130
"""Interrupted at once, or stopped with nothing saved."""
