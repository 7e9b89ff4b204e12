"""Bias of the sampled excess loss, acceptance and data of every test: the figure "acceptance" with 1024 chains.

python benchmarks/bias.py [FOLDER]
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import jax
from rich.console import Console


def main() -> None:
    """Sample, print one line per test, and draw."""
    jax.config.update("jax_num_cpu_devices", os.cpu_count())
    from trajens.figures.figure_acceptance import Scale, figure_acceptance

    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "figures")
    Console().print(figure_acceptance(folder, Scale(1024, 8000), progress=True).table)


if __name__ == "__main__":
    main()
