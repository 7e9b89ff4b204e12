"""The cases of the figure "transition" at the paper's scale, all at once on one GPU.

    nvidia-cuda-mps-control -d
    python benchmarks/transition.py /tmp/transition paper/results/transition

Cases go on at the same time, with a process for each of their two annealings and one for the rest, and a share of the
multiprocessors each: short paths leave most of a GPU idle, and wait behind the kernels of long ones without shares.
Runs go to the first folder, which is large, and go on where they were if it is done again; what pictures and claims
are made of goes to the second, a file a case, from which ``trajens figure transition --scale paper`` draws.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from trajens_paper.transition_case import SPEEDS, Sampling
from trajens_paper.transition_scale import SCALES

# Percent of the multiprocessors by tau, and gigabytes of the memory of an H200.
SHARES = {1: 12, 2: 12, 4: 14, 8: 18, 16: 24, 32: 34}
GIGABYTES = {16: 9, 32: 16}
FEW_GIGABYTES, ALL_GIGABYTES = 4, 140


def main() -> None:
    """Start all cases, or do one part of one: PRIOR TAU PART."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("home", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", nargs=3, metavar=("PRIOR", "TAU", "PART"))
    parser.add_argument("--scale", default="paper", choices=SCALES)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if given.only:
        prior, tau, part = given.only
        do(sampling(given, prior, int(tau)), part, given.out)
    else:
        start_all(given)


def sampling(given: argparse.Namespace, prior: str, tau: int) -> Sampling:
    """One case of the figure."""
    scale = SCALES[given.scale]
    return Sampling(given.home, scale, given.seed, None if prior == "flat" else scale.seen.prior, tau)


def do(case: Sampling, part: str, out: Path) -> None:
    """One annealing alone, or all that is missing, the numbers of which are then copied to `out`."""
    begin = time.monotonic()
    if part in SPEEDS:
        case.annealed(part)
    else:
        case.sampled()
        out.mkdir(parents=True, exist_ok=True)
        shutil.copy(case.home / f"{case.name}.npz", out)
    print(f"{case.name} {part}: {time.monotonic() - begin:.0f} s", flush=True)


def start_all(given: argparse.Namespace) -> None:
    """The longest first; raises what went wrong."""
    taus = sorted(SCALES[given.scale].taus, reverse=True)
    cases = [(prior, tau) for tau in taus for prior in ("gaussian", "flat")]
    with ThreadPoolExecutor(len(cases)) as pool:
        list(pool.map(lambda case: start_case(given, *case), cases))


def start_case(given: argparse.Namespace, prior: str, tau: int) -> None:
    """Both annealings at once, and what follows after them."""
    annealings = [start(given, prior, tau, speed) for speed in SPEEDS]
    codes = [process.wait() for process in annealings]
    codes.append(start(given, prior, tau, "all").wait())
    if any(codes):
        raise SystemExit(f"{prior}, tau = {tau} has failed")


def start(given: argparse.Namespace, prior: str, tau: int, part: str) -> subprocess.Popen[bytes]:
    """A process for one part."""
    gigabytes = GIGABYTES.get(tau, FEW_GIGABYTES) if (prior, part) == ("gaussian", "all") else FEW_GIGABYTES
    environment = os.environ | {
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(SHARES.get(tau, 100)),
        "XLA_PYTHON_CLIENT_MEM_FRACTION": f"{gigabytes / ALL_GIGABYTES:.3f}",
    }
    command = [sys.executable, __file__, str(given.home), str(given.out), "--only", prior, str(tau), part]
    command += ["--scale", given.scale, "--seed", str(given.seed)]
    return subprocess.Popen(command, env=environment)


if __name__ == "__main__":
    main()
