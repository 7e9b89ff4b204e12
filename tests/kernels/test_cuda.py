"""The CUDA kernel: the losses of the definition, to near single precision or with weights and activations in half.

``data/cnn_weights.npy`` has five networks, trained with Adam while added noise drove the size of their weights up: RMS
0.2, 0.5, 1, 2 and 3, losses of some tenths, as in the course of a long run with a flat prior.
"""

import ctypes
import os
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import trajens as tj
from tests.cnn_reference import TOLERANCES, assert_rounds_as, assert_within, half, reference
from trajens import kernels
from trajens.datasets import mnist
from trajens.losses import losses_of_pairs

HAS_GPU = jax.default_backend() == "gpu"
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not HAS_GPU, reason="needs an NVIDIA GPU that JAX sees, and pytest -m gpu"),
    pytest.mark.skipif(HAS_GPU and not kernels.library("cuda").is_loaded, reason=kernels.library("cuda").explanation),
]

RNG = np.random.default_rng(5)
SIZE = 300
IMAGES = RNG.integers(0, 256, (SIZE, 28, 28), dtype=np.uint8)
LABELS = (np.arange(SIZE) % 10).astype(np.uint8)
TRAINED = np.load(Path(__file__).parents[1] / "data" / "cnn_weights.npy")

# Error of the mean difference of the losses of a chunk of 240.
MEAN_TOLERANCES = {"single": 5e-6, "half": 2e-4}
both_precisions = pytest.mark.parametrize("precision", TOLERANCES)


@pytest.fixture(scope="module", autouse=True)
def _targets():
    file = Path(os.environ.get("TRAJENS_CUDA_LIBRARY") or Path(kernels.__file__).parent / "trajens_cuda.so")
    for precision, symbol in (("single", "trajens_cnn_cuda"), ("half", "trajens_cnn_cuda_half")):
        handler = jax.ffi.pycapsule(getattr(ctypes.CDLL(str(file)), symbol))
        jax.ffi.register_ffi_target(f"trajens_test_{precision}", handler, platform="CUDA")


@partial(jax.jit, static_argnums=0)
def native(precision, images, labels, pairs, indices, is_active):
    shape = jax.ShapeDtypeStruct((indices.shape[0], 2, indices.shape[1]), jnp.float32)
    return jax.ffi.ffi_call(f"trajens_test_{precision}", shape)(pairs, images, labels, indices, is_active)


def kernel(precision, pairs, indices, is_active=None, images=IMAGES, labels=LABELS):
    is_active = np.ones(len(pairs), bool) if is_active is None else is_active
    pairs, indices = jnp.asarray(pairs, jnp.float32), np.asarray(indices, np.int32)
    return np.asarray(native(precision, images, labels, pairs, indices, is_active))


def pairs_of(lanes, size):
    if size == "init":
        return np.stack([[tj.models.cnn().init(2 * i), tj.models.cnn().init(2 * i + 1)] for i in range(lanes)])
    return (size * RNG.standard_normal((lanes, 2, 1906))).astype(np.float32)


@pytest.mark.parametrize("size", ["init", 0.25, 1.0, 3.0])
@both_precisions
def test_losses_are_those_of_the_definition(precision, size):
    pairs = pairs_of(3, size)
    indices = RNG.permutation(SIZE)[None].repeat(3, 0)
    assert_within(kernel(precision, pairs, indices), *reference(pairs, indices, IMAGES, LABELS), TOLERANCES[precision])


@pytest.mark.parametrize("size", ["init", 0.25, 1.0, 3.0])
def test_half_precision_rounds_weights_and_hidden_activations_and_nothing_else(size):
    pairs = pairs_of(3, size)
    indices = RNG.permutation(SIZE)[None].repeat(3, 0)
    assert_rounds_as(kernel("half", pairs, indices), *reference(pairs, indices, IMAGES, LABELS, half))


@pytest.mark.parametrize("which", range(5))
@both_precisions
def test_mean_differences_of_trained_networks(precision, which):
    images, labels = mnist().train_x[:20000], mnist().train_y[:20000]
    theta = TRAINED[which]
    noise = 0.05 * RNG.standard_normal((12, 1906)) * (RNG.random((12, 1906)) < 0.25)
    pairs = np.stack([np.broadcast_to(theta, noise.shape), theta + noise], 1).astype(np.float32)
    indices = RNG.integers(0, len(images), (12, 240))
    got = kernel(precision, pairs, indices, images=images, labels=labels).astype(np.float64)
    expected, scales = reference(pairs, indices, images, labels)
    assert_within(got, expected, scales, TOLERANCES[precision])
    errors = ((got[:, 1] - got[:, 0]) - (expected[:, 1] - expected[:, 0])).mean(1)
    assert np.sqrt((errors**2).mean()) < MEAN_TOLERANCES[precision]


