"""Plan of a sweep: a table of settings that becomes one run each, checked whole before anything starts.

    [options]            for all runs, those of ``trajens train``
    problem = "perceptron"
    epochs = 20000
    [grid]               every combination
    tau = [4, 8]
    seed = [1, 2, 3]
    [[list]]             and all that for every row
    s = 20
    sigma = 0.1

A run is what ``trajens train`` makes of its options, bit for bit. Chains of one run share a process and a program: a
list of s or of seeds in `options` or in a row (or within a list of the grid) is one run with `chains` for each, as
``--s 5,10,20 --seed 1,2`` is. ``together = ["s", "seed"]`` before the tables makes such lists of what the grid has of
them: one compilation, one GPU.

The name of a run is what is its own, as text that every file system takes and people can read.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from trajens.app.config import OPTIONS, Config
from trajens.app.experiment import Experiment
from trajens.app.kinds import tilts
from trajens.app.resolve import rename_options, resolve
from trajens.errors import InputError, require
from trajens.storage.options import read_toml

ONLY = "run"
"""The name of a run that has nothing of its own."""
_LONGEST_VALUE, _LONGEST_NAME, _DIGITS = 32, 160, 6
_STRANGE = re.compile(r"[^A-Za-z0-9._+-]")


def name_of(own: dict[str, Any]) -> str:
    """``s=20,seed=1,tau=4``: options in the order of the alphabet; what is long or strange is cut, with a sum of it."""
    name = ",".join(f"{key}={_text(value)}" for key, value in sorted(own.items()))
    if len(name) > _LONGEST_NAME:
        name = f"{name[:_LONGEST_NAME]}~{_sum(name)}"
    return name or ONLY


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return _safe("+".join(_number(part) for part in value))
    return _safe(_number(value))


def _number(value: Any) -> str:
    """A number as short as it can be said without becoming another; anything else as a text."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() and abs(value) < 1e15 else str(value)


def _safe(text: str) -> str:
    safe = _STRANGE.sub("_", text)
    if safe == text and 0 < len(text) <= _LONGEST_VALUE:
        return text
    # The end of a path says more than its beginning.
    return f"{safe[-_LONGEST_VALUE:].strip('._')}~{_sum(text)}"


def _sum(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]


MAX_RUNS = 10_000
_TABLES = ("options", "grid", "list")
_TOGETHER = "together"
_CHAINS = ("s", "seed")
"""Options of which chains of one run may have their own."""
_KEPT = 2
"""Networks, with their data, that are kept while a plan is checked."""
_SHOWN = 20
"""Bad settings that are told of, at most."""


class Planned(NamedTuple):
    """One run of a sweep: its name, which is that of its directory, and its options."""

    name: str
    config: Config


@dataclass(frozen=True)
class Plan:
    """The runs of a sweep, in the order of the plan: rows, and within each the grid, its last option fastest."""

    runs: tuple[Planned, ...]

    @classmethod
    def of(cls, source: Plan | dict[str, Any] | str | Path) -> Plan:
        """The plan in a TOML file or a dict; every setting that is refused is named with its sentence."""
        if isinstance(source, Plan):
            return source
        tables = read_toml(Path(source), "plan") if isinstance(source, (str, Path)) else source
        require(
            isinstance(tables, dict),
            f"a plan must be a TOML file or a dict, got {type(tables).__name__}; give options, grid and list.",
        )
        return cls(_runs(tables))

    @property
    def varied(self) -> tuple[str, ...]:
        """Options that are not the same in all runs."""
        options = [asdict(run.config) for run in self.runs]
        return tuple(name for name in OPTIONS if any(each[name] != options[0][name] for each in options))


