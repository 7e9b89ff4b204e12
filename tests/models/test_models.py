"""Models agree with plain definitions of the same network, at any size of the weights."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import log_softmax

import trajens as tj

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (6, 28, 28), dtype=np.uint8)
LABELS = np.array([0, 9, 3, 3, 5, 1], np.uint8)


def textbook_cnn(theta, images):
    """The network as the paper writes it, with nothing left out, in float64."""
    theta = np.asarray(theta, np.float64)
    w1, b1 = theta[:400].reshape(5, 5, 1, 16), theta[400:416]
    w2, b2 = theta[416:1568].reshape(3, 3, 16, 8), theta[1568:1576]
    w3, b3 = theta[1576:1896].reshape(32, 10), theta[1896:]

    def layer(x, w, b, pool):
        side = x.shape[1] - w.shape[0] + 1
        windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[:2], axis=(1, 2))
        out = np.einsum("nyxcij,ijco->nyxo", windows, w) + b
        side = side // pool * pool
        out = out[:, :side, :side].reshape(len(x), side // pool, pool, side // pool, pool, -1).max((2, 4))
        return np.maximum(out, 0)

    h = layer(layer(images[..., None] / 255.0, w1, b1, 2), w2, b2, 4)
    return h.reshape(len(images), 32) @ w3 + b3


def test_the_papers_network_has_1906_parameters():
    model = tj.models.cnn()
    assert model.dim == model.init().size == 1906


@pytest.mark.parametrize("size", [0.1, 1.0, 3.0, 30.0])
def test_skipping_dead_work_does_not_change_the_network(size):
    model = tj.models.cnn()
    theta = size * RNG.standard_normal(model.dim)
    outputs = np.asarray(model.apply(jnp.asarray(theta, jnp.float32), jnp.asarray(IMAGES)))
    expected = textbook_cnn(theta.astype(np.float32), IMAGES)
    np.testing.assert_allclose(outputs, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("size", [0.1, 3.0, 1e4])
def test_cross_entropy_is_stable_at_any_size_of_the_weights(size):
    model = tj.models.cnn()
    problem = model.problem(IMAGES, LABELS)
    theta = (size * RNG.standard_normal(model.dim)).astype(np.float32)
    losses = np.asarray(problem.loss(jnp.asarray(theta), problem.data))
    expected = -log_softmax(textbook_cnn(theta, IMAGES), axis=1)[np.arange(6), LABELS]
    assert np.isfinite(losses).all()
    np.testing.assert_allclose(losses, expected, rtol=1e-3, atol=1e-3 * np.abs(expected).max())


@pytest.mark.parametrize("activation", ["relu", "tanh", "sigmoid", "step"])
def test_mlp_is_its_definition(activation):
    model = tj.models.mlp((3, 4, 2), activation)
    assert model.dim == 3 * 4 + 4 + 4 * 2 + 2
    theta, x = RNG.standard_normal(model.dim), RNG.standard_normal((5, 3))
    function = {
        "relu": lambda v: np.maximum(v, 0),
        "tanh": np.tanh,
        "sigmoid": lambda v: 1 / (1 + np.exp(-v)),
        "step": lambda v: v > 0,
    }
    hidden = function[activation](x @ theta[:12].reshape(3, 4) + theta[12:16])
    expected = hidden @ theta[16:24].reshape(4, 2) + theta[24:]
    np.testing.assert_allclose(model.apply(jnp.float32(theta), jnp.float32(x)), expected, rtol=2e-5, atol=1e-5)


BINARY = {
    "relu": tj.models.mlp((3, 4, 2)),
    "step": tj.models.mlp((3, 4, 2), "step"),
    "linear": tj.models.linear(3, 2),
    "cnn": tj.models.cnn(),
}


@pytest.mark.parametrize("name", BINARY)
def test_binary_weights_are_signs_of_a_fixed_size_and_biases_are_themselves(name):
    real = BINARY[name]
    model = tj.models.binary(real)
    assert (model.dim, model.outputs, model.kernel) == (real.dim, real.outputs, None)
    theta = RNG.standard_normal(model.dim).astype(np.float32)
    theta[0] = 0.0
    parts = [
        (np.where(np.asarray(w) < 0, -1.0, 1.0) / np.sqrt(np.prod(w.shape[:-1])), b) for w, b in real.unpack(theta)
    ]
    x = IMAGES if name == "cnn" else RNG.standard_normal((5, 3)).astype(np.float32)
    said = model.apply(jnp.asarray(theta), jnp.asarray(x))
    np.testing.assert_allclose(said, real.apply(real.pack(parts), jnp.asarray(x)), rtol=1e-5, atol=1e-6)
    # Weights begin with the law of the prior, whatever their layer.
    assert set(model.spread.tolist()) == {0.0, np.float32(0.3)}
    again = tj.models.described(model.description)
    assert (again, again == real) == (model, False)


@pytest.mark.parametrize(
    ("outputs", "label", "loss"),
    [
        ([0.0, 3.0, 1.0], 1, 0.0),
        ([0.0, 3.0, 1.0], 2, 1.0),
        ([2.0, 2.0, 1.0], 0, 0.0),
        ([2.0, 2.0, 1.0], 1, 1.0),
        ([1.0, np.inf, 0.0], 1, 0.0),
        ([1.0, np.nan, 0.0], 1, np.nan),
    ],
)
def test_a_0_1_loss_counts_wrong_answers(outputs, label, loss):
    # Biases alone are the outputs of an input of zeros.
    problem = tj.models.linear(2, 3).problem(np.zeros((2, 2)), np.full(2, label), "0-1")
    theta = jnp.concatenate([jnp.zeros(6), jnp.asarray(outputs)])
    np.testing.assert_array_equal(problem.loss(theta, problem.data), np.full(2, loss))


@pytest.mark.parametrize("model", [tj.models.cnn(), tj.models.mlp((3, 4, 2)), tj.models.linear(5)], ids=repr)
def test_pack_is_the_inverse_of_unpack(model):
    theta = model.init(1) + RNG.standard_normal(model.dim, np.float32)
    packed = model.pack(model.unpack(jnp.asarray(theta)))
    assert packed.dtype == np.float32
    np.testing.assert_array_equal(packed, theta)
    again = model.pack((np.asarray(w, np.float64).tolist(), b) for w, b in model.unpack(theta))
    np.testing.assert_array_equal(again, theta)


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        (
            [(np.ones((2, 3)), np.ones(2))],
            r"layer 0 must have weights \(3, 2\) and biases \(2,\), got \(2, 3\) and \(2,\)",
        ),
        ([(np.ones((3, 2)), np.ones(3))], "layer 0"),
        ([(np.ones((3, 2)), np.ones(2))] * 2, "1 pairs, got 2"),
        ([np.ones((3, 2))], "sequence of pairs"),
        (3, "sequence of pairs"),
        ([(np.full((3, 2), np.nan), np.ones(2))], "weights 0 must be finite"),
        ([(np.ones((3, 2)), ["a", "b"])], "biases 0 must be an array of numbers"),
    ],
)
def test_parts_that_do_not_fit_are_refused_in_a_sentence(parts, words):
    with pytest.raises(tj.InputError, match=words):
        tj.models.mlp((3, 2)).pack(parts)


def test_linear_squared_loss_is_that_of_the_exact_perceptron():
    data = tj.datasets.perceptron(size=20, noise=0.2)
    problem = tj.models.linear(1).problem(data.x[:, :1], data.y, loss="squared")
    theta = jnp.array([0.3, -0.7])
    direct = tj.datasets.perceptron_loss(theta, tj.datasets.PerceptronData(jnp.asarray(data.x), jnp.asarray(data.y)))
    np.testing.assert_allclose(problem.loss(theta, problem.data), direct, rtol=1e-5, atol=1e-6)


def test_equal_models_share_a_loss_function_and_so_a_compilation():
    a, b = (tj.models.mlp((784, 8, 10)).problem(IMAGES, LABELS) for _ in range(2))
    assert a.loss == b.loss
    assert hash(a.loss) == hash(b.loss)


@pytest.mark.slow
def test_a_network_trains_on_images_by_sampling_alone():
    x = np.where((np.arange(64) % 2)[:, None, None] == 1, IMAGES[0], IMAGES[1])
    y = np.arange(64) % 2
    problem = tj.models.mlp((784, 4, 2), "step").problem(x, y)
    target = tj.Target(problem, tau=4, sigma=0.1, s=200.0, prior=0.3)
    move = tj.SingleSite(1.0)
    run = tj.sample(target, 800, chains=4, move=move, scan="checkerboard", acceptance=tj.Metropolis(), records=10)
    assert run.records["loss"][:, -1].mean() < 0.3 * run.records["loss"][:, 0].mean()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: tj.models.mlp((3,)), "at least two"),
        (lambda: tj.models.mlp(3), "at least two"),
        (lambda: tj.models.mlp((3, 0, 1)), "at least 1"),
        (lambda: tj.models.mlp((3, 1), "softplus"), "one of"),
        (lambda: tj.models.linear(0), "at least 1"),
        (lambda: tj.models.cnn().problem(IMAGES[:, :20], LABELS), "shape"),
        (lambda: tj.models.cnn().problem(IMAGES, LABELS[:3]), "shape"),
        (lambda: tj.models.cnn().problem(IMAGES, LABELS + 5), "0..9"),
        (lambda: tj.models.cnn().problem(IMAGES, LABELS * 0.5), "0..9"),
        (lambda: tj.models.cnn().problem(IMAGES, LABELS, loss="squared"), "1 output"),
        (lambda: tj.models.cnn().problem(IMAGES, LABELS, loss="hinge"), "one of"),
        (lambda: tj.models.linear(784).problem(IMAGES, LABELS, loss="0-1"), "an output per class, got 1"),
        (lambda: tj.models.cnn().problem(IMAGES, LABELS * 0.5, loss="0-1"), "0..9"),
        (lambda: tj.models.binary(tj.models.binary(tj.models.cnn())), "with real weights"),
        (lambda: tj.models.binary((784, 10)), r"try binary\(mlp"),
        (lambda: tj.models.described({"model": "cnn", "weights": "ternary"}), "weights must be one of"),
    ],
)
def test_bad_models_and_data_are_refused_in_a_sentence(make, words):
    with pytest.raises(tj.InputError, match=words):
        make()


def test_apply_maps_over_models():
    model = tj.models.cnn()
    thetas = jnp.stack([jnp.asarray(model.init(seed)) for seed in (0, 1)])
    outputs = jax.vmap(model.apply, in_axes=(0, None))(thetas, jnp.asarray(IMAGES))
    assert outputs.shape == (2, 6, 10)
