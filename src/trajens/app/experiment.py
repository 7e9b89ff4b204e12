"""Experiment: from the options of a run to the objects it is made of, its move and acceptance test among them."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from trajens import datasets, schedule
from trajens.acceptance import AcceptanceTest, Barker, Metropolis, MinibatchBarker, Penalty, paper_test
from trajens.acceptance.base import minibatch_chunk
from trajens.app.config import EVEN, METROPOLIS, PENALTY, PROBLEMS, RENAMED, STARTS, Config
from trajens.app.kinds import AUTO, tilts
from trajens.app.resolve import resolve
from trajens.app.sources import EpisodesData, LabelledData
from trajens.datasets import Labelled, Reading
from trajens.errors import InputError, integer, number, require
from trajens.models import Model
from trajens.moves import CentreOfMass, Mixture, Proposer, Segment, SingleSite, by_layer
from trajens.moves.base import usual_fraction
from trajens.moves.scan import Checkerboard, Scan, scan_named
from trajens.problem import Problem
from trajens.records import MAX_EPOCHS, SEARCH
from trajens.rl.catalogue import is_environment
from trajens.run.control import Controller, FixedEpochs, count_marks
from trajens.run.identity import RunIdentity
from trajens.run.progress import Progress
from trajens.run.run import Run, restore, sample
from trajens.run.start import BUDGET, RANDOM, usual_start
from trajens.run.stored import StoredRun
from trajens.run.train import (
    CHAINS_OF_FEW,
    FEW,
    LEAST_BUDGET,
    TrainingSetup,
    is_by_layer,
    pairs_per_second,
    train_as_set_up,
    training_setup,
    usual_chunk,
)
from trajens.run.until import controller_until
from trajens.sampling.settings import BY_LOSSES, Settings, settings_of
from trajens.storage.directory import RunDirectory
from trajens.target import Target


def move_of(config: Config, fraction: float | None, layers: Iterable[str] = ()) -> Proposer:
    """How models are redrawn, `fraction` of their parameters, or as many as are tuned; one of the layers at a time."""
    move: Any = SingleSite(fraction, config.refresh)
    if config.segment is not None:
        length = integer("segment", config.segment, 1, "try 2 to 8 models")
        move = Segment(length, fraction, config.refresh)
    move = by_layer(layers, move)
    if config.centre_of_mass is None:
        return move
    width = number("centre-of-mass", config.centre_of_mass, "try sigma or more at small s", above=0.0)
    return Mixture([(config.largest_tau, move), (1, CentreOfMass(width))])


_OF_MOVES = ("fraction", "refresh", "segment", "centre_of_mass")
_SHORTEST = 0.1
"""Of --minutes, what is left to a run at least, however long compiling has taken."""

_OF_PENALTY = ("rho", "pool", "tolerance", "stages", "scores")
"""Options that mean something with the penalty test, and nothing with a test on all data."""


def acceptance_of(config: Config, size: int, usual_chunk: int | None) -> AcceptanceTest:
    """How changes are accepted on `size` examples; None is the library's own chunk."""
    name, is_by_data = config.acceptance, config.epochs is None
    require(
        config.rho is None or name in ("penalty", "minibatch-barker"),
        f"rho must be left out with --acceptance {name}, got {config.rho}; use penalty or minibatch-barker for that.",
    )
    for option, advice in (("pool", "pool plans"), ("tolerance", "keep a tolerance"), ("stages", "refuse early")):
        value = getattr(config, option)
        require(
            name == "penalty" or value in (None, False),
            f"{option} must be left out with --acceptance {name}, got {value}; use penalty to {advice}.",
        )
    if config.chunk is not None:
        advice = f"a decision can read {size} examples at most, leave it out for the usual number"
        integer("chunk", config.chunk, 2, advice, size)
    if name in ("barker", "metropolis"):
        return Barker(config.chunk) if name == "barker" else Metropolis(config.chunk)
    chunk = minibatch_chunk(usual_chunk if config.chunk is None else config.chunk, size)
    if name == "paper":
        return paper_test(chunk)
    if name == "penalty":
        given = {"tolerance": config.tolerance, "stages": config.stages}
        chosen: dict[str, Any] = {option: value for option, value in given.items() if value is not None}
        return Penalty(chunk, config.rho, pool=is_by_data if config.pool is None else config.pool, **chosen)
    return MinibatchBarker(chunk, MinibatchBarker.rho if config.rho is None else config.rho)


