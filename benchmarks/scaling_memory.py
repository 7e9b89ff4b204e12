"""What `scaling.py` asks of processes of their own: peaks of memory, and runs split over devices."""

from __future__ import annotations

import statistics
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import jax

import trajens as tj
from scaling_points import PLANNED, Point
from trajens.sampling.footprint import bytes_free, bytes_needed, bytes_of_records
from trajens.sampling.settings import Settings

Row = dict[str, Any]
EPOCHS_PER_MODEL = 8


def peak(given: Row) -> Row:
    """The most memory of a run: of this process beyond what it had after a small one, or of a GPU."""
    point = Point(**given)
    _run(replace(point, hidden=1, tau=2, chains=1, examples=1024))
    # What data a user has is the user's.
    point.arrays()
    before = _reset_peak()
    _run(point)
    stats = jax.devices()[0].memory_stats()
    held = _status("VmHWM") - before if stats is None else stats["peak_bytes_in_use"]
    return _about(point) | {"peak": held}


def tried(given: list[Any]) -> Row:
    """A run that should take such a share of what is free."""
    network, share, is_quick = given
    free = bytes_free(jax.devices()[0])
    assert free is not None
    base = Point(network, 256, 60_000, 8 if is_quick else 64, 1)
    one, two = (_about(replace(base, chains=chains))["needed"] for chains in (1024, 2048))
    # Linear in chains, but for the least that an audit looks at.
    wanted = share * (free if not is_quick else 100 * 2**20)
    point = replace(base, chains=max(1, 1024 + int((wanted - one) * 1024 // (two - one))))
    begin, outcome = time.perf_counter(), "done"
    try:
        _run(point)
    except tj.InputError as error:
        outcome = str(error)
    except Exception as error:  # what a device says that is full is of no one kind
        outcome = f"failed: {type(error).__name__}: {str(error).splitlines()[0][:300]}"
    stats = jax.devices()[0].memory_stats() or {}
    row = _about(point) | {"free": free, "outcome": outcome, "seconds": time.perf_counter() - begin}
    return row | {"peak": stats.get("peak_bytes_in_use", 0)}


def records(given: list[int]) -> Row:
    """Bytes and CPU seconds of so many records of so many chains, after few; of all data, which needs no audits."""
    chains, count = given
    target = tj.Target(tj.datasets.perceptron().problem(), 2, 0.1, 20.0)
    how: Row = {"chains": chains, "burn_in": 0, "acceptance": tj.Metropolis()}
    tj.sample(target, 256, records=64, **how)
    before, begin = _reset_peak(), time.process_time()
    run = tj.sample(target, 4 * count, records=count, **how)
    seconds, held = time.process_time() - begin, _status("VmHWM") - before
    needed = bytes_of_records(count, run.settings)
    return {"chains": chains, "records": count, "needed": needed, "peak": held, "seconds": seconds}


def split(given: list[Any]) -> Row:
    """Seconds per epoch of chains that are spread over all devices, by the clock and of all cores together."""
    network, chains = given
    sizes: Row = {"examples": 256, "tau": 8, "chunk": 32} if network == "perceptron" else {}
    point = Point(network, chains=chains, **sizes)
    case, _ = point.case(devices=jax.devices())
    case.calibrate(0.3, 10**9)
    wall, cpu = [], []
    for _ in range(5):
        begin, count = time.process_time(), case.work
        seconds = case.time()
        cpu.append((time.process_time() - begin) / count / chains)
        wall.append(seconds / count / chains)
    return {"wall": statistics.median(wall), "cpu": statistics.median(cpu)}


def _run(point: Point) -> None:
    lanes = -(-point.tau // 2)
    tj.sample(point.target, EPOCHS_PER_MODEL * lanes, records=2, devices=jax.devices()[:1], **point.how)


def _about(point: Point) -> Row:
    target = point.target
    settings = Settings(devices=jax.devices()[:1], **point.how).checked(target)
    about = {"parameters": target.problem.dim, "needed": bytes_needed(target, settings, 0)}
    path = 4 * point.chains * point.tau * target.problem.dim
    return asdict(point) | about | {"path": path, "is_planned": point.batches == PLANNED}


def _reset_peak() -> int:
    """Forget the peak so far; bytes that are in use now."""
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(name))
