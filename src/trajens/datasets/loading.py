"""A user's own data, and what there is to learn from them about how they are read."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path

import numpy as np

from trajens.datasets import cells, tables
from trajens.datasets.arrays import Labelled, classes_in, labelled_images, load_labelled, moments
from trajens.datasets.reading import (
    FEW_CLASSES,
    MISSING_VALUES,
    NO_LEVEL,
    Feature,
    Label,
    Reading,
    as_column,
    entry_of,
    is_table,
    label_column,
    line_of,
    warn_of,
)
from trajens.datasets.tables import Table, TableColumn
from trajens.errors import InputError, choice, require
from trajens.losses import OF_CLASSES
from trajens.precision import require_unmasked

MANY_CLASSES = 1000
_FEW_LEVELS = 20
_PER_CLASS = 5
_SLIPS = 0.1
"""A share of texts among numbers that is too small to be meant."""


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
        Columns of texts as one input for each level, and what else `learn` does to a table. For classes that are texts,
        their places in alphabetical order; `learn` knows their names.
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
    missing: str | None = None,
    standardise: bool | None = None,
    num_classes: int | None = None,
    drop: Collection[str] = (),
) -> tuple[Reading, Labelled]:
    """How a file is to be read from now on, and its inputs and labels read that way.

    Of a table, columns that only count or name the rows are left out: a first one that counts them, texts of which
    there are more than 20 and more than a fifth of the rows, columns without a value. Amounts are numbers (5% is 0.05,
    $1,000 is 1000). What was done that was not asked for is told in warnings, and in the notes of the reading.

    Parameters
    ----------
    path : str or Path
        As for `load`.
    label : str, optional
        Label column of a table.
    loss : "cross-entropy", "0-1" or "squared", optional
        Take labels for classes (the first two) or for numbers; default: see `classes_of`.
    missing : "mean" or "refuse", optional
        What becomes of values that are missing in a table: empty, NA, NaN, N/A, null or ?. By default a number is the
        mean of the others, a text a level of its own, and a row without a label is left out.
    standardise : bool, optional
        Whether inputs, and labels that are numbers, become (x - mean) / standard deviation; default: those of tables.
    num_classes : int, optional
        Take labels for classes 0..num_classes-1.
    drop : collection of str
        Columns of a table to leave out; one text may name several, with commas between them.
    """
    file = Path(path)
    if not is_table(file):
        require(label is None, f"label must be left out but for tables, got '{label}' with '{file}'; leave it out.")
        require(missing is None, f"missing must be left out but for tables, got it with '{file}'; impute values.")
        require(not drop, f"drop must be left out but for tables, got it with '{file}'; remove the inputs.")
        if file.is_dir():
            return _learn_folder(file, loss, bool(standardise), num_classes)
        return _learn_array(file, load_labelled(file), loss, bool(standardise), num_classes)
    names = tables.header(file)
    dropped = _dropped(file, names, drop)
    name = label_column(file, [one for one in names if one not in dropped], label)
    is_scaled = standardise is None or standardise
    empty = Reading("table", Label(name), missing=choice("missing", missing or MISSING_VALUES[0], MISSING_VALUES))
    table, notes = tables.without_index(tables.read_table(file, texts=(name,)).without(dropped))
    require(
        name in table.columns, f"label must be a column to learn, got '{name}', which counts the rows; name another."
    )
    table, more = empty.with_labels(table, name)
    notes += more
    features = [_feature(one, table, notes) for one in table.columns.values() if one.name != name]
    kept = tuple(feature for feature in features if feature is not None)
    require(len(kept) > 0, f"'{file}' must have columns besides the label '{name}', got none of use; add inputs.")
    column, where = table.columns[name], line_of(table)
    _note_amount(column, notes)
    reading = replace(
        empty,
        label=_label(name, column, file, where, loss=loss, is_scaled=is_scaled, num_classes=num_classes),
        features=kept,
        shape=(sum(1 if feature.levels is None else len(feature.levels) for feature in kept),),
        is_standardised=is_scaled,
    )
    x, more = reading.rows(table)
    notes += more
    return warn_of(
        (replace(reading, notes=tuple(notes)), Labelled(x, reading.labels(column, where, file))), notes, file
    )


def _dropped(file: Path, names: list[str], drop: Collection[str]) -> list[str]:
    """The columns that are left out; a name may have a comma in it."""
    given = [[one] if one in names else [part.strip() for part in one.split(",")] for one in drop]
    dropped = [name for some in given for name in some]
    unknown = [name for name in dropped if name not in names]
    require(not unknown, f"drop must name columns of '{file}', got {tables.shorten(unknown)}; check the spelling.")
    return dropped


def classes_of(values: np.ndarray) -> tuple[int, ...] | None:
    """Classes 0..K-1 that the labels (n,) are, or None where they are numbers.

    Labels are classes if they are the whole numbers 0, 1, .., K-1, every one of which occurs, and if these are few:
    K <= max(10, min(1000, n / 5)). How they are stored does not matter, 2.0 is 2. Everything else are numbers to be
    fitted: fractions, numbers with gaps, negative ones, counts that differ in most of the rows.
    """
    require_unmasked("labels", values)
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


def _feature(column: TableColumn, table: Table, notes: list[str]) -> Feature | None:
    """What becomes of a column of inputs, with a note where that is not plain; None if it is left out."""
    named = f"column '{column.name}'"
    if column.is_missing.all():
        notes.append(f"{named} has no value in any row: it is left out of the inputs.")
        return None
    word = _no_number(column)
    if word is not None:
        notes.append(f"{named} has '{word}' among its numbers: it is taken for a missing value.")
    if word is not None or not column.is_text:
        _note_amount(column, notes)
        return Feature(column.name, None, *moments(column.numbers[np.isfinite(column.numbers)]))
    _check_texts(column, table.file, line_of(table), "or leave it out with --drop " + shlex.quote(column.name))
    levels, size = _levels(column), len(column.numbers)
    if len(levels) > max(_FEW_LEVELS, size / _PER_CLASS):
        notes.append(f"{named} has {len(levels)} different texts in {size} rows: it is left out of the inputs.")
        return None
    if not np.isnan(column.numbers).all():
        notes.append(f"{named} has numbers and texts: all are taken for categories.")
    return Feature(column.name, (NO_LEVEL,) * bool(column.is_missing.any()) + levels)


def _no_number(column: TableColumn) -> str | None:
    """A word that says in a column of numbers that there is none; None where it has no words, or others."""
    words = [text for text in column.texts or () if cells.plain(text) is None and not cells.is_missing(text)]
    numbers = column.numbers[~np.isnan(column.numbers)]
    # Among few numbers a word may be a level, as none of none, 1, 2.
    is_few = len(np.unique(numbers)) <= _FEW_LEVELS and len(words) >= _SLIPS * (len(words) + len(numbers))
    if not words or len(numbers) == 0 or is_few or not all(cells.is_no_number(word) for word in words):
        return None
    return words[0]


def _note_amount(column: TableColumn, notes: list[str]) -> None:
    if column.amount is not None:
        value = cells.amounts([column.amount], True)
        assert value is not None
        notes.append(
            f"column '{column.name}' has numbers that are not written plainly: '{column.amount}' is {value[0]:g}."
        )


def _check_texts(column: TableColumn, file: Path, where: Callable[[int], str], advice: str) -> None:
    """Refuse a column of texts that are dates, or numbers with a slip or in a way of writing that is not known."""
    texts = column.texts or []
    named = f"column '{column.name}' of '{file}'"
    words = [i for i, text in enumerate(texts) if cells.plain(text) is None and not cells.is_missing(text)]
    dates = [i for i in words if cells.is_date(texts[i])]
    require(
        2 * len(dates) < len(words),
        f"{named} must hold numbers or categories, got the date '{texts[dates[0] if dates else 0]}' in "
        f"{where(dates[0] if dates else 0)}; write a number in its place (a year, days since the first), {advice}.",
    )
    comma = next((texts[i] for i in words if cells.is_decimal_comma(texts[i])), None)
    require(comma is None, f"{named} must write decimals with a point, got '{comma}'; write 1.5 for 1,5, {advice}.")
    odd = [i for i in words if cells.is_odd_number(texts[i])]
    require(
        2 * len(odd) < len(words),
        f"{named} must hold numbers that are written in one way, got '{texts[odd[0] if odd else 0]}' in "
        f"{where(odd[0] if odd else 0)}; write plain ones such as 1000.5, {advice}.",
    )
    numbers = np.flatnonzero(~np.isnan(column.numbers))
    require(
        len(numbers) == 0 or len(words) >= _SLIPS * (len(words) + len(numbers)),
        f"{named} must hold numbers or texts, got '{texts[words[0]]}' in {where(words[0])} and "
        f"{texts[numbers[0] if len(numbers) else 0]} in {where(int(numbers[0]) if len(numbers) else 0)}; correct it, "
        f"leave it empty where the value is missing, {advice}.",
    )


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
        return Label(name, tuple(sorted({int(value) for value in column.values if np.isfinite(float(value))})))
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
    texts, levels = column.texts or [], _levels(column)
    if loss is not None:
        return levels
    _check_texts(column, file, where, "or use --loss cross-entropy to take them for classes")
    is_number, named = ~np.isnan(column.numbers), f"column '{column.name}' of '{file}'"
    if is_number.any():
        number = int(is_number.argmax())
        word = next(i for i, text in enumerate(texts) if not is_number[i] and not cells.is_missing(text))
        raise InputError(
            f"{named} must hold numbers or texts, got '{texts[word]}' in {where(word)} and {texts[number]} in "
            f"{where(number)}; correct it, or use --loss cross-entropy to take them for classes."
        )
    size = len(column.numbers)
    require(
        len(levels) <= max(_FEW_LEVELS, size / _PER_CLASS),
        f"{named} must hold numbers or few different texts, got {len(levels)} in {size} rows; name another label, or "
        "use --loss cross-entropy to take them for classes.",
    )
    return levels


def _levels(column: TableColumn) -> tuple[str, ...]:
    """The different texts of a column in alphabetical order."""
    return tuple(sorted({text for text in column.texts or [] if not cells.is_missing(text)}))
