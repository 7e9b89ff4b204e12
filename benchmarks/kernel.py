"""Image pairs per second: the native kernel at every level, the JAX definition and PyTorch, on the same cores.

    python benchmarks/kernel.py          # a table
    python benchmarks/kernel.py --json   # one JSON object

PyTorch is timed where it is installed.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

from trajens.app.cli.environment import num_cores
from trajens.datasets import mnist
from trajens.kernels import library
from trajens.kernels.cpu_levels import NAMES, CpuLevels
from trajens.losses import losses_of_pairs, reference_losses
from trajens.models import Mlp, cnn, mlp
from trajens.models.base import Model

MULTIPLY_ADDS = 2 * (400 * 25 * 16 + 64 * 144 * 8 + 32 * 10)
"""Multiply-adds of the paper's CNN for a pair of models and one image, dead rows and columns left out."""


def bench_kernel(cores: int, lanes: int = 8, chunk: int = 240, rounds: int = 5, seconds: float = 0.5) -> dict[str, Any]:
    """Pairs/s of every implementation at hand, ratios to the JAX definition, and shares of what the CPU's units allow.

    The native kernel is timed at every level of vector instructions that the machine can run. The implementations take
    turns, and the best round of each counts: other work on the machine only ever slows down.
    """
    cases = _cases(cnn(), lanes, chunk)
    cases["cnn, PyTorch conv2d"] = _torch_case(lanes, chunk)
    cases |= _cases(mlp((784, 32, 10)), lanes, chunk)
    runs = {name: run for name, run in cases.items() if run is not None}
    rates, limits = dict.fromkeys(runs, 0.0), _Limits(cores)
    for run in runs.values():
        run()
    for _ in range(rounds):
        limits.measure(seconds / rounds)
        for name, run in runs.items():
            # Threads of what ran before go on waiting for work for a while, and take a core.
            run()
            count, begin = 0, time.perf_counter()
            while time.perf_counter() - begin < seconds / rounds or count == 0:
                run()
                count += 1
            rates[name] = max(rates[name], lanes * chunk * count / (time.perf_counter() - begin))
    fallback = rates["cnn, JAX definition"]
    return {
        "pairs_per_second": rates,
        "ratio_to_jax": {name: rate / fallback for name, rate in rates.items() if name.startswith("cnn")},
        "share_of_limit": {name: rates[name] / limit for name, limit in limits.pairs_per_second.items()},
        "limit": limits.pairs_per_second,
        "lanes": lanes,
        "chunk": chunk,
        "cores": cores,
        "kernel": library().explanation,
    }


class _Limits:
    """Pairs/s that the multiply-add units of some cores allow, for every level of the native kernel."""

    def __init__(self, cores: int):
        levels = library().levels
        self._cores, self._levels = cores, levels
        self.pairs_per_second = {} if levels is None else {_native("cnn", name): 0.0 for name in levels.names}

    def measure(self, seconds: float) -> None:
        """Look once more; the best counts."""
        if self._levels is None:
            return
        for level in self._levels.names:
            with _at(self._levels, level):
                allowed = self._cores * self._levels.multiply_adds_per_second(seconds) / MULTIPLY_ADDS
            name = _native("cnn", level)
            self.pairs_per_second[name] = max(self.pairs_per_second[name], allowed)


@contextmanager
def _at(levels: CpuLevels, name: str) -> Iterator[None]:
    """Another level of instructions, for a while."""
    before = levels.in_use
    levels.use(name)
    try:
        yield
    finally:
        levels.use(before)


def _native(model: str, level: str) -> str:
    return f"{model}, native kernel, {NAMES[level]}"


