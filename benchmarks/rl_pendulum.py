"""Why no strategy of ``rl.py`` is near the published returns of Pendulum: its setting, one thing changed at a time.

    python benchmarks/rl_pendulum.py            # of Open_ES, some minutes
    python benchmarks/rl_pendulum.py --pgpe

Sixteen strategies each, of seeds that are neither chosen on nor reported. Needs gymnax and evosax.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from rl import TASKS, TRIED_SEED, generations
from trajens import rl

TASK = TASKS["Pendulum-v1"]
SEEDS, COUNT, EPISODES = (2000, 3000), 8, 300
SETTING = {"population": 16, "episodes": 4, "step": 0.1}
SIGMA = {"open_es": 0.1, "pgpe": 0.3}
"""As they are reported in ``paper/results/rl``."""
AS_THEY_ARE = rl.Box((-1.0,) * 3, (1.0,) * 3, (3,))
"""Bounds that leave observations unscaled."""


class Clipped(rl.Policy):
    """Outputs are actions, up to their bounds."""

    def action(self, outputs: jax.Array) -> jax.Array:
        return jnp.clip(outputs, -2.0, 2.0).reshape(self.action_space.shape)  # type: ignore[union-attr]


def returns(kind: str, policy: rl.Policy, setting: dict[str, Any], budget: float) -> np.ndarray:
    """Of the mean of every strategy after the budget."""
    environment = rl.environment(TASK.name)
    some = partial(
        generations(),
        rl.Episodes(environment, policy, environment.returns),
        kind,
        setting["population"],
        setting["episodes"],
        jnp.float32(SIGMA[kind]),
        jnp.float32(setting["step"]),
    )
    found = []
    for seed in SEEDS:
        keys, state, used, done = jax.random.split(jax.random.key(seed), COUNT), None, 0, 0
        while used < budget:
            state, (steps, means) = some(keys, state, jnp.int32(done))
            used, done = used + int(steps.sum(0).max()), done + len(steps)
        found.append(rl.single_returns(environment, policy, means[-1], EPISODES, TRIED_SEED)[0].mean(1))
    return np.concatenate(found)


def main() -> None:
    """Print a line for every change."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pgpe", action="store_true")
    kind = "pgpe" if parser.parse_args().pgpe else "open_es"
    environment = rl.environment(TASK.name)
    policy = rl.Policy.of(environment, rl.network(environment, TASK.hidden, "tanh"))
    few = {**SETTING, "population": 8, "episodes": 1}
    unscaled = replace(policy, observation_space=AS_THEY_ARE)
    clipped = Clipped(policy.network, policy.observation_space, policy.action_space)
    for name, acting, setting, times in (
        ("as reported", policy, SETTING, 1),
        ("velocity unscaled", unscaled, SETTING, 1),
        ("clipped, no tanh", clipped, SETTING, 1),
        ("8 episodes per generation", policy, few, 1),
        ("ten times the steps", policy, SETTING, 10),
    ):
        found = returns(kind, acting, setting, times * TASK.budget)
        error = found.std(ddof=1) / len(found) ** 0.5
        print(f"{kind}, {name}: {found.mean():.0f} ± {error:.0f}, median {np.median(found):.0f}", flush=True)


if __name__ == "__main__":
    main()
