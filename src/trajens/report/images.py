"""Pictures inside the page: arrays as PNG in a data address, and the colours of a matrix."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np

_SIDE = 64
"""Pixels of a picture at most; larger ones are thinned."""

_CIVIDIS = np.array(
    [
        (0, 34, 78), (18, 53, 112), (59, 73, 108), (87, 93, 109), (112, 113, 115),
        (138, 134, 120), (165, 156, 116), (195, 179, 105), (225, 204, 85), (254, 232, 56),
    ],
    float,
)  # fmt: skip
"""From dark blue to yellow, with an even lightness: the same to all eyes, and in grey."""


def data_address(pixels: np.ndarray) -> str:
    """A PNG of bytes (rows, columns), grey, or (rows, columns, 3)."""
    pixels = np.ascontiguousarray(pixels, np.uint8)
    rows, columns = pixels.shape[:2]
    kind = 2 if pixels.ndim == 3 else 0
    # A filter byte, none, before every row.
    lines = b"".join(b"\0" + row.tobytes() for row in pixels)
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", columns, rows, 8, kind, 0, 0, 0)),
        (b"IDAT", zlib.compress(lines, 9)),
        (b"IEND", b""),
    )
    content = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body)) for name, body in parts
    )
    return f"data:image/png;base64,{base64.b64encode(content).decode()}"


def is_picture(shape: tuple[int, ...]) -> bool:
    """Whether an input of this shape can be looked at: grey, or with one or three colours last."""
    return len(shape) in (2, 3) and min(shape[:2]) > 4 and (len(shape) == 2 or shape[2] in (1, 3))


def picture(values: np.ndarray) -> np.ndarray:
    """An input as bytes, from its lowest number to its highest, not larger than it need be."""
    step = -(-max(values.shape[:2]) // _SIDE)
    values = values[::step, ::step].astype(float)
    values = values[..., 0] if values.ndim == 3 and values.shape[2] == 1 else values
    low, high = values.min(), values.max()
    return np.asarray(255 * (values - low) / (high - low if high > low else 1.0), np.uint8)


def coloured(shares: np.ndarray) -> np.ndarray:
    """Numbers 0..1 as colours (..., 3); grey where there is none."""
    at = np.clip(np.nan_to_num(shares), 0, 1) * (len(_CIVIDIS) - 1)
    channels = [np.interp(at, np.arange(len(_CIVIDIS)), channel) for channel in _CIVIDIS.T]
    found = np.stack(channels, axis=-1).astype(np.uint8)
    found[~np.isfinite(shares)] = 127
    return found
