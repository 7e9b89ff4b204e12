"""How many epochs a call of the sampler takes: about half a second, so that a run can be watched and interrupted."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from trajens.records import MAX_EPOCHS
from trajens.sampling.program import Program


class Blocks:
    """The size of the next block, from how long the last ones took."""

    def __init__(self, program: Program):
        # Never fewer than would leave some lanes idle throughout. A chain counts its evaluations in 32 bits: no more
        # than surely fit.
        self._least = program.lanes
        self._most = max(self._least, MAX_EPOCHS // (program.population.most * program.span))
        self.epochs = min(max(256, self._least), self._most)

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Adapt to how long the block inside takes."""
        begin = time.perf_counter()
        yield
        self.adapt(time.perf_counter() - begin)

    def adapt(self, seconds: float) -> None:
        """Double or halve towards half a second."""
        if seconds < 0.25:
            self.epochs = min(2 * self.epochs, self._most)
        elif seconds > 1.0:
            self.epochs = max(self._least, self.epochs // 2)
