"""Images made worse in six ways, each in five steps: what becomes of a network when its inputs are not as in training.

Of an image x in 0..1, with strengths a that grow with the severity 1..5:

- noise: x + a z with z ~ N(0, 1) for every pixel and channel; what leaves 0..1 is cut off
- blur: the convolution of x with a Gaussian of standard deviation a, reflected at the border, so that the mean stays
- shift: x moved by a up, down, left or right; what comes in is 0
- rotation: x turned by a degrees to either side around its centre, interpolated linearly; what comes in is 0
- contrast: x - a (x - mean of x)
- occlusion: a square of side a, anywhere in the image, becomes grey, 1/2

Lengths a are in units of 1/28 of the shorter side, which is a pixel of MNIST; shifts and squares are rounded up to
whole pixels. Random numbers are a function of the seed and the number of the image: they do not depend on how many
images there are, and are the same at every severity, so that an image moves the same way, only further.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from trajens.errors import choice, integer, require
from trajens.precision import numbers

SEVERITIES = 5
_BYTE = 255
_UNITS = 28
_GREY = 0.5
_WORDS = 4
"""Random numbers for one step of the counter behind them."""
_PART = 2**21
"""Pixels that are worked on at a time."""

Draw = Callable[[int], np.ndarray]
"""``draw(count)``: uniform numbers (n, count) in [0, 1), a row for every image."""


class Corruption(NamedTuple):
    """One way of making images worse.

    Attributes
    ----------
    apply : callable
        ``apply(images, strength, draw)``: new images of images (n, h, w, channels) in 0..1; what leaves 0..1 is cut off
        by `corrupted`.
    strengths : tuple of float
        Of severities 1 to 5.
    """

    apply: Callable[[np.ndarray, float, Draw], np.ndarray]
    strengths: tuple[float, ...]


def corrupted(images: Any, name: str, severity: int, seed: int = 0, first: int = 0) -> np.ndarray:
    """Images made worse, as a new array of the same shape and type.

    Parameters
    ----------
    images : (n, h, w) or (n, h, w, channels)
        Bytes 0..255, or floats in 0..1.
    name : str
        One of `CORRUPTIONS`.
    severity : int
        0, the images themselves, to 5.
    seed : int in 0..2**32 - 1
        The same seed, the same images.
    first : int
        The number of the first image, where images come in parts: all at once and part after part are the same.

    Examples
    --------
    >>> digits = tj.datasets.mnist()
    >>> noisy = tj.datasets.corrupted(digits.test_x, "noise", 3)
    >>> rest = tj.datasets.corrupted(digits.test_x[9000:], "noise", 3, first=9000)
    >>> noisy.dtype, bool((noisy[9000:] == rest).all())
    (dtype('uint8'), True)
    """
    given = _checked(images)
    kind = CORRUPTIONS[choice("name", name, CORRUPTIONS)]
    severity = integer("severity", severity, 0, "0 leaves the images as they are, 5 is the most", SEVERITIES)
    seed = integer("seed", seed, 0, "any whole number in range will do", 2**32 - 1)
    first = integer("first", first, 0, "it is the number of the first image")
    found = given.copy()
    if severity == 0:
        return found
    part = max(1, _PART // int(np.prod(given.shape[1:])))
    for start in range(0, len(given), part):
        x = given[start : start + part]
        scale = _BYTE if _is_bytes(x) else 1
        y = kind.apply(
            x.reshape(*x.shape[:3], -1) / np.float64(scale),
            kind.strengths[severity - 1],
            _drawn(seed, first + start, len(x)),
        )
        y = scale * np.clip(y, 0.0, 1.0).reshape(x.shape)
        found[start : start + part] = np.rint(y) if _is_bytes(x) else y
    return found


def noise(images: np.ndarray, std: float, draw: Draw) -> np.ndarray:
    """Gaussian noise."""
    from scipy.special import ndtri

    # One uniform number for each: methods that throw some away would depend on the images before.
    return images + std * ndtri(draw(images[0].size)).reshape(images.shape)


def blur(images: np.ndarray, std: float, _: Draw) -> np.ndarray:
    """Gaussian blur."""
    from scipy.ndimage import gaussian_filter

    width = _pixels(images, std)
    return np.asarray(gaussian_filter(images, (0, width, width, 0), mode="reflect"))


def shift(images: np.ndarray, length: float, draw: Draw) -> np.ndarray:
    """A translation along one axis, either way."""
    pixels = ceil(_pixels(images, length))
    way = (4 * draw(1)[:, 0]).astype(int)
    moved = np.zeros_like(images)
    moved[way == 0, :-pixels] = images[way == 0, pixels:]
    moved[way == 1, pixels:] = images[way == 1, :-pixels]
    moved[way == 2, :, :-pixels] = images[way == 2, :, pixels:]
    moved[way == 3, :, pixels:] = images[way == 3, :, :-pixels]
    return moved


def rotation(images: np.ndarray, degrees: float, draw: Draw) -> np.ndarray:
    """A rotation, either way; the first half of the random numbers turns against the clock."""
    from scipy.ndimage import rotate

    is_left = draw(1)[:, 0] < 0.5
    turned = np.empty_like(images)
    for here, angle in ((is_left, degrees), (~is_left, -degrees)):
        if here.any():
            turned[here] = rotate(images[here], angle, axes=(1, 2), reshape=False, order=1, mode="constant")
    return turned


def contrast(images: np.ndarray, lost: float, _: Draw) -> np.ndarray:
    """Every image nearer to its own mean; `lost` = 1 leaves nothing else."""
    return images - lost * (images - images.mean((1, 2, 3), keepdims=True))


def occlusion(images: np.ndarray, side: float, draw: Draw) -> np.ndarray:
    """A grey square, all of it inside the image."""
    height, width = images.shape[1:3]
    pixels = ceil(_pixels(images, side))
    top, left = (draw(2) * (height - pixels + 1, width - pixels + 1)).astype(int).T
    rows, columns = np.arange(height) - top[:, None], np.arange(width) - left[:, None]
    is_row, is_column = (rows >= 0) & (rows < pixels), (columns >= 0) & (columns < pixels)
    return np.where((is_row[:, :, None] & is_column[:, None])[..., None], _GREY, images)


CORRUPTIONS: Mapping[str, Corruption] = MappingProxyType(
    {
        "noise": Corruption(noise, (0.1, 0.2, 0.3, 0.4, 0.5)),
        "blur": Corruption(blur, (0.5, 1.0, 1.5, 2.0, 2.5)),
        "shift": Corruption(shift, (1.0, 2.0, 3.0, 4.0, 5.0)),
        "rotation": Corruption(rotation, (10.0, 20.0, 30.0, 40.0, 50.0)),
        "contrast": Corruption(contrast, (0.15, 0.3, 0.45, 0.6, 0.75)),
        "occlusion": Corruption(occlusion, (4.0, 6.0, 8.0, 10.0, 12.0)),
    }
)
"""By name: what is done, and the strengths of severities 1 to 5."""


def _drawn(seed: int, first: int, n: int) -> Draw:
    """Uniform numbers of images first..first+n-1: counters of every image begin where those of the last one end."""

    def draw(count: int) -> np.ndarray:
        steps = -(-count // _WORDS)
        words = np.random.Generator(np.random.Philox(key=seed, counter=first * steps))
        return words.random((n, _WORDS * steps))[:, :count]

    return draw


def _pixels(images: np.ndarray, length: float) -> float:
    """A length that is given in parts of the shorter side."""
    return length * min(images.shape[1:3]) / _UNITS


def _is_bytes(images: np.ndarray) -> bool:
    return images.dtype == np.uint8


def _checked(images: Any) -> np.ndarray:
    """The images as an array, if that is what they are."""
    given = numbers("images", images)
    require(
        given.ndim in (3, 4) and min(given.shape[1:]) > 0,
        f"images must have shape (n, h, w) or (n, h, w, channels), got {given.shape}; of a single image, pass x[None].",
    )
    require(
        _is_bytes(given) or given.dtype.kind == "f",
        f"images must be bytes (uint8) in 0..255 or floats in 0..1, got {given.dtype}; convert them.",
    )
    if given.dtype.kind == "f" and given.size > 0:
        bad = int((~np.isfinite(given)).sum())
        require(bad == 0, f"images must be finite, got {bad} NaN or infinite pixels; remove or impute them.")
        low, high = given.min(), given.max()
        require(
            bool(low >= 0 and high <= 1),
            f"images of floats must be in 0..1, got {low:g} to {high:g}; divide them by their largest value.",
        )
    return given