class Experiment:
    """What a `Config` means.

    Parameters
    ----------
    config : Config
    others : sequence of Experiment
        Some that may have the same data or network, which then are not read or made again.
    """

    def __init__(self, config: Config, others: Sequence[Experiment] = ()):
        self.config = config
        self._others = others

    @cached_property
    def source(self) -> LabelledData | EpisodesData:
        """Where losses come from: labelled data, or episodes of an environment."""
        kind = EpisodesData if is_environment(self.config.problem) else LabelledData
        source = kind(self.config, lambda: self.chains)
        for other in self._others:
            source.take_over(other.source)
        return source

    @property
    def labelled_data(self) -> LabelledData:
        """Refused where there are none."""
        if not isinstance(self.source, LabelledData):
            raise InputError(
                f"the run must be one on labelled data, got {self.config.problem}, whose examples are episodes; see "
                "trajens evaluate."
            )
        return self.source

    @property
    def data(self) -> Labelled | datasets.PerceptronData:
        """Training inputs and labels."""
        return self.labelled_data.data

    @property
    def reading(self) -> Reading:
        """How inputs and labels are read; a run knows it without its training data."""
        return self.labelled_data.reading

    def labelled(self, path: str | Path) -> Labelled:
        """Inputs and labels of a file, read as the training data were; numbers on the scale of those."""
        return self.labelled_data.labelled(path)

    def inputs(self, path: str | Path) -> np.ndarray:
        """Inputs of a file, read as the training data were."""
        return self.labelled_data.inputs(path)

    @property
    def test_data(self) -> Labelled | None:
        """Inputs and labels for evaluation, where the problem has them."""
        return self.labelled_data.test_data

    @property
    def loss(self) -> str:
        """Cross-entropy of classes, unless another was asked for, or the squared error of numbers; see `classes_of`."""
        return self.labelled_data.loss

    @property
    def labels(self) -> str:
        """What labels are taken for: ``classes (3)`` or ``numbers``."""
        return self.labelled_data.labels

    @property
    def model(self) -> Model:
        """The network."""
        return self.source.model

    @property
    def problem(self) -> Problem:
        """The loss on the training data, or on episodes."""
        return self.source.problem

    @property
    def is_by_data(self) -> bool:
        """Whether the run is as long as a budget, and chooses what was not said."""
        return self.config.epochs is None

    @cached_property
    def _training(self) -> TrainingSetup:
        """What is trained on a budget, and how."""
        config = self.config
        budget = BUDGET if config.budget is None else config.budget
        s = None if config.s is None else self._s_of(tilts(config.s)[0])
        own: dict[str, Any] = {"sigma": config.sigma, "prior": self._prior, "records": config.records}
        own |= {"tau": config.tau, "budget": budget, "s": s, "loss": config.until_loss}
        own |= {} if config.start is None else {"start": config.start}
        setup = training_setup(self.problem, **own, settings=self._settings)
        return setup._replace(budget=replace(setup.budget, seconds=config.clock))

    def _fixed(self, burn_in: int | None, is_resumed: bool = False) -> tuple[Target, Settings, Controller]:
        """What is sampled for fixed epochs, or until it has converged, and how."""
        config, settings = self.config, settings_of({**self._settings, "burn_in": burn_in}).checked(self.target)
        fewest = 1 if is_resumed else integer("epochs", config.epochs, 1, "one epoch is one proposal", MAX_EPOCHS)
        fixed = FixedEpochs(settings.burn_in, self.target.schedule)
        return self.target, settings, controller_until(fixed, config.until, config.max_epochs, fewest)

    def _s_of(self, values: list[float]) -> Any:
        """One number, or one for every chain."""
        return values[0] if len(values) == 1 else np.repeat(values, self.chains // len(values))

    @property
    def _prior(self) -> Any:
        return None if self.config.prior == "flat" else self.config.prior

    @cached_property
    def target(self) -> Target:
        """The tilted distribution of paths."""
        if self.is_by_data:
            return self._training.target
        config = self.config
        values, annealing = tilts(config.s)
        s = self._s_of(values)
        if annealing is not None:
            s = schedule.exponential(*annealing, integer("anneal", config.anneal, 1, "give epochs"))
        assert config.sigma is not None
        assert config.tau is not None
        return Target(self.problem, config.tau, config.sigma, s, self._prior)

    @property
    def chains(self) -> int:
        """All chains: `config.chains` for every value of s and every seed."""
        return self._chains_of_one * len(self._seeds) * self._tilts

    @property
    def _chains_of_one(self) -> int:
        chains = (CHAINS_OF_FEW if self._has_few else 1) if self.config.chains is None else self.config.chains
        return integer("chains", chains, 1, "use 1 or more independent chains")

    @property
    def _has_few(self) -> bool:
        """Whether a run by data has so few examples that decisions read all of them."""
        return self.is_by_data and isinstance(self.source, LabelledData) and self.source.size <= FEW

    @property
    def _tilts(self) -> int:
        return 1 if self.config.s is None else len(tilts(self.config.s)[0])

    @property
    def _seeds(self) -> list[int]:
        return self.config.seed if isinstance(self.config.seed, list) else [self.config.seed]

    @property
    def _seeds_of_chains(self) -> np.ndarray:
        return np.tile(np.repeat(self._seeds, self._chains_of_one), self._tilts)

    @property
    def start(self) -> str | None:
        """Where paths start; of fixed epochs None for random models, with which a search for s begins too."""
        is_left = self.config.start is None and self.is_by_data
        start = usual_start(self._training.budget) if is_left else self.config.start
        return RANDOM if start == SEARCH else start

    @property
    def is_tuned(self) -> bool:
        """Whether moves tune their sizes."""
        return self.is_by_data if self.config.tune is None else self.config.tune

    @property
    def fraction(self) -> float | None:
        """Share of the parameters that is redrawn; None where that is tuned."""
        if self.config.fraction is None and not self.is_tuned:
            return usual_fraction(self.problem.dim)
        return self.config.fraction

    @property
    def move(self) -> Proposer:
        """How models are redrawn."""
        return move_of(self.config, self.fraction, self.problem.layers if self.is_by_layer else ())

    @property
    def is_by_layer(self) -> bool:
        """Whether one layer is moved at a time: as `train` does it, unless anything is said of moves."""
        config = self.config
        if config.by_layer is not None:
            return config.by_layer
        is_said = any(getattr(config, name) != getattr(Config, name) for name in _OF_MOVES)
        return self.is_by_data and self.is_tuned and not is_said and is_by_layer(self.problem)

    @property
    def acceptance(self) -> AcceptanceTest:
        """How changes are accepted."""
        size, config = self.source.size, self.config
        usual = usual_chunk(size, self.chains * config.largest_tau) if self.is_by_data else None
        if config.acceptance is None:
            is_asked = any(getattr(config, name) is not None for name in _OF_PENALTY)
            config = replace(config, acceptance=METROPOLIS if self._has_few and not is_asked else PENALTY)
        return acceptance_of(config, size, usual)

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
        return None if self.config.start in (None, *STARTS) else StoredRun(self.config.start).paths

    def run(
        self,
        out: str | Path | None = None,
        resume: bool = False,
        progress: bool | Callable[[Progress], None] = False,
        stop: Callable[[], bool] | None = None,
        epochs: int | None = None,
    ) -> Run:
        """Sample it, see `trajens.sample`.

        Parameters
        ----------
        out : path, optional
            Directory of the run.
        resume : bool
            Go on with the run that is there.
        progress, stop
            As for `sample`.
        epochs : int, optional
            Other than those of the options; for a run by data, those to add to it.
        """
        config = self.config
        directory = None if out is None else RunDirectory(out, resume, config.checkpoint_seconds, self._written)
        # A run that was begun has no need of what it started from.
        is_begun = directory is not None and resume and directory.files.has_checkpoint
        if self.is_by_data:
            start = RANDOM if is_begun else self.start
            run = train_as_set_up(self._training, start, progress=progress, out=directory, stop=stop)
            return run.extend(epochs, progress=progress, stop=stop) if epochs and run.is_complete else run
        epochs = config.epochs if epochs is None else epochs
        assert epochs is not None
        assert config.records is not None
        return sample(
            self.target,
            epochs,
            burn_in=config.burn_in,
            initial=None if is_begun else self.initial,
            records=config.records,
            progress=progress,
            out=directory,
            stop=stop,
            until=config.until,
            max_epochs=config.max_epochs,
            **self._settings,
        )

    def check(self) -> None:
        """Refuse, with the sentence of a run, what one would refuse before it compiles anything."""
        config, _ = self.config, self.initial
        if self.is_by_data:
            _ = self._training
        else:
            target, settings, controller = self._fixed(config.burn_in)
            controller.check(target.s_of_chains(settings.chains))
            assert config.epochs is not None
            count_marks(config.epochs, settings.burn_in, integer("records", config.records, 1, "try 200"))

    def restored(self, out: str | Path) -> Run:
        """The run in a directory as it stands; nothing is changed there."""
        directory = RunDirectory(out, True)
        asked = StoredRun.of(directory.files)
        setup = self._training if self.is_by_data else self._fixed(asked.asked_burn_in, True)
        run = restore(RunIdentity(*setup), directory)
        if run is None:
            raise InputError(f"'{out}' must hold a checkpoint, got none; is it the directory of a run?")
        return run

    @property
    def _settings(self) -> dict[str, Any]:
        """All of `Settings` but burn-in, whose default depends on the epochs."""
        config = self.config
        return {
            "chains": self.chains,
            # Of every s: the chains of the first seed, of the second, ..
            "seed": self._seeds[0] if len(self._seeds) == 1 else self._seeds_of_chains,
            "move": self.move,
            "acceptance": self.acceptance,
            "scan": self.scan,
            "keep_paths": config.keep_paths if self.is_by_data else bool(config.keep_paths),
            "ahead": config.ahead,
            "example_weights": self.scores,
            "tune": self.is_tuned,
            "exchange": True if config.exchange == AUTO else config.exchange,
        }

    @property
    def scores(self) -> str | None:
        """How examples are drawn; None is all alike."""
        usual = BY_LOSSES if self.is_by_data else EVEN
        scores = usual if self.config.scores is None else self.config.scores
        is_whole = self.acceptance.takes_all_data
        require(
            not is_whole or self.config.scores in (None, EVEN),
            f"scores must be {EVEN} with --acceptance {self.config.acceptance}, which reads all data, got {scores}; "
            "leave it out.",
        )
        return None if scores == EVEN or is_whole else scores

    def on_clock(self, minutes: float, passed: float = 0.0) -> tuple[Experiment, float]:
        """The same for so many minutes of which some seconds have passed, and the pairs of losses a second at first.

        Its budget is what that is at first sight, and is found again as the run goes on.
        """
        minutes, began = number("minutes", minutes, "try 2", above=0.0), time.perf_counter()
        speed = pairs_per_second(self._training, self.start)
        clock = max(60 * minutes - passed - (time.perf_counter() - began), _SHORTEST * 60 * minutes)
        least = LEAST_BUDGET * self.chains
        budget = max(float(f"{clock * speed:.2g}"), least)
        return Experiment(replace(self.config, minutes=None, budget=budget, clock=clock), others=(self,)), speed

    def with_budget_for(self, minutes: float) -> tuple[Experiment, float]:
        """The old name of `on_clock`, which works in this version with a warning."""
        warnings.warn("with_budget_for is now called on_clock.", FutureWarning, stacklevel=2)
        return self.on_clock(minutes)

    @property
    def _written(self) -> str:
        """The options as a run writes them down: with all that the library or the data would decide."""
        config, acceptance = self.config, self.acceptance
        known: dict[str, Any] = {"fraction": self.fraction, "tune": self.is_tuned or None}
        if self.is_by_data:
            known |= {"sigma": self.target.sigma, "tune": self.is_tuned, "tau": self.target.tau, "start": self.start}
        known |= {"scores": self.scores, "by_layer": self.is_by_layer or None}
        if not acceptance.takes_all_data:
            known["chunk"] = acceptance.chunk_size(self.source.size)
        if isinstance(acceptance, (Penalty, MinibatchBarker)) and config.acceptance != "paper":
            known["rho"] = acceptance.rho
        if isinstance(acceptance, Penalty):
            known |= {"tolerance": acceptance.tolerance, "stages": acceptance.stages}
            known |= {"pool": acceptance.pool} if self.is_by_data else {}
        if self.is_by_data:
            known |= {"chains": self._chains_of_one, "keep_paths": self._training.settings.keep_paths or None}
        if config.acceptance is None:
            known["acceptance"] = PENALTY if isinstance(acceptance, Penalty) else METROPOLIS
        known |= self.source.written
        return replace(config, **known).to_toml()

    @classmethod
    def load(cls, run: str | Path | StoredRun) -> Experiment:
        """What a run, or that in a directory, was asked to be."""
        stored = run if isinstance(run, StoredRun) else StoredRun(run)
        config = stored.config
        if config is None:
            raise InputError(
                f"the directory must hold a run of 'trajens train', got '{stored.path}' without config.toml; check the "
                "path, or pass the model in Python."
            )
        # Runs of the version before have the names of then, and the numbers of a file as they are.
        options = {RENAMED.get(name, name): value for name, value in config.items()}
        problem = str(options.get("problem"))
        if problem not in PROBLEMS and not is_environment(problem) and "reading" not in options:
            options.setdefault("standardise", False)
        # What a run does not say it has not done.
        options.setdefault("by_layer", False)
        if problem not in PROBLEMS and not is_environment(problem):
            options.setdefault("hold_out", 0.0)
        options.setdefault("keep_paths", False)
        return cls(resolve(options))
