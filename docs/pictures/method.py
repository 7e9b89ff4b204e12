"""Draw docs/figures/method.png: sketches of a path, a bridge, a shooting move and the test on a minibatch.

.venv/bin/python docs/pictures/method.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

OUT = Path(__file__).parent.parent / "figures" / "method.png"
BLUE, ORANGE, GREY = "#1f6f8b", "#d1603d", "#777777"
PATH = np.array([0.2, 0.9, 0.5, 1.2, 1.0, 1.7])
TIME = np.arange(1, 7)


def path(axes: Axes, title: str) -> None:
    """A path of six models."""
    axes.plot(TIME, PATH, "-o", color=BLUE, ms=8, lw=1.6, mec="white")
    axes.set(xlim=(0.4, 7.0), ylim=(-0.6, 2.8), xticks=TIME, yticks=[], xlabel="place t in the path")
    axes.set_title(title, loc="left", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)


def moved(axes: Axes, place: int, neighbours: list[int], mean: float, spread: float, new: float) -> None:
    """One model is redrawn: its conditional distribution, and what was proposed."""
    theta = np.linspace(mean - 3 * spread, mean + 3 * spread, 99)
    bell = np.exp(-(((theta - mean) / spread) ** 2) / 2)
    axes.fill_betweenx(theta, TIME[place], TIME[place] + 0.7 * bell, color=ORANGE, alpha=0.25, lw=0)
    for one in neighbours:
        axes.plot([TIME[one], TIME[place]], [PATH[one], new], "--", color=ORANGE, lw=1.4)
    axes.plot(TIME[place], new, "o", color=ORANGE, ms=9, mec="white", zorder=3)


def minibatch(axes: Axes) -> None:
    """The estimate of the log-ratio narrows as the batch grows, until its noise is small enough to decide."""
    size = np.arange(1, 7) * 240
    noise = 2.2 / np.sqrt(np.arange(1, 7))
    estimate = np.array([1.6, 0.9, 1.2, 1.0, 1.1, 1.05])
    axes.errorbar(size, estimate, noise, fmt="o", color=BLUE, ms=6, capsize=3)
    axes.axhline(0, color=GREY, lw=1)
    axes.axvspan(1320, 1560, color=ORANGE, alpha=0.25, lw=0)
    axes.text(1440, 3.7, "decide", ha="center", color=ORANGE)
    axes.set(xlim=(100, 1580), ylim=(-1.2, 4.4), yticks=[0], xlabel="examples read", ylabel="log-ratio")
    axes.set_title("minibatch test: read until sure enough", loc="left", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)


def draw(out: Path) -> None:
    """All four."""
    plt.rcParams.update({"font.size": 10, "font.family": "DejaVu Sans"})
    figure, axes = plt.subplots(2, 2, figsize=(8.0, 5.0), dpi=110, layout="constrained")
    path(axes[0, 0], "path: each model is a step from the last")
    path(axes[0, 1], "bridge: redraw a model between two others")
    moved(axes[0, 1], 2, [1, 3], (PATH[1] + PATH[3]) / 2, 0.35, 1.35)
    path(axes[1, 0], "shooting: redraw the model at an end")
    moved(axes[1, 0], 5, [4], PATH[4], 0.5, 0.6)
    minibatch(axes[1, 1])
    for one in (axes[0, 0], axes[1, 0]):
        one.set_ylabel("parameters")
    figure.savefig(out)
    plt.close(figure)


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else OUT)
