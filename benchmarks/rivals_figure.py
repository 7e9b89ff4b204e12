"""The picture of ``rivals.py``: accuracy, negative log-likelihood and calibration error against what they cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from trajens.plots import style

METHODS = {"path": "one path", "open_es": "Open_ES", "pgpe": "PGPE", "adam": "Adam (gradients)"}
PANELS = {"vote": "1 - accuracy of the vote", "nll": "negative log-likelihood", "ece": "calibration error"}
COSTS = {"evaluations": "loss evaluations", "seconds": "seconds"}
Row = dict[str, Any]


def points_of(rows: list[Row], name: str, against: str) -> tuple[list[float], list[float]]:
    """Costs, and means over seeds of one score; of accuracies what is missing to 1."""
    by_budget: dict[float | None, list[Row]] = {}
    for row in rows:
        by_budget.setdefault(row["budget"], []).append(row)
    found = []
    for group in by_budget.values():
        score = float(np.mean([row[name] for row in group]))
        cost = float(np.mean([np.nan if row[against] is None else row[against] for row in group]))
        found.append((cost, 1.0 - score if name == "vote" else score))
    costs, scores = zip(*sorted(found), strict=True)
    return list(costs), list(scores)


def draw_panel(axes: Any, rows: list[Row], name: str, against: str) -> None:
    """One score of all methods and numbers of models; what has no cost of this kind is a line across."""
    sizes = sorted({row["K"] for row in rows})
    for i, (method, label) in enumerate(METHODS.items()):
        for j, size in enumerate(sizes):
            here = [row for row in rows if row["method"] == method and row["K"] == size]
            if not here:
                continue
            costs, scores = points_of(here, name, against)
            look = {**style.look(i), "linestyle": ("--", "-")[j % 2], "label": f"{label}, K = {size}"}
            if np.isnan(costs).any():
                axes.axhline(scores[0], **{**look, "marker": None})
            else:
                axes.plot(costs, scores, markerfacecolor="white", **look)
    axes.set(xscale="log", yscale="log", xlabel=COSTS[against], ylabel=PANELS[name])
    style.plain_logarithm(axes.yaxis)
    axes.xaxis.set_minor_formatter("")


def draw(rows: list[Row], out: Path, against: str = "evaluations") -> None:
    """Write the picture as .png and .pdf: a row of three panels for every problem."""
    from matplotlib.figure import Figure

    problems = list(dict.fromkeys(row["problem"] for row in rows))
    with style.journal_style():
        figure = Figure()
        width, height = figure.get_size_inches()
        figure.set_size_inches(len(PANELS) * width, len(problems) * height + 0.5)
        grid = figure.subplots(len(problems), len(PANELS), squeeze=False)
        for problem, line in zip(problems, grid, strict=True):
            here = [row for row in rows if row["problem"] == problem]
            for axes, name in zip(line, PANELS, strict=True):
                draw_panel(axes, here, name, against)
            line[0].set_title(problem, loc="left", fontsize=9)
        figure.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
        for file in style.save(figure, out.with_suffix("")):
            print(f"wrote {file}")
