"""Heat maps and pictures: numbers of rows and columns as colours, with a bar of these; arrays as PNG in the page."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trajens.app.report.chart import CHARACTER, Shown
from trajens.app.report.html import Markup, tag
from trajens.app.report.scales import some

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
    depth, methods = 8, (0, 0, 0)
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", columns, rows, depth, kind, *methods)),
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


def colour(shares: np.ndarray) -> np.ndarray:
    """Numbers 0..1 as colours (..., 3); grey where there is none."""
    at = np.clip(np.nan_to_num(shares), 0, 1) * (len(_CIVIDIS) - 1)
    channels = [np.interp(at, np.arange(len(_CIVIDIS)), channel) for channel in _CIVIDIS.T]
    found = np.stack(channels, axis=-1).astype(np.uint8)
    found[~np.isfinite(shares)] = 127
    return found


SIDE = 230.0
WIDE = 260.0
_LEFT, _TOP = 74.0, 12.0
_WIDTH, _HEIGHT = 440.0, 290.0
_SPACE, _BAR = 10.0, 16.0
_TICKS = 5
"""Names beside an axis that has more of them than there is room for."""
_LETTERS = 8
"""Of the name of a row, at most."""
_COLUMNS, _ROWS = 5, 8
"""Cells that have room for a number."""
_DARK = 0.47
"""Share of the colours that are so dark that only white can be read on them."""


@dataclass(frozen=True)
class HeatMap:
    """A table of numbers in colours.

    Attributes
    ----------
    title : str
        What is drawn, for those who cannot see it.
    values : (rows, columns)
        The first row is at the top. Not finite where there is nothing, which is crossed out.
    rows, columns : sequence of str
        Their names.
    told : sequence of sequences of str
        What is said of a cell where the mouse is.
    x_label, y_label : str
        What the columns are, and the rows.
    low, high : float
        The ends of the colours.
    words : str
        A sentence with "{a}" for the row, "{b}" for the column and "{v}" for what is told.
    shown : callable
        How numbers are written beside the colours.
    is_log : bool
        Whether colours are of logarithms.
    width : float
    is_written : bool
        Whether numbers are written into the cells, where they have room.
    """

    title: str
    values: np.ndarray
    rows: Sequence[str]
    columns: Sequence[str]
    told: Sequence[Sequence[str]]
    x_label: str
    y_label: str
    low: float
    high: float
    words: str
    shown: Shown
    is_log: bool = False
    width: float = WIDE
    is_written: bool = False

    def svg(self) -> Markup:
        """The map."""
        bar = _LEFT + self.width + _SPACE
        ends = [
            tag("text", self.shown(self._number(part)), class_="tick", x=f"{bar + _BAR + 5:g}", y=f"{y:.1f}")
            for part, y in ((1.0, _TOP + 10), (0.5, _TOP + SIDE / 2 + 4), (0.0, _TOP + SIDE))
        ]
        middle = _LEFT + self.width / 2
        cells = [
            _image(colour(self._shares(self.values)), _LEFT, self.width),
            *self._absent(),
            *self._numbers(),
        ]
        axes = [
            *self._ticks(),
            tag("text", self.x_label, class_="name middle", x=f"{middle:g}", y=f"{_HEIGHT - 12:g}"),
            tag("text", self.y_label, class_="name middle", transform=f"translate(13 {_TOP + SIDE / 2:g}) rotate(-90)"),
        ]
        colours = _image(colour(np.linspace(1, 0, 64)[:, None]), bar, _BAR)
        return tag(
            "svg",
            tag("title", self.title),
            *cells,
            *axes,
            colours,
            *ends,
            class_="chart matrix",
            viewBox=f"0 0 {_WIDTH:g} {_HEIGHT:g}",
            role="img",
            aria_label=f"{self.title}, from {self.shown(self.low)} to {self.shown(self.high)}",
            data_box=f"{_LEFT:g} {_TOP:g} {self.width:g} {SIDE:g}",
            data_rows=_listed(self.rows),
            data_columns=_listed(self.columns),
            data_values=_listed([text for row in self.told for text in row]),
            data_words=self.words,
        )

    def _shares(self, values: np.ndarray) -> np.ndarray:
        """Numbers as places between the ends."""
        low, high = (np.log(self.low), np.log(self.high)) if self.is_log else (self.low, self.high)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(((np.log(values) if self.is_log else values) - low) / (high - low))

    def _number(self, share: float) -> float:
        if self.is_log:
            return float(self.low * (self.high / self.low) ** share)
        return self.low + share * (self.high - self.low)

    def _corner(self, row: int, column: int) -> tuple[float, float]:
        return _LEFT + column / len(self.columns) * self.width, _TOP + row / len(self.rows) * SIDE

    def _absent(self) -> list[Markup]:
        """Cells without a number: the paper, crossed out."""
        places = [self._corner(row, column) for row, column in np.argwhere(~np.isfinite(self.values)).tolist()]
        if not places or not self.is_written:
            return []
        wide, high = self.width / len(self.columns), SIDE / len(self.rows)
        boxes = "".join(f"M{x:.1f},{y:.1f}h{wide:.2f}v{high:.2f}h-{wide:.2f}z" for x, y in places)
        crosses = "".join(f"M{x:.1f},{y:.1f}l{wide:.2f},{high:.2f}" for x, y in places)
        return [tag("path", class_="absent-cell", d=boxes), tag("path", class_="absent-cross", d=crosses)]

    def _numbers(self) -> list[Markup]:
        if not self.is_written or len(self.columns) > _COLUMNS or len(self.rows) > _ROWS:
            return []
        shares, found = self._shares(self.values), []
        for row, column in np.argwhere(np.isfinite(self.values)).tolist():
            x, y = self._corner(row, column)
            at = {"x": f"{x + self.width / len(self.columns) / 2:.1f}", "y": f"{y + SIDE / len(self.rows) / 2 + 4:.1f}"}
            kind = "on-dark" if shares[row, column] < _DARK else "on-light"
            text = self.shown(float(f"{self.values[row, column]:.3g}"))
            found.append(tag("text", text, class_=f"middle {kind}", **at))
        return found

    def _ticks(self) -> list[Markup]:
        wide = self.width / len(self.columns)
        is_room = max(map(len, self.columns)) * CHARACTER < wide
        found = []
        for k in range(len(self.columns)) if is_room else some(len(self.columns), _TICKS).tolist():
            x = self._corner(0, k)[0] + wide / 2
            room = wide if len(self.columns) <= _TICKS else self.width / _TICKS
            text = cut(self.columns[k], int(room / CHARACTER))
            found.append(tag("text", text, class_="tick middle", x=f"{x:.1f}", y=f"{_TOP + SIDE + 15:g}"))
        rows = range(len(self.rows)) if len(self.rows) <= 2 * _TICKS else some(len(self.rows), _TICKS).tolist()
        for k in rows:
            y = self._corner(k, 0)[1] + SIDE / len(self.rows) / 2 + 4
            text = cut(self.rows[k], _LETTERS)
            found.append(tag("text", text, class_="tick end", x=f"{_LEFT - 6:g}", y=f"{y:.1f}"))
        return found


def cut(text: str, letters: int) -> str:
    """A name that is too long without its middle."""
    if len(text) <= letters:
        return text
    tail = max(letters // 2, 1)
    return f"{text[: max(letters - tail - 1, 0)]}…{text[-tail:]}"


def _listed(texts: Sequence[str]) -> str:
    return "|".join(text.replace("|", "/") for text in texts)


def _image(colours: np.ndarray, left: float, width: float) -> Markup:
    size = {"x": f"{left:g}", "y": f"{_TOP:g}", "width": f"{width:g}", "height": f"{SIDE:g}"}
    return tag("image", href=data_address(colours), preserveAspectRatio="none", class_="pixels", **size)
