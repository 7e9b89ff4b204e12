"""How a target is sampled."""

from __future__ import annotations

from dataclasses import dataclass

import jax

from trajens.acceptance import AcceptanceTest
from trajens.moves import Move
from trajens.sampler import Program
from trajens.scan import Scan
from trajens.target import Target

MAX_EPOCHS = 2**31 - 1


@dataclass(frozen=True)
class Settings:
    """The arguments of `sample` that stay the same when a run is continued."""

    chains: int
    seed: int
    burn_in: int
    move: Move
    test: AcceptanceTest
    scan: Scan
    keep_paths: bool
    devices: tuple[jax.Device, ...]

    @property
    def learn_until(self) -> int:
        """The epoch until which acceptance tests adapt."""
        return self.burn_in if self.burn_in > 0 else MAX_EPOCHS

    def program(self, target: Target) -> Program:
        """All that is compiled in."""
        problem = target.problem
        # A look costs nothing on a CPU, but makes a GPU wait for its host.
        looks_every = 1 if self.devices[0].platform == "cpu" else 16
        return Program(
            problem.loss, problem.size, target.tau, self.move, self.test, self.scan, target.schedule, looks_every
        )
