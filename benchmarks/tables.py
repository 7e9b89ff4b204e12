"""Tables as they come: the one-minute command beside models of scikit-learn, on the same split.

    python benchmarks/tables.py [--minutes 1] [--out DIR] [--only NAME ..]
    python benchmarks/tables.py --file TABLE.csv --label COLUMN

Six tables that other packages bring: five of statsmodels and one of vega_datasets, read from the files of these
packages as they are (``pip install statsmodels vega_datasets``; a table whose package is missing is left out with a
line). A random 30 % of the rows, always the same, are the test set. The rest is trained on by one command, evaluated on
the test set by one, predicted by one and reported by one. Of its training rows ``trajens train`` holds a fifth out,
unless ``--hold-out 0``; the rivals have all of them, with the inputs that it has made of the columns. Rivals have the
defaults of scikit-learn, but for a scale of the labels of the MLP, without which it does not get anywhere in its
iterations. Those that give no error of a prediction are scored with the width of their errors in five random folds of
the training set.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import time
import warnings
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.preprocessing import StandardScaler

from trajens import datasets
from trajens.app.cli.streams import finite

TEST_SHARE, SEED = 0.3, 0


class TableOf(NamedTuple):
    """A table of a package, and how it is asked about: its label, and columns that say nothing of it."""

    package: str
    file: str
    label: str
    drop: tuple[str, ...] = ()


SIX = {
    "anes96": TableOf("statsmodels", "datasets/anes96/anes96.csv", "vote"),
    "modechoice": TableOf("statsmodels", "datasets/modechoice/modechoice.csv", "choice", ("individual",)),
    "seattle-weather": TableOf("vega_datasets", "_data/seattle-weather.csv", "weather", ("date",)),
    "grunfeld": TableOf("statsmodels", "datasets/grunfeld/grunfeld.csv", "invest"),
    "star98": TableOf("statsmodels", "datasets/star98/star98.csv", "PR50M"),
    "randhie": TableOf("statsmodels", "datasets/randhie/randhie.csv", "mdvis"),
}


def found(table: TableOf) -> Path | None:
    """The file of a table; None where its package is not installed."""
    spec = find_spec(table.package)
    places = [] if spec is None else list(spec.submodule_search_locations or ())
    return Path(places[0]) / table.file if places else None


def split(file: Path, folder: Path) -> tuple[Path, Path]:
    """Files of the training and of the test rows, with the lines of `file` as they are."""
    header, *lines = [line for line in file.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    is_test = np.zeros(len(lines), bool)
    is_test[np.random.default_rng(SEED).permutation(len(lines))[: round(TEST_SHARE * len(lines))]] = True
    parts = folder / f"{file.stem}_train{file.suffix}", folder / f"{file.stem}_test{file.suffix}"
    for part, chosen in zip(parts, (~is_test, is_test), strict=True):
        kept = [line for line, take in zip(lines, chosen, strict=True) if take]
        part.write_text("\n".join([header, *kept]) + "\n", encoding="utf-8")
    return parts


def command(*given: Any) -> str:
    """What ``trajens`` prints for these arguments; its error is ours."""
    done = subprocess.run(
        [sys.executable, "-m", "trajens", *map(str, given)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"trajens {' '.join(map(str, given))}: {done.stderr.strip()[-2000:]}")
    return done.stdout


def of_trajens(
    training: Path, test: Path, table: TableOf, out: Path, length: list[str]
) -> tuple[dict[str, float], dict[str, Any]]:
    """NLL and the rest of four commands, and what the run was."""
    columns = [word for column in table.drop for word in ("--drop", column)]
    began = time.perf_counter()
    run = json.loads(command("train", training, "--label", table.label, *columns, *length, "--out", out, "--json"))
    seconds = time.perf_counter() - began
    scores = json.loads(command("evaluate", out, "--data", test, "--chain", "all", "--json"))
    command("predict", out, test, "--out", out / "predicted.csv")
    command("report", out, "--out", out / "report.html")
    with (out / "predicted.csv").open(encoding="utf-8", newline="") as file:
        rows = sum(1 for _ in csv.reader(file)) - 1
    # Rows without a label are predicted, and cannot be scored.
    if rows < scores["examples"]:
        raise RuntimeError(f"{rows} predictions for {scores['examples']} rows")
    score = {"nll": scores["nll"], "rmse": scores.get("rmse"), "accuracy": scores.get("mean_accuracy")}
    about = {name: run.get(name) for name in ("s", "loss", "rhat", "ess", "epochs", "burn_in", "chains", "batch_size")}
    about |= {"wall_seconds": seconds, "loss_held_out": run.get("loss_held_out")}
    return score, about


def classifiers() -> dict[str, Any]:
    """By name."""
    return {
        "logistic regression": LogisticRegression(max_iter=1000),
        "random forest": RandomForestClassifier(random_state=SEED),
        "gradient boosting": GradientBoostingClassifier(random_state=SEED),
        "MLP": MLPClassifier(random_state=SEED),
    }


def regressors() -> dict[str, Any]:
    """By name."""
    return {
        "ridge regression": Ridge(),
        "random forest": RandomForestRegressor(random_state=SEED),
        "gradient boosting": GradientBoostingRegressor(random_state=SEED),
        "MLP": TransformedTargetRegressor(MLPRegressor(random_state=SEED), transformer=StandardScaler()),
    }


def of_rivals(training: Path, test: Path, table: TableOf) -> dict[str, dict[str, float]]:
    """NLL and the rest of models of scikit-learn, on inputs as trajens makes them of the training rows."""
    reading, (x, y) = datasets.learn(str(training), table.label, drop=table.drop)
    new_x, new_y = reading.labelled(test)
    scores = {}
    is_classes = reading.label.classes is not None
    for name, rival in (classifiers() if is_classes else regressors()).items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if is_classes:
                rival.fit(x, y)
                probabilities = rival.predict_proba(new_x)
                nll = float(log_loss(new_y, probabilities, labels=rival.classes_))
                accuracy = float((rival.classes_[probabilities.argmax(1)] == new_y).mean())
                scores[name] = {"nll": nll, "accuracy": accuracy}
                continue
            labels, new = reading.label.undone(y), reading.label.undone(new_y)
            # Tables may be sorted, as those of firms by firm.
            folds = KFold(5, shuffle=True, random_state=SEED)
            width = float(np.sqrt(((labels - cross_val_predict(rival, x, labels, cv=folds)) ** 2).mean()))
            error = new - rival.fit(x, labels).predict(new_x)
        nll = float((0.5 * np.log(2 * np.pi * width**2) + error**2 / (2 * width**2)).mean())
        scores[name] = {"nll": nll, "rmse": float(np.sqrt((error**2).mean()))}
    return scores


def compared(name: str, file: Path, table: TableOf, folder: Path, length: list[str]) -> dict[str, Any]:
    """All scores on one table."""
    training, test = split(file, folder)
    score, about = of_trajens(training, test, table, folder / f"{name}_run", length)
    row = {"table": name, "run": about, "scores": {"trajens": score, **of_rivals(training, test, table)}}
    print(json.dumps(finite(row)), flush=True)
    return row


def markdown(rows: list[dict[str, Any]]) -> str:
    """The rows as a table for the documentation."""
    names = list(dict.fromkeys(name for row in rows for name in row["scores"]))
    lines = [f"| table | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for row in rows:
        cells = []
        for name in names:
            score = row["scores"].get(name)
            second = None if score is None else score.get("rmse")
            cells.append(
                "" if score is None else f"{score['nll']:.3f}" + ("" if second is None else f" ({second:.3g})")
            )
        lines.append(f"| {row['table']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Compare on the six, or on a file of one's own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", default="1")
    parser.add_argument("--budget", help="In place of minutes: the same run on any machine.")
    parser.add_argument("--hold-out", help="Share of the training rows; 0 trains on all of them in the end.")
    parser.add_argument("--out", type=Path, help="Folder for the runs; default one that is removed.")
    parser.add_argument("--only", nargs="*", default=list(SIX), help="Some of the six.")
    parser.add_argument("--file", type=Path, help="A table of one's own in place of the six.")
    parser.add_argument("--label", help="Its label.")
    parser.add_argument("--drop", nargs="*", default=[], help="Its columns to leave out.")
    args = parser.parse_args()
    length = ["--minutes", args.minutes] if args.budget is None else ["--budget", args.budget]
    length += [] if args.hold_out is None else ["--hold-out", args.hold_out]
    rows = []
    with TemporaryDirectory() as temporary:
        folder = Path(temporary) if args.out is None else args.out
        folder.mkdir(parents=True, exist_ok=True)
        if args.file is not None:
            table = TableOf("", "", args.label, tuple(args.drop))
            rows.append(compared(args.file.stem, args.file, table, folder, length))
        for name in () if args.file is not None else args.only:
            file = found(SIX[name])
            if file is None:
                print(f"{name} is left out: {SIX[name].package} is not installed")
            else:
                rows.append(compared(name, file, SIX[name], folder, length))
    print(markdown(rows))


if __name__ == "__main__":
    main()
