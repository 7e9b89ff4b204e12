"""A convolutional network on colour images from a folder, trained without gradients.

    python examples/colour_images.py FOLDER

Draws 24 x 24 pictures of stripes, horizontal, vertical or diagonal, in two random colours with noise, one subfolder for
each class, if they are not there yet; reads them back, trains `tj.models.conv_net` on half of the pictures and tries it
on the other. It needs Pillow (``pip install 'trajens[images]'``), and downloads nothing.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from PIL import Image

import trajens as tj

SIDE, PER_CLASS, NOISE = 24, 400, 40.0
DIRECTIONS = {"diagonal": (0.7, 0.7), "horizontal": (1.0, 0.0), "vertical": (0.0, 1.0)}


def stripes(rng: np.random.Generator, direction: tuple[float, float]) -> np.ndarray:
    """A picture (SIDE, SIDE, 3) of bytes: stripes of some width and phase, in two colours, with noise."""
    rows, columns = np.mgrid[:SIDE, :SIDE]
    wave = np.sin(2 * np.pi * (direction[0] * rows + direction[1] * columns) / rng.uniform(5, 9) + rng.uniform(0, 6.3))
    first, second = rng.uniform(0, 255, (2, 3))
    pixels = np.where(wave[..., None] > 0, first, second) + NOISE * rng.standard_normal((SIDE, SIDE, 3))
    return np.clip(pixels, 0, 255).astype(np.uint8)


def draw(folder: Path) -> None:
    """A subfolder of pictures for each class."""
    rng = np.random.default_rng(0)
    for name, direction in DIRECTIONS.items():
        (folder / name).mkdir(parents=True)
        for i in range(PER_CLASS):
            Image.fromarray(stripes(rng, direction)).save(folder / name / f"{i:04d}.png")


def main(folder: Path, budget: float = 1e6) -> dict[str, float]:
    """Draw, read, train, and compare with a network of dense layers."""
    if not folder.exists():
        draw(folder)
    x, y = tj.datasets.load(folder)
    order = np.random.default_rng(1).permutation(len(y))
    training, fresh = np.split(order, 2)
    networks = {
        "convolutions": tj.models.conv_net(x.shape[1:], channels=(6, 8), kernel=(5, 3), pool=(2, 4), outputs=3),
        "dense layers": tj.models.mlp((x[0].size, 16, 3)),
    }
    accuracy = {}
    for name, model in networks.items():
        run = tj.train(model.problem(x[training], y[training]), tau=8, budget=budget)
        scores = tj.Ensemble.from_run(run, model).evaluate(x[fresh], y[fresh])
        print(f"{name}: {model.dim} parameters, loss {run.summary()['loss']:.3f}, on fresh pictures ", end="")
        print(f"accuracy {scores['vote_accuracy']:.3f}, negative log-likelihood {scores['nll']:.3f}")
        accuracy[name] = scores["vote_accuracy"]
    return accuracy


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "stripes"))
