"""Sampler: a target and its settings as pure functions of a state, compiled over a mesh of devices."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from trajens.acceptance.base import AcceptanceTest
from trajens.compiling import Compiling
from trajens.errors import integer
from trajens.losses import ZeroOne
from trajens.population import (
    MAX_SIZE,
    Population,
    copies_by,
    copies_of,
    even_counts,
    scores_by_errors,
    scores_by_losses,
)
from trajens.precision import single
from trajens.randomness import Key, fold_in
from trajens.records import MAX_EPOCHS
from trajens.sampling.kernel import State, advance, init, state_like
from trajens.sampling.lanes import Tally, add_tallies
from trajens.sampling.measure import (
    CHUNK,
    MeasureAt,
    Measurement,
    directions,
    examples_per_measurement,
    losses_of_examples,
    measure,
)
from trajens.sampling.probes import Proposed, Room, Wanted, propose_and_look
from trajens.sampling.program import Control, Inputs, Program
from trajens.sampling.settings import Settings
from trajens.sampling.starts import chain_keys, initial_paths
from trajens.sampling.swaps import SwapDecisions, SwapProposals, decide, look
from trajens.sampling.tuning import initial_sizes
from trajens.target import Target

_EVERYWHERE = PartitionSpec()


_ROUNDING, _COARSE = 1.0, 0.1
"""Rounding of a loss times s, and of parameters in units of sigma, from which on a run is warned of it."""


class Sampler:
    """The pure core, for loops of one's own: `init` a state, `advance` it, `measure` its loss.

    ``advance`` leaves the path distribution of the target invariant once acceptance tests have stopped learning, which
    is at ``settings.burn_in``. The same state and epochs give the same result, however they are divided into calls.

    Parameters
    ----------
    target : Target
    settings : Settings, optional
        Chains, move, acceptance test, scan and devices; ``records``, ``keep_paths`` and files are the business of
        `trajens.sample`.

    Examples
    --------
    >>> sampler = tj.Sampler(target, tj.Settings(chains=4))  # doctest: +SKIP
    >>> state = sampler.init()  # doctest: +SKIP
    >>> state, tally = sampler.advance(state, 1000)  # doctest: +SKIP
    """

    @single
    def __init__(self, target: Target, settings: Settings | None = None):
        self.target = target
        self.settings = (settings or Settings()).checked(target)
        chains = self.settings.chains
        self.program = self.settings.program(target)
        self._mesh = _mesh(chains, self.settings.devices)
        by_chain = NamedSharding(self._mesh, PartitionSpec("chains"))
        everywhere = NamedSharding(self._mesh, PartitionSpec())
        self._by_chain, self._everywhere = by_chain, everywhere
        self._directions = jax.device_put(directions(target.problem.dim), everywhere)
        self.control = first_control(target, self.settings)
        self._data = _shared(target.problem.data, everywhere)
        self._law = jax.device_put(target.law, everywhere)
        self._placed: tuple[Control, Inputs] | None = None
        self._is_warned = False
        self._compiling = Compiling()

    @single
    def compile_ahead(self, looks: tuple[int, int] | None = None) -> None:
        """Have programs compiled in threads that will be asked for.

        They are `advance_to`; `measure_at`, where it is known how many examples it takes; and `look_at` for so many
        proposals and examples.
        """
        chains = self.settings.chains
        like = state_like(self.program, chains, self.target.problem.dim)
        placed = partial(jax.ShapeDtypeStruct, sharding=self._by_chain)
        state = jax.tree.map(lambda leaf: placed(leaf.shape, leaf.dtype), like)
        begin, given = self._compiling.begin, (self.program, self._mesh, self.inputs(), state)
        begin("advance", _advance, *given, np.int32(0))
        if looks is not None:
            nobody: Any = Key(*2 * (np.zeros(chains, np.uint32),))  # type: ignore[arg-type]
            begin("look", _look_at, *given, *self._looks(nobody, 0, *looks))
        size, tau = self.program.examples.size, self.program.tau
        fewest, most = (examples_per_measurement(size, tau, spent) for spent in (0.0, math.inf))
        if fewest == most:
            begin("measure", _measure, *given, *self._measuring(0, most))

    def inputs(self, control: Control | None = None) -> Inputs:
        """The arrays that a program is given for a control; those of the last one stay on the devices."""
        control, placed = self.control if control is None else control, self._placed
        if placed is None or placed[0] is not control:
            placed = self._placed = control, self._place_control(control, placed)
        return placed[1]

    @single
    def _place_control(self, control: Control, before: tuple[Control, Inputs] | None) -> Inputs:
        copies = None
        if control.copies is not None:
            is_known = before is not None and before[0].copies is control.copies
            copies = before[1].copies if is_known and before else self._put(copies_of(control.copies))
        s = (self.levels(control) * np.float32(control.tilt)).astype(np.float32)
        until = self._put(np.int32(control.burn_in))
        # Tests of a run without a burn-in adapt throughout.
        learn_until = until if control.burn_in > 0 else self._put(np.int32(MAX_EPOCHS))
        return Inputs(self._data, self._law, jax.device_put(s, self._by_chain), learn_until, until, copies)

    def _put(self, array: Any) -> Any:
        return jax.device_put(array, self._everywhere)

    def s_at(self, epoch: int, control: Control | None = None) -> np.ndarray:
        """The s of every chain at an epoch, shape (chains,)."""
        return s_of(self.target, self.control if control is None else control, epoch, self.settings.chains)

    def levels(self, control: Control) -> np.ndarray:
        """The factor of s of every chain, that all share apart."""
        return self.target.s_of_chains(self.settings.chains) if control.levels is None else control.levels

    @single
    def init(self, initial: Any = None) -> State:
        """The state at epoch 0.

        Parameters
        ----------
        initial : array, optional
            A model (dim,), a path (tau, dim) or paths (chains, tau, dim); default: the problem's own, or a random
            model, and a walk of steps sigma from it.
        """
        key = chain_keys(self.settings.seed, self.settings.chains)
        state: State = _init(self.program, key, initial_paths(self.target, key, initial))
        return self.place(state)

    @single
    def place(self, state: State) -> State:
        """A state, for instance one that was stored, on the devices."""
        # Through the host: slicing on the device would compile a program for every array.
        placed: State = jax.device_put(jax.tree.map(np.asarray, state), self._by_chain)
        return placed

    def advance(self, state: State, epochs: int, control: Control | None = None) -> tuple[State, Tally]:
        """Make `epochs` more proposals in every chain: the state after them, and what was counted on the way.

        Parameters
        ----------
        state : State
        epochs : int
        control : Control, optional
            Tilt, burn-in and copies of examples; default those that a run begins with.
        """
        begin = state.epoch
        stop = begin + integer("epochs", epochs, 0, "one epoch is one proposal", MAX_EPOCHS - begin)
        # A chain counts its evaluations in 32 bits: no more in a call than surely fit.
        most = MAX_EPOCHS // (self.program.population.most * self.program.span)
        state, tally = self.advance_to(state, min(stop, begin + most), control)
        for epoch in range(begin + most, stop, most):
            state, more = self.advance_to(state, min(stop, epoch + most), control)
            tally = add_tallies(tally, more)
        return state, tally

    @single
    def advance_to(self, state: State, epoch: int, control: Control | None = None) -> tuple[State, Tally]:
        """Bring every chain to an epoch, see `advance`."""
        self._compiling.finish("advance")
        state, tally = _advance(self.program, self._mesh, self.inputs(control), state, np.int32(epoch))
        return state, tally

    def measure(self, state: State, examples: int | None = None) -> Measurement:
        """The loss of every chain on examples that had no part in a decision, and what else is observed.

        Parameters
        ----------
        state : State
        examples : int, optional
            How many; default all of few and 4096 of many.
        """
        return self.measure_at(state, state.epoch, examples)

    @single
    def measure_at(
        self, state: State, epoch: int, examples: int | None = None, control: Control | None = None
    ) -> Measurement:
        """The loss of every chain's path at a known epoch, which says what examples are drawn, see `measure`."""
        population = self.program.examples
        if examples is None:
            examples = examples_per_measurement(population.size, self.program.tau)
        examples = integer("examples", examples, 1, "leave it out for the usual number", _countable(population))
        self._compiling.finish("measure")
        measured = _measure(self.program, self._mesh, self.inputs(control), state, *self._measuring(epoch, examples))
        here = Measurement(*jax.tree.map(np.asarray, tuple(measured)))
        self._warn_of_rounding(here, self.s_at(epoch, control))
        here = here.whole
        # JAX sorts dictionaries; records keep the order they were asked for in.
        return here._replace(observed={name: here.observed[name] for name in self.settings.observe})

    def _warn_of_rounding(self, here: Measurement, s: np.ndarray) -> None:
        """Say once where losses or parameters are so far from 0 that 32 bits do not carry what is sampled."""
        reference, sigma = here.reference, self.target.sigma
        rounding = float(np.max(s * np.spacing(np.abs(reference, dtype=np.float32)) * (reference != 0)))
        steps = float(np.max(np.spacing(here.weight_rms))) if np.isfinite(here.weight_rms).all() else 0.0
        words = ""
        if rounding > _ROUNDING:
            near = float(np.abs(reference).max())
            words = f"losses are near {near:.3g}, where 32 bits round them, by {rounding:.2g} / s: decisions and "
            words += "recorded losses are not those of the loss as it is meant; take a constant off it."
        elif steps > _COARSE * sigma:
            near = float(np.max(here.weight_rms))
            words = f"parameters are near {near:.3g}, where numbers of 32 bits are {steps:.2g} apart, which is much of "
            words += f"sigma = {sigma:.3g}: steps are not normal; measure them from where they are, or scale them."
        if words and not self._is_warned:
            self._is_warned = True
            warnings.warn(words, RuntimeWarning, stacklevel=3)

    def _measuring(self, epoch: int, examples: int) -> tuple[MeasureAt, int, bool, Any]:
        population, observe = self.program.examples, tuple(self.settings.observe.items())
        look = MeasureAt.of(population, examples, epoch, self._directions)
        return look, min(CHUNK, examples), examples == population.size, observe

    @single
    def look_at(
        self, state: State, epoch: int, proposals: int, examples: int, control: Control | None = None
    ) -> Proposed:
        """Proposals as `advance` would make them and their loss differences, for an audit; nothing is changed."""
        most = _countable(self.program.population)
        proposals = integer("proposals", proposals, 1, "try 256 in all chains together")
        examples = integer("examples", examples, 2, "leave it out for the usual number", most)
        self._compiling.finish("look")
        wanted = self._looks(state.key, epoch, proposals, examples)
        found = _look_at(self.program, self._mesh, self.inputs(control), state, *wanted)
        here: Proposed = jax.tree.map(lambda leaf: np.asarray(leaf)[:, :proposals], found._replace(steps=()))
        return here._replace(differences=here.differences[..., :examples], steps=np.asarray(found.steps))

    def _looks(self, key: Key, epoch: int, proposals: int, examples: int) -> tuple[Wanted, Room]:
        room = Room.of(self.program, self.settings.chains // self._mesh.size, proposals, examples)
        return Wanted.at(key, epoch, proposals, examples, room, directions(self.target.problem.dim)), room

    @single
    def losses_of_examples(self, state: State, models: int) -> np.ndarray:
        """The loss of every example (N,), averaged over `models` models, an even number, from all over the paths."""
        paths = np.asarray(state.path).reshape(-1, state.path.shape[-1])
        some = paths[np.linspace(0, len(paths) - 1, models).round().astype(int)]
        return np.asarray(_losses_of_examples(self.program.loss, self._data, some, self.program.examples.most))

    @single
    def decide_exchanges(
        self, test: AcceptanceTest, asked: SwapProposals, epoch: int, control: Control
    ) -> SwapDecisions:
        """What becomes of exchanges of paths that are asked for at an epoch; their keys are those of chains."""
        found = _decide_exchanges(self.program, test, self._mesh, self.inputs(control), asked, np.int32(epoch))
        here: SwapDecisions = jax.tree.map(np.asarray, found)
        return here

    @single
    def look_at_exchanges(
        self, paths: Any, key: Key, epoch: int, examples: int, control: Control
    ) -> tuple[np.ndarray, np.ndarray]:
        """Differences of path losses (pairs, examples) of `paths` (pairs, 2, tau, dim), and steps; changes nothing."""
        told = self._mesh, self.inputs(control)
        found = _look_at_exchanges(self.program, *told, paths, key, np.int32(epoch), examples)
        return np.asarray(found[0]), np.asarray(found[1]).sum(0, dtype=np.int64)

    def with_paths(self, state: State, paths: np.ndarray) -> State:
        """A state with other paths, (chains, tau, dim)."""
        return state._replace(path=jax.device_put(paths, self._by_chain))

    def with_share(self, state: State, share: float) -> State:
        """A state whose tuned moves change so large a share of a model."""
        chains, _, dim = state.path.shape
        sizes = initial_sizes(chains, len(self.program.move.components), dim, share)
        return state._replace(sizes=jax.device_put(jax.tree.map(np.asarray, sizes), self._by_chain))

    def with_memory(self, state: State, memory: Any) -> State:
        """A state with another memory of the acceptance test, (chains, kinds, tau)."""
        return state._replace(acceptance=jax.device_put(memory, self._by_chain))


def s_of(target: Target, control: Control, epoch: int, chains: int) -> np.ndarray:
    """The s of every chain at an epoch, shape (chains,)."""
    s = target.s_at(epoch, chains)
    if control.levels is not None:
        asked = target.s_of_chains(chains)
        # A level of 0 stays 0.
        s = s * (control.levels.astype(np.float64) / np.where(asked == 0, 1, asked))
    return np.asarray(s * control.tilt)


def first_control(target: Target, settings: Settings) -> Control:
    """The control that a run begins with: examples whose weights are to be learnt are all alike."""
    copies = None
    if settings.scores is not None:
        is_given = not isinstance(settings.scores, str)
        copies = copies_by(np.asarray(settings.scores)) if is_given else even_counts(target.problem.population.most)
    return Control(settings.burn_in, 1.0, copies)


def _countable(population: Population) -> int:
    """The most examples that can be asked for."""
    return int(min(population.size, MAX_SIZE))


_losses_of_examples = jax.jit(losses_of_examples, static_argnums=(0, 3))


_init = jax.jit(init, static_argnums=0)


@partial(jax.jit, static_argnums=(0, 1))
def _advance(program: Program, mesh: Mesh, inputs: Inputs, state: State, stop: jax.Array) -> tuple[State, Tally]:
    return _each_device(mesh, partial(advance, program))(inputs, state, stop)


@partial(jax.jit, static_argnums=(0, 1, 5, 6, 7))
def _measure(
    program: Program, mesh: Mesh, inputs: Inputs, state: State, look: MeasureAt, chunk: int, is_all: bool, observe: Any
) -> Measurement:
    measuring = partial(measure, program, chunk=chunk, is_all=is_all, observe=observe)
    return _each_device(mesh, measuring)(inputs, state, look)


@partial(jax.jit, static_argnums=(0, 1, 5))
def _look_at(program: Program, mesh: Mesh, inputs: Inputs, state: State, wanted: Wanted, room: Room) -> Proposed:
    given: Any = Wanted(_EVERYWHERE, PartitionSpec("chains"), _EVERYWHERE, _EVERYWHERE, _EVERYWHERE)  # type: ignore[arg-type]
    return _each_device(mesh, partial(propose_and_look, program, room=room), given)(inputs, state, wanted)


@partial(jax.jit, static_argnums=(0, 1, 2))
def _decide_exchanges(
    program: Program, test: AcceptanceTest, mesh: Mesh, inputs: Inputs, asked: SwapProposals, epoch: jax.Array
) -> SwapDecisions:
    asked = asked._replace(key=fold_in(asked.key, jnp.broadcast_to(epoch, asked.s.shape)))
    return _on_every_device(mesh, partial(decide, program, test))(inputs, asked)


@partial(jax.jit, static_argnums=(0, 1, 6))
def _look_at_exchanges(
    program: Program, mesh: Mesh, inputs: Inputs, paths: jax.Array, key: Key, epoch: jax.Array, examples: int
) -> tuple[jax.Array, jax.Array]:
    own = fold_in(fold_in(key, jnp.broadcast_to(epoch, (len(paths),))), jnp.arange(len(paths)))
    found: tuple[jax.Array, jax.Array] = _on_every_device(mesh, partial(look, program, examples))(inputs, paths, own)
    return found


def _on_every_device(mesh: Mesh, function: Callable[..., Any]) -> Callable[..., Any]:
    """Run `function` for all chains on every device, so that nothing depends on how many there are."""
    everywhere = PartitionSpec()
    return jax.shard_map(function, mesh=mesh, in_specs=everywhere, out_specs=everywhere, check_vma=False)


def _each_device(mesh: Mesh, function: Callable[..., Any], told: Any = _EVERYWHERE) -> Callable[..., Any]:
    """Run `function` on every device for its own chains, and with what it is `told`; none waits for another."""
    chains, everywhere = PartitionSpec("chains"), _EVERYWHERE
    inputs = Inputs(everywhere, everywhere, chains, *3 * (everywhere,))  # type: ignore[arg-type]
    return jax.shard_map(function, mesh=mesh, in_specs=(inputs, chains, told), out_specs=chains, check_vma=False)


def _shared(data: Any, everywhere: NamedSharding) -> Any:
    """The data on every device; those of a CPU have one memory, and share what is there."""
    devices: Any = everywhere.device_set
    if all(device.platform == "cpu" for device in devices):
        # From an array of JAX, every device but its own would get a copy.
        data = jax.tree.map(np.asarray, data)
    return jax.device_put(data, everywhere, may_alias=True)


def _mesh(chains: int, devices: Sequence[jax.Device]) -> Mesh:
    """As many devices as divide the chains evenly."""
    count = max(n for n in range(1, len(devices) + 1) if chains % n == 0)
    return Mesh(np.array(devices[:count]), ("chains",))


_SHARE, _MOST = 0.02, 16
"""Of the data that scores may take, and models they are averaged over at most."""


def reweight(sampler: Sampler, state: State, control: Control, used: float) -> tuple[Control, int]:
    """Learn copies of examples from their losses now; return the evaluations per chain that it took, 0 if too many.

    `used` is what was evaluated per chain so far. Each look at all examples takes no more than a fiftieth of it.
    """
    chains, size = sampler.settings.chains, sampler.program.examples.most
    models = 2 * min(int(_SHARE * used * chains / (2 * size)), _MOST // 2)
    if models == 0:
        return control, 0
    losses = sampler.losses_of_examples(state, models)
    is_counting = isinstance(sampler.target.problem.loss, ZeroOne)
    scores = scores_by_errors(losses, models) if is_counting else scores_by_losses(losses)
    return control._replace(copies=copies_by(scores)), -(-models * size // chains)
