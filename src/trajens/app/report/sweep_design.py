"""What varies in a sweep, and how: axes that results are drawn over, options that go with these, and repeats.

Runs that differ in nothing but `seed` are repeats. An option that is a function of an axis goes with it, as the epochs
of runs that are longer for longer paths; so does one about the length of a run that is a function of several. All
others are axes, of which none is ever averaged over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trajens.app.config import OPTIONS
from trajens.app.report import numerals
from trajens.app.sweeps.results import RunRow

SEED = "seed"
_LENGTHS = "Run"
"""The group of options about the length of a run."""
_DEFAULT = "default"
_FEW = 6
"""Values that are more likely to have been listed than drawn at random."""


@dataclass(frozen=True)
class Axis:
    """An option that results are drawn over.

    Attributes
    ----------
    name : str
    values : tuple
        Numbers by their size, all else in the order of the plan.
    """

    name: str
    values: tuple[Any, ...]

    @property
    def is_number(self) -> bool:
        """Whether all its values are numbers."""
        return all(_is_number(value) for value in self.values)

    @property
    def labels(self) -> list[str]:
        """How its values read."""
        return [write_value(value) for value in self.values]


@dataclass(frozen=True)
class Design:
    """What varies.

    Attributes
    ----------
    axes : tuple of Axis
        In the order of the table of options.
    tied : dict
        Option -> the axes that it goes with.
    has_repeats : bool
        Whether there are runs that differ in nothing but the seed.
    varied : tuple of Axis
        All options that vary, those that are no axes too.
    """

    axes: tuple[Axis, ...]
    tied: dict[str, tuple[str, ...]]
    has_repeats: bool
    varied: tuple[Axis, ...]

    @classmethod
    def of(cls, looks: Sequence[RunRow]) -> Design:
        """The design of a sweep, by all runs of its plan, whatever became of them."""
        columns = {name: [value_of(look, name) for look in looks] for name in OPTIONS}
        varied = {name: column for name, column in columns.items() if len(set(column)) > 1}
        axes: dict[str, list[Any]] = {}
        tied: dict[str, tuple[str, ...]] = {}
        for name, column in varied.items():
            if name == SEED:
                continue
            single = [axis for axis in axes if _goes_with(column, axes[axis])]
            is_length = OPTIONS[name].group == _LENGTHS
            if single:
                tied[name] = (single[0],)
            elif is_length and len(axes) > 1 and _is_function(column, list(zip(*axes.values(), strict=True))):
                tied[name] = tuple(axes)
            else:
                axes[name] = column
        keys = list(zip(*axes.values(), strict=True)) if axes else [()] * len(looks)
        has_repeats = SEED in varied and not _is_function(varied[SEED], keys)
        if SEED in varied and not has_repeats:
            single = [axis for axis in axes if _is_function(varied[SEED], axes[axis])]
            tied[SEED] = tuple(single[:1] or axes)
        made = {name: Axis(name, _ordered(column)) for name, column in varied.items()}
        return cls(tuple(made[name] for name in axes), tied, has_repeats, tuple(made.values()))


def value_of(look: RunRow, name: str) -> Any:
    """The value of an option, as something that can be compared; s is that of the chains."""
    if name == "s" and look.s is not None:
        return look.s
    value = look.options.get(name)
    return "-".join(map(str, value)) if isinstance(value, list) else value


def write_value(value: Any) -> str:
    """A value as it reads; of a path its end."""
    if value is None:
        return _DEFAULT
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return numerals.number(value) if abs(value) < 1e6 else f"{value:.4g}"
    return str(value).rsplit("/", 1)[-1]


def _ordered(column: list[Any]) -> tuple[Any, ...]:
    values = list(dict.fromkeys(column))
    numbers = sorted(value for value in values if _is_number(value))
    return (*numbers, *(value for value in values if not _is_number(value)))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_function(column: list[Any], keys: list[Any]) -> bool:
    """Whether a key has one value only."""
    found: dict[Any, Any] = {}
    return all(found.setdefault(key, value) == value for key, value in zip(keys, column, strict=True))


def _goes_with(column: list[Any], other: list[Any]) -> bool:
    """Whether one is a function of the other, and not just since all settings differ, as those drawn at random."""
    if not _is_function(column, other):
        return False
    pairs = dict(zip(other, column, strict=True))
    if len(pairs) <= _FEW or not all(map(_is_number, pairs)):
        return True
    if not all(map(_is_number, pairs.values())):
        return False
    steps = np.diff([pairs[key] for key in sorted(pairs)])
    return bool((steps >= 0).all() or (steps <= 0).all())
