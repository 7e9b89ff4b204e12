"""What half precision of the CUDA kernel changes for `tj.train` at a large s, on trained paths of large weights.

    python benchmarks/half_precision.py --budget 4e9 --s 2700 --out half.json

Two processes train 4 paths of 16 models with the same seed, in single and in half precision. Losses of their models
and of small changes of them, over all training images, are then computed in both precisions. Half precision samples
the law of *its* loss exactly; what it changes of the law is

    error of s     the slope of L_half' - L_half over L_single' - L_single, less 1
    roughness      the root of the mean square of s (difference in half - difference in single), in units of Delta
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import trajens as tj

CHAINS, TAU, CHANGES = 4, 16, 8
FRACTION, STEP = 0.02, 0.03
"""Share of the coordinates that a change redraws, and how far: about what tuned moves do at these s."""
PRECISIONS = "single", "half"


def problem() -> tj.Problem:
    """MNIST, the paper's network."""
    digits = tj.datasets.mnist()
    return tj.models.cnn().problem(digits.train_x, digits.train_y)


def train(file: Path, budget: float, s: float) -> None:
    """Train, keep the paths and print what the run says of itself."""
    run = tj.train(problem(), tau=TAU, chains=CHAINS, budget=budget, s=s, progress=False)
    np.save(file, run.paths)
    summary = run.summary()
    wanted = ("loss", "loss_error", "tilt_error", "tilt_stderr", "acceptance", "batch_size", "weight_rms", "seconds")
    print(json.dumps({name: float(np.mean(summary[name])) for name in wanted if summary.get(name) is not None}))


def losses(models: Path, out: Path) -> None:
    """Mean losses of models (n, dim) over all training images, in the precision of this process."""
    from trajens.losses import compiled_losses_of_pairs

    found, given = [], np.load(models)
    own = problem()
    for pair in given.reshape(-1, 2, given.shape[-1]):
        parts = [
            np.asarray(compiled_losses_of_pairs(own.loss, own.data, pair[None], some[None], np.ones(1, bool)))[0]
            for some in np.arange(own.size, dtype=np.int32).reshape(-1, 20_000)
        ]
        found.append(np.concatenate(parts, axis=1).astype(np.float64).mean(1))
    np.save(out, np.concatenate(found))


def compared(folder: Path, paths: np.ndarray, s: float) -> dict[str, float]:
    """Losses of the models of paths and of changes of them, in both precisions."""
    models = paths.reshape(-1, paths.shape[-1])
    rng = np.random.default_rng(0)
    shape = (CHANGES, *models.shape)
    changed = models + STEP * rng.standard_normal(shape) * (rng.random(shape) < FRACTION)
    everything = np.concatenate([models[None], changed]).astype(np.float32).reshape(-1, models.shape[1])
    np.save(folder / "models.npy", everything)
    found = {}
    for precision in PRECISIONS:
        call("losses", precision, folder / "models.npy", folder / "losses.npy")
        found[precision] = np.load(folder / "losses.npy").reshape(1 + CHANGES, -1)
    exact, rounded = ((found[name][1:] - found[name][0]).ravel() for name in PRECISIONS)
    slope = float(exact @ rounded / (exact @ exact))
    rest = rounded - slope * exact
    error = float(np.sqrt((rest @ rest) / (exact @ exact) / (len(rest) - 1)))
    return {
        "loss in single": float(found["single"][0].mean()),
        "loss in half": float(found["half"][0].mean()),
        "rms of weights": float(np.sqrt(np.mean(models**2))),
        "largest weight": float(np.abs(models).max()),
        "rms of s times change": float(s * np.sqrt(np.mean(exact**2))),
        "error of s": slope - 1,
        "its error": error,
        "roughness": float(s * np.sqrt(np.mean((rounded - exact) ** 2))),
    }


def call(what: str, precision: str, *arguments: Any) -> str:
    """Run this script in a process of its own, for a process has one precision."""
    environment = {**os.environ, "TRAJENS_CUDA_PRECISION": precision, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    command = [sys.executable, __file__, "--child", what, *map(str, arguments)]
    return subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout


def main() -> None:
    """Train in both precisions, compare, print and write."""
    if sys.argv[1:2] == ["--child"]:
        what, *arguments = sys.argv[2:]
        if what == "train":
            train(Path(arguments[0]), float(arguments[1]), float(arguments[2]))
        else:
            losses(Path(arguments[0]), Path(arguments[1]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", type=float, default=4e9)
    parser.add_argument("--s", type=float, default=2700.0)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    result: dict[str, Any] = {"budget": given.budget, "s": given.s}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for precision in PRECISIONS:
            said = call("train", precision, folder / "paths.npy", given.budget, given.s).splitlines()[-1]
            paths = np.load(folder / "paths.npy")
            result[precision] = {**json.loads(said), **compared(folder, paths, given.s)}
            print(precision, json.dumps(result[precision], indent=1), flush=True)
    given.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
