"""Losses of pairs of convolutional networks: plain `lax.conv`, which becomes a grouped convolution, and ours.

    python benchmarks/conv_net.py --out conv.json

Every lane has a pair of models of its own and images of its own. All forms take turns in one process, the best round
of each counts, and the losses of each are compared with those in double precision. On CPUs the time is that of the
processor, on one core with ``XLA_FLAGS="--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"``.

The first network takes 0.69e6 multiply-adds of a pair and an image. In float32 an H200 (67e12 operations a second) can
do 4.9e7 of them a second at most. Measured there, 64 lanes: ours 1.2e7, plain 4.4e6 with losses of TF32 (errors of
2.5e-4) and 2.8e6 with those of float32, which ours have. Ten times the plain one, 4.4e7, is out of reach of float32.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import trajens as tj
from trajens.losses import losses_of_pairs
from trajens.models import ConvNet
from trajens.problem import Problem

IMAGES, SHAPE, CLASSES = 5000, (32, 32, 3), 10
CHECKED_LANES, CHECKED = 2, 32
ROUNDS = 3
PLAIN = "plain lax.conv"
NETS = {
    "3x3 x 8,16": tj.models.conv_net(SHAPE, (8, 16), 3, 2, 16, CLASSES),
    "5x5 x 16,16": tj.models.conv_net(SHAPE, (16, 16), 5, 2, (), CLASSES),
}
Form = Callable[[Any, jax.Array, jax.Array], jax.Array]


def plain(net: ConvNet, precision: Any, theta: jax.Array, x: jax.Array) -> jax.Array:
    """Outputs of one model, as one writes it in JAX."""
    parts, h = net.unpack(theta), x.astype(jnp.float32) / 255
    for (w, b), p in zip(parts, net.pools, strict=False):
        names = ("NHWC", "HWIO", "NHWC")
        h = lax.conv_general_dilated(h, w, (1, 1), "VALID", dimension_numbers=names, precision=precision) + b
        h = jax.nn.relu(lax.reduce_window(h, -jnp.inf, lax.max, (1, p, p, 1), (1, p, p, 1), "VALID"))
    h = h.reshape(len(h), -1)
    *hidden, (w, b) = parts[len(net.pools) :]
    for w_h, b_h in hidden:
        h = jax.nn.relu(jnp.dot(h, w_h, precision=precision) + b_h)
    return jnp.dot(h, w, precision=precision) + b


def forms(net: ConvNet, problem: Problem) -> dict[str, Form]:
    """Those worth a comparison on the platform."""
    loss = problem.loss
    assert isinstance(loss, tj.losses.CrossEntropy)
    of_pair = jax.vmap(jax.vmap(loss.of_outputs, (0, None)))

    def mapped(precision: Any, data: Any, pairs: jax.Array, indices: jax.Array) -> jax.Array:
        both = jax.vmap(partial(plain, net, precision), (0, None))
        return of_pair(jax.vmap(both)(pairs, data.x[indices]), data.y[indices])

    def by(outputs: Callable[..., jax.Array], data: Any, pairs: jax.Array, indices: jax.Array) -> jax.Array:
        said = outputs(pairs, data.x, indices, jnp.ones(len(pairs), bool))
        return of_pair(said, data.y[indices])

    def ours(data: Any, pairs: jax.Array, indices: jax.Array) -> jax.Array:
        return losses_of_pairs(loss, data, pairs, indices, jnp.ones(len(pairs), bool))

    found: dict[str, Form] = {"ours": ours, PLAIN: partial(mapped, None)}
    if jax.default_backend() != "cpu":
        found["plain lax.conv, highest"] = partial(mapped, lax.Precision.HIGHEST)
    return found | {"cells, all lanes at once": partial(by, net._by_lanes)}


def in_double_precision(net: ConvNet, theta: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Losses (m,) by NumPy."""
    parts, h = net.unpack(theta.astype(np.float64)), x / 255.0  # type: ignore[arg-type]
    for (w, b), p, (rows, columns) in zip(parts, net.pools, net.sides, strict=False):
        windows = np.lib.stride_tricks.sliding_window_view(h, w.shape[:2], axis=(1, 2))
        out = np.tensordot(windows, np.asarray(w), ((4, 5, 3), (0, 1, 2))) + b
        out = out[:, : rows * p, : columns * p].reshape(len(x), rows, p, columns, p, -1)
        h = np.maximum(out.max((2, 4)), 0)
    h = h.reshape(len(x), -1)
    for i, (w, b) in enumerate(parts[len(net.pools) :]):
        h = h @ w + b
        h = h if i == len(net.hidden) else np.maximum(h, 0)
    shifted = h - h.max(1, keepdims=True)
    losses: np.ndarray = np.log(np.exp(shifted).sum(1)) - shifted[np.arange(len(y)), y]
    return losses


class Case(NamedTuple):
    """What is computed, and how long for."""

    net: ConvNet
    lanes: int
    chunk: int
    seconds: float


def measured(case: Case, wanted: str, until: float) -> list[dict[str, Any]]:
    """Pairs per second of every form that is compiled in time, and the error of its losses; printed as they come."""
    net = case.net
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (IMAGES, *SHAPE), dtype=np.uint8)
    y = rng.integers(0, CLASSES, IMAGES).astype(np.uint8)
    problem = net.problem(x, y)
    pairs = (0.1 * rng.standard_normal((case.lanes, 2, net.dim))).astype(np.float32)
    indices = rng.integers(0, IMAGES, (case.lanes, case.chunk), dtype=np.int32)
    some = zip(pairs[:CHECKED_LANES], indices[:CHECKED_LANES, :CHECKED], strict=True)
    true = np.array([[in_double_precision(net, theta, x[i], y[i]) for theta in pair] for pair, i in some])
    given = problem.data, jnp.asarray(pairs), jnp.asarray(indices)
    rows: list[dict[str, Any]] = []
    runs: dict[str, Callable[[int], Any]] = {}
    for name, form in forms(net, problem).items():
        if wanted not in name or time.perf_counter() > until:
            continue
        begin = time.perf_counter()
        run = partial(jax.jit(partial(_repeated, form)), *given)
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


def _repeated(form: Form, data: Any, pairs: jax.Array, indices: jax.Array, steps: Any) -> jax.Array:
    """So many times, of other images every time: nothing can be taken out of the loop."""

    def body(i: jax.Array, total: jax.Array) -> jax.Array:
        return total + form(data, pairs, (indices + 7919 * (i % 7919)) % IMAGES)

    return lax.fori_loop(0, steps, body, jnp.zeros((len(pairs), 2, indices.shape[1]), jnp.float32))


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
