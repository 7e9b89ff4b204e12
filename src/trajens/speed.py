"""How many pairs of losses a machine does a second, so that minutes can be told as a budget."""

from __future__ import annotations

import time
from typing import Any

import jax
import numpy as np

from trajens.sampling.course import ByData
from trajens.sampling.devices import Sampler
from trajens.sampling.evolution import Evolution, Evolving, evolved
from trajens.sampling.settings import Settings
from trajens.starts import EVOLUTION, begun_at, for_evolution
from trajens.target import Target

_TIMED, _TIMED_PHASES, _OVERHEAD = 3.0, 16, 1.2


def pairs_per_second(target: Target, settings: Settings, start: Any = EVOLUTION) -> float:
    """Pairs of losses that this machine does a second in such a run, from some seconds of its start and its sampling.

    Compiling is not counted. What measuring, audits and scores take is, as a sixth.
    """
    sampler = Sampler(target, settings)
    course = settings.course
    assert isinstance(course, ByData)
    standing = begun_at(sampler, None, 0.0)
    sampler.adapt(standing.adapted)
    epochs = _TIMED_PHASES * sampler.program.lanes
    # The first call compiles.
    state, _ = sampler.advance(standing.state, epochs)
    begin, pairs = time.perf_counter(), 0.0
    while time.perf_counter() - begin < _TIMED:
        state, tally = sampler.advance(state, epochs)
        pairs += float(np.sum(tally.evaluations))
    sampling = pairs / (time.perf_counter() - begin)
    if start != EVOLUTION:
        return sampling / _OVERHEAD
    how, generations = Evolution().within(for_evolution(course.pairs), target.problem.population.most)
    models = Evolving.of(np.asarray(state.path)[:, 0])
    key = jax.tree.map(np.asarray, state.key)
    seen: list[tuple[float, int]] = []

    def watch(now: Evolving, losses: np.ndarray) -> bool:
        seen.append((time.perf_counter(), now.done))
        return seen[-1][0] - seen[0][0] > _TIMED

    evolved(target.problem, key, models, max(generations, 1000), how, watch)
    (first, before), (last, after) = seen[0], seen[-1]
    share = for_evolution(course.pairs) / course.pairs
    evolving = settings.chains * (after - before) * how.pairs * how.examples / max(last - first, 1e-9)
    return 1 / (share / evolving + (1 - share) * _OVERHEAD / sampling)
