"""What becomes of ensembles when test images get worse: accuracy and calibration of MNIST against severity.

Six corruptions (`tj.datasets.CORRUPTIONS`) in five severities, whose strengths were fixed before anything was measured.
Compared are the path of 64 models of ``paper/results/mnist/trained-64.npz``, single models of it, and networks trained
with Adam (``deep_ensemble.py``), together and one by one. Adam's settings are the best that ``deep-ensemble.json``
found on held-out training images with at most so many passes over the data; its weights are kept, and only made once.

    python benchmarks/corruptions.py --train 4 --passes 12       # nine minutes of one core
    python benchmarks/corruptions.py                             # scores, into paper/results/mnist/corruptions.json
    python benchmarks/corruptions.py --draw docs/figures/corruptions.png

What is in the files already is not made again, so the same command goes on where it was cut off.
"""

from __future__ import annotations

import argparse
import io
import json
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import deep_ensemble as adam
import trajens as tj
from trajens.datasets import CORRUPTIONS, SEVERITIES, corrupted
from trajens.ensemble import expected_calibration_error
from trajens.ensemble.uncertainty import nll, summarise_predictions
from trajens.files import write_atomically

FOLDER = Path("paper/results/mnist")
PATH, ADAM, TUNED, RESULTS = "trained-64.npz", "adam.npz", "deep-ensemble.json", "corruptions.json"
SCORES = ("accuracy", "ece", "nll", "entropy")
BATCH, GROUP = 256, 4
"""Images of a step of Adam, and members that are trained at once."""
CHUNK = 50
"""Images evaluated at a time: what 64 models make of more does not fit into the caches of a CPU."""
SINGLES = 8
"""Models of every ensemble that are scored one by one; their scores are averaged."""
CLEAN = "clean"
Row = dict[str, Any]


def recipe_of(folder: Path, passes: int) -> adam.Recipe:
    """The settings with the lowest negative log-likelihood on held-out images, with at most so many passes."""
    tried = [row for row in json.loads((folder / TUNED).read_text())["grid"] if row["passes"] <= passes]
    if not tried:
        raise SystemExit(f"passes must be as many as some in {TUNED}, got {passes}; try 12.")
    best = min(tried, key=lambda row: np.inf if row["nll"] is None else row["nll"])
    return adam.Recipe(*(best[name] for name in adam.Recipe._fields))


