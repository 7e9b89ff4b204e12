"""The picture of ``corruptions.py``: accuracy and calibration error against severity, averaged and by corruption."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from corruptions import Row, mean_of
from trajens.datasets import CORRUPTIONS, SEVERITIES
from trajens.plots import style

PANELS = {"accuracy": "accuracy (%)", "ece": "calibration error (%)"}
LABELS = {
    "path": "path, {} models together",
    "path, single": "one model of the path",
    "adam": "Adam, {} models together",
    "adam, single": "one model of Adam",
}
DPI = 150


def draw_panel(axes: Any, rows: list[Row], score: str, corruption: str | None) -> None:
    """One score of all ensembles, in per cent; single models are dashed."""
    severities = range(SEVERITIES + 1)
    for name, label in LABELS.items():
        sizes = {row["models"] for row in rows if row["ensemble"] == name}
        if not sizes:
            continue
        values = [100 * mean_of(rows, name, score, k, corruption) for k in severities]
        method, _, is_single = name.partition(",")
        look = {**style.look(("path", "adam").index(method)), "linestyle": "--" if is_single else "-"}
        axes.plot(severities, values, markerfacecolor="white", label=label.format(*sizes), **look)
    axes.set(xticks=list(severities))


def draw(rows: list[Row], out: Path) -> None:
    """Write the picture as .png: a column for the mean and for every corruption, a row for every score."""
    from matplotlib.figure import Figure

    columns = [None, *CORRUPTIONS]
    with style.journal_style():
        figure = Figure(figsize=(11.0, 4.2))
        grid = figure.subplots(len(PANELS), len(columns), sharex=True, sharey="row")
        for line, (score, label) in zip(grid, PANELS.items(), strict=True):
            for axes, corruption in zip(line, columns, strict=True):
                draw_panel(axes, rows, score, corruption)
            line[0].set_ylabel(label)
        for axes, corruption in zip(grid[0], columns, strict=True):
            axes.set_title(corruption or "mean of all six", fontsize=9)
        figure.supxlabel("severity (0: the images as they are)", fontsize=10)
        figure.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=len(LABELS))
        figure.savefig(out, dpi=DPI)
    print(f"wrote {out}")
