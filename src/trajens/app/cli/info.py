"""``trajens info``: what is installed and what it runs on."""

from __future__ import annotations

import platform

import jax
from rich.console import Console
from rich.table import Table

from trajens.app.cli.environment import keep_compiled, num_cores, use_all_cores
from trajens.kernels import library
from trajens.version import __version__


def info() -> None:
    """Versions, devices, the loss kernel in use, and where compiled programs are kept."""
    use_all_cores()
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column()
    # The end of a path matters as much as its beginning.
    table.add_column(overflow="fold")
    table.add_row("trajens", __version__)
    table.add_row("Python", f"{platform.python_version()} ({platform.system()} {platform.machine()})")
    table.add_row("JAX", jax.__version__)
    table.add_row("devices", ", ".join(str(device) for device in jax.devices()))
    table.add_row("CPU cores", str(num_cores()))
    table.add_row("loss kernel", f"cnn, CPU: {library('cpu').explanation}{_level()}")
    table.add_row("", f"cnn, CUDA: {library('cuda').explanation}{_absence_of_a_gpu()}")
    table.add_row("", "others: JAX definition, compiled by XLA")
    table.add_row("compiled programs", keep_compiled())
    Console().print(table)


def _absence_of_a_gpu() -> str:
    return "" if any(device.platform == "gpu" for device in jax.devices()) else "; JAX sees no GPU"


def _level() -> str:
    levels = library("cpu").levels
    return "" if levels is None else f", {levels}"
