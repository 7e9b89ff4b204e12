"""Tables in text files, whose columns are known by their names.

The csv module of the standard library knows quotes, line breaks inside of them and any delimiter, and reads a million
cells in a fraction of a second. What it gives are texts: numbers are made of them a block of rows and one column at a
time, so that a table of numbers is never held as texts.
"""

from __future__ import annotations

import csv
import itertools
import math
from collections.abc import Collection, Iterator, Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from trajens.datasets.cells import amounts, is_missing, is_no_number, plain
from trajens.errors import InputError, require

SUFFIXES = (".csv", ".tsv")
_DELIMITERS = (",", ";", "\t", "|")
_EXACT = 2**53
_INDEX_NAMES = frozenset(("", "id", "index", "rownames", "row.names", "unnamed: 0"))
_BLOCK = 4096


class TableColumn(NamedTuple):
    """One column of a table.

    Attributes
    ----------
    numbers : (n,) float64 or whole numbers
        NaN where the value is missing or a text.
    texts : list of str, optional
        The cells as they are written, of a column with texts or one that was asked for.
    is_text : bool
        Whether a cell is neither a number nor missing.
    amount : str, optional
        A cell of a column of numbers that are not written plainly, such as 5% or 1,000.
    """

    name: str
    numbers: np.ndarray
    texts: list[str] | None
    is_text: bool
    amount: str | None = None

    @property
    def is_missing(self) -> np.ndarray:
        """Where there is no value (n,)."""
        if self.texts is not None:
            return np.array([is_missing(text) for text in self.texts])
        return np.isnan(self.numbers)

    @property
    def has_no_number(self) -> np.ndarray:
        """Where there is no value, or a word that says so among numbers (n,)."""
        if self.texts is not None:
            return np.array([is_no_number(text) for text in self.texts])
        return np.isnan(self.numbers)

    @property
    def values(self) -> list[Any]:
        """The numbers one by one; those that are too large for float64 to tell apart are whole and exact."""
        values = self.numbers.tolist()
        if self.texts is not None and any(abs(value) >= _EXACT for value in values):
            return [_exact(value, text) for value, text in zip(values, self.texts, strict=True)]
        return values

    def at(self, is_kept: np.ndarray) -> TableColumn:
        """The rows that are kept."""
        texts = None if self.texts is None else list(itertools.compress(self.texts, is_kept))
        return self._replace(numbers=self.numbers[is_kept], texts=texts)


class Table(NamedTuple):
    """Columns by name, and the line of the file in which every row begins; the names are in line 1."""

    file: Path
    columns: dict[str, TableColumn]
    lines: np.ndarray

    def at(self, is_kept: np.ndarray) -> Table:
        """The rows that are kept."""
        columns = {name: column.at(is_kept) for name, column in self.columns.items()}
        return Table(self.file, columns, self.lines[is_kept])

    def without(self, names: Collection[str]) -> Table:
        """The other columns."""
        return self._replace(columns={name: column for name, column in self.columns.items() if name not in names})


