"""The paper's CNN in double precision, as the CUDA kernel divides the work, and how close the kernel must come.

Rounding is an argument, so that half precision can be held against a network that rounds the same numbers.
"""

import numpy as np

# Largest error of a loss relative to the largest logit.
TOLERANCES = {"single": 1e-5, "half": 2e-3}


def half(a):
    return a.astype(np.float16).astype(np.float64)


def exactly(a):
    return a


def logits_of(theta, images, rounded):
    """`rounded` is applied to weights and hidden activations."""
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


def reference(pairs, indices, images, labels, rounded=exactly):
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


def assert_rounds_as(got, expected, scales):
    """Sums in another order move a few activations to the other neighbour."""
    errors = np.abs(got - expected) / scales
    assert np.median(errors) < 2e-5
    assert errors.max() < 5e-4
