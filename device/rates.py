"""Pairs/s of the kernel through JAX: in a loop on the device, and as single calls."""

import time

import jax
import jax.numpy as jnp
import numpy as np

import trajens as tj
from trajens.datasets import mnist
from trajens.kernels import library
from trajens.problem import losses_of_pairs, reference_losses

print("devices", jax.devices(), "| cuda:", library("cuda").explanation)
PROBLEM = tj.models.cnn().problem(mnist().train_x, mnist().train_y)
RNG = np.random.default_rng(0)


def seconds(f, *args):
    jax.block_until_ready(f(*args))
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        jax.block_until_ready(f(*args))
        times.append(time.perf_counter() - begin)
    return float(np.median(times))


@jax.jit
def single(data, pairs, indices):
    return losses_of_pairs(PROBLEM.loss, data, pairs, indices, jnp.ones(len(pairs), bool))


def loop(steps):
    @jax.jit
    def run(data, pairs, indices):
        def body(i, total):
            # Other images every time, so that nothing can be taken out of the loop.
            return total + losses_of_pairs(
                PROBLEM.loss, data, pairs, (indices + 7919 * i) % PROBLEM.size, jnp.ones(len(pairs), bool)
            )

        return jax.lax.fori_loop(0, steps, body, jnp.zeros((len(pairs), 2, indices.shape[1])))

    return run


for lanes in (8, 16, 48, 256, 1024):
    m = 240
    pairs = jnp.asarray(0.3 * RNG.standard_normal((lanes, 2, 1906)), jnp.float32)
    indices = jnp.asarray(RNG.integers(0, PROBLEM.size, (lanes, m)), jnp.int32)
    steps = max(20, 2_000_000 // (lanes * m))
    a = seconds(loop(steps), PROBLEM.data, pairs, indices) / steps
    b = seconds(single, PROBLEM.data, pairs, indices)
    print(
        f"{lanes:5d} x {m}: loop {lanes * m / a:.3e} pairs/s ({a * 1e6:8.1f} us a step)   "
        f"single call {lanes * m / b:.3e} pairs/s ({b * 1e6:8.1f} us)",
        flush=True,
    )
pairs, indices = pairs[:16], indices[:16]
definition = jax.jit(lambda data, p, i: reference_losses(PROBLEM.loss, data, p, i))
c = seconds(definition, PROBLEM.data, pairs, indices)
print(f"JAX definition, 16 x 240, single call: {16 * 240 / c:.3e} pairs/s")
