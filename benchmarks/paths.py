"""How many paths, which s and which moves: what `tj.train` is to choose by itself, tried on held-out training images.

    python benchmarks/paths.py --budget 5e8 --paths 1,2,4 --powers 0.8,0.5,0.3 --out paths.json
    python benchmarks/paths.py --budget 5e8 --paths 4 --moves plain,balanced --seeds 3 --out paths.json

Every row is one training on 55 000 images of MNIST, tried on the other 5000: 64 models in all, or as many as are asked
for, in so many paths.
`power` is that by which the renewals of a path grow with the budget (`trajens.run.control.MORE`): the smaller it is,
the larger an s a budget leads to. Moves are redraws of all layers together, or of one at a time, chosen with weights
that are given, or by their sizes (`balanced`, what `tj.train` does).
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

import trajens as tj
from trajens.run import control

HELD_OUT = 5000


def moves_of(problem: tj.Problem, name: str) -> Any:
    """A redraw of all layers, ``plain``, or a mixture with one for every layer; ``layers:1:2:2`` gives weights."""
    if name == "plain":
        return tj.SingleSite()
    kind = tj.BalancedMixture if name == "balanced" else tj.Mixture
    weights = [float(part) for part in name.split(":")[1:]] or len(problem.layers) * [1.0]
    return kind([(weight, tj.LayerMove(layer)) for weight, layer in zip(weights, problem.layers, strict=True)])


def trained(case: dict[str, Any], models: int, s: float | None) -> dict[str, Any]:
    """One row: what a training came to on the images that were held out."""
    digits, model = tj.datasets.mnist(), tj.models.cnn()
    problem = model.problem(digits.train_x[:-HELD_OUT], digits.train_y[:-HELD_OUT])
    control.MORE = case["power"]
    began = time.perf_counter()
    run = tj.train(
        problem,
        tau=models // case["paths"],
        chains=case["paths"],
        budget=case["budget"],
        s=s,
        seed=case["seed"],
        move=moves_of(problem, case["moves"]),
        progress=False,
    )
    seconds = time.perf_counter() - began
    found = tj.Ensemble.from_run(run, model, chain="all").evaluate(
        digits.train_x[-HELD_OUT:], digits.train_y[-HELD_OUT:]
    )
    told = run.summary()
    scores = ("vote_accuracy", "mean_accuracy", "nll", "ece", "single_accuracy")
    own = ("loss", "tilt_error", "tilt_error_stderr")
    row = {**case, "models": models, "s": float(np.mean(run.s)), "seconds": seconds}
    row["sizes"] = np.exp(run.run_state.state.sizes.log_size).mean(0).tolist()
    row |= {name: float(np.mean(source[name])) for source, names in ((found, scores), (told, own)) for name in names}
    return row


def main() -> None:
    """Train all cases, and print and write a row for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", default="5e8", help="pairs of losses, of all paths together; several with commas")
    parser.add_argument("--models", type=int, default=64)
    parser.add_argument("--paths", default="1,4")
    parser.add_argument("--powers", default=str(control.MORE))
    parser.add_argument("--moves", default="plain,layers")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--s", type=float)
    parser.add_argument("--seconds", type=float, default=np.inf, help="no training is begun after so many")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    began, rows = time.perf_counter(), []
    grid = itertools.product(
        range(given.seeds),
        map(float, given.budget.split(",")),
        map(int, given.paths.split(",")),
        map(float, given.powers.split(",")),
        given.moves.split(","),
    )
    for case in grid:
        if time.perf_counter() - began > given.seconds:
            break
        named = dict(zip(("seed", "budget", "paths", "power", "moves"), case, strict=True))
        rows.append(trained(named, given.models, given.s))
        print(json.dumps(rows[-1]), flush=True)
        if given.out:
            given.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
