"""How many likelihoods the models of a path should weigh, how many models it should have, and how wide their prior.

    python benchmarks/likelihood.py --jobs 10 --seconds 450 [--pairs 2e7] --out likelihood.json
    python benchmarks/likelihood.py --table likelihood.json

On tables that scikit-learn brings or makes, none of which is in ``benchmarks/tables.py``: of every split a random 30 %
of the rows are the test set, and of the rest a fifth is held out as ``trajens train`` does it. Every candidate has the
same pairs of losses, so that nothing depends on the machine, and everything else is what ``tj.train`` chooses. Rivals
of scikit-learn are trained on all of the 70 %.

A candidate is scored on the test set; beside that by what could choose it without: the NLL on the fifth that is held
out, and that of its own training rows with each left out in turn, by weights of the kept draws. Two choices of c are
scored then, at the same number of models and prior: the lowest of either.

Every result is written as a line of OUT.lines as it comes; first all candidates on the first split, then the next.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

TEST_SHARE = 0.3
HIDDEN = 32
MOST_MODELS = 3000
"""Of kept draws that predict."""


class Candidate(NamedTuple):
    """Likelihoods c with s tau = c N / v, models in a path, width of the prior, sigma in units of the usual one."""

    likelihoods: float
    tau: int
    prior: float = 0.3
    sigma: float = 1.0

    @property
    def way(self) -> str:
        """All but the likelihoods, in words."""
        return f"tau {self.tau}, prior {self.prior:g}, sigma x {self.sigma:g}"


FIRST = [Candidate(c, tau) for c in (3.0, 1.0, 2.0, 5.0) for tau in (16, 4)]
MORE = [Candidate(c, tau) for tau in (8, 2) for c in (2.0, 1.0)]
OTHERS = [Candidate(1.0, 4, 0.6), Candidate(3.0, 4, 0.6), Candidate(1.0, 4, 0.15), Candidate(3.0, 4, sigma=2.0)]
CANDIDATES = [*FIRST, *MORE, *OTHERS]


def by_logits(size: int, inputs: int, strength: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two classes whose log odds are linear in the inputs, so that logistic regression is right."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((size, inputs))
    odds = strength * x @ rng.standard_normal(inputs) / math.sqrt(inputs)
    return x, (rng.random(size) < 1 / (1 + np.exp(-odds))).astype(int)


def by_line(size: int, inputs: int, noise: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers that are linear in the inputs, and as much noise as is asked for."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((size, inputs))
    return x, x @ rng.standard_normal(inputs) / math.sqrt(inputs) + noise * rng.standard_normal(size)


def made(**how: Any) -> tuple[np.ndarray, np.ndarray]:
    """Of `make_classification`."""
    from sklearn.datasets import make_classification

    return make_classification(random_state=1, **how)


def digits(size: int) -> tuple[np.ndarray, np.ndarray]:
    """A random part of the digits."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    chosen = np.random.default_rng(2).permutation(len(x))[:size]
    return x[chosen], y[chosen]


def loaded(name: str, **how: Any) -> tuple[np.ndarray, np.ndarray]:
    """What a function of scikit-learn gives."""
    from sklearn import datasets

    return getattr(datasets, name)(**how)  # type: ignore[no-any-return]


CLASSES, NUMBERS = "cross-entropy", "squared"
TABLES: dict[str, tuple[str, Callable[[], tuple[np.ndarray, np.ndarray]]]] = {
    "digits": (CLASSES, lambda: digits(1000)),
    "two thousand": (CLASSES, lambda: made(n_samples=2000, n_informative=6, n_classes=3, flip_y=0.05)),
    "clean": (CLASSES, lambda: made(n_samples=900, n_features=12, n_informative=6, flip_y=0.0, class_sep=1.5)),
    "noisy": (CLASSES, lambda: made(n_samples=700, n_features=10, n_informative=4, flip_y=0.2)),
    "odds": (CLASSES, lambda: by_logits(1000, 15, 3.0, 3)),
    "few odds": (CLASSES, lambda: by_logits(250, 8, 1.5, 4)),
    "moons": (CLASSES, lambda: loaded("make_moons", n_samples=400, noise=0.35, random_state=5)),
    "wine": (CLASSES, lambda: loaded("load_wine", return_X_y=True)),
    "iris": (CLASSES, lambda: loaded("load_iris", return_X_y=True)),
    "diabetes": (NUMBERS, lambda: loaded("load_diabetes", return_X_y=True)),
    "friedman": (NUMBERS, lambda: loaded("make_friedman1", n_samples=500, noise=1.0, random_state=6)),
    "line": (NUMBERS, lambda: by_line(200, 6, 1.0, 7)),
}


