"""Exchanges of a run: at planned epochs, with plans for batches and levels that are moved, both in burn-in only.

When an exchange is due, what it decides and how levels move is a function of the state and of what was counted, so that
a run that is resumed, or is on other devices, exchanges the same paths.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from trajens.acceptance.audit import Looked
from trajens.precision import single
from trajens.randomness import Key
from trajens.run.audits import SHARE_AT_MOST, examples_per_proposal, generator
from trajens.sampling.exchange import Exchange, Ladder, Replicas, exchange_paths, first_replicas, space_levels
from trajens.sampling.kernel import State
from trajens.sampling.lanes import whole_steps
from trajens.sampling.program import Control, Program
from trajens.sampling.sampler import Sampler
from trajens.sampling.settings import Settings
from trajens.sampling.swaps import SwapProposals

_LEAST, _MOST = 16, 64
"""Exchanges that a plan is made from: fewer say too little, and more too little more."""


def replicas_at_start(settings: Settings, program: Program) -> Replicas | None:
    """Where paths are before the first exchange; None for chains that exchange none."""
    exchange = settings.exchange
    if not isinstance(exchange, Exchange):
        return None
    return first_replicas(settings.chains, exchange.test(program), program.counts_steps)


class Exchanger:
    """The exchanges of the chains of a sampler whose settings ask for them."""

    def __init__(self, sampler: Sampler):
        exchange = sampler.settings.exchange
        assert isinstance(exchange, Exchange)
        self._sampler, self._exchange = sampler, exchange
        self._ladder = Ladder.of(sampler.target.s_of_chains(sampler.settings.chains))
        self._every = exchange.epochs(sampler.program.tau)
        self.test = exchange.test(sampler.program)

    def next_exchange(self, epoch: int) -> int:
        """The epoch of the first exchange after this one."""
        return (epoch // self._every + 1) * self._every

    @single
    def exchange_if_due(self, state: State, replicas: Replicas, epoch: int, control: Control) -> tuple[State, Replicas]:
        """The state and its replicas after the exchange that is due at `epoch`, if one is."""
        if epoch % self._every:
            return state, replicas
        lower, upper = self._ladder.pairs(epoch // self._every)
        paths, entries = np.asarray(state.path), jax.tree.map(lambda leaf: leaf[lower, 0, 0], replicas.memory)
        gap = self._gap(epoch, control, lower, upper)
        asked = SwapProposals(_paired(paths, lower, upper), gap, self._key(state, lower), entries)
        decided = self._sampler.decide_exchanges(self.test, asked, epoch, control)
        if epoch <= control.burn_in or control.burn_in == 0:
            memory = jax.tree.map(np.copy, replicas.memory)
            for known, new in zip(jax.tree.leaves(memory), jax.tree.leaves(decided.entries), strict=True):
                known[lower, 0, 0] = new
            replicas = replicas._replace(memory=memory)
        evaluations = decided.seen.astype(np.int64) * paths.shape[1]
        if decided.is_accepted.any():
            source = exchange_paths(len(paths), lower, upper, decided.is_accepted)
            state = self._sampler.with_paths(state, paths[source])
        took = evaluations, whole_steps(decided.steps)
        return state, replicas.after(self._ladder, lower, upper, decided.is_accepted, *took)

    @single
    def plan(
        self,
        state: State,
        replicas: Replicas,
        epoch: int,
        control: Control,
        tolerance: float | None,
        used: float,
    ) -> Replicas:
        """With batches for exchanges within the tolerance, where there are enough pairs to look at and it pays.

        `used` are evaluations per chain so far; plans of which too little is known keep a cautious noise.
        """
        memory = jax.tree.map(np.copy, replicas.memory)
        if tolerance is None or not jax.tree.leaves(memory):
            return replicas
        population, chains = self._sampler.program.population, len(state.path)
        lower, upper = self._ladder.pairs_across(_MOST)
        entries = jax.tree.map(lambda leaf: leaf[lower, 0, 0], memory)
        s, paths = self._gap(epoch, control, lower, upper), np.asarray(state.path)
        most = np.asarray(self.test.most_examples(entries, s, population.size))  # type: ignore[arg-type]
        examples = examples_per_proposal(population.size, int(min(most.max(), population.most)))
        cost = len(lower) * examples * paths.shape[1]
        if len(lower) < _LEAST or cost > SHARE_AT_MOST * used * chains:
            return replicas
        asked = _paired(paths, lower, upper), self._key(state, lower)
        found, steps = self._sampler.look_at_exchanges(*asked, epoch, examples, control)
        is_sound = np.isfinite(found).all(1)
        pick = lambda leaf: np.asarray(leaf)[is_sound]  # noqa: E731
        zero = np.zeros(int(is_sound.sum()), np.float32)
        # Every exchange moves equally far: accepted ones per example is what counts.
        looked = Looked(pick(s), zero, zero + 1, pick(found), population.limit)
        chunk, rng = self.test.chunk_size(population.most), generator(self._sampler, epoch)
        changed = self.test.plan_within(chunk, jax.tree.map(pick, entries), looked, tolerance, rng)
        for name, value in changed.items():
            getattr(memory, name)[:] = value
        return replicas._replace(memory=memory).having_read(lower, examples * paths.shape[1], steps)

    def space(self, replicas: Replicas, control: Control) -> tuple[Control, Replicas]:
        """Levels moved so that neighbours exchange equally often, as far as that is known."""
        rejection = replicas.rejection(self._ladder) if self._exchange.space else None
        if rejection is None:
            return control, replicas
        now = self._sampler.levels(control)[self._ladder.chains[0]]
        levels = self._ladder.spread(space_levels(now, rejection).astype(np.float32))
        return control._replace(levels=levels), replicas.moved()

    def _gap(self, epoch: int, control: Control, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
        s = self._sampler.s_at(epoch, control)
        return np.asarray((s[upper] - s[lower]).astype(np.float32))

    @staticmethod
    def _key(state: State, lower: np.ndarray) -> Any:
        return Key(*(np.asarray(word)[lower] for word in state.key))  # type: ignore[arg-type]


def _paired(paths: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> Any:
    """That of the upper chain first: an exchange changes it to that of the lower."""
    return np.stack([paths[upper], paths[lower]], axis=1)
