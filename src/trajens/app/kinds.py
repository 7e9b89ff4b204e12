"""Kinds of options: what a flag's text or a value in a TOML file is turned into, or refused with one sentence."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from trajens.errors import InputError, choice, integer, number, require

Kind = Callable[[str, Any], Any]
"""From the name of an option and a text or plain value to the value it means."""


def whole(name: str, value: Any) -> int:
    """A whole number; 2e5 is one. Its range is checked by what it is for."""
    message = f"{name} must be a whole number such as 8 or 2e5, got {value!r}; see trajens train --help."
    found = as_number(value, message)
    require(found == int(found), message)
    return int(found)


def real(name: str, value: Any) -> float:
    """A number."""
    return as_number(value, f"{name} must be a finite number, got {value!r}; see trajens train --help.", math.inf)


def positive(name: str, value: Any) -> float:
    """A number > 0."""
    return number(name, real(name, value), "see trajens train --help", above=0.0)


def seconds(name: str, value: Any) -> float:
    """A time, which may be none."""
    return number(name, real(name, value), "see trajens train --help", at_least=0.0)


def text(name: str, value: Any) -> str:
    """A text."""
    # No file system takes a path with a zero byte in it, and Python's functions of paths raise.
    is_text = isinstance(value, str) and "\0" not in value
    require(is_text, f"{name} must be a text, got {value!r}; see trajens train --help.")
    return str(value)


def switch(name: str, value: Any) -> bool:
    """True or false."""
    require(isinstance(value, bool), f"{name} must be true or false, got {value!r}; see trajens train --help.")
    return bool(value)


def one_of(names: tuple[str, ...]) -> Kind:
    """One of several names."""
    return lambda name, value: choice(name, value, names)


def names(name: str, value: Any) -> list[str]:
    """One name or a list of them."""
    return [text(name, part) for part in (value if isinstance(value, list) else [value])]


def sizes(name: str, value: Any) -> list[int]:
    """Whole numbers: 32, "64,32" or a list."""
    message = f"{name} must be sizes of layers such as 32 or 64,32, got {value!r}; try 32."
    return [integer(name, as_number(part, message), 1, "try 32") for part in _parts(value)]


def share(name: str, value: Any) -> float:
    """A share of the whole, less than all of it."""
    message = f"{name} must be a share such as 0.2, got {value!r}; try 0.2."
    return number(name, as_number(value, message), "try 0.2", at_least=0.0, at_most=0.9)


def interval(name: str, value: Any) -> list[float]:
    """Two numbers, "-200,0" or a list, the lower one first."""
    message = f"{name} must be two numbers such as -200,0, the lower one first, got {value!r}; try -200,0."
    parts = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else [value]
    found = [float(as_number(part, message)) for part in parts]
    require(len(found) == 2 and found[0] < found[1], message)
    return found


def prior(name: str, value: Any) -> str | float:
    """A standard deviation, or flat."""
    if value == "flat":
        return "flat"
    message = f"{name} must be flat or a standard deviation > 0, got {value!r}; try 0.3."
    return number(name, as_number(value, message), "use flat or try 0.3", above=0.0)


def tilt(name: str, value: Any) -> Any:
    """A number, several as a list or "5,10,20", or an annealing "60:1000"."""
    tilts(value)
    return value


def tilts(s: Any) -> tuple[list[float], tuple[float, float] | None]:
    """`s` as (numbers, None), or as ([1.0], (first, last)) for an annealing written first:last."""
    message = f"s must be a number, several as 5,10,20, or an annealing as 60:1000, got {s!r}; try 50."
    if isinstance(s, str) and ":" in s:
        ends = s.split(":")
        require(len(ends) == 2, message)
        first, last = (number("s", as_number(end, message), "try 60:1000", above=0.0) for end in ends)
        return [1.0], (first, last)
    values = [number("s", as_number(part, message), "try 1 to 1000", at_least=0.0) for part in _parts(s)]
    require(len(values) > 0, message)
    return values, None


def seeds(name: str, value: Any) -> int | list[int]:
    """A whole number, or several as a list or "1,2,3"; chains for each of them."""
    found = [whole(name, part) for part in _parts(value)]
    require(
        0 < len(found) == len(set(found)),
        f"{name} must be a whole number or several that differ, got {value!r}; try 1 or 1,2,3.",
    )
    return found[0] if len(found) == 1 else found


AUTO = "auto"


def exchange(name: str, value: Any) -> str | int:
    """Epochs from one exchange of paths to the next, or auto."""
    if value == AUTO:
        return AUTO
    message = f"{name} must be auto or epochs from one exchange to the next, got {value!r}; try auto."
    return integer(name, as_number(value, message), 1, "try auto")


def group_chains(s: Any, chains: int) -> list[tuple[float | None, np.ndarray]]:
    """Every value of s and its chains, of all `chains`; None where the run chooses it, the last of an annealing."""
    values, annealing = ([None], None) if s is None else tilts(s)
    known = [annealing[1]] if annealing is not None else values
    return list(zip(known, np.split(np.arange(chains), len(known)), strict=True))


def as_number(value: Any, message: str, below: float = 2.0**53) -> Any:
    """A number of a size `below`, or the one in a text, whole where it is; a refusal with `message` of all else."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            raise InputError(message) from None
        value = int(value) if value.is_integer() else value
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < below
    require(is_number, message)
    return value


def _parts(value: Any) -> list[Any]:
    """What stands between the commas of a text, what is in a list, or the one value."""
    if isinstance(value, str):
        return list(value.split(","))
    return value if isinstance(value, list) else [value]
