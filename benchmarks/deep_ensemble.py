"""The rival on MNIST: copies of the paper's CNN trained with Adam from different random weights, all in one program.

Learning rate (linear warm-up, cosine decay to 0), decoupled weight decay and passes over the data are chosen on the
last 5 000 training images, by the negative log-likelihood of the averaged probabilities of a few members each; every
member has its own settings, so the whole grid trains at once. Then all members train with the best ones on all 60 000
images and are scored on the test set. Members see the same batches; their weights are what differs.

Scores of fewer members are means over disjoint groups of the trained ones.

    python benchmarks/deep_ensemble.py --out deep_ensemble.json
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

import trajens as tj
from trajens.ensemble import scores
from trajens.models.base import Model

MODEL = tj.models.cnn()
BETA_1, BETA_2, EPSILON, WARM_UP = 0.9, 0.999, 1e-8, 0.05
SEGMENT = 100
"""Steps of one compiled call."""

Network = Callable[[jax.Array, jax.Array], jax.Array]


class Recipe(NamedTuple):
    """Settings of every member: arrays (members,), or plain numbers for one."""

    rate: Any
    decay: Any
    passes: Any


class Adam(NamedTuple):
    """Weights (members, dim) and running means of their gradients and squares."""

    theta: jax.Array
    first: jax.Array
    second: jax.Array
    step: jax.Array


def convolutions(theta: jax.Array, x: jax.Array) -> jax.Array:
    """The same network by `lax.conv` instead of a matrix product over shifted copies."""
    (w1, b1), (w2, b2), (w3, b3) = MODEL.unpack(theta)
    conv = partial(
        jax.lax.conv_general_dilated,
        window_strides=(1, 1),
        padding="VALID",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )

    def pooled(h: jax.Array, k: int) -> jax.Array:
        m, side, _, channels = h.shape
        return h.reshape(m, side // k, k, side // k, k, channels).max((2, 4))

    images = x[:, :24, :24, None].astype(jnp.float32) / 255.0
    h = jax.nn.relu(pooled(conv(images, w1), 2) + b1)
    h = jax.nn.relu(pooled(conv(h, w2), 4) + b2)
    return h.reshape(len(x), -1) @ w3 + b3


NETWORKS: dict[str, Network] = {"matmul": MODEL.apply, "conv": convolutions}


def rate_at(progress: jax.Array) -> jax.Array:
    """The learning rate as a share of its largest: up linearly, down as a cosine, 0 from progress 1 on."""
    down = jnp.clip((progress - WARM_UP) / (1.0 - WARM_UP), 0.0, 1.0)
    return jnp.minimum(progress / WARM_UP, 0.5 * (1.0 + jnp.cos(jnp.pi * down)))


@partial(jax.jit, static_argnums=0, donate_argnums=1)
def train_segment(
    network: Network,
    adam: Adam,
    rate: jax.Array,
    decay: jax.Array,
    steps: jax.Array,
    x: jax.Array,
    y: jax.Array,
    indices: jax.Array,
) -> Adam:
    """One Adam step of every member for each row of `indices` (steps, batch); `steps` is where each one's rate ends."""

    def loss(theta: jax.Array, images: jax.Array, labels: jax.Array) -> jax.Array:
        log_p = jax.nn.log_softmax(jax.vmap(network, in_axes=(0, None))(theta, images))
        return -jnp.take_along_axis(log_p, labels[None, :, None], axis=2).mean((1, 2)).sum()

    def step(adam: Adam, batch: jax.Array) -> tuple[Adam, None]:
        gradient = jax.grad(loss)(adam.theta, x[batch], y[batch].astype(jnp.int32))
        first = BETA_1 * adam.first + (1 - BETA_1) * gradient
        second = BETA_2 * adam.second + (1 - BETA_2) * gradient**2
        count = adam.step + 1
        mean, square = first / (1 - BETA_1**count), second / (1 - BETA_2**count)
        now = rate * rate_at((adam.step + 0.5) / steps)
        theta = adam.theta - now[:, None] * (mean / (jnp.sqrt(square) + EPSILON) + decay[:, None] * adam.theta)
        return Adam(theta, first, second, count), None

    return jax.lax.scan(step, adam, indices)[0]


