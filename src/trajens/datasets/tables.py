"""Tables in text files, whose columns are known by their names.

The csv module of the standard library knows quotes, line breaks inside of them and any delimiter, and reads a million
cells in a fraction of a second. What it gives are texts: numbers are made of them a block of rows and one column at a
time, so that a table of numbers is never held as texts.
"""

from __future__ import annotations

import csv
import itertools
import math
import warnings
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from trajens.errors import InputError, require

MISSING = frozenset(("", "na", "nan"))
"""How a cell says that its value is missing, in small or large letters."""
SUFFIXES = (".csv", ".tsv")
_DELIMITERS = (",", ";", "\t")
_BLOCK = 4096


class TableColumn(NamedTuple):
    """One column of a table.

    Attributes
    ----------
    numbers : (n,) float64
        NaN where the value is missing or a text.
    texts : list of str, optional
        The cells as they are written, of a column of texts or one that was asked for.
    is_text : bool
        Whether a cell is neither a number nor missing.
    """

    name: str
    numbers: np.ndarray
    texts: list[str] | None
    is_text: bool


class Table(NamedTuple):
    """Columns by name, and the line of the file in which every row begins; the names are in line 1."""

    file: Path
    columns: dict[str, TableColumn]
    lines: np.ndarray


def rows(file: Path) -> Iterator[tuple[int, list[str]]]:
    """The names of the columns and then every row, each with the line in which it begins.

    The delimiter is the one of comma, semicolon and tab that stands most often in the first line. Empty lines are no
    rows, but of a table of one column; lines that begin with # are rows like any other.
    """
    require(file.is_file(), f"path must be a file that exists, got '{file}'; check the spelling.")
    line = 1
    try:
        with file.open(encoding="utf-8-sig", newline="") as stream:
            first = stream.readline()
            delimiter = max(_DELIMITERS, key=_outside_quotes(first).count)
            reader = csv.reader(
                itertools.chain([first], stream), delimiter=delimiter, strict=True, skipinitialspace=True
            )
            width = 0
            for cells in reader:
                if cells or width == 1:
                    width = width or len(cells)
                    require(
                        len(cells or [""]) == width,
                        f"'{file}' must have {width} cells in every row, as its first line has, got {len(cells)} in "
                        f"line {line}; check its delimiters and quotes.",
                    )
                    yield line, [cell.strip() for cell in cells] or [""]
                line = reader.line_num + 1
    except UnicodeDecodeError:
        raise InputError(f"'{file}' must be text in UTF-8, got other bytes; save it as UTF-8.") from None
    except csv.Error as error:
        raise InputError(f"'{file}' must be a table, got {error} in line {line}; check its quotes.") from None


def header(file: Path) -> list[str]:
    """Names of the columns of a table."""
    _, names = next(rows(file), (1, [""]))
    require(any(names), f"'{file}' must begin with the names of its columns, got none; write them into line 1.")
    return names


def read(file: Path, names: Sequence[str] | None = None, texts: Collection[str] = ()) -> Table:
    """Read columns of a table.

    Parameters
    ----------
    file : Path
    names : sequence of str, optional
        Columns to read, others are not looked at. Default: all; every one must have a name then, but a first one that
        counts the rows from 0 or 1, which is left out with a warning.
    texts : collection of str
        Columns whose texts are kept even where they are numbers.
    """
    found = header(file)
    missing = [name for name in names or () if name not in found]
    require(
        not missing, f"'{file}' must have the columns {_listed(missing)}, got {_listed(found)}; add or rename them."
    )
    wanted = found if names is None else list(names)
    doubled = sorted({name for name in wanted if found.count(name) > 1})
    require(not doubled, f"'{file}' must name every column once, got {_listed(doubled)} twice; rename one.")
    nameless = [i + 1 for i, name in enumerate(found) if name == "" and i > 0 and names is None]
    require(not nameless, f"'{file}' must name every column, got none for number {nameless[:1]}; name it in line 1.")
    growing = [_Growing(name, name in texts) for name in wanted]
    places = [found.index(name) for name in wanted]
    lines: list[int] = []
    body = itertools.islice(rows(file), 1, None)
    while block := list(itertools.islice(body, _BLOCK)):
        here = [line for line, _ in block]
        for column, place in zip(growing, places, strict=True):
            column.add([cells[place] for _, cells in block], here)
        lines += here
    require(len(lines) > 0, f"'{file}' must hold rows, got none after the names of the columns; check the file.")
    table = Table(file, {column.name: column.done(file) for column in growing}, np.array(lines))
    return _without_index(table) if names is None else table


class _Growing:
    """A column that is read block by block."""

    def __init__(self, name: str, keeps_texts: bool):
        self.name, self._keeps_texts = name, keeps_texts
        self._numbers: list[np.ndarray] = []
        self._texts: list[str] = []
        self._number: tuple[float, int] | None = None
        self._word: tuple[str, int] | None = None

    def add(self, cells: list[str], lines: list[int]) -> None:
        numbers, word = _numbers(cells)
        self._numbers.append(numbers)
        if self._number is None and not np.isnan(numbers).all():
            place = int((~np.isnan(numbers)).argmax())
            self._number = float(numbers[place]), lines[place]
        if word is not None and self._word is None:
            self._word = cells[word], lines[word]
        # Until a number comes this may be a column of texts, and then it has none.
        if self._keeps_texts or self._number is None:
            self._texts += cells
        else:
            self._texts = []

    def done(self, file: Path) -> TableColumn:
        if self._word is not None and self._number is not None and not self._keeps_texts:
            (word, line), (number, other) = self._word, self._number
            raise InputError(
                f"column '{self.name}' of '{file}' must hold numbers or texts, got '{word}' in line {line} and "
                f"{number:g} in line {other}; correct it, or leave it empty where the value is missing."
            )
        is_text = self._word is not None
        texts = self._texts if self._keeps_texts or is_text else None
        return TableColumn(self.name, np.concatenate(self._numbers), texts, is_text)


def _numbers(cells: list[str]) -> tuple[np.ndarray, int | None]:
    """Cells as numbers, NaN where that is not what they are, and the place of the first that is a text."""
    # Python takes 1_000 for a number, and nobody else does.
    if "_" not in "".join(cells):
        try:
            return np.array([float(cell) for cell in cells]), None
        except ValueError:
            pass
    values, word = np.full(len(cells), math.nan), None
    for i, cell in enumerate(cells):
        try:
            values[i] = float("no" if "_" in cell else cell)
        except ValueError:
            if word is None and cell.casefold() not in MISSING:
                word = i
    return values, word


def _without_index(table: Table) -> Table:
    column = table.columns.get("")
    if column is None:
        return table
    count = np.arange(len(table.lines))
    require(
        np.array_equal(column.numbers, count) or np.array_equal(column.numbers, count + 1),
        f"'{table.file}' must name every column, got none for number 1, which does not count the rows; name it in "
        "line 1.",
    )
    warnings.warn(
        f"the first column of '{table.file}' has no name and counts the rows: it is left out of the inputs.",
        stacklevel=2,
    )
    return table._replace(columns={name: other for name, other in table.columns.items() if name})


def _outside_quotes(line: str) -> str:
    return "".join(line.split('"')[::2])


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:8])
    return shown + (f" and {len(names) - 8} more" if len(names) > 8 else "")
