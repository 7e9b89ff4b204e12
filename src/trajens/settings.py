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
    ahead: int = 1

    @property
    def learn_until(self) -> int:
        """The epoch until which acceptance tests adapt."""
        return self.burn_in if self.burn_in > 0 else MAX_EPOCHS

    def program(self, target: Target) -> Program:
        """All that is compiled in."""
        problem = target.problem
        return Program(
            problem.loss,
            problem.size,
            target.tau,
            self.move,
            self.test,
            self.scan,
            target.schedule,
            looks_every(self.devices[0]),
            self.ahead,
        )


def looks_every(device: jax.Device) -> int:
    """A look at whether all lanes have arrived costs nothing on a CPU, but makes a GPU wait for its host."""
    return 1 if device.platform == "cpu" else 16
