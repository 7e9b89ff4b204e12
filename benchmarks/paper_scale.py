"""MNIST at the paper's scale: named runs, each for so many seconds, to be continued at any time.

    python benchmarks/paper_scale.py paper/results/mnist paper-32:60 grid-8:40 ours-32:200

Runs follow one another, or go on all at once with ``--together``: few lanes leave most of a GPU idle, so under
NVIDIA's multi-process service (``nvidia-cuda-mps-control -d``) several runs take little longer than one.

A run that was stopped goes on where it was; one that is complete is left alone. Stages of one run (``ours``) follow
each other: each starts from the last paths of the one before. Runs stop by the signal that makes `trajens train` save
itself, so nothing is lost when the time is up.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import trajens as tj
from trajens.errors import STOPPED

PAPER = (
    "--prior flat --acceptance paper --sigma 0.05 --fraction 0.25 --chunk 240 --scan checkerboard --repeats 4 "
    "--chains 6"
)
# Epochs per model of the grid; batches of short paths are the largest, and their epochs the slowest.
GRID = {1: 300_000, 2: 300_000, 4: 300_000, 8: 300_000, 16: 100_000, 32: 60_000}
# Chunks evaluated at once, which changes the speed alone.
AHEAD = {1: 8, 2: 8, 4: 8, 8: 4, 16: 4, 32: 2}
# tau -> chains, and the stages: s, mask, chunk, epochs per model. The mask shrinks as s grows, so that acceptance stays
# at 0.4 to 0.5 on average.
STAGES = {
    32: (
        1,
        (
            ("20:60", 0.25, 120, 15_000),
            ("60:200", 0.12, 240, 60_000),
            ("200:500", 0.05, 480, 200_000),
            ("500:1500", 0.02, 960, 400_000),
            ("1500", 0.02, 960, 400_000),
            ("1500:3000", 0.01, 1920, 93_750),
            ("3000:6000", 0.005, 1920, 81_250),
        ),
    ),
    64: (
        2,
        (
            ("20:60", 0.25, 120, 12_000),
            ("60:200", 0.12, 240, 48_000),
            ("200:500", 0.05, 480, 150_000),
            ("500:1500", 0.02, 960, 250_000),
            ("1500:3000", 0.01, 1920, 75_000),
            ("3000:6000", 0.005, 1920, 80_000),
        ),
    ),
}


def stages_of(name: str) -> list[tuple[str, str]]:
    """Folder and options of every stage of a run."""
    kind, _, text = name.partition("-")
    tau = int(text)
    if kind == "paper":
        return [(name, f"--tau {tau} --s 50 --epochs 4e6 --burn-in 2e6 --records 200 --ahead {AHEAD[tau]} {PAPER}")]
    if kind == "grid":
        epochs = GRID[tau] * tau
        options = f"--epochs {epochs} --burn-in {epochs // 2} --records 100 --ahead {AHEAD[tau]}"
        return [(name, f"--tau {tau} --s 5,10,20,50,100 {options} {PAPER}")]
    if kind == "ours":
        stages = []
        chains, parts = STAGES[tau]
        for i, (s, mask, chunk, per_model) in enumerate(parts):
            epochs = per_model * tau
            burn_in = int(0.95 * epochs)
            options = (
                f"--tau {tau} --s {s} --sigma 0.05 --prior 0.3 --fraction {mask} --chunk {chunk} --acceptance penalty "
                f"--pool --scan checkerboard --chains {chains} --epochs {epochs} --burn-in {burn_in} --records 40"
            )
            stages.append((f"{name}-stage-{i + 1}", options))
        return stages
    raise SystemExit(f"a run is paper-TAU, grid-TAU or ours-TAU, got {name}")


def main() -> None:
    """Continue every run for its time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("runs", nargs="+", metavar="NAME:SECONDS")
    parser.add_argument("--together", action="store_true", help="all runs at once")
    given = parser.parse_args()
    with ThreadPoolExecutor(len(given.runs) if given.together else 1) as pool:
        # Reading the results raises what went wrong in a thread.
        list(pool.map(lambda run: continue_stages(given.out, run), given.runs))


def continue_stages(out: Path, run: str) -> None:
    """Go on with the stages of NAME:SECONDS until the time is up."""
    name, _, seconds = run.partition(":")
    end = time.monotonic() + float(seconds)
    previous: Path | None = None
    for folder, options in stages_of(name):
        path = out / folder
        is_complete = continue_run(path, options, previous, end)
        previous = path
        if not is_complete:
            break


def continue_run(path: Path, options: str, initial: Path | None, end: float) -> bool:
    """Start or resume one run until the moment `end`; whether it is complete."""
    run = tj.StoredRun(path)
    if run.is_complete:
        return True
    if end - time.monotonic() < 1:
        return False
    if run.config is not None:
        arguments = ["resume", str(path)]
    else:
        arguments = ["train", "mnist", *options.split(), "--out", str(path)]
        arguments += [] if initial is None else ["--initial", str(initial)]
    begin = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "trajens", *arguments, "--json"], stdout=subprocess.PIPE, text=True
    )
    try:
        process.wait(max(1.0, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGUSR1)
    report, _ = process.communicate()
    print(f"{path.name}: {time.monotonic() - begin:.0f} s, exit code {process.returncode}", flush=True)
    if process.returncode not in (0, STOPPED):
        raise SystemExit(f"{path} failed")
    if process.returncode == 0:
        (path / "report.json").write_text(report)
    return process.returncode == 0


if __name__ == "__main__":
    main()
