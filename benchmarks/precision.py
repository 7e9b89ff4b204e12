"""Does the precision of the CUDA kernel move the loss a run settles at? Two processes, the same start, many chains.

    python benchmarks/precision.py

A path is trained in single precision; then many chains go on from it, once with ``TRAJENS_CUDA_PRECISION=single`` and
once with ``half``, with different seeds, and the mean losses of both are compared in units of their error over chains.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import trajens as tj

TAU, S, CHAINS, EPOCHS = 8, 100.0, 64, 30_000


def target() -> tj.Target:
    """MNIST, the paper's network."""
    digits = tj.datasets.mnist()
    return tj.Target(tj.models.cnn().problem(digits.train_x, digits.train_y), TAU, 0.05, S, 0.3)


def settings() -> dict[str, Any]:
    """What all runs share."""
    return {"move": tj.SingleSite(0.12), "acceptance": tj.Penalty(480, pool=True), "scan": "checkerboard"}


def child(file: Path, seed: int) -> None:
    """Go on from the path in `file` and print the loss of every chain after burn-in."""
    run = tj.sample(
        target(), EPOCHS, chains=CHAINS, seed=seed, burn_in=EPOCHS // 3, initial=np.load(file), records=60, **settings()
    )
    is_after = run.records["epoch"][0] > EPOCHS // 3
    print(json.dumps(run.records["loss"][:, is_after].mean(1).tolist()))


def main() -> None:
    """Train, branch, compare."""
    if len(sys.argv) == 3:
        child(Path(sys.argv[1]), int(sys.argv[2]))
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "path.npy"
        trained = tj.sample(target(), 400_000, chains=1, burn_in=0, records=4, **settings())
        np.save(file, trained.paths[0])
        print(f"start: loss {trained.records['loss'][0, -1]:.4f}", flush=True)
        results = {}
        for seed, precision in enumerate(("single", "half")):
            environment = {**os.environ, "TRAJENS_CUDA_PRECISION": precision, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
            command = [sys.executable, __file__, str(file), str(seed + 1)]
            done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
            losses = np.array(json.loads(done.stdout.splitlines()[-1]))
            results[precision] = losses.mean(), losses.std(ddof=1) / np.sqrt(len(losses))
            print(f"{precision}: loss {results[precision][0]:.5f} +- {results[precision][1]:.5f}", flush=True)
    difference = results["half"][0] - results["single"][0]
    error = float(np.hypot(results["half"][1], results["single"][1]))
    print(f"half - single: {difference:+.5f} +- {error:.5f}, z = {difference / error:.2f}")


if __name__ == "__main__":
    main()
