"""Six short MNIST runs on one GPU: as a sweep, one at a time and three at once, and as chains of one run.

    python benchmarks/scaling_sweep.py --out paper/results/scaling/sweep.json [--epochs 40000]

What the processes of a sweep were told about the GPU is read while they run, and whether both sweeps gave the same
records and paths, bit for bit, after they have ended; sums of floats may differ in their last digit, and are left out.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from scaling import about

SEEDS = (1, 2, 3, 4, 5, 6)
OPTIONS: dict[str, Any] = {
    "problem": "mnist",
    "tau": 32,
    "s": 50.0,
    "chunk": 240,
    "pool": True,
    "fraction": 0.25,
    "records": 10,
}
SUMS = ("loss_deciding", "weight_rms")
TOLD = ("CUDA_VISIBLE_DEVICES", "XLA_PYTHON_CLIENT_MEM_FRACTION", "TRAJENS_CORES")


def told() -> dict[int, dict[str, str]]:
    """What the processes that run tasks were told, by their number."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if b"trajens.app.sweeps.child" not in (folder / "cmdline").read_bytes():
                continue
            pairs = (entry.split("=", 1) for entry in (folder / "environ").read_text().split("\0") if "=" in entry)
            found[int(folder.name)] = {name: value for name, value in pairs if name in TOLD}
        except OSError:
            continue
    return found


def gpu_memory() -> float:
    """Gigabytes in use on the GPU, 0 where nobody knows."""
    try:
        query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
        return float(subprocess.run(query, capture_output=True, text=True, check=True).stdout.split()[0]) / 1024
    except (OSError, subprocess.CalledProcessError, IndexError):
        return 0.0


def watched(command: list[str]) -> dict[str, Any]:
    """Seconds of a command, and what was seen of the processes that it started."""
    begin, most = time.perf_counter(), 0.0
    seen: dict[int, dict[str, str]] = {}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    while process.poll() is None:
        seen |= told()
        most = max(most, gpu_memory())
        time.sleep(0.5)
    if process.returncode:
        raise SystemExit(f"{command} ended with code {process.returncode}")
    return {"seconds": time.perf_counter() - begin, "told": list(seen.values()), "gpu_gib": most}


def digest(run: Path) -> str:
    """Of the records and of the last paths."""
    import trajens as tj

    stored = tj.StoredRun(run)
    text = hashlib.sha256()
    for name, values in stored.records.items():
        if name in SUMS:
            continue
        text.update(name.encode() + np.ascontiguousarray(values).tobytes())
    text.update(np.ascontiguousarray(stored.paths).tobytes())
    return text.hexdigest()


def main() -> None:
    """All three, in turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=40_000)
    parser.add_argument("--problem", default="mnist")
    args = parser.parse_args()
    options = OPTIONS | {"epochs": args.epochs, "problem": args.problem}
    lines = [f"{name} = {json.dumps(value)}" for name, value in options.items()]
    trajens = [sys.executable, "-m", "trajens"]
    rows: dict[str, Any] = {"epochs": args.epochs, "runs": len(SEEDS)}
    digests = {}
    with tempfile.TemporaryDirectory() as folder:
        plan, config = Path(folder) / "plan.toml", Path(folder) / "config.toml"
        plan.write_text("[options]\nchains = 1\n" + "\n".join(lines) + f"\n[grid]\nseed = {list(SEEDS)}\n")
        config.write_text("\n".join(lines) + f"\nchains = {len(SEEDS)}\n")
        for count in (1, 3):
            out = Path(folder) / str(count)
            found = watched([*trajens, "sweep", "run", str(plan), "--out", str(out), "--per-gpu", str(count)])
            rows[f"{count} at a time"] = found
            digests[count] = {run.name: digest(run) for run in sorted((out / "runs").iterdir())}
        one = watched([*trajens, "train", "--config", str(config), "--out", str(Path(folder) / "one")])
        rows["chains of one run"] = one
    rows["same_bits"] = digests[1] == digests[3]
    rows["different_runs"] = len(set(digests[1].values()))
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(about() | rows, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(rows))


if __name__ == "__main__":
    os.environ.setdefault("PYTHONPATH", os.pathsep.join(sys.path))
    main()
