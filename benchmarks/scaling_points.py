"""What `scaling.py` measures: a sampler of one size, and what an epoch of it computes."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any

import jax
import numpy as np

import trajens as tj
from sampler import Case, sampler_case
from trajens.acceptance import AcceptanceTest
from trajens.sampling.sampler import Sampler
from trajens.sampling.settings import Settings

INPUTS, CLASSES = 64, 10
MNIST_IMAGES = 60_000
CNN_WORK = 234_048
"""Multiply-adds of the paper's network on one image that are not in vain."""

ONE_CHUNK, PLANNED, ALL_DATA = "one chunk", "planned", "all data"


@dataclass(frozen=True)
class Point:
    """One size of everything.

    Parameters
    ----------
    network : "mlp", "cnn" or "perceptron"
        Of 64 inputs and 10 classes; the paper's, on MNIST; of 2 parameters.
    hidden : int
        Units of the mlp: 75 hidden + 10 parameters.
    examples, tau, chains, chunk
        As everywhere.
    batches : str
        One chunk a decision, which small s leads to; as many as are planned for the noise; or all data.
    s : float
    """

    network: str = "mlp"
    hidden: int = 32
    examples: int = 16_384
    tau: int = 16
    chains: int = 4
    chunk: int = 240
    batches: str = ONE_CHUNK
    s: float = 0.1

    @property
    def model(self) -> Any:
        """None for the perceptron, which needs none."""
        if self.network == "cnn":
            return tj.models.cnn()
        return tj.models.mlp((INPUTS, self.hidden, CLASSES)) if self.network == "mlp" else None

    @property
    def problem(self) -> tj.Problem:
        """Made-up data, or digits, over and over again where more are asked for than there are."""
        if self.model is None:
            return tj.datasets.perceptron(size=self.examples).problem()
        found: tj.Problem = self.model.problem(*self.arrays())
        return found

    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """The data of a network, made once."""
        return _digits(self.examples) if self.network == "cnn" else _classes(self.examples)

    @property
    def target(self) -> tj.Target:
        """Steps and prior of the MNIST runs."""
        return tj.Target(self.problem, self.tau, 0.05, self.s, 0.3)

    @property
    def acceptance(self) -> AcceptanceTest:
        """Without a tolerance, so that nothing depends on audits."""
        if self.batches == ALL_DATA:
            return tj.Metropolis()
        return tj.Penalty(self.chunk, rho=1.35, tolerance=None, stages=1, pool=True)

    @property
    def how(self) -> dict[str, Any]:
        """The settings, but for devices."""
        return {"chains": self.chains, "acceptance": self.acceptance, "move": tj.SingleSite(0.25), "burn_in": 0}

    def sampler(self, devices: Any = None) -> Sampler:
        """On one device unless told otherwise."""
        return Sampler(self.target, Settings(devices=devices or jax.devices()[:1], **self.how))

    @property
    def lanes(self) -> float:
        """Proposals that are under way at once: every other model of a path, of all chains."""
        return self.chains * max(1.0, self.tau / 2)

    @property
    def work(self) -> int:
        """Multiply-adds of a pair of losses."""
        if self.network == "cnn":
            return 2 * CNN_WORK
        return 2 * (INPUTS + CLASSES) * self.hidden if self.network == "mlp" else 2 * 2

    def case(self, clock: Any = time.perf_counter, devices: Any = None) -> tuple[Case, dict[str, Any]]:
        """What is timed, after every model was seen a few times, and what is known of it."""
        sampler = self.sampler(devices)
        state, _ = sampler.advance_to(sampler.init(), 8 * self.tau + 64)
        about = {"parameters": sampler.target.problem.dim, "lanes": self.lanes, "work": self.work}
        about |= {"chunk": sampler.program.chunk}
        return sampler_case(sampler, jax.block_until_ready(state), 16 * self.tau, clock), asdict(self) | about


def along(base: Point, **sizes: Any) -> list[Point]:
    """The points of a curve: `base` with one thing changed."""
    (name, values), *rest = sizes.items()
    assert not rest
    return [replace(base, **{name: value}) for value in values]


@cache
def _classes(examples: int) -> tuple[np.ndarray, np.ndarray]:
    """Ten classes that a linear model can tell apart, but for noise."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((examples, INPUTS), np.float32)
    outputs = x @ rng.standard_normal((INPUTS, CLASSES), np.float32)
    return x, (outputs + rng.standard_normal(outputs.shape, np.float32)).argmax(1)


@cache
def _digits(examples: int) -> tuple[np.ndarray, np.ndarray]:
    digits = tj.datasets.mnist()
    some = np.arange(examples) % MNIST_IMAGES
    return digits.train_x[some], digits.train_y[some]
