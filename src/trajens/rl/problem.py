"""Problem of a policy: minus its return on an episode, scaled, as a stream of episodes.

    l(theta, key) = (high - return of the episode of key) / (high - low)

is minus the return, shifted and scaled by the range of returns that the environment declares, or that is given: 0 for
the best and 1 for the worst. s is thus counted in units of that range: s = 100 prefers a return that is better by a
hundredth of it by a factor e.

*Episode.* One episode: reset, then steps until it is over.

The loop ends with the episode. Mapped over many, it goes on until the last of them is over, and those that are over
stay as they are: JAX does so with any ``while_loop`` that is mapped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from trajens.ensemble import Applied, Predictor
from trajens.errors import InputError, number, require
from trajens.models import Model
from trajens.models.base import PRIOR
from trajens.problem import flatten
from trajens.rl.environment import Environment, require_environment
from trajens.rl.policy import Policy, outputs_of
from trajens.stream import Stream

Act = Callable[[jax.Array], jax.Array]
"""From an observation to an action."""


class Episode(NamedTuple):
    """What an episode came to: the sum of its rewards, and its steps."""

    total: jax.Array
    steps: jax.Array


class _Now(NamedTuple):
    observation: jax.Array
    state: Any
    total: jax.Array
    steps: jax.Array
    is_over: jax.Array


def episode(environment: Environment, act: Act, key: jax.Array, is_active: Any = True) -> Episode:
    """The episode of `key`; one that is not active has no step, and one that acts on a NaN has no return, but NaN."""
    key_reset, key_steps = jax.random.split(key)
    observation, state = environment.reset(key_reset)

    def go_on(now: _Now) -> jax.Array:
        return ~now.is_over & (now.steps < environment.max_steps)

    def step(now: _Now) -> _Now:
        # Not carried along: an environment that needs no key then computes none.
        key_step = jax.random.fold_in(key_steps, now.steps)
        observation, state, reward, is_over = environment.step(key_step, now.state, act(now.observation))
        # Types of a state may be weak, or wider after a step than before it.
        state = jax.tree.map(lambda new, old: jnp.asarray(new).astype(jnp.result_type(old)), state, now.state)
        observation = observation.astype(now.observation.dtype)
        # The largest of outputs that are no numbers is an action like any other: nobody would notice.
        is_blind = jnp.isnan(now.observation).any()
        total = jnp.where(is_blind, jnp.nan, now.total + reward)
        return _Now(observation, state, total, now.steps + 1, jnp.asarray(is_over, bool))

    begin = _Now(
        observation, jax.tree.map(jnp.asarray, state), jnp.float32(0.0), jnp.int32(0), ~jnp.asarray(is_active, bool)
    )
    end = jax.lax.while_loop(go_on, step, begin)
    return Episode(end.total, end.steps)


MAX_EPISODES = 256
"""That one decision may read, unless another number is asked for."""


@dataclass(frozen=True)
class Episodes:
    """The loss, and how many steps of the environment it takes.

    Parameters
    ----------
    environment : Environment
    policy : Policy
    returns : (float, float)
        The returns of loss 1 and of loss 0.
    """

    environment: Environment
    policy: Policy
    returns: tuple[float, float]

    def __call__(self, theta: jax.Array, keys: jax.Array) -> jax.Array:
        """Losses (m,) of one policy on the episodes of `keys` (m,)."""
        return self.loss_of(self._episodes(theta, keys, True).total)

    def of_pairs(self, data: Any, theta_pairs: jax.Array, keys: jax.Array, is_active: jax.Array) -> jax.Array:
        """Losses (lanes, 2, m): both policies of a pair meet the same episodes."""
        return self.counted(data, theta_pairs, keys, is_active)[0]

    def counted(
        self, data: Any, theta_pairs: jax.Array, keys: jax.Array, is_active: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """The same, and the steps (lanes,) of both policies together; lanes that are not active take none."""
        both = jax.vmap(self._episodes, (0, None, None))
        found = jax.vmap(both)(theta_pairs, keys, is_active)
        return self.loss_of(found.total), found.steps.sum((1, 2), dtype=jnp.uint32)

    def loss_of(self, total: Any) -> Any:
        """The loss of a return."""
        low, high = self.returns
        return (high - total) / (high - low)

    def return_of(self, loss: Any) -> Any:
        """The return of a loss."""
        low, high = self.returns
        return high - loss * (high - low)

    def _episodes(self, theta: jax.Array, keys: jax.Array, is_active: Any) -> Episode:
        one = lambda key: episode(self.environment, lambda seen: self.policy.alone(theta, seen), key, is_active)  # noqa: E731
        return jax.vmap(one)(keys)


def problem(
    environment: Environment,
    network: Predictor | None = None,
    returns: tuple[float, float] | None = None,
    max_batch: int = MAX_EPISODES,
    apply: Callable[[Any, Any], Any] | None = None,
    params: Any = None,
) -> Stream:
    """The episodes of an environment as a problem: `Target`, `sample` and `train` take it.

    Parameters
    ----------
    environment : Environment
        `CartPole`, `gymnax` or one of your own.
    network : Predictor, optional
        One of `tj.models` with as many inputs as an observation has numbers and one output per action, see `network`.
    returns : (float, float), optional
        The returns whose losses are 1 and 0; default those that the environment declares.
    max_batch : int
        The most episodes that one decision may read.
    apply, params
        In place of a network: ``apply(params, observations) -> (m, outputs)`` with parameters that are a pytree; paths
        start at `params`.

    Examples
    --------
    >>> stream = tj.rl.problem(tj.rl.CartPole(), tj.models.linear(4, 2))  # doctest: +SKIP
    >>> target = tj.Target(stream, tau=16, sigma=0.3, s=tj.schedule.exponential(5, 500, 2000))  # doctest: +SKIP
    >>> run = tj.sample(target, 4000, acceptance=tj.Penalty(8))  # doctest: +SKIP
    """
    require_environment(environment)
    initial = unravel = None
    if apply is not None:
        require(network is None, "network and apply must not both be given: each says what acts; leave one out.")
        network = Applied.of(apply, outputs_of(environment), params)
        initial, unravel = flatten("params", params)
    require(
        network is not None,
        "network must be given, or apply and params, got none; try tj.models.linear(observations, actions).",
    )
    assert network is not None
    policy = Policy.of(environment, network)
    loss = Episodes(environment, policy, _range(getattr(environment, "returns", None) if returns is None else returns))
    is_ours = isinstance(network, Model)
    spread, prior = (network.spread, PRIOR) if isinstance(network, Model) else (None, None)
    stream = Stream(loss, network.dim, max_batch, initial=initial, spread=spread if is_ours else None, prior=prior)
    if unravel is not None:
        stream._unravel = unravel
    return stream


def episodes_of(stream: Any) -> Episodes:
    """The loss of a stream that `problem` has made."""
    found = getattr(getattr(stream, "loss", None), "loss", None)
    if not isinstance(found, Episodes):
        raise InputError(f"the problem must be one of tj.rl.problem, got {stream!r}; make one of an environment.")
    return found


def _range(returns: Any) -> tuple[float, float]:
    advice = "give the returns of loss 1 and of loss 0, for instance (0, 500)"
    try:
        low, high = returns
    except (TypeError, ValueError):
        raise InputError(f"returns must be two numbers, got {returns!r}; {advice}.") from None
    low, high = number("returns", low, advice), number("returns", high, advice)
    require(low < high, f"returns must be low and high, got {returns!r}; {advice}.")
    return low, high
