"""The cases of the figure "transition" at the paper's scale, all at once on one GPU.

    nvidia-cuda-mps-control -d
    python benchmarks/transition.py /tmp/transition paper/results/transition

Cases go on at the same time, with a process for each of their two annealings and one for the rest, and a share of the
multiprocessors each: short paths leave most of a GPU idle, and wait behind the kernels of long ones without shares.
Runs go to the first folder, which is large, and go on where they were if it is done again; what pictures and claims
are made of goes to the second, a file a case, from which ``trajens figure transition --scale paper`` draws.

    python benchmarks/transition.py /tmp/transition /tmp/sitting --go-on --seconds 1500

With ``--go-on`` long paths exchange s in ladders of ten levels and more, one sitting at a time: what earlier sittings
have left in the first folder is gone on with, for so many seconds, and the files of this one are put into both.
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

import numpy as np

from trajens.thermo.fluctuations import variance_of
from trajens_paper.exchanging import Exchanged, Exchanging
from trajens_paper.transition_case import SPEEDS, Sampling
from trajens_paper.transition_claims import verdict_at_rest
from trajens_paper.transition_hypotheses import in_words, round_trips
from trajens_paper.transition_scale import LADDERS, SCALES

# Percent of the multiprocessors by tau, and gigabytes of the memory of an H200.
SHARES = {1: 12, 2: 12, 4: 14, 8: 18, 16: 24, 32: 34}
GIGABYTES = {16: 9, 32: 16}
FEW_GIGABYTES, ALL_GIGABYTES = 4, 140
# Percent of the multiprocessors where ladders exchange.
TOGETHER = {"tau-8": 25, "tau-16": 45, "tau-32": 45}


def main() -> None:
    """Start all cases, or do one part of one: PRIOR TAU PART."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("home", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", nargs=3, metavar=("PRIOR", "TAU", "PART"))
    parser.add_argument("--scale", default="paper", choices=LADDERS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--go-on", action="store_true", help="one more sitting of ladders whose paths exchange")
    parser.add_argument("--seconds", type=float, default=1500.0, help="of the whole sitting")
    parser.add_argument("--ladders", nargs="*", help="only these, as tau-8")
    parser.add_argument("--until", type=float, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.go_on and given.until:
        exchanging(given, given.ladders[0]).go_on(given.until - time.time(), given.out)
    elif given.go_on:
        all_go_on(given)
    elif given.only:
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
    return process(given, SHARES.get(tau, 100), gigabytes, ["--only", prior, str(tau), part])


def process(given: argparse.Namespace, share: int, gigabytes: float, part: list[str]) -> subprocess.Popen[bytes]:
    """Start this program again, for a part of its work, with a share of the GPU."""
    environment = os.environ | {
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(share),
        "XLA_PYTHON_CLIENT_MEM_FRACTION": f"{gigabytes / ALL_GIGABYTES:.3f}",
    }
    command = [sys.executable, __file__, str(given.home), str(given.out), *part]
    return subprocess.Popen([*command, "--scale", given.scale, "--seed", str(given.seed)], env=environment)


def exchanging(given: argparse.Namespace, name: str) -> Exchanging:
    """The ladders of one name."""
    return Exchanging(given.home, name, LADDERS[given.scale][name], given.seed)


def all_go_on(given: argparse.Namespace) -> None:
    """A sitting of all ladders at once, and what each has seen so far."""
    until = time.time() + given.seconds
    names = given.ladders or list(LADDERS[given.scale])
    gigabytes = 0.9 * ALL_GIGABYTES / len(names)
    parts = [["--go-on", "--until", repr(until), "--ladders", name] for name in names]
    shares = [TOGETHER.get(name, 100) for name in names]
    processes = [process(given, share, gigabytes, part) for share, part in zip(shares, parts, strict=True)]
    codes = [one.wait() for one in processes]
    for name, code in zip(names, codes, strict=True):
        print(name + (f" has failed with {code}" if code else ""))
        ladders = exchanging(given, name)
        if ladders.has_begun:
            print_seen(ladders.found())
    if any(codes):
        raise SystemExit(1)


def print_seen(found: Exchanged) -> None:
    """The numbers of one tau, by level."""
    epochs, pairs, seconds = found.cost.sum(0)
    ladders, loss = found.ladders, found.loss
    print(f"  {epochs:.0f} epochs per model, {pairs:.3g} pairs, {seconds:.0f} s; round trips {found.trips.tolist()}")
    trips = round_trips(found)
    print(f"  {verdict_at_rest(ladders)}; round trips of a path {trips.value:.2g} +- {trips.error:.1g}")
    for line in in_words([ladders]):
        print(f"  {line}")
    print(
        f"  steepest at s tau = {ladders.steepest * found.tau:.1f}, share of the fall "
        f"{ladders.law.variance / (ladders.fall / 2) ** 2:.3f}, {len(ladders.gaps)} gaps"
    )
    up, down = np.split(loss.mean(-1), 2)
    half = loss.shape[-1] // 2
    early, late = (loss[..., part].mean((0, 2)) for part in (slice(half or 1), slice(half, None)))
    print("  s tau   loss    up - down       early - late  Var(L / tau)  exchanged")
    for k, s in enumerate(found.s * found.tau):
        apart = np.hypot(*(way[:, k].std(ddof=1) / len(way) ** 0.5 for way in (up, down)))
        print(
            f"  {s:5.1f}  {loss[:, k].mean():.3f}  {(up - down)[:, k].mean():+.3f} +- {apart:.3f}  "
            f"{early[k] - late[k]:+12.3f}  {variance_of(loss[:, k]):12.4f}  "
            + (f"{found.swapped[k]:9.2f}" if k < len(found.swapped) else "")
        )


if __name__ == "__main__":
    main()
