"""Rivals at equal loss evaluations: K evolution strategies against one path of K models, and Adam beside them.

A loss evaluation is one model on one example: one pair of models on one example is two. Everything a method asks for
while it runs counts; what tuning took is written down by itself. Settings are chosen on training examples that are held
out (5000 images of MNIST, 200 rows of the table), never on the test set, once per problem and method.

    python benchmarks/rivals.py --make-table digits.npz              # needs scikit-learn
    python benchmarks/rivals.py --agree                              # needs evosax
    python benchmarks/rivals.py --out rivals.json --table digits.npz --budgets 1e7,1e8,1e9 --seconds 500
    python benchmarks/rivals.py --draw rivals.json --out docs/figures/rivals.png

Every row is in the file as soon as it is known; what is there already is not run again, so the same command goes on
where it was cut off. Methods: open_es, pgpe (``strategies.py``), path (`tj.train`), adam (``deep_ensemble.py``; it has
gradients, no budget of losses, and is to be read against seconds).
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

import deep_ensemble as adam
import trajens as tj
from deep_ensemble import is_at_edge, numbers_of
from rivals_problems import TASKS, Task, make_table
from strategies import KINDS, Plan, evolve
from trajens.files import write_atomically

SIGMAS, STEPS = (0.02, 0.04, 0.08), (0.005, 0.01, 0.02)
PAIRS, BATCH, MOST_GENERATIONS = 32, 60, 30_000
TUNED_MEMBERS, TUNING_SEED = 4, 999
Row = dict[str, Any]


class Trained(NamedTuple):
    """Weights (K, dim), what they cost, and what they were made with."""

    weights: np.ndarray
    evaluations: int | None
    seconds: float
    settings: Row


class Results:
    """The file: rows, and what was tuned; written anew, whole, after every addition."""

    def __init__(self, file: Path):
        self._file = file
        self._held: dict[str, list[Row]] = {"rows": [], "tuning": []}
        if file.exists():
            self._held = json.loads(file.read_text())

    def add(self, kind: str, row: Row) -> None:
        """Append to "rows" or "tuning"."""
        self._held.setdefault(kind, []).append({**row, "device": jax.devices()[0].device_kind})
        write_atomically(self._file, (json.dumps(self._held, indent=1) + "\n").encode())

    def find(self, kind: str, **named: Any) -> Row | None:
        """The first that has these values."""
        return next(
            (row for row in self._held.get(kind, []) if all(row[name] == value for name, value in named.items())), None
        )


def plan_of(kind: str, evaluations: float, members: int) -> tuple[Plan, int]:
    """Population, batch and generations that use up the evaluations.

    32 pairs and 60 examples as long as that makes no more than 30 000 generations; beyond, batch and pairs are doubled
    in turn.
    """
    plan = Plan(kind, PAIRS, BATCH)
    while evaluations > plan.evaluations(members, MOST_GENERATIONS):
        is_wide = plan.batch * PAIRS > plan.pairs * BATCH
        plan = plan._replace(pairs=2 * plan.pairs) if is_wide else plan._replace(batch=2 * plan.batch)
    return plan, max(1, int(evaluations / plan.evaluations(members, 1)))


def tune_strategies(task: Task, kind: str, evaluations: float) -> Row:
    """Every sigma and step of the grid at once, four strategies each, without the examples that are held out."""
    grid = list(product(SIGMAS, STEPS))
    number = np.arange(len(grid) * TUNED_MEMBERS) // TUNED_MEMBERS
    sigma, step = np.array(grid)[number].T
    plan, generations = plan_of(kind, evaluations, TUNED_MEMBERS)
    problem, starts = task.problem, task.starts(len(number), TUNING_SEED)
    examples = problem.size - task.held_out
    found = evolve(plan, problem.loss, problem.data, starts, sigma, step, generations, TUNING_SEED, examples)
    tried = []
    for i, (a, b) in enumerate(grid):
        result = tj.Ensemble(task.model, found.means[number == i]).evaluate(*task.chosen_on)
        tried.append({"sigma": a, "step": b, "nll": result["nll"], "vote": result["vote_accuracy"]})
    # One that diverged has no number, and comes last.
    tried.sort(key=lambda row: np.nan_to_num(row["nll"], nan=np.inf))
    chosen = {name: tried[0][name] for name in ("sigma", "step")}
    return {
        "chosen": chosen,
        "at_edge_of_grid": [name for name in chosen if is_at_edge(chosen[name], [row[name] for row in tried])],
        "evaluations": found.evaluations,
        "seconds": found.seconds,
        "plan": {**plan._asdict(), "generations": generations, "members": TUNED_MEMBERS},
        "grid": tried,
    }


def tune_adam(task: Task, members: int) -> Row:
    """Every recipe of the grid at once, without the examples that are held out."""
    begin = time.perf_counter()
    trainer = adam.Trainer(task.model, task.split.train_x, task.split.train_y, task.recipes.batch)
    tried = adam.tune(trainer, task.recipes.grid, members, task.chosen_on, len(task.split.train_y) - task.held_out)
    chosen = {name: tried[0][name] for name in adam.Recipe._fields}
    return {
        "chosen": chosen,
        "at_edge_of_grid": [name for name in chosen if is_at_edge(chosen[name], [row[name] for row in tried])],
        "evaluations": None,
        "seconds": time.perf_counter() - begin,
        "grid": tried,
    }


def strategy_ensemble(task: Task, kind: str, members: int, evaluations: float, seed: int, chosen: Row) -> Trained:
    """The means of independent strategies, never the best of what they tried."""
    plan, generations = plan_of(kind, evaluations, members)
    problem, starts = task.problem, task.starts(members, seed)
    found = evolve(
        plan, problem.loss, problem.data, starts, **chosen, generations=generations, seed=seed, examples=problem.size
    )
    settings = {**chosen, "pairs": plan.pairs, "batch": plan.batch, "generations": generations}
    return Trained(
        found.means, found.evaluations, found.seconds, {**settings, "compile_seconds": found.compile_seconds}
    )


def path_ensemble(task: Task, members: int, evaluations: float, seed: int) -> Trained:
    """The models of one path, warm start included; seconds include compilation."""
    problem, begin = task.problem, time.perf_counter()
    pairs = int(evaluations // 2)
    run = tj.train(problem, tau=members, budget=pairs, seed=seed, start="evolution", out=None, progress=False)
    seconds = time.perf_counter() - begin
    counted = {name: float(run.records[name][:, -1].sum()) for name in ("data_used", "data_measured", "data_audited")}
    # Decisions and audits are pairs; what is measured, and scored, is single losses.
    used = 2 * (counted["data_used"] + counted["data_audited"]) + counted["data_measured"]
    return Trained(
        run.paths[0], round(used), seconds, {"start": "evolution", "s": float(run.records["s"][0, -1]), **counted}
    )


def adam_ensemble(task: Task, members: int, seed: int, chosen: Row) -> Trained:
    """Networks trained with gradients; their passes over the data stand in the settings, not as evaluations."""
    trainer = adam.Trainer(task.model, task.split.train_x, task.split.train_y, task.recipes.batch)
    compile_seconds, _ = trainer.time(members)
    recipe = adam.Recipe(*(np.full(members, chosen[name]) for name in adam.Recipe._fields))
    begin = time.perf_counter()
    weights = trainer.train(recipe, len(task.split.train_y), seed=seed + 2)
    seconds = time.perf_counter() - begin
    gradients = int(chosen["passes"]) * len(task.split.train_y) * members
    settings = {**chosen, "batch": task.recipes.batch, "gradients": gradients, "compile_seconds": compile_seconds}
    return Trained(weights, None, seconds, settings)


class Job(NamedTuple):
    """One row to be made; Adam has no budget."""

    problem: str
    method: str
    K: int
    budget: float | None
    seed: int


def jobs_of(given: argparse.Namespace) -> Iterator[Job]:
    """Small budgets first: a run that is cut off has them all."""
    if "adam" in given.methods:
        yield from (Job(p, "adam", k, None, s) for p, k, s in product(given.problems, given.members, given.seeds))
    others = [method for method in given.methods if method != "adam"]
    for budget, *rest in product(sorted(given.budgets), given.problems, others, given.members, given.seeds):
        problem, method, members, seed = rest
        yield Job(problem, method, members, budget, seed)


class Benchmark:
    """The tasks, the file, and how much is spent on tuning."""

    def __init__(self, given: argparse.Namespace):
        self._given = given
        self._results = Results(given.out)
        self._tasks: dict[str, Task] = {}

    def run(self) -> None:
        """Make what is missing, until the time is over."""
        begin = time.perf_counter()
        for job in jobs_of(self._given):
            if self._results.find("rows", **job._asdict()) is not None:
                continue
            if time.perf_counter() - begin > self._given.seconds:
                print(f"stopped before {job}: the same command goes on there", flush=True)
                return
            self._make(job)

    def _make(self, job: Job) -> None:
        task = self._task(job.problem)
        trained = self._trained(task, job)
        scores = task.scores(trained.weights)
        cost = {"evaluations": trained.evaluations, "seconds": trained.seconds}
        self._results.add("rows", {**job._asdict(), **cost, **scores, "settings": trained.settings})
        at = "gradients" if job.budget is None else f"{job.budget:.1e} evaluations"
        said = ", ".join(f"{name} {value:.4f}" for name, value in scores.items())
        print(f"{job.problem} {job.method} K={job.K} {at}: {said}; {trained.seconds:.1f} s", flush=True)

    def _trained(self, task: Task, job: Job) -> Trained:
        if job.method == "adam":
            return adam_ensemble(task, job.K, job.seed, self._chosen(task, job.method))
        assert job.budget is not None
        if job.method == "path":
            return path_ensemble(task, job.K, job.budget, job.seed)
        return strategy_ensemble(task, job.method, job.K, job.budget, job.seed, self._chosen(task, job.method))

    def _chosen(self, task: Task, method: str) -> Row:
        """Settings, tuned unless the file has them."""
        found = self._results.find("tuning", problem=task.name, method=method)
        if found is None:
            is_adam = method == "adam"
            found = (
                tune_adam(task, max(self._given.members))
                if is_adam
                else tune_strategies(task, method, self._given.tuning)
            )
            found = {"problem": task.name, "method": method, **found}
            self._results.add("tuning", found)
            print(f"{task.name} {method}: chose {found['chosen']} in {found['seconds']:.1f} s", flush=True)
        return dict(found["chosen"])

    def _task(self, name: str) -> Task:
        if name not in self._tasks:
            self._tasks[name] = TASKS[name](self._given.table)
        return self._tasks[name]


def chosen_from(names: Any) -> Callable[[str], list[str]]:
    """A parser of names with commas between them."""

    def parse(text: str) -> list[str]:
        given = text.split(",")
        if not set(given) <= set(names):
            raise argparse.ArgumentTypeError(f"must be among {', '.join(names)}, got {text}")
        return given

    return parse


def main() -> None:
    """Measure, or one of the other modes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--make-table", type=Path, metavar="FILE", help="write the table and do nothing else")
    mode.add_argument("--agree", action="store_true", help="compare the strategies with evosax's and do nothing else")
    mode.add_argument("--draw", type=Path, metavar="FILE", help="draw such a file and do nothing else")
    parser.add_argument("--out", type=Path, help="the file of results, or the picture")
    parser.add_argument("--against", choices=("evaluations", "seconds"), default="evaluations", help="what is drawn")
    parser.add_argument("--problems", type=chosen_from(TASKS), default=list(TASKS))
    methods = (*KINDS, "path", "adam")
    parser.add_argument("--methods", type=chosen_from(methods), default=list(methods))
    parser.add_argument("--members", type=numbers_of(int), default=[16, 64], help="K: models of an ensemble")
    parser.add_argument("--budgets", type=numbers_of(float), default=[1e7, 1e8, 1e9], help="loss evaluations")
    parser.add_argument("--seeds", type=numbers_of(int), default=[0])
    parser.add_argument("--tuning", type=float, default=2e7, help="loss evaluations of each setting that is tried")
    parser.add_argument("--table", type=Path, metavar="FILE", help="what --make-table wrote")
    parser.add_argument("--seconds", type=float, default=np.inf, help="start nothing new after so many")
    given = parser.parse_args()
    if given.make_table is not None:
        return make_table(given.make_table)
    if given.agree:
        import evosax_agreement

        return evosax_agreement.main()
    if given.out is None:
        parser.error("--out must be a file, got none")
    if given.draw is not None:
        import rivals_figure

        return rivals_figure.draw(json.loads(given.draw.read_text())["rows"], given.out, given.against)
    Benchmark(given).run()
    return None


if __name__ == "__main__":
    main()
