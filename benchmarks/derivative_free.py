"""Networks without derivatives on MNIST: sampled as they are, and trained by Adam with straight-through estimators.

Four networks 196-32-10, for images averaged over 2 x 2 pixels: binary weights; step activations; the 0-1 loss; and all
three. `tj.train` samples each one as it is. Adam needs derivatives that there are none of: a sign is taken for its
argument between -1 and 1, a step for a ramp of width `ramp` around 0, and the 0-1 loss for cross-entropy; the network
that is scored has signs and steps.

A loss evaluation is one model on one example: a pair is two, and a derivative, forward and backward, is counted as
three. With as many of them as `tj.train` has used, audits and measuring included, Adam trains as many models as the
path has ("adam, 16"), or a single one, which then has long converged ("adam, 1"). "adam, 1 pass" is a single one that
has seen every image once. "strategies, 16" are sixteen independent evolution strategies with as many evaluations
together, of the network as it is; those of a 0-1 loss may follow the cross-entropy of its outputs instead, as the start
of a path does. Settings, the start of a path among them, are chosen on the last 5000 training images, never on the test
images.

    python benchmarks/derivative_free.py --choose --out paper/results/derivative_free/derivative_free.json
    python benchmarks/derivative_free.py --out paper/results/derivative_free/derivative_free.json

Every row is in the file as soon as it is known; what is there already is not run again.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import deep_ensemble as adam
import trajens as tj
from deep_ensemble import numbers_of
from rivals import Results, plan_of
from strategies import KINDS, evolve
from trajens.losses import guide_of
from trajens.models import ACTIVATIONS, Binary, Mlp
from trajens.models.base import Model, scale_bytes
from trajens.records import EVOLUTION
from trajens.run.start import BUDGET, RANDOM

HELD_OUT, BATCH, TAU = 5000, 256, 16
BACKWARD = 3
"""Evaluations of one derivative: forward, and twice that backward."""

SIZES = (196, 32, 10)
NETWORKS: dict[str, tuple[Model, str]] = {
    "binary weights": (tj.models.binary(tj.models.mlp(SIZES)), "cross-entropy"),
    "step activations": (tj.models.mlp(SIZES, "step"), "cross-entropy"),
    "0-1 loss": (tj.models.mlp(SIZES), "0-1"),
    "all three": (tj.models.binary(tj.models.mlp(SIZES, "step")), "0-1"),
}
RATES, RAMPS, PASSES = (1e-3, 3e-3, 1e-2, 3e-2), (1.0, 4.0), 5
SIGMAS, STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.4), (0.005, 0.01, 0.02, 0.04, 0.08, 0.16)
"""Of strategies (Open_ES; PGPE was behind it by 0.01 to 0.05 in a smaller grid); both fall over the generations."""
SCORES = ("vote_accuracy", "mean_accuracy", "single_accuracy", "disagreement")


@dataclass(frozen=True)
class StraightThrough:
    """The network `model` with derivatives that are not its own."""

    model: Model
    ramp: float

    def __call__(self, theta: jax.Array, x: jax.Array) -> jax.Array:
        """Outputs (m, outputs): those of `model`."""
        plain: Any = self.model
        if isinstance(self.model, Binary):
            plain = self.model.model
            theta = _instead(self.model.used(theta), jnp.clip(theta, -1.0, 1.0))
        assert isinstance(plain, Mlp)
        h = scale_bytes(x).reshape(x.shape[0], -1)
        *hidden, (w, b) = plain.unpack(theta)
        for w_h, b_h in hidden:
            a = h @ w_h + b_h
            h = ACTIVATIONS[plain.activation](a)
            if plain.activation == "step":
                h = _instead(h, jnp.clip(a / self.ramp + 0.5, 0.0, 1.0))
        return h @ w + b


def _instead(value: jax.Array, smooth: jax.Array) -> jax.Array:
    """`value`, with the derivative of `smooth`."""
    return smooth + jax.lax.stop_gradient(value - smooth)


def halved(images: np.ndarray) -> np.ndarray:
    """Images (n, 28, 28) averaged over 2 x 2 pixels."""
    return np.rint(images.reshape(len(images), 14, 2, 14, 2).mean((2, 4))).astype(np.uint8)


def choose_start(name: str, images: np.ndarray, labels: np.ndarray, budget: float) -> dict[str, Any]:
    """Where paths start, by the vote on the images that are held out."""
    model, loss = NETWORKS[name]
    size, tried = len(labels) - HELD_OUT, {}
    for start in (EVOLUTION, RANDOM):
        run = tj.train(
            model.problem(images[:size], labels[:size], loss), tau=TAU, budget=budget, start=start, progress=False
        )
        tried[start] = tj.Ensemble.from_run(run, model).evaluate(images[size:], labels[size:])["vote_accuracy"]
    return {"start": max(tried, key=lambda start: tried[start]), "budget": budget, "vote": tried}


def choose(name: str, images: np.ndarray, labels: np.ndarray) -> dict[str, Any]:
    """Rate and ramp of Adam with the best single models on the images that are held out."""
    model = NETWORKS[name][0]
    size = len(labels) - HELD_OUT
    tried = []
    # Without steps there is no ramp.
    is_step = "step" in str(model)
    for ramp in RAMPS if is_step else RAMPS[:1]:
        trainer = adam.Trainer(model, images, labels, BATCH, StraightThrough(model, ramp))
        grid = [adam.Recipe(rate, 0.0, PASSES) for rate in RATES]
        found = adam.tune(trainer, grid, len(grid), (images[size:], labels[size:]), size)
        tried += [{**row, "ramp": ramp} for row in found]
    tried.sort(key=lambda row: -row["single_accuracy"])
    edge = [key for key in ("rate", "ramp") if adam.is_at_edge(tried[0][key], [row[key] for row in tried])]
    return {"rate": tried[0]["rate"], "ramp": tried[0]["ramp"], "at_edge_of_grid": edge, "grid": tried}


def starts_of(model: Model, count: int, seed: int) -> np.ndarray:
    """Random models (count, dim), as paths begin with them."""
    assert model.spread is not None
    return np.random.default_rng(seed).standard_normal((count, model.dim)).astype(np.float32) * model.spread


def losses_for(problem: tj.Problem) -> dict[str, Any]:
    """What strategies may follow: the loss itself, and its guide if it has another."""
    guide = guide_of(problem.loss)
    return {"itself": problem.loss} if guide == problem.loss else {"itself": problem.loss, "its guide": guide}


def choose_strategies(name: str, images: np.ndarray, labels: np.ndarray, budget: float) -> dict[str, Any]:
    """Kind, loss, sigma and step of the strategy with the best model on the images held out, on half its budget."""
    model, loss = NETWORKS[name]
    size, grid = len(labels) - HELD_OUT, np.array(list(product(SIGMAS, STEPS)))
    problem, tried = model.problem(images, labels, loss), []
    for kind, (followed, by) in product(KINDS[:1], losses_for(problem).items()):
        plan, generations = plan_of(kind, budget / TAU * len(grid), len(grid))
        starts = starts_of(model, len(grid), 100)
        found = evolve(plan, by, problem.data, starts, grid[:, 0], grid[:, 1], generations, 100, size)
        for (sigma, step), mean in zip(grid.tolist(), found.means, strict=True):
            right = tj.Ensemble(model, mean[None]).evaluate(images[size:], labels[size:])["single_accuracy"]
            tried.append({"kind": kind, "loss": followed, "sigma": sigma, "step": step, "accuracy": float(right)})
    tried.sort(key=lambda row: -row["accuracy"])
    edge = [key for key in ("sigma", "step") if adam.is_at_edge(tried[0][key], [row[key] for row in tried])]
    return {**tried[0], "at_edge_of_grid": edge, "grid": tried}


def evolved(name: str, split: Any, chosen: dict[str, Any], evaluations: float, seed: int) -> dict[str, Any]:
    """As many models as a path has, each the mean of a strategy of its own, and their scores."""
    model, loss = NETWORKS[name]
    problem = model.problem(split.train_x, split.train_y, loss)
    plan, generations = plan_of(chosen["kind"], evaluations, TAU)
    by, begin = losses_for(problem)[chosen["loss"]], time.perf_counter()
    starts, size = starts_of(model, TAU, seed), problem.size
    found = evolve(plan, by, problem.data, starts, chosen["sigma"], chosen["step"], generations, seed, size)
    return {
        **scored(model, found.means, split),
        "evaluations": found.evaluations,
        "seconds": time.perf_counter() - begin,
        "settings": {key: chosen[key] for key in ("kind", "loss", "sigma", "step")},
    }


def sampled(name: str, split: Any, budget: float, seed: int, **settings: Any) -> dict[str, Any]:
    """A path by `tj.train`, its scores, and the audited error of its s."""
    model, loss = NETWORKS[name]
    begin = time.perf_counter()
    run = tj.train(
        model.problem(split.train_x, split.train_y, loss), tau=TAU, budget=budget, seed=seed, progress=False, **settings
    )
    seconds = time.perf_counter() - begin
    found, last = run.summary(), {key: float(values[:, -1].sum()) for key, values in run.records.items()}
    audited = tj.audit(run, proposals=512)
    return {
        **scored(model, run.paths[0], split),
        "evaluations": 2 * (last["data_used"] + last["data_audited"]) + last["data_measured"],
        "seconds": seconds,
        "settings": {"budget": budget, "sigma": run.target.sigma, "prior": run.target.prior, **settings},
        "s": float(np.mean(run.s)),
        **{key: found[key] for key in ("loss", "acceptance", "batch_size")},
        "audit_of_the_end": audited.summary(),
        "epochs": int(run.epochs),
        "burn_in": int(found["burn_in"]),
    }


def trained(name: str, split: Any, chosen: dict[str, Any], passes: int, members: int, seed: int) -> dict[str, Any]:
    """Models by Adam with so many passes over the images, and their scores."""
    model = NETWORKS[name][0]
    size = len(split.train_y)
    trainer = adam.Trainer(model, split.train_x, split.train_y, BATCH, StraightThrough(model, chosen["ramp"]))
    recipe = adam.Recipe(*(np.full(members, value) for value in (chosen["rate"], 0.0, passes)))
    begin = time.perf_counter()
    weights = trainer.train(recipe, size, seed)
    return {
        **scored(model, weights, split),
        "evaluations": BACKWARD * passes * size * members,
        "seconds": time.perf_counter() - begin,
        "settings": {"rate": chosen["rate"], "ramp": chosen["ramp"], "passes": passes, "members": members},
    }


def scored(model: Model, weights: np.ndarray, split: Any) -> dict[str, float]:
    """On the test images, and the part of wrong answers on the training images."""
    ensemble = tj.Ensemble(model, weights)
    found = ensemble.evaluate(split.test_x, split.test_y)
    known = ensemble.evaluate(split.train_x, split.train_y)
    return {**{key: float(found[key]) for key in SCORES}, "single_error_in_training": 1 - known["single_accuracy"]}


def main() -> None:
    """Choose settings, or fill the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the file of results")
    parser.add_argument("--choose", action="store_true", help="choose settings")
    parser.add_argument("--budget", type=float, default=BUDGET, help="pairs of losses of a path")
    parser.add_argument("--seeds", type=numbers_of(int), default=[0, 1])
    parser.add_argument("--networks", type=lambda text: text.split(","), default=list(NETWORKS))
    given = parser.parse_args()
    given.out.parent.mkdir(parents=True, exist_ok=True)
    results, digits = Results(given.out), tj.datasets.mnist()
    split = digits._replace(train_x=halved(digits.train_x), test_x=halved(digits.test_x))
    for name in given.networks:
        if given.choose and results.find("tuning", network=name) is None:
            of_adam = choose(name, split.train_x, split.train_y)
            of_path = choose_start(name, split.train_x, split.train_y, given.budget / 2.5)
            results.add("tuning", {"network": name, **of_adam, "path": of_path})
        if given.choose and results.find("strategies", network=name) is None:
            of_strategies = choose_strategies(name, split.train_x, split.train_y, given.budget)
            results.add("strategies", {"network": name, **of_strategies})
    if given.choose:
        return
    for seed, name in product(given.seeds, given.networks):
        chosen = results.find("tuning", network=name)
        assert chosen is not None, "choose settings first: --choose"
        path = results.find("rows", network=name, method="path", seed=seed)
        if path is None:
            found = sampled(name, split, given.budget, seed, start=chosen["path"]["start"])
            path = {"network": name, "method": "path", "seed": seed, **found}
            results.add("rows", path)
        strategy, method = results.find("strategies", network=name), f"strategies, {TAU}"
        if strategy is not None and results.find("rows", network=name, method=method, seed=seed) is None:
            row = evolved(name, split, strategy, path["evaluations"], seed + 1)
            results.add("rows", {"network": name, "method": method, "seed": seed, **row})
        passes = path["evaluations"] / (BACKWARD * len(split.train_y))
        recipes = {"adam, 1 pass": (1, 1), "adam, 1": (round(passes), 1), f"adam, {TAU}": (round(passes / TAU), TAU)}
        for method, (each, members) in recipes.items():
            if results.find("rows", network=name, method=method, seed=seed) is None:
                row = trained(name, split, chosen, max(each, 1), members, seed + 1)
                results.add("rows", {"network": name, "method": method, "seed": seed, **row})


if __name__ == "__main__":
    main()
