"""What a run tells while it is under way, and a progress bar that shows it."""

from __future__ import annotations

import contextlib
import inspect
import math
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, cast

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress
from rich.text import Text

from trajens.errors import require

_LINE_SECONDS = 10.0
_BARS = " ▁▂▃▄▅▆▇█"


class Progress(NamedTuple):
    """After a block: epochs done, seconds since the start, loss per model, acceptance, mean batch, examples used.

    `phase` says what a run is about: ``evolution`` or ``a search for s`` (of a start, in which epochs are 0),
    ``burn-in``, ``sampling``. `steps_used` are those of every chain at the last record, where losses count steps.
    """

    epoch: int
    seconds: float
    loss: float
    acceptance: float
    batch_size: float
    data_used: int
    chains: int
    phase: str = "sampling"
    steps_used: tuple[int, ...] = ()


Show = Callable[[Progress], None]
"""Is told of it after every block."""

Stop = Callable[[], bool] | Callable[[Progress], bool]
"""Says whether a run is to end; one that takes a parameter is handed the `Progress`."""


def require_watchers(progress: Any, stop: Any) -> None:
    """Refuse what can neither show how far a run is, nor say when it is to end."""
    require(
        isinstance(progress, bool) or callable(progress),
        f"progress must be True, False or a function of a Progress, got {progress!r}; try progress=True.",
    )
    require(
        stop is None or (callable(stop) and _count_needed(stop) <= 1),
        f"stop must be a function of nothing or of a Progress, got {stop!r}; try lambda now: now.loss < 0.1.",
    )


def takes_progress(stop: Any) -> bool:
    """Whether a function that says when to stop must be handed something."""
    return _count_needed(stop) > 0


