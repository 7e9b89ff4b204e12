"""How a target is sampled: what a run is told, with the defaults that Python and the command line share."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Any, TypedDict

import jax
import jax.numpy as jnp
import numpy as np

from trajens.acceptance import AcceptanceTest, Penalty
from trajens.columns import NAMES
from trajens.errors import InputError, choice, first_line, integer, require
from trajens.moves import MoveContext, Proposer, SingleSite
from trajens.moves.scan import Scan, check_places, scan_named
from trajens.population import COPIES, MAX_SIZE, Population, copies_by
from trajens.precision import single
from trajens.sampling.exchange import Exchange, Ladder, exchange_of
from trajens.sampling.program import Program
from trajens.target import Target

BY_LOSSES = "losses"
"""Scores that are learnt: roots of losses."""

Observable = Callable[[jax.Array], jax.Array]
"""A number of a path (tau, dim), compiled by JAX."""


_UNDECIDING = {"is_deciding": False}
"""Of settings that change how fast a result comes, and not the result."""


class SettingsDict(TypedDict, total=False):
    """Keywords of `sample` and `train` that are fields of `Settings`, for type checkers."""

    chains: int
    seed: int | Sequence[int]
    burn_in: int | None
    move: Proposer | None
    acceptance: AcceptanceTest | None
    scan: str | Scan
    keep_paths: bool
    devices: Sequence[jax.Device] | None
    ahead: int
    observe: Mapping[str, Observable] | None
    example_weights: str | np.ndarray | None
    scores: str | np.ndarray | None
    tune: bool
    exchange: Exchange | int | bool | None


@dataclass(frozen=True)
class Settings:
    """How a target is sampled; the keywords of `sample` and `train` that stay the same when a run is continued.

    Parameters
    ----------
    chains : int
        Independent chains; they run in one compiled program, spread over the devices JAX sees.
    seed : int in 0..2**32 - 1, or one for every chain
        A chain has the random numbers of its seed and of its number among the chains of that seed: chains of seeds
        1, 1, 2, 2 have those of two runs with two chains each.
    burn_in : int
        Epochs until which acceptance tests adapt; with 0 they adapt throughout.
    move : Move or Mixture
        Default `SingleSite()`.
    acceptance : AcceptanceTest
        Default `Penalty()`.
    scan : "checkerboard", "random" or a Scan
    keep_paths : bool
        Keep the path at every record.
    devices : sequence of jax devices
        Where chains may run; default all that JAX sees. As many are used as divide the chains evenly.
    ahead : int
        Chunks of a minibatch that are evaluated at once. Decisions use, and ``data_used`` counts, as many as they would
        have asked for one by one; the rest is evaluated in vain. 4 to 8 pays on a GPU with few lanes and large batches.
    observe : dict of functions
        Records of one's own: ``{"name": function}`` adds a column with the number ``function(path)`` of every chain's
        path (tau, dim).
    scores : "losses" or array (N,), optional
        How often examples are drawn for a decision, up to a factor; see `trajens.population`. "losses" learns them in
        burn-in; default all alike. Losses that are recorded stay those of the data.
    exchange : Exchange, int or True, optional
        Exchange paths between chains at neighbouring s, see `trajens.sampling.exchange`; a number is that of epochs
        from one exchange to the next. Default none.
    tune : bool
        Let moves whose fraction and refresh were not fixed tune them in burn-in, see `trajens.sampling.tuning`.
    """

    chains: int = 4
    seed: int | Sequence[int] = 0
    burn_in: int = 0
    move: Proposer = field(default_factory=SingleSite)
    acceptance: AcceptanceTest = field(default_factory=Penalty)
    scan: str | Scan = "checkerboard"
    keep_paths: bool = False
    devices: Sequence[jax.Device] = field(default=(), metadata=_UNDECIDING)
    ahead: int = field(default=1, metadata=_UNDECIDING)
    observe: Mapping[str, Observable] = field(default_factory=dict)
    scores: str | np.ndarray | None = None
    tune: bool = False
    exchange: Exchange | int | bool | None = None

    def deciding(self) -> dict[str, Any]:
        """Return the settings that a result depends on, by name."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.metadata.get("is_deciding", True)}

    def __getstate__(self) -> dict[str, Any]:
        """What is copied or pickled: devices belong to a process, and go by their numbers."""
        return {**vars(self), "devices": tuple((device.platform, device.id) for device in self.devices)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Where the numbers are others, as on another machine, all that are there will do.
        known = {(device.platform, device.id): device for device in (jax.devices() if state["devices"] else ())}
        found = tuple(known[name] for name in state["devices"] if name in known)
        vars(self).update(state, devices=found or tuple(known.values()))

    @single
    def checked(self, target: Target) -> Settings:
        """The same in the form everything else relies on, or an `InputError` before anything is compiled."""
        target = Target.checked(target)
        require(
            isinstance(self.move, Proposer),
            f"move must be a trajens move, got {self.move!r}; try SingleSite(fraction=0.25).",
        )
        require(
            isinstance(self.acceptance, AcceptanceTest),
            f"acceptance must be an acceptance test, got {self.acceptance!r}; try Penalty().",
        )
        scan = scan_named(self.scan)
        for name, part in (("move", self.move), ("acceptance", self.acceptance), ("scan", scan)):
            _check_hashable(name, part)
        self.move.resolved(_context(target)).check(target.tau)
        for _, move in self.move.components:
            check_places(move, scan, target.tau)
        examples = target.problem.population
        _check_reads(self.acceptance, examples)
        scores = self._checked_scores(target)
        chains = integer("chains", self.chains, 1, "use 1 or more independent chains")
        target.s_of_chains(chains)
        for name, function in self.observe.items():
            _check_observable(name, function, target)
        return replace(
            self,
            chains=chains,
            seed=_checked_seed(self.seed, chains),
            burn_in=integer("burn_in", self.burn_in, 0, "use 0 for none"),
            scan=scan,
            keep_paths=bool(self.keep_paths),
            devices=_checked_devices(self.devices),
            ahead=integer("ahead", self.ahead, 1, "use 1 on a CPU, 4 to 8 on a GPU with few lanes", 64),
            observe=dict(self.observe),
            scores=scores,
            tune=bool(self.tune),
            exchange=self._checked_exchange(target, chains),
        )

    def _checked_exchange(self, target: Target, chains: int) -> Exchange | None:
        exchange = exchange_of(self.exchange)
        if exchange is None:
            return None
        Ladder.of(target.s_of_chains(chains))
        examples, own = target.problem.population, exchange.acceptance
        if own is not None:
            _check_hashable("acceptance", own)
            _check_reads(own, examples)
        return exchange

    def _checked_scores(self, target: Target) -> str | np.ndarray | None:
        scores, size = self.scores, target.problem.population.most
        if scores is None:
            return None
        require(
            target.problem.population.limit is None,
            "scores must be left out for a stream, whose examples are all fresh and known by nothing, got some; "
            "leave them out.",
        )
        require(
            not self.acceptance.takes_all_data,
            f"scores must be left out for a test that takes all data, got {self.acceptance!r}; try Penalty().",
        )
        require(
            size * COPIES <= MAX_SIZE,
            f"scores must be left out for more than {MAX_SIZE // COPIES} examples, got {size}; draw all alike.",
        )
        if isinstance(scores, str):
            return choice("scores", scores, (BY_LOSSES,))
        scores = np.asarray(scores, np.float64)
        require(
            scores.shape == (size,),
            f"scores must have one number for each of {size} examples, got an array of shape {scores.shape}; use for "
            "instance the root of each example's loss.",
        )
        copies_by(scores)
        return scores

    @property
    def is_reweighting(self) -> bool:
        """Whether scores are learnt; given ones are an array."""
        return isinstance(self.scores, str)

    def program(self, target: Target) -> Program:
        """All that is compiled in, for settings that are `checked`."""
        problem, copies = target.problem, 1 if self.scores is None else COPIES
        assert isinstance(self.scan, Scan)
        move = self.move.resolved(_context(target))
        return Program(
            loss=problem.loss,
            examples=problem.population,
            tau=target.tau,
            move=move,
            acceptance=self.acceptance.resolved(problem.population.most * copies),
            scan=self.scan,
            schedule=target.schedule,
            looks_every=looks_every(self.devices[0]),
            copies=copies,
            is_tuned=self.tune and move.is_sized,
            ahead=self.ahead,
        )


def _checked_devices(devices: Any) -> tuple[jax.Device, ...]:
    message = f"devices must be devices of JAX, got {reprlib.repr(devices)}; try jax.devices(), or leave it out."
    try:
        found = tuple(devices or jax.devices())
    except TypeError:
        raise InputError(message) from None
    require(all(isinstance(device, jax.Device) for device in found), message)
    return found


def _context(target: Target) -> MoveContext:
    """What moves are told."""
    return MoveContext(target.tau, target.problem.dim, target.problem.layers)


def _checked_seed(seed: Any, chains: int) -> int | Sequence[int]:
    if not isinstance(seed, (list, tuple, np.ndarray)) or np.ndim(seed) == 0:
        return _one_seed(seed)
    seeds = tuple(_one_seed(one) for one in seed)
    require(
        len(seeds) == chains,
        f"seed must be one, or one for each of {chains} chains, got {reprlib.repr(seed)}; repeat one for chains that "
        "share it.",
    )
    # One for all of them is one.
    return seeds[0] if len(set(seeds)) == 1 else seeds


def _one_seed(seed: Any) -> int:
    return integer("seed", seed, 0, "any whole number in range will do", 2**32 - 1)


def settings_of(given: Mapping[str, Any]) -> Settings:
    """Return the settings with these names; None stands for the default of a part, as a move or devices."""
    known = {one.name: one for one in fields(Settings)}
    # What users call so are the scores by which examples are drawn.
    given = {"scores" if name == "example_weights" else name: value for name, value in given.items()}
    names = ", ".join("example_weights" if name == "scores" else name for name in known)
    for name in given:
        require(name in known, f"settings must be among {names}, got {name!r}; check the spelling.")
    parts = {name for name, one in known.items() if one.default is MISSING or one.default == ()}
    return Settings(**{name: value for name, value in given.items() if value is not None or name not in parts})


def default_burn_in(epochs: int) -> int:
    """A fifth."""
    return epochs // 5


def looks_every(device: jax.Device) -> int:
    """A look at whether all lanes have arrived costs nothing on a CPU, but makes a GPU wait for its host."""
    return 1 if device.platform == "cpu" else 16


def _check_hashable(name: str, part: Any) -> None:
    try:
        hash(part)
    except TypeError:
        raise InputError(
            f"{name} must be hashable, so that equal ones share a compilation, got {type(part).__name__}; make it a "
            "dataclass(frozen=True)."
        ) from None


def _check_reads(test: AcceptanceTest, examples: Population) -> None:
    """Refuse a test that cannot read these examples."""
    require(
        examples.limit is None or not test.takes_all_data,
        f"acceptance must be a test on minibatches for a stream, which has no end, got {test!r}; try Penalty().",
    )
    test.chunk_size(examples.most)


def _check_observable(name: Any, function: Any, target: Target) -> None:
    require(
        isinstance(name, str) and name.isidentifier() and name not in NAMES,
        f"the name of a record must be a word that is not taken ({', '.join(NAMES)}), got {name!r}; choose another.",
    )
    like = jax.ShapeDtypeStruct((target.tau, target.problem.dim), jnp.float32)
    try:
        out = jax.eval_shape(lambda path: jnp.asarray(function(path)), like)
    except Exception as error:
        raise InputError(
            f"observe['{name}'] failed on a path of shape {like.shape} with {first_line(error)}; use jax.numpy in it."
        ) from error
    is_number = out.shape == () and jnp.issubdtype(out.dtype, jnp.number) and out.dtype.kind != "c"
    require(is_number, f"observe['{name}'] must return one real number, got {out}; reduce it over the path.")
