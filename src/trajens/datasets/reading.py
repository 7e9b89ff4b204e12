"""How the data of a run are read: which columns or which shape, and on what scale.

A run learns it once from the data it is trained on (`trajens.datasets.loading.learn`) and writes it down; whatever is
evaluated or predicted later is read the same way, or refused with the column and the line.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trajens.datasets import tables
from trajens.datasets.arrays import Labelled, images_in, labelled_images, load_inputs, load_labelled, read, standardised
from trajens.datasets.tables import MISSING, Table, TableColumn
from trajens.errors import InputError, require

LABEL_NAMES = ("label", "labels", "y", "target", "class")
"""What a label column is called unless another is named, in small or large letters."""
_BYTE = 255


@dataclass(frozen=True)
class Feature:
    """One column of inputs.

    Attributes
    ----------
    levels : tuple of str, optional
        Of a category, which becomes one input for each: 1 where it has this level, else 0. None of a number.
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
    missing : "refuse" or "mean"
        What becomes of a number that is missing in a table.
    is_standardised : bool
        Whether numbers become (x - mean) / std.
    """

    kind: str
    label: Label
    features: tuple[Feature, ...] = ()
    shape: tuple[int, ...] = ()
    is_bytes: bool = False
    missing: str = "refuse"
    is_standardised: bool = False

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
            return cls(label=label, features=features, **{**found, "shape": tuple(found["shape"])})
        except (TypeError, ValueError, KeyError, AttributeError):
            raise InputError(
                f"reading must be what a run wrote down, got '{text[:40]}'; leave it out to learn it again."
            ) from None

    def inputs(self, path: str | Path) -> np.ndarray:
        """Inputs of a file on the scale of the training data."""
        file = Path(path)
        if self.kind == "table":
            return self.rows(self._table(file, ()))
        if is_table(file):
            return self.array(_plain(file, int(np.prod(self.shape)), False)[0], file)
        if file.is_dir():
            return self.array(read(images_in(file), self._is_colour), file)
        return self.array(load_inputs(file), file)

    def labelled(self, path: str | Path) -> Labelled:
        """Inputs and labels of a file on the scale of the training data."""
        file = Path(path)
        if self.kind == "table":
            name = self.label.name or ""
            table = self._table(file, (name,))
            return Labelled(self.rows(table), self.labels(table.columns[name], line_of(table), file))
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

    def rows(self, table: Table) -> np.ndarray:
        """Inputs (n, d) of a table, float32."""
        return np.concatenate([self._inputs_of(feature, table) for feature in self.features], axis=1)

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
            return standardised(flat, mean, std).reshape(x.shape).astype(np.float32)
        # Models divide bytes by 255, and take images of small whole numbers for bytes.
        return x.astype(np.float32) if x.dtype == np.uint8 or (x.ndim > 2 and x.dtype.kind in "iu") else x

    def labels(self, column: TableColumn, where: Callable[[int], str], file: Path) -> np.ndarray:
        """Labels (n,): int64 places of classes, or float32 numbers on the scale of the training data."""
        label, values = self.label, column.numbers
        place = _first_missing(column)
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
        given: Any = column.texts if isinstance(label.classes[0], str) else values.tolist()
        require(
            given is not None, f"'{file}' must have the labels {shown(label.classes)}, got numbers; check the data."
        )
        places = np.array([known.get(one, -1) for one in given], np.int64)
        bad = _first(places < 0)
        require(
            bad is None,
            f"'{file}' must have the labels {shown(label.classes)}, got {_cell(column, bad)} in {where(bad or 0)}; "
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
        return tables.read(file, [*names, *more], [*categories, *more])

    def _inputs_of(self, feature: Feature, table: Table) -> np.ndarray:
        column, where = table.columns[feature.name], line_of(table)
        named = f"column '{feature.name}' of '{table.file}'"
        place = _first_missing(column)
        is_filled = self.missing == "mean" and feature.levels is None
        require(
            place is None or is_filled,
            f"{named} must have a value in every row, got none in {where(place or 0)}; "
            + ("use --missing mean, or remove the row." if feature.levels is None else "remove the row."),
        )
        if feature.levels is not None:
            return _one_hot(feature.levels, column, where, named)
        values = column.numbers
        bad = _first(np.isinf(values)) if not column.is_text else _first(np.isnan(values) & ~_is_missing(column))
        require(bad is None, f"{named} must hold numbers, got {_cell(column, bad)} in {where(bad or 0)}; correct it.")
        values = np.where(np.isnan(values), feature.mean, values)
        scaled = values
        if self.is_standardised:
            scaled = standardised(values, np.array(feature.mean), np.array(feature.std))
        bad = _first(~(_fits(values) & _fits(scaled)))
        require(
            bad is None, f"{named} must be finite in float32, got {_cell(column, bad)} in {where(bad or 0)}; scale it."
        )
        return scaled.astype(np.float32)[:, None]


def is_table(file: Path) -> bool:
    """Whether a file is called like a table."""
    return file.suffix.lower() in tables.SUFFIXES


def as_column(y: np.ndarray) -> TableColumn:
    """Labels of an array as a column of numbers."""
    return TableColumn("y", y.astype(np.float64), None, False)


def label_column(file: Path, names: list[str], label: str | None = None) -> str:
    """The name of the column with the labels."""
    found = [name for name in names if name.lower() in LABEL_NAMES] if label is None else [label]
    require(
        len(found) == 1 and found[0] in names,
        f"'{file}' must have one label column, got columns {names[:8]}"
        + (f" without '{label}'" if label is not None else "")
        + "; name it with --label, or call it label.",
    )
    return found[0]


def shown(classes: tuple[Any, ...]) -> str:
    """Classes as one writes them."""
    if len(classes) > 1 and classes == tuple(range(len(classes))):
        return f"0..{len(classes) - 1}"
    return ", ".join(map(str, classes[:8])) + (", .." if len(classes) > 8 else "")


def _plain(file: Path, width: int, needs_label: bool) -> tuple[np.ndarray, TableColumn | None, Callable[[int], str]]:
    """Numbers of a table for a run whose inputs have no names: all columns but the label, in their order."""
    names = [name for name in tables.header(file) if name]
    is_labelled = needs_label or len(names) == width + 1
    label = label_column(file, names) if is_labelled else None
    table = tables.read(file)
    y = None if label is None else table.columns[label]
    columns = [column for name, column in table.columns.items() if name != label]
    for column in columns:
        bad = _first(~np.isfinite(column.numbers))
        require(
            bad is None,
            f"column '{column.name}' of '{file}' must hold numbers, got {_cell(column, bad)} in line "
            f"{table.lines[bad or 0]}; correct it.",
        )
    return np.stack([column.numbers for column in columns], axis=1), y, line_of(table)


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


def _one_hot(levels: tuple[str, ...], column: TableColumn, where: Callable[[int], str], named: str) -> np.ndarray:
    known = {level: k for k, level in enumerate(levels)}
    places = np.array([known.get(text, -1) for text in column.texts or []])
    bad = _first(places < 0)
    require(
        bad is None,
        f"{named} must hold {shown(levels)}, as in the training data, got {_cell(column, bad)} in {where(bad or 0)}; "
        "correct it, or train with data that have it.",
    )
    return (places[:, None] == np.arange(len(levels))).astype(np.float32)


def _fits(values: np.ndarray) -> np.ndarray:
    """Where values are finite in float32."""
    return np.abs(values) <= np.finfo(np.float32).max


def _is_missing(column: TableColumn) -> np.ndarray:
    if column.texts is not None:
        return np.array([text.casefold() in MISSING for text in column.texts])
    return np.isnan(column.numbers)


def _first_missing(column: TableColumn) -> int | None:
    return _first(_is_missing(column))


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


def _tuple(values: list[Any] | None) -> tuple[Any, ...] | None:
    return None if values is None else tuple(values)
