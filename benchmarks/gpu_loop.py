"""Where the time of the sampler goes on a GPU: kernel, logic, idle lanes.

    python benchmarks/gpu_loop.py --out gpu_loop.json  # one path of 32 models, and 4 paths of 16 as `tj.train` has them

For every case, from a trained path: microseconds per iteration of the whole loop, of its logic alone (a loss that costs
nothing) and of the kernel alone, how many lanes were busy, and pairs/s against what the kernel makes of full lanes.
``--trace`` also prints a table of all GPU kernels of the loop. ``--brief`` leaves out what needs the sampler's own
parts, so that an older tree can be timed in the same session: ``PYTHONPATH=older/src python .. --brief``.
"""

from __future__ import annotations

import argparse
import collections
import glob
import gzip
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import trajens as tj
from trajens.losses import losses_of_pairs
from trajens.run.train import training_setup
from trajens.sampling import kernel as core
from trajens.sampling.lanes import empty_tally, idle_lanes
from trajens.sampling.program import Inputs, Program
from trajens.sampling.sampler import Sampler
from trajens.sampling.settings import Settings


@dataclass(frozen=True)
class Free:
    """Losses that cost nothing, of the size and spread of small differences."""

    loss: Any

    def __call__(self, theta: jax.Array, batch: Any) -> jax.Array:
        return self.loss(theta, batch)

    def of_pairs(self, data: Any, pairs: jax.Array, indices: jax.Array, is_active: jax.Array) -> jax.Array:
        """Cheap numbers that depend on everything that losses depend on."""
        noise = (indices * 7919 % 1024).astype(jnp.float32) / 1024 + 1e-6 * data.x[0, 0, 0]
        return jnp.where(is_active[:, None, None], noise[:, None] * (1 + 1e-3 * pairs[:, :, :1]), 0.0)


def counting(program: Program, inputs: Inputs, state: core.State, stop: jax.Array) -> tuple[Any, Any, Any]:
    """`advance` with a count of its iterations and of the lanes that were busy in them."""
    chains = len(state.path)
    lanes = idle_lanes(chains, program.lanes, None, program.acceptance.num_stages)
    task = core._assign(program, inputs, state, lanes, stop)
    first = core._Work(state, lanes, task, empty_tally(chains, program.lanes))

    def step(carry: Any) -> Any:
        work, iterations, busy = carry
        busy = busy + work.task.is_active.sum()
        return core._iterate(program, inputs, work, stop), iterations + 1, busy

    start = first, jnp.int32(0), jnp.int32(0)
    work, iterations, busy = jax.lax.while_loop(lambda carry: jnp.any(carry[0].task.is_active), step, start)
    return work.tally, iterations, busy


def timed(run: Callable[[], Any], rounds: int = 5) -> float:
    """Median seconds, after a warm-up."""
    jax.block_until_ready(run())
    seconds = []
    for _ in range(rounds):
        begin = time.perf_counter()
        jax.block_until_ready(run())
        seconds.append(time.perf_counter() - begin)
    return float(np.median(seconds))


def kernel_seconds(sampler: Sampler, path: np.ndarray, busy: int, steps: int = 200) -> float:
    """Seconds of the losses of one iteration, with `busy` lanes of all, in a loop on the device."""
    problem, program = sampler.target.problem, sampler.program
    lanes, chunk = sampler.settings.chains * program.lanes, program.chunk * program.chunks
    models = np.arange(lanes) % len(path)
    pairs = jnp.asarray(np.stack([path[models], path[(models + 1) % len(path)]], axis=1))
    indices = jnp.asarray(np.random.default_rng(0).integers(0, problem.size, (lanes, chunk)), jnp.int32)
    is_active = jnp.arange(lanes) < busy

    @jax.jit
    def loop(data: Any, pairs: jax.Array, indices: jax.Array, is_active: jax.Array) -> jax.Array:
        def body(i: jax.Array, total: jax.Array) -> jax.Array:
            moved = (indices + 7919 * (i % 7919)) % problem.size
            return total + losses_of_pairs(problem.loss, data, pairs, moved, is_active)

        return jax.lax.fori_loop(0, steps, body, jnp.zeros((lanes, 2, chunk), jnp.float32))

    return timed(lambda: loop(problem.data, pairs, indices, is_active)) / steps


def timed_as_a_whole(name: str, sampler: Sampler, state: core.State, epochs: int) -> dict[str, Any]:
    """Epochs and pairs per second, and their share of what the kernel makes of full lanes."""
    program, stop = sampler.program, state.epoch + epochs
    _, tally = sampler.advance_to(state, stop)
    pairs, proposals = int(np.sum(np.asarray(tally.evaluations, np.int64))), int(np.sum(tally.proposals))
    whole = timed(lambda: sampler.advance_to(state, stop))
    lanes = sampler.settings.chains * program.lanes
    full = kernel_seconds(sampler, _models(state), lanes)
    rate = lanes * program.chunk * program.chunks / full
    return {
        "case": name,
        "lanes": lanes,
        "chunk": program.chunk,
        "batch": pairs / proposals,
        "epochs/s": proposals / whole,
        "pairs/s": pairs / whole,
        "kernel pairs/s": rate,
        "share of kernel": pairs / whole / rate,
        "us of kernel, all lanes": 1e6 * full,
        "seconds": whole,
    }


