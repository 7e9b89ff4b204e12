"""Convolutions for pairs of models: plain `lax.conv`, which becomes a grouped convolution, and forms XLA does better.

    python benchmarks/conv_net.py --out conv.json

Every lane has a pair of models of its own and images of its own. All forms take turns in one process, the best round
of each counts, and the losses of each are compared with those in double precision. On CPUs the time is that of the
processor, on one core with ``XLA_FLAGS="--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"``.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from conv_fused import fused
from jax import lax

IMAGES, SIDE, COLOURS, CLASSES = 5000, 32, 3, 10
CHECKED_LANES, CHECKED = 2, 32
ROUNDS = 3
PLAIN = "plain lax.conv"
Parts = list[tuple[Any, Any]]


class Net(NamedTuple):
    """Convolutions of `channels` outputs, each followed by a max pool; then dense layers."""

    channels: tuple[int, ...]
    kernel: int
    hidden: tuple[int, ...]
    pool: int = 2

    @property
    def sides(self) -> list[int]:
        """Sides of the images after every pool."""
        found, side = [], SIDE
        for _ in self.channels:
            side = (side - self.kernel + 1) // self.pool
            found.append(side)
        return found

    @property
    def side_used(self) -> int:
        """Side of the part of an input that matters to what pools keep."""
        side = self.sides[-1]
        for _ in self.channels:
            side = side * self.pool + self.kernel - 1
        return side

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Of the weights, layer by layer."""
        inputs = (COLOURS, *self.channels[:-1])
        convs = [(self.kernel, self.kernel, n, m) for n, m in zip(inputs, self.channels, strict=True)]
        sizes = (self.sides[-1] ** 2 * self.channels[-1], *self.hidden, CLASSES)
        return [*convs, *itertools.pairwise(sizes)]

    @property
    def dim(self) -> int:
        """Parameters."""
        return sum(math.prod(shape) + shape[-1] for shape in self.shapes)

    def unpack(self, theta: Any) -> Parts:
        """Weights and biases of models (..., dim)."""
        parts, start, lead = [], 0, theta.shape[:-1]
        for shape in self.shapes:
            middle = start + math.prod(shape)
            stop = middle + shape[-1]
            parts.append((theta[..., start:middle].reshape(*lead, *shape), theta[..., middle:stop]))
            start = stop
        return parts


NETS = {"3x3 x 8,16": Net((8, 16), 3, (16,)), "5x5 x 16,16": Net((16, 16), 5, ())}


def dense(h: jax.Array, parts: Parts, precision: Any) -> jax.Array:
    """The dense layers."""
    for i, (w, b) in enumerate(parts):
        h = jnp.dot(h, w, precision=precision) + b
        h = h if i == len(parts) - 1 else jax.nn.relu(h)
    return h


def losses(outputs: jax.Array, y: jax.Array) -> jax.Array:
    """Cross-entropy of every example."""
    log_p = jax.nn.log_softmax(outputs)
    return -jnp.take_along_axis(log_p, y[..., None].astype(jnp.int32), axis=-1)[..., 0]


def plain(net: Net, theta: jax.Array, x: jax.Array, precision: Any) -> jax.Array:
    """As one writes it in JAX."""
    parts, h, p = net.unpack(theta), x.astype(jnp.float32) / 255, net.pool
    for w, b in parts[: len(net.channels)]:
        names = ("NHWC", "HWIO", "NHWC")
        h = lax.conv_general_dilated(h, w, (1, 1), "VALID", dimension_numbers=names, precision=precision) + b
        h = jax.nn.relu(lax.reduce_window(h, -jnp.inf, lax.max, (1, p, p, 1), (1, p, p, 1), "VALID"))
    return dense(h.reshape(len(h), -1), parts[len(net.channels) :], precision)


def patches(x: jax.Array, k: int, f: int, is_gathered: bool) -> jax.Array:
    """What the outputs of every cell of f x f positions see, (m, rows, columns, (k + f - 1)^2 inputs)."""
    m, side, _, c = x.shape
    n, q = (side - k + 1) // f, k + f - 1
    if is_gathered:
        a = np.arange
        places = (a(n)[:, None, None, None] * f + a(q)[:, None]) * side + a(n)[:, None, None] * f + a(q)
        table = (places[..., None] * c + a(c)).reshape(n, n, -1)
        return jnp.take(x.reshape(m, -1), table, axis=1)
    last = (n - 1) * f + 1
    return jnp.concatenate([x[:, i : i + last : f, j : j + last : f] for i in range(q) for j in range(q)], axis=-1)


