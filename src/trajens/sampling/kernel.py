"""Kernel of the sampler: lanes x (propose, take one chunk, decide, apply), compiled as one loop.

Each lane holds one pending proposal and the running moments of its loss differences. An iteration takes one chunk of
examples for every lane (or evaluates several and counts them one by one); lanes that reach a decision apply it and go
on to their next proposal, the others keep growing their batch, so no lane waits for another's batch. A proposal that
changes several models takes one model per iteration.

A proposal is a function of the path and of its epoch's key, and nothing it depends on changes while it is
pending; so it is drawn again for every iteration instead of being kept, and a state between two calls is no more
than the path and a few counters. Every random number is a function of (seed, chain, epoch, purpose): the result does
not depend on how the epochs are divided into calls or the chains over devices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from trajens.acceptance.base import Evidence, Verdict, refuse_what_is_not_finite
from trajens.acceptance.minibatch import Minibatch
from trajens.moves.base import Proposal, Site
from trajens.moves.scan import site_of_lane
from trajens.randomness import Key, Purpose, fold_in, words
from trajens.sampling.lanes import Lanes, LaneTally, Tally, empty_tally, entries_at, idle_lanes, lift, remember, view_of
from trajens.sampling.program import Inputs, Program
from trajens.sampling.tuning import initial_sizes


class State(NamedTuple):
    """What a run is continued from; the leading axis is the chain. `sizes` is () unless moves are tuned."""

    key: Key
    path: jax.Array
    phase: jax.Array
    phase_epoch: jax.Array
    done: jax.Array
    acceptance: Any
    sizes: Any = ()

    @property
    def epoch(self) -> int:
        """The epoch all chains have reached: so many proposals of each have been decided."""
        return int(self.phase_epoch[0]) + int(self.done[0].sum())


class _Task(NamedTuple):
    """What each lane does next; fields are (chains, lanes, ...), `members` those of the next chunks of its batch."""

    key: Key
    site: Site
    epoch: jax.Array
    is_active: jax.Array
    exists: jax.Array
    proposal: Proposal
    members: jax.Array


class _Work(NamedTuple):
    # Tasks are carried from one iteration to the next instead of being drawn where they are used: XLA would fuse
    # their random numbers into every consumer and compute them many times.
    state: State
    lanes: Lanes
    task: _Task
    tally: LaneTally


def init(program: Program, key: Key, path: jax.Array) -> State:
    """The state of chains (chains, tau, dim) at epoch 0; `key` has one entry per chain."""
    chains, kinds = path.shape[0], len(program.move.components)
    zero = jnp.zeros(chains, jnp.int32)
    one = program.acceptance.init(kinds, program.tau)
    acceptance = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (chains, *leaf.shape)), one)
    sizes = initial_sizes(chains, kinds, path.shape[2]) if program.is_tuned else ()
    return State(
        key=key,
        path=path,
        phase=zero,
        phase_epoch=zero,
        done=jnp.zeros((chains, program.lanes), jnp.int32),
        acceptance=acceptance,
        sizes=sizes,
    )


def state_like(program: Program, chains: int, dim: int) -> State:
    """The shapes and types of a state, without computing one."""
    word = jax.ShapeDtypeStruct((chains,), jnp.uint32)
    path = jax.ShapeDtypeStruct((chains, program.tau, dim), jnp.float32)
    key: Any = Key(word, word)  # type: ignore[arg-type]
    like: State = jax.eval_shape(lambda key, path: init(program, key, path), key, path)
    return like


def advance(program: Program, inputs: Inputs, state: State, stop: jax.Array) -> tuple[State, Tally]:
    """Bring every chain to epoch `stop`: proposals number 0..stop-1 have been decided."""
    chains = state.path.shape[0]
    partial = program.chunk if program.span > 1 else None
    lanes = idle_lanes(chains, program.lanes, partial, program.acceptance.num_stages)
    # Drawn here the first task is compiled twice. On a GPU, where that takes long, it follows an iteration with nothing
    # to do; on a CPU that would evaluate losses for nothing, and some take seconds.
    is_idle = program.looks_every > 1
    assign = lambda: _assign(program, inputs, state, lanes, stop)  # noqa: E731
    task = _nothing(jax.eval_shape(assign)) if is_idle else assign()
    begin = _Work(state, lanes, task, empty_tally(chains, program.lanes)), jnp.asarray(is_idle)

    def some_iterations(now: tuple[_Work, jax.Array]) -> tuple[_Work, jax.Array]:
        step = lambda work, _: (_iterate(program, inputs, work, stop), None)  # noqa: E731
        return jax.lax.scan(step, now[0], None, length=program.looks_every)[0], jnp.asarray(False)

    work, _ = jax.lax.while_loop(lambda now: now[1] | jnp.any(now[0].task.is_active), some_iterations, begin)
    return work.state, work.tally.of_chains()


def _nothing(like: _Task) -> _Task:
    """A task without active lanes, which changes nothing and is followed by the first: drawn in one place only."""
    idle: _Task = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), like)
    return idle._replace(exists=jnp.ones_like(idle.exists))


def _iterate(program: Program, inputs: Inputs, work: _Work, stop: jax.Array) -> _Work:
    """Take a chunk or several, judge, apply, and go on to the next task."""
    state, lanes, task, _ = work
    old, new = _pair(state, task, lanes)
    losses, is_valid, steps = _evaluate(program, inputs, task, lanes, jnp.stack([old, new], axis=2))
    lanes, verdict = _look(
        program=program, inputs=inputs, state=state, task=task, lanes=lanes, losses=losses, is_valid=is_valid, new=new
    )
    # Kept apart from what follows, for which a GPU would compute the verdict again and copy what it is computed from.
    lanes, verdict = jax.lax.optimization_barrier((lanes, verdict))
    is_decided = task.is_active & verdict.is_decided
    is_accepted = is_decided & verdict.is_accepted

    changed = task.site.stop - task.site.first
    tally = work.tally.plus(
        is_decided=is_decided,
        is_accepted=is_accepted,
        reason=verdict.reason,
        batch=lanes.batch.seen,
        changed=changed,
        losses=lanes.losses,
        steps=steps,
    )
    path = jax.vmap(_apply)(state.path, task.proposal.models, task.site, is_accepted)
    may_learn = is_decided & (task.epoch < inputs.learn_until) & jnp.isfinite(lanes.batch.moments.variance)
    acceptance = _learn(program, inputs, state.acceptance, task, lanes.batch, may_learn)
    if program.is_tuned:
        state = state._replace(sizes=state.sizes.plus(task.site.kind, is_decided, is_accepted))
    state = _next_phase(program, inputs, state, task, is_decided)._replace(path=path, acceptance=acceptance)

    is_cleared = is_decided | ~task.is_active
    lanes = jax.tree.map(lambda leaf: jnp.where(lift(is_cleared, leaf), jnp.zeros_like(leaf), leaf), lanes)
    following = _assign(program, inputs, state, lanes, stop)
    if len(program.move.components) == 1:
        # The same in every iteration, which a compiler sees only of an array that is handed on.
        following = following._replace(site=following.site._replace(kind=task.site.kind))
    return _Work(state, lanes, following, tally)


def _pair(state: State, task: _Task, lanes: Lanes) -> tuple[jax.Array, jax.Array]:
    """The current and the proposed model (chains, lanes, dim) that every lane looks at."""
    chains, tau, dim = state.path.shape
    t, new = task.site.first, task.proposal.models[:, :, 0]
    if lanes.row is not None:
        t = t + lanes.row
        new = jnp.take_along_axis(task.proposal.models, lanes.row[..., None, None], axis=2)[:, :, 0]
    number = jnp.arange(chains)[:, None] * tau + t
    return state.path.reshape(-1, dim).at[number].get(mode="promise_in_bounds"), new


def _assign(program: Program, inputs: Inputs, state: State, lanes: Lanes, stop: jax.Array) -> _Task:
    """The proposal and the chunk of data that every lane takes next.

    Lane j of a phase with n sites makes proposals number phase_epoch + j, phase_epoch + j + n, ..
    """
    lane = jnp.arange(program.lanes)
    phase_key = fold_in(state.key, state.phase_epoch)
    size = state.sizes.size if program.is_tuned else None

    def sites(key: Key, phase: jax.Array, size: jax.Array | None) -> tuple[Site, jax.Array]:
        return jax.vmap(lambda j: site_of_lane(program.scan, program.move, key, phase, j, program.tau, size))(lane)

    site, exists = jax.vmap(sites)(phase_key, state.phase, size)
    # Lanes without a site must not reach outside the path.
    site = jax.tree.map(lambda leaf: jnp.where(exists, leaf, 0), site)
    count = exists.sum(1, dtype=jnp.int32)
    epoch = state.phase_epoch[:, None] + state.done * count[:, None] + lane
    is_active = exists & (state.done < program.scan.repeats) & (epoch < stop)
    key = fold_in(Key(state.key.first[:, None], state.key.second[:, None]), epoch)

    propose = proposer(program, inputs)
    proposal = jax.vmap(jax.vmap(propose, in_axes=(0, None, 0, None)))(key, state.path, site, state.sizes)
    positions = _positions(program, lanes)
    if program.acceptance.takes_all_data:
        members = program.population.at(positions)
    else:
        pair = words(key, Purpose.BATCH, 2)
        members = program.population.draw(Key(pair[..., 0], pair[..., 1]), positions)
    return _Task(
        key=key, site=site, epoch=epoch, is_active=is_active, exists=exists, proposal=proposal, members=members
    )


def proposer(program: Program, inputs: Inputs) -> Callable[..., Proposal]:
    """From the key of an epoch, a path, a site of it and the tuned sizes of its chain to a proposal."""

    def propose(key: Key, path: jax.Array, site: Site, sizes: Any) -> Proposal:
        if not program.is_tuned:
            return program.move.propose(key, path, site, inputs.law)
        return program.move.propose_sized(key, path, site, inputs.law, sizes.size)

    return propose


def _evaluate(
    program: Program, inputs: Inputs, task: _Task, lanes: Lanes, pair: jax.Array
) -> tuple[jax.Array, jax.Array | None, jax.Array]:
    """Losses (chains, lanes, 2, chunks, m) of both models on the next chunks, which count, and the steps of chains."""
    flat = lambda leaf: leaf.reshape(-1, *leaf.shape[2:])  # noqa: E731
    losses, steps = inputs.losses(program.loss, flat(pair), flat(task.members), flat(task.is_active))
    shape, parts = task.members.shape[:2], (program.chunks, program.chunk)
    is_valid = None
    if program.population.most % program.chunk:
        is_valid = (_positions(program, lanes) < program.population.most).reshape(*shape, *parts)
    of_chains = jnp.where(task.is_active, steps.reshape(shape), 0).sum(1, dtype=jnp.uint32)
    return losses.reshape(*shape, 2, *parts), is_valid, of_chains


def _positions(program: Program, lanes: Lanes) -> jax.Array:
    return lanes.batch.seen[..., None] + jnp.arange(program.chunks * program.chunk)


def _look(
    program: Program,
    inputs: Inputs,
    state: State,
    task: _Task,
    lanes: Lanes,
    losses: jax.Array,
    is_valid: jax.Array | None,
    new: jax.Array,
) -> tuple[Lanes, Verdict]:
    """Count the chunks one after the other, up to the first after which the test decides."""
    seen = None
    for j in range(program.chunks):
        chunk, exists = losses[..., j, :], None if is_valid is None else is_valid[..., j, :]

        def ask(batch: Minibatch, is_last_row: jax.Array, chunk: Any = chunk, exists: Any = exists) -> Verdict:
            verdict = _judge(program, inputs, state, task, batch)
            return refuse_what_is_not_finite(verdict, is_last_row, chunk, exists, new)

        now = (lanes if seen is None else seen[0]).take(task.site, chunk, exists, ask)
        if seen is not None:
            is_over = seen[1].is_decided
            now = jax.tree.map(lambda a, b, is_over=is_over: jnp.where(lift(is_over, a), a, b), seen, now)
        seen = now
    assert seen is not None
    return seen


def _judge(program: Program, inputs: Inputs, state: State, task: _Task, batch: Minibatch) -> Verdict:
    """Ask the acceptance test."""
    test = program.acceptance

    def one(evidence: Evidence, entry: Any, words: jax.Array) -> Verdict:
        return test.answer(entry, evidence, words)

    entries = entries_at(view_of(test, state.acceptance, len(state.path)), task.site)
    random_words = words(task.key, Purpose.TEST, test.num_words)
    verdict: Verdict = batch.ask(one, program.population, *_weighed(program, inputs, task), entries, random_words)
    return verdict


def _weighed(program: Program, inputs: Inputs, task: _Task) -> tuple[jax.Array, jax.Array]:
    """The s of every lane and what its move adds to Delta."""
    s = jnp.broadcast_to(inputs.s[:, None], task.epoch.shape)
    if program.schedule is not None:
        s = s * jax.vmap(jax.vmap(program.schedule))(task.epoch)
    return s, task.proposal.log_ratio


def _apply(path: jax.Array, models: jax.Array, site: Site, is_accepted: jax.Array) -> jax.Array:
    """Write the accepted spans of one chain; no two lanes share a model."""
    t = jnp.arange(path.shape[0])
    covers = is_accepted[:, None] & (site.first[:, None] <= t) & (t < site.stop[:, None])
    owner = jnp.argmax(covers, axis=0)
    row = jnp.clip(t - site.first[owner], 0, models.shape[1] - 1)
    return jnp.where(covers.any(0)[:, None], models[owner, row], path)


def _learn(
    program: Program, inputs: Inputs, acceptance: Any, task: _Task, batch: Minibatch, may_learn: jax.Array
) -> Any:
    """What the test remembers after the decisions of this iteration."""
    if not jax.tree.leaves(acceptance):
        return acceptance
    entries = entries_at(acceptance, task.site)
    learn = lambda evidence, entry: program.acceptance.learn(entry, evidence)  # noqa: E731
    learnt = batch.ask(learn, program.population, *_weighed(program, inputs, task), entries)
    return remember(acceptance, task.site, entries, learnt, may_learn)


def _next_phase(program: Program, inputs: Inputs, state: State, task: _Task, is_decided: jax.Array) -> State:
    """Count the decided proposals; a chain whose lanes are all through goes on to its next phase."""
    done = state.done + is_decided
    is_over = (done >= program.scan.repeats).all(1, where=task.exists)
    epochs = task.exists.sum(1, dtype=jnp.int32) * program.scan.repeats
    if program.is_tuned:
        # Only here is no proposal pending, which a change of its size would change.
        may_tune = is_over & (state.phase_epoch + epochs <= inputs.tune_until)
        state = state._replace(sizes=state.sizes.tuned(may_tune, state.path.shape[2]))
    return state._replace(
        phase=state.phase + is_over,
        phase_epoch=state.phase_epoch + jnp.where(is_over, epochs, 0),
        done=jnp.where(is_over[:, None], 0, done),
    )
