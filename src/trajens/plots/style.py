"""The look of all figures: one column of a two-column journal, and colours that colour-blind readers can tell."""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from trajens.errors import InputError
from trajens.files import write_atomically

COLUMN_WIDTH = 3.4
"""Inches."""

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's palette."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X")
"""One per colour, so that a black-and-white print can be read too."""


def look(i: int) -> dict[str, Any]:
    """Colour and marker of the i-th of several curves."""
    return {"color": COLOURS[i % len(COLOURS)], "marker": MARKERS[i % len(MARKERS)]}


_STYLE: Any = {
    "figure.figsize": (COLUMN_WIDTH, 2.6),
    "figure.constrained_layout.use": True,
    "font.family": "serif",
    "font.serif": ["STIXGeneral"],
    "mathtext.fontset": "stix",
    "font.size": 9.0,
    "axes.labelsize": 10.0,
    "axes.linewidth": 0.6,
    "axes.axisbelow": True,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "xtick.direction": "in",
    "ytick.direction": "in",
    "xtick.top": True,
    "ytick.right": True,
    "xtick.major.size": 4.0,
    "ytick.major.size": 4.0,
    "xtick.minor.size": 2.0,
    "ytick.minor.size": 2.0,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.minor.width": 0.5,
    "ytick.minor.width": 0.5,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "legend.handlelength": 1.8,
    "legend.labelspacing": 0.3,
    "lines.linewidth": 0.9,
    "lines.markersize": 3.8,
    "lines.markeredgewidth": 0.8,
    "errorbar.capsize": 1.5,
    "savefig.dpi": 300,
    "pdf.fonttype": 42,
}


def require_matplotlib() -> None:
    """Refuse to start a figure that could not be drawn at its end."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise InputError(
            "figures need Matplotlib, which is not installed; try pip install 'trajens[figures]'."
        ) from None


def journal_style() -> AbstractContextManager[None]:
    """Context in which a figure is made and saved."""
    import matplotlib

    return matplotlib.rc_context(_STYLE)


def panels(columns: int = 1) -> tuple[Any, Sequence[Any]]:
    """An empty figure with `columns` panels side by side, and their axes."""
    from matplotlib.figure import Figure

    figure = Figure()
    width, height = figure.get_size_inches()
    figure.set_size_inches(columns * width, height)
    return figure, figure.subplots(1, columns, squeeze=False)[0]


def plain_logarithm(axis: Any) -> None:
    """Label a logarithmic axis of few decades with 1, 2, 5, 10 and so on."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(10, subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def engineering(axis: Any) -> None:
    """Label an axis of large numbers with 10 k, 2 M and so on, without a factor beside it."""
    from matplotlib.ticker import EngFormatter

    axis.set_major_formatter(EngFormatter())


def legend(axes: Any, entries: Sequence[dict[str, Any]], place: Any, columns: int = 1) -> None:
    """A further legend of `axes`; an entry is the label and the look of a line, which need not be drawn."""
    from matplotlib.legend import Legend
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], markerfacecolor="white", **entry) for entry in entries]
    labels = [entry["label"] for entry in entries]
    axes.add_artist(Legend(axes, handles, labels, loc=place, ncols=columns, columnspacing=1.0))


def save(figure: Any, stem: Path) -> tuple[Path, Path]:
    """Write `stem`.png and `stem`.pdf; the same numbers give the same bytes."""
    png, pdf = stem.with_suffix(".png"), stem.with_suffix(".pdf")
    for file, options in ((png, {}), (pdf, {"metadata": {"CreationDate": None}})):
        content = io.BytesIO()
        figure.savefig(content, format=file.suffix[1:], **options)
        write_atomically(file, content.getvalue())
    return png, pdf
