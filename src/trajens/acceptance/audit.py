"""The audit: how far the decisions of a test are from detailed balance, measured on the decisions themselves.

Of a proposal all loss differences are evaluated (or those of many examples), and by resampling batches of them

    A = P(accept theta -> theta'),   A' = P(accept theta' -> theta)   (the same batches, Delta_i -> -Delta_i)
    e = ln(A / A') - Delta

e = 0 is detailed balance. To first order in e the distribution that is sampled is pi (1 + h), where h solves

    sum_x' phi(x, x') (h(x) - h(x') + e(x, x')) = 0,   phi the flux of accepted moves,

the normal equation of a least-squares fit of -e by differences of h, weighted with the flux. In the direction h =
-beta s L, a distribution of another s, that is a regression of e on Delta:

    beta = sum phi e Delta / sum phi Delta^2,   s_eff = s (1 + beta).

In the direction h = a f of a linear function f of the path it is a regression of e on f(x') - f(x), and the mean of f
is off by a Var(f): a force that beta does not see. It is found to first order, and along f alone.

The flux of a pair is the same in both directions, so each may be counted with the weights 1 / (1 + exp(+-Delta)) that
keep all terms bounded: with a = A / (1 + exp(Delta)) and a' = A' / (1 + exp(-Delta)), phi e is a - a' and phi is
(a + a') / 2. It is linear in A and A', so that few batches per proposal make noise, but no bias.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from trajens.acceptance.base import AcceptanceTest, Evidence
from trajens.acceptance.minibatch import Minibatch, empty_minibatch
from trajens.population import Endless, Finite, Population

ORDERS = 8
"""Times that the differences of a proposal are divided into batches, each time in another order."""

_LANES, _LOOKS_EVERY, _PROPOSALS = 2**13, 16, 2**10


class Looked(NamedTuple):
    """Proposals (proposals,) with loss differences (proposals, examples), on the host; see `Evidence`.

    `distance` is |theta' - theta|^2 of all models that change. With a `limit`, the examples stand for a stream.
    `shifts` (proposals, directions) are changes of the mean model, in posterior standard deviations, as far as known.
    """

    s: np.ndarray
    log_ratio: np.ndarray
    distance: np.ndarray
    differences: np.ndarray
    limit: int | None = None
    shifts: np.ndarray = np.zeros((0, 0))

    def those(self, which: np.ndarray) -> Looked:
        """Some of the proposals."""
        return Looked(
            self.s[which],
            self.log_ratio[which],
            self.distance[which],
            self.differences[which],
            limit=self.limit,
            shifts=self.shifts[which] if self.shifts.size else self.shifts,
        )

    @property
    def delta(self) -> np.ndarray:
        """Delta on all examples looked at."""
        return np.asarray(self.log_ratio - self.s * self.differences.mean(1, dtype=np.float64))


class Acceptances(NamedTuple):
    """Of every proposal: Delta, A, A', and the mean number of examples that a decision reads."""

    delta: np.ndarray
    forward: np.ndarray
    reverse: np.ndarray
    examples: np.ndarray

    def plus(self, other: Acceptances) -> Acceptances:
        """The mean of two estimates of the same proposals, made with as many orders each."""
        return Acceptances(self.delta, *(0.5 * (a + b) for a, b in zip(self[1:], other[1:], strict=True)))


class Balance(NamedTuple):
    """Terms of a regression of e on x, per proposal: flux times e times x, and flux times x^2."""

    error: np.ndarray
    weight: np.ndarray

    def those(self, which: np.ndarray) -> Balance:
        """Of some of the proposals."""
        return Balance(self.error[which], self.weight[which])

    def slope(self) -> tuple[float, float]:
        """The slope and its standard error over proposals; NaN where no proposal has a weight."""
        total = self.weight.sum()
        if not total > 0:
            return float("nan"), float("nan")
        beta = self.error.sum() / total
        rest = self.error - beta * self.weight
        spread = np.sqrt((rest**2).sum()) / total if len(rest) > 1 else np.nan
        return float(beta), float(spread)


def balance(found: Acceptances, along: np.ndarray | None = None) -> Balance:
    """The terms of beta, or of the slope along another change (proposals,) that is reversed with the step."""
    from scipy.special import expit

    x = found.delta if along is None else along
    there, back = found.forward * expit(-found.delta), found.reverse * expit(found.delta)
    return Balance((there - back) * x, 0.5 * (there + back) * x**2)