def _count_needed(function: Any) -> int:
    """How many arguments it must be given; 0 where it does not say."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 0
    placed = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(one.kind in placed and one.default is one.empty for one in parameters)


class ProgressBar:
    """Epochs, epochs/s, loss, acceptance, mean batch, examples used and time left, on stderr; or pairs per chain.

    A bar (with `curve`, also the curve of the loss) in a terminal; elsewhere a plain line every ten seconds.
    `earlier` are places and losses that the curve begins with. A bar that `is_followed` by another is not left behind.
    """

    def __init__(
        self,
        epochs: float,
        first_epoch: float = 0,
        label: str = "sampling",
        curve: bool = False,
        unit: str = "epochs",
        earlier: Iterable[tuple[float, float]] = (),
        is_followed: bool = False,
    ):
        console = Console(stderr=True)
        columns: list[ProgressColumn] = [
            TextColumn("{task.description} {task.percentage:.0f}%"),
            TextColumn("{task.fields[numbers]}"),
            TimeRemainingColumn(compact=True),
        ]
        if console.width >= 120:
            columns = [TextColumn("{task.description}"), BarColumn(bar_width=None), MofNCompleteColumn(), *columns[1:]]
        self._console = console
        self._epochs, self._first, self._label, self._unit = int(epochs), int(first_epoch), label, unit
        self._bar = RichProgress(*columns, console=console)
        self._task = self._bar.add_task(label, total=self._epochs, completed=self._first, numbers="compiling")
        self._losses: list[tuple[float, float]] = list(earlier)
        self._curve, self._left = curve, 0 if self._losses else self._first
        self._written, self._begun = time.monotonic(), cast(tuple[float, int] | None, None)
        is_live = console.is_terminal and not console.is_dumb_terminal
        self._live = Live(self._bar, console=console, transient=is_followed) if is_live else None
        if self._live is not None:
            self._live.start()

    def __call__(self, now: Progress) -> None:
        """Show it; a stream that was closed, as by ``2>&1 | head``, ends no run."""
        with contextlib.suppress(OSError, ValueError):
            self._show(now)

    def _show(self, now: Progress) -> None:
        at = now.epoch if self._unit == "epochs" else now.data_used // now.chains
        label = self._label if self._unit == "epochs" else now.phase
        speed = (at - self._first) / max(now.seconds, 1e-9)
        chains = f" x {now.chains}" if now.chains > 1 else ""
        numbers = (
            f"{_spoken(speed)} {self._unit}/s{chains}  loss {now.loss:.4g}  "
            + (f"acc {now.acceptance:.2f}  batch {now.batch_size:.0f}  " if math.isfinite(now.acceptance) else "")
            + f"used {_short(now.data_used)}"
        )
        if self._live is None:
            self._left_seconds(at)
            self._write_line(at, label, numbers)
            return
        self._bar.update(self._task, completed=min(at, self._epochs), description=label, numbers=numbers)
        if self._curve:
            if not self._losses or self._losses[-1][1] != now.loss:
                self._losses.append((at, now.loss))
            self._live.update(Group(self._drawn_curve(), self._bar))

    def aim(self, epochs: int) -> None:
        """Go to other epochs than were known at first."""
        if epochs != self._epochs:
            self._epochs = epochs
            self._bar.update(self._task, total=epochs)

    def close(self) -> None:
        """Leave the bar as it stands."""
        if self._live is not None:
            with contextlib.suppress(OSError, ValueError):
                self._live.stop()

    def _write_line(self, at: int, label: str, numbers: str) -> None:
        if at < self._epochs and time.monotonic() - self._written < _LINE_SECONDS:
            return
        self._written = time.monotonic()
        left = self._left_seconds(at)
        shown = "" if left is None else f"  left {left:,.0f} s"
        self._console.print(
            f"{label}  {self._unit.removesuffix('s')} {at:,} of {self._epochs:,}  {numbers}{shown}",
            highlight=False,
            soft_wrap=True,
        )

    def _left_seconds(self, at: int) -> float | None:
        """By the rate since the first time that something was shown: before, it compiled; None where that is now."""
        now = time.monotonic()
        begun, before = self._begun = self._begun or (now, at)
        if at >= self._epochs:
            return 0.0
        return (now - begun) * (self._epochs - at) / (at - before) if at > before else None

    def _drawn_curve(self) -> RenderableType:
        """Loss per model against the epoch, as bars of blocks."""
        height, width = 8, max(20, min(self._console.width - 12, 100))
        epochs, losses = np.array(self._losses, float).T
        at = np.linspace(self._left, self._epochs, width)
        values = np.interp(at, epochs, losses)
        shown = np.where(at <= epochs[-1], values, np.nan)
        # A loss of exactly 0 has no scale of its own.
        finite = losses[np.isfinite(losses)]
        top = (float(finite.max()) if finite.size else 0.0) or 1.0
        # A curve that hardly falls is seen to: its lowest loss is one row high.
        low = float(finite.min()) if finite.size else 0.0
        bottom = low - (top - low) / (height - 1) if low < top else 0.0
        row_size = (top - bottom) / height
        lines = []
        for row in range(height, 0, -1):
            cells = [_block((value - bottom) / row_size - (row - 1)) for value in shown]
            label = f"{bottom + row_size * row:9.3g} " if row in (height, height // 2, 1) else " " * 10
            lines.append(label + "".join(cells))
        return Text("loss per model\n" + "\n".join(lines), no_wrap=True)


class SeveralRuns:
    """One bar over runs that follow each other, as a context; hand it to each as its `progress`."""

    def __init__(self, epochs: int, label: str, is_shown: bool):
        self._bar = ProgressBar(epochs, label=label) if is_shown else None
        self._begin, self._before = time.perf_counter(), 0

    def __call__(self, now: Progress) -> None:
        if self._bar is not None:
            seconds = time.perf_counter() - self._begin
            self._bar(now._replace(epoch=self._before + now.epoch, seconds=seconds))

    def finish(self, epochs: int) -> None:
        """A run of so many epochs is through."""
        self._before += epochs

    def __enter__(self) -> SeveralRuns:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()


def show_count(places: range, total: int, label: str, is_shown: bool) -> Iterator[int]:
    """`places` one after the other; shown on stderr as a bar in a terminal, elsewhere as a line every ten seconds."""
    if not is_shown:
        yield from places
        return
    console = Console(stderr=True)
    is_live = console.is_terminal and not console.is_dumb_terminal
    columns = TextColumn(label), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(compact=True)
    written = time.monotonic()
    with RichProgress(*columns, console=console, transient=True, disable=not is_live) as bar:
        task = bar.add_task(label, total=total)
        for place in places:
            bar.update(task, completed=place)
            if not is_live and time.monotonic() - written > _LINE_SECONDS:
                console.print(f"{label}  {place:,} of {total:,}", highlight=False)
                written = time.monotonic()
            yield place


def _block(fill: float) -> str:
    """The character that fills this share of a cell."""
    return " " if not math.isfinite(fill) else _BARS[round(8 * min(max(fill, 0.0), 1.0))]


def _spoken(speed: float) -> str:
    return f"{speed:,.0f}" if speed < 1e6 else _short(round(speed))


def _short(count: int) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:.3g}{letter}"
    return str(count)
