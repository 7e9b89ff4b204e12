"""What is trained on episodes: an environment by its name, and a network that acts in it."""

from __future__ import annotations

from dataclasses import asdict
from functools import cached_property
from typing import Any

from trajens import models
from trajens.experiments.labelled import agree, network_of
from trajens.experiments.options import Config
from trajens.models import Model
from trajens.rl.environment import Environment
from trajens.rl.named import environment
from trajens.rl.policy import inputs_of, outputs_of
from trajens.rl.problem import MAX_EPISODES, problem
from trajens.sampling.footprint import require_room_for_models
from trajens.stream import Stream
from trajens.target import path_length

_OPTIONS = ("problem", "model", "sizes", "hidden", "activation", "weights", "max_batch", "returns")


class EpisodesData:
    """The environment, the network and the loss that a `Config` means, for so many chains."""

    def __init__(self, config: Config, chains: int):
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
        require_room_for_models(self._chains, path_length(config.tau), self.model.dim)
        max_batch = MAX_EPISODES if config.max_batch is None else config.max_batch
        returns = None if config.returns is None else (config.returns[0], config.returns[1])
        return problem(self.environment, self.model, returns, max_batch)

    @property
    def written(self) -> dict[str, Any]:
        """Options that the environment has decided."""
        return network_of(self.config, self.model)
