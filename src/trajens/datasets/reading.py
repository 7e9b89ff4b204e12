"""How the data of a run are read: which columns or which shape, and on what scale.

A run learns it once from the data it is trained on (`trajens.datasets.loading.learn`) and writes it down; whatever is
evaluated or predicted later is read the same way, or refused with the column and the line.
"""

from __future__ import annotations

import difflib
import json
import shlex
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from trajens.datasets import cells, tables
from trajens.datasets.arrays import (
    Labelled,
    images_in,
    labelled_images,
    load_inputs,
    load_labelled,
    read_images,
    standardise,
)
from trajens.datasets.tables import Table, TableColumn
from trajens.errors import InputError, require

LABEL_NAMES = ("label", "labels", "y", "target", "class")
"""What a label column is called unless another is named, in small or large letters."""
NO_LEVEL = ""
"""The level of a category that is missing."""
MISSING_VALUES = ("mean", "refuse")
"""What becomes of missing values; the first is usual."""
FEW_CLASSES = 10
_BYTE = 255


@dataclass(frozen=True)
class Feature:
    """One column of inputs.

    Attributes
    ----------
    levels : tuple of str, optional
        Of a category, which becomes one input for each: 1 where it has this level, else 0. The level "" is that of
        missing texts, where the training data have some; all inputs of a level that those do not have are 0. None of
        a number.
    mean, std : float
        Of the training data, missing values left out; std 0 of a constant, which is left as it is.
    """

    name: str
    levels: tuple[str, ...] | None = None
    mean: float = 0.0
    std: float = 0.0


@dataclass(frozen=True)
class Label:
    """What is to be learnt: (y - mean) / std of numbers, or the place of a class among `classes`.

    Attributes
    ----------
    name : str, optional
        Of the column in a table.
    classes : tuple of str or of int, optional
        None of numbers.
    """

    name: str | None = None
    classes: tuple[str, ...] | tuple[int, ...] | None = None
    mean: float = 0.0
    std: float = 1.0

    @property
    def is_scaled(self) -> bool:
        """Whether they are numbers on another scale than that of the file."""
        return self.classes is None and (self.mean, self.std) != (0.0, 1.0)

    def undone(self, y: np.ndarray) -> np.ndarray:
        """Labels in the units of the file; classes as they are."""
        return self.mean + self.std * y.astype(np.float64) if self.is_scaled else y

    def __str__(self) -> str:
        return "numbers" if self.classes is None else f"classes ({len(self.classes)})"