def train(folder: Path, members: int, passes: int) -> None:
    """Members of Adam's ensemble, a few at a time; every group has random weights and batches of its own."""
    file, recipe, digits = folder / ADAM, recipe_of(folder, passes), tj.datasets.mnist()
    trainer = adam.Trainer(adam.MODEL, digits.train_x, digits.train_y, BATCH)
    weights = np.load(file)["weights"] if file.exists() else np.empty((0, adam.MODEL.dim), np.float32)
    while len(weights) < members:
        of_group = adam.Recipe(*(np.full(GROUP, value) for value in recipe))
        # Seeds 1 and 2 are those of the ensemble by which the settings were chosen.
        more = trainer.train(of_group, len(digits.train_y), seed=3 + len(weights) // GROUP)
        weights = np.concatenate([weights, more])
        content = io.BytesIO()
        np.savez(content, weights=weights, batch=BATCH, **recipe._asdict())
        write_atomically(file, content.getvalue())
        print(f"{len(weights)} of {members} members in {file}", flush=True)


def cases() -> Iterator[tuple[str, int]]:
    """The images as they are, and then every corruption at every severity."""
    yield CLEAN, 0
    yield from product(CORRUPTIONS, range(1, SEVERITIES + 1))


def scores_of(member_proba: np.ndarray, y: np.ndarray) -> Row:
    """Of the averaged probabilities of models (tau, n, classes); the entropy is the mean over images, in nats."""
    together = summarise_predictions(member_proba)
    return {
        "accuracy": float(together.is_right(y).mean()),
        "ece": expected_calibration_error(together.mean, y),
        "nll": nll(together.mean, y),
        "entropy": float(together.entropies.total.mean()),
    }


def rows_of(name: str, member_proba: np.ndarray, y: np.ndarray) -> Iterator[Row]:
    """The ensemble, and the mean over some of its models, evenly spaced, each by itself."""
    tau = len(member_proba)
    yield {"ensemble": name, "models": tau, **scores_of(member_proba, y)}
    alone = [scores_of(member_proba[i : i + 1], y) for i in range(0, tau, max(1, tau // SINGLES))]
    means = {score: float(np.mean([row[score] for row in alone])) for score in SCORES}
    yield {"ensemble": f"{name}, single", "models": 1, "averaged_over": len(alone), **means}


def measure(folder: Path, seed: int) -> list[Row]:
    """Score what there are weights of; every case is in the file as soon as it is known."""
    file, digits = folder / RESULTS, tj.datasets.mnist()
    weights = {"path": np.load(folder / PATH)["paths"][0]}
    if (folder / ADAM).exists():
        weights["adam"] = np.load(folder / ADAM)["weights"]
    sizes = {name: len(models) for name, models in weights.items()}
    held: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {"seed": seed, "rows": []}
    rows: list[Row] = held["rows"]
    if held["seed"] != seed or any(row["models"] not in (1, sizes[row["ensemble"].split(",")[0]]) for row in rows):
        raise SystemExit(f"{file} must be of these ensembles and this seed, got others; remove it to measure again.")
    for name, models in weights.items():
        ensemble = tj.Ensemble(adam.MODEL, models)
        for corruption, severity in cases():
            case = {"corruption": corruption, "severity": severity}
            if any({**case, "ensemble": name}.items() <= row.items() for row in rows):
                continue
            x = digits.test_x if corruption == CLEAN else corrupted(digits.test_x, corruption, severity, seed)
            rows += [{**case, **row} for row in rows_of(name, ensemble.member_proba(x, CHUNK), digits.test_y)]
            write_atomically(file, (json.dumps(held, indent=1) + "\n").encode())
            print(f"{name} {corruption} {severity}", flush=True)
    return rows


def mean_of(rows: list[Row], ensemble: str, score: str, severity: int, corruption: str | None = None) -> float:
    """One score of one ensemble, averaged over all corruptions unless one is named; at 0 of the images as they are."""
    found = [
        row[score]
        for row in rows
        if row["ensemble"] == ensemble
        and row["severity"] == severity
        and (severity == 0 or corruption in (None, row["corruption"]))
    ]
    return float(np.mean(found))


def print_tables(rows: list[Row]) -> None:
    """Means over corruptions against severity, and every corruption by itself, for a page."""
    names = list(dict.fromkeys(row["ensemble"] for row in rows))
    severities = range(SEVERITIES + 1)
    for score in SCORES:
        print_table(score, severities, {name: [mean_of(rows, name, score, k) for k in severities] for name in names})
    for score, k in product(SCORES, (3, SEVERITIES)):
        lines = {name: [mean_of(rows, name, score, k, corruption) for corruption in CORRUPTIONS] for name in names}
        print_table(f"{score}, severity {k}", CORRUPTIONS, lines)


def print_table(title: str, columns: Iterable[Any], lines: dict[str, list[float]]) -> None:
    """One table in Markdown."""
    heading = [title, *map(str, columns)]
    print("\n| " + " | ".join(heading) + " |\n" + "|---" * len(heading) + "|")
    for name, values in lines.items():
        print("| " + " | ".join([name, *(f"{value:.4f}" for value in values)]) + " |")


def main() -> None:
    """Train, measure or draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where weights and results are")
    parser.add_argument("--train", type=int, metavar="MEMBERS", help="only train networks with Adam, four at a time")
    parser.add_argument("--passes", type=int, default=12, help="most passes of these over the data")
    parser.add_argument("--draw", type=Path, metavar="FILE", help="draw what was measured and do nothing else")
    parser.add_argument("--seed", type=int, default=0, help="of the corruptions")
    given = parser.parse_args()
    if given.train is not None:
        return train(given.folder, given.train, given.passes)
    if given.draw is not None:
        import corruptions_figure

        return corruptions_figure.draw(json.loads((given.folder / RESULTS).read_text())["rows"], given.draw)
    return print_tables(measure(given.folder, given.seed))


if __name__ == "__main__":
    main()
