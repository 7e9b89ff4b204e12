"""The table and the picture of ``rl.py``: returns against steps, episodes per decision against s, other physics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from trajens.plots import style

LABELS = {
    "path": "path",
    "path after open_es": "path after Open_ES",
    "open_es": "Open_ES",
    "pgpe": "PGPE",
}
NEARLY = 0.5
"""How much less than a published return counts as reached: that of CartPole cannot be exceeded."""
Row = dict[str, Any]
Published = dict[str, dict[str, tuple[float, float]]]


def of(rows: list[Row], task: str, method: str) -> Row | None:
    """The reported row of a method."""
    found = [row for row in rows if row["task"] == task and row["method"] == method]
    return found[0] if found else None


def acting(row: Row) -> np.ndarray:
    """Returns (seeds, records) of what the method would be used as: an ensemble that acts together, or a mean."""
    return np.array(row.get("together", row["curve"]))


def final(row: Row, how: str) -> tuple[float, float]:
    """Mean over seeds, and its standard error."""
    values = np.array([score[how]["mean"] for score in row["scores"]])
    return float(values.mean()), float(values.std(ddof=1) / len(values) ** 0.5)


def steps_to(row: Row, goal: float, budget: float) -> list[float]:
    """Of every seed, the steps at the first record within the budget that reaches a return; infinite without one."""
    found = []
    for steps, returns in zip(np.array(row["steps"]), acting(row), strict=True):
        reached = np.flatnonzero((returns >= goal - NEARLY) & (steps <= budget))
        found.append(float(steps[reached[0]]) if len(reached) else float("inf"))
    return found


def apart(scores: list[dict[str, Any]]) -> tuple[float, float]:
    """How much more an ensemble returns than its models alone, in the same episodes: mean over seeds, and its error."""
    how = "vote" if "vote" in scores[0] else "mean"
    values = np.array([score[how]["mean"] - score["single"]["mean"] for score in scores])
    return float(values.mean()), float(values.std(ddof=1) / len(values) ** 0.5)


def table(rows: list[Row], published: Published, budgets: dict[str, float]) -> str:
    """What is said in the documentation, in Markdown."""
    lines = [
        "| environment | method | single models, or the mean of a strategy | vote | mean "
        "| reached ARS, steps | reached PPO, steps |",
        "|---|---|---|---|---|---|---|",
    ]
    for task, known in published.items():
        for method in LABELS:
            row = of(rows, task, method)
            if row is None:
                lines.append(f"| {task} | {LABELS[method]} | not done |||||")
                continue
            cells = []
            for how in ("single", "vote", "mean"):
                cells.append("" if how not in row["scores"][0] else "{:.1f} ± {:.1f}".format(*final(row, how)))
            for name in known:
                steps = steps_to(row, known[name][0], budgets[task])
                reached = [one for one in steps if np.isfinite(one)]
                of_all = f"{len(reached)} of {len(steps)}"
                cells.append(f"{of_all}, {np.median(reached):.1e}" if reached else of_all)
            lines.append(f"| {task} | {LABELS[method]} | {' | '.join(cells)} |")
    lines += ["", *_elsewhere(rows, list(published))]
    return "\n".join(lines)


def _elsewhere(rows: list[Row], tasks: list[str]) -> list[str]:
    """A line for every world: single models, what an ensemble returns beyond them, and the means of strategies."""
    heads = [f"{label}: single | more" if method.startswith("path") else label for method, label in LABELS.items()]
    lines = [f"| environment | world | {' | '.join(heads)} |", "|---" * (2 + " | ".join(heads).count("|") + 1) + "|"]
    for task in tasks:
        found = {method: row for method in LABELS if (row := of(rows, task, method)) is not None}
        for world in next(iter(found.values()))["robust"]:
            cells = []
            for row in found.values():
                scores = row["robust"][world]
                values = np.array([score["single"]["mean"] for score in scores])
                cells.append(f"{values.mean():.1f} ± {values.std(ddof=1) / len(values) ** 0.5:.1f}")
                if "batch" in row:
                    cells.append("{:+.1f} ± {:.1f}".format(*apart(scores)))
            lines.append(f"| {task} | {world} | {' | '.join(cells)} |")
    return lines


def draw(rows: list[Row], published: Published, budgets: dict[str, float], out: Path) -> None:
    """Write the picture as .png and .pdf: a column for every environment, returns within the budget."""
    from matplotlib.figure import Figure

    with style.journal_style():
        figure = Figure()
        width, height = figure.get_size_inches()
        figure.set_size_inches(len(published) * 0.8 * width, 2 * height + 0.5)
        grid = figure.subplots(2, len(published), squeeze=False)
        for k, (task, known) in enumerate(published.items()):
            _curves(grid[0, k], rows, task, known, budgets[task])
            _batches(grid[1, k], rows, task)
        figure.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=6)
        for file in style.save(figure, out.with_suffix("")):
            print(f"wrote {file}")


def _curves(axes: Any, rows: list[Row], task: str, known: dict[str, tuple[float, float]], budget: float) -> None:
    for i, (method, label) in enumerate(LABELS.items()):
        row = of(rows, task, method)
        if row is None:
            continue
        colour = style.COLOURS[i]
        all_steps, all_returns = np.array(row["steps"]), acting(row)
        # Seeds take their steps at different rates.
        common = np.geomspace(all_steps[:, 0].max(), budget, 80)
        for steps, returns in zip(all_steps, all_returns, strict=True):
            axes.plot(steps[steps <= budget], returns[steps <= budget], color=colour, linewidth=0.5, alpha=0.6)
        mean = np.mean([np.interp(common, *seed) for seed in zip(all_steps, all_returns, strict=True)], axis=0)
        axes.plot(common, mean, color=colour, linewidth=1.6, label=label)
    for (name, (goal, cost)), marker in zip(known.items(), ("*", "s"), strict=True):
        axes.plot([cost], [goal], color="black", marker=marker, linestyle="none", label=f"{name}, published")
    axes.set(xscale="log", xlabel="steps of the environment", ylabel="return", title=task)


def _batches(axes: Any, rows: list[Row], task: str) -> None:
    for i, method in enumerate(LABELS):
        row = of(rows, task, method)
        if row is not None and "batch" in row:
            s, batch = np.array(row["s"]), np.array(row["batch"])
            axes.plot(s.mean(0), batch.mean(0), color=style.COLOURS[i], marker="o", markersize=2.5, linestyle="none")
    axes.set(xscale="log", xlabel="$s$", ylabel="episodes per decision", ylim=(0, None))
    axes.xaxis.set_minor_formatter("")