class Split(NamedTuple):
    """Inputs and labels, standardised by the training rows; labels of classes are 0, 1, ..."""

    x: np.ndarray
    y: np.ndarray
    new_x: np.ndarray
    new_y: np.ndarray
    loss: str

    @staticmethod
    def of(table: str, number: int) -> Split:
        """A random split of a table."""
        loss, make = TABLES[table]
        x, y = make()
        order = np.random.default_rng(100 + number).permutation(len(x))
        test, train = np.split(order, [round(TEST_SHARE * len(x))])
        width = x[train].std(0)
        x = (x - x[train].mean(0)) / np.where(width > 0, width, 1.0)
        if loss == NUMBERS:
            y = (y - y[train].mean()) / y[train].std()
        kind: Any = np.float32 if loss == NUMBERS else np.int32
        return Split(x[train].astype("f4"), y[train].astype(kind), x[test].astype("f4"), y[test].astype(kind), loss)


class Said(NamedTuple):
    """What members say of inputs: probabilities of the labels (draws, tau, n), or outputs of the same shape."""

    values: np.ndarray
    loss: str

    def nll(self, y: np.ndarray, noise: float) -> float:
        """Of all of them together; numbers with the spread of the models and this noise."""
        flat = self.values.reshape(-1, self.values.shape[-1])
        if self.loss == CLASSES:
            return float(-np.log(np.maximum(flat.mean(0), 1e-12)).mean())
        variance = flat.var(0) + noise**2
        return float((0.5 * np.log(2 * np.pi * variance) + (y - flat.mean(0)) ** 2 / (2 * variance)).mean())

    def left_out(self, y: np.ndarray, likelihoods: float, noise: float) -> float:
        """The NLL of every one of the training rows as if it were left out, by weights of the draws.

        A draw has the weight exp(-c l) of an example with the loss l, in the mean over its models, so it is taken away.
        """
        if self.loss == CLASSES:
            density = np.maximum(self.values, 1e-12)
        else:
            density = np.exp(-((y - self.values) ** 2) / (2 * noise**2)) / math.sqrt(2 * np.pi * noise**2)
            density = np.maximum(density, 1e-300)
        logs = -likelihoods * np.log(density).mean(1)
        # No draw of many counts for more than the root of their number times the mean, which keeps the variance finite.
        weights = np.exp(logs - logs.max(0))
        weights = np.minimum(weights, math.sqrt(len(weights)) * weights.mean(0))
        return float(-np.log((weights * density.mean(1)).sum(0) / weights.sum(0)).mean())


