"""Chain-epochs per second on the perceptron, against a plain Python/NumPy loop of the paper's Algorithm 1.

2 parameters, N = 256, chunk 32, tau = 8, s = 20, sigma = 0.1, 64 chains, one virtual device per core. Both sides run in
turn in the same process; the best of several rounds counts, since other work on a machine only ever slows things down.

    python benchmarks/perceptron.py [--json]
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from typing import Any

import jax
import numpy as np

CHAINS, TAU, S, SIGMA, CHUNK = 64, 8, 20.0, 0.1, 32
EPOCHS, ROUNDS, LOOP_EPOCHS = 60_000, 4, 4_000


def algorithm_1(x: np.ndarray, y: np.ndarray, epochs: int, seed: int = 0) -> np.ndarray:
    """One chain of the paper's Algorithm 1 (errata applied), one step at a time, as one would write it in NumPy."""
    from trajens.acceptance.barker import correction_table

    table = correction_table(1.0, "ridge")
    cumulative = np.cumsum(table.probabilities)
    rng = np.random.default_rng(seed)
    size = len(y)
    path = np.cumsum(SIGMA * rng.standard_normal((TAU, 2)), axis=0)
    for _ in range(epochs):
        t = rng.integers(TAU)
        neighbours = path[[i for i in (t - 1, t + 1) if 0 <= i < TAU]]
        proposal = neighbours.mean(0) + SIGMA / np.sqrt(len(neighbours)) * rng.standard_normal(2)
        order = rng.permutation(size)
        deltas = np.empty(0)
        while True:
            batch = order[len(deltas) : len(deltas) + CHUNK]
            new, old = (0.5 * (y[batch] - x[batch] @ theta) ** 2 for theta in (proposal, path[t]))
            deltas = np.concatenate([deltas, -S * (new - old)])
            delta, rho2 = deltas.mean(), deltas.var(ddof=1) / len(deltas)
            if len(deltas) == size:
                is_accepted = delta + rng.logistic() > 0
            elif abs(delta) > 10 + 5 * np.sqrt(rho2):
                is_accepted = delta > 0
            elif rho2 <= 1:
                x_corr = table.atoms[np.searchsorted(cumulative, rng.random())] * rng.choice((-1, 1))
                is_accepted = delta + np.sqrt(1 - rho2) * rng.standard_normal() + x_corr > 0
            else:
                continue
            break
        if is_accepted:
            path[t] = proposal
    return path


def measure() -> dict[str, Any]:
    """Chain-epochs/s of every scan and test, and of the loop."""
    import trajens as tj

    data = tj.datasets.perceptron()
    target = tj.Target(data.problem(), TAU, SIGMA, S)
    cases = {
        f"{scan}, {name}": (scan, test)
        for scan in ("random", "checkerboard")
        for name, test in (("penalty", tj.Penalty(CHUNK)), ("paper's test", tj.paper_test(CHUNK)))
    }
    best = dict.fromkeys([*cases, "NumPy loop"], 0.0)
    algorithm_1(data.x, data.y, 10)
    for number in range(ROUNDS + 1):
        for name, (scan, test) in cases.items():
            begin = time.perf_counter()
            how: dict[str, Any] = {"move": tj.SingleSite(), "acceptance": test, "scan": scan}
            tj.sample(target, EPOCHS, chains=CHAINS, burn_in=1000, records=20, **how)
            if number > 0:  # the first round compiles
                best[name] = max(best[name], CHAINS * EPOCHS / (time.perf_counter() - begin))
        begin = time.perf_counter()
        algorithm_1(data.x, data.y, LOOP_EPOCHS)
        best["NumPy loop"] = max(best["NumPy loop"], LOOP_EPOCHS / (time.perf_counter() - begin))
    loop = best["NumPy loop"]
    return {
        "chain_epochs_per_second": best,
        "ratio_to_numpy_loop": {name: best[name] / loop for name in cases},
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "jax": jax.__version__,
        "python": platform.python_version(),
    }


def main() -> None:
    """Print a table, or JSON with --json."""
    jax.config.update("jax_num_cpu_devices", os.cpu_count())
    result = measure()
    if "--json" in sys.argv[1:]:
        print(json.dumps(result))
        return
    print(f"{result['cores']} cores ({result['machine']}), JAX {result['jax']}, Python {result['python']}")
    for name, rate in result["chain_epochs_per_second"].items():
        ratio = result["ratio_to_numpy_loop"].get(name, 1.0)
        print(f"{name:28s} {rate:12.3g} chain-epochs/s {ratio:8.0f} x the NumPy loop")


if __name__ == "__main__":
    main()
