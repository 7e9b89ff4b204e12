"""What is left after a figure was drawn: numbers to print and files."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from rich.table import Table

from trajens.checkpoint import write_atomically
from trajens.directory import RunDirectory
from trajens.errors import InputError, choice, integer, require
from trajens.figures.claims import Claim, read_claims
from trajens.figures.style import require_matplotlib
from trajens.run import Run, sample
from trajens.target import Target

S = TypeVar("S")


@dataclass(frozen=True)
class Drawn:
    """A figure that was sampled and written.

    Attributes
    ----------
    table : Table
        The numbers in the picture.
    remarks : tuple of str
        Lines to print below it.
    files : tuple of Path
    claims : tuple of Claim
        What the figure says about the paper's claims; also in ``claims.json``.
    """

    table: Table
    remarks: tuple[str, ...]
    files: tuple[Path, ...]
    claims: tuple[Claim, ...] = ()


def prepared(out: Path, scale: str | S, scales: dict[str, S], seed: int) -> tuple[Path, S, int]:
    """Folder, scale and seed of a figure, checked before any time is spent on sampling; `scale` may be a name."""
    named = next(iter(scales.values()))
    chosen = scale if isinstance(scale, type(named)) else scales[choice("scale", scale, scales)]
    seed = integer("seed", seed, 0, "any whole number in range will do", 2**32 - 1)
    require_matplotlib()
    out = ready_folder(out)
    if (out / "claims.json").exists():
        read_claims(out / "claims.json")
    return out, chosen, seed


def name_of(scale: Any) -> str:
    """The name of a scale; one of the user's own has none."""
    return scale if isinstance(scale, str) else "own"


def kept_run(folder: Path, target: Target, epochs: int, progress: Any, **settings: Any) -> Run:
    """Sample into a run directory, or read back the run that is there; one that was interrupted goes on.

    Parameters
    ----------
    folder : Path
        The directory of this run; its name should say all that sets the run apart from others.
    target : Target
    epochs : int
    progress : bool or callable
    **settings
        As for `sample`.
    """
    run = sample(target, epochs, progress=progress, out=RunDirectory(folder, resume=True), **settings)
    require(
        run.epochs == epochs,
        f"'{folder}' must hold a run of {epochs} epochs, got one of {run.epochs}; remove it, or choose another out.",
    )
    return run


def ready_folder(out: Path) -> Path:
    """`out`, made if need be, before any time is spent on sampling."""
    try:
        Path(out).mkdir(parents=True, exist_ok=True)
        probe = Path(out) / ".trajens-probe"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise InputError(
            f"out must be a folder that can be written to, got '{out}' ({error.strerror}); choose another."
        ) from None
    return Path(out)


def write_csv(rows: Sequence[Any], path: Path) -> Path:
    """Named tuples of one kind as a CSV file with their field names on top."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(rows[0]._fields)
    writer.writerows(rows)
    write_atomically(path, text.getvalue().encode())
    return path