@both_precisions
def test_every_chunk_size_gives_the_losses_of_the_largest(precision):
    pairs = pairs_of(1, 0.5)
    indices = np.arange(SIZE)[None]
    whole = kernel(precision, pairs, indices)
    for m in [*range(1, 18), *range(18, SIZE, 23), SIZE - 1]:
        np.testing.assert_array_equal(kernel(precision, pairs, indices[:, :m]), whole[:, :, :m])


@pytest.mark.parametrize("seed", range(8))
@both_precisions
def test_random_shapes_and_active_lanes(precision, seed):
    rng = np.random.default_rng(seed)
    lanes, m = int(rng.integers(1, 9)), int(rng.integers(1, 70))
    pairs, is_active = pairs_of(lanes, 1.0), rng.random(lanes) < 0.6
    is_active[0] = True
    indices = rng.integers(0, SIZE, (lanes, m))
    got = kernel(precision, pairs, indices, is_active)
    assert got.shape == (lanes, 2, m)
    assert (got[~is_active] == 0).all()
    expected, scales = reference(pairs, indices, IMAGES, LABELS)
    assert_within(got[is_active], expected[is_active], scales[is_active], TOLERANCES[precision])


@both_precisions
def test_many_lanes_give_what_each_lane_gives_alone(precision):
    lanes, m = 1500, 33
    pairs, indices = pairs_of(lanes, 0.4), RNG.integers(0, SIZE, (lanes, m))
    is_active = RNG.random(lanes) < 0.8
    together = kernel(precision, pairs, indices, is_active)
    assert (together[~is_active] == 0).all()
    for lane in np.flatnonzero(is_active)[::97]:
        alone = kernel(precision, pairs[lane : lane + 1], indices[lane : lane + 1])
        np.testing.assert_array_equal(together[lane : lane + 1], alone)


@both_precisions
def test_a_loop_on_the_device_gives_the_losses_of_single_calls(precision):
    pairs, indices = pairs_of(4, 0.4), RNG.integers(0, SIZE, (6, 4, 50))

    @jax.jit
    def loop(images, labels, pairs, indices):
        return jax.lax.map(lambda i: native(precision, images, labels, pairs, i, jnp.ones(4, bool)), indices)

    got = np.asarray(loop(IMAGES, LABELS, jnp.asarray(pairs), indices.astype(np.int32)))
    np.testing.assert_array_equal(got, np.stack([kernel(precision, pairs, i) for i in indices]))


@both_precisions
def test_an_index_or_a_label_out_of_range_gives_nan_and_leaves_the_others_alone(precision):
    pairs, indices = pairs_of(1, 0.4), np.arange(9)[None]
    right = kernel(precision, pairs, indices)
    wrong = indices.copy()
    wrong[0, 1:4] = [-1, SIZE, 2**31 - 1]
    labels = LABELS.copy()
    labels[6] = 10
    got = kernel(precision, pairs, wrong, labels=labels)
    is_wrong = np.isin(np.arange(9), [1, 2, 3, 6])
    assert np.isnan(got[:, :, is_wrong]).all()
    np.testing.assert_array_equal(got[:, :, ~is_wrong], right[:, :, ~is_wrong])


@both_precisions
def test_weights_that_are_not_finite_give_losses_that_are_not(precision):
    pairs = pairs_of(4, 0.4)
    pairs[0, 0, 3], pairs[1, 1, 700], pairs[2, 0, 1600], pairs[3, 1, 405] = np.nan, np.nan, np.inf, np.nan
    got = kernel(precision, pairs, np.arange(40).reshape(4, 10))
    is_finite = np.isfinite(got).all(2)
    np.testing.assert_array_equal(is_finite, [[False, True], [True, False], [False, True], [True, False]])


def test_the_problem_takes_the_kernel():
    problem = tj.models.cnn().problem(IMAGES, LABELS)
    pairs, indices = pairs_of(2, 0.4), RNG.integers(0, SIZE, (2, 20))
    got = jax.jit(lambda *a: losses_of_pairs(problem.loss, problem.data, *a))(pairs, indices, np.ones(2, bool))
    precision = os.environ.get("TRAJENS_CUDA_PRECISION", "single")
    np.testing.assert_array_equal(got, kernel(precision, pairs, indices))
