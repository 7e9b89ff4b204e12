"""Estimators for scikit-learn beside those of scikit-learn: the same five folds, and defaults on all sides.

    python benchmarks/estimators.py [--out paper/results/estimators/estimators.json]
    python benchmarks/estimators.py --again trajens
    python benchmarks/estimators.py --table paper/results/estimators/estimators.json

Networks of scikit-learn stand behind a StandardScaler, which those of trajens have inside. Bagging is ten networks.
Gaussian processes are left out of more than 1000 training data; for numbers theirs has an RBF and a white kernel, since
without noise it fits nothing. Rivals that give no error are scored with the best constant width on the test data, which
nobody knows beforehand: their NLL is too good, not too bad. Seconds are those of a CPU, of all threads together, so
that what else a machine does hardly matters; those of the first fold have the compilation in them.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from sklearn import datasets
from sklearn.base import clone
from sklearn.ensemble import BaggingClassifier, BaggingRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.metrics import log_loss
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from trajens.app.cli.streams import finite
from trajens.ensemble import expected_calibration_error
from trajens.estimators import TrajectoryEnsembleClassifier, TrajectoryEnsembleRegressor
from trajens.version import __version__

FOLDS, MOST_FOR_PROCESSES = 5, 1000
NOISE = 0.3
"""Of the labels of `houses`, whose standard deviation is about 1."""


def houses(size: int = 5000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Eight features like those of blocks of houses in California, and prices with a known noise.

    Income and rooms are skewed, age is cut off, places lie in two towns at a coast; the price grows with income, less
    where many share a house, falls with the distance from the towns and saturates.
    """
    rng = np.random.default_rng(seed)
    income = rng.lognormal(1.2, 0.45, size)
    age = np.minimum(rng.uniform(1, 60, size), 52.0)
    rooms = 3 + 0.6 * income + rng.gamma(2.0, 0.6, size)
    bedrooms = 0.15 * rooms + rng.lognormal(-1.6, 0.3, size)
    population = rng.lognormal(7.0, 0.7, size)
    together = 1.5 + rng.gamma(3.0, 0.5, size)
    is_north = rng.random(size) < 0.45
    latitude = np.where(is_north, 37.8, 34.0) + 0.6 * rng.standard_normal(size)
    longitude = -np.where(is_north, 122.2, 118.2) + 0.7 * rng.standard_normal(size)
    north, south = ((latitude - a) ** 2 + (longitude + b) ** 2 for a, b in ((37.8, 122.4), (34.0, 118.4)))
    near = np.exp(-north) + 0.8 * np.exp(-south)
    price = np.tanh(0.22 * income * (1 + 0.6 * near) - 0.15 * np.log(together)) * 3 + 0.6 * near
    price += 0.004 * age * near - 0.1 * np.log(population / 1000) * (rooms < 6)
    x = np.stack([income, age, rooms, bedrooms, population, together, latitude, longitude], axis=1)
    return x, (price - price.mean()) / price.std() + NOISE * rng.standard_normal(size)


def classifiers(size: int) -> dict[str, Any]:
    """By name."""
    found = {
        "trajens": TrajectoryEnsembleClassifier(random_state=0),
        "random forest": RandomForestClassifier(random_state=0),
        "MLP": make_pipeline(StandardScaler(), MLPClassifier(random_state=0)),
        "bagged MLPs": make_pipeline(StandardScaler(), BaggingClassifier(MLPClassifier(), random_state=0)),
    }
    if size <= MOST_FOR_PROCESSES:
        found["Gaussian process"] = make_pipeline(StandardScaler(), GaussianProcessClassifier(random_state=0))
    return found


def regressors(size: int) -> dict[str, Any]:
    """By name."""
    found = {
        "trajens": TrajectoryEnsembleRegressor(random_state=0),
        "random forest": RandomForestRegressor(random_state=0),
        "MLP": make_pipeline(StandardScaler(), MLPRegressor(random_state=0)),
        "bagged MLPs": make_pipeline(StandardScaler(), BaggingRegressor(MLPRegressor(), random_state=0)),
    }
    if size <= MOST_FOR_PROCESSES:
        process = GaussianProcessRegressor(RBF() + WhiteKernel(), normalize_y=True, random_state=0)
        found["Gaussian process"] = make_pipeline(StandardScaler(), process)
    return found


