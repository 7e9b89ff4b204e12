"""Audits of a run: when they are due, what they cost, what they find, and what is planned after them.

At most a fiftieth of the data goes into audits, but for two that may take more where batches are large: the one at the
end of burn-in, without which there is no plan within the tolerance, and one at the end of a run that was not audited
since, without which nobody knows whether it kept it. In burn-in audits are made when the controller of the run says
so, and the acceptance test may plan by them; after it whenever there is enough to spend, and nothing is changed by
them. All of it is a function of the state and of what was counted, so that a run that is resumed is audited at the same
epochs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from trajens.acceptance import AcceptanceTest
from trajens.acceptance.audit import ORDERS, Acceptances, Looked, acceptances, balance
from trajens.moves.base import Site
from trajens.precision import single
from trajens.records import Audited, Records, after_burn_in, chains_by_s, furthest, spreads
from trajens.run.control import Update
from trajens.run.record import AuditSlopes, AuditTerms
from trajens.sampling.kernel import State
from trajens.sampling.lanes import entries_at, view_of
from trajens.sampling.probes import MOST_EXAMPLES, PLANNING
from trajens.sampling.program import Control
from trajens.sampling.sampler import Sampler
from trajens.sampling.settings import Settings
from trajens.target import Target

SHARE = 0.02
"""Of the data that audits may take."""

SHARE_AT_MOST = 0.1
"""Of the data so far, that the audit at the end of burn-in, or of a run, may take where less is not enough for one."""

ANNEALING_TOLERANCE = 0.1
"""What a plan may be off by while s still rises, unless the tolerance is larger."""

PROPOSALS = 256
"""Looked at in an audit, of all chains together."""

_LEAST = 64
_EXAMPLES, _FEW = 8, 1024
_GROUPS = 8
_SEED = 0xA0D17
_LEVELS, _CHEAP = 8, 8
"""Plans that are tried, about, and parameters whose losses cost as much as a resampled one."""


@dataclass(frozen=True)
class Audit:
    """How far the decisions of a run are from detailed balance.

    Attributes
    ----------
    tilt_error, tilt_error_stderr : float
        beta and its standard error: to first order the run samples s (1 + beta).
    s_effective : float
        s (1 + beta), for the mean s of the proposals.
    mean_shift, mean_shift_stderr : float
        By how much the mean model is off, in posterior standard deviations, along the one of three fixed directions,
        and at the s, where that is furthest from 0 in units of its standard error; NaN where records after burn-in have
        no spread, or where no s has 16 proposals.
    acceptance, batch_size : float
        Expected for the proposals looked at.
    proposals, examples : int
        How many were looked at, on how many examples each.
    delta, forward, reverse : arrays (proposals,)
        Delta, the probability of accepting the step, and that of its reverse.
    """

    tilt_error: float
    tilt_error_stderr: float
    s_effective: float
    mean_shift: float
    mean_shift_stderr: float
    acceptance: float
    batch_size: float
    proposals: int
    examples: int
    delta: np.ndarray
    forward: np.ndarray
    reverse: np.ndarray

    def summary(self) -> dict[str, Any]:
        """The plain numbers."""
        return {name: value for name, value in vars(self).items() if not isinstance(value, np.ndarray)}


class Probes(NamedTuple):
    """Proposals of all chains that were looked at, (chains, k) flattened, with what the test remembers of their models.

    `shifts` (proposals, directions) are what they add to the projections of a path.
    `steps` (chains,) are those that their losses took, where these count some.
    """

    chain: np.ndarray
    site: Site
    looked: Looked
    shifts: np.ndarray
    entries: Any
    steps: np.ndarray

    def in_units_of(self, spreads: np.ndarray) -> Probes:
        """With `looked` told the shifts in units of these (chains, directions), along those where all are known."""
        is_known = (spreads > 0).all(0)
        shifts = self.shifts[:, is_known] / spreads[self.chain][:, is_known]
        return self._replace(looked=self.looked._replace(shifts=shifts))


@single
def largest_batch(sampler: Sampler, state: State, epoch: int, control: Control) -> int:
    """The most examples that a decision reads as things stand at an epoch."""
    program = sampler.program
    s, memory = sampler.s_at(epoch, control).astype(np.float32), jax.tree.map(np.asarray, state.acceptance)
    population = program.population
    return int(min(float(_largest_batch(program.acceptance, memory, s, population.size)), population.most))


@partial(jax.jit, static_argnums=(0, 3))
def _largest_batch(test: AcceptanceTest, memory: Any, s: jax.Array, size: int | float) -> jax.Array:
    view = view_of(test, memory, len(s))
    shape = jax.tree.leaves(view)[0].shape if jax.tree.leaves(view) else (len(s), 1, 1)
    return jnp.max(jnp.asarray(test.most_examples(view, jnp.broadcast_to(s[:, None, None], shape), size)))


def examples_per_proposal(size: int | float, batch: int) -> int:
    """Eight of the largest batches: 1024 at least and 8192 at most, or all data."""
    return int(min(size, max(_FEW, min(MOST_EXAMPLES, _EXAMPLES * batch))))


def pairs_for_audit(size: int | float, batch: float, chains: int) -> float:
    """Pairs of losses per chain of a run that can afford an audit of batches of at most `batch` examples."""
    return -(-_LEAST // chains) * examples_per_proposal(size, round(batch)) / SHARE_AT_MOST


@single
def probe(sampler: Sampler, state: State, epoch: int, proposals: int, examples: int, control: Control) -> Probes:
    """Make `proposals` proposals of every chain, with the differences of `examples` examples; nothing is changed."""
    found = sampler.look_at(state, epoch, proposals, examples, control)
    chains = len(found.s)
    memory = jax.tree.map(np.asarray, state.acceptance)
    # For as many as any audit asks for, so that all share a compilation.
    padded = np.resize(np.arange(proposals), max(proposals, -(-PLANNING // chains)))
    sites = jax.tree.map(lambda leaf: leaf[:, padded], found.site)
    entries = _entries(sampler.program.acceptance, memory, sites)
    entries = jax.tree.map(lambda leaf: np.asarray(leaf)[:, :proposals], entries)
    flat = lambda leaf: np.asarray(leaf).reshape(-1, *leaf.shape[2:])  # noqa: E731
    limit = sampler.program.population.limit
    looked = Looked(flat(found.s), flat(found.log_ratio), flat(found.distance), flat(found.differences), limit)
    chain = np.repeat(np.arange(chains), proposals)
    sites = jax.tree.map(flat, found.site)
    # A proposal that is not finite is refused by every test, whatever the rest.
    is_sound = np.isfinite(looked.differences).all(1)
    pick = lambda leaf: leaf[is_sound]  # noqa: E731
    return Probes(
        chain[is_sound],
        jax.tree.map(pick, sites),
        looked.those(is_sound),
        pick(flat(found.shifts)),
        jax.tree.map(lambda e: pick(flat(e)), entries),
        np.asarray(found.steps, np.int64).sum(1),
    )


@partial(jax.jit, static_argnums=0)
def _entries(test: AcceptanceTest, memory: Any, site: Site) -> Any:
    """What decisions at the sites (chains, k) see of the memory."""
    return entries_at(view_of(test, memory, len(site.kind)), site)


class Auditable(Protocol):
    """A run: what it samples, how, and where it stands."""

    @property
    def target(self) -> Target:
        """The path distribution."""

    @property
    def settings(self) -> Settings:
        """How it is sampled."""

    @property
    def state(self) -> State:
        """What it is continued from."""

    @property
    def control(self) -> Control:
        """Its tilt, burn-in and copies of examples."""

    @property
    def records(self) -> Records:
        """What was measured."""


def audit(run: Auditable, proposals: int = PROPOSALS, examples: int | None = None) -> Audit:
    """How far the decisions of a run are from detailed balance, and so how far its s is from the one asked for.

    Proposals are made from its last paths as the sampler would make them, and decided many times on batches that are
    drawn from all loss differences; see `trajens.acceptance.audit`. Nothing of the run is changed.

    Parameters
    ----------
    run : Run
    proposals : int
        In all chains together, at least one of each.
    examples : int, optional
        Evaluated for each; default eight batches, 1024 at least and 8192 at most, or all.

    Returns
    -------
    Audit
        With ``tilt_error``, ``tilt_error_stderr`` and ``s_effective``.
    """
    sampler = Sampler(run.target, run.settings)
    # On the host, where counting epochs compiles nothing.
    here: State = jax.tree.map(np.asarray, run.state)
    epoch, state, chains = here.epoch, sampler.place(here), sampler.settings.chains
    if examples is None:
        examples = examples_per_proposal(
            sampler.program.population.size, largest_batch(sampler, state, epoch, run.control)
        )
    seen = probe(sampler, state, epoch, -(-proposals // chains), examples, run.control)
    found = _acceptances(sampler, seen, generator(sampler, epoch))
    beta, error = balance(found).slope()
    shift = _shift_of_means(run, seen, found)
    s = float(seen.looked.s.mean()) if len(seen.chain) else float("nan")
    return Audit(
        tilt_error=beta,
        tilt_error_stderr=error,
        s_effective=s * (1 + beta),
        mean_shift=shift.value,
        mean_shift_stderr=shift.error,
        acceptance=float(found.forward.mean()),
        batch_size=float(found.examples.mean()),
        proposals=len(found.delta),
        examples=examples,
        delta=found.delta,
        forward=found.forward,
        reverse=found.reverse,
    )


def _shift_of_means(run: Auditable, seen: Probes, found: Acceptances) -> Audited:
    """The shift of the mean model, as in `Audit`, with its error over proposals."""
    is_after = after_burn_in(run.records, run.control.burn_in)
    shifts = []
    for _, chains in chains_by_s(run.records["s"][:, -1]) if is_after.any() else []:
        these = np.isin(seen.chain, chains)
        if these.sum() < _LEAST // 4:
            continue
        widths = spreads({name: values[chains] for name, values in run.records.items()}, is_after)
        for along, width in zip(seen.shifts.T, widths, strict=False):
            slope, error = balance(found, along.astype(np.float64)).those(these).slope()
            shifts.append(Audited(slope, error, these.sum() - 1.0).scaled(width))
    return furthest(shifts)


class Occasion(NamedTuple):
    """When an audit is thought of.

    Attributes
    ----------
    epoch : int
    control : Control
        How the run goes on from here.
    used, audited : float
        Evaluations per chain so far, to decide and to audit.
    is_first : bool
        Whether there was none since burn-in.
    is_last : bool
        Whether the run ends here.
    spreads : (chains, directions), optional
        Standard deviations of the projections so far, of all chains of its s; NaN where they are not known.
    """

    epoch: int
    control: Control
    used: float
    audited: float
    is_first: bool
    is_last: bool
    spreads: np.ndarray | None = None

    @property
    def is_early(self) -> bool:
        """Whether burn-in is not over."""
        return self.epoch <= self.control.burn_in

    @property
    def is_needed(self) -> bool:
        """Whether nothing is known without it: at the end of burn-in, and once after it."""
        return self.epoch == self.control.burn_in or (self.is_first and not self.is_early)


class Auditor:
    """The audits of a run, in burn-in with plans."""

    def __init__(self, sampler: Sampler):
        self._sampler = sampler

    def audit_if_due(self, state: State, now: Occasion, update: Update) -> tuple[State, AuditTerms | None]:
        """The audit at a record, if one is due, and the state with what was planned by it."""
        settings = self._sampler.settings
        if settings.acceptance.takes_all_data or (now.is_early and not update.is_planning):
            return state, None
        budget = update.audit_share * SHARE * now.used - now.audited
        proposals, examples = self._affordable(state, now, budget)
        if proposals == 0:
            return state, None
        seen = probe(self._sampler, state, now.epoch, proposals, examples, now.control)
        rng = generator(self._sampler, now.epoch)
        terms = self._terms(seen, rng, proposals * examples)
        if now.is_early:
            tolerance = tolerance_of(settings.acceptance, update)
            seen = seen if now.spreads is None else seen.in_units_of(now.spreads)
            state = plan_batches(self._sampler, state, seen, tolerance, rng)
        return state, terms

    def _affordable(self, state: State, now: Occasion, budget: float) -> tuple[int, int]:
        """Proposals of every chain, 0 if there is not enough to spend, and examples of each."""
        sampler = self._sampler
        chains, dim = sampler.settings.chains, sampler.target.problem.dim
        per_example = 1.0
        if not now.is_needed:
            # Deciding on resampled batches costs little beside a network, but not beside a few parameters.
            per_example += (_LEVELS if now.is_early else 1) * ORDERS * _CHEAP / dim
        least = _LEAST if now.is_early or now.is_needed else PROPOSALS
        size = sampler.program.population.size
        # What no audit has seen may be off by anything: at these ends it does not count what was spent before.
        is_end = now.epoch == now.control.burn_in or (now.is_needed and now.is_last)
        most = SHARE_AT_MOST * now.used
        if (most if is_end else budget) * chains < least * per_example * examples_per_proposal(size, 0):
            return 0, 0
        examples = examples_per_proposal(size, largest_batch(sampler, state, now.epoch, now.control))
        wanted = -(-(PLANNING if now.is_early else PROPOSALS) // chains)
        if is_end:
            # Large batches take much to look at.
            budget = max(budget, min(-(-least // chains) * per_example * examples, most))
        proposals = min(wanted, int(max(budget, 0.0) / (per_example * examples)))
        return (proposals if proposals * chains >= least else 0), examples

    def _terms(self, seen: Probes, rng: np.random.Generator, evaluations: int) -> AuditTerms:
        """The regression of every chain."""
        found, chains = _acceptances(self._sampler, seen, rng), range(self._sampler.settings.chains)
        slopes = []
        for along in (None, *seen.shifts.T.astype(np.float64)):
            of_chains = [balance(found, along).those(seen.chain == chain) for chain in chains]
            value, error = np.array([one.slope() for one in of_chains]).T
            slopes.append(AuditSlopes(value, error, np.array([one.weight.sum() for one in of_chains])))
        return AuditTerms(tuple(slopes), evaluations, seen.steps)


def tolerance_of(test: AcceptanceTest, update: Update) -> float | None:
    """What plans must keep: less while s still rises, and the whole of it at the end of burn-in."""
    tolerance = test.tolerance
    if tolerance is None or update.is_settled:
        return tolerance
    return max(tolerance, ANNEALING_TOLERANCE)


@single
def plan_batches(
    sampler: Sampler, state: State, seen: Probes, tolerance: float | None, rng: np.random.Generator
) -> State:
    """The state with plans within the tolerance, one for every s and kind of move."""
    plan = sampler.program.acceptance.plan_within
    memory = jax.tree.map(lambda leaf: np.array(leaf), state.acceptance)
    if tolerance is None or not jax.tree.leaves(memory):
        return state
    for chains in _groups(sampler.target.s_of_chains(sampler.settings.chains)):
        for kind in range(len(sampler.program.move.components)):
            these = np.isin(seen.chain, chains) & (seen.site.kind == kind)
            if these.sum() < _LEAST // 4:
                continue
            some = rng.permutation(np.flatnonzero(these))[:PLANNING]
            pick = lambda leaf, some=some: leaf[some]  # noqa: E731
            changed = plan(
                sampler.program.chunk, jax.tree.map(pick, seen.entries), seen.looked.those(some), tolerance, rng
            )
            for name, value in changed.items():
                getattr(memory, name)[chains, kind] = value
    return sampler.with_memory(state, memory)


@single
def _acceptances(sampler: Sampler, seen: Probes, rng: np.random.Generator) -> Acceptances:
    program = sampler.program
    return acceptances(program.acceptance, program.chunk, seen.entries, seen.looked, rng)


def _groups(s: np.ndarray) -> list[np.ndarray]:
    """Chains of one s each, or of nearby ones where there are many."""
    values = np.unique(s)
    of_chain = np.searchsorted(values, s) * min(_GROUPS, len(values)) // len(values)
    return [np.flatnonzero(of_chain == group) for group in np.unique(of_chain)]


def generator(sampler: Sampler, epoch: int) -> np.random.Generator:
    """For what is made up to look at decisions at an epoch; no decision depends on it."""
    return np.random.default_rng([_SEED, *np.unique(sampler.settings.seed), epoch])
