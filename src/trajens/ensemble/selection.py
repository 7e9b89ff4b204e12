"""Selection of the paths an ensemble is made of: which chains, and which of the paths that were kept."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from trajens.errors import InputError, integer, number, require
from trajens.records import Records, after_burn_in, chains_by_s

ALL = "all"
"""The name of all chains together, whatever their s."""

OF_S = "s="
"""What stands before the s of the chains that are asked for."""

LARGEST = 2**30
"""Bytes of parameters that an ensemble of draws takes at most, unless a number of models is asked for."""

_NAMED = 8
"""Values of s that a refusal names."""


class HasPaths(Protocol):
    """A run, in memory or stored, whose paths can be asked for."""

    @property
    def paths(self) -> np.ndarray:
        """The last path of every chain, (chains, tau, dim)."""

    @property
    def draws(self) -> np.ndarray:
        """The paths kept after burn-in, (chains, draws, tau, dim)."""

    @property
    def s(self) -> np.ndarray:
        """The tilt of every chain."""

    @property
    def history(self) -> np.ndarray | None:
        """The path at every record, where they were kept."""

    @property
    def records(self) -> Records:
        """All of them."""

    @property
    def burn_in(self) -> int:
        """The epoch at which averages begin."""


def chosen_chains(chain: int | str | None, chains: int, s: Any = None) -> np.ndarray:
    """The numbers (n,) of the chains that `chain` means.

    Parameters
    ----------
    chain : int, str or None
        A whole number from 0, also as text; "all" for every chain; "s=80" for the chains of that s; None for every
        chain, which must then be of one s.
    chains : int
        How many there are.
    s : (chains,), optional
        Their values of s; default all alike.
    """
    tilts = np.zeros(chains) if s is None else np.asarray(s, np.float64)
    if chain is None:
        groups = chains_by_s(tilts)
        require(
            len(groups) == 1,
            f"chains must be of one s to make one ensemble, since those of several s sample several distributions, got "
            f"s = {_named(tilts)}; choose one with {OF_S}{groups[-1][0]:g} (--chain {OF_S}{groups[-1][0]:g}), or take "
            f"'{ALL}'.",
        )
        return np.arange(chains)
    if isinstance(chain, str):
        if chain == ALL:
            return np.arange(chains)
        if chain.startswith(OF_S):
            return _of_s(chain.removeprefix(OF_S), tilts)
        try:
            chain = int(chain)
        except ValueError:
            raise InputError(
                f"chain must be a whole number in 0..{chains - 1}, {ALL} or {OF_S}X, got {chain!r}; count from 0."
            ) from None
    return np.array([integer("chain", chain, 0, f"count from 0, or take '{ALL}'", chains - 1)])


def chain_of(chain: int | str | None, s: float | None) -> int | str | None:
    """What `chosen_chains` takes, of a chain or an s, of which at most one is given."""
    if s is None:
        return chain
    require(chain is None, f"chain and s must not both be given, got {chain!r} and {s!r}; leave one out.")
    return f"{OF_S}{number('s', s, 'give the s of some chains', at_least=0.0)!r}"


def has_draws(run: HasPaths) -> bool:
    """Whether paths after burn-in were kept."""
    return run.history is not None and bool(after_burn_in(run.records, run.burn_in).any())


def last_paths(run: HasPaths, chain: int | str | None = None) -> np.ndarray:
    """The last paths of the chosen chains, one after the other, (models, dim)."""
    paths = run.paths
    return np.concatenate(paths[chosen_chains(chain, len(paths), run.s)])


def drawn_paths(
    run: HasPaths, chain: int | str | None = None, thin: int | None = None, most: int | None = None
) -> np.ndarray:
    """The paths of the chosen chains at their records after burn-in, chain by chain, (chains, draws, tau, dim).

    Parameters
    ----------
    run : Run or StoredRun
        With ``keep_paths=True``.
    chain : int, str or None
        As for `chosen_chains`.
    thin : int, optional
        Take every so many-th record, the last included; default all, or as few as `most` allows.
    most : int, optional
        Models at most; records are taken evenly. Default as many as have `LARGEST` bytes of parameters.
    """
    draws = run.draws
    chosen = chosen_chains(chain, len(draws), run.s)
    places, (tau, dim) = np.arange(draws.shape[1]), draws.shape[2:]
    if thin is not None:
        places = places[::-1][:: integer("thin", thin, 1, "1 takes every record")][::-1]
    if most is None:
        least = len(chosen) * tau
        limit = max(LARGEST // (draws.dtype.itemsize * max(dim, 1)), least)
    else:
        limit = integer("most", most, len(chosen) * tau, f"one draw is {len(chosen)} chains x {tau} models")
    count = min(len(places), limit // (len(chosen) * tau))
    # From the last one back, evenly: the last path is always one of them.
    places = places[np.round(np.linspace(len(places) - 1, 0, count + (count < len(places)))).astype(int)[:count]][::-1]
    # One chain at a time: the whole may be on the disk.
    return np.stack([np.asarray(draws[chain_number][places]) for chain_number in chosen])


def _of_s(text: str, tilts: np.ndarray) -> np.ndarray:
    try:
        wanted = float(text)
    except ValueError:
        raise InputError(f"chain must be {OF_S}X with a number X, got {OF_S}{text}; try {OF_S}80.") from None
    chosen = np.flatnonzero(np.isclose(tilts, wanted, rtol=1e-4))
    require(len(chosen) > 0, f"s must be that of some chains, {_named(tilts)}, got {wanted:g}; choose one of them.")
    return chosen


def _named(tilts: np.ndarray) -> str:
    values = [f"{value:.4g}" for value, _ in chains_by_s(tilts)]
    return ", ".join(values[:_NAMED]) + (", .." if len(values) > _NAMED else "")
