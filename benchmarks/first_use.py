"""What somebody waits for who uses trajens for the first time: importing, compiling, installing.

    python benchmarks/first_use.py --old ../older --out first.json           # this tree and an older one, side by side
    python benchmarks/first_use.py --old ../older --gpu --out first.json     # with the row for a GPU, each row once
    python benchmarks/first_use.py --install --out first.json                # pip install . in an empty place

Every row is a process of its own, with nothing compiled yet and again with what the first has left. Both trees take
turns, and medians of a few rounds count. Seconds are those on the clock, and in brackets those of the processor, for
the clock of a shared machine shows what others do as well. Of the first process besides: how many programs JAX was
asked for, and the seconds that compiling them took, one after the other.

From Python, JAX keeps programs only where it is told a folder: here all rows tell it one.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
ROUNDS = 3
COUNTING = """
import atexit, json, os
import jax
seen = {"programs": 0, "compiling": 0.0, "hits": 0}
def lasted(event, seconds, **_):
    if event == "/jax/core/compile/backend_compile_duration":
        seen["programs"] += 1
        seen["compiling"] += seconds
def happened(event, **_):
    seen["hits"] += event == "/jax/compilation_cache/cache_hits"
jax.monitoring.register_event_duration_secs_listener(lasted)
jax.monitoring.register_event_listener(happened)
atexit.register(lambda: open(os.environ["FIRST_USE"], "w").write(json.dumps(seen)))
"""
"""Tells what was compiled, in a file."""
TABLE = """
import numpy as np
rng = np.random.default_rng(0)
x = rng.standard_normal((500, 10)).astype(np.float32)
y = (x @ rng.standard_normal(10) > 0).astype(np.int32)
"""
COMMAND = "import runpy, sys; sys.argv = ['trajens', *{}]; runpy.run_module('trajens', run_name='__main__')"
MNIST = "mnist --budget 1e6"
GPU = "tj.train, MNIST on the GPU, 5e7 pairs"
ROWS = {
    "import trajens, and a first name": "import trajens; trajens.sample",
    "tj.sample, perceptron": """
import trajens as tj
target = tj.Target(tj.datasets.perceptron().problem(), tau=8, sigma=0.1, s=20.0)
print(tj.sample(target, 2000, chains=4).summary())
""",
    "tj.train, table of 500 x 10, 1e6 pairs": TABLE
    + """
import trajens as tj
run = tj.train(tj.models.mlp((10, 16, 2)).problem(x, y), budget=1e6, progress=False)
print(run.summary())
""",
    "estimator, first fit, 1e6 pairs": TABLE
    + """
from trajens.estimators import TrajectoryEnsembleClassifier
print(TrajectoryEnsembleClassifier(budget=1e6, random_state=0).fit(x, y).score(x, y))
""",
    "trajens train perceptron": COMMAND.format(["train", "perceptron", "--epochs", "2000", "--chains", "4"]),
    f"trajens train {MNIST}": COMMAND.format(["train", *MNIST.split()]),
    GPU: """
import trajens as tj
digits = tj.datasets.mnist()
print(tj.train(tj.models.cnn().problem(digits.train_x, digits.train_y), tau=16, budget=5e7, progress=False).summary())
""",
}
UNPACK = "import trajens; trajens.datasets.mnist()"
"""Before the clock starts, as for somebody whose data are at hand."""
START = "import jax; print(jax.devices()[0].platform)"
Spent = dict[str, float]


def in_process(program: list[str | Path], **environment: str) -> Spent:
    """Seconds of a process, on the clock and of the processor."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(program, capture_output=True, text=True, env={**os.environ, **environment}, cwd=ROOT)
    clock, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{program} has failed:\n{done.stderr[-4000:]}")
    return {"clock": clock, "processor": sum(after[:2]) - sum(before[:2])}


