"""Tasks on a Dask cluster of the user's: a scheduler's address, or a `Client` of any cluster.

Workers must have trajens, and see the directory of the sweep under the same path. A worker that is lost gives its task
to another, which goes on from the last checkpoint.
"""

from __future__ import annotations

import uuid
from concurrent.futures import CancelledError
from typing import Any

from distributed import Client, Future
from distributed.scheduler import KilledWorker

from trajens.app.sweeps.directory import Outcome, TaskState
from trajens.app.sweeps.task import Task
from trajens.errors import InputError, first_line

AGAIN = 3
"""How often a task that the scheduler has given up, after the deaths it allows, is handed over again."""
_CONNECT_SECONDS = 20


class DaskEngine:
    """Tasks on the workers of a client; one that is made here from an address is closed here."""

    def __init__(self, client: Client | str):
        self._is_own = isinstance(client, str)
        self._client = _connected(client) if isinstance(client, str) else client

    def submit(self, task: Task) -> DaskPending:
        """Hand over a task."""
        return DaskPending(self._client, task)

    def close(self) -> None:
        """Let go of the client."""
        if self._is_own:
            self._client.close()


class DaskPending:
    """A future, and the task in case it must be handed over again."""

    def __init__(self, client: Client, task: Task):
        self._client, self._task, self._left = client, task, AGAIN
        self._ended: Outcome | None = None
        self._future: Future[Any] | None = self._submitted()

    def outcome(self) -> Outcome | None:
        """How it ended; what a worker said is fetched once, and then not needed from it any more."""
        if self._future is not None and self._future.done():
            self._ended = self._found(self._future)
            self._future = self._submitted() if self._ended is None else None
        return self._ended

    def cancel(self) -> None:
        """Take it back."""
        if self._future is not None:
            self._future.cancel()

    def _submitted(self) -> Future[Any]:
        # Not pure, and with a name of its own: Dask would answer an equal call with what it remembers of the first.
        key = f"trajens-{self._task.name}-{uuid.uuid4().hex[:8]}"
        return self._client.submit(_done, self._task, key=key, pure=False)

    def _found(self, future: Future[Any]) -> Outcome | None:
        try:
            return Outcome(*future.result())
        except KilledWorker:
            self._left -= 1
            sentence = "its workers must live, got all of them killed; is there enough memory? see the logs of Dask."
            return None if self._left > 0 else Outcome(TaskState.FAILED, sentence)
        except CancelledError:
            return Outcome(TaskState.WAITING, "taken back, or lost with its scheduler")
        except Exception as error:  # whatever a worker raises, the others go on
            return Outcome(TaskState.FAILED, str(error) if isinstance(error, InputError) else first_line(error))


def _done(task: Task) -> Outcome:
    return task()


def _connected(address: str) -> Client:
    try:
        return Client(address, timeout=_CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise InputError(
            f"scheduler must be the address of a Dask scheduler that answers, got '{address}' ({first_line(error)}); "
            "try tcp://host:8786."
        ) from None
