"""Paths at rest: both branches of an annealing go on at fixed s until they agree; the distribution there is looked at.

In equilibrium, besides,

    < s sum_t theta_t . grad L(theta_t) + sum_t |theta_{t+1} - theta_t|^2 / sigma^2 + |theta_1|^2 / sigma_0^2 > = tau P

(scale all weights of all models by 1 + epsilon: Z does not change). Its left side over tau P is called the virial here.
Below 1, weights are growing: nothing holds them, or they have not got there yet.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import trajens as tj
from trajens import thermo
from trajens.losses import Loss
from trajens.precision import single
from trajens_paper.annealing import Branches, Digits
from trajens_paper.frame import kept_run

_EXAMPLES = 256
"""Of the virial; their choice changes it by less than a percent."""


class Rested(NamedTuple):
    """What was seen in the second half of a rest; axis 0 is from the branch up and from that down.

    Attributes
    ----------
    s : (levels,)
    loss : (2, levels, runs, draws)
        L / tau of every path.
    models : (levels, 2 runs, draws, tau)
        The loss of every model.
    weight_rms, virial : (2, levels, runs)
    curve : Curve
        <L> / tau and Var L by level, of both branches together.
    """

    s: np.ndarray
    loss: np.ndarray
    models: np.ndarray
    weight_rms: np.ndarray
    virial: np.ndarray
    curve: thermo.Curve


def rested(
    folder: Path, target: tj.Target, seen: Digits, begin: Branches, epochs: int, looks: int, **settings: Any
) -> Rested:
    """Go on from the ends of all steps, all levels side by side, for `epochs` per model; see `kept_run`."""
    assert begin.ends is not None
    shape = begin.ends.shape[:3]
    tau, s = target.tau, np.broadcast_to(begin.s[:, None], shape).ravel()
    here = tj.Target(target.problem, tau, target.sigma, s, target.prior)
    settings |= {"chains": len(s), "initial": begin.ends.reshape(len(s), tau, -1)}
    run = kept_run(
        folder,
        here,
        epochs * tau,
        burn_in=epochs * tau // 2,
        move=seen.move(tau),
        acceptance=seen.acceptance(tau),
        records=looks,
        keep_paths=True,
        **settings,
    )
    observed = thermo.observe(run)
    losses = observed.losses.reshape(*shape, observed.draws, tau)
    weights = run.records["weight_rms"][:, -observed.draws :].mean(1)
    return Rested(
        begin.s,
        losses.mean(-1),
        np.concatenate(losses, axis=1),
        weights.reshape(shape),
        virial(here, s, run.paths).reshape(shape),
        thermo.curve(observed),
    )


def virial(target: tj.Target, s: np.ndarray, paths: np.ndarray) -> np.ndarray:
    """The virial (chains,) of paths (chains, tau, dim) at s (chains,)."""
    paths = np.asarray(paths, np.float64)
    tilted = s * _scalings(target.problem, paths.reshape(-1, paths.shape[-1])).reshape(paths.shape[:2]).sum(1)
    steps = (np.diff(paths, axis=1) ** 2).sum((1, 2)) / target.sigma**2
    first = 0.0 if target.prior is None else (paths[:, 0] ** 2).sum(1) / target.prior**2
    return np.asarray((tilted + steps + first) / paths[0].size)


@single
def _scalings(problem: tj.Problem, models: np.ndarray) -> np.ndarray:
    """The product theta . grad L(theta) of every model, on some examples that are always the same."""
    some = np.random.default_rng(problem.size).permutation(problem.size)[:_EXAMPLES]
    batch = jax.tree.map(lambda leaf: jnp.asarray(leaf)[some], problem.data)
    return np.asarray(_slopes(problem.loss, jnp.asarray(models, jnp.float32), batch), np.float64)


@partial(jax.jit, static_argnums=0)
def _slopes(loss: Loss, models: jax.Array, batch: Any) -> jax.Array:
    def slope(theta: jax.Array) -> jax.Array:
        return jax.jvp(lambda factor: loss(factor * theta, batch).mean(), (jnp.float32(1),), (jnp.float32(1),))[1]

    return jax.lax.map(slope, models)
