"""The table of a sweep while it goes: states, how far runs have come, their losses, the time left, what failed."""

from __future__ import annotations

import contextlib
import math
import time
from collections import Counter

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from trajens.sweeps.kept import SweepDirectory
from trajens.sweeps.looks import reached
from trajens.sweeps.state import Outcome, State

_ROWS, _SECONDS, _LINE_SECONDS = 16, 1.0, 10.0
_ORDER = (State.RUNNING, State.FAILED, State.STOPPED, State.WAITING, State.COMPLETE)
_STYLES = {State.RUNNING: "cyan", State.FAILED: "bold red", State.STOPPED: "yellow", State.COMPLETE: "green"}


class SweepTable:
    """Shows the outcomes it is called with: live in a terminal, elsewhere a line every ten seconds."""

    def __init__(self, directory: SweepDirectory):
        self._directory, self._console = directory, Console(stderr=True)
        self._shown = self._began = time.monotonic()
        self._already: int | None = None
        is_live = self._console.is_terminal and not self._console.is_dumb_terminal
        self._live = Live(console=self._console, auto_refresh=False) if is_live else None

    def __call__(self, outcomes: dict[str, Outcome]) -> None:
        """Show them, if it is time."""
        now = time.monotonic()
        if self._already is None:
            self._already = _count(outcomes, State.COMPLETE)
        if now - self._shown < (_SECONDS if self._live is not None else _LINE_SECONDS):
            return
        self._shown = now
        with contextlib.suppress(OSError, ValueError):
            if self._live is not None:
                table = drawn(self._directory, outcomes, _ROWS)
                table.caption = self._left(outcomes)
                self._live.update(table, refresh=True)
            else:
                text = f"sweep  {spoken(outcomes)}{self._left(outcomes)}"
                self._console.print(text, highlight=False, soft_wrap=True)

    def _left(self, outcomes: dict[str, Outcome]) -> str:
        """Time until all are done, if the rest takes as long as what was done since."""
        done = _count(outcomes, State.COMPLETE) - (self._already or 0)
        left = len(outcomes) - _count(outcomes, State.COMPLETE) - _count(outcomes, State.FAILED)
        if done == 0 or left == 0:
            return ""
        return f"  left about {(time.monotonic() - self._began) / done * left:,.0f} s"

    def __enter__(self) -> SweepTable:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            with contextlib.suppress(OSError, ValueError):
                self._live.stop()


def spoken(outcomes: dict[str, Outcome]) -> str:
    """``3 of 8 runs complete, 2 running, 1 failed``."""
    counts = Counter(outcome.state for outcome in outcomes.values())
    others = (f", {counts[state]} {state}" for state in _ORDER if state is not State.COMPLETE and counts[state])
    return f"{counts[State.COMPLETE]} of {len(outcomes)} runs complete{''.join(others)}"


def drawn(directory: SweepDirectory, outcomes: dict[str, Outcome], most: int) -> Table:
    """At most so many runs: those at work and those that failed first."""
    table = Table(title=f"sweep: {spoken(outcomes)}")
    for heading in ("run", "state", "done", "loss", ""):
        table.add_column(heading, justify="right" if heading in ("done", "loss") else "left")
    for name in sorted(outcomes, key=lambda name: _ORDER.index(outcomes[name].state))[:most]:
        outcome = outcomes[name]
        share, loss = reached(directory.run(name))
        table.add_row(
            escape(name),
            outcome.state,
            "" if math.isnan(share) else f"{share:.0%}",
            "" if math.isnan(loss) else f"{loss:.4g}",
            escape(outcome.sentence),
            style=_STYLES.get(outcome.state),
        )
    if len(outcomes) > most:
        table.add_row(f"and {len(outcomes) - most} more", "", "", "", "")
    return table


def _count(outcomes: dict[str, Outcome], state: State) -> int:
    return sum(outcome.state is state for outcome in outcomes.values())
