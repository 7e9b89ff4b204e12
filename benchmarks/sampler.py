"""Epochs and image pairs per second of the whole sampler on MNIST, against its kernel, JAX alone and PyTorch.

    python benchmarks/sampler.py          # a table, in a minute or two
    python benchmarks/sampler.py --json   # one JSON object

The batch of a proposal depends on how far a path is trained, so one path is trained first and everything is timed from
it. Every round repeats the same computation from the same state: rounds differ by what else the machine does, and
their median counts. Timed is the compiled sampler, in calls of about a second; nothing is recorded or written.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

from trajens.acceptance import Penalty, paper_test
from trajens.app.cli.environment import num_cores
from trajens.datasets import mnist
from trajens.kernels import library
from trajens.losses import Loss, losses_of_pairs
from trajens.models import cnn
from trajens.moves import SingleSite
from trajens.moves.scan import Checkerboard, RandomScan
from trajens.problem import Problem
from trajens.sampling.kernel import State
from trajens.sampling.sampler import Sampler
from trajens.sampling.settings import Settings
from trajens.target import Target

TRAJECTORY = "one trajectory"
DEFINITION = "one trajectory, JAX definition"
PAPER = "one trajectory, the paper's scheme"
TEXTBOOK = "textbook PyTorch"
SAMPLER = "many trajectories"
KERNEL = "kernel alone"


@dataclass(frozen=True)
class Size:
    """What is timed and for how long; the defaults are those of the script.

    Parameters
    ----------
    tau, s, sigma, fraction, prior
        The target and its move.
    chunk : int
        Of the paper's scheme; on a GPU our own takes twice as many at a time, in one batch size for all models.
    chains : int
        Trajectories of the case that fills the device, with (tau + 1) // 2 lanes each.
    examples : int
        Images of the training set.
    train_epochs, train_seconds
        The path is trained until one of them is reached.
    seconds : float
        Aimed at in one round.
    rounds : int
        Rounds of every case.
    limit : float
        A case gets no further round after so many seconds, and none at all if the first would take longer.
    """

    tau: int = 32
    chunk: int = 240
    s: float = 100.0
    sigma: float = 0.05
    fraction: float = 0.25
    prior: float = 0.3
    chains: int = 16
    examples: int = 60_000
    train_epochs: int = 200_000
    train_seconds: float = 15.0
    seconds: float = 1.0
    rounds: int = 5
    limit: float = 15.0

    @property
    def acceptance(self) -> Penalty:
        """The recommended test for the device."""
        return Penalty(self.chunk) if jax.default_backend() == "cpu" else Penalty(2 * self.chunk, pool=True)

    @property
    def lanes(self) -> int:
        """Lanes of all trajectories together."""
        return self.chains * ((self.tau + 1) // 2)


class Count(NamedTuple):
    """Work done: proposals (0 for the kernel, which makes none) and image pairs."""

    epochs: int
    pairs: int


@dataclass
class Case:
    """One thing to time: `run(n)` does n units of work, at least `smallest`, and waits for them.

    `clock` gives seconds; that of the CPU (`time.process_time`) is for one core that others use too.
    """

    run: Callable[[int], Count]
    smallest: int
    warm_up: int
    clock: Callable[[], float] = time.perf_counter
    work: int = 0
    spent: float = 0.0
    rounds: list[tuple[Count, float]] = field(default_factory=list)

    def time(self) -> float:
        """One round."""
        begin = self.clock()
        count = self.run(self.work)
        seconds = self.clock() - begin
        self.rounds.append((count, seconds))
        self.spent += seconds
        return seconds

    def calibrate(self, seconds: float, most: int) -> None:
        """Compile, then find how much work takes about `seconds`, which also warms up; no more than `most` of it."""
        self.run(self.warm_up)
        self.work = self.smallest
        while (taken := self.time()) < seconds / 2 and self.work < most:
            # A multiple of the smallest: a call ends with whole sweeps.
            factor = min(16.0, seconds / taken, most / self.work)
            self.work = max(self.work + self.smallest, int(factor * self.work / self.smallest) * self.smallest)
        self.rounds = self.rounds[-1:]

    def rates(self) -> dict[str, float]:
        """Medians over rounds; `spread` is (largest - smallest) / median of the times."""
        count = self.rounds[0][0]
        times = np.array([seconds for _, seconds in self.rounds])
        middle = float(np.median(times))
        rates = {
            "pairs_per_second": count.pairs / middle,
            "rounds": len(times),
            "spread": float(np.ptp(times)) / middle,
        }
        if count.epochs:
            rates |= {"epochs_per_second": count.epochs / middle, "batch_size": count.pairs / count.epochs}
        return rates


def bench_sampler(size: Size | None = None) -> dict[str, Any]:
    """Time every implementation at hand from one trained path, in turns.

    Returns
    -------
    dict
        ``epochs_per_second``, ``pairs_per_second``, ``batch_size``, ``rounds`` and ``spread`` by case, ``ratios``,
        ``left_out`` (cases that were not timed, and why), ``start`` (the path everything starts from), ``device``,
        ``kernel``, ``textbook`` and the settings. Where the native kernel is missing, one trajectory *is* the JAX
        definition.
    """
    size = Size() if size is None else size
    data = mnist()
    x, y = data.train_x[: size.examples], data.train_y[: size.examples]
    target = Target(cnn().problem(x, y), size.tau, size.sigma, size.s, size.prior)
    sampler = Sampler(target, _settings(size))
    start, about_start = _trained(sampler, size)
    most = max(1, about_start["epochs"] // 4)
    cases: dict[str, Case] = {}
    left_out: dict[str, str] = {}

    def add(name: str, case: Case) -> None:
        case.calibrate(size.seconds, most)
        cases[name] = case

    sweeps = 4 * size.tau
    add(TRAJECTORY, sampler_case(sampler, start, sweeps))
    rate = cases[TRAJECTORY].rates()["pairs_per_second"]
    if library().is_loaded:
        plain = Problem(_Definition(target.problem.loss), target.problem.data, target.problem.dim)
        same = Target(plain, size.tau, size.sigma, size.s, size.prior)
        add(DEFINITION, sampler_case(Sampler(same, _settings(size)), start, sweeps))
    path = np.asarray(start.path[0])
    papers = Sampler(target, _settings(size, seed=1, acceptance=paper_test(size.chunk), scan=RandomScan()))
    add(PAPER, sampler_case(papers, papers.init(path), sweeps))
    # The JAX definition evaluates idle lanes too, and the sampler looks whether all are idle once in 16 iterations.
    if library().is_loaded or 16 * size.lanes * size.chunk / rate < size.limit:
        many = Sampler(target, _settings(size, seed=1, chains=size.chains))
        add(SAMPLER, sampler_case(many, _copied(many, start), size.tau))
        add(KERNEL, _kernel_case(many, path))
    else:
        left_out |= dict.fromkeys((SAMPLER, KERNEL), "too slow without the native kernel")
    textbook = _textbook_case(path, x, y, size)
    if textbook is None:
        left_out[TEXTBOOK] = "PyTorch is not installed"
    else:
        add(TEXTBOOK, textbook[0])
    for _ in range(size.rounds - 1):
        for case in cases.values():
            if case.spent < size.limit:
                case.time()

    rates = {name: case.rates() for name, case in cases.items()}
    if DEFINITION not in rates:
        rates[DEFINITION] = rates[TRAJECTORY]
    return {
        **{
            quantity: {name: rates[name][quantity] for name in rates if quantity in rates[name]}
            for quantity in ("epochs_per_second", "pairs_per_second", "batch_size", "rounds", "spread")
        },
        "ratios": _ratios(rates),
        "left_out": left_out,
        "start": about_start,
        "device": jax.devices()[0].device_kind,
        "platform": jax.default_backend(),
        "kernel": library().explanation,
        "textbook": None if textbook is None else textbook[1],
        "lanes": size.lanes,
        "settings": {**asdict(size), "test": repr(size.acceptance)},
    }


def _ratios(rates: dict[str, dict[str, float]]) -> dict[str, float]:
    """Of image pairs/s for sampler and kernel, of epochs/s for all else."""
    wanted = {
        "sampler_to_kernel": (SAMPLER, KERNEL, "pairs_per_second"),
        "trajectory_to_jax": (TRAJECTORY, DEFINITION, "epochs_per_second"),
        "trajectory_to_textbook": (TRAJECTORY, TEXTBOOK, "epochs_per_second"),
        "trajectory_to_textbook_pairs": (TRAJECTORY, TEXTBOOK, "pairs_per_second"),
        "paper_scheme_to_textbook": (PAPER, TEXTBOOK, "epochs_per_second"),
        "many_to_textbook": (SAMPLER, TEXTBOOK, "epochs_per_second"),
    }
    return {
        name: rates[above][quantity] / rates[below][quantity]
        for name, (above, below, quantity) in wanted.items()
        if above in rates and below in rates
    }


@dataclass(frozen=True)
class _Definition:
    """A loss without its native kernel."""

    loss: Loss

    def __call__(self, theta: jax.Array, batch: Any) -> jax.Array:
        return self.loss(theta, batch)


def _settings(size: Size, **changes: Any) -> Settings:
    """One trajectory on one device, whose test adapts throughout; or what `changes` make of it."""
    usual = {"chains": 1, "acceptance": size.acceptance, "scan": Checkerboard(), **changes}
    return Settings(burn_in=0, move=SingleSite(size.fraction), devices=jax.devices()[:1], **usual)


def _trained(sampler: Sampler, size: Size) -> tuple[State, dict[str, Any]]:
    """The state of one trajectory after some training, and what is known of it."""
    state = sampler.init()
    jax.block_until_ready(sampler.advance_to(state, 0))
    begin, epoch = time.perf_counter(), 0
    while epoch < size.train_epochs and (spent := time.perf_counter() - begin) < size.train_seconds:
        # As much again as was done so far, or what fits into the time that is left.
        block = min(epoch, int(epoch * (size.train_seconds - spent) / spent))
        block = min(max(block, 2 * size.tau), size.train_epochs - epoch)
        epoch += block
        state, tally = sampler.advance_to(state, epoch)
        proposals = int(np.asarray(tally.proposals)[0])
    return state, {
        "epochs": epoch,
        "seconds": time.perf_counter() - begin,
        "loss_deciding": float(tally.loss_deciding[0]) / proposals,
        "acceptance": float(tally.accepted[0]) / proposals,
    }


def _copied(sampler: Sampler, state: State) -> State:
    """The path of one trajectory at epoch 0 of every chain, with what its test has learned."""
    chains = sampler.settings.chains
    learned = jax.tree.map(lambda leaf: np.repeat(np.asarray(leaf), chains, axis=0), state.acceptance)
    return sampler.place(sampler.init(np.asarray(state.path[0]))._replace(acceptance=learned))


def sampler_case(sampler: Sampler, state: State, smallest: int, clock: Callable[[], float] = time.perf_counter) -> Case:
    """The sampler, always from the same state."""
    first = state.epoch

    def run(epochs: int) -> Count:
        _, tally = jax.block_until_ready(sampler.advance_to(state, first + epochs))
        return Count(int(np.asarray(tally.proposals).sum()), int(np.asarray(tally.evaluations, np.int64).sum()))

    return Case(run, smallest, 0, clock)


def _kernel_case(sampler: Sampler, path: np.ndarray) -> Case:
    """The losses alone, of neighbouring models and as many as the sampler takes at a time, in a loop on the device."""
    problem, program = sampler.target.problem, sampler.program
    lanes, chunk = sampler.settings.chains * program.lanes, program.chunk
    models = np.arange(lanes) % len(path)
    pairs = jnp.asarray(np.stack([path[models], path[(models + 1) % len(path)]], axis=1))
    rng = np.random.default_rng(0)
    indices = jnp.asarray(rng.integers(0, problem.size, (lanes, chunk)), jnp.int32)

    @jax.jit
    def loop(data: Any, pairs: jax.Array, indices: jax.Array, steps: jax.Array) -> jax.Array:
        def body(i: jax.Array, total: jax.Array) -> jax.Array:
            # Other images every time, so that nothing can be taken out of the loop.
            moved = (indices + 7919 * (i % 7919)) % problem.size
            return total + losses_of_pairs(problem.loss, data, pairs, moved, jnp.ones(len(pairs), bool))

        return jax.lax.fori_loop(0, steps, body, jnp.zeros((lanes, 2, chunk), jnp.float32))

    def run(steps: int) -> Count:
        jax.block_until_ready(loop(problem.data, pairs, indices, np.int32(steps)))
        return Count(0, steps * lanes * chunk)

    return Case(run, 1, 0)


def _textbook_case(path: np.ndarray, x: np.ndarray, y: np.ndarray, size: Size) -> tuple[Case, str] | None:
    """Algorithm 1 in PyTorch; None where that is not installed."""
    try:
        import textbook
    except ImportError:
        return None
    start, images, labels = textbook.tensors(path, x, y)

    def run(epochs: int) -> Count:
        chain = textbook.algorithm_1(start.clone(), images, labels, size.s, size.sigma, size.fraction, size.chunk)
        batches = list(islice(chain, epochs))
        return Count(len(batches), sum(batches))

    textbook.choose_threads(lambda: run(2))
    return Case(run, size.tau, 0), textbook.device_name()


def main() -> None:
    """Time all and print it."""
    parser = argparse.ArgumentParser(description="Measure how fast the sampler is on this machine.")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    is_json = parser.parse_args().json
    with Console(stderr=True).status("timing, a minute or two ..."):
        result = {**bench_sampler(), "cores": num_cores()}
    if is_json:
        print(json.dumps(result))
        return
    settings, start = result["settings"], result["start"]
    table = Table(
        title=f"MNIST, tau = {settings['tau']}, s = {settings['s']:g}, from a path of {start['epochs']} epochs "
        f"(loss {start['loss_deciding']:.2f}), on {result['device']}",
        caption=f"many trajectories: {settings['chains']}, {result['lanes']} lanes; kernel: {result['kernel']}; "
        f"textbook: {result['textbook'] or 'PyTorch is not installed'}",
    )
    for heading in ("what", "epochs/s", "image pairs/s", "mean batch", "rounds", "spread"):
        table.add_column(heading, justify="left" if heading == "what" else "right")
    for name, pairs in result["pairs_per_second"].items():
        epochs, batch = result["epochs_per_second"].get(name), result["batch_size"].get(name)
        table.add_row(
            name,
            "" if epochs is None else f"{epochs:.3g}",
            f"{pairs:.3g}",
            "" if batch is None else f"{batch:.0f}",
            str(result["rounds"][name]),
            f"{result['spread'][name]:.0%}",
        )
    for name, reason in result["left_out"].items():
        table.add_row(name, reason)
    Console().print(table)
    for name, ratio in result["ratios"].items():
        print(f"{name.replace('_', ' ')}: {ratio:.3g}")


if __name__ == "__main__":
    main()
