"""Redraws of all layers together beside redraws of one at a time, on problems small enough for a CPU.

    python benchmarks/layers.py --problems "two layers,digits" --budget 5e6 --seeds 4 --out layers.json

Every row is one training of a path of 16 models, tried on training examples that were held out: 5000 images of MNIST
averaged over 4 x 4 pixels, or a fifth of the digits of scikit-learn, of which another fifth is left alone. Seconds are
those of a processor, with compilation in the first row of a problem and a move.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import trajens as tj
from trajens.moves import by_layer

HELD_OUT = 5000
SCORES = ("vote_accuracy", "mean_accuracy", "single_accuracy", "nll", "ece")
NETWORKS = {
    "two layers": tj.models.mlp([49, 32, 10]),
    "three layers": tj.models.mlp([49, 24, 16, 10]),
    "digits": tj.models.mlp([64, 32, 10]),
    "binary digits": tj.models.binary(tj.models.mlp([64, 32, 10])),
}


def images() -> tuple[np.ndarray, ...]:
    """Inputs and labels to train on, and those that are held out, of MNIST."""
    x = tj.datasets.mnist().train_x.reshape(-1, 7, 4, 7, 4).astype(np.float32).mean((2, 4)).reshape(-1, 49)
    y = tj.datasets.mnist().train_y.astype(np.int32)
    known = x[:-HELD_OUT]
    x = (x - known.mean(0)) / np.maximum(known.std(0), 10)
    return x[:-HELD_OUT], y[:-HELD_OUT], x[-HELD_OUT:], y[-HELD_OUT:]


def digits() -> tuple[np.ndarray, ...]:
    """The same of 1797 digits."""
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    known, tried = order[: int(0.6 * len(x))], order[int(0.6 * len(x)) : int(0.8 * len(x))]
    scaled = ((x - x[known].mean(0)) / np.maximum(x[known].std(0), 0.1)).astype(np.float32)
    return scaled[known], y[known].astype(np.int32), scaled[tried], y[tried].astype(np.int32)


def trained(name: str, is_by_layer: bool, seed: int, budget: float) -> dict[str, Any]:
    """One row."""
    model, (x, y, held_out_x, held_out_y) = NETWORKS[name], digits() if "digits" in name else images()
    problem, began = model.problem(x, y), time.process_time()
    move = by_layer(problem.layers if is_by_layer else (), tj.SingleSite())
    run = tj.train(problem, budget=budget, seed=seed, move=move, progress=False)
    row = {"problem": name, "by layer": is_by_layer, "seed": seed, "budget": budget}
    row |= {"seconds": time.process_time() - began, "s": float(run.s[0]), "loss": float(run.summary()["loss"])}
    found = tj.Ensemble.from_run(run, model).evaluate(held_out_x, held_out_y)
    return row | {score: float(found[score]) for score in SCORES}


def main() -> None:
    """Train all cases, and print and write a row for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", default=",".join(NETWORKS))
    parser.add_argument("--budget", type=float, default=5e6)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--out", type=Path)
    given, rows = parser.parse_args(), []
    for name, seed, is_by_layer in itertools.product(given.problems.split(","), range(given.seeds), (False, True)):
        rows.append(trained(name, is_by_layer, seed, given.budget))
        print(json.dumps(rows[-1]), flush=True)
        if given.out:
            given.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
