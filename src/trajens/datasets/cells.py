"""What stands in a cell of a table: a number, however it is written, a date, another text, or nothing."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

import numpy as np

MISSING = frozenset(("", "na", "nan", "n/a", "#n/a", "<na>", "null", "?"))
"""How a cell says that its value is missing, in small or large letters."""
_NO_NUMBER = MISSING | {"-", "--", ".", "none", "nil", "n.a.", "missing", "unknown"}
"""The same among numbers, where nothing else can be meant."""
_PER_CENT = "%"
_CURRENCIES = "$€£¥"
_AMOUNT = re.compile(
    rf"(?P<minus>[+-]?)(?P<before>[{_CURRENCIES}]?) ?(?P<sign>[+-]?)(?P<digits>\d{{1,3}}(?:,\d{{3}})+|\d+)?"
    rf"(?P<fraction>\.\d+)? ?(?P<after>[{_PER_CENT}{_CURRENCIES}]?)"
)
_DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+")
_OF_PROGRAMS = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]+|0[oO][0-7]+|0[bB][01]+|\d+(?:_\d+)+)")
_MONTH = "(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_DATE = re.compile(
    r"(?:\d{4}([-/.])\d{1,2}\1\d{1,2}|\d{1,2}([-/.])\d{1,2}\2(?:\d{4}|\d{2})"
    rf"|\d{{1,2}}[-. ]+{_MONTH}[-., ]+\d{{2,4}}|{_MONTH} +\d{{1,2}},? +\d{{4}})"
    r"(?:[T ,]+\d{1,2}:\d{2}.*)?|\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?: ?[ap]m)?",
    re.IGNORECASE,
)


def is_missing(text: str) -> bool:
    """Whether a cell says that there is no value."""
    return text.casefold() in MISSING


def is_no_number(text: str) -> bool:
    """Whether a cell among numbers says that there is none."""
    return text.casefold() in _NO_NUMBER


def is_date(text: str) -> bool:
    """Whether a cell is a date or a time of the day."""
    return _DATE.fullmatch(text) is not None


def is_decimal_comma(text: str) -> bool:
    """Whether a cell is a number with a comma in place of the point."""
    return _DECIMAL_COMMA.fullmatch(text) is not None


def is_odd_number(text: str) -> bool:
    """Whether a cell is a number that is not written plainly: 5%, $5, 1,000.5, 0x1f or 1_000."""
    return plain(text) is None and (_OF_PROGRAMS.fullmatch(text) is not None or _amount(text) is not None)


def plain(text: str) -> float | None:
    """The number in a cell, NaN where it says so, None where it is none."""
    # Python takes 1_000 for a number, and nobody else does.
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def amounts(texts: Iterable[str], has_comma_groups: bool) -> np.ndarray | None:
    """The numbers of a column that is written as amounts, NaN where one is missing; None if it is anything else.

    5% is 0.05, $5 is 5, and 1,000.5 is 1000.5. What cannot be told is not guessed: two currencies, or a per cent beside
    a plain number.

    Parameters
    ----------
    texts : iterable of str
    has_comma_groups : bool
        Whether 1,000 may be a thousand; else it may be 1.
    """
    values, marks = [], set()
    for text in texts:
        value, mark = (math.nan, None) if is_missing(text) else (plain(text), "")
        if value is None:
            found = _amount(text)
            if found is None or ("," in text and not has_comma_groups):
                return None
            value, mark = found
        values.append(value)
        marks.add(mark)
    marks.discard(None)
    is_told = len(marks - {""}) <= 1 and not {_PER_CENT, ""} <= marks
    return np.array(values) if is_told else None


def _amount(text: str) -> tuple[float, str] | None:
    """The number of an amount, and its mark."""
    found = _AMOUNT.fullmatch(text)
    if found is None or not (found["digits"] or found["fraction"]) or (found["before"] and found["after"]):
        return None
    value = float((found["digits"] or "0").replace(",", "") + (found["fraction"] or ""))
    mark = found["before"] or found["after"]
    value = value / 100 if mark == _PER_CENT else value
    return (-value if "-" in (found["minus"] + found["sign"]) else value), mark
