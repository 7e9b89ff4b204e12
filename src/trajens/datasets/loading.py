"""A user's own data, and what there is to learn from them about how they are read."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

from trajens.datasets import tables
from trajens.datasets.arrays import Labelled, classes_in, labelled_images, load_labelled, moments
from trajens.datasets.reading import Feature, Label, Reading, as_column, entry_of, is_table, label_column, line_of
from trajens.datasets.tables import MISSING, TableColumn
from trajens.errors import InputError, require
from trajens.losses import OF_CLASSES

FEW_CLASSES, MANY_CLASSES = 10, 1000
_FEW_LEVELS = 20
_PER_CLASS = 5
_DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+")


def load(path: str | Path, labels: str | Path | None = None, num_classes: int | None = None) -> Labelled:
    """Read inputs and labels from a file, on the scale they are stored in.

    Parameters
    ----------
    path : str or Path
        ``.npz`` with arrays ``x`` and ``y``; an IDX file, plain or ``.gz``; a ``.csv`` or ``.tsv`` with the names of
        its columns in the first line; or a folder with a subfolder of PNG or JPEG images for each class.
    labels : str or Path, optional
        For IDX, the file of the labels (default: the same name with "images" and "idx3" replaced by "labels" and
        "idx1"); for tables, the name of the label column (default: label, labels, y, target or class).
    num_classes : int, optional
        Take labels for classes 0..num_classes-1, and refuse others; default: see `classes_of`.

    Returns
    -------
    Labelled
        Columns of texts as one input for each level. For classes that are texts, their places in alphabetical order;
        `learn` knows their names.
    """
    file = Path(path)
    if is_table(file):
        return learn(file, None if labels is None else str(labels), standardise=False, num_classes=num_classes)[1]
    if file.is_dir():
        require(labels is None, f"labels must be left out with a folder, got '{labels}'; subfolders are the classes.")
        return learn(file, num_classes=num_classes)[1]
    return _learn_array(file, load_labelled(file, labels), None, False, num_classes)[1]


def learn(
    path: str | Path,
    label: str | None = None,
    loss: str | None = None,
    missing: str = "refuse",
    standardise: bool | None = None,
    num_classes: int | None = None,
) -> tuple[Reading, Labelled]:
    """How a file is to be read from now on, and its inputs and labels read that way.

    Parameters
    ----------
    path : str or Path
        As for `load`.
    label : str, optional
        Label column of a table.
    loss : "cross-entropy", "0-1" or "squared", optional
        Take labels for classes (the first two) or for numbers; default: see `classes_of`.
    missing : "refuse" or "mean"
        What becomes of numbers that are missing in a table: empty, NA or nan.
    standardise : bool, optional
        Whether inputs, and labels that are numbers, become (x - mean) / standard deviation; default: those of tables.
    num_classes : int, optional
        Take labels for classes 0..num_classes-1.
    """
    file = Path(path)
    if not is_table(file):
        require(label is None, f"label must be left out but for tables, got '{label}' with '{file}'; leave it out.")
        require(missing == "refuse", f"missing must be left out but for tables, got it with '{file}'; impute values.")
        if file.is_dir():
            return _learn_folder(file, loss, bool(standardise), num_classes)
        return _learn_array(file, load_labelled(file), loss, bool(standardise), num_classes)
    name = label_column(file, tables.header(file), label)
    table = tables.read(file, texts=(name,))
    is_scaled = standardise is None or standardise
    features = tuple(_feature(column, file) for column in table.columns.values() if column.name != name)
    require(len(features) > 0, f"'{file}' must have columns besides the label '{name}', got none; add inputs.")
    column, where = table.columns[name], line_of(table)
    reading = Reading(
        "table",
        _label(name, column, file, where, loss=loss, is_scaled=is_scaled, num_classes=num_classes),
        features,
        (sum(1 if feature.levels is None else len(feature.levels) for feature in features),),
        missing=missing,
        is_standardised=is_scaled,
    )
    return reading, Labelled(reading.rows(table), reading.labels(column, where, file))


def classes_of(values: np.ndarray) -> tuple[int, ...] | None:
    """Classes 0..K-1 that the labels (n,) are, or None where they are numbers.

    Labels are classes if they are the whole numbers 0, 1, .., K-1, every one of which occurs, and if these are few:
    K <= max(10, min(1000, n / 5)). How they are stored does not matter, 2.0 is 2. Everything else are numbers to be
    fitted: fractions, numbers with gaps, negative ones, counts that differ in most of the rows.
    """
    found = np.unique(values)
    is_few = len(found) <= max(FEW_CLASSES, min(MANY_CLASSES, len(values) / _PER_CLASS))
    is_count = is_few and bool((found == np.arange(len(found))).all())
    return tuple(range(len(found))) if is_count else None


def _learn_array(
    file: Path, data: Labelled, loss: str | None, is_scaled: bool, num_classes: int | None
) -> tuple[Reading, Labelled]:
    column = as_column(data.y)
    label = _label(None, column, file, entry_of, loss=loss, is_scaled=is_scaled, num_classes=num_classes)
    reading = _reading(data.x, label, is_scaled)
    return reading, Labelled(reading.array(data.x, file), reading.labels(column, entry_of, file))


def _learn_folder(folder: Path, loss: str | None, is_scaled: bool, num_classes: int | None) -> tuple[Reading, Labelled]:
    require(
        loss is None or loss in OF_CLASSES,
        f"loss must be {' or '.join(OF_CLASSES)} with a folder of classes, got {loss}; save numbers in an .npz.",
    )
    classes = classes_in(folder)
    require(
        num_classes is None or num_classes == len(classes),
        f"'{folder}' must have {num_classes} subfolders, one for each class, got {len(classes)}; use another network.",
    )
    x, column, where = labelled_images(folder)
    reading = _reading(x, Label(None, classes), is_scaled)
    return reading, Labelled(reading.array(x, folder), reading.labels(column, where, folder))


def _reading(x: np.ndarray, label: Label, is_scaled: bool) -> Reading:
    """Of arrays (n, ...)."""
    is_image = x.ndim >= 3 and x.dtype.kind in "iu" and x.size > 0 and x.min() >= 0 and x.max() <= 255
    features: tuple[Feature, ...] = ()
    if is_scaled:
        flat = x.reshape(len(x), -1)
        features = tuple(Feature(str(d), None, *moments(flat[:, d].astype(np.float64))) for d in range(flat.shape[1]))
    is_bytes = not is_scaled and bool(x.dtype == np.uint8 or is_image)
    return Reading("array", label, features, x.shape[1:], is_bytes=is_bytes, is_standardised=is_scaled)


def _feature(column: TableColumn, file: Path) -> Feature:
    named = f"column '{column.name}' of '{file}'"
    if column.is_text:
        return Feature(column.name, _levels(column, named))
    values = column.numbers[np.isfinite(column.numbers)]
    require(len(values) > 0, f"{named} must hold a value, got none in any row; leave the column out of the file.")
    return Feature(column.name, None, *moments(values))


def _label(
    name: str | None,
    column: TableColumn,
    file: Path,
    where: Callable[[int], str],
    *,
    loss: str | None,
    is_scaled: bool,
    num_classes: int | None,
) -> Label:
    """What the labels of the training data are."""
    if column.is_text and loss != "squared":
        return Label(name, _texts(column, file, where, loss))
    values = column.numbers[np.isfinite(column.numbers)]
    if num_classes is not None and loss != "squared":
        return Label(name, tuple(range(num_classes)))
    is_whole = len(values) > 0 and bool((values == np.round(values)).all())
    if loss in OF_CLASSES:
        require(is_whole, f"labels must be whole or texts for --loss {loss}, got others in '{file}'; use squared.")
        return Label(name, tuple(int(value) for value in np.unique(values)))
    classes = classes_of(values) if loss is None and len(values) > 0 else None
    if classes is not None:
        return Label(name, classes)
    if loss is None and is_whole and 1 < len(np.unique(values)) <= FEW_CLASSES:
        warnings.warn(
            f"the labels of '{file}' are taken for numbers, as they are not 0, 1, .. without a gap; use --loss "
            "cross-entropy, or num_classes in Python, to take them for classes.",
            stacklevel=2,
        )
    mean, std = moments(values) if is_scaled and len(values) > 0 else (0.0, 0.0)
    return Label(name, None, mean, std) if std > 0 else Label(name)


def _texts(column: TableColumn, file: Path, where: Callable[[int], str], loss: str | None) -> tuple[str, ...]:
    """Classes that are texts, in alphabetical order; numbers among them are a slip unless classes were asked for."""
    texts = column.texts or []
    is_number = ~np.isnan(column.numbers)
    if is_number.any() and loss is None:
        number = int(is_number.argmax())
        word = next(i for i, text in enumerate(texts) if not is_number[i] and text.casefold() not in MISSING)
        raise InputError(
            f"column '{column.name}' of '{file}' must hold numbers or texts, got '{texts[word]}' in {where(word)} and "
            f"{texts[number]} in {where(number)}; correct it, or use --loss cross-entropy to take them for classes."
        )
    return _levels(column, f"column '{column.name}' of '{file}'", is_asked_for=loss is not None)


def _levels(column: TableColumn, named: str, is_asked_for: bool = False) -> tuple[str, ...]:
    """The different texts of a column in alphabetical order, if they are few."""
    levels = sorted({text for text in column.texts or [] if text.casefold() not in MISSING})
    number = next((level for level in levels if _DECIMAL_COMMA.fullmatch(level)), None)
    require(number is None, f"{named} must write decimals with a point, got '{number}'; write 1.5 for 1,5.")
    size = len(column.numbers)
    require(
        is_asked_for or len(levels) <= max(_FEW_LEVELS, size / _PER_CLASS),
        f"{named} must hold numbers or few different texts, got {len(levels)} in {size} rows; leave the column out of "
        "the file, or encode it.",
    )
    return tuple(levels)
