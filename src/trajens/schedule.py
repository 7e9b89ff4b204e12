"""The tilt s as a number, one number per chain, or a function of the epoch.

A schedule is any callable ``s(epoch)`` that JAX can trace; those made here compare equal when their numbers
do, so that using one twice compiles once. At fixed s the path distribution is left invariant; while s changes, the
run is an annealing and samples no fixed distribution.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from trajens.errors import InputError, first_line, integer, number, pairs_of, require
from trajens.precision import single

Schedule = Callable[[jax.Array], jax.Array]
_LARGEST = 1e15
_LOOKS = 1001
_ADVICE = "s multiplies the mean loss, try 1 to 1000"


@dataclass(frozen=True)
class Ramp:
    """From `start` to `stop` within `epochs`, then constant; linear in s or in ln s."""

    start: float
    stop: float
    epochs: int
    is_exponential: bool

    def __call__(self, epoch: jax.Array) -> jax.Array:
        done = jnp.minimum(epoch / self.epochs, 1.0).astype(jnp.float32)
        if self.is_exponential:
            return self.start * (self.stop / self.start) ** done
        return self.start * (1.0 - done) + self.stop * done


@dataclass(frozen=True)
class Steps:
    """`values[i]` from epoch `epochs[i]` on; `epochs[0]` is 0."""

    epochs: tuple[int, ...]
    values: tuple[float, ...]

    def __call__(self, epoch: jax.Array) -> jax.Array:
        s = jnp.full(jnp.shape(epoch), self.values[0], jnp.float32)
        for start, value in zip(self.epochs[1:], self.values[1:], strict=True):
            s = jnp.where(epoch >= start, value, s)
        return s


def linear(start: float, stop: float, epochs: int) -> Ramp:
    """From `start` to `stop` in equal steps during `epochs`, then constant."""
    return Ramp(
        _tilt("start of the schedule", start),
        _tilt("stop of the schedule", stop),
        integer("epochs of the schedule", epochs, 1, "give the epoch at which s stops changing"),
        is_exponential=False,
    )


def exponential(start: float, stop: float, epochs: int) -> Ramp:
    """From `start` to `stop` by equal factors during `epochs`, then constant."""
    return Ramp(
        number("start of the schedule", start, "an exponential schedule cannot start at 0", above=0.0),
        number("stop of the schedule", stop, "an exponential schedule cannot end at 0", above=0.0),
        integer("epochs of the schedule", epochs, 1, "give the epoch at which s stops changing"),
        is_exponential=True,
    )


def stepped(steps: Sequence[tuple[int, float]]) -> Steps:
    """Constant pieces: pairs (first epoch, s) in increasing order, the first at epoch 0."""
    pairs = pairs_of("steps", steps, "try [(0, 10.0), (1000, 50.0)]")
    epochs = tuple(integer("epoch of a step", e, 0, "give whole epochs") for e, _ in pairs)
    values = tuple(_tilt("s of a step", v) for _, v in pairs)
    is_ordered = len(epochs) > 0 and epochs[0] == 0 and all(a < b for a, b in pairwise(epochs))
    require(is_ordered, f"steps must start at epoch 0 and increase, got epochs {list(epochs)}; sort them.")
    return Steps(epochs, values)


@single
def split(s: Any) -> tuple[np.ndarray, Schedule | None]:
    """`s` as (one factor or one per chain, schedule or None); their product is the tilt."""
    if callable(s):
        try:
            shape = jax.eval_shape(lambda epoch: jnp.asarray(s(epoch)), jax.ShapeDtypeStruct((), jnp.int32)).shape
            first = np.asarray(s(jnp.int32(0)))
        except Exception as error:
            raise InputError(
                f"s as a schedule must map an epoch to a number inside jit, got {first_line(error)}; use jax.numpy in "
                "it."
            ) from error
        require(shape == (), f"s(epoch) must be one number, got shape {shape}; return a scalar.")
        _tilt("s(0)", float(first))
        return np.ones((), np.float32), s
    message = f"s must be a number, one number per chain or a schedule, got {s!r}; see trajens.schedule."
    try:
        values = np.asarray(s)
    except ValueError:
        raise InputError(message) from None
    require(values.dtype.kind in "iuf", message)
    require(
        values.ndim <= 1 and values.size > 0,
        f"s must be a number or one number per chain, got shape {values.shape}; give a number or a flat list.",
    )
    for value in np.atleast_1d(values):
        _tilt("s", float(value))
    return values.astype(np.float32), None


@single
def values_at(schedule: Schedule, epochs: np.ndarray) -> np.ndarray:
    """The tilt at every one of `epochs`."""
    return np.asarray(jax.vmap(lambda epoch: jnp.asarray(schedule(epoch), jnp.float32))(jnp.asarray(epochs, jnp.int32)))


@single
def value_at(schedule: Schedule, epoch: int) -> float:
    """The tilt at one epoch."""
    return float(schedule(jnp.int32(epoch)))


def require_valid(schedule: Schedule | None, epochs: np.ndarray) -> None:
    """Refuse a schedule that is negative or not finite at one of `epochs`."""
    if schedule is None:
        return
    values = values_at(schedule, epochs)
    bad = ~(np.isfinite(values) & (values >= 0) & (values <= _LARGEST))
    if bad.any():
        first = int(np.argmax(bad))
        raise InputError(
            f"s(epoch) must be a finite number >= 0 at every epoch, got {values[first]:g} at epoch {epochs[first]}; "
            "check the schedule."
        )


def settled(schedule: Schedule | None, epochs: int) -> int:
    """The epoch from which on s stays as it is; 0 for a fixed s, and for one that changes until the end."""
    if schedule is None:
        return 0
    if isinstance(schedule, Ramp):
        last = schedule.epochs
    elif isinstance(schedule, Steps):
        last = schedule.epochs[-1]
    else:
        looked = np.unique(np.linspace(0, epochs, _LOOKS).astype(np.int64))
        changes = np.flatnonzero(np.diff(values_at(schedule, looked)) != 0)
        last = int(looked[changes[-1] + 1]) if len(changes) else 0
    return last if last < epochs else 0


def _tilt(name: str, value: float) -> float:
    return number(name, value, _ADVICE, at_least=0.0, at_most=_LARGEST)
