"""A judgement on a run: what was looked at, what was found, what to do about it."""

from __future__ import annotations

from typing import NamedTuple

OK, ATTENTION, UNKNOWN = "ok", "attention", "unknown"
"""What a judgement may come to."""


class Judgement(NamedTuple):
    """One thing that was looked at.

    Attributes
    ----------
    name : str
        What it is about, in a word or two.
    mark : str
        `OK`, `ATTENTION` or `UNKNOWN`.
    sentence : str
        What was found, with its number.
    following : str
        What to do about it; empty where there is nothing to do.
    """

    name: str
    mark: str
    sentence: str
    following: str = ""
