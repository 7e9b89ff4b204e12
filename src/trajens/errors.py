"""The error that tells a user what was given, what is accepted and what to try."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any


class InputError(ValueError):
    """Bad input, found before anything was compiled."""


def require(condition: bool, message: str) -> None:
    """Raise `InputError` with `message` unless `condition` holds."""
    if not condition:
        raise InputError(message)


def integer(name: str, value: Any, minimum: int, advice: str, maximum: int | None = None) -> int:
    """`value` as an int in [minimum, maximum], or an `InputError` that ends with `advice`."""
    accepted = f"at least {minimum}" if maximum is None else f"in {minimum}..{maximum}"
    is_whole = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_whole:
        try:
            value = value.__index__()
        except (AttributeError, TypeError):
            raise InputError(f"{name} must be a whole number {accepted}, got {value!r}; {advice}.") from None
    fits = math.isfinite(value) and value == int(value) and value >= minimum
    require(
        fits and (maximum is None or value <= maximum),
        f"{name} must be a whole number {accepted}, got {value!r}; {advice}.",
    )
    return int(value)


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
    message = f"{name} must be {accepted}, got {value!r}; {advice}."
    require(not isinstance(value, (bool, str, bytes)), message)
    try:
        result = float(value)
    except (TypeError, ValueError):
        raise InputError(message) from None
    require(math.isfinite(result) and result > above and at_least <= result <= at_most, message)
    return result


def choice(name: str, value: Any, accepted: Iterable[str]) -> str:
    """`value` if it is one of the accepted names, else an `InputError` that lists them."""
    names = list(accepted)
    listed = ", ".join(repr(n) for n in names)
    require(
        isinstance(value, str) and value in names,
        f"{name} must be one of {listed}, got {value!r}; check the spelling.",
    )
    return str(value)
