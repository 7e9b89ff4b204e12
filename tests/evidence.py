"""Evidence with given numbers, as an acceptance test sees it after b of `size` examples."""

import jax.numpy as jnp

from trajens.acceptance import Evidence
from trajens.acceptance.moments import Moments
from trajens.acceptance.penalty import PenaltyMemory

ONE_STAGE = {"tolerance": None, "stages": 1}
"""Makes `Penalty` the test of its formula: noise up to rho, decided at once."""


def evidence_of(delta, variance, b, size, skewness=0.0):
    """Delta* `delta`, sample variance S^2 `variance` and skewness of Delta_i.

    With s = 1 and a mean difference of 0, Delta* is the log ratio; Delta_i has the opposite sign of the difference, and
    so the opposite third moment.
    """
    n = jnp.asarray(b, jnp.int32)
    m2 = jnp.asarray(variance, jnp.float32) * jnp.maximum(n - 1, 1)
    m3 = -jnp.asarray(skewness, jnp.float32) * m2**1.5 / jnp.sqrt(jnp.maximum(n, 1))
    moments = Moments(n, jnp.zeros((), jnp.float32), m2, m3)
    return Evidence(moments, jnp.float32(1), jnp.asarray(delta, jnp.float32), size)


def plan_at(test, variance, seen=1):
    """What `Penalty` of one stage remembers when it aims at its rho, for a variance of loss differences."""
    assert test.stages == 1
    real = jnp.float32
    return PenaltyMemory(real(variance), jnp.int32(seen), real(test.rho), real(0), real(1))


def plan_of(test, batch, size):
    """What `Penalty` remembers when it plans `batch` examples, a whole number of its chunks, at s = 1."""
    # In the middle of the last chunk, from b = N S^2 / (N rho^2 + S^2).
    wanted = batch - test.chunk_size(size) / 2
    plan = plan_at(test, test.rho**2 * wanted * size / (size - wanted))
    assert int(test.planned_batch(plan, jnp.float32(1), size)) == batch
    return plan
