"""The table of a sweep while it goes: states, how far runs have come, their losses, the time left, what failed."""

from __future__ import annotations

import contextlib
import math
import time

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from trajens.sweeps.kept import SweepDirectory
from trajens.sweeps.looks import reached
from trajens.sweeps.state import ORDER, Outcome, State, spoken

_ROWS, _SECONDS, _LINE_SECONDS = 16, 1.0, 10.0
_READ = 32
"""Runs at work that are asked how far they have come, at a time."""
_TOLD = 16
"""Failures that are told as they come, at most; all of them are told at the end."""
_STYLES = {State.RUNNING: "cyan", State.FAILED: "bold red", State.STOPPED: "yellow", State.COMPLETE: "green"}


class SweepTable:
    """Shows the outcomes it is called with: live in a terminal, elsewhere a line every ten seconds."""

    def __init__(self, directory: SweepDirectory):
        self._directory, self._console = directory, Console(stderr=True)
        self._shown = self._began = time.monotonic()
        self._shares: dict[str, float] = {}
        self._at_first: float | None = None
        self._told: set[str] = set()
        is_live = self._console.is_terminal and not self._console.is_dumb_terminal
        self._live = Live(console=self._console, auto_refresh=False) if is_live else None

    def __call__(self, outcomes: dict[str, Outcome]) -> None:
        """Show them, if it is time."""
        now = time.monotonic()
        if self._at_first is None:
            # What runs have behind them from an earlier time is not done now.
            self._look([name for name, outcome in outcomes.items() if outcome.state is not State.COMPLETE])
            self._at_first = self._done(outcomes)
        if now - self._shown < (_SECONDS if self._live is not None else _LINE_SECONDS):
            return
        self._shown = now
        with contextlib.suppress(OSError, ValueError):
            if self._live is not None:
                table = drawn(self._directory, outcomes, _ROWS)
                table.caption = self._left(outcomes)
                self._live.update(table, refresh=True)
            else:
                self._tell_failures(outcomes)
                text = f"sweep  {spoken(outcomes)}{self._left(outcomes)}"
                self._console.print(text, highlight=False, soft_wrap=True)

    def _tell_failures(self, outcomes: dict[str, Outcome]) -> None:
        for name, outcome in outcomes.items():
            if outcome.state is State.FAILED and name not in self._told and len(self._told) < _TOLD:
                self._told.add(name)
                text = f"sweep  {name} failed: {outcome.sentence}"
                self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def _look(self, names: list[str]) -> None:
        for name in names:
            share = reached(self._directory.run(name)).share
            # Last, so that those come first next time that were not asked for longest.
            self._shares.pop(name, None)
            self._shares[name] = 0.0 if math.isnan(share) else share

    def _done(self, outcomes: dict[str, Outcome]) -> float:
        """Runs that are done, those at work by their parts."""
        is_complete = {name: outcome.state is State.COMPLETE for name, outcome in outcomes.items()}
        return sum(1.0 if is_complete[name] else self._shares.get(name, 0.0) for name in outcomes)

    def _left(self, outcomes: dict[str, Outcome]) -> str:
        """Time until all are done, if a run of the rest takes as long as one did since the sweep was begun."""
        running = [name for name in self._shares if outcomes[name].state is State.RUNNING]
        self._look(running[:_READ])
        failed = [name for name, outcome in outcomes.items() if outcome.state is State.FAILED]
        now = self._done(outcomes)
        done = now - (self._at_first or 0.0)
        left = len(outcomes) - now - sum(1 - self._shares.get(name, 0.0) for name in failed)
        if done <= 0 or left < 1e-9:
            return ""
        return f"  left about {_seconds((time.monotonic() - self._began) / done * left)}"

    def __enter__(self) -> SweepTable:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            with contextlib.suppress(OSError, ValueError):
                self._live.stop()


def drawn(directory: SweepDirectory, outcomes: dict[str, Outcome], most: int) -> Table:
    """At most so many runs: those at work and those that failed first."""
    table = Table(title=f"sweep: {spoken(outcomes)}")
    for heading in ("run", "state", "done", "left", "loss", ""):
        table.add_column(heading, justify="right" if heading in ("done", "left", "loss") else "left")
    for name in sorted(outcomes, key=lambda name: ORDER.index(outcomes[name].state))[:most]:
        outcome = outcomes[name]
        share, loss, left = reached(directory.run(name))
        is_timed = outcome.state is State.RUNNING and not math.isnan(left)
        table.add_row(
            escape(name),
            outcome.state,
            "" if math.isnan(share) else f"{share:.0%}",
            _seconds(left) if is_timed else "",
            "" if math.isnan(loss) else f"{loss:.4g}",
            escape(outcome.sentence),
            style=_STYLES.get(outcome.state),
        )
    if len(outcomes) > most:
        table.add_row(f"and {len(outcomes) - most} more", *[""] * 5)
    return table


def _seconds(seconds: float) -> str:
    """As a clock says it: 45 s, 12:30 min, 3:05 h."""
    whole = round(seconds)
    if whole < 100:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes}:{rest:02} min" if minutes < 100 else f"{minutes // 60:,}:{minutes % 60:02} h"