def _cases(model: Model, lanes: int, chunk: int) -> dict[str, Callable[[], Any] | None]:
    data = mnist()
    problem = model.problem(data.train_x, data.train_y)
    pairs, indices = _inputs(model, lanes, chunk)
    is_active = jnp.ones(lanes, bool)
    definition = jax.jit(lambda p, i: reference_losses(problem.loss, problem.data, p, i))
    name = "mlp 784-32-10" if isinstance(model, Mlp) else "cnn"
    cases: dict[str, Callable[[], Any] | None] = {
        f"{name}, JAX definition": lambda: definition(pairs, indices).block_until_ready()
    }
    if model.kernel is None or not library().is_loaded:
        return cases
    compiled = jax.jit(lambda p, i, a: losses_of_pairs(problem.loss, problem.data, p, i, a))

    def native() -> Any:
        return compiled(pairs, indices, is_active).block_until_ready()

    def native_at(levels: CpuLevels, level: str) -> Any:
        with _at(levels, level):
            return native()

    levels = library().levels
    if levels is None:
        return {**cases, f"{name}, native kernel": native}
    return {**cases, **{_native(name, level): partial(native_at, levels, level) for level in levels.names}}


def _torch_case(lanes: int, chunk: int) -> Callable[[], Any] | None:
    """The same network as one would write it in PyTorch, one model at a time; None where it is not installed."""
    try:
        import torch  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return None
    from torch.nn import functional as f  # type: ignore[import-not-found,unused-ignore]

    data = mnist()
    pairs, indices = _inputs(cnn(), lanes, chunk)
    images = torch.tensor(data.train_x[np.asarray(indices)]).float()[:, :, None] / 255.0
    labels = torch.tensor(data.train_y[np.asarray(indices)].astype(np.int64))
    layers = []
    for theta in np.asarray(pairs).reshape(-1, 1906):
        (w1, b1), (w2, b2), (w3, b3) = (tuple(map(np.asarray, p)) for p in cnn().unpack(theta))  # type: ignore[arg-type]
        order = (w1.transpose(3, 2, 0, 1), b1, w2.transpose(3, 2, 0, 1), b2, w3.T, b3)
        layers.append([torch.tensor(np.ascontiguousarray(w)) for w in order])

    def run() -> Any:
        with torch.no_grad():
            for i, (w1, b1, w2, b2, w3, b3) in enumerate(layers):
                h = f.relu(f.max_pool2d(f.conv2d(images[i // 2], w1, b1), 2))
                h = f.relu(f.max_pool2d(f.conv2d(h, w2, b2), 4))
                f.cross_entropy(f.linear(h.permute(0, 2, 3, 1).flatten(1), w3, b3), labels[i // 2], reduction="none")

    return run


def _inputs(model: Model, lanes: int, chunk: int) -> tuple[jax.Array, jax.Array]:
    rng = np.random.default_rng(0)
    pairs = np.stack([model.init(seed) for seed in range(2 * lanes)]).reshape(lanes, 2, model.dim)
    return jnp.asarray(pairs), jnp.asarray(rng.integers(0, 60_000, (lanes, chunk)), jnp.int32)


def main() -> None:
    """Time all and print it."""
    parser = argparse.ArgumentParser(description="Measure how fast the kernels are on this machine.")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    is_json = parser.parse_args().json
    result = bench_kernel(num_cores())
    if is_json:
        print(json.dumps(result))
        return
    table = Table(
        title=f"{result['lanes']} lanes x {result['chunk']} images on {result['cores']} cores",
        caption="limit: what the multiply-add units of these cores allow" if result["limit"] else None,
    )
    for heading in ("loss", "image pairs/s", "a core", "ratio to JAX", "share of the limit"):
        table.add_column(heading, justify="left" if heading == "loss" else "right")
    for name, rate in result["pairs_per_second"].items():
        ratio, share = result["ratio_to_jax"].get(name), result["share_of_limit"].get(name)
        table.add_row(
            name,
            f"{rate:.3g}",
            f"{rate / result['cores']:.3g}",
            "" if ratio is None else f"{ratio:.1f}",
            "" if share is None else f"{share:.2f}",
        )
    Console().print(table)


if __name__ == "__main__":
    main()
