"""Costs that must not grow faster than what is asked for: time and memory of one thing at two sizes, a process each.

    python benchmarks/growth.py            # all cases
    python benchmarks/growth.py records    # those whose name begins with this

Memory is what the process had at most beyond what it had before the case, and beyond what must be there anyway where
the case says so. Programs are compiled before the clock starts, but where compilation is what is timed.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
from rich.console import Console
from rich.table import Table

MEGABYTE = 2**20


def measuring(records: int) -> dict[str, Any]:
    """5000 epochs of the CNN at tau = 16, recorded so often."""
    import trajens as tj

    digits = tj.datasets.mnist()
    problem = tj.models.cnn().problem(digits.train_x, digits.train_y)
    target = tj.Target(problem, 16, 0.05, 50.0, 0.3)
    how: dict[str, Any] = {"chains": 1, "acceptance": tj.Penalty(240), "move": tj.SingleSite(0.25), "burn_in": 0}
    tj.sample(target, 5000 // records, records=1, **how)
    return timed(lambda: tj.sample(target, 5000, records=records, **how))


def compiling(chains: int) -> dict[str, Any]:
    """The perceptron, from the call to the first record."""
    import trajens as tj

    target = tj.Target(tj.datasets.perceptron().problem(), 8, 0.1, 20.0)
    jax.devices()
    return timed(lambda: tj.sample(target, 64, chains=chains, records=2))


def data(devices: int) -> dict[str, Any]:
    """A data set of 763 MB on so many CPU devices."""
    jax.config.update("jax_num_cpu_devices", devices)
    import trajens as tj

    x = np.ones((1_000_000, 199), np.float32)
    y = np.ones(1_000_000, np.float32)

    def run() -> None:
        problem = tj.models.linear(199).problem(x, y, "squared")
        tj.sample(tj.Target(problem, 2, 0.1, 1.0, 1.0), 8, chains=devices, records=1, burn_in=0)

    return timed(run) | {"needed": (x.nbytes + y.nbytes) / MEGABYTE}


def paths(dim: int) -> dict[str, Any]:
    """Paths of 512 models, with checkpoints as often as the default says."""
    import trajens as tj

    def loss(theta: jax.Array, batch: jax.Array) -> jax.Array:
        return (batch[:, 0] - theta[:10].sum()) ** 2

    target = tj.Target(tj.Problem(loss, np.ones((64, 1), np.float32), dim), 512, 0.1, 1.0, 1.0)
    with tempfile.TemporaryDirectory() as folder:
        how: dict[str, Any] = {"chains": 1, "records": 2, "move": tj.SingleSite(0.25), "burn_in": 0}
        return timed(lambda: tj.sample(target, 2048, out=Path(folder) / "run", **how)) | {
            "needed": 512 * dim * 4 / MEGABYTE
        }


def evaluating(inputs: int) -> dict[str, Any]:
    """Scores of 256 small networks."""
    import trajens as tj

    model = tj.models.mlp((16, 4, 10))
    ensemble = tj.Ensemble(model, np.stack([model.init(k) for k in range(256)]))
    x, y = np.ones((inputs, 16), np.float32), np.zeros(inputs, np.int64)
    ensemble.evaluate(x[:1000], y[:1000])
    return timed(lambda: ensemble.evaluate(x, y)) | {"needed": x.nbytes / MEGABYTE}


def keeping(records: int) -> dict[str, Any]:
    """Paths of 16 models of 1906 parameters kept in memory at every record."""
    target = _wide()
    import trajens as tj

    tj.sample(target, 32, chains=1, records=2, burn_in=0, keep_paths=True)
    kept = records * 16 * 1906 * 4 / MEGABYTE
    how: dict[str, Any] = {"chains": 1, "records": records, "burn_in": 0, "keep_paths": True}
    return timed(lambda: tj.sample(target, 4 * records, **how)) | {"needed": kept}


def history(records: int) -> dict[str, Any]:
    """The same on the disk, read back lazily."""
    target = _wide()
    import trajens as tj

    tj.sample(target, 32, chains=1, records=2, burn_in=0)

    def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            how: dict[str, Any] = {"chains": 1, "records": records, "burn_in": 0, "keep_paths": True}
            tj.sample(target, 4 * records, out=Path(folder) / "run", **how)
            kept = tj.StoredRun(Path(folder) / "run").history
            assert kept is not None
            assert kept.shape == (1, records, 16, 1906)

    return timed(run) | {"needed": 0.0}


def records(chains: int) -> dict[str, Any]:
    """60 records of so many chains, read back."""
    import trajens as tj

    target = tj.Target(tj.datasets.perceptron().problem(), 2, 0.1, 20.0)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        tj.sample(target, 120, chains=chains, records=60, out=out)
        return timed(lambda: tj.StoredRun(out).records)


CASES: dict[Callable[[int], dict[str, Any]], tuple[int, ...]] = {
    measuring: (5, 200),
    compiling: (1, 64, 1024),
    data: (1, 8),
    paths: (10_000, 100_000),
    evaluating: (10_000, 60_000),
    keeping: (500, 4000),
    history: (1000, 10_000),
    records: (64, 256, 7200),
}


def timed(work: Callable[[], Any]) -> dict[str, Any]:
    """Seconds and megabytes of some work."""
    before, begin = _peak(), time.perf_counter()
    work()
    return {"seconds": time.perf_counter() - begin, "memory": _peak() - before}


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _wide() -> Any:
    """A target of 1906 parameters that costs next to nothing."""
    import trajens as tj

    problem = tj.Problem(lambda theta, batch: batch[:, 0] * theta.sum(), np.ones((8, 1), np.float32), 1906)
    return tj.Target(problem, 16, 0.1, 1.0, 1.0)


def main() -> None:
    """Every case in a process of its own."""
    if len(sys.argv) == 4 and sys.argv[1] == "--case":
        case = next(case for case in CASES if case.__name__ == sys.argv[2])
        print(json.dumps(case(int(sys.argv[3]))))
        return
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    table = Table(title="costs at growing sizes")
    for heading in ("case", "size", "seconds", "memory, MB", "needed anyway, MB"):
        table.add_column(heading, justify="left" if heading == "case" else "right")
    for case, sizes in CASES.items():
        if not case.__name__.startswith(wanted):
            continue
        for size in sizes:
            command = [sys.executable, __file__, "--case", case.__name__, str(size)]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            found = json.loads(done.stdout.splitlines()[-1])
            needed = f"{found['needed']:.0f}" if "needed" in found else ""
            table.add_row(case.__name__, f"{size:,}", f"{found['seconds']:.2f}", f"{found['memory']:.0f}", needed)
    Console().print(table)


if __name__ == "__main__":
    main()
