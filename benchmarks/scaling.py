"""How cost and memory grow with examples, parameters, tau, chains and records, and over devices.

    python benchmarks/scaling.py growth --out paper/results/scaling/growth-cpu.json
    python benchmarks/scaling.py peaks --out paper/results/scaling/peaks-cpu.json
    python benchmarks/scaling.py records --out paper/results/scaling/records.json
    python benchmarks/scaling.py devices --out paper/results/scaling/devices.json
    python benchmarks/scaling.py limit --out paper/results/scaling/limit.json       # on a GPU

`growth` times the compiled sampler, at one size of everything and along one thing after the other, all in one process
and in turns; medians of rounds count. On a CPU it keeps to one core and counts the seconds of that core, so that other
work on the machine matters little. `peaks` is the memory of a whole `tj.sample`: on a CPU that of a process of its own
beyond what it had before, on a GPU what JAX says was in use at most. `records` has the same for runs that record often.
`devices` spreads chains over virtual devices of a CPU. `limit` tries a run that should just fit, and one that should
not. The rest is done by `scaling_figure.py`, which fits the formula and draws.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

Row = dict[str, Any]
ROUNDS = 5


def growth(args: argparse.Namespace) -> list[Row]:
    """Seconds per epoch along every curve."""
    is_gpu = _is_gpu()
    if not is_gpu:
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    from scaling_curves import curves

    clock = time.perf_counter if is_gpu else time.process_time
    wanted = curves(is_gpu, args.quick)
    points = [(name, point) for name in args.curves or wanted for point in wanted[name]]
    # Programs compile on cores of their own while there are some.
    with ThreadPoolExecutor(8 if is_gpu else 1) as pool:
        cases = list(pool.map(lambda named: named[1].case(clock), points))
    for case, _ in cases:
        case.calibrate(args.seconds, 10**9)
    for _ in range(ROUNDS - 1):
        for case, _ in cases:
            case.time()
    rows = []
    for (name, _), (case, about) in zip(points, cases, strict=True):
        rates = case.rates()
        rows.append(
            {"curve": name, **about, "batch": rates["batch_size"], "seconds": 1 / rates["epochs_per_second"]}
            | {"spread": rates["spread"], "rounds": rates["rounds"]}
        )
        _show(rows[-1], ("curve", "parameters", "examples", "tau", "chains", "batch", "seconds", "spread"))
    return rows


def peaks(args: argparse.Namespace) -> list[Row]:
    """Bytes of whole runs, and what the formula says they need."""
    from scaling_curves import memory_points

    rows = (_child("scaling_memory", "peak", json.dumps(asdict(one))) for one in memory_points(_is_gpu(), args.quick))
    return _shown(rows, ("network", "parameters", "tau", "chains", "examples", "needed", "peak"))


def records(args: argparse.Namespace) -> list[Row]:
    """Bytes and seconds of runs with many records, a process each."""
    sizes = [(1, 100)] if args.quick else [(1, 500), (1, 2000), (1, 8000), (64, 2000), (1024, 500), (1024, 2000)]
    rows = (_child("scaling_memory", "records", json.dumps(size)) for size in sizes)
    return _shown(rows, ("chains", "records", "needed", "peak", "seconds"))


def devices(args: argparse.Namespace) -> list[Row]:
    """Chains over virtual devices, in processes of their own and in turns."""
    cores = sorted(os.sched_getaffinity(0))
    counts = [2**k for k in range(2 if args.quick else 5) if 2**k <= max(4, len(cores))]
    cases = []
    for count in counts:
        cases.append(("strong", "perceptron", 64, count, len(cores)))
        cases.append(("weak", "perceptron", 16 * count, count, len(cores)))
        cases.append(("strong", "mlp", 16, count, len(cores)))
        cases += [("one core", "perceptron", 64, count, 1)] if count in (1, 4, 16) else []
        # Its kernel uses all cores whatever the number of devices.
        cases += [("strong", "cnn", 16, count, len(cores))] if count in (1, counts[-1]) else []
    found: dict[Any, list[Row]] = {case: [] for case in cases}
    for _ in range(args.rounds):
        for case in cases:
            kind, network, chains, count, used = case
            environment = {"XLA_FLAGS": f"--xla_force_host_platform_device_count={count}"}
            said = _child("scaling_memory", "split", json.dumps([network, chains]), environment, set(cores[-used:]))
            found[case].append(said)
    rows = []
    for (kind, network, chains, count, used), answers in found.items():
        row: Row = {"kind": kind, "network": network, "chains": chains, "devices": count, "cores": used}
        for name in ("wall", "cpu"):
            values = [one[name] for one in answers]
            row[name] = statistics.median(values)
            row[f"{name}_spread"] = (max(values) - min(values)) / row[name]
        rows.append(row)
    return _shown(rows, ("kind", "network", "chains", "devices", "cores", "wall", "cpu", "wall_spread"))


def limit(args: argparse.Namespace) -> list[Row]:
    """Runs near what the device holds: what the formula says, and what became of them."""
    cases = [("mlp", 0.95), ("cnn", 0.95), ("mlp", 1.05)]
    rows = (_child("scaling_memory", "tried", str([*case, args.quick])) for case in cases)
    return _shown(rows, ("network", "parameters", "tau", "chains", "needed", "free", "peak", "outcome"))


MEASURES: dict[str, Callable[[argparse.Namespace], list[Row]]] = {
    one.__name__: one for one in (growth, peaks, records, devices, limit)
}


def about() -> Row:
    """The machine, without its name."""
    import jax

    from trajens.app.cli.environment import num_cores
    from trajens.version import __version__

    models = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    return {
        "trajens": __version__,
        "jax": jax.__version__,
        "device": jax.devices()[0].device_kind,
        "cpu": models[0].partition(":")[2].strip() if models else "",
        "cores": num_cores(),
        "memory_gib": round(memory, 1),
        "load": round(os.getloadavg()[0], 1),
    }


def main() -> None:
    """Measure one thing and write it down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=MEASURES)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--curves", nargs="*", help="Of growth; default all.")
    parser.add_argument("--seconds", type=float, default=0.3, help="Aimed at in one round of one size.")
    parser.add_argument("--rounds", type=int, default=3, help="Of processes, for devices.")
    parser.add_argument("--quick", action="store_true", help="A few small sizes, to see that it works.")
    args = parser.parse_args()
    # In a process of its own, which takes no memory of a GPU with it.
    described = _child("scaling", "about", "")
    rows = MEASURES[args.what](args)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps({**described, "rows": rows}, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def _is_gpu() -> bool:
    """Without starting JAX where its cores are still to be chosen."""
    return Path("/dev/nvidia0").exists() and os.environ.get("JAX_PLATFORMS", "") != "cpu"


def _child(module: str, name: str, given: str, environment: Row | None = None, cores: set[int] | None = None) -> Row:
    """What a function of a module says in a process of its own."""
    command = [sys.executable, "-c", f"import json; from {module} import {name}; print(json.dumps({name}({given})))"]
    variables = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)} | (environment or {})

    def prepare() -> None:
        if cores is not None:
            os.sched_setaffinity(0, cores)

    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=variables, preexec_fn=prepare)
    found: Row = json.loads(done.stdout.splitlines()[-1])
    return found


def _shown(rows: Iterable[Row], names: tuple[str, ...]) -> list[Row]:
    kept = []
    for row in rows:
        _show(row, names)
        kept.append(row)
    return kept


def _show(row: Row, names: tuple[str, ...]) -> None:
    text = (f"{row[name]:.4g}" if isinstance(row[name], float) else str(row[name]) for name in names)
    print("  ".join(f"{name} {value}" for name, value in zip(names, text, strict=True)), flush=True)


if __name__ == "__main__":
    main()