def spread_out(w: jax.Array, f: int) -> jax.Array:
    """Weights (k, k, inputs, outputs) of all outputs of a cell: ((k + f - 1)^2 inputs, f^2 outputs)."""
    cells = [jnp.pad(w, ((i, f - 1 - i), (j, f - 1 - j), (0, 0), (0, 0))) for i in range(f) for j in range(f)]
    return jnp.stack(cells, axis=3).reshape(-1, f * f * w.shape[-1])


class Form(NamedTuple):
    """How a convolution becomes a matrix product.

    Attributes
    ----------
    fold : int
        Outputs of fold x fold positions in one row of patches: a whole cell of the pool, or 1.
    is_shared : bool
        Whether both models of a pair have one product in the first layer.
    first, rest : any
        Precision of the first layer and of others; "bytes" takes pixels as bfloat16, which holds bytes without
        rounding, and weights as sums of three.
    is_gathered : bool
        Patches by a table of places instead of slices.
    bytes_at_once : int
        How much the patches of the images that are taken at a time may have; 0 takes all lanes at once.
    """

    fold: int = 2
    is_shared: bool = True
    first: Any = None
    rest: Any = None
    is_gathered: bool = False
    bytes_at_once: int = 0

    def stage(self, h: jax.Array, w: jax.Array, pool: int, precision: Any) -> jax.Array:
        """Convolution and pool, without the bias."""
        seen = patches(h, w.shape[0], self.fold, self.is_gathered)
        big = spread_out(w, self.fold)
        if precision == "bytes":
            out = _by_bytes(seen.astype(jnp.bfloat16), big)
        else:
            out = jnp.dot(seen, big, precision=precision)
        out = out.reshape(*out.shape[:-1], self.fold**2, w.shape[-1]).max(-2)
        if pool == self.fold:
            return out
        m, side, _, c = out.shape
        left = pool // self.fold
        return out.reshape(m, side // left, left, side // left, left, c).max((2, 4))

    def first_stage(self, x: jax.Array, w: jax.Array, b: jax.Array, pool: int) -> jax.Array:
        """Of bytes, with the bias."""
        if self.first == "bytes":
            return jax.nn.relu(self.stage(x, w, pool, "bytes") / 255 + b)
        return jax.nn.relu(self.stage(x.astype(jnp.float32) / 255, w, pool, self.first) + b)

    def pair(self, net: Net, thetas: jax.Array, x: jax.Array) -> jax.Array:
        """Outputs (2, m, classes) of a pair of models."""
        (w, b), *others = net.unpack(thetas)
        x, convs = x[:, : net.side_used, : net.side_used], len(net.channels) - 1
        if self.is_shared:
            both = jnp.moveaxis(w, 0, -2).reshape(*w.shape[1:-1], -1)
            h = self.first_stage(x, both, b.reshape(-1), net.pool)
            hidden = jnp.moveaxis(h.reshape(*h.shape[:-1], 2, -1), -2, 0)
        else:
            hidden = jax.vmap(lambda w, b: self.first_stage(x, w, b, net.pool))(w, b)

        def rest(h: jax.Array, parts: Parts) -> jax.Array:
            for w, b in parts[:convs]:
                h = jax.nn.relu(self.stage(h, w, net.pool, self.rest) + b)
            return dense(h.reshape(len(h), -1), parts[convs:], self.rest)

        return jax.vmap(rest)(hidden, others)

    def __call__(self, net: Net, data: Any, pairs: jax.Array, indices: jax.Array) -> jax.Array:
        """Losses (lanes, 2, m)."""
        x, y = data

        def some(thetas: jax.Array, places: jax.Array) -> jax.Array:
            return losses(self.pair(net, thetas, x[places]), jnp.broadcast_to(y[places], (2, len(places))))

        if not self.bytes_at_once:
            return jax.vmap(some)(pairs, indices)
        size, m = self.images_at_once(net), indices.shape[1]

        def lane(arguments: tuple[jax.Array, jax.Array]) -> jax.Array:
            thetas, places = arguments
            found = lax.map(partial(some, thetas), places.reshape(m // size, size))
            return jnp.moveaxis(found, 0, 1).reshape(2, m)

        return lax.map(lane, (pairs, indices))

    def images_at_once(self, net: Net) -> int:
        """Images whose patches have the bytes, a power of two."""
        size = 4 * (net.side_used // self.fold * (net.kernel + self.fold - 1)) ** 2 * COLOURS
        return 2 ** max(0, round(math.log2(self.bytes_at_once / size)))


def plain_losses(net: Net, data: Any, pairs: jax.Array, indices: jax.Array, precision: Any = None) -> jax.Array:
    """Mapped over lanes and models, as the sampler does with any loss."""
    x, y = data

    def one(theta: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
        return losses(plain(net, theta, x, precision), y)

    return jax.vmap(jax.vmap(one, (0, None, None)))(pairs, x[indices], y[indices])


def forms(is_gpu: bool) -> dict[str, Callable[..., jax.Array]]:
    """Those worth a comparison on the platform; what to compare with comes last, as it may compile for minutes."""
    highest, presets = lax.Precision.HIGHEST, lax.DotAlgorithmPreset
    found: dict[str, Callable[..., jax.Array]] = {}
    if is_gpu:
        exact = {"first": "bytes", "rest": highest}
        x3 = presets.TF32_TF32_F32_X3
        found = {
            "fused, tf32x3": partial(fused, how=x3),
            "fused, tf32x3, 64 rows": partial(fused, how=x3, block=64),
            "fused, float32": partial(fused, how=highest),
            "cells, shared, highest": Form(first=highest, rest=highest),
            "cells, shared, bytes, highest": Form(**exact),
            "cells, shared, bytes, highest, gathered": Form(**exact, is_gathered=True),
            "cells, shared, bytes, tf32x3": Form(first="bytes", rest=presets.TF32_TF32_F32_X3),
            "cells, shared, bytes, bf16x6": Form(first="bytes", rest=presets.BF16_BF16_F32_X6),
            "positions, shared, bytes, highest": Form(1, **exact),
            "positions, not shared, highest": Form(1, is_shared=False, first=highest, rest=highest),
            "cells, shared, default precision": Form(),
        }
    else:
        for size in (2**18, 2**20, 2**21):
            found[f"cells, shared, {size // 1024} KiB at once"] = Form(bytes_at_once=size)
        found["positions, shared, 1024 KiB at once"] = Form(1, bytes_at_once=2**20)
        found["cells, not shared, 1024 KiB at once"] = Form(is_shared=False, bytes_at_once=2**20)
        found["cells, shared"] = Form()
        found["positions, not shared"] = Form(1, is_shared=False)
    return found | {PLAIN: plain_losses}


def in_double_precision(net: Net, theta: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Losses (m,) by NumPy."""
    parts, h = net.unpack(theta.astype(np.float64)), x / 255.0
    for (w, b), side in zip(parts, net.sides, strict=False):
        windows = np.lib.stride_tricks.sliding_window_view(h, w.shape[:2], axis=(1, 2))
        out = np.tensordot(windows, w, ((4, 5, 3), (0, 1, 2))) + b
        used, p = side * net.pool, net.pool
        h = np.maximum(out[:, :used, :used].reshape(len(x), side, p, side, p, -1).max((2, 4)), 0)
    h = h.reshape(len(x), -1)
    for i, (w, b) in enumerate(parts[len(net.channels) :]):
        h = h @ w + b
        h = h if i == len(net.hidden) else np.maximum(h, 0)
    shifted = h - h.max(1, keepdims=True)
    return np.log(np.exp(shifted).sum(1)) - shifted[np.arange(len(y)), y]


class Case(NamedTuple):
    """What is computed, and how long for."""

    net: Net
    lanes: int
    chunk: int
    seconds: float


def measured(case: Case, wanted: str, until: float) -> list[dict[str, Any]]:
    """Pairs per second of every form that is compiled in time, and the error of its losses; printed as they come."""
    net = case.net
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (IMAGES, SIDE, SIDE, COLOURS), dtype=np.uint8)
    y = rng.integers(0, CLASSES, IMAGES).astype(np.uint8)
    pairs = (0.1 * rng.standard_normal((case.lanes, 2, net.dim))).astype(np.float32)
    indices = rng.integers(0, IMAGES, (case.lanes, case.chunk), dtype=np.int32)
    some = zip(pairs[:CHECKED_LANES], indices[:CHECKED_LANES, :CHECKED], strict=True)
    true = np.array([[in_double_precision(net, theta, x[i], y[i]) for theta in pair] for pair, i in some])
    given = jax.device_put(((x, y), pairs, indices))
    rows: list[dict[str, Any]] = []
    runs: dict[str, Callable[[int], Any]] = {}
    for name, form in forms(jax.default_backend() != "cpu").items():
        if wanted not in name or time.perf_counter() > until:
            continue
        begin = time.perf_counter()
        run = partial(jax.jit(partial(_repeated, partial(form, net))), *given)
        try:
            found = np.asarray(run(1))[:CHECKED_LANES, :, :CHECKED]
        except Exception as error:  # a form that this platform or this version of XLA does not have
            print(f"{name:44s} {type(error).__name__}: {str(error).strip().splitlines()[0][:100]}", flush=True)
            continue
        runs[name] = run
        rows.append({"form": name, "error": float(np.abs(found - true).max()), "pairs_per_s": 0.0})
        rows[-1]["compile_seconds"] = time.perf_counter() - begin
        _time(rows[-1], run, case)
        _print(rows[-1], None)
    for _ in range(ROUNDS):
        for row in rows:
            _time(row, runs[row["form"]], case)
    return rows


def _time(row: dict[str, Any], run: Callable[[int], Any], case: Case) -> None:
    """One round, the best of which counts: other work on the machine only ever slows down."""
    clock = time.perf_counter if jax.default_backend() != "cpu" else time.process_time
    steps, took = 1, 0.0
    while took < case.seconds / 2:
        steps = max(steps, int(steps * min(8.0, case.seconds / max(took, 1e-6))))
        begin = clock()
        jax.block_until_ready(run(steps))
        took = clock() - begin
        row["pairs_per_s"] = max(row["pairs_per_s"], steps * case.lanes * case.chunk / took)


def _print(row: dict[str, Any], base: float | None) -> None:
    ratio = "" if base is None else f"{row['pairs_per_s'] / base:.2f}"
    print(
        f"{row['form']:44s} {row['pairs_per_s']:10.3g} {ratio:>7s} {row['error']:9.1e} {row['compile_seconds']:7.1f}s",
        flush=True,
    )


def _repeated(form: Callable[..., jax.Array], data: Any, pairs: jax.Array, indices: jax.Array, steps: Any) -> jax.Array:
    """So many times, of other images every time: nothing can be taken out of the loop."""

    def body(i: jax.Array, total: jax.Array) -> jax.Array:
        return total + form(data, pairs, (indices + 7919 * (i % 7919)) % IMAGES)

    return lax.fori_loop(0, steps, body, jnp.zeros((len(pairs), 2, indices.shape[1]), jnp.float32))


def _by_bytes(seen: jax.Array, w: jax.Array) -> jax.Array:
    """The product of whole numbers 0..255 in bfloat16 with float32, as exact as in float32."""
    pieces = []
    for _ in range(3):
        pieces.append(w.astype(jnp.bfloat16))
        w = w - pieces[-1].astype(jnp.float32)
    out = jnp.dot(seen, jnp.concatenate(pieces, axis=-1), preferred_element_type=jnp.float32)
    return out.reshape(*out.shape[:-1], 3, -1).sum(-2)


def main() -> None:
    """Print a table, and write it down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="JSON to write")
    parser.add_argument("--lanes", default="64")
    parser.add_argument("--chunk", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=0.2, help="of a round of a form")
    parser.add_argument("--only", default="", help="forms with this in their names")
    parser.add_argument("--nets", default="0", help=f"by number: {', '.join(NETS)}")
    parser.add_argument("--limit", type=float, default=90.0, help="seconds after which nothing more is compiled")
    given = parser.parse_args()
    until = time.perf_counter() + given.limit
    results: dict[str, Any] = {"device": str(jax.devices()[0]), "chunk": given.chunk, "rows": []}
    for number in given.nets.split(","):
        name, net = list(NETS.items())[int(number)]
        for lanes in map(int, given.lanes.split(",")):
            print(f"\n{name}, {net.dim} parameters, {lanes} lanes, {given.chunk} images, {results['device']}")
            print(f"{'form':44s} {'pairs/s':>10s} {'ratio':>7s} {'error':>9s} {'compile':>8s}", flush=True)
            rows = measured(Case(net, lanes, given.chunk, given.seconds), given.only, until)
            base = next((row["pairs_per_s"] for row in rows if row["form"] == PLAIN), None)
            print(f"-- all in turns, {ROUNDS} rounds")
            for row in rows:
                _print(row, base)
            results["rows"] += [{"net": name, "dim": net.dim, "lanes": lanes, **row} for row in rows]
            if given.out is not None:
                given.out.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
