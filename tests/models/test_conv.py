"""Convolutional networks are what plain convolutions say, in every form they are evaluated in."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import trajens as tj
from tests import cnn_reference
from trajens.kernels import Kernel
from trajens.losses import losses_of_pairs, reference_losses
from trajens.models import conv
from trajens.models.mlp import ACTIVATIONS
from trajens.sampling.footprint import bytes_held

RNG = np.random.default_rng(3)
LANES, CHUNK, IMAGES = 3, 7, 10
NETS = {
    "colours": ((10, 12, 3), (4, 5), 3, 2, (), 3, "tanh"),
    "pools that drop": ((14, 17, 2), (3, 9, 4), (3, 2, 1), (2, 1, 3), (5, 6), 4, "sigmoid"),
    "many channels": ((10, 8, 9), (70,), 3, 2, (), 2, "step"),
    "the paper's": ((28, 28), (16, 8), (5, 3), (2, 4), (), 10),
}
TOLERANCE = 2e-6
"""Of outputs, relative to the largest: some thirty roundings of float32. With one part less, products miss it."""


def plain(net, theta, x):
    """The network by `lax.conv` and `lax.reduce_window`, with nothing left out, in float64."""
    with jax.enable_x64(True):
        h = jnp.asarray(np.asarray(x, np.float64) / (255 if x.dtype == np.uint8 else 1))
        h = h.reshape(len(x), *net.shape[:2], -1)
        parts, activation = net.unpack(jnp.asarray(theta, jnp.float64)), ACTIVATIONS[net.activation]
        for (w, b), p in zip(parts, net.pools, strict=False):
            h = lax.conv_general_dilated(h, w, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")) + b
            h = activation(lax.reduce_window(h, -jnp.inf, lax.max, (1, p, p, 1), (1, p, p, 1), "VALID"))
        h = h.reshape(len(x), -1)
        *hidden, (w, b) = parts[len(net.pools) :]
        for w_h, b_h in hidden:
            h = activation(h @ w_h + b_h)
        return np.asarray(h @ w + b)


def case(name, dtype=np.uint8):
    """A network, pairs of models, inputs, indices and the outputs that are expected."""
    net = tj.models.conv_net(*NETS[name])
    x = RNG.integers(0, 256, (IMAGES, *net.shape), dtype=np.uint8)
    x = x if dtype == np.uint8 else (x / 200.0).astype(dtype)
    pairs = (2 * net.spread + 0.1) * RNG.standard_normal((LANES, 2, net.dim))
    pairs, indices = pairs.astype(np.float32), RNG.integers(0, IMAGES, (LANES, CHUNK), dtype=np.int32)
    expected = np.array([[plain(net, theta, x)[i] for theta in pair] for pair, i in zip(pairs, indices, strict=True)])
    return net, jnp.asarray(pairs), jnp.asarray(x), jnp.asarray(indices), expected


def assert_close(outputs, expected):
    assert np.abs(np.asarray(outputs) - expected).max() < TOLERANCE * np.abs(expected).max()


@pytest.mark.parametrize("name", NETS)
def test_all_forms_are_plain_convolutions(name, monkeypatch):
    # So little at a time that every form has several parts, the last of which is filled up.
    monkeypatch.setattr(conv, "_CACHED", 3 * tj.models.conv_net(*NETS[name])._bytes_of_image)
    monkeypatch.setattr(conv, "_AT_ONCE", 2 * CHUNK * tj.models.conv_net(*NETS[name])._bytes_of_image)
    net, pairs, x, indices, expected = case(name)
    active = jnp.ones(LANES, bool)
    assert_close(jax.jit(net.apply_pairs)(pairs, x, indices, active), expected)
    assert_close(jax.jit(net._by_lanes)(pairs, x, indices, active), expected)
    one = jax.jit(net.apply)(pairs[1, 0], x[indices[1]])
    assert_close(one, expected[1, 0])
    assert one.shape == (CHUNK, net.outputs)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        pytest.param("colours", np.uint8, id="bytes"),
        pytest.param("colours", np.float32, id="numbers"),
        pytest.param("pools that drop", np.uint8, id="several pools", marks=pytest.mark.slow),
    ],
)
def test_the_kernel_for_gpus_is_plain_convolutions(name, dtype):
    from trajens.models.fused import is_for

    net, pairs, x, indices, expected = case(name, dtype)
    arguments = pairs, x, indices, jnp.ones(LANES, bool)
    # Few cells, so that the last program has some that are none.
    assert_close(net._by_kernels(*arguments, cells=16, interpret=True), expected)
    lowered = jax.jit(net._by_kernels).trace(*arguments).lower(lowering_platforms=("cuda",)).as_text()
    assert lowered.count("triton") >= len(net.channels)
    assert is_for(net.channels)
    assert not is_for((300, *net.channels[1:]))


@pytest.mark.parametrize("loss", ["cross-entropy", "0-1", "squared"])
def test_losses_of_pairs_are_those_of_the_definition(loss):
    net = tj.models.conv_net((9, 8, 3), (4, 3), (3, 2), 2, (), 1 if loss == "squared" else 3)
    x, y = RNG.integers(0, 256, (IMAGES, *net.shape), dtype=np.uint8), np.arange(IMAGES) % 3
    for model in (net, tj.models.binary(net)) if loss == "cross-entropy" else (net,):
        problem = model.problem(x, y, loss)
        pairs = jnp.asarray(RNG.standard_normal((LANES, 2, net.dim)), jnp.float32)
        indices = jnp.asarray(RNG.integers(0, IMAGES, (LANES, CHUNK)), jnp.int32)
        # Lanes that wait are left out, and do not matter to others.
        active = jnp.asarray([True, False, True])
        found = jax.jit(partial(losses_of_pairs, problem.loss))(problem.data, pairs, indices, active)
        expected = jax.jit(partial(reference_losses, problem.loss))(problem.data, pairs, indices)
        np.testing.assert_allclose(found[active], expected[active], rtol=1e-4, atol=1e-5)
        assert (found[1] != expected[1]).any()


def test_the_papers_network_is_one_of_them_and_keeps_its_kernel():
    made = tj.models.conv_net(*NETS["the paper's"])
    assert made == tj.models.cnn()
    assert (made.description, made.kernel, made.dim) == ({"model": "cnn"}, Kernel("cnn"), 1906)
    assert [layer.shape for layer in made.layers] == [(5, 5, 1, 16), (3, 3, 16, 8), (32, 10)]
    for other in ({"activation": "tanh"}, {"hidden": 10}, {"shape": (28, 28, 1)}):
        arguments = dict(zip(("shape", "channels", "kernel", "pool"), NETS["the paper's"], strict=False)) | other
        assert tj.models.conv_net(**arguments).kernel is None
    # By its name, a run that was begun before is known to have the same loss.
    assert repr(tj.losses.CrossEntropy(made)) == "CrossEntropy(model=Cnn())"
    assert repr(tj.models.conv_net((8, 9), 4, outputs=2)).startswith(
        "ConvNet(shape=(8, 9), channels=(4,), kernels=(3,)"
    )
    with pytest.warns(FutureWarning, match="Cnn is now called ConvNet"):
        assert tj.models.Cnn is tj.models.ConvNet


def test_trained_weights_of_the_paper_say_what_they_said():
    pairs = np.load("tests/data/cnn_weights.npy").astype(np.float32)[:4].reshape(2, 2, 1906)
    digits = tj.datasets.mnist()
    images, labels = digits.test_x[:50], digits.test_y[:50]
    indices = np.arange(50)[None].repeat(2, 0)
    expected, scales = cnn_reference.reference(pairs, indices, images, labels)
    outputs = tj.models.cnn().apply_pairs(
        jnp.asarray(pairs), jnp.asarray(images), jnp.asarray(indices), jnp.ones(2, bool)
    )
    losses = jax.vmap(jax.vmap(tj.losses.CrossEntropy(tj.models.cnn()).of_outputs, (0, None)))(outputs, labels[indices])
    cnn_reference.assert_within(np.asarray(losses), expected, scales, cnn_reference.TOLERANCES["single"])


@pytest.mark.parametrize("name", NETS)
def test_a_network_comes_back_from_its_description_and_its_parts(name, tmp_path):
    net = tj.models.conv_net(*NETS[name])
    assert tj.models.described(net.description) == net
    assert tj.models.described(tj.models.binary(net).description) == tj.models.binary(net)
    theta = RNG.standard_normal(net.dim).astype(np.float32)
    np.testing.assert_array_equal(net.pack(net.unpack(jnp.asarray(theta))), theta)
    assert net.spread.shape == (net.dim,)
    first = net.layers[0]
    assert net.spread[0] == pytest.approx(first.fan_in**-0.5)


def test_a_saved_ensemble_says_the_same(tmp_path):
    net = tj.models.conv_net((8, 9, 3), (4, 5), 3, (2, 1), 6, 3)
    x = RNG.integers(0, 256, (4, *net.shape), dtype=np.uint8)
    ensemble = tj.Ensemble(net, np.stack([net.init(0), net.init(1)]))
    ensemble.save(tmp_path / "ensemble.npz")
    again = tj.Ensemble.load(tmp_path / "ensemble.npz")
    assert again.model == net
    np.testing.assert_array_equal(again.member_proba(x), ensemble.member_proba(x))
    # Flattened images, and those with an axis of length one, are the same; other axes are others.
    np.testing.assert_array_equal(again.member_proba(x.reshape(4, -1)), ensemble.member_proba(x))
    with pytest.raises(tj.InputError, match=r"x must have shape \(n, 8, 9, 3\), got \(4, 3, 8, 9\)"):
        ensemble.member_proba(x.transpose(0, 3, 1, 2))


def test_lanes_that_are_taken_one_after_the_other_hold_the_patches_of_one():
    net = tj.models.conv_net((32, 32, 3), (8, 16))
    data = jax.ShapeDtypeStruct((100, 32, 32, 3), jnp.uint8)

    def held(lanes):
        one = jax.ShapeDtypeStruct
        like = one((lanes, 2, net.dim), jnp.float32), data, one((lanes, 256), jnp.int32), one((lanes,), bool)
        return bytes_held(net.apply_pairs, *like, platform="cpu")

    outputs = 2 * 256 * 10 * 4
    assert held(64) - held(1) <= 3 * 63 * outputs
    assert held(1) < 8 * conv._CACHED


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"shape": (32,)}, r"shape must be \(height, width\) or \(height, width, colours\), got \(32,\)"),
        ({"shape": (32, 0)}, "every one of shape must be a whole number at least 1, got 0"),
        ({"shape": 32}, "shape must be"),
        ({"channels": 0}, "every one of channels must be a whole number at least 1, got 0"),
        ({"channels": ()}, "channels must have a number for each convolution"),
        ({"channels": "8,16"}, "every one of channels must be a whole number"),
        ({"kernel": (3, 3, 3)}, "kernel must be one number or one for each of 2 convolutions"),
        ({"kernel": 33}, "kernel must be no larger than the 32 x 32 image that convolution 1 is given, got 33"),
        ({"kernel": (3, 16)}, "kernel must be no larger than the 15 x 15 image that convolution 2 is given, got 16"),
        ({"pool": 31}, "pool must leave something of the 32 x 32 image .* got 31 after a kernel of 3"),
        ({"pool": (2, 14)}, "pool must leave something of the 15 x 15 image that convolution 2 is given, got 14"),
        ({"hidden": -1}, "every one of hidden must be a whole number at least 1"),
        ({"outputs": 0}, "outputs must be a whole number at least 1"),
        ({"activation": "gelu"}, "activation must be one of 'relu', 'tanh', 'sigmoid', 'step', got 'gelu'"),
    ],
)
def test_networks_that_cannot_be_are_refused_in_a_sentence(arguments, words):
    with pytest.raises(tj.InputError, match=words) as caught:
        tj.models.conv_net(**{"shape": (32, 32, 3), "channels": (8, 16), **arguments})
    assert "\n" not in str(caught.value)


def test_images_of_another_shape_are_refused_in_a_sentence():
    net = tj.models.conv_net((8, 9, 3), 4, outputs=2)
    for shape in ((3, 8, 9), (9, 8, 3), (8, 9)):
        with pytest.raises(tj.InputError, match=r"x must have shape \(N, 8, 9, 3\)"):
            net.problem(np.zeros((4, *shape), np.uint8), np.arange(4) % 2)
    with pytest.raises(tj.InputError, match="must be described by its name"):
        tj.models.described({"model": "conv", "channels": [4]})
