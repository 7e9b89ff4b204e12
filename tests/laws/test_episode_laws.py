"""Policies whose law is known: one step in a world of two observations, and rewards that are drawn.

The observation is x = +1 or -1, the action that of the larger of two logits, and the reward 1 with probability
CHANCE[x, action]. With u and v the differences of the logits at x = +1 and at x = -1, which are independent in the
untilted law,

    L = (1 - CHANCE[+1, u > 0] + 1 - CHANCE[-1, v > 0]) / 2,

so u and v are independent walks under a tilt that depends on their signs alone: sums over a grid give their law.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import trajens as tj
from tests.monte_carlo import assert_agrees
from trajens import rl

CHANCE = np.array([[0.3, 0.8], [0.6, 0.1]], np.float32)
"""Of a reward at x = +1 and x = -1 (rows) for actions 0 and 1."""
SIGMA, PRIOR, S = 0.5, 0.7, 6.0
SIGN, TWO = rl.Box((-1.0,), (1.0,), (1,)), rl.Discrete(2)
CHAINS, EPOCHS, BURN_IN, RECORDS = 256, 240, 80, 16


@dataclass(frozen=True)
class Bandit:
    """One step, whose reward depends on the observation, on the action and on chance."""

    name: str = "bandit"
    max_steps: int = 1
    returns: tuple[float, float] = (0.0, 1.0)
    observation_space: rl.Box = SIGN
    action_space: rl.Discrete = TWO

    def reset(self, key):
        x = jnp.where(jax.random.bernoulli(key), 1.0, -1.0)
        return x[None], x

    def step(self, key, state, action):
        chance = jnp.asarray(CHANCE)[jnp.where(state > 0, 0, 1), action]
        is_won = jax.random.uniform(key) < chance
        return state[None], state, is_won.astype(jnp.float32), jnp.bool_(True)


def exact(tau, losses):
    """Chances (tau,) that logits differ by more than 0, and the mean of `losses` (2,) of either sign."""
    # A difference of logits is one of two weights and two biases.
    width, step = 2 * PRIOR, 2 * SIGMA
    grid = np.linspace(-9, 9, 1801) * np.hypot(width, step * np.sqrt(tau))
    grid = grid + (grid[1] - grid[0]) / 2
    tilt = np.exp(-S / 2 * np.where(grid > 0, losses[1], losses[0]))
    density = np.exp(-(grid**2) / (2 * width**2)) * tilt
    kernel = np.exp(-((grid[:, None] - grid) ** 2) / (2 * step**2))
    forward, backward = [density], [np.ones_like(grid)]
    for _ in range(tau - 1):
        forward.append(tilt * (kernel @ forward[-1]))
        backward.append(kernel @ (tilt * backward[-1]))
    marginals = np.array(forward) * np.array(backward[::-1])
    above = marginals[:, grid > 0].sum(1) / marginals.sum(1)
    return above, above * losses[1] + (1 - above) * losses[0]


@pytest.mark.parametrize("tau", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_policies_have_the_law_of_their_expected_return(tau):
    problem = rl.problem(Bandit(), tj.models.linear(1, 2), max_batch=256)
    target = tj.Target(problem, tau, SIGMA, S, PRIOR)
    settings = {"chains": CHAINS, "burn_in": BURN_IN * tau, "records": RECORDS, "keep_paths": True, "seed": 3}
    run = tj.sample(target, EPOCHS * tau, acceptance=tj.Penalty(32), **settings, progress=False)
    is_after = run.records["epoch"][0] > BURN_IN * tau
    paths = run.history[:, is_after]
    weights, biases = paths[..., 1] - paths[..., 0], paths[..., 3] - paths[..., 2]
    above = [exact(tau, 1 - chance) for chance in CHANCE]
    assert_agrees((biases + weights > 0).mean(1), above[0][0], "logits at +1")
    assert_agrees((biases - weights > 0).mean(1), above[1][0], "logits at -1")
    loss = np.mean([mean for _, mean in above])
    assert_agrees(run.records["loss"][:, is_after].mean(1), loss, "loss")
    returns = rl.episodes_of(problem).return_of(run.records["loss"][:, is_after].mean(1))
    assert_agrees(returns, 1 - loss, "return")
    # One step an episode, of both models.
    assert (run.records["steps_used"] == 2 * run.records["data_used"]).all()
