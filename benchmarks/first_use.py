"""What somebody waits for who uses trajens for the first time: installing, importing, compiling.

    python benchmarks/first_use.py --out results/first_use/first_use.json            # imports, and two commands twice
    python benchmarks/first_use.py --install --out results/first_use/first_use.json  # pip install . in an empty place

Imports are medians of several processes. Commands are run with an empty cache of compiled programs and again with what
the first left there. Everything has its seconds on the clock and of processor time, for the clock of a shared machine
shows what others do as well.
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

ROOT = Path(__file__).parent.parent
ROUNDS = 7
IMPORTS = """
import resource, time
def now():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return time.perf_counter(), used.ru_utime + used.ru_stime
times = [now()]
import jax, jax.numpy
times.append(now())
import trajens; trajens.sample
times.append(now())
import trajens.cli
times.append(now())
print([[b - a for a, b in zip(*pair)] for pair in zip(times, times[1:])])
"""
COMMANDS = {
    "perceptron": ["train", "perceptron", "--epochs", "2000", "--chains", "4"],
    "mnist": ["train", "mnist", "--budget", "1e6"],
}


def imports() -> dict[str, list[float]]:
    """Seconds, on the clock and of the processor, of JAX and of what comes after it."""
    done = [json.loads(subprocess.check_output([sys.executable, "-c", IMPORTS])) for _ in range(ROUNDS)]
    names = ("jax", "trajens beyond it", "its command line beyond that")
    return {name: [statistics.median(run[i][kind] for run in done) for kind in (0, 1)] for i, name in enumerate(names)}


def timed(command: list[str | Path], **environment: str) -> list[float]:
    """Seconds of a command, on the clock and of the processor."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, **environment}, cwd=ROOT)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return [time.perf_counter() - begin, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime]


def twice(command: list[str]) -> dict[str, list[float]]:
    """A command with nothing compiled yet, and again; MNIST is unpacked before."""
    with tempfile.TemporaryDirectory() as folder:
        unpack = "import trajens; trajens.datasets.mnist()"
        subprocess.run([sys.executable, "-c", unpack], check=True, env={**os.environ, "TRAJENS_CACHE": folder})
        program: list[str | Path] = [sys.executable, "-m", "trajens", *command]
        return {name: timed(program, TRAJENS_CACHE=folder) for name in ("first", "second")}


def installed() -> dict[str, list[float]]:
    """A new virtual environment, ``pip install .`` and a first result in it."""
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        venv.create(folder, with_pip=True)
        python = Path(folder) / "bin" / "python"
        clean = {"TRAJENS_CACHE": str(Path(folder) / "cache"), "PYTHONPATH": ""}
        steps = {
            "pip install .": timed([python, "-m", "pip", "install", "--quiet", "."], **clean),
            "trajens train perceptron": timed([python, "-m", "trajens", *COMMANDS["perceptron"]], **clean),
            "trajens train mnist": timed([python, "-m", "trajens", *COMMANDS["mnist"]], **clean),
        }
        return {**steps, "all": [time.perf_counter() - begin, sum(cpu for _, cpu in steps.values())]}


def main() -> None:
    """Measure and write; what is in the file and not measured now is kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--install", action="store_true")
    given = parser.parse_args()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    found: dict[str, Any] = json.loads(given.out.read_text()) if given.out.is_file() else {}
    if given.install:
        found["install"] = {**installed(), "load": os.getloadavg()[0]}
    else:
        found["imports"] = {**imports(), "load": os.getloadavg()[0]}
        found["commands"] = {name: twice(command) for name, command in COMMANDS.items()}
        found["commands"]["load"] = os.getloadavg()[0]
    found["machine"] = {"cores": cores, "python": platform.python_version(), "processor": platform.machine()}
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
