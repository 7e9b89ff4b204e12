"""The CUDA kernel: the losses of the definition up to half precision of weights and hidden activations.

``data/cnn_weights.npy`` has five networks, trained with Adam while added noise drove the size of their weights up: RMS
0.2, 0.5, 1, 2 and 3, losses of some tenths, as in the course of a long run with a flat prior.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import trajens as tj
from trajens.datasets import mnist
from trajens.kernels import library
from trajens.problem import losses_of_pairs

HAS_GPU = jax.default_backend() == "gpu"
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not HAS_GPU, reason="JAX sees no NVIDIA GPU"),
    pytest.mark.skipif(HAS_GPU and not library("cuda").is_loaded, reason=library("cuda").explanation),
]

RNG = np.random.default_rng(5)
SIZE = 300
IMAGES = RNG.integers(0, 256, (SIZE, 28, 28), dtype=np.uint8)
LABELS = (np.arange(SIZE) % 10).astype(np.uint8)
TRAINED = np.load(Path(__file__).parent / "data" / "cnn_weights.npy")


@jax.jit
def native(images, labels, pairs, indices, is_active):
    problem = tj.models.cnn().problem(IMAGES, LABELS)
    return losses_of_pairs(problem.loss, type(problem.data)(images, labels), pairs, indices, is_active)


def kernel(pairs, indices, is_active=None, images=IMAGES, labels=LABELS):
    is_active = np.ones(len(pairs), bool) if is_active is None else is_active
    return np.asarray(native(images, labels, jnp.asarray(pairs, jnp.float32), np.asarray(indices, np.int32), is_active))


def half(a):
    return a.astype(np.float16).astype(np.float64)


def exactly(a):
    return a


def logits_of(theta, images, rounded):
    """The network in double precision; `rounded` is applied to weights and hidden activations."""
    w1, b1, w2, b2, w3, b3 = np.split(theta.astype(np.float64), [400, 416, 1568, 1576, 1896])
    pixels = images[:, :24, :24, None] / 256.0
    hidden = _pooled(_convolved(pixels, rounded(w1 * 256 / 255).reshape(25, 16), 5), 2) + b1
    hidden = rounded(np.maximum(hidden, 0))
    features = np.maximum(_pooled(_convolved(hidden, rounded(w2).reshape(144, 8), 3), 4) + b2, 0)
    return features.reshape(len(images), 32) @ w3.reshape(32, 10) + b3


def _convolved(x, w, k):
    side = x.shape[1] - k + 1
    return np.concatenate([x[:, i : i + side, j : j + side] for i in range(k) for j in range(k)], -1) @ w


def _pooled(x, k):
    m, side, _, channels = x.shape
    return x.reshape(m, side // k, k, side // k, k, channels).max((2, 4))


def reference(pairs, indices, rounded=exactly, images=IMAGES, labels=LABELS):
    """Losses (lanes, 2, m), and the largest logit of every model, which sets the size of rounding errors."""
    losses, scales = [], []
    for pair, chosen in zip(np.asarray(pairs, np.float32), indices, strict=True):
        for theta in pair:
            logits = logits_of(theta, images[chosen], rounded)
            shifted = logits - logits.max(1, keepdims=True)
            losses.append(np.log(np.exp(shifted).sum(1)) - shifted[np.arange(len(chosen)), labels[chosen]])
            scales.append(1 + np.abs(logits).max())
    shape = (len(pairs), 2)
    return np.reshape(losses, (*shape, -1)), np.reshape(scales, (*shape, 1))


def assert_within(got, expected, scales, tolerance):
    assert np.isfinite(got).all()
    assert (np.abs(got - expected) / scales).max() < tolerance


def pairs_of(lanes, size):
    if size == "init":
        return np.stack([[tj.models.cnn().init(2 * i), tj.models.cnn().init(2 * i + 1)] for i in range(lanes)])
    return (size * RNG.standard_normal((lanes, 2, 1906))).astype(np.float32)


@pytest.mark.parametrize("size", ["init", 0.25, 1.0, 3.0])
def test_losses_are_those_of_the_definition_with_rounding_where_it_is_declared(size):
    pairs = pairs_of(3, size)
    indices = RNG.permutation(SIZE)[None].repeat(3, 0)
    got = kernel(pairs, indices)
    # Sums in another order move a few activations to the other neighbour in half precision.
    assert_within(got, *reference(pairs, indices, half), 1e-4)
    assert_within(got, *reference(pairs, indices), 1e-3)


@pytest.mark.parametrize("which", range(5))
def test_mean_differences_of_trained_networks_are_right_to_1e_4(which):
    images, labels = mnist().train_x[:20000], mnist().train_y[:20000]
    theta = TRAINED[which]
    noise = 0.05 * RNG.standard_normal((12, 1906)) * (RNG.random((12, 1906)) < 0.25)
    pairs = np.stack([np.broadcast_to(theta, noise.shape), theta + noise], 1).astype(np.float32)
    indices = RNG.integers(0, len(images), (12, 240))
    got = kernel(pairs, indices, images=images, labels=labels).astype(np.float64)
    expected, scales = reference(pairs, indices, images=images, labels=labels)
    assert_within(got, expected, scales, 1e-3)
    errors = ((got[:, 1] - got[:, 0]) - (expected[:, 1] - expected[:, 0])).mean(1)
    assert np.sqrt((errors**2).mean()) < 1e-4


def test_every_chunk_size_gives_the_losses_of_the_largest():
    pairs = pairs_of(1, 0.5)
    indices = np.arange(SIZE)[None]
    whole = kernel(pairs, indices)
    for m in [*range(1, 18), *range(18, SIZE, 23), SIZE - 1]:
        np.testing.assert_array_equal(kernel(pairs, indices[:, :m]), whole[:, :, :m])


@pytest.mark.parametrize("seed", range(8))
def test_random_shapes_and_active_lanes(seed):
    rng = np.random.default_rng(seed)
    lanes, m = int(rng.integers(1, 9)), int(rng.integers(1, 70))
    pairs, is_active = pairs_of(lanes, 1.0), rng.random(lanes) < 0.6
    indices = rng.integers(0, SIZE, (lanes, m))
    got = kernel(pairs, indices, is_active)
    assert got.shape == (lanes, 2, m)
    assert (got[~is_active] == 0).all()
    expected, scales = reference(pairs, indices)
    assert_within(got[is_active], expected[is_active], scales[is_active], 1e-3) if is_active.any() else None


def test_many_lanes_give_what_each_lane_gives_alone():
    lanes, m = 1500, 33
    pairs, indices = pairs_of(lanes, 0.4), RNG.integers(0, SIZE, (lanes, m))
    is_active = RNG.random(lanes) < 0.8
    together = kernel(pairs, indices, is_active)
    assert (together[~is_active] == 0).all()
    for lane in np.flatnonzero(is_active)[::97]:
        alone = kernel(pairs[lane : lane + 1], indices[lane : lane + 1])
        np.testing.assert_array_equal(together[lane : lane + 1], alone)


def test_a_loop_on_the_device_gives_the_losses_of_single_calls():
    pairs, indices = pairs_of(4, 0.4), RNG.integers(0, SIZE, (6, 4, 50))

    @jax.jit
    def loop(images, labels, pairs, indices):
        return jax.lax.map(lambda i: native(images, labels, pairs, i, jnp.ones(4, bool)), indices)

    got = np.asarray(loop(IMAGES, LABELS, jnp.asarray(pairs), indices.astype(np.int32)))
    np.testing.assert_array_equal(got, np.stack([kernel(pairs, i) for i in indices]))


def test_an_index_or_a_label_out_of_range_gives_nan_and_leaves_the_others_alone():
    pairs, indices = pairs_of(1, 0.4), np.arange(9)[None]
    right = kernel(pairs, indices)
    wrong = indices.copy()
    wrong[0, 1:4] = [-1, SIZE, 2**31 - 1]
    labels = LABELS.copy()
    labels[6] = 10
    got = kernel(pairs, wrong, labels=labels)
    is_wrong = np.isin(np.arange(9), [1, 2, 3, 6])
    assert np.isnan(got[:, :, is_wrong]).all()
    np.testing.assert_array_equal(got[:, :, ~is_wrong], right[:, :, ~is_wrong])