def trained(split: Split, candidate: Candidate, pairs: float, seed: int) -> dict[str, Any]:
    """One run of `tj.train` with this in place of its own choice, and its scores."""
    import trajens as tj
    from trajens.ensemble import drawn_paths
    from trajens.ensemble.ensemble import Ensemble
    from trajens.ensemble.scores import noise_of_labels
    from trajens.run.advice import CONVERGENCE, OK, RunFacts, findings
    from trajens.run.control import LIKELIHOODS
    from trajens.run.start import HELD_OUT, scale_of
    from trajens.run.train import train_as_set_up, training_setup, usual_sigma

    began = time.perf_counter()
    outputs = 1 if split.loss == NUMBERS else int(split.y.max()) + 1
    network = tj.models.mlp((split.x.shape[1], HIDDEN, outputs))
    problem = network.problem(split.x, split.y, split.loss).hold_out(HELD_OUT)
    sigma = candidate.sigma * usual_sigma(scale_of(problem, candidate.prior))
    how: Any = {"tau": candidate.tau, "prior": candidate.prior, "sigma": sigma, "budget": pairs}
    setup = training_setup(problem, **how, settings={"seed": seed, "keep_paths": True})
    # The rule for s is linear in the examples.
    assert setup.budget.likely_size is not None
    likely = setup.budget.likely_size * candidate.likelihoods / LIKELIHOODS
    run = train_as_set_up(setup._replace(budget=replace(setup.budget, likely_size=likely)))
    seconds = time.perf_counter() - began

    def said(paths: np.ndarray, x: np.ndarray, y: np.ndarray) -> Said:
        models = Ensemble(network, paths.reshape(-1, paths.shape[-1]))
        if split.loss == NUMBERS:
            values = models.member_outputs(x).reshape(len(paths.reshape(-1, paths.shape[-1])), -1)
        else:
            values = models.member_proba(x)[:, np.arange(len(y)), y]
        return Said(values.reshape(*paths.shape[:-1], len(y)), split.loss)

    draws = drawn_paths(run, "all", most=MOST_MODELS)
    draws = draws.reshape(-1, *draws.shape[-2:])
    x, y = (np.asarray(leaf) for leaf in problem.data)
    assert problem.held_out is not None
    held_x, held_y = (np.asarray(leaf) for leaf in problem.held_out.data)

    def scored(paths: np.ndarray) -> dict[str, float]:
        noise, on_held_out = math.nan, said(paths, held_x, held_y)
        if split.loss == NUMBERS:
            flat = on_held_out.values.reshape(-1, len(held_y))
            noise = noise_of_labels(float(((held_y - flat.mean(0)) ** 2).mean()), float(flat.var(0).mean()))
        return {
            "test": said(paths, split.new_x, split.new_y).nll(split.new_y, noise),
            "held_out": on_held_out.nll(held_y, noise),
            "training": said(paths, x, y).nll(y, noise),
            "left_out": said(paths, x, y).left_out(y, candidate.likelihoods, noise),
        }

    found = run.summary()
    verdict = next(f.mark for f in findings(RunFacts.of(run)) if f.name == CONVERGENCE)
    return {
        "draws": scored(draws),
        "last": scored(np.asarray(run.paths)),
        "rhat": found["rhat"],
        "ess": found["ess"],
        "is_converged": verdict == OK,
        "s": float(run.s[0]),
        "burn_in": run.burn_in / run.epochs,
        "epochs": run.epochs,
        "chains": len(run.paths),
        "acceptance": found.get("acceptance"),
        "seconds": seconds,
    }


def of_rivals(split: Split) -> dict[str, float]:
    """NLL on the test set; numbers with the width of errors in five folds."""
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.metrics import log_loss
    from sklearn.model_selection import KFold, cross_val_predict
    from sklearn.neural_network import MLPClassifier, MLPRegressor

    found = {}
    is_classes = split.loss == CLASSES
    one: Any = LogisticRegression(max_iter=1000) if is_classes else Ridge()
    other: Any = MLPClassifier(random_state=0) if is_classes else MLPRegressor(random_state=0)
    for name, rival in {"linear": one, "MLP": other}.items():
        rival.fit(split.x, split.y)
        if is_classes:
            found[name] = float(log_loss(split.new_y, rival.predict_proba(split.new_x), labels=rival.classes_))
            continue
        guessed = cross_val_predict(rival, split.x, split.y, cv=KFold(5, shuffle=True, random_state=0))
        variance = float(((split.y - guessed) ** 2).mean())
        error = split.new_y - rival.predict(split.new_x)
        found[name] = float((0.5 * np.log(2 * np.pi * variance) + error**2 / (2 * variance)).mean())
    return found


def worked(table: str, splits: int, candidates: int, pairs: float, until: float, out: Path, core: int | None) -> None:
    """All candidates on all splits of a table, one after the other, until time is up."""
    if core is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})
    warnings.simplefilter("ignore")
    longest = 0.0
    for number in range(splits):
        split = Split.of(table, number)
        row: dict[str, Any] = {"table": table, "split": number, "examples": len(split.y), "inputs": split.x.shape[1]}
        written(out, {**row, "rivals": of_rivals(split)})
        for candidate in CANDIDATES[:candidates]:
            began = time.time()
            if began + longest > until:
                return
            written(out, {**row, **candidate._asdict(), **trained(split, candidate, pairs, number)})
            longest = max(longest, time.time() - began)


