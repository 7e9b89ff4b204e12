"""Draw docs/figures/double_well.gif: a path settles in a double well, with the exact distribution beside it.

    .venv/bin/python docs/pictures/moving_picture.py

The loss of a model with one parameter is (theta^2 - 1)^2. The path is sampled by `tj.sample`, from a start far outside
both wells. The exact distribution of a model, averaged over its place in the path, comes from transfer matrices on a
grid; the histogram is that of all chains and of all records so far.
"""

from __future__ import annotations

import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.animation import FuncAnimation, PillowWriter

import trajens as tj

OUT = Path(__file__).parent.parent / "figures" / "double_well.gif"
TAU, SIGMA, S, PRIOR = 8, 0.35, 0.4, 1.5
START, CHAINS = 1.9, 256
SLOWLY, QUICKLY = (8 * 24, 24), (8 * 2000, 40)
"""Epochs and records: in slow motion while the path settles, then faster."""
BLUE, ORANGE, GREY = "#1f6f8b", "#d1603d", "#777777"


def well(theta: np.ndarray) -> np.ndarray:
    """Loss of a model."""
    return (theta**2 - 1.0) ** 2


def exact(grid: np.ndarray) -> np.ndarray:
    """Exact density of a model, averaged over its place in the path: forward and backward messages on a grid."""
    step = np.exp(-((grid[:, None] - grid) ** 2) / (2 * SIGMA**2))
    weight = np.exp(-S * well(grid))
    forward, backward = [np.exp(-(grid**2) / (2 * PRIOR**2)) * weight], [np.ones_like(grid)]
    for _ in range(TAU - 1):
        forward.append(weight * (step @ forward[-1]))
        backward.append(step @ (weight * backward[-1]))
        forward[-1] /= forward[-1].sum()
        backward[-1] /= backward[-1].sum()
    marginals = np.array([f * b for f, b in zip(forward, backward[::-1], strict=True)])
    density = (marginals / marginals.sum(1, keepdims=True)).mean(0)
    return density / (density.sum() * (grid[1] - grid[0]))


def sampled() -> tuple[np.ndarray, np.ndarray]:
    """Epochs (records,) and paths (chains, records, tau), the start first."""
    problem = tj.Problem(lambda theta, batch: (theta[0] ** 2 - 1.0) ** 2 + 0.0 * batch, jnp.zeros(2), dim=1)
    start = np.full((CHAINS, TAU, 1), START, np.float32)
    target = tj.Target(problem, TAU, SIGMA, S, prior=PRIOR)
    epochs, records = SLOWLY
    options = {"chains": CHAINS, "keep_paths": True, "acceptance": tj.Metropolis()}
    run = tj.sample(target, epochs, initial=start, records=records, **options).extend(*QUICKLY)
    paths = np.concatenate([start[:, None], run.history], 1)[..., 0]
    return np.append(0, run.records["epoch"][0]).astype(int), paths


def animate(epochs: np.ndarray, paths: np.ndarray, out: Path) -> None:
    """One frame for every record: the path of one chain, and the histogram of the second half of all chains so far."""
    grid = np.linspace(-2.3, 2.3, 561)
    plt.rcParams.update({"font.size": 11, "font.family": "DejaVu Sans"})
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.0, 3.4), dpi=80, width_ratios=(1.25, 1), layout="constrained")
    left.plot(grid, well(grid), color=GREY, lw=1.5)
    left.set(xlim=(-2.3, 2.3), ylim=(-0.5, 7.5), xlabel="parameter of a model", ylabel="loss")
    (line,) = left.plot([], [], "-", color=ORANGE, lw=1.2, alpha=0.8)
    (dots,) = left.plot([], [], "o", color=ORANGE, ms=7, mec="white", mew=0.6)
    title = left.set_title("", fontsize=11, loc="left")
    edges = np.linspace(-2.3, 2.3, 57)
    bars = right.stairs(np.zeros(56), edges, fill=True, color=BLUE, alpha=0.45, label="sampled")
    right.plot(grid, exact(grid), color="black", lw=1.6, label="exact")
    right.set(xlim=(-2.3, 2.3), ylim=(0, 1.2), xlabel="parameter of a model", ylabel="density")
    right.legend(frameon=False, loc="upper right")

    def draw(frame: int) -> None:
        path = paths[0, frame]
        line.set_data(path, well(path))
        dots.set_data(path, well(path))
        title.set_text(f"a path of {TAU} models, epoch {epochs[frame]}")
        kept = paths[:, (frame + 1) // 2 : frame + 1]
        bars.set_data(np.histogram(kept, edges, density=True)[0])

    # The last frame stays for a while.
    frames = [*range(paths.shape[1]), *[paths.shape[1] - 1] * 12]
    FuncAnimation(figure, draw, frames=frames, blit=False).save(out, PillowWriter(fps=8))
    plt.close(figure)


if __name__ == "__main__":
    animate(*sampled(), Path(sys.argv[1]) if len(sys.argv) > 1 else OUT)
