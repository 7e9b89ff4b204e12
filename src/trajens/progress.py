"""What a run tells while it is under way, and a progress bar that shows it."""

from __future__ import annotations

from typing import NamedTuple

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress


class Progress(NamedTuple):
    """After a block: epochs done, seconds since the start, loss per model, acceptance, mean batch, chains."""

    epoch: int
    seconds: float
    loss: float
    acceptance: float
    batch_size: float
    chains: int


class ProgressBar:
    """Rich progress bar on stderr: epochs, chain-epochs/s, loss, acceptance, mean batch, time left."""

    def __init__(self, epochs: int, first_epoch: int = 0, label: str = "sampling"):
        console = Console(stderr=True)
        columns: list[ProgressColumn] = [
            TextColumn("{task.description} {task.percentage:.0f}%"),
            TextColumn("{task.fields[numbers]}"),
            TimeRemainingColumn(compact=True),
        ]
        if console.width >= 100:
            columns = [TextColumn("{task.description}"), BarColumn(bar_width=None), MofNCompleteColumn(), *columns[1:]]
        self._bar = RichProgress(*columns, console=console)
        self._first = first_epoch
        self._task = self._bar.add_task(label, total=epochs, completed=first_epoch, numbers="compiling")
        self._bar.start()

    def __call__(self, now: Progress) -> None:
        speed = (now.epoch - self._first) / max(now.seconds, 1e-9)
        numbers = (
            f"{speed:,.0f} epochs/s x {now.chains}  loss {now.loss:.4g}  acc {now.acceptance:.2f}  "
            f"batch {now.batch_size:.0f}"
        )
        self._bar.update(self._task, completed=now.epoch, numbers=numbers)

    def close(self) -> None:
        """Leave the bar as it stands."""
        self._bar.stop()
