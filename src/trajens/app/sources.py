"""Sources of examples: labelled data of a file, MNIST or the perceptron, or episodes; and their network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from trajens import datasets, models
from trajens.app.config import OF_FILES, PROBLEMS, Config
from trajens.app.resolve import require_agreement
from trajens.datasets import Label, Labelled, Reading
from trajens.errors import integer, require
from trajens.losses import OF_CLASSES
from trajens.models import Model
from trajens.population import MAX_SIZE
from trajens.problem import Problem, held_out_examples
from trajens.rl.catalogue import environment
from trajens.rl.environment import Environment
from trajens.rl.policy import inputs_of, outputs_of
from trajens.rl.problem import MAX_EPISODES, problem
from trajens.sampling.footprint import require_room_for_data, require_room_for_models
from trajens.stream import Stream
from trajens.target import path_length

_DIGITS = Reading("array", Label(None, tuple(range(10))), shape=(28, 28), is_bytes=True)
_LINE = Reading("array", Label(), shape=(2,))
_OF_DATA = ("problem", "num_data", "data_seed", "noise", "loss", "model", "sizes", "outputs", *OF_FILES)
_OF_NETWORKS = (*_OF_DATA, "hold_out", "hidden", "channels", "kernel", "pooling", "shape", "activation", "weights")


_FEWEST_TO_HOLD_OUT = 10


class LabelledData:
    """The data, the network and the loss that a `Config` means, for as many chains as `chains` says."""

    def __init__(self, config: Config, chains: Callable[[], int]):
        self.config, self._chains = config, chains

    def take_over(self, other: Any) -> None:
        """Data and network of another, where they are the same and there already: they are not read or made again."""
        for name, options in (("_read", _OF_DATA), ("problem", _OF_NETWORKS)):
            if name in vars(other) and agree(self.config, other.config, options):
                setattr(self, name, getattr(other, name))

    @property
    def size(self) -> int:
        """Examples that a decision may read: all."""
        return len(self.data.y)

    @property
    def data(self) -> Labelled | datasets.PerceptronData:
        """Training inputs and labels: all but those held out."""
        held_out = self._is_held_out
        return self._read[1] if held_out is None else self._part(~held_out)

    @property
    def held_out(self) -> Labelled | None:
        """Inputs and labels of a file that are not trained on, if there are some."""
        return None if self._is_held_out is None else self._part(self._is_held_out)

    @cached_property
    def _is_held_out(self) -> np.ndarray | None:
        """Which examples (N,) of the file are held out; None where none are."""
        size = len(self._read[1].y)
        if not self.config.hold_out or size < _FEWEST_TO_HOLD_OUT:
            return None
        return held_out_examples(size, self.config.hold_out)

    def _part(self, chosen: np.ndarray) -> Labelled:
        x, y = self._read[1]
        return Labelled(np.asarray(x)[chosen], np.asarray(y)[chosen])

    @cached_property
    def reading(self) -> Reading:
        """How inputs and labels are read; a run knows it without its training data."""
        if self.config.problem == "mnist":
            return replace(_DIGITS, label=Label()) if self.config.loss == "squared" else _DIGITS
        if self.config.reading is not None:
            return require_agreement(self.config, Reading.from_json(self.config.reading))
        return self._read[0]

    @cached_property
    def _read(self) -> tuple[Reading, Labelled | datasets.PerceptronData]:
        config = self.config
        if config.problem == "perceptron":
            size = integer("num-data", config.num_data, 2, "the paper uses 256", MAX_SIZE)
            require_room_for_data(size, datasets.PERCEPTRON_BYTES)
            seed = integer("data-seed", config.data_seed, 0, "any whole number will do")
            return _LINE, datasets.perceptron(seed, size, config.noise or 0.0)
        if config.problem == "mnist":
            digits = datasets.mnist()
            return self.reading, Labelled(digits.train_x, digits.train_y)
        if config.reading is not None:
            return self.reading, self.reading.labelled(config.problem)
        # The number of classes may be known: that of the paper's network, or of a run without a reading.
        outputs = models.cnn().outputs if config.model == "cnn" else config.outputs or (config.sizes or [1])[-1]
        known = outputs if outputs > 1 else None
        return datasets.learn(
            config.problem, config.label, config.loss, config.missing, config.standardise, known, drop=config.drop or ()
        )

    def labelled(self, path: str | Path) -> Labelled:
        """Inputs and labels of a file, read as the training data were; numbers on the scale of those."""
        return self.reading.labelled(path)

    def inputs(self, path: str | Path) -> np.ndarray:
        """Inputs of a file, read as the training data were."""
        return self.reading.inputs(path)

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
        if config.model == "cnn" or config.sizes is not None or config.shape is not None:
            return models.described(asdict(config))
        shape, outputs = self.reading.shape, 1
        if self.loss in OF_CLASSES:
            outputs = len(self.reading.label.classes or ())
            require(
                outputs >= 2,
                f"labels must be of 2 or more classes, got {outputs}; use --loss squared to fit numbers.",
            )
        if config.model == "conv":
            require(
                len(shape) in (2, 3),
                "inputs must be images (height, width) or (height, width, colours) for --model conv, got shape "
                f"{shape}; use --model mlp.",
            )
            return models.described({**asdict(config), "shape": list(shape), "outputs": outputs})
        hidden = [] if config.model == "linear" else config.hidden or []
        return models.described({**asdict(config), "sizes": [int(np.prod(shape)), *hidden, outputs]})

    @cached_property
    def problem(self) -> Problem:
        """The loss on the training data."""
        is_line = isinstance(self.data, datasets.PerceptronData)
        # Before an array of that size is made.
        dim = self.data.x.shape[1] if is_line else self.model.dim
        require_room_for_models(self._chains(), path_length(self.config.largest_tau), dim)
        if isinstance(self.data, datasets.PerceptronData):
            return self.data.problem()
        problem = self.model.problem(self.data.x, self.data.y, self.loss)
        if self.held_out is not None:
            problem.held_out = self.model.problem(*self.held_out, self.loss)
        return problem

    @property
    def loss(self) -> str:
        """Cross-entropy of classes, unless another was asked for, or the squared error of numbers; see `classes_of`."""
        if self.config.loss is not None:
            return self.config.loss
        return "squared" if self.reading.label.classes is None else OF_CLASSES[0]

    @property
    def labels(self) -> str:
        """What labels are taken for: ``classes (3)`` or ``numbers``."""
        return str(self.reading.label)

    @property
    def written(self) -> dict[str, Any]:
        """Options that the data have decided."""
        config = self.config
        if config.model is None:
            return {}
        known: dict[str, Any] = {"loss": self.loss, **network_of(config, self.model)}
        if config.problem not in PROBLEMS:
            reading = self.reading
            known |= {"reading": reading.to_json(), "standardise": reading.is_standardised}
            known |= {"label": reading.label.name, "missing": reading.missing} if reading.kind == "table" else {}
        return known


def network_of(config: Config, model: Model) -> dict[str, Any]:
    """The options that say which network it is."""
    # A linear model is an mlp without hidden layers, and so without an activation.
    others = ("model", "weights", *(["activation"] if config.model == "linear" else []))
    return {name: value for name, value in model.description.items() if name not in others}


def agree(one: Config, other: Config, names: tuple[str, ...]) -> bool:
    """Whether some options are the same."""
    return all(getattr(one, name) == getattr(other, name) for name in names)


_OPTIONS = ("problem", "model", "sizes", "hidden", "activation", "weights", "max_batch", "returns")


class EpisodesData:
    """The environment, the network and the loss that a `Config` means, for as many chains as `chains` says."""

    def __init__(self, config: Config, chains: Callable[[], int]):
        self.config, self._chains = config, chains

    def take_over(self, other: Any) -> None:
        """The loss of another, where it is the same."""
        if isinstance(other, EpisodesData) and "problem" in vars(other) and agree(self.config, other.config, _OPTIONS):
            self.problem = other.problem

    @cached_property
    def environment(self) -> Environment:
        """Where policies act."""
        return environment(self.config.problem)

    @property
    def size(self) -> int:
        """Episodes that a decision may read."""
        return self.problem.max_batch

    @cached_property
    def model(self) -> Model:
        """The network: linear, or with hidden layers."""
        config = self.config
        if config.sizes is not None:
            return models.described(asdict(config))
        hidden = config.hidden or [] if config.model == "mlp" else []
        sizes = [inputs_of(self.environment), *hidden, outputs_of(self.environment)]
        return models.described({**asdict(config), "sizes": sizes})

    @cached_property
    def problem(self) -> Stream:
        """The loss on episodes."""
        config = self.config
        require_room_for_models(self._chains(), path_length(config.largest_tau), self.model.dim)
        max_batch = MAX_EPISODES if config.max_batch is None else config.max_batch
        returns = None if config.returns is None else (config.returns[0], config.returns[1])
        return problem(self.environment, self.model, returns, max_batch)

    @property
    def written(self) -> dict[str, Any]:
        """Options that the environment has decided."""
        return network_of(self.config, self.model)
