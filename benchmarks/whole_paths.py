"""How far the centre of a path moves per pair of losses, by moves of one model, of segments and of whole paths.

    python benchmarks/whole_paths.py --tables synthetic,wine --moves single,segment,shift --out whole_paths.json

Four paths of 16 models on four fifths of a table, at the s and from the models that `tj.train` ends at; every decision
reads all examples. `diffusion` is <|change of the mean model|^2> / (parameters sigma^2) for as many pairs as a sweep
over all models and examples takes, sigma being the usual one, also where that of the path is another. `variogram` is
half the mean squared change of the loss over a fifth of the records.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import datasets

import trajens as tj

TAU, CHAINS, HIDDEN = 16, 4, 32
MOVES: dict[str, tuple[int, float]] = {
    "single": (1, 1.0),
    "segment": (4, 1.0),
    "shift": (TAU, 1.0),
    "twice sigma": (1, 2.0),
    "thrice sigma": (1, 3.0),
}
"""Models that a move changes, and sigma of the path in units of the usual one."""
SHIFT = 0.3
"""In units of sigma; on the table that is made up 0.1 and 0.2 move less far, and 0.45 a sixth further."""


def problem_of(table: str) -> tj.Problem:
    """A network of 32 units for four fifths of a table."""
    if table == "synthetic":
        x, y = datasets.make_classification(300, 10, n_informative=6, n_classes=3, random_state=1)
    else:
        x, y = getattr(datasets, f"load_{table}")(return_X_y=True)
    some = np.random.default_rng(0).permutation(len(x))[: int(0.8 * len(x))]
    x, y = ((x[some] - x[some].mean(0)) / x[some].std(0)).astype(np.float32), y[some]
    if y.dtype.kind == "f":
        labels = ((y - y.mean()) / y.std()).astype(np.float32)
        return tj.models.mlp([x.shape[1], HIDDEN, 1]).problem(x, labels, "squared")
    return tj.models.mlp([x.shape[1], HIDDEN, int(y.max()) + 1]).problem(x, y.astype(np.int32))


def measured(table: str, name: str, pairs: float) -> dict[str, Any]:
    """One row."""
    problem, (span, width) = problem_of(table), MOVES[name]
    s, size = 3 * problem.size / TAU, problem.size
    begun = tj.train(problem, tau=TAU, chains=CHAINS, budget=3e6, s=s, seed=1, prior=0.3, records=30, progress=False)
    sigma, epochs, began = begun.target.sigma, int(pairs / (CHAINS * size * span)), time.process_time()
    move = {1: tj.SingleSite(), 4: tj.Segment(4), TAU: tj.CentreOfMass(SHIFT * sigma)}[span]
    how: dict[str, Any] = {"move": move, "tune": True, "acceptance": tj.Metropolis(), "keep_paths": True}
    target = tj.Target(problem, TAU, width * sigma, s, 0.3)
    run = tj.sample(
        target, 3 * epochs // 2, burn_in=epochs // 2, initial=begun.paths, chains=CHAINS, records=600, **how
    )
    assert run.history is not None
    is_after = run.records["epoch"][0] > run.burn_in
    centres, used, losses = (
        run.history[:, is_after].mean(2),
        *(run.records[n][:, is_after] for n in ("data_used", "loss")),
    )
    lag = centres.shape[1] // 5
    distance = ((centres[:, lag:] - centres[:, :-lag]) ** 2).sum(-1).mean() / (problem.dim * sigma**2)
    return {
        "table": table,
        "move": name,
        "acceptance": float(run.records["acceptance"][:, is_after].mean()),
        "diffusion": float(distance / (used[:, lag:] - used[:, :-lag]).mean() * size * TAU),
        "variogram": float(((losses[:, lag:] - losses[:, :-lag]) ** 2).mean() / 2),
        "seconds": time.process_time() - began,
    }


def main() -> None:
    """Measure all cases, and print and write a row for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", default="synthetic,wine,breast_cancer,diabetes")
    parser.add_argument("--moves", default=",".join(MOVES))
    parser.add_argument("--pairs", type=float, default=2e6)
    parser.add_argument("--out", type=Path)
    given, rows = parser.parse_args(), []
    for table, name in itertools.product(given.tables.split(","), given.moves.split(",")):
        rows.append(measured(table, name, given.pairs))
        print(json.dumps(rows[-1]), flush=True)
        if given.out:
            given.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
