"""Chunk, precision and scan on a GPU: how fast they are, and whether a path learns as well with them.

    python benchmarks/gpu_choices.py --seeds 3 --budget 2e9 --out choices.json

First one path of 32 models (s = 100, chunk 480), in epochs/s: proposals per phase of the checkerboard, chunks evaluated
at once, both precisions. Then training of 4 paths of 16 models at s = 2700, as `tj.train` has it, with other chunks and
in half precision: the loss at the end, the audited error of s, and seconds. Every training is a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import trajens as tj

CHAINS, TAU, S = 4, 16, 2700.0
TRAININGS = {"chunk 1024": (1024, "single"), "chunk 2048": (2048, "single"), "chunk 1024, half": (1024, "half")}
SCANS = [(repeats, ahead) for repeats in (1, 4, 16) for ahead in (1, 2, 4)]
EPOCHS = 16_000


def problem() -> tj.Problem:
    """MNIST, the paper's network."""
    digits = tj.datasets.mnist()
    return tj.models.cnn().problem(digits.train_x, digits.train_y)


def scans() -> list[dict[str, Any]]:
    """Epochs per second of one path with every scan, all from the same path."""
    target, start = tj.Target(problem(), 32, 0.05, 100.0, 0.3), None
    rows: list[dict[str, Any]] = []
    for repeats, ahead in SCANS:
        settings = tj.Settings(
            chains=1,
            burn_in=0,
            move=tj.SingleSite(0.25),
            acceptance=tj.Penalty(480, pool=True),
            scan=tj.Checkerboard(repeats),
            ahead=ahead,
        )
        sampler = tj.Sampler(target, settings)
        state = sampler.init(start)
        for epoch in (1000, 20_000) if start is not None else (1000, 20_000, 200_000):
            state, _ = sampler.advance(state, epoch - state.epoch)
        start = np.asarray(state.path)
        seconds, pairs, proposals = [], 0, 0
        for _ in range(4):
            began = time.perf_counter()
            state, tally = sampler.advance(state, EPOCHS)
            pairs, proposals = int(np.sum(tally.evaluations)), int(np.sum(tally.proposals))
            seconds.append(time.perf_counter() - began)
        best = min(seconds)
        row: dict[str, Any] = {"repeats": repeats, "ahead": ahead, "batch": pairs / proposals}
        row |= {"epochs/s": proposals / best, "pairs/s": pairs / best}
        rows.append(row | {"precision": os.environ.get("TRAJENS_CUDA_PRECISION", "single")})
        print(json.dumps(rows[-1]), flush=True)
    return rows


def train(chunk: int, budget: float, seed: int) -> None:
    """Train, and print what the run says of itself."""
    test = tj.Penalty(chunk, pool=True)
    run = tj.train(problem(), tau=TAU, chains=CHAINS, budget=budget, s=S, acceptance=test, seed=seed, progress=False)
    found = run.summary()
    wanted = ("loss", "loss_stderr", "tilt_error", "tilt_stderr", "acceptance", "batch_size", "weight_rms", "seconds")
    print(json.dumps({name: float(np.mean(found[name])) for name in wanted if found.get(name) is not None}))


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--budget", type=float, default=2e9)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--scans", action="store_true", help="of this process's precision only")
    parser.add_argument("--train", type=int, nargs=2, metavar=("CHUNK", "SEED"))
    given = parser.parse_args()
    if given.train:
        return train(given.train[0], given.budget, given.train[1])
    if given.scans:
        print(json.dumps(scans()))
        return None

    def asked(precision: str, *more: str) -> Any:
        environment = {**os.environ, "TRAJENS_CUDA_PRECISION": precision}
        program = [sys.executable, __file__, *more, "--budget", str(given.budget)]
        done = subprocess.run(program, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        return json.loads(done.stdout.splitlines()[-1])

    found: dict[str, Any] = {"scans": [], "trainings": []}
    for seed in range(given.seeds):
        for name, (chunk, precision) in TRAININGS.items():
            row = {"name": name, "seed": seed, **asked(precision, "--train", str(chunk), str(seed))}
            found["trainings"].append(row)
            print(json.dumps(row), flush=True)
            if given.out:
                given.out.write_text(json.dumps(found, indent=1) + "\n")
    for precision in ("single", "half"):
        found["scans"] += asked(precision, "--scans")
        print(json.dumps(found["scans"][-len(SCANS) :], indent=1), flush=True)
    if given.out:
        given.out.write_text(json.dumps(found, indent=1) + "\n")
    return None


if __name__ == "__main__":
    main()