def _runs(tables: dict[str, Any]) -> tuple[Planned, ...]:
    settings = list(_settings(tables))
    runs: list[Planned] = []
    refused: list[str] = []
    by_text: dict[str, str] = {}
    by_name: dict[str, str] = {}
    known: deque[Experiment] = deque(maxlen=_KEPT)
    for own, options in settings:
        try:
            run = _planned(own, options, known)
        except InputError as error:
            refused.append(f"{_shown(own)}: {error}")
            continue
        # Some file systems do not tell capitals from small letters.
        text, name = _meant(run.config), run.name.casefold()
        if text in by_text or name in by_name:
            other = by_text.get(text) or by_name[name]
            refused.append(f"{_shown(own)}: settings must differ, got the same as {other}; leave one of them out.")
            continue
        by_text[text] = by_name[name] = run.name
        runs.append(run)
    if refused:
        more = f"\n  and {len(refused) - _SHOWN} more" if len(refused) > _SHOWN else ""
        raise InputError(
            f"all settings of a sweep must be accepted before any is run, got {len(refused)} of {len(settings)} that "
            "are not:\n  " + "\n  ".join(refused[:_SHOWN]) + more
        )
    return tuple(runs)


def _planned(own: dict[str, Any], options: dict[str, Any], known: deque[Experiment]) -> Planned:
    """A run that would be accepted; data and networks of those that are `known` are not read or made again."""
    config = resolve(options)
    require(
        config.minutes is None,
        f"minutes must be left out of a sweep, whose runs must be the same when they are done again, got "
        f"{config.minutes}; give a budget.",
    )
    experiment = Experiment(config, known)
    experiment.check()
    if not any(experiment.problem is other.problem for other in known):
        known.append(experiment)
    return Planned(name_of({key: OPTIONS[key].kind(key, value) for key, value in own.items()}), config)


def _meant(config: Config) -> str:
    """A text that is the same for options that mean the same."""
    return replace(config, s=None if config.s is None else str(tilts(config.s))).to_toml()


def _settings(tables: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """What is a run's own, and all its options."""
    unknown = [name for name in tables if name not in (*_TABLES, _TOGETHER)]
    require(
        not unknown,
        f"a plan must have the tables {', '.join(_TABLES)}, got {', '.join(map(repr, unknown))}; options of all runs "
        "belong under [options].",
    )
    common, grid = (_table(name, tables.get(name, {})) for name in ("options", "grid"))
    given = tables.get("list", [{}])
    require(
        isinstance(given, list) and len(given) > 0,
        f"list must be a list of tables of options, got {given!r}; write [[list]] before every one.",
    )
    rows = [_table("list", row) for row in given]
    for name, values in grid.items():
        require(
            isinstance(values, list) and len(values) > 0,
            f"grid must have a list of values for every option, got {values!r} for {name}; write {name} = [..].",
        )
        for place, others in (("options", [common]), ("list", rows)):
            require(
                not any(name in other for other in others),
                f"{name} must stand in one table of a plan, got it in grid and in {place}; leave it out of one.",
            )
    grid |= _joined(tables.get(_TOGETHER, []), grid)
    count = len(rows) * math.prod(len(values) for values in grid.values())
    require(
        count <= MAX_RUNS,
        f"a sweep must be of at most {MAX_RUNS:,} runs, got {count:,}; make several sweeps of it, or lists of s.",
    )
    for row in rows:
        for values in product(*grid.values()):
            own = {**row, **dict(zip(grid, values, strict=True))}
            yield own, {**common, **own}


def _joined(together: Any, grid: dict[str, Any]) -> dict[str, Any]:
    """Lists of the grid that become one value each, for the chains of one run."""
    require(
        isinstance(together, list) and set(together) <= {*_CHAINS} & {*grid},
        f"together must be a list of {' and '.join(_CHAINS)}, as far as the grid has them, got {together!r}; leave out "
        "what it does not have.",
    )
    for name in together:
        require(
            all(isinstance(value, (int, float)) for value in grid[name]),
            f"{name} must be numbers in the grid to be chains together, got {grid[name]!r}; leave {name} out of "
            "together.",
        )
    return {name: [grid[name]] for name in together}


def _table(name: str, given: Any) -> dict[str, Any]:
    require(
        isinstance(given, dict), f"{name} must be a table of options, got {given!r}; write lines like tau = 8 in it."
    )
    return rename_options({str(key).replace("-", "_"): value for key, value in given.items()})


def _shown(own: dict[str, Any]) -> str:
    return ", ".join(f"{name} = {value!r}" for name, value in own.items()) or "the options"