def acceptances(
    test: AcceptanceTest, chunk: int, entries: Any, looked: Looked, rng: np.random.Generator, orders: int = ORDERS
) -> Acceptances:
    """What `test` would do, with `entries` (proposals,) in memory, if the examples looked at were all there are.

    The differences of every proposal must be in a random order of its own. Batches of a stream are drawn with
    replacement, so that those looked at may be as many as there are, and infinitely many, at the same time.
    """
    proposals, found = looked.differences.shape
    population = Finite(found) if looked.limit is None else Endless(looked.limit)
    most = population.most
    # Always a multiple of so many, so that nearly all calls share a compilation.
    filled = np.resize(np.arange(proposals), -(-proposals // _PROPOSALS) * _PROPOSALS)
    given = jax.tree.map(lambda leaf: leaf[filled], (entries, looked.s))
    # Of a stream, infinitely many.
    bound = int(min(float(_most_examples(test, population.size, *given)), most))
    room = min(most, -(-bound // chunk) * chunk)
    per_order = max(1, found // room)
    total, left = np.zeros((3, proposals)), orders
    while left > 0:
        # Batches of one permutation have no example in common, so that their means scatter less than those of others.
        some = min(left, max(1, _LANES // (proposals * per_order)))
        columns = np.concatenate([_order(looked, rng, per_order * room) for _ in range(some)])
        values = np.take(looked.differences, columns, axis=1).reshape(-1, room)
        copies = np.repeat(np.arange(proposals), some * per_order)
        for begin in range(0, len(values), _LANES):
            these = slice(begin, begin + _LANES)
            answers = _decided(
                test=test,
                chunk=chunk,
                population=population,
                entries=entries,
                looked=looked,
                proposal=copies[these],
                values=values[these],
                rng=rng,
            )
            total += [np.bincount(copies[these], column, proposals) for column in answers]
        left -= some
    forward, reverse, read = total / (orders * per_order)
    return Acceptances(looked.delta, forward, reverse, read)


def _order(looked: Looked, rng: np.random.Generator, count: int) -> np.ndarray:
    """Columns of `count` examples."""
    examples = looked.differences.shape[1]
    return rng.permutation(examples)[:count] if looked.limit is None else rng.integers(examples, size=count)


def _decided(
    test: AcceptanceTest,
    chunk: int,
    population: Population,
    entries: Any,
    looked: Looked,
    proposal: np.ndarray,
    values: np.ndarray,
    rng: np.random.Generator,
) -> tuple[np.ndarray, ...]:
    """Probabilities of accepting on batches `values` of loss differences, there and back, and examples read."""
    count = len(values)
    # Always as many lanes, so that all calls share a compilation.
    if count < _LANES:
        proposal, values = np.resize(proposal, _LANES), np.resize(values, (_LANES, values.shape[1]))
    both = lambda leaf: np.tile(np.asarray(leaf)[proposal], 2)  # noqa: E731
    given = _Given(
        jax.tree.map(both, entries),
        both(looked.s),
        both(looked.log_ratio) * np.repeat(np.array([1, -1], np.float32), _LANES),
        np.tile(rng.integers(0, 2**32, (_LANES, test.num_words), np.uint32), (2, 1)),
    )
    seen = _begin(test)
    for k, start in enumerate(range(0, values.shape[1], chunk)):
        seen = _take(test, population, given, seen, values[:, start : start + chunk])
        # Not after every chunk: a look makes the device wait for its host.
        if k % _LOOKS_EVERY == _LOOKS_EVERY - 1 and bool(np.all(seen.is_over)):
            break
    forward, reverse = np.asarray(seen.accepted, np.float64).reshape(2, _LANES)
    return forward[:count], reverse[:count], np.asarray(seen.read, np.float64)[:count]


class _Given(NamedTuple):
    """What a decision is given, (lanes, ...)."""

    entries: Any
    s: np.ndarray
    log_ratio: np.ndarray
    words: np.ndarray


class _Seen(NamedTuple):
    """Where a decision stands: `chance` is the probability of having come so far."""

    batch: Minibatch
    chance: jax.Array
    accepted: jax.Array
    read: jax.Array
    is_over: jax.Array


class _Chance(NamedTuple):
    """Whether a decision is taken, or a stage passed, and with what probability so."""

    is_decided: jax.Array
    is_passed: jax.Array
    chance: jax.Array


def _begin(test: AcceptanceTest) -> _Seen:
    like = jax.eval_shape(lambda: empty_minibatch((2 * _LANES,), test.num_stages))
    # On the host, where zeros need no program of their own.
    batch: Minibatch = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), like)
    real: Any = np.zeros(2 * _LANES, np.float32)
    is_over: Any = np.zeros(2 * _LANES, bool)
    return _Seen(batch, real + 1, real, real, is_over)


@partial(jax.jit, static_argnums=(0, 1))
def _most_examples(test: AcceptanceTest, size: int | float, entries: Any, s: jax.Array) -> jax.Array:
    """The most that a decision on one of the proposals reads; in one program, not one for each of its operations."""
    return jnp.max(jnp.asarray(test.most_examples(entries, s, size)))


@partial(jax.jit, static_argnums=(0, 1))
def _take(test: AcceptanceTest, population: Population, given: _Given, seen: _Seen, values: jax.Array) -> _Seen:
    """A chunk (lanes, m) of loss differences more, and what the test says to it; the second half reverses the steps."""

    def look(evidence: Evidence, entry: Any, words: jax.Array) -> _Chance:
        judgement = test.judge(entry, evidence)
        if judgement is None:
            verdict = test.answer(entry, evidence, words)
            is_passed = verdict.is_passed & ~verdict.is_decided
            return _Chance(verdict.is_decided, is_passed, jnp.where(verdict.is_decided, verdict.is_accepted, 1.0))
        is_ready = judgement.is_ready | evidence.is_exhausted
        is_decided = is_ready & judgement.is_last
        return _Chance(is_decided, is_ready & ~is_decided, jnp.exp(jnp.minimum(judgement.log_chance, 0.0)))

    def ask(batch: Minibatch) -> _Chance:
        more = given.entries, jnp.asarray(given.words)
        answer: _Chance = batch.ask(look, population, jnp.asarray(given.s), jnp.asarray(given.log_ratio), *more)
        return answer

    batch, answer = seen.batch.take(jnp.concatenate([values, -values]), None, ask)
    is_over = answer.is_decided & ~seen.is_over
    # What passes a stage with some probability goes on with it, and reads on with it.
    read = seen.read + jnp.where(seen.is_over, 0.0, seen.chance * values.shape[1])
    chance = seen.chance * jnp.where((answer.is_passed | answer.is_decided) & ~seen.is_over, answer.chance, 1.0)
    accepted = jnp.where(is_over, chance, seen.accepted)
    return _Seen(batch, chance, accepted, read, seen.is_over | is_over)
