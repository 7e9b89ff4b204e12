"""A pytree of parameters is flattened where all of it can be sampled, and refused with advice where not."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import trajens as tj

DATA = np.ones((4, 2), np.float32)


def node(cls):
    """A dataclass as a pytree, all fields of which are children, as those of Equinox are."""
    cls = dataclass(cls)
    return jax.tree_util.register_dataclass(cls, data_fields=list(cls.__annotations__), meta_fields=[])


@node
class Unpartitioned:
    """As an Equinox model is before `eqx.partition`."""

    weight: object
    activation: object


@node
class BatchStat:
    """As the running statistics of Flax (nnx) are called."""

    value: object


@node
class StateIndex:
    """As those of Equinox are called."""

    init: object


def loss(params, batch):
    return (batch * sum(leaf.sum() for leaf in jax.tree.leaves(params))).sum(1)


def both_refuse(params, match):
    with pytest.raises(tj.InputError, match=r"params.* must .*" + match):
        tj.Problem.from_pytree(loss, DATA, params)
    with pytest.raises(tj.InputError, match=r"members\[0\].* must .*" + match):
        tj.Ensemble.from_apply(loss, [params, params], outputs=1)


@pytest.mark.parametrize(
    ("rest", "what"),
    [
        (jnp.tanh, "a PjitFunction"),
        (lambda x: x, "a function"),
        ("batch", "a str"),
        (True, "a bool"),
        (3, "a int"),
        (np.arange(3), "int64"),
        (jnp.arange(3), "int32"),
        (np.ones(2, complex), "complex128"),
        (jax.random.key(0), "key<fry>"),
        (np.array(["a"]), "<U1"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_what_is_no_parameter_is_named(rest, what):
    both_refuse(Unpartitioned(jnp.ones(2), rest), rf"got {what}.* in \.activation; .*eqx\.partition")


def test_what_was_split_off_is_not_missed():
    problem = tj.Problem.from_pytree(loss, DATA, Unpartitioned(jnp.ones(2), None))
    assert problem.dim == 2
    assert problem.unravel(np.zeros(2)).activation is None


@pytest.mark.parametrize(
    "params",
    [
        {"params": {"w": jnp.ones(2)}, "batch_stats": {"norm": {"mean": jnp.zeros(2)}}},
        {"norm": {"scale": jnp.ones(2), "mean": BatchStat(jnp.zeros(2))}},
        {"weight": jnp.ones(2), "index": StateIndex((jnp.zeros(2), jnp.ones(2)))},
    ],
    ids=["Flax", "nnx", "Equinox"],
)
def test_running_statistics_are_no_parameters(params):
    both_refuse(params, r"got running statistics in .*; pass the parameters alone, in Flax variables\['params'\]")


def test_collections_without_statistics_are_parameters():
    for params in ({"params": {"w": jnp.ones(2)}, "batch_stats": {}}, {"params": {"w": jnp.ones(2)}}):
        assert tj.Problem.from_pytree(loss, DATA, params).dim == 2


@pytest.mark.parametrize("params", [None, {}, [], {"w": np.zeros((0, 2))}], ids=str)
def test_a_model_has_parameters(params):
    both_refuse(params, "have parameters, got")


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f4", ">f8", np.longdouble, ml_dtypes.bfloat16], ids=str)
def test_parameters_of_any_precision_are_sampled_in_float32(dtype):
    params = {"w": np.array([[0.5, -1.5]]).astype(dtype), "b": 2.0}
    problem = tj.Problem.from_pytree(loss, DATA, params)
    np.testing.assert_array_equal(problem.initial, [2.0, 0.5, -1.5])
    back = problem.unravel(problem.initial)
    np.testing.assert_array_equal(back["w"].astype(np.float32), [[0.5, -1.5]])
    assert back["w"].dtype == (dtype if np.dtype(dtype).itemsize == 2 else np.float32)


def test_parameters_that_float32_cannot_hold_are_refused():
    both_refuse({"w": np.array([1.0, 1e300])}, "be finite")
