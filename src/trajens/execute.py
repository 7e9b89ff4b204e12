"""The sampler on devices: compiled calls over a mesh of chains, in blocks of about half a second."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from trajens.measure import Measurement, examples_per_measurement, measure
from trajens.randomness import Key, fold_in, key_of
from trajens.sampler import Inputs, Program, State, advance, initial_state
from trajens.settings import MAX_EPOCHS, Settings
from trajens.tally import Tally
from trajens.target import Target


class Execution:
    """One program with its inputs on its devices, and how many epochs a call takes at present."""

    def __init__(self, target: Target, settings: Settings):
        program = self._program = settings.program(target)
        self._mesh = _mesh(settings.chains, settings.devices)
        by_chain = NamedSharding(self._mesh, PartitionSpec("chains"))
        everywhere = NamedSharding(self._mesh, PartitionSpec())
        self._by_chain = by_chain
        self._inputs = Inputs(
            jax.device_put(target.problem.data, everywhere),
            jax.device_put(target.law, everywhere),
            jax.device_put(target.s_of_chains(settings.chains), by_chain),
            jax.device_put(np.int32(settings.learn_until), everywhere),
        )
        # A chain counts its evaluations in 32 bits: no more epochs in a block than surely fit.
        self._block = Block(program.lanes, MAX_EPOCHS // (program.size * program.span))

    def place(self, state: State) -> State:
        """The state on the devices."""
        # Through the host: slicing on the device would compile a program for every array.
        placed: State = jax.device_put(jax.tree.map(np.asarray, state), self._by_chain)
        return placed

    def advance(self, state: State, epoch: int, mark: int) -> tuple[State, Tally, int]:
        """From `epoch` a block on, at most to `mark`: the state, what was counted, and the epoch reached."""
        start, stop = time.perf_counter(), min(mark, epoch + self._block.epochs)
        state, tally = _advance(self._program, self._mesh, self._inputs, state, np.int32(stop))
        counted: Tally = jax.tree.map(np.asarray, tally)
        self._block.adapt(time.perf_counter() - start)
        return state, counted, stop

    def measure(self, state: State, epoch: int) -> Measurement:
        """The loss of every chain on examples that had no part in a decision."""
        examples = examples_per_measurement(self._program.size)
        measured: Measurement = jax.tree.map(
            np.asarray, _measure(self._program, self._mesh, self._inputs, state, np.int32(epoch), examples)
        )
        return measured


class Block:
    """Epochs per call of the sampler: about half a second, so that a run can be watched and interrupted.

    Never fewer than would leave some lanes idle throughout.
    """

    def __init__(self, least: int, most: int):
        self._least, self._most = least, max(least, most)
        self.epochs = min(max(256, least), self._most)

    def adapt(self, seconds: float) -> None:
        """Double or halve towards half a second."""
        if seconds < 0.25:
            self.epochs = min(2 * self.epochs, self._most)
        elif seconds > 1.0:
            self.epochs = max(self._least, self.epochs // 2)


def start_state(program: Program, key: Key, path: np.ndarray) -> State:
    """The state at epoch 0."""
    state: State = _initial_state(program, key, path)
    return state


@partial(jax.jit, static_argnums=1)
def chain_keys(seed: jax.Array, chains: int) -> Key:
    """One key per chain."""
    return fold_in(key_of(seed), jnp.arange(chains))


_initial_state = jax.jit(initial_state, static_argnums=0)


@partial(jax.jit, static_argnums=(0, 1))
def _advance(program: Program, mesh: Mesh, inputs: Inputs, state: State, stop: jax.Array) -> tuple[State, Tally]:
    return _each_device(mesh, partial(advance, program))(inputs, state, stop)


@partial(jax.jit, static_argnums=(0, 1, 5))
def _measure(
    program: Program, mesh: Mesh, inputs: Inputs, state: State, epoch: jax.Array, examples: int
) -> Measurement:
    return _each_device(mesh, partial(measure, program, examples=examples))(inputs, state, epoch)


def _each_device(mesh: Mesh, function: Callable[..., Any]) -> Callable[..., Any]:
    """Run `function` on every device for its own chains; devices never wait for each other."""
    chains, everywhere = PartitionSpec("chains"), PartitionSpec()
    inputs = Inputs(everywhere, everywhere, chains, everywhere)  # type: ignore[arg-type]
    return jax.shard_map(function, mesh=mesh, in_specs=(inputs, chains, everywhere), out_specs=chains, check_vma=False)


def _mesh(chains: int, devices: Sequence[jax.Device]) -> Mesh:
    """As many devices as divide the chains evenly."""
    count = max(n for n in range(1, len(devices) + 1) if chains % n == 0)
    return Mesh(np.array(devices[:count]), ("chains",))
