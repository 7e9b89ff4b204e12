"""A user's own arrays: ``.npz`` and IDX files. Nothing in a file is ever executed."""

from __future__ import annotations

import gzip
import math
import zlib
from io import BufferedReader
from pathlib import Path
from typing import NamedTuple

import numpy as np

from trajens.datasets.folders import images_in, read
from trajens.errors import InputError, first_line, require

_IDX_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}

_MOST_AXES = 32
_DEFLATED = 1032
"""The most bytes that one compressed byte of gzip or zip can stand for."""


class Labelled(NamedTuple):
    """Inputs (n, ...) and labels (n,): whole numbers from 0 for classes, float32 for regression."""

    x: np.ndarray
    y: np.ndarray


def load_inputs(path: str | Path) -> np.ndarray:
    """Inputs without labels: ``x`` of an ``.npz``, an IDX file, plain or ``.gz``, or a folder of images."""
    if Path(path).is_dir():
        return read(images_in(Path(path)))
    file = _existing(path)
    require(
        is_idx(file) or file.suffix == ".npz",
        f"inputs must be in .npz or IDX files or a folder of images, got '{file}'; convert it.",
    )
    x = idx(file) if is_idx(file) else _arrays(file, ("x",))[0]
    _check_numbers(file, "x", x)
    return x


def load_labelled(path: str | Path, labels: str | Path | None = None) -> Labelled:
    """Inputs and labels as they are stored: ``x`` and ``y`` of an ``.npz``, or two IDX files.

    Parameters
    ----------
    path : str or Path
    labels : str or Path, optional
        For IDX, the file of the labels; default: the same name with "images" and "idx3" replaced by "labels" and
        "idx1".
    """
    file = _existing(path)
    if file.suffix == ".npz":
        x, y = _arrays(file, ("x", "y"))
    elif is_idx(file):
        sibling = file.with_name(file.name.replace("images", "labels").replace("idx3", "idx1"))
        beside = sibling if labels is None else Path(labels)
        require(
            beside.is_file() and beside != file,
            f"the labels of '{file}' must be in a file beside it, got no '{beside}'; name it with labels=.",
        )
        x, y = idx(file), idx(beside)
    else:
        raise InputError(f"path must end in .npz, .csv or be an IDX file (idx in its name), got '{file}'; convert it.")
    require(
        x.ndim >= 2 and y.shape == x.shape[:1] and len(y) > 0,
        f"'{file}' must hold x of shape (n, ...) and y of shape (n,), got {x.shape} and {y.shape}; are they swapped?",
    )
    _check_numbers(file, "x", x)
    _check_numbers(file, "y", y)
    return Labelled(x, y)


def is_idx(file: Path) -> bool:
    """Whether a file is called like one in the IDX format."""
    return file.suffix != ".npz" and ("idx" in file.name or "ubyte" in file.name)


def idx(file: Path) -> np.ndarray:
    """An array in the IDX format, plain or gzipped; no more is read or set aside than its header and file allow."""
    try:
        with gzip.open(file, "rb") if file.suffix == ".gz" else file.open("rb") as stream:
            return _idx(file, stream)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"'{file}' must be a complete file, plain or gzip, got {error}; copy it again.") from None


def _idx(file: Path, stream: gzip.GzipFile | BufferedReader) -> np.ndarray:
    begin = stream.read(4)
    has_header = len(begin) == 4 and begin[:2] == b"\0\0" and begin[2] in _IDX_TYPES and 0 < begin[3] <= _MOST_AXES
    require(has_header, f"'{file}' must start with an IDX header, got {begin!r}; is it another format?")
    kind, rank = np.dtype(_IDX_TYPES[begin[2]]), begin[3]
    sizes = stream.read(4 * rank)
    require(len(sizes) == 4 * rank, f"'{file}' must hold {4 + 4 * rank} bytes of header, got fewer; it is cut off.")
    shape = tuple(int(n) for n in np.frombuffer(sizes, ">u4"))
    expected = kind.itemsize * math.prod(shape)
    ratio = _DEFLATED if file.suffix == ".gz" else 1
    # One byte more than there should be, to see that there is none; a gzip is at its end when its checksum was read.
    raw = stream.read(expected + 1) if expected <= ratio * file.stat().st_size else b""
    require(
        len(raw) == expected,
        f"'{file}' must hold {expected} bytes for shape {shape}, got {'more' if len(raw) > expected else 'fewer'}; the "
        "file is cut off or damaged.",
    )
    return np.frombuffer(raw, kind).reshape(shape).astype(kind.newbyteorder("="))


def _arrays(file: Path, wanted: tuple[str, ...]) -> list[np.ndarray]:
    """The wanted arrays of an ``.npz`` file."""
    try:
        with np.load(file, allow_pickle=False) as arrays:
            names = list(arrays.files) if isinstance(arrays, np.lib.npyio.NpzFile) else []
            require(
                set(wanted) <= set(names),
                f"'{file}' must hold arrays {' and '.join(wanted)}, got {names}; save it with those.",
            )
            return [_array(arrays, name) for name in wanted]
    except InputError:
        raise
    except Exception as error:  # whatever an archive of arbitrary bytes makes its reader raise
        raise InputError(
            f"'{file}' must be a complete .npz of plain arrays, got {first_line(error)}; save it again."
        ) from None


def _array(arrays: np.lib.npyio.NpzFile, name: str) -> np.ndarray:
    """One array, if the file can hold what its header says: NumPy sets the room aside before it reads."""
    archive = arrays.zip
    assert archive is not None
    member = archive.getinfo(name if name in archive.namelist() else f"{name}.npy")
    with archive.open(member) as stream:
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(stream)
    size = math.prod(shape) * dtype.itemsize
    if size > member.file_size or member.file_size > _DEFLATED * (member.compress_size + 1):
        raise ValueError(f"{name} of shape {shape}, for which the file is too short")
    return np.asarray(arrays[name])


def _existing(path: str | Path) -> Path:
    file = Path(path)
    require(file.is_file(), f"path must be a file that exists, got '{file}'; check the spelling.")
    return file


def _check_numbers(file: Path, name: str, array: np.ndarray) -> None:
    require(array.dtype.kind in "biuf", f"'{file}' must hold numbers, got {name} of type {array.dtype}; encode it.")
    bad = int((~np.isfinite(array)).sum()) if array.dtype.kind == "f" else 0
    require(bad == 0, f"'{file}' must be finite, got {bad} NaN or infinite values in {name}; remove or impute them.")
