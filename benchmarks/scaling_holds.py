"""What a device of so many gigabytes holds, by the formula of `trajens.sampling.footprint`, as a table for the page.

python benchmarks/scaling_holds.py [142.6]
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

import trajens as tj
from trajens.sampling.footprint import bytes_needed
from trajens.sampling.settings import Settings

DEVICE = 142.6
"""Gigabytes (1e9 bytes) that JAX may use on an H200, with XLA_PYTHON_CLIENT_MEM_FRACTION=0.95."""

FEW = 8192
"""Examples that are made; of more only their bytes are counted, on which nothing else depends."""


@dataclass(frozen=True)
class Held:
    """A network, its examples and the length of its paths."""

    name: str
    model: Any
    dtype: type
    examples: int
    tau: int
    chunk: int = 240

    def needed(self, chains: int) -> float:
        """Gigabytes."""
        x = np.zeros((FEW, *self.model.input_shape), self.dtype)
        problem = self.model.problem(x, np.arange(FEW) % 10)
        target = tj.Target(problem, self.tau, 0.05, 50.0, 0.3)
        how: dict[str, Any] = {"chains": chains, "acceptance": tj.Penalty(self.chunk), "move": tj.SingleSite(0.25)}
        settings = Settings(devices=jax.devices()[:1], **how).checked(target)
        more = (self.examples - FEW) * sum(leaf.nbytes for leaf in jax.tree.leaves(problem.data)) / FEW
        return (bytes_needed(target, settings, 0) + more) / 1e9

    def most(self, device: float) -> int:
        """Chains that fit."""
        few, many = 0, 1
        while self.needed(many) <= device:
            few, many = many, 2 * many
        while many - few > 1:
            middle = (few + many) // 2
            few, many = (middle, many) if self.needed(middle) <= device else (few, middle)
        return few


CASES = (
    Held("the paper's cnn (1906)", tj.models.cnn(), np.uint8, 60_000, 64),
    Held("the same", tj.models.cnn(), np.uint8, 60_000, 1024),
    Held("the same", tj.models.cnn(), np.uint8, 100_000_000, 64),
    Held("mlp 784-32-10 (25 450)", tj.models.mlp((784, 32, 10)), np.uint8, 60_000, 64),
    Held("mlp 64-256-10 (19 210)", tj.models.mlp((64, 256, 10)), np.float32, 60_000, 64),
    Held("mlp 784-1024-10 (814 090)", tj.models.mlp((784, 1024, 10)), np.uint8, 60_000, 64),
    Held("mlp 784-4096-4096-10 (20 037 642)", tj.models.mlp((784, 4096, 4096, 10)), np.uint8, 60_000, 64),
)


def main() -> None:
    """Print it."""
    device = float(sys.argv[1]) if len(sys.argv) > 1 else DEVICE
    print("| network (parameters) | N | tau | one chain, GB | most chains |\n|---|---|---|---|---|")
    for case in CASES:
        print(f"| {case.name} | {case.examples:,} | {case.tau} | {case.needed(1):.3g} | {case.most(device):,} |")


if __name__ == "__main__":
    main()