def start(model: Model, members: int, seed: int) -> Adam:
    """Random weights of the size that suits ReLU: variance 2 / inputs, biases 0."""
    weights = np.stack([model.init(seed + i) for i in range(members)]) * np.float32(np.sqrt(2.0))
    zero = jnp.zeros(weights.shape, jnp.float32)
    return Adam(jnp.asarray(weights), zero, zero.copy(), jnp.float32(0))


def batches(examples: int, passes: int, batch: int, seed: int) -> np.ndarray:
    """Indices (segments, SEGMENT, batch): the examples in another order in every pass, filled up to whole segments."""
    rng = np.random.default_rng(seed)
    order = np.concatenate([rng.permutation(examples) for _ in range(passes)]).astype(np.int32)
    segments = -(-(len(order) // batch) // SEGMENT)
    # Rates are 0 in what is filled up.
    return np.resize(order, (segments, SEGMENT, batch))


class Trainer:
    """The model, the data on the device, and the batch size; `network` computes the model in its own way."""

    def __init__(self, model: Model, x: np.ndarray, y: np.ndarray, batch: int, network: Network | None = None):
        self.model = model
        self._network, self._batch = network or model.apply, batch
        self._x, self._y = jnp.asarray(x), jnp.asarray(y)

    def train(self, recipe: Recipe, examples: int, seed: int) -> np.ndarray:
        """Weights (members, dim) after training on the first `examples` images."""
        passes = np.asarray(recipe.passes)
        adam = start(self.model, len(passes), 1000 * seed)
        steps = jnp.asarray(passes * examples // self._batch, jnp.float32)
        rate, decay = jnp.asarray(recipe.rate, jnp.float32), jnp.asarray(recipe.decay, jnp.float32)
        for indices in batches(examples, int(passes.max()), self._batch, seed):
            adam = self._segment(adam, rate, decay, steps, jnp.asarray(indices))
        return np.asarray(adam.theta)

    def time(self, members: int) -> tuple[float, float]:
        """Seconds to compile, and seconds of one step."""
        nothing = jnp.zeros(members, jnp.float32)
        indices = jnp.zeros((SEGMENT, self._batch), jnp.int32)
        seconds = []
        for _ in range(2):
            adam, begin = start(self.model, members, 0), time.perf_counter()
            jax.block_until_ready(self._segment(adam, nothing, nothing, nothing + 1, indices))
            seconds.append(time.perf_counter() - begin)
        return seconds[0], seconds[1] / SEGMENT

    def _segment(self, adam: Adam, *rest: Any) -> Adam:
        rate, decay, steps, indices = rest
        return train_segment(self._network, adam, rate, decay, steps, self._x, self._y, indices)


def tune(
    trainer: Trainer, grid: list[Recipe], members: int, held_out: tuple[np.ndarray, np.ndarray], examples: int
) -> list[dict[str, Any]]:
    """Train the grid at once; the scores of every recipe on the held-out images, the best first."""
    each = max(1, members // len(grid))
    # As many members as later: the program is compiled once.
    number = np.arange(max(members, len(grid))) % len(grid)
    recipe = Recipe(*(np.array(values)[number] for values in zip(*grid, strict=True)))
    weights = trainer.train(recipe, examples, seed=1)
    x, y = held_out
    probabilities = tj.Ensemble(trainer.model, weights).member_proba(x)
    rows = []
    for i, tried in enumerate(grid):
        result = scores(probabilities[number == i][:each], y)
        numbers = {name: result[name] for name in ("nll", "mean_accuracy", "vote_accuracy", "single_accuracy")}
        rows.append({**tried._asdict(), "members": each, **numbers})
        # A recipe that diverged has no number to be compared by, and JSON has none for it.
        if not np.isfinite(result["nll"]):
            rows[-1]["nll"] = None
    return sorted(rows, key=lambda row: np.inf if row["nll"] is None else row["nll"])


def scores_of_groups(probabilities: np.ndarray, y: np.ndarray, members: int) -> dict[str, Any]:
    """Means over disjoint groups of `members`, and the standard deviation of the accuracies between groups."""
    groups = len(probabilities) // members
    results = [scores(probabilities[i * members : (i + 1) * members], y) for i in range(groups)]
    names = [name for name in results[0] if name != "accuracy_by_members"]
    means = {name: float(np.mean([result[name] for result in results])) for name in names}
    accuracies = [result["vote_accuracy"] for result in results]
    return {**means, "groups": groups, "vote_accuracy_sd": float(np.std(accuracies, ddof=1)) if groups > 1 else None}


def run(given: argparse.Namespace) -> dict[str, Any]:
    """Tune, train, score."""
    began = time.perf_counter()
    digits = tj.datasets.mnist()
    size, held_out = given.examples, given.held_out
    x, y = digits.train_x[:size], digits.train_y[:size]
    trainer = Trainer(MODEL, x, y, given.batch, NETWORKS[given.network])
    compile_seconds, step_seconds = trainer.time(given.members)
    predicted = step_seconds * (2 * size - held_out) * max(given.passes) / given.batch
    share = min(1.0, given.limit / predicted)
    passes = sorted({max(1, round(share * n)) for n in given.passes})
    grid = [Recipe(*values) for values in product(given.rates, given.decays, passes)]

    begin = time.perf_counter()
    table = tune(trainer, grid, given.members, (x[size - held_out :], y[size - held_out :]), size - held_out)
    tuning_seconds, begin = time.perf_counter() - begin, time.perf_counter()
    best = Recipe(*(np.full(given.members, table[0][name]) for name in Recipe._fields))
    weights = trainer.train(best, size, seed=2)
    training_seconds = time.perf_counter() - begin
    probabilities = tj.Ensemble(MODEL, weights).member_proba(digits.test_x)
    counts = [count for count in (1, 8, 32, 64) if count < given.members] + [given.members]
    return {
        "scores": {str(count): scores_of_groups(probabilities, digits.test_y, count) for count in counts},
        "chosen": {name: table[0][name] for name in Recipe._fields},
        "at_edge_of_grid": [
            name for name in Recipe._fields if is_at_edge(table[0][name], [row[name] for row in table])
        ],
        "grid": table,
        "seconds": {
            "compiling": compile_seconds,
            "tuning": tuning_seconds,
            "training": training_seconds,
            "all": time.perf_counter() - began,
        },
        "member_images_per_second": given.members * given.batch / step_seconds,
        "passes_asked_for": given.passes,
        "members": given.members,
        "batch": given.batch,
        "examples": size,
        "held_out": held_out,
        "network": given.network,
        "device": jax.devices()[0].device_kind,
    }


def is_at_edge(chosen: float, tried: list[float]) -> bool:
    """Whether the best value is the smallest or largest of several, so that a wider grid might do better."""
    return len(set(tried)) > 1 and chosen in (min(tried), max(tried))


def numbers_of(kind: Callable[[str], Any]) -> Callable[[str], list[Any]]:
    """A parser of numbers with commas between them."""
    return lambda text: [kind(part) for part in text.split(",")]


def main() -> None:
    """Print a table, and write everything as JSON with --out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=64)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--rates", type=numbers_of(float), default=[3e-3, 1e-2, 3e-2], help="learning rates to try")
    parser.add_argument("--decays", type=numbers_of(float), default=[0.0, 0.05], help="weight decays to try")
    parser.add_argument("--passes", type=numbers_of(int), default=[12, 30], help="passes over the data to try")
    parser.add_argument("--limit", type=float, default=75.0, help="seconds of training; passes are cut to fit")
    parser.add_argument("--network", choices=NETWORKS, default="matmul", help="how convolutions are computed")
    parser.add_argument("--examples", type=int, default=60_000, help="training images, those held out included")
    parser.add_argument("--held-out", type=int, default=5_000, help="images the settings are chosen on")
    parser.add_argument("--out", type=Path, help="a file for the JSON")
    given = parser.parse_args()
    result = run(given)
    if given.out is not None:
        given.out.write_text(json.dumps(result, indent=1) + "\n")
    chosen, seconds = result["chosen"], result["seconds"]
    recipe = f"rate {chosen['rate']:g}, decay {chosen['decay']:g}, {chosen['passes']} passes"
    table = Table(
        title=f"Adam on {result['device']}: {recipe}",
        caption=f"{result['members']} members: tuning {seconds['tuning']:.1f} s, training {seconds['training']:.1f} s",
    )
    columns = ("vote_accuracy", "mean_accuracy", "single_accuracy", "nll", "brier", "ece", "disagreement")
    for heading in ("members", *columns):
        table.add_column(heading.replace("_", " "), justify="right")
    for count, row in result["scores"].items():
        table.add_row(count, *(f"{row[name]:.4f}" for name in columns))
    Console().print(table)


if __name__ == "__main__":
    main()