@dataclass(frozen=True)
class Reading:
    """How inputs and labels are read.

    Attributes
    ----------
    kind : "table" or "array"
    features : tuple of Feature
        Columns of a table, or inputs of an array that is standardised.
    shape : tuple of int
        Of one input.
    is_bytes : bool
        Whether inputs are whole numbers 0..255 that models divide by 255.
    missing : "mean" or "refuse"
        What becomes of missing values of a table: a number is the mean of the training data, a text the level "", and
        a row without a label is left out; or all are refused.
    is_standardised : bool
        Whether numbers become (x - mean) / std.
    notes : tuple of str
        What was done to the training data that nobody asked for. Readings that differ in them only are equal.
    """

    kind: str
    label: Label
    features: tuple[Feature, ...] = ()
    shape: tuple[int, ...] = ()
    is_bytes: bool = False
    missing: str = "refuse"
    is_standardised: bool = False
    notes: tuple[str, ...] = field(default=(), compare=False)

    def to_json(self) -> str:
        """Plain text, from which `from_json` makes the same again."""
        return json.dumps(asdict(self), ensure_ascii=False, allow_nan=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Reading:
        """What `to_json` wrote."""
        try:
            found = json.loads(text)
            features = tuple(Feature(**{**one, "levels": _tuple(one["levels"])}) for one in found.pop("features"))
            label = Label(**{**found["label"], "classes": _tuple(found.pop("label")["classes"])})
            # Runs of versions before have no notes.
            found |= {"shape": tuple(found["shape"]), "notes": tuple(found.get("notes", ()))}
            return cls(label=label, features=features, **found)
        except (TypeError, ValueError, KeyError, AttributeError):
            raise InputError(
                f"reading must be what a run wrote down, got '{text[:40]}'; leave it out to learn it again."
            ) from None

    def inputs(self, path: str | Path) -> np.ndarray:
        """Inputs of a file on the scale of the training data."""
        file = Path(path)
        if self.kind == "table":
            return warn_of(*self.rows(self._table(file, ())), file)
        if is_table(file):
            return self.array(_plain(file, int(np.prod(self.shape)), False)[0], file)
        if file.is_dir():
            return self.array(read_images(images_in(file), self._is_colour), file)
        return self.array(load_inputs(file), file)

    def labelled(self, path: str | Path) -> Labelled:
        """Inputs and labels of a file on the scale of the training data."""
        file = Path(path)
        if self.kind == "table":
            name = self.label.name or ""
            table, notes = self.with_labels(self._table(file, (name,)), name)
            inputs, more = self.rows(table)
            labels = self.labels(table.columns[name], line_of(table), file)
            return warn_of(Labelled(inputs, labels), [*notes, *more], file)
        if is_table(file):
            x, y, where = _plain(file, int(np.prod(self.shape)), True)
            assert y is not None
            return Labelled(self.array(x, file), self.labels(y, where, file))
        if file.is_dir():
            x, y, where = labelled_images(file, self._is_colour)
            return Labelled(self.array(x, file), self.labels(y, where, file))
        x, given = load_labelled(file)
        return Labelled(self.array(x, file), self.labels(as_column(given), entry_of, file))

    @property
    def _is_colour(self) -> bool:
        return len(self.shape) == 3 and self.shape[2] == 3

    def with_labels(self, table: Table, name: str) -> tuple[Table, list[str]]:
        """The rows that have a label, and a note where there are others; all rows where missing values are refused."""
        is_missing = table.columns[name].is_missing & ~_is_known(self.label.classes, table.columns[name])
        if self.missing == "refuse" or not is_missing.any() or is_missing.all():
            return table, []
        note = f"{is_missing.sum()} of {len(is_missing)} rows have no label in column '{name}': they are left out."
        return table.at(~is_missing), [note]

    def rows(self, table: Table) -> tuple[np.ndarray, list[str]]:
        """Inputs (n, d) of a table, float32, and notes on what is put in place of values that there are not."""
        columns: list[np.ndarray] = []
        filled: list[str] = []
        unseen: list[str] = []
        for feature in self.features:
            if feature.levels is None:
                columns.append(self._number(feature, table, filled))
            else:
                columns.append(self._one_hot(feature, table, unseen))
        notes = [f"missing numbers are the mean of the training data: {_joined(filled)}."] if filled else []
        if unseen:
            notes.append(
                f"texts that the training data do not have are 0 in all inputs of the column: {_joined(unseen)}."
            )
        return np.concatenate(columns, axis=1), notes

    def array(self, x: np.ndarray, file: Path) -> np.ndarray:
        """Inputs (n, ...) of an array: bytes as bytes, and nothing else divided by 255."""
        require(x.ndim > 1 and len(x) > 0, f"'{file}' must hold inputs (n, ...), got shape {x.shape}; check the data.")
        is_flat = self.is_bytes and 1 in (x.ndim - 1, len(self.shape)) and x[0].size == np.prod(self.shape)
        require(
            x.shape[1:] == self.shape or is_flat,
            f"'{file}' must hold inputs of shape {self.shape}, as the run was trained on, got {x.shape[1:]}; reshape "
            "them.",
        )
        x = x.reshape(len(x), *self.shape)
        if self.is_bytes:
            return _as_bytes(x, file)
        if self.is_standardised:
            mean, std = (np.array([getattr(f, name) for f in self.features]) for name in ("mean", "std"))
            flat = x.reshape(len(x), -1).astype(np.float64)
            require(bool(_fits(flat).all()), f"'{file}' must be finite in float32, got larger numbers; scale them.")
            return standardise(flat, mean, std).reshape(x.shape).astype(np.float32)
        # Models divide bytes by 255, and take images of small whole numbers for bytes.
        return x.astype(np.float32) if x.dtype == np.uint8 or (x.ndim > 2 and x.dtype.kind in "iu") else x

    def labels(self, column: TableColumn, where: Callable[[int], str], file: Path) -> np.ndarray:
        """Labels (n,): int64 places of classes, or float32 numbers on the scale of the training data."""
        label, values = self.label, column.numbers
        place = _first(column.is_missing & ~_is_known(label.classes, column))
        require(place is None, f"'{file}' must have a label in every row, got none in {where(place or 0)}; remove it.")
        if label.classes is None:
            bad = _first(~_fits(values))
            require(
                bad is None,
                f"'{file}' must have finite numbers as labels, got {_cell(column, bad)} in {where(bad or 0)}; correct "
                "it, or use --loss cross-entropy for classes.",
            )
            return ((values - label.mean) / label.std).astype(np.float32)
        known: dict[Any, int] = {name: k for k, name in enumerate(label.classes)}
        is_named = isinstance(label.classes[0], str)
        if is_named:
            # As `harmless` writes them for spreadsheets.
            known = {**{harmless(name): k for name, k in known.items()}, **known}
        given: Any = column.texts if is_named else column.values
        require(
            given is not None, f"'{file}' must have the labels {quote(label.classes)}, got numbers; check the data."
        )
        places = np.array([known.get(one, -1) for one in given], np.int64)
        bad = _first(places < 0)
        require(
            bad is None,
            f"'{file}' must have the labels {quote(label.classes)}, got {_cell(column, bad)} in {where(bad or 0)}; "
            "correct it, or number the classes from 0.",
        )
        return places

    def _table(self, file: Path, more: tuple[str, ...]) -> Table:
        names = [feature.name for feature in self.features]
        shown_names = ", ".join(names[:8])
        require(
            is_table(file),
            f"path must be a .csv with the columns {shown_names}, as of the run, got '{file}'; convert it.",
        )
        categories = [feature.name for feature in self.features if feature.levels is not None]
        return tables.read_table(file, [*names, *more], [*categories, *more])

    def _number(self, feature: Feature, table: Table, filled: list[str]) -> np.ndarray:
        """The input of a number; `filled` gets the name of a column with missing values, and how many."""
        column, where = table.columns[feature.name], line_of(table)
        named = f"column '{feature.name}' of '{table.file}'"
        values, is_missing = column.numbers, column.has_no_number
        self._check_missing(is_missing, named, where)
        bad = _first(np.isinf(values)) if not column.is_text else _first(np.isnan(values) & ~is_missing)
        require(bad is None, f"{named} must hold numbers, got {_cell(column, bad)} in {where(bad or 0)}; correct it.")
        if is_missing.any():
            filled.append(f"{feature.name} ({is_missing.sum()} of {len(values)}: {feature.mean:g})")
        values = np.where(np.isnan(values), feature.mean, values)
        scaled = values
        if self.is_standardised:
            scaled = standardise(values, np.array(feature.mean), np.array(feature.std))
        bad = _first(~(_fits(values) & _fits(scaled)))
        require(
            bad is None, f"{named} must be finite in float32, got {_cell(column, bad)} in {where(bad or 0)}; scale it."
        )
        return scaled.astype(np.float32)[:, None]

    def _one_hot(self, feature: Feature, table: Table, unseen: list[str]) -> np.ndarray:
        """The inputs of a category; `unseen` gets the name of a column with other levels, how many, and the first."""
        column, where, levels = table.columns[feature.name], line_of(table), feature.levels or ()
        known = {level: k for k, level in enumerate(levels)}
        is_missing = column.is_missing & ~_is_known(levels, column)
        self._check_missing(is_missing, f"column '{feature.name}' of '{table.file}'", where)
        texts = [NO_LEVEL if gone else text for text, gone in zip(column.texts or (), is_missing, strict=True)]
        places = np.array([known.get(text, -1) for text in texts])
        first = _first(places < 0)
        if first is not None:
            what = f"'{texts[first]}'" if texts[first] else "none"
            unseen.append(f"{feature.name} ({(places < 0).sum()} of {len(places)}: {what} in {where(first)})")
        return (places[:, None] == np.arange(len(levels))).astype(np.float32)

    def _check_missing(self, is_missing: np.ndarray, named: str, where: Callable[[int], str]) -> None:
        place = _first(is_missing) if self.missing == "refuse" else None
        require(
            place is None,
            f"{named} must have a value in every row, got none in {where(place or 0)}; leave --missing refuse out when "
            "you train, or remove the row.",
        )


def warn_of(result: Any, notes: list[str], file: Path) -> Any:
    """The result of reading a file, after warnings that say what was done."""
    for note in notes:
        warnings.warn(f"'{file.name}': {note}", stacklevel=4)
    return result


def harmless(text: str) -> str:
    """A text in a file that a spreadsheet shows, and does not run: with ' before what looks like a formula."""
    return f"'{text}" if text[:1] in tuple("=+-@\t\r") and cells.plain(text) is None else text


def is_table(file: Path) -> bool:
    """Whether a file is called like a table."""
    return file.suffix.lower() in tables.SUFFIXES


def as_column(y: np.ndarray) -> TableColumn:
    """Labels of an array as a column of numbers; whole ones are exact."""
    return TableColumn("y", y if y.dtype.kind in "iu" else y.astype(np.float64), None, False)


def label_column(file: Path, names: list[str], label: str | None = None) -> str:
    """The name of the column with the labels."""
    found = [name for name in names if name.lower() in LABEL_NAMES] if label is None else [label]
    if len(found) == 1 and found[0] in names:
        return found[0]
    require(
        len(names) > 1,
        f"'{file}' must have a label column and others, got one, {tables.shorten(names)}; separate columns with "
        "commas, semicolons, tabs or |.",
    )
    among = found if found and label is None else names
    likely = difflib.get_close_matches(label or "", names, 1) or [_likely_label(file, among)]
    raise InputError(
        f"'{file}' must have one label column, got columns {tables.shorten(names)}"
        + (f" without '{label}'" if label is not None else "")
        + f"; try trajens train {shlex.quote(str(file))} --label {shlex.quote(likely[0])}, if that is what you mean."
    )


def _likely_label(file: Path, among: list[str]) -> str:
    """The last column with few different values, or the last."""
    columns = tables.without_index(tables.read_table(file))[0].columns
    columns = {name: column for name, column in columns.items() if name in among} or columns
    few = [name for name, column in columns.items() if 1 < len(set(column.texts or column.values)) <= FEW_CLASSES]
    return (few or list(columns))[-1]


def quote(classes: tuple[Any, ...]) -> str:
    """Classes as one writes them."""
    if len(classes) > 1 and classes == tuple(range(len(classes))):
        return f"0..{len(classes) - 1}"
    return ", ".join(map(str, classes[:8])) + (", .." if len(classes) > 8 else "")


def _plain(file: Path, width: int, needs_label: bool) -> tuple[np.ndarray, TableColumn | None, Callable[[int], str]]:
    """Numbers of a table for a run whose inputs have no names: all columns but the label, in their order."""
    names = [name for name in tables.header(file) if name]
    is_labelled = needs_label or len(names) == width + 1
    label = label_column(file, names) if is_labelled else None
    table, notes = tables.without_index(tables.read_table(file))
    y = None if label is None else table.columns[label]
    columns = [column for name, column in table.columns.items() if name != label]
    for column in columns:
        bad = _first(~np.isfinite(column.numbers))
        require(
            bad is None,
            f"column '{column.name}' of '{file}' must hold numbers, got {_cell(column, bad)} in line "
            f"{table.lines[bad or 0]}; correct it.",
        )
    return warn_of((np.stack([column.numbers for column in columns], axis=1), y, line_of(table)), notes, file)


def _as_bytes(x: np.ndarray, file: Path) -> np.ndarray:
    """Whole numbers 0..255 of any type as bytes; fractions in 0..1 have been divided by 255 already."""
    low, high = x.min(), x.max()
    if x.dtype.kind in "fb" and low >= 0 and high <= 1:
        return x.astype(np.float32)
    require(
        bool(low >= 0 and high <= _BYTE and (x.dtype.kind != "f" or (x == np.round(x)).all())),
        f"'{file}' must hold whole numbers 0..255 or fractions 0..1, as the run was trained on bytes, got {low:g} to "
        f"{high:g}; scale them.",
    )
    return x.astype(np.uint8, copy=False)


def _fits(values: np.ndarray) -> np.ndarray:
    """Where values are finite in float32."""
    return np.abs(values) <= np.finfo(np.float32).max


def _is_known(names: tuple[Any, ...] | None, column: TableColumn) -> np.ndarray:
    """Where a text is one of the names, though it may read like a missing value."""
    known = set(names or ()) - {NO_LEVEL}
    return np.array([text in known for text in column.texts or ()] or False)


def _first(is_meant: np.ndarray) -> int | None:
    return int(is_meant.argmax()) if is_meant.any() else None


def _cell(column: TableColumn, place: int | None) -> str:
    if place is None:
        return ""
    return f"'{column.texts[place]}'" if column.texts is not None else f"{column.numbers[place]:g}"


def line_of(table: Table) -> Callable[[int], str]:
    """What names the place of a row."""
    return lambda place: f"line {table.lines[place]}"


def entry_of(place: int) -> str:
    """What names the place of a label in an array."""
    return f"y[{place}]"


def _joined(columns: list[str]) -> str:
    return ", ".join(columns[:8]) + (f" and {len(columns) - 8} more columns" if len(columns) > 8 else "")


def _tuple(values: list[Any] | None) -> tuple[Any, ...] | None:
    return None if values is None else tuple(values)
