"""Bytes that a program holds between its arguments and its results are told without running it."""

import jax
import jax.numpy as jnp
import numpy as np

import trajens as tj
from trajens.losses import losses_of_pairs
from trajens.sampling.footprint import bytes_held

X = jax.ShapeDtypeStruct((100, 50), jnp.float32)
W = jax.ShapeDtypeStruct((50, 20), jnp.float32)
PRODUCT = 100 * 20 * 4


def held(function, *like, platform="cpu"):
    return bytes_held(function, *like, platform=platform)


def test_what_a_step_makes_is_held_until_its_last_use():
    assert held(lambda x, w: x @ w, X, W) == PRODUCT
    assert held(lambda x, w: jnp.tanh(x @ w), X, W) == 2 * PRODUCT
    assert held(lambda x, w: jnp.tanh(jnp.tanh(jnp.tanh(x @ w))), X, W) == 2 * PRODUCT

    def kept(x, w):
        first = x @ w
        return jnp.tanh(jnp.tanh(first)) + first

    assert held(kept, X, W) == 3 * PRODUCT


def test_views_cost_nothing_and_keep_what_they_show():
    assert held(lambda x, w: (x @ w).reshape(-1).reshape(20, 100).T, X, W) == PRODUCT

    def shown(x, w):
        first = x @ w
        view = first.reshape(-1)
        return jnp.tanh(jnp.tanh(x @ w)).reshape(-1) * view

    assert held(shown, X, W) == 3 * PRODUCT


def test_programs_inside_programs_are_counted():
    inner = jax.jit(lambda x, w: jnp.tanh(x @ w).sum())
    assert held(lambda x, w: inner(x, w) + 1, X, W) == 2 * PRODUCT


def test_of_branches_for_platforms_that_of_the_platform_counts():
    def chosen(x, w):
        def large(x, w):
            return jnp.tanh(x @ w).sum()

        return jax.lax.platform_dependent(x, w, cuda=lambda x, w: x[0, 0], default=large)

    index = 4
    assert held(chosen, X, W, platform="cpu") == 2 * PRODUCT + index
    assert held(chosen, X, W, platform="cuda") < 100


def test_it_is_what_the_compiler_says_of_the_losses_of_a_network():
    model = tj.models.mlp((16, 300, 10))
    problem = model.problem(np.zeros((64, 16), np.float32), np.arange(64) % 10)
    like = (problem.data, jax.ShapeDtypeStruct((8, 2, model.dim), jnp.float32))
    like += (jax.ShapeDtypeStruct((8, 240), jnp.int32), jax.ShapeDtypeStruct((8,), bool))

    def losses(*arguments):
        return losses_of_pairs(problem.loss, *arguments)

    compiled = jax.jit(losses).lower(*like).compile().memory_analysis().temp_size_in_bytes
    assert 0.9 < held(losses, *like) / compiled < 1.2
