"""``trajens report``: a page about a run, several side by side or a sweep, and its renewal while they go on."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from trajens.app.cli.environment import use_all_cores
from trajens.app.cli.evaluate import CHAIN, DATA, DRAWS
from trajens.app.cli.streams import say
from trajens.app.kinds import as_number
from trajens.app.report import NAME, RunView, load_sweep_view, load_view, page, sweep_page, write_page
from trajens.app.sweeps.directory import SweepDirectory, TaskState
from trajens.app.sweeps.lease import holder
from trajens.app.sweeps.results import RunRow
from trajens.errors import InputError, number, require
from trajens.run.stored import StoredRun

EVERY = 10.0


def report(
    directories: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR...", help="Directory of a run, or of a sweep; several runs are compared.", show_default=False
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Page to write.", show_default=f"{NAME} in DIR, or here where there are several"
        ),
    ] = None,
    data: DATA = None,
    chain: CHAIN = None,
    draws: DRAWS = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Renew the page until all runs are complete; Ctrl-C ends it sooner.")
    ] = False,
    every: Annotated[
        str, typer.Option(metavar="SECONDS", help="With --watch: time between two looks at the runs.")
    ] = f"{EVERY:g}",
) -> None:
    """Write one HTML page about a run: verdict, settings, curves, calibration, examples in doubt.

    The page needs nothing but itself: no network, no other file. Several directories are compared side by side. Of a
    sweep: what failed, curves and maps over the options that vary, and a table of all runs.
    """
    pause = number("every", as_number(every, f"every must be seconds, got {every!r}; try {EVERY:g}."), "try 10", 0.0)
    usual = directories[0] / NAME if len(directories) == 1 else Path(NAME)
    file = usual if out is None else out
    require(
        file.suffix.lower() in (".html", ".htm"), f"out must end in .html, got '{file}'; choose a name such as {NAME}."
    )
    tried = WhatIsTried(data, chain, draws)
    is_sweep = _is_sweep(directories, tried)
    if not is_sweep:
        # For a sweep nothing is computed, and its runs may need all that is here.
        use_all_cores()
    if is_sweep:
        _write_sweep(directories[0], file, pause if watch else None)
    elif watch:
        _watch(directories, file, tried, pause)
    else:
        _write(file, [load_view(directory, *tried) for directory in directories])
    typer.echo(f"wrote {file}")


class WhatIsTried(NamedTuple):
    """What the ensembles of runs are tried on, and which of their paths they are."""

    data: Path | None
    chain: str | None
    draws: bool | None


def _is_sweep(directories: list[Path], tried: WhatIsTried) -> bool:
    """Whether it is a sweep that is asked for, and nothing that there is not of one."""
    swept = [directory for directory in directories if SweepDirectory(directory).is_begun]
    if not swept:
        return False
    require(len(directories) == 1, f"a sweep must be reported alone, got '{swept[0]}' with others; give one directory.")
    for name, is_left_out in (
        ("data", tried.data is None),
        ("chain", tried.chain is None),
        ("draws", not tried.draws),
    ):
        require(
            is_left_out, f"{name} must be left out with a sweep, got it for '{swept[0]}'; report its runs one by one."
        )
    return True


def _write_sweep(directory: Path, file: Path, pause: float | None) -> None:
    """Write the page once, or again whenever a run has gone on, until none will."""
    known: dict[str, list[RunRow]] = {}
    before: object = None
    while True:
        is_driven = holder(SweepDirectory(directory).lease) is not None
        found = load_sweep_view(directory, known)
        states = {outcome.state for outcome in found.outcomes.values()}
        # One that failed is tried again by the next driver only.
        is_over = pause is None or states <= (
            {TaskState.COMPLETE} if is_driven else {TaskState.COMPLETE, TaskState.FAILED}
        )
        now = [(look.run, look.outcome, look.summary.get("epochs")) for look in found.looks]
        if is_over or now != before:
            write_page(file, sweep_page(found, file.parent, None if is_over else pause))
            before = now
        if is_over or pause is None:
            return
        time.sleep(pause)


def _write(file: Path, several: list[RunView], renewed_every: float | None = None) -> None:
    write_page(file, page(several, renewed_every))


def _watch(directories: list[Path], file: Path, tried: WhatIsTried, pause: float) -> None:
    """Write the page whenever a run has gone on, until none does."""
    before: list[int] = []
    while True:
        if _is_sweep(directories, tried):
            # It was not begun when we were.
            _write_sweep(directories[0], file, pause)
            return
        waiting = [directory for directory in directories if not _is_begun(directory)]
        if waiting:
            if not before:
                say(f"trajens: waiting for a first checkpoint in {', '.join(map(str, waiting))}")
                before = [-1]
        else:
            now = [_epoch(directory) for directory in directories]
            if now != before:
                several = [load_view(directory, *tried) for directory in directories]
                before = [one.facts.epochs for one in several]
                is_over = all(one.facts.is_complete for one in several)
                _write(file, several, None if is_over else pause)
                if is_over:
                    return
        time.sleep(pause)


def _is_begun(directory: Path) -> bool:
    """Whether there is something to show; a run that is started at the same time has no directory at first."""
    is_possible = directory.is_dir() or not directory.exists()
    require(is_possible, f"directory must be that of a run, got '{directory}', a file; check the spelling.")
    return StoredRun(directory).has_checkpoint


def _epoch(directory: Path) -> int:
    try:
        return StoredRun(directory).epoch
    except InputError:
        # It may have been replaced while it was read; a run that is damaged is refused when it is looked at.
        return -2
