"""What ``rivals.py`` measures on: MNIST with the paper's network, and a table with a small dense one."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import trajens as tj
from deep_ensemble import Recipe
from trajens.datasets import Mnist
from trajens.models.base import Model
from trajens.problem import Problem

SCORES = {
    "vote": "vote_accuracy",
    "mean": "mean_accuracy",
    "nll": "nll",
    "ece": "ece",
    "single": "single_accuracy",
}
"""Names in the file, and those of `tj.Ensemble.evaluate`."""


class Recipes(NamedTuple):
    """What Adam may choose from."""

    batch: int
    passes: tuple[int, ...]
    rates: tuple[float, ...] = (3e-3, 1e-2, 3e-2)
    decays: tuple[float, ...] = (0.0, 0.05)

    @property
    def grid(self) -> list[Recipe]:
        """All of them."""
        return [Recipe(*values) for values in product(self.rates, self.decays, self.passes)]


class Task(NamedTuple):
    """A problem: a network, training examples, the last of which settings are chosen on, and a test set."""

    name: str
    model: Model
    split: Mnist
    held_out: int
    recipes: Recipes

    @property
    def chosen_on(self) -> tuple[np.ndarray, np.ndarray]:
        """The examples that are held out."""
        return self.split.train_x[-self.held_out :], self.split.train_y[-self.held_out :]

    @property
    def problem(self) -> Problem:
        """All training examples."""
        return self.model.problem(self.split.train_x, self.split.train_y)

    def starts(self, members: int, seed: int) -> np.ndarray:
        """Random weights (members, dim)."""
        return np.stack([self.model.init(1000 * seed + i) for i in range(members)])

    def scores(self, weights: np.ndarray) -> dict[str, Any]:
        """Of the ensemble of these models on the test set."""
        found = tj.Ensemble(self.model, weights).evaluate(self.split.test_x, self.split.test_y)
        return {name: found[key] for name, key in SCORES.items()}


def mnist_task(_: Path | None) -> Task:
    """MNIST and the paper's network."""
    return Task("mnist", tj.models.cnn(), tj.datasets.mnist(), 5000, Recipes(256, (12, 30)))


def table_task(file: Path | None) -> Task:
    """The table that `make_table` wrote, and a network of one hidden layer."""
    if file is None:
        raise SystemExit("the table must be a file, got none; write it with --make-table, and name it with --table.")
    with np.load(file) as stored:
        split = Mnist(*(stored[name] for name in Mnist._fields))
    return Task("table", tj.models.mlp((64, 32, 10)), split, 200, Recipes(32, (100, 300)))


TASKS: dict[str, Callable[[Path | None], Task]] = {"mnist": mnist_task, "table": table_task}


def make_table(file: Path) -> None:
    """Write scikit-learn's digits of 8 x 8 pixels: 1200 rows to train on and 597 to test, inputs in 0..1."""
    from sklearn.datasets import load_digits  # type: ignore[import-not-found]

    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    x, y = (x[order] / 16.0).astype(np.float32), y[order].astype(np.uint8)
    np.savez_compressed(file, train_x=x[:1200], train_y=y[:1200], test_x=x[1200:], test_y=y[1200:])
