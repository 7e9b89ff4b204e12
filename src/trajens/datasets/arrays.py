"""A user's own data: ``.npz``, IDX or CSV files as inputs and labels. Nothing in a file is ever executed."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np

from trajens.errors import InputError, require

_IDX_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_LABEL_NAMES = ("label", "labels", "y", "target", "class")


class Labelled(NamedTuple):
    """Inputs (n, ...) and labels (n,): whole numbers from 0 for classes, float32 for regression."""

    x: np.ndarray
    y: np.ndarray


def load(path: str | Path, labels: str | Path | None = None, num_classes: int | None = None) -> Labelled:
    """Read inputs and labels from a file.

    Parameters
    ----------
    path : str or Path
        ``.npz`` with arrays ``x`` and ``y``; an IDX file, plain or ``.gz``; or a ``.csv`` with a header line.
    labels : str or Path, optional
        For IDX, the file of the labels (default: the same name with "images" and "idx3" replaced by "labels" and
        "idx1"); for CSV, the name of the label column (default: label, labels, y, target or class).
    num_classes : int, optional
        Refuse labels outside 0..num_classes-1.
    """
    file = Path(path)
    require(file.is_file(), f"path must be a file that exists, got '{file}'; check the spelling.")
    if file.suffix == ".npz":
        data = Labelled(*_arrays(file, ("x", "y")))
    elif file.suffix == ".csv":
        data = _csv(file, None if labels is None else str(labels))
    elif "idx" in file.name or "ubyte" in file.name:
        sibling = file.with_name(file.name.replace("images", "labels").replace("idx3", "idx1"))
        beside = sibling if labels is None else Path(labels)
        require(
            beside.is_file() and beside != file,
            f"the labels of '{file}' must be in a file beside it, got no '{beside}'; name it with labels=.",
        )
        data = Labelled(idx(file), idx(beside))
    else:
        raise InputError(f"path must end in .npz, .csv or be an IDX file (idx in its name), got '{file}'; convert it.")
    return _checked(file, data, num_classes)


def load_inputs(path: str | Path) -> np.ndarray:
    """Inputs without labels: ``x`` of an ``.npz``, or an IDX file, plain or ``.gz``."""
    file = Path(path)
    require(file.is_file(), f"path must be a file that exists, got '{file}'; check the spelling.")
    is_idx = "idx" in file.name or "ubyte" in file.name
    require(is_idx or file.suffix == ".npz", f"inputs must be in .npz or IDX files, got '{file}'; convert it.")
    x = idx(file) if is_idx else _arrays(file, ("x",))[0]
    require(x.dtype.kind in "biuf", f"'{file}' must hold numbers, got x of type {x.dtype}; encode it.")
    bad = int((~np.isfinite(x)).sum()) if x.dtype.kind == "f" else 0
    require(bad == 0, f"'{file}' must be finite, got {bad} NaN or infinite values in x; remove or impute them.")
    return x


def idx(file: Path) -> np.ndarray:
    """An array in the IDX format, plain or gzipped."""
    try:
        raw = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"'{file}' must be a complete gzip file, got {error}; copy it again.") from None
    is_idx = len(raw) >= 4 and raw[:2] == b"\0\0" and raw[2] in _IDX_TYPES and raw[3] > 0
    require(is_idx, f"'{file}' must start with an IDX header, got {raw[:4]!r}; is it another format?")
    kind, rank = np.dtype(_IDX_TYPES[raw[2]]), raw[3]
    start = 4 + 4 * rank
    require(len(raw) >= start, f"'{file}' must hold {start} bytes of header, got {len(raw)}; the file is cut off.")
    shape = tuple(int(n) for n in np.frombuffer(raw, ">u4", rank, 4))
    expected = start + kind.itemsize * int(np.prod(shape, dtype=np.int64))
    require(
        len(raw) == expected,
        f"'{file}' must hold {expected} bytes for shape {shape}, got {len(raw)}; the file is cut off or damaged.",
    )
    return np.frombuffer(raw, kind, offset=start).reshape(shape).astype(kind.newbyteorder("="))


def _arrays(file: Path, wanted: tuple[str, ...]) -> list[np.ndarray]:
    """The wanted arrays of an ``.npz`` file."""
    try:
        with np.load(file, allow_pickle=False) as arrays:
            names = list(arrays.files) if isinstance(arrays, np.lib.npyio.NpzFile) else []
            require(
                set(wanted) <= set(names),
                f"'{file}' must hold arrays {' and '.join(wanted)}, got {names}; save it with those.",
            )
            return [arrays[name] for name in wanted]
    except InputError:
        raise
    except Exception as error:  # whatever an archive of arbitrary bytes makes its reader raise
        reason = str(error).split(".")[0]
        raise InputError(f"'{file}' must be a complete .npz of plain arrays, got {reason}; save it again.") from None


def _csv(file: Path, column: str | None) -> Labelled:
    with file.open(encoding="utf-8-sig", errors="replace") as lines:
        header = [name.strip().strip('"') for name in lines.readline().rstrip("\n").split(",")]
        found = [name for name in header if name.lower() in _LABEL_NAMES] if column is None else [column]
        require(
            len(found) == 1 and found[0] in header,
            f"'{file}' must have one label column, got columns {header[:8]}; call it label.",
        )
        try:
            table = np.loadtxt(lines, np.float64, delimiter=",", ndmin=2)
        except ValueError as error:
            raise InputError(
                f"'{file}' must hold numbers in every row, got {error}; remove or encode the rest."
            ) from None
    require(
        table.shape[1] == len(header) > 1,
        f"'{file}' must have {len(header)} numbers a row, label and inputs, got {table.shape[1]}; check the header.",
    )
    at = header.index(found[0])
    y = table[:, at]
    is_class = bool(np.isfinite(y).all() and (y == np.round(y)).all() and y.min() >= 0 and y.max() < 2**31)
    return Labelled(np.delete(table, at, axis=1).astype(np.float32), y.astype(np.int32 if is_class else np.float32))


def _checked(file: Path, data: Labelled, num_classes: int | None) -> Labelled:
    x, y = data
    require(
        x.ndim >= 2 and y.shape == x.shape[:1] and len(y) > 0,
        f"'{file}' must hold x of shape (n, ...) and y of shape (n,), got {x.shape} and {y.shape}; are they swapped?",
    )
    for name, array in (("x", x), ("y", y)):
        require(array.dtype.kind in "biuf", f"'{file}' must hold numbers, got {name} of type {array.dtype}; encode it.")
        bad = int((~np.isfinite(array)).sum()) if array.dtype.kind == "f" else 0
        require(
            bad == 0, f"'{file}' must be finite, got {bad} NaN or infinite values in {name}; remove or impute them."
        )
    if y.dtype.kind in "biu" or num_classes is not None:
        low, high = y.min(), y.max()
        top = "from 0" if num_classes is None else f"0..{num_classes - 1}"
        is_in_range = low >= 0 and (num_classes is None or high < num_classes)
        require(
            bool(is_in_range and (y == np.round(y)).all()),
            f"'{file}' must have whole labels {top}, got {low} to {high}; number the classes from 0.",
        )
    return data
