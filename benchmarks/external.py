"""What an evaluation costs that is made on the host: `python benchmarks/external.py`.

Prints microseconds per call of the host from a compiled program, what starting a program takes, and pairs of losses per
second of one run with the same loss in JAX, in NumPy (one model at a time, and all at once), in C and PyTorch. A pair
is the current and the proposed model on one example.
"""

from __future__ import annotations

import argparse
import ctypes
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import trajens as tj
from trajens.host import call_host

INPUTS, HIDDEN, SIZE = 8, 16, 4096
DIM = INPUTS * HIDDEN + HIDDEN
SOURCE = """
#include <cmath>
extern "C" void losses(const float* theta, const float* x, const float* y, float* out, int m) {
  for (int i = 0; i < m; i++) {
    float f = 0;
    for (int h = 0; h < 16; h++) {
      float a = 0;
      for (int d = 0; d < 8; d++) a += x[8 * i + d] * theta[16 * d + h];
      f += theta[128 + h] * std::tanh(a);
    }
    out[i] = 0.5f * (y[i] - f) * (y[i] - f);
  }
}
"""


def of_numpy(theta: np.ndarray, batch: Any) -> Any:
    """(y - v . tanh(x W))^2 / 2 of one model."""
    x, y = batch
    return 0.5 * (y - np.tanh(x @ theta[:-HIDDEN].reshape(INPUTS, HIDDEN)) @ theta[-HIDDEN:]) ** 2


def of_many(thetas: np.ndarray, batches: Any) -> Any:
    """The same loss of many models at once."""
    x, y = batches
    hidden = np.tanh(x @ thetas[:, :-HIDDEN].reshape(-1, INPUTS, HIDDEN))
    return 0.5 * (y - (hidden @ thetas[:, -HIDDEN:, None])[..., 0]) ** 2


def of_jax(theta: jax.Array, batch: Any) -> jax.Array:
    """The same loss in JAX."""
    x, y = batch
    return 0.5 * (y - jnp.tanh(x @ theta[:-HIDDEN].reshape(INPUTS, HIDDEN)) @ theta[-HIDDEN:]) ** 2


def of_c(folder: Path) -> Callable[..., Any] | None:
    """The same loss in C++, or None without a compiler."""
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        return None
    (folder / "loss.cc").write_text(SOURCE)
    command = [compiler, "-O3", "-march=native", "-ffast-math", "-shared", "-fPIC", "loss.cc", "-o", "loss.so"]
    subprocess.run(command, cwd=folder, check=True)
    function = ctypes.CDLL(str(folder / "loss.so")).losses

    def loss(theta: np.ndarray, batch: Any) -> np.ndarray:
        x, y = (np.ascontiguousarray(part, np.float32) for part in batch)
        theta, out = np.ascontiguousarray(theta), np.empty(len(y), np.float32)
        pointers = (ctypes.c_void_p(array.ctypes.data) for array in (theta, x, y, out))
        function(*pointers, len(y))
        return out

    return loss


def of_torch(data: Any) -> tj.Problem | None:
    """The same loss in PyTorch, or None without it."""
    try:
        import torch
    except ImportError:
        return None
    layers = torch.nn.Linear(INPUTS, HIDDEN, bias=False), torch.nn.Linear(HIDDEN, 1, bias=False)
    return tj.from_torch(torch.nn.Sequential(layers[0], torch.nn.Tanh(), layers[1]), "squared", data)


def microseconds_per_call(arrays: tuple[Any, ...], calls: int = 2000) -> float:
    """Time of a host call that does nothing, from inside of a compiled loop."""

    def nothing(*given: np.ndarray) -> np.ndarray:
        return np.zeros((), np.float32)

    @jax.jit
    def loop(*given: Any) -> jax.Array:
        step = lambda _, total: total + call_host(nothing, (), given[0] + total, *given[1:])  # noqa: E731
        found: jax.Array = jax.lax.fori_loop(0, calls, step, jnp.float32(0))
        return found

    loop(*arrays).block_until_ready()
    begin = time.perf_counter()
    loop(*arrays).block_until_ready()
    return 1e6 * (time.perf_counter() - begin) / calls


def milliseconds_per_program(calls: int = 100) -> float:
    """Time to start the shortest of programs and to read what it prints."""
    begin = time.perf_counter()
    for _ in range(calls):
        subprocess.run(["true"], input=b"", capture_output=True, check=True)
    return 1e3 * (time.perf_counter() - begin) / calls


def pairs_per_second(problem: tj.Problem, chains: int, chunk: int, seconds: float) -> float:
    """Pairs that a run decides with, per second, after it is compiled."""
    target = tj.Target(problem, tau=8, sigma=0.05, s=1000.0, prior=1.0)
    sampler = tj.Sampler(target, tj.Settings(chains=chains, acceptance=tj.Penalty(chunk), devices=jax.devices()[:1]))
    state, _ = sampler.advance(sampler.init(np.zeros(DIM)), 50)
    pairs, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        state, tally = sampler.advance(state, 50)
        pairs += int(np.sum(tally.evaluations))
    return pairs / (time.perf_counter() - begin)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0)
    seconds = parser.parse_args().seconds
    for kilobytes in (1, 100, 10_000):
        given = (jnp.zeros(250 * kilobytes, jnp.float32),)
        print(f"host call with {kilobytes} kB: {microseconds_per_call(given, 200):.0f} us")
    print(f"start of a program: {milliseconds_per_program():.1f} ms")
    rng = np.random.default_rng(0)
    x = rng.standard_normal((SIZE, INPUTS)).astype(np.float32)
    data = x, np.tanh(x[:, 0] * x[:, 1]).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        in_c = of_c(Path(folder))
        problems: dict[str, tj.Problem | None] = {
            "JAX": tj.Problem(of_jax, data, DIM),
            "NumPy": tj.external(of_numpy, data, DIM),
            "NumPy, vectorised": tj.external(of_many, data, DIM, vectorised=True),
            "C": None if in_c is None else tj.external(in_c, data, DIM),
            "PyTorch": of_torch(data),
        }
        cases = (1, 32), (1, 512), (16, 512)
        print("pairs/s".ljust(20), *(f"{chains} chains, chunks of {chunk}".rjust(24) for chains, chunk in cases))
        for name, problem in problems.items():
            if problem is not None:
                rates = (pairs_per_second(problem, *case, seconds) for case in cases)
                print(name.ljust(20), *(f"{rate:,.0f}".rjust(24) for rate in rates), flush=True)


if __name__ == "__main__":
    main()