def taken_apart(sampler: Sampler, state: core.State, epochs: int, whole: float) -> dict[str, Any]:
    """What an iteration consists of."""
    program, inputs, stop = sampler.program, sampler.inputs(), np.int32(state.epoch + epochs)
    _, iterations, busy = jax.jit(partial(counting, program))(inputs, state, stop)
    free = Program(**{**program.__dict__, "loss": Free(program.loss)})
    frozen = inputs._replace(learn_until=jnp.int32(0))
    _, steps, _ = jax.jit(partial(counting, free))(frozen, state, stop)
    alone = jax.jit(partial(core.advance, free))
    mean_busy = int(busy) / int(iterations)
    return {
        "iterations": int(iterations),
        "busy lanes": mean_busy,
        "us per iteration": 1e6 * whole / int(iterations),
        "us of logic": 1e6 * timed(lambda: alone(frozen, state, stop)) / int(steps),
        "us of kernel, busy lanes": 1e6 * kernel_seconds(sampler, _models(state), max(1, round(mean_busy))),
    }


def _models(state: core.State) -> np.ndarray:
    return np.asarray(state.path).reshape(-1, state.path.shape[-1])


def one_path() -> tuple[Sampler, core.State]:
    """The case of `sampler.py`: tau = 32, s = 100."""
    digits = tj.datasets.mnist()
    target = tj.Target(tj.models.cnn().problem(digits.train_x, digits.train_y), 32, 0.05, 100.0, 0.3)
    test, device = tj.Penalty(480, pool=True), jax.devices()[:1]
    settings = Settings(chains=1, burn_in=0, move=tj.SingleSite(0.25), acceptance=test, devices=device)
    sampler = Sampler(target, settings)
    state = sampler.init()
    for epoch in (1000, 20_000, 200_000):
        state, _ = sampler.advance_to(state, epoch)
    return sampler, state


def as_trained(chains: int, tau: int, budget: float, s: float) -> tuple[Sampler, core.State]:
    """What `tj.train` samples with in the end, after a small budget."""
    digits = tj.datasets.mnist()
    problem = tj.models.cnn().problem(digits.train_x, digits.train_y)
    run = tj.train(problem, tau=tau, chains=chains, budget=budget, s=s, progress=False)
    target, settings, _ = training_setup(problem, tau=tau, budget=budget, s=s, settings={"chains": chains})
    sampler = Sampler(target, settings)
    state = sampler.place(run.state)
    state, _ = sampler.advance_to(state, state.epoch + 64 * tau)
    return sampler, state


def kernels_of(sampler: Sampler, state: core.State, epochs: int) -> list[tuple[str, int, float]]:
    """Name, calls and total microseconds of every GPU kernel of a call, by JAX's profiler."""
    stop = state.epoch + epochs
    jax.block_until_ready(sampler.advance_to(state, stop))
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder, create_perfetto_trace=False):
            jax.block_until_ready(sampler.advance_to(state, stop))
        files = glob.glob(f"{folder}/**/*.trace.json.gz", recursive=True)
        events = json.loads(gzip.decompress(Path(files[0]).read_bytes()))["traceEvents"] if files else []
    devices = {e["pid"] for e in events if e.get("name") == "process_name" and "GPU" in str(e.get("args"))}
    found: dict[str, list[float]] = collections.defaultdict(list)
    for event in events:
        if event.get("ph") == "X" and event.get("pid") in devices:
            found[event["name"]].append(event.get("dur", 0.0))
    return sorted(((n, len(d), sum(d)) for n, d in found.items()), key=lambda row: -row[2])


def main() -> None:
    """Look into all cases, print a table and write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--trace", action="store_true")
    parser.add_argument("--brief", action="store_true")
    parser.add_argument("--budget", type=float, default=1e9, help="of the training before 4 x 16 is looked at")
    parser.add_argument("--s", type=float, default=2700.0)
    given = parser.parse_args()
    cases: dict[str, tuple[Callable[[], tuple[Sampler, core.State]], int]] = {
        "one path of 32": (one_path, 16_000),
        "4 paths of 16": (partial(as_trained, 4, 16, given.budget, given.s), 2_000),
    }
    rows = []
    for name, (case, epochs) in cases.items():
        sampler, state = case()
        rows.append(timed_as_a_whole(name, sampler, state, epochs))
        if not given.brief:
            rows[-1] |= taken_apart(sampler, state, epochs, rows[-1]["seconds"])
        print(json.dumps(rows[-1], indent=1), flush=True)
        if given.trace:
            for kernel, calls, total in kernels_of(sampler, state, epochs // 8)[:60]:
                print(f"  {total:10.0f} us {calls:6d} x {total / calls:7.2f}  {kernel[:110]}")
    given.out.write_text(json.dumps({"rows": rows, "device": jax.devices()[0].device_kind}, indent=1) + "\n")


if __name__ == "__main__":
    main()
