"""What a sweep needs of an engine."""

from __future__ import annotations

from typing import Protocol

from trajens.app.sweeps.directory import Outcome
from trajens.app.sweeps.task import Task


class Pending(Protocol):
    """A task that was handed to an engine."""

    def outcome(self) -> Outcome | None:
        """How it ended; None while it has not. Never raises: what befell a worker is a sentence."""
        ...

    def cancel(self) -> None:
        """Do not begin with it. One that has begun ends by the file that asks for a stop."""
        ...


class Engine(Protocol):
    """Carries tasks to where they are done; the order is its own."""

    def submit(self, task: Task) -> Pending:
        """Hand over a task."""
        ...

    def close(self) -> None:
        """Let go of workers, if they are the engine's own."""
        ...
