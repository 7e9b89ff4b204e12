"""The frame of all figures: what is asked, what is left when one is finished, and runs that are kept."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from rich import box
from rich.table import Table

from trajens.app.sweeps.driver import Swept
from trajens.app.sweeps.plan import Plan
from trajens.errors import choice, integer, require
from trajens.files import storage_errors, write_atomically
from trajens.plots.style import require_matplotlib
from trajens.run.progress import Progress
from trajens.run.run import Run, sample
from trajens.storage.directory import RunDirectory
from trajens.target import Target
from trajens_paper.claims import Claim, read_claims, write_claims

S = TypeVar("S")
Show = Callable[[Progress], None]
Sweep = Callable[[Plan, Path], Swept]
"""Does the runs of a plan in a directory."""
RESULTS = Path("paper") / "results"
"""What was sampled at the paper's scale, below the root of a clone."""


@dataclass(frozen=True)
class Finished:
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


class Job(NamedTuple, Generic[S]):
    """What is asked of a figure; the name of a scale of the user's own is ``own``, and `sweep` does its runs."""

    out: Path
    scale: S
    scale_name: str
    seed: int
    progress: bool
    sweep: Sweep | None = None


class Made(NamedTuple):
    """What a figure makes of it; `draw` writes the pictures to a stem, `points` are named tuples of one kind."""

    table: Table
    remarks: tuple[str, ...]
    points: Sequence[Any]
    claims: tuple[Claim, ...]
    draw: Callable[[Path], tuple[Path, Path]]


def figure(
    name: str, scales: dict[str, S], is_sweep: bool = False
) -> Callable[[Callable[[Job[S]], Made]], Callable[..., Finished]]:
    """Frame of a figure: from a function of a `Job` to one that checks what is asked, and writes what was made.

    `is_sweep` says that its runs can be those of a sweep.
    """

    def framed(make: Callable[[Job[S]], Made]) -> Callable[..., Finished]:
        def draw(
            out: Path,
            scale: str | S = "quick",
            seed: int = 0,
            progress: bool = False,
            sweep: Sweep | None = None,
        ) -> Finished:
            """Sample a figure, or find its runs, and write its .png, .pdf, .csv and its claims into `out`.

            Parameters
            ----------
            out : Path
                Folder, made if need be. Runs are kept in ``out/runs`` and used again.
            scale : str or Scale
                A name in ``SCALES`` of its module, or one of your own.
            seed : int
            progress : bool
                Show a progress bar on stderr.
            sweep : callable, optional
                Does the runs that are missing, in place of this process: of a plan and a directory, as
                ``lambda plan, out: tj.sweep(plan, out, "local")``.

            Returns
            -------
            Finished
            """
            require(
                sweep is None or is_sweep,
                f"figure must be one whose runs can be a sweep with an engine, got {name}; use mnist, or no engine.",
            )
            job = _checked(out, scale, scales, seed, progress)._replace(sweep=sweep)
            made = make(job)
            stem = job.out / f"figure_{name}"
            files = (
                *made.draw(stem),
                write_csv(made.points, stem.with_suffix(".csv")),
                write_claims(job.out, name, job.scale_name, job.seed, made.claims),
            )
            return Finished(made.table, made.remarks, files, made.claims)

        return draw

    return framed


def _checked(out: Path, scale: str | S, scales: dict[str, S], seed: int, progress: bool) -> Job[S]:
    """Folder, scale and seed of a figure, before any time is spent on sampling; `scale` may be a name."""
    is_own = isinstance(scale, type(next(iter(scales.values()))))
    chosen: S = scale if is_own else scales[choice("scale", scale, scales)]  # type: ignore[assignment]
    seed = integer("seed", seed, 0, "any whole number in range will do", 2**32 - 1)
    require_matplotlib()
    out = ready_folder(out)
    if (out / "claims.json").exists():
        read_claims(out / "claims.json")
    return Job(out, chosen, "own" if is_own else str(scale), seed, progress)


def kept_run(folder: Path, target: Target, epochs: int, progress: bool | Show, **settings: Any) -> Run:
    """Sample into a run directory, or read back the run that is there; one that was interrupted goes on.

    In the directory of a run that is complete, nothing is changed.

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
    if not run.is_complete:
        # Saved, and the same figure goes on from there; but it cannot be drawn.
        raise KeyboardInterrupt
    require(
        run.epochs == epochs,
        f"'{folder}' must hold a run of {epochs} epochs, got one of {run.epochs}; remove it, or choose another out.",
    )
    return run


def table_of(title: str, *headings: str, left: tuple[str, ...] = ()) -> Table:
    """An empty table of numbers that fits into 80 columns; those in `left` are text."""
    table = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in headings:
        table.add_column(heading, justify="left" if heading in left else "right", no_wrap=True)
    return table


def ready_folder(out: Path) -> Path:
    """`out`, made if need be, before any time is spent on sampling."""
    with storage_errors(Path(out)):
        Path(out).mkdir(parents=True, exist_ok=True)
        probe = Path(out) / ".trajens-probe"
        probe.touch()
        probe.unlink()
    return Path(out)


def write_csv(rows: Sequence[Any], path: Path) -> Path:
    """Named tuples of one kind as a CSV file with their field names on top."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(rows[0]._fields)
    writer.writerows(rows)
    write_atomically(path, text.getvalue().encode())
    return path
