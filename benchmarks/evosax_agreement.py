"""Whether the strategies of ``strategies.py`` are those of evosax: same problem, settings and generations.

Two comparisons for Open_ES and PGPE each. With the same noise and the same losses, both must take the same way but for
rounding. With noise of their own, their final losses must have the same mean, within the errors over independent runs.
Needs evosax, which brings optax.

    python benchmarks/rivals.py --agree
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

import trajens as tj
from strategies import (
    KINDS,
    SIGMA_FALLS_TO,
    STEP_FALLS_TO,
    Plan,
    evolve,
    sigma_at,
    started,
    step_at,
    updated,
)
from trajens.losses import Batch
from trajens.problem import Problem

MODEL = tj.models.mlp((49, 16, 10))
SIGMA, STEP, PAIRS, BATCH, GENERATIONS, RUNS, IMAGES = 0.04, 0.02, 32, 60, 300, 16, 2000


class Compared(NamedTuple):
    """Final losses (runs,) of both on all images, and their distance with the same noise as a share of the way."""

    kind: str
    ours: np.ndarray
    theirs: np.ndarray
    distance: float

    @property
    def deviation(self) -> float:
        """Difference of the mean losses in units of its standard error; run by run, as they start from the same."""
        differences = self.ours - self.theirs
        return float(differences.mean() / (differences.std(ddof=1) / len(differences) ** 0.5))


def small_problem() -> Problem:
    """Digits averaged over squares of 4 x 4 pixels, and a network of 970 parameters."""
    digits = tj.datasets.mnist()
    squares = digits.train_x[:IMAGES].reshape(-1, 7, 4, 7, 4).mean((2, 4)).reshape(-1, 49)
    return MODEL.problem((squares / 255.0).astype(np.float32), digits.train_y[:IMAGES])


def strategy_of_evosax(kind: str) -> tuple[Any, Any]:
    """The strategy of evosax with Adam, antithetic pairs, centred ranks, falling sigma and step; its parameters."""
    import optax  # type: ignore[import-not-found]
    from evosax.algorithms import PGPE, Open_ES  # type: ignore[import-not-found]

    adam = optax.adam(optax.exponential_decay(STEP, GENERATIONS, STEP_FALLS_TO))
    solution = jnp.zeros(MODEL.dim)
    if kind == "pgpe":
        strategy = PGPE(2 * PAIRS, solution, optimizer=adam)
        return strategy, strategy.default_params.replace(std_init=SIGMA)
    falling = optax.exponential_decay(SIGMA, GENERATIONS, SIGMA_FALLS_TO)
    strategy = Open_ES(2 * PAIRS, solution, optimizer=adam, std_schedule=falling)
    return strategy, strategy.default_params


def run_of_evosax(kind: str, problem: Problem, mean: jax.Array, key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The mean (dim,) after all generations, and that of our update told the same noise and the same losses."""
    strategy, params = strategy_of_evosax(kind)

    def losses_of(population: jax.Array, indices: jax.Array) -> jax.Array:
        batch = Batch(problem.data.x[indices], problem.data.y[indices])
        return jax.vmap(lambda theta: problem.loss(theta, batch).mean())(population)

    def generation_of(carried: Any, generation: jax.Array) -> tuple[Any, None]:
        state, ours = carried
        ask, tell, pick = jax.random.split(jax.random.fold_in(key, generation), 3)
        population, state = strategy.ask(ask, state, params)
        losses = losses_of(population, jax.random.randint(pick, (BATCH,), 0, problem.size))
        z = (population[:PAIRS] - state.mean) / state.std
        sigma, step = (at(first, generation, GENERATIONS) for at, first in ((sigma_at, SIGMA), (step_at, STEP)))
        each = jnp.reshape(losses, (2, PAIRS)).T[None]
        ours = updated(kind, ours, z[None], each, jnp.full(1, sigma), jnp.full(1, step), generation)
        state, _ = strategy.tell(tell, population, losses, state, params)
        if kind == "pgpe":
            # evosax has no schedule here: its user lowers what the strategy has come to.
            state = state.replace(std=state.std * sigma_at(1.0, generation + 1, GENERATIONS) / (sigma / SIGMA))
        return (state, ours), None

    first = strategy.init(key, mean, params), started(mean[None])
    (state, ours), _ = jax.lax.scan(generation_of, first, jnp.arange(GENERATIONS))
    return strategy.get_mean(state), ours.mean[0]


def compared(kind: str, problem: Problem) -> Compared:
    """Both, from the same random weights."""
    starts = np.stack([MODEL.init(i) for i in range(RUNS)])
    keys = jax.random.split(jax.random.key(1), RUNS)
    run = jax.jit(jax.vmap(lambda mean, key: run_of_evosax(kind, problem, mean, key)))
    theirs, same = (np.asarray(part) for part in run(jnp.asarray(starts), keys))
    plan = Plan(kind, PAIRS, BATCH)
    ours = evolve(plan, problem.loss, problem.data, starts, SIGMA, STEP, GENERATIONS, seed=2, examples=problem.size)
    everything = jax.jit(jax.vmap(lambda theta: problem.loss(theta, problem.data).mean()))
    distance = np.linalg.norm(same - theirs) / np.linalg.norm(theirs - starts)
    final = [np.asarray(everything(jnp.asarray(means))) for means in (ours.means, theirs)]
    return Compared(kind, final[0], final[1], float(distance))


def main() -> None:
    """Print a table."""
    problem = small_problem()
    table = Table(
        title=f"loss after {GENERATIONS} generations of {PAIRS} pairs on {BATCH} images, {RUNS} runs",
        caption="distance: of the means of both, told the same noise and losses, as a share of the way they went",
    )
    for heading in ("strategy", "ours", "evosax", "difference / error", "distance, same noise"):
        table.add_column(heading, justify="left" if heading == "strategy" else "right")
    for kind in KINDS:
        found = compared(kind, problem)
        losses = [f"{v.mean():.4f} +- {v.std(ddof=1) / len(v) ** 0.5:.4f}" for v in (found.ours, found.theirs)]
        table.add_row(kind, *losses, f"{found.deviation:+.2f}", f"{found.distance:.1e}")
    Console().print(table)