def of_classes(fitted: Any, x: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Accuracy, log loss and calibration."""
    probabilities = fitted.predict_proba(x)
    places = np.searchsorted(fitted.classes_, y)
    return {
        "score": float((fitted.predict(x) == y).mean()),
        "nll": float(log_loss(y, probabilities, labels=fitted.classes_)),
        "calibration": float(expected_calibration_error(probabilities, places)),
    }


def of_numbers(fitted: Any, x: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """R^2, NLL of a normal law, and how far its central 68 % are from having 68 % of the labels."""
    has_error = hasattr(fitted, "noise_") or isinstance(
        getattr(fitted, "_final_estimator", None), GaussianProcessRegressor
    )
    mean = fitted.predict(x)
    error = y - mean
    std = fitted.predict(x, return_std=True)[1] if has_error else np.sqrt((error**2).mean())
    covered = float((np.abs(error) <= 0.9945 * std).mean())
    return {
        "score": float(1 - (error**2).mean() / y.var()),
        "nll": float((0.5 * np.log(2 * np.pi * std**2) + error**2 / (2 * std**2)).mean()),
        "calibration": abs(covered - 0.68) if has_error else float("nan"),
    }


def tables() -> Iterator[tuple[str, np.ndarray, np.ndarray, Any, Callable[..., dict[str, float]], Callable[..., Any]]]:
    """Name, data, folds, scores and rivals of every table."""
    stratified = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    for name, load in (
        ("wine", datasets.load_wine),
        ("breast cancer", datasets.load_breast_cancer),
        ("digits", datasets.load_digits),
    ):
        yield name, *load(return_X_y=True), stratified, of_classes, classifiers
    plain = KFold(FOLDS, shuffle=True, random_state=0)
    yield "diabetes", *datasets.load_diabetes(return_X_y=True), plain, of_numbers, regressors
    yield "houses", *houses(), plain, of_numbers, regressors


def compared(known: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for every table and estimator: means over folds, and CPU seconds of a fit; those known are not run."""
    rows = []
    for table, x, y, folds, scores, rivals in tables():
        for name, estimator in rivals(len(x) * (FOLDS - 1) // FOLDS).items():
            before = [row for row in known if (row["table"], row["estimator"]) == (table, name)]
            if before:
                rows += before
                continue
            found, seconds = [], []
            for training, test in folds.split(x, y):
                began = time.process_time()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    fitted = clone(estimator).fit(x[training], y[training])
                seconds.append(time.process_time() - began)
                found.append(scores(fitted, x[test], y[test]))
            row = {"table": table, "size": len(x), "estimator": name}
            row |= {key: float(np.mean([one[key] for one in found])) for key in found[0]}
            row |= {"error": float(np.std([one["score"] for one in found], ddof=1) / FOLDS**0.5)}
            row |= {"seconds_first": seconds[0], "seconds": float(np.median(seconds[1:]))}
            rows.append(finite(row))
            print(json.dumps(rows[-1]), flush=True)
    return rows


def markdown(rows: list[dict[str, Any]]) -> str:
    """The rows as a table for the documentation."""
    lines = [
        "| table | estimator | accuracy or R^2 | NLL | calibration | CPU seconds (first) |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        calibration = "" if row["calibration"] is None else f"{row['calibration']:.3f}"
        lines.append(
            f"| {row['table']} | {row['estimator']} | {row['score']:.3f} +- {row['error']:.3f} | {row['nll']:.3f} | "
            f"{calibration} | {row['seconds']:.1f} ({row['seconds_first']:.1f}) |"
        )
    return "\n".join(lines)


def main() -> None:
    """Compare, or show what was found before."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("paper/results/estimators/estimators.json"))
    parser.add_argument("--again", metavar="ESTIMATOR", help="Run this one only, and keep the others of the file.")
    parser.add_argument("--table", type=Path, help="Print the table of a file and do nothing else.")
    args = parser.parse_args()
    if args.table is None:
        about = {"trajens": __version__, "scikit-learn": sklearn.__version__, "machine": platform.machine()}
        known = json.loads(args.out.read_text(encoding="utf-8"))["rows"] if args.again else []
        rows = compared([row for row in known if row["estimator"] != args.again])
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps({**about, "rows": rows}, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    else:
        rows = json.loads(args.table.read_text(encoding="utf-8"))["rows"]
    print(markdown(rows))


if __name__ == "__main__":
    main()
