"""From the options of a run to the objects it is made of."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from trajens import datasets, models, schedule
from trajens.acceptance import AcceptanceTest, Barker, Metropolis, MinibatchBarker, Penalty, paper_test
from trajens.config import Config, hidden_sizes, read_toml, resolve, tilts
from trajens.datasets.arrays import Labelled
from trajens.directory import RunDirectory, last_paths
from trajens.errors import InputError, choice, integer, number, require
from trajens.models.base import Model
from trajens.moves import CentreOfMass, Mixture, Move, Segment, SingleSite
from trajens.problem import Problem
from trajens.scan import Checkerboard, Scan, scan_named
from trajens.target import Target

TESTS = ("penalty", "minibatch-barker", "paper", "barker", "metropolis")
MODELS = ("cnn", "mlp", "linear")
LOSSES = ("cross-entropy", "squared")
SCANS = ("checkerboard", "random")
ACTIVATIONS = tuple(models.ACTIVATIONS)


class Experiment:
    """What a `Config` means."""

    def __init__(self, config: Config):
        self.config = config

    @cached_property
    def data(self) -> Labelled | datasets.PerceptronData:
        """Training inputs and labels."""
        config = self.config
        if config.problem == "perceptron":
            return datasets.perceptron(
                integer("data-seed", config.data_seed, 0, "any whole number will do"),
                integer("num-data", config.num_data, 2, "the paper uses 256"),
                config.noise or 0.0,
            )
        if config.problem == "mnist":
            digits = datasets.mnist()
            return Labelled(digits.train_x, digits.train_y)
        return datasets.load(config.problem)

    @property
    def test_data(self) -> Labelled | None:
        """Inputs and labels for evaluation, where the problem has them."""
        if self.config.problem != "mnist":
            return None
        digits = datasets.mnist()
        return Labelled(digits.test_x, digits.test_y)

    @cached_property
    def model(self) -> Model:
        """The network."""
        config = self.config
        require(
            config.model is not None,
            f"the run must be one of a network, got {config.problem}, which has none; train mnist or your own data.",
        )
        if choice("model", config.model, MODELS) == "cnn":
            return models.cnn()
        if config.sizes is not None:
            return models.mlp(config.sizes, config.activation or "relu")
        x, y = self.data
        inputs, outputs = int(np.prod(x.shape[1:])), 1
        if self.loss == "cross-entropy":
            outputs = int(y.max()) + 1
            require(
                2 <= outputs <= max(1000, len(y)),
                f"labels must be of 2 or more classes, numbered from 0, got labels up to {outputs - 1} for {len(y)} "
                "examples; use --loss squared to fit numbers.",
            )
        if config.model == "linear":
            return models.linear(inputs, outputs)
        return models.mlp((inputs, *hidden_sizes(config.hidden), outputs), config.activation or "relu")

    @cached_property
    def problem(self) -> Problem:
        """The loss on the training data."""
        if isinstance(self.data, datasets.PerceptronData):
            return self.data.problem()
        x, y = self.data
        if self.loss == "cross-entropy" and y.dtype.kind not in "iu":
            require(bool((y == np.round(y)).all()), "labels must be whole for --loss cross-entropy; use squared.")
            y = y.astype(np.int64)
        return self.model.problem(x, y, self.loss)

    @property
    def loss(self) -> str:
        """Cross-entropy of classes where labels are whole numbers, else the squared error, unless one was chosen."""
        usual = "cross-entropy" if self.data.y.dtype.kind in "biu" else "squared"
        return choice("loss", self.config.loss or usual, LOSSES)

    @cached_property
    def target(self) -> Target:
        """The tilted law of paths."""
        config = self.config
        values, annealing = tilts(config.s)
        s: Any = values[0] if len(values) == 1 else np.repeat(values, self.chains // len(values))
        if annealing is not None:
            s = schedule.exponential(*annealing, integer("anneal", config.anneal, 1, "give epochs"))
        prior = None if config.prior == "flat" else config.prior
        return Target(self.problem, config.tau, config.sigma, s, prior)

    @property
    def chains(self) -> int:
        """All chains: `config.chains` for every value of s."""
        return integer("chains", self.config.chains, 1, "use 1 or more independent chains") * len(
            tilts(self.config.s)[0]
        )

    @property
    def move(self) -> Move:
        """How models are redrawn."""
        config = self.config
        move: Move = SingleSite(config.fraction, config.refresh)
        if config.segment is not None:
            length = integer("segment", config.segment, 1, "try 2 to 8 models")
            move = Segment(length, config.fraction, config.refresh)
        if config.centre_of_mass is None:
            return move
        width = number("centre-of-mass", config.centre_of_mass, "try sigma or more at small s", above=0.0)
        return Mixture([(config.tau, move), (1, CentreOfMass(width))])

    @property
    def test(self) -> AcceptanceTest:
        """How changes are accepted."""
        config, size = self.config, len(self.data.y)
        name, chunk, rho = choice("test", config.test, TESTS), config.chunk, config.rho
        require(
            rho is None or name in ("penalty", "minibatch-barker"),
            f"rho must be left out with --test {name}, got {rho}; use penalty or minibatch-barker to choose it.",
        )
        require(
            not config.pool or name == "penalty",
            f"pool must be left out with --test {name}, got it; use penalty to pool plans.",
        )
        if name in ("barker", "metropolis"):
            whole = None if chunk is None else integer("chunk", chunk, 2, "leave it out for all data", size)
            return Barker(whole) if name == "barker" else Metropolis(whole)
        usual = min(32 if config.problem == "perceptron" else 240, size)
        advice = f"there are {size} examples, try {usual}"
        chunk = integer("chunk", usual if chunk is None else chunk, 2, advice, size)
        if name == "paper":
            return paper_test(chunk)
        if name == "penalty":
            return Penalty(chunk, 1.35 if rho is None else rho, pool=bool(config.pool))
        return MinibatchBarker(chunk) if rho is None else MinibatchBarker(chunk, rho)

    @property
    def scan(self) -> Scan:
        """The order of updates."""
        repeats = integer("repeats", self.config.repeats, 1, "try 1 to 8")
        if self.config.scan == "checkerboard":
            return Checkerboard(repeats)
        require(repeats == 1, f"repeats must be 1 with --scan {self.config.scan}, got {repeats}; leave it out.")
        return scan_named(self.config.scan)

    @property
    def initial(self) -> np.ndarray | None:
        """The last paths of the run to start from."""
        return None if self.config.start is None else last_paths(self.config.start)

    def arguments(self, is_resumed: bool = False) -> dict[str, Any]:
        """The arguments of `sample` after the target; a resumed run has no need of what it started from."""
        config = self.config
        return {
            "epochs": config.epochs,
            "chains": self.chains,
            "seed": config.seed,
            "burn_in": config.burn_in,
            "move": self.move,
            "test": self.test,
            "scan": self.scan,
            "initial": None if is_resumed else self.initial,
            "records": config.records,
            "ahead": config.ahead,
        }

    def directory(self, path: Path, resume: bool = False) -> RunDirectory:
        """Where the run is kept."""
        config = self.config
        if config.model in ("mlp", "linear"):
            config = replace(
                config, sizes=[int(self.model.layers[0].fan_in), *(n.shape[-1] for n in self.model.layers)]
            )
        return RunDirectory(path, resume, config.checkpoint_seconds, config.to_toml())

    @classmethod
    def load(cls, path: str | Path) -> Experiment:
        """What the run in a directory was asked to be."""
        file = Path(path) / "config.toml"
        if not file.is_file():
            raise InputError(
                f"the directory must hold a run of 'trajens train', got '{path}' without config.toml; check the path, "
                "or pass the model in Python."
            )
        return cls(resolve(read_toml(file)))
