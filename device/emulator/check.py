"""Losses of the emulated kernel against the network in double precision."""

import ctypes

import numpy as np

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (40, 28, 28), dtype=np.uint8)
LABELS = (np.arange(40) % 10).astype(np.uint8)


def convolved(x, w, k):
    side = x.shape[1] - k + 1
    return np.concatenate([x[:, i : i + side, j : j + side] for i in range(k) for j in range(k)], -1) @ w


def pooled(x, k):
    m, side, _, channels = x.shape
    return x.reshape(m, side // k, k, side // k, k, channels).max((2, 4))


def reference(theta, chosen):
    w1, b1, w2, b2, w3, b3 = np.split(theta.astype(np.float64), [400, 416, 1568, 1576, 1896])
    x = IMAGES[chosen][:, :24, :24, None] / 255.0
    x = np.maximum(pooled(convolved(x, w1.reshape(25, 16), 5), 2) + b1, 0)
    x = np.maximum(pooled(convolved(x, w2.reshape(144, 8), 3), 4) + b2, 0)
    logits = x.reshape(len(chosen), 32) @ w3.reshape(32, 10) + b3
    logits -= logits.max(1, keepdims=True)
    return np.log(np.exp(logits).sum(1)) - logits[np.arange(len(chosen)), LABELS[chosen]]


def emulated(library, pairs, indices, is_active, images_per_block):
    losses = np.full((*indices.shape[:1], 2, indices.shape[1]), -7, np.float32)
    arrays = [pairs, IMAGES, LABELS, indices, is_active, losses]
    pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in arrays]
    library.run(*pointers, *map(ctypes.c_long, (*indices.shape, len(IMAGES))), images_per_block, 1)
    return losses


for terms, warps, tolerance in ((1, 4, 2e-3), (2, 2, 2e-6)):
    library = ctypes.CDLL(f"./emulated{terms}.so")
    for lanes, m, per_warp, size in (
        (1, 1, 1, 0.3),
        (2, 7, 1, 0.3),
        (1, 50, 12, 1.0),
        (3, 13, 2, 3.0),
        (2, 9, 12, 0.05),
    ):
        pairs = (size * RNG.standard_normal((lanes, 2, 1906))).astype(np.float32)
        indices = RNG.integers(0, 40, (lanes, m)).astype(np.int32)
        is_active = np.arange(lanes) != 1
        got = emulated(library, pairs, indices, is_active, warps * per_warp)
        assert (got[~is_active] == 0).all()
        for lane in np.flatnonzero(is_active):
            for model in range(2):
                expected = reference(pairs[lane, model], indices[lane])
                error = np.abs(got[lane, model] - expected).max() / expected.max()
                print(f"{terms} terms, {m} images, RMS {size}: largest error / largest loss {error:.1e}")
                assert error < tolerance
