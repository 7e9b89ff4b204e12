"""Images in a folder: one subfolder of PNG or JPEG files for each class, all images of one shape.

Classes are the names of the subfolders in alphabetical order; names that are the whole numbers 0, 1, .. without a gap
are those numbers. Pillow reads the files.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from trajens.datasets.tables import Column
from trajens.errors import InputError, first_line, require

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


def labelled_images(folder: Path, is_colour: bool | None = None) -> tuple[np.ndarray, Column, Callable[[int], str]]:
    """Images (n, ...) of all classes, the names of their classes as a column, and what names the place of a label."""
    files = [file for _, files in _by_class(folder) for file in files]
    require(len(files) > 0, f"'{folder}' must have a subfolder of images for each class, got none; check the path.")
    names = [file.parent.name for file in files]
    numbers = np.array([float(name) if name.isascii() and name.isdigit() else np.nan for name in names])
    column = Column("class", numbers, names, True)
    return read(files, is_colour), column, lambda place: f"'{files[place]}'"


def read(files: list[Path], is_colour: bool | None = None) -> np.ndarray:
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