def rows(file: Path) -> Iterator[tuple[int, list[str]]]:
    """The names of the columns and then every row, each with the line in which it begins.

    The delimiter is the one of comma, semicolon, tab and | that stands most often in the first line. Quotes are double
    ones, or single ones where all names of the first line stand in them. Empty lines are no rows, but of a table of one
    column; lines that begin with # are rows like any other.
    """
    require(file.is_file(), f"path must be a file that exists, got '{file}'; check the spelling.")
    line = 1
    try:
        with file.open(encoding="utf-8-sig", newline="") as stream:
            first = stream.readline()
            reader = csv.reader(
                itertools.chain([first], stream),
                delimiter=_delimiter(first),
                quotechar=_quote(first),
                strict=True,
                skipinitialspace=True,
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


def read_table(file: Path, names: Sequence[str] | None = None, texts: Collection[str] = ()) -> Table:
    """Read columns of a table.

    Parameters
    ----------
    file : Path
    names : sequence of str, optional
        Columns to read, others are not looked at. Default: all; every one must have a name then, but the first.
    texts : collection of str
        Columns whose texts are kept even where they are numbers.
    """
    found = header(file)
    missing = [name for name in names or () if name not in found]
    require(
        not missing, f"'{file}' must have the columns {shorten(missing)}, got {shorten(found)}; add or rename them."
    )
    wanted = found if names is None else list(names)
    doubled = sorted({name for name in wanted if found.count(name) > 1})
    require(not doubled, f"'{file}' must name every column once, got {shorten(doubled)} twice; rename one.")
    nameless = [i + 1 for i, name in enumerate(found) if name == "" and i > 0 and names is None]
    require(not nameless, f"'{file}' must name every column, got none for number {nameless[:1]}; name it in line 1.")
    table = _read(file, wanted, texts)
    # The texts of what began with numbers were not kept.
    again = [name for name, column in table.columns.items() if column.is_text and column.texts is None]
    table.columns.update(_read(file, again, again).columns if again else {})
    with file.open(encoding="utf-8-sig", newline="") as stream:
        has_comma_groups = _delimiter(stream.readline()) != ";"
    for name, column in table.columns.items():
        values = amounts(column.texts or (), has_comma_groups) if column.is_text else None
        if values is not None:
            amount = next(text for text in column.texts or () if plain(text) is None and not is_missing(text))
            kept = column.texts if name in texts else None
            table.columns[name] = TableColumn(name, values, kept, False, amount)
    return table


def _read(file: Path, wanted: Sequence[str], texts: Collection[str]) -> Table:
    """One walk through the file."""
    growing = [_Growing(name, name in texts) for name in wanted]
    found = header(file)
    places = [found.index(name) for name in wanted]
    lines: list[int] = []
    body = itertools.islice(rows(file), 1, None)
    while block := list(itertools.islice(body, _BLOCK)):
        for column, place in zip(growing, places, strict=True):
            column.add([cells[place] for _, cells in block])
        lines += [line for line, _ in block]
    require(len(lines) > 0, f"'{file}' must hold rows, got none after the names of the columns; check the file.")
    return Table(file, {column.name: column.done() for column in growing}, np.array(lines))


class _Growing:
    """A column that is read block by block."""

    def __init__(self, name: str, keeps_texts: bool):
        self.name, self._keeps_texts = name, keeps_texts
        self._numbers: list[np.ndarray] = []
        self._texts: list[str] = []
        self._has_number = self._is_text = False

    def add(self, cells: list[str]) -> None:
        numbers, has_word = _numbers(cells)
        self._numbers.append(numbers)
        self._has_number |= not np.isnan(numbers).all()
        self._is_text |= has_word
        # Until a number comes this may be a column of texts, and then it has none.
        if self._keeps_texts or not self._has_number:
            self._texts += cells
        else:
            self._texts = []

    def done(self) -> TableColumn:
        has_texts = self._keeps_texts or (self._is_text and not self._has_number)
        return TableColumn(self.name, np.concatenate(self._numbers), self._texts if has_texts else None, self._is_text)


def _numbers(cells: list[str]) -> tuple[np.ndarray, bool]:
    """Cells as numbers, NaN where that is not what they are, and whether there is a text among them."""
    if "_" not in "".join(cells):
        try:
            return np.array([float(cell) for cell in cells]), False
        except ValueError:
            pass
    found = [plain(cell) for cell in cells]
    has_word = any(value is None and not is_missing(cell) for value, cell in zip(found, cells, strict=True))
    return np.array([math.nan if value is None else value for value in found]), has_word


def _exact(value: float, text: str) -> Any:
    """The whole number that is written, or the number as it is known."""
    try:
        return int(Decimal(text)) if value == round(value) else value
    except (InvalidOperation, ValueError, OverflowError):
        return value


def without_index(table: Table) -> tuple[Table, list[str]]:
    """The table without first columns that name or count the rows, and notes that say so."""
    notes: list[str] = []
    for name in list(table.columns)[:2]:
        column, count = table.columns[name], np.arange(len(table.lines))
        is_count = any(np.array_equal(column.numbers, count + first) for first in (0, 1))
        names = column.texts or column.values
        is_index = name.casefold() in _INDEX_NAMES and (is_count or (not name and len(set(names)) == len(names)))
        require(
            name != "" or is_index,
            f"'{table.file}' must name every column, got none for number 1, which neither counts nor names the rows; "
            "name it in line 1.",
        )
        if not is_index:
            break
        said = f"column '{name}'" if name else "the first column has no name and"
        notes.append(f"{said} {'counts' if is_count else 'names'} the rows: it is left out of the inputs.")
        table = table.without((name,))
    return table, notes


def _delimiter(line: str) -> str:
    return max(_DELIMITERS, key=_outside_quotes(line).count)


def _quote(line: str) -> str:
    names = [name.strip() for name in line.split(_delimiter(line))]
    return "'" if all(len(name) > 1 and name[0] == name[-1] == "'" for name in names) else '"'


def _outside_quotes(line: str) -> str:
    return "".join(line.split('"')[::2])


def shorten(names: Sequence[str]) -> str:
    """Some names, and how many more."""
    shown = ", ".join(repr(name) for name in names[:8])
    return shown + (f" and {len(names) - 8} more" if len(names) > 8 else "")
