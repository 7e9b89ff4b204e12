"""MNIST, shipped inside the package: no download, ever.

The four IDX files are stored one after the other in ``data/mnist.xz``; attribution and licence: ``data/README.md``.
Unpacking takes a second or two, so the unpacked bytes are kept in a per-user cache, which is written atomically and
checked before it is trusted.
"""

from __future__ import annotations

import contextlib
import hashlib
import lzma
from importlib import resources
from typing import NamedTuple

import numpy as np

from trajens.files import cache_folder, write_atomically

_SHA256 = "b2d8f5bf39174ee5ffeefa97e42d673c35432b411bb5d1f74fbbeddae7f1690a"
_TRAIN, _TEST, _SIDE = 60_000, 10_000, 28
_IMAGE_HEADER, _LABEL_HEADER = 16, 8


class Mnist(NamedTuple):
    """The standard split: images (n, 28, 28) and labels (n,), uint8, read-only."""

    train_x: np.ndarray
    train_y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray


def mnist() -> Mnist:
    """The 60 000 training and 10 000 test digits.

    The cache is ``$TRAJENS_CACHE``, or ``trajens`` in the user's cache folder; where it is off, cannot be written,
    or does not hold what it should, the digits are unpacked again.
    """
    raw = _cached()
    if raw is None:
        raw = lzma.decompress(resources.files("trajens.datasets").joinpath("data/mnist.xz").read_bytes())
        _keep(raw)
    parts, start = [], 0
    for count in (_TRAIN, _TEST):
        for header, shape in ((_IMAGE_HEADER, (count, _SIDE, _SIDE)), (_LABEL_HEADER, (count,))):
            stop = start + header + int(np.prod(shape))
            parts.append(np.frombuffer(raw, np.uint8, offset=start + header, count=int(np.prod(shape))).reshape(shape))
            start = stop
    return Mnist(*parts)


def _cached() -> bytes | None:
    folder = cache_folder()
    if folder is None:
        return None
    try:
        raw = (folder / "mnist.bin").read_bytes()
    except OSError:
        return None
    return raw if hashlib.sha256(raw).hexdigest() == _SHA256 else None


def _keep(raw: bytes) -> None:
    folder = cache_folder()
    if folder is None:
        return
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / "mnist.bin", raw)