def written(out: Path, row: dict[str, Any]) -> None:
    """A line of a file, of which many processes write."""
    with out.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def cores() -> list[int]:
    """Those that may be used."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))


def run_all(args: argparse.Namespace) -> dict[str, Any]:
    """Start a process for every table, `args.jobs` at a time, and gather what they have written."""
    os.environ |= {"JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    os.environ |= {"CUDA_VISIBLE_DEVICES": "", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}
    began, lines = time.time(), args.out.with_suffix(".lines")
    lines.unlink(missing_ok=True)
    context, waiting = multiprocessing.get_context("spawn"), list(args.only)
    running: list[Any] = []
    free: list[int | None] = [None] * args.jobs if args.jobs > len(cores()) else [*cores()[: args.jobs]]
    while waiting or running:
        while waiting and free:
            core = free.pop(0)
            given = (waiting.pop(0), args.splits, args.candidates, args.pairs, began + args.seconds, lines, core)
            process = context.Process(target=worked, args=given)
            process.start()
            running.append((process, core))
        time.sleep(0.2)
        for process, core in [one for one in running if not one[0].is_alive()]:
            running.remove((process, core))
            free.append(core)
    rows = [json.loads(line) for line in lines.read_text(encoding="utf-8").splitlines()]
    return {"pairs": args.pairs, "seconds": time.time() - began, "jobs": args.jobs, "rows": rows}


def differences(rows: list[dict[str, Any]], which: str) -> Iterator[tuple[str, dict[str, list[float]]]]:
    """For every table, and candidate or choice of c, the NLL less that of the better rival, one for each split."""
    rivals = {(row["table"], row["split"]): row["rivals"] for row in rows if "rivals" in row}
    runs: dict[Any, dict[Candidate, dict[str, Any]]] = defaultdict(dict)
    for row in rows:
        if "rivals" not in row:
            runs[row["table"], row["split"]][Candidate(*(row[name] for name in Candidate._fields))] = row
    for table in dict.fromkeys(place[0] for place in rivals):
        found = defaultdict(list)
        for (name, split), candidates in runs.items():
            if name != table:
                continue
            least = min(rivals[table, split].values())
            for candidate, row in candidates.items():
                found[said_of(candidate)].append(row[which]["test"] - least)
            for way in {one.way for one in candidates}:
                same = [row for one, row in candidates.items() if one.way == way]
                if len(same) < 4:
                    continue
                for by in ("held_out", "left_out"):
                    chosen = min(same, key=lambda row: row[which][by])
                    found[f"{way}, c by {by}"].append(chosen[which]["test"] - least)
        yield table, found


def said_of(candidate: Candidate) -> str:
    """Its numbers."""
    return f"{candidate.way}, c {candidate.likelihoods:g}"


def table_of(found: dict[str, Any], which: str) -> str:
    """NLL above the better rival by table; the mean over tables with the standard error of that over tables."""
    tables = dict(differences(found["rows"], which))
    ways = sorted({way for values in tables.values() for way in values})
    lines = [f"| {which}, c | {' | '.join(tables)} | mean | R-hat | converged | seconds |"]
    lines.append("|---" * (len(tables) + 5) + "|")
    for way in ways:
        cells = [f"{np.mean(values[way]):+.3f}" if way in values else "" for values in tables.values()]
        means = [np.mean(values[way]) for values in tables.values() if way in values]
        error = np.std(means, ddof=1) / math.sqrt(len(means)) if len(means) > 1 else math.nan
        runs = [row for row in found["rows"] if "rivals" not in row]
        runs = [row for row in runs if said_of(Candidate(*(row[name] for name in Candidate._fields))) == way]
        about = ["", "", ""]
        if runs:
            about = [
                f"{np.nanmedian([row['rhat'] for row in runs]):.2f}",
                f"{sum(row['is_converged'] for row in runs)} of {len(runs)}",
                f"{np.mean([row['seconds'] for row in runs]):.0f}",
            ]
        lines.append(f"| {way} | {' | '.join(cells)} | {np.mean(means):+.4f} +- {error:.4f} | {' | '.join(about)} |")
    return "\n".join(lines)


def main() -> None:
    """Run, or show what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=450)
    parser.add_argument("--pairs", type=float, default=2e7, help="Of losses, of every run.")
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--candidates", type=int, default=len(CANDIDATES), help="Only the first so many.")
    parser.add_argument("--only", nargs="*", default=list(TABLES))
    parser.add_argument("--out", type=Path, default=Path("likelihood.json"))
    parser.add_argument("--table", type=Path, help="Show what this file has.")
    args = parser.parse_args()
    if args.table is None:
        found = run_all(args)
        args.out.write_text(json.dumps(found), encoding="utf-8")
    else:
        found = json.loads(args.table.read_text(encoding="utf-8"))
    for which in ("draws", "last"):
        print(table_of(found, which) + "\n")


if __name__ == "__main__":
    main()
