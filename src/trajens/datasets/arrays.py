"""Arrays of a user's own files: ``.npz``, IDX, and folders of images; and the scale that suits networks.

Nothing in a file is ever executed. Numbers are brought to (x - mean) / standard deviation of the training data.

*Images* are in one subfolder of PNG or JPEG files for each class, all of one shape. Classes are the names of the
subfolders in alphabetical order; names that are the whole numbers 0, 1, .. without a gap are those numbers. Pillow
reads the files.
"""

from __future__ import annotations

import gzip
import math
import zlib
from collections.abc import Callable
from io import BufferedReader
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from trajens.datasets.tables import TableColumn
from trajens.errors import InputError, first_line, require


def moments(values: np.ndarray) -> tuple[float, float]:
    """Mean and standard deviation, which is 0 where all values are the same."""
    if values.size == 0:
        return 0.0, 0.0
    # In units of the power of two below the largest, since squares may be too large or too small.
    unit = np.ldexp(1.0, np.frexp(np.abs(values).max())[1] - 1) if np.isfinite(values).all() else np.nan
    scaled = values / unit
    return float(scaled.mean() * unit), 0.0 if values.min() == values.max() else float(scaled.std() * unit)


def standardise(values: np.ndarray, mean: np.ndarray, std: np.ndarray) -> np.ndarray:
    """(x - mean) / std; as it is where std is 0, and 0 where it is infinite."""
    is_varied = std > 0
    return np.where(is_varied, (values - mean) / np.where(is_varied, std, 1.0), values)


SUFFIXES = (".png", ".jpg", ".jpeg")
_GREY = ("1", "L", "LA")
_COLOUR = ("P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr")


def images_in(folder: Path) -> list[Path]:
    """Images right in a folder, or else in its subfolders, in alphabetical order."""
    require(folder.is_dir(), f"path must be a folder that exists, got '{folder}'; check the spelling.")
    found = _images(folder) or [file for _, files in _by_class(folder) for file in files]
    require(
        len(found) > 0,
        f"'{folder}' must hold images ({', '.join(SUFFIXES)}), got none there or in its subfolders; check the path.",
    )
    return found


def classes_in(folder: Path) -> tuple[str, ...] | tuple[int, ...]:
    """The classes of a folder that a run is to learn: names of its subfolders with images."""
    names = [name for name, files in _by_class(folder) if files]
    require(
        len(names) >= 2,
        f"'{folder}' must have a subfolder of images ({', '.join(SUFFIXES)}) for each of two or more classes, got "
        f"{len(names)}; sort them into subfolders with the names of the classes.",
    )
    numbers = sorted(int(name) for name in names if name.isascii() and name.isdigit())
    return tuple(numbers) if numbers == list(range(len(names))) else tuple(names)


def labelled_images(
    folder: Path, is_colour: bool | None = None
) -> tuple[np.ndarray, TableColumn, Callable[[int], str]]:
    """Images (n, ...) of all classes, the names of their classes as a column, and what names the place of a label."""
    files = [file for _, files in _by_class(folder) for file in files]
    require(len(files) > 0, f"'{folder}' must have a subfolder of images for each class, got none; check the path.")
    names = [file.parent.name for file in files]
    numbers = np.array([float(name) if name.isascii() and name.isdigit() else np.nan for name in names])
    column = TableColumn("class", numbers, names, True)
    return read_images(files, is_colour), column, lambda place: f"'{files[place]}'"


def read_images(files: list[Path], is_colour: bool | None = None) -> np.ndarray:
    """Images as bytes, (n, height, width) if they are grey, else (n, height, width, 3).

    Parameters
    ----------
    files : list of Path
    is_colour : bool, optional
        Whether grey ones become coloured; default: if there is a coloured one.
    """
    images = _pillow()
    opened = [_pixels(images, file) for file in files]
    if is_colour is None:
        is_colour = any(pixels.ndim == 3 for pixels in opened)
    first = opened[0].shape[:2]
    for file, pixels in zip(files, opened, strict=True):
        require(
            pixels.shape[:2] == first,
            f"all images must have one shape, got {_size(first)} in '{files[0]}' and {_size(pixels.shape)} in '{file}';"
            " cut or resize them.",
        )
    if is_colour:
        opened = [p if p.ndim == 3 else np.repeat(p[..., None], 3, axis=2) for p in opened]
    coloured = next((file for file, p in zip(files, opened, strict=True) if not is_colour and p.ndim == 3), None)
    require(coloured is None, f"images must be grey, as the run was trained on, got colours in '{coloured}'; convert.")
    return np.stack(opened)


def _pixels(images: Any, file: Path) -> np.ndarray:
    """Bytes of one image: (height, width), or (height, width, 3); what is transparent is shown as it is below."""
    try:
        with images.open(file) as image:
            mode = image.mode
            wanted = "L" if mode in _GREY else "RGB" if mode in _COLOUR else None
            pixels = None if wanted is None else np.asarray(image.convert(wanted), np.uint8)
    except Exception as error:  # whatever a file of arbitrary bytes makes its reader raise
        raise InputError(f"'{file}' must be a whole image, got {first_line(error)}; save it again.") from None
    if pixels is None:
        raise InputError(f"'{file}' must be an image of 8 bits, grey or coloured, got mode {mode}; convert it.")
    return pixels


def _by_class(folder: Path) -> list[tuple[str, list[Path]]]:
    """Subfolders and the images right in them; what is hidden is none."""
    require(folder.is_dir(), f"path must be a folder that exists, got '{folder}'; check the spelling.")
    inside = sorted(part for part in folder.iterdir() if part.is_dir() and not part.name.startswith("."))
    return [(part.name, _images(part)) for part in inside]


def _images(folder: Path) -> list[Path]:
    files = (file for file in folder.iterdir() if file.suffix.lower() in SUFFIXES and file.is_file())
    return sorted(file for file in files if not file.name.startswith("."))


def _size(shape: tuple[int, ...]) -> str:
    return f"{shape[0]} x {shape[1]}"


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise InputError(
            "folders of images must be read by Pillow, got none installed; pip install 'trajens[images]', or save the "
            "images as x and y of an .npz."
        ) from None
    return Image


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
        return read_images(images_in(Path(path)))
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