def cold_and_warm(tree: Path, row: str, folder: Path) -> dict[str, Spent]:
    """A row with nothing compiled yet, and again."""
    told = {
        "PYTHONPATH": str(tree / "src"),
        "TRAJENS_CACHE": str(folder),
        "JAX_COMPILATION_CACHE_DIR": str(folder / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "CUDA_CACHE_PATH": str(folder / "cuda"),
        "FIRST_USE": str(folder / "seen.json"),
        # Modules are kept compiled, as they are for everybody after the first import.
        "PYTHONDONTWRITEBYTECODE": "",
    }
    if "mnist" in row.lower():
        in_process([sys.executable, "-c", UNPACK], **told, JAX_PLATFORMS="cpu")
    is_import = row == next(iter(ROWS))
    program: list[str | Path] = [sys.executable, "-c", ROWS[row] if is_import else COUNTING + ROWS[row]]
    found = {}
    for name in ("cold", "warm"):
        found[name] = in_process(program, **told)
        if not is_import:
            found[name] |= json.loads((folder / "seen.json").read_text())
    return found


def side_by_side(trees: dict[str, Path], rows: list[str], rounds: int) -> dict[str, Any]:
    """Medians of every row in every tree."""
    runs: dict[str, dict[str, list[dict[str, Spent]]]] = {row: {tree: [] for tree in trees} for row in rows}
    for number in range(rounds):
        for row in rows:
            for tree in list(trees)[:: -1 if number % 2 else 1]:
                with tempfile.TemporaryDirectory() as folder:
                    runs[row][tree].append(cold_and_warm(trees[tree], row, Path(folder)))
                print(f"{number + 1}/{rounds} {row}, {tree}: {runs[row][tree][-1]}", file=sys.stderr, flush=True)
    return {row: {tree: _medians(found) for tree, found in of_row.items()} for row, of_row in runs.items()}


def _medians(found: list[dict[str, Spent]]) -> dict[str, Spent]:
    first = found[0]
    return {
        when: {name: statistics.median(one[when][name] for one in found) for name in spent}
        for when, spent in first.items()
    }


def table(found: dict[str, Any]) -> str:
    """Clock seconds and, in brackets, those of the processor; ratios are new to old."""
    trees = list(next(iter(found.values())))
    is_compared = len(trees) > 1
    head = [f"{when}, {tree}" for when in ("cold", "warm") for tree in trees]
    head[len(trees) : len(trees)] = ["ratio"] * is_compared
    lines = ["| | " + " | ".join([*head, *["ratio"] * is_compared, "programs, compiling, cold"]) + " |"]
    lines.append("|---" * (lines[0].count("|") - 1) + "|")
    for row, of_row in found.items():
        cells = []
        for when in ("cold", "warm"):
            spent = [of_row[tree][when] for tree in trees]
            cells += [f"{one['clock']:.2f} ({one['processor']:.2f})" for one in spent]
            if is_compared:
                cells.append(" ".join(f"{spent[-1][name] / spent[0][name]:.2f}" for name in ("clock", "processor")))
        counts = [of_row[tree]["cold"] for tree in trees]
        cells.append("; ".join(f"{one['programs']:.0f}, {one['compiling']:.1f} s" for one in counts if "hits" in one))
        lines.append(f"| {row} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def installed() -> dict[str, Spent]:
    """A new virtual environment, ``pip install .`` and a first result in it."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / "bin" / "python"
        clean = {"TRAJENS_CACHE": str(Path(folder) / "cache"), "PYTHONPATH": ""}
        return {
            "pip install .": in_process([python, "-m", "pip", "install", "--quiet", "."], **clean),
            **{row: in_process([python, "-c", ROWS[row]], **clean) for row in ROWS if row.startswith("trajens train")},
        }


def main() -> None:
    """Measure, print and write; what is in the file and not measured now is kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="a JSON file")
    parser.add_argument("--old", type=Path, help="the root of another source tree, its kernels built")
    parser.add_argument("--rounds", type=int, help=f"default {ROUNDS}, or 1 with --gpu")
    parser.add_argument("--rows", help="only those that contain one of these words, as in sample,estimator")
    parser.add_argument("--gpu", action="store_true", help="insist on a GPU")
    parser.add_argument("--install", action="store_true")
    given = parser.parse_args()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    found: dict[str, Any] = json.loads(given.out.read_text()) if given.out.is_file() else {}
    if given.install:
        found["install"] = installed()
    else:
        # Once in vain, so that no row pays for reading JAX from the disk.
        platform_of = subprocess.check_output([sys.executable, "-c", START], text=True).split()[-1]
        if given.gpu and platform_of != "gpu":
            parser.error(f"--gpu must have a GPU that JAX sees, got {platform_of}; leave it out.")
        rows = [row for row in ROWS if row != GPU or platform_of == "gpu"]
        if given.rows:
            rows = [row for row in rows if any(word in row for word in given.rows.split(","))]
        trees = ({"old": given.old.resolve()} if given.old else {}) | {"new": ROOT}
        for tree in trees.values():
            in_process([sys.executable, "-c", UNPACK], PYTHONPATH=str(tree / "src"), PYTHONDONTWRITEBYTECODE="")
        found["rows"] = side_by_side(trees, rows, given.rounds or (1 if given.gpu else ROUNDS))
        found["load"] = os.getloadavg()[0]
        print(table(found["rows"]))
    found["machine"] = {"cores": cores, "python": platform.python_version(), "processor": platform.machine()}
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
