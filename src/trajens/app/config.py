"""The options of a run: one table of names, kinds, defaults and meanings.

The fields of `Config` are the options of ``trajens train``: its flags, the keys of a TOML file, their checks and the
page of the command line are made from them. Defaults of the library are taken from where the library has them. Later
layers win: defaults, those of the perceptron or of episodes, then a TOML file, then flags.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from typing import Any, NamedTuple

from trajens.acceptance import MinibatchBarker, Penalty
from trajens.acceptance.base import CHUNK_OF_FEW, CHUNK_OF_MANY, FEW_DATA
from trajens.acceptance.penalty import RHO_LARGEST, TOLERANCE
from trajens.app import kinds
from trajens.app.kinds import Kind, one_of
from trajens.convergence.criteria import CONVERGED
from trajens.datasets.reading import MISSING_VALUES
from trajens.errors import require
from trajens.losses import LOSSES
from trajens.models import ACTIVATION, ACTIVATIONS, MODELS, WEIGHTS
from trajens.models.base import PRIOR
from trajens.models.conv import KERNEL, POOL
from trajens.models.mlp import HIDDEN
from trajens.moves import SingleSite
from trajens.moves.base import FEW_PARAMETERS, FRACTION_OF_MANY
from trajens.moves.scan import SCANS, Checkerboard
from trajens.records import EVOLUTION
from trajens.rl.problem import MAX_EPISODES
from trajens.run.control import RECORDS
from trajens.run.start import BUDGET, HELD_OUT, RANDOM
from trajens.run.train import CHAINS_OF_FEW, FEW, LARGE, RECORDS_OF_FEW, STEPS_OF_SIGMA, TAU, TAU_OF_FEW
from trajens.run.train import RECORDS as RECORDS_BY_DATA
from trajens.sampling.settings import BY_LOSSES, Settings
from trajens.storage.directory import CHECKPOINT_SECONDS

PROBLEMS = ("perceptron", "mnist")
PENALTY, METROPOLIS = "penalty", "metropolis"
ACCEPTANCE_TESTS = (PENALTY, "minibatch-barker", "paper", "barker", METROPOLIS)
OF_FILES = ("label", "drop", "missing", "standardise", "reading")
"""Options about how a file is read."""
NETWORKS = "network episodes"
CHANNELS = "8,16"
FIXED_S = 50.0
RISING_EPISODES = 0.75
"""Of a run on episodes, burn-in, in which s rises."""
EVEN = "even"
SCORES, STARTS = (BY_LOSSES, EVEN), (EVOLUTION, RANDOM)
RENAMED = {"test": "acceptance", "initial": "start"}
"""Old name -> name of an option; the old ones are understood in this version."""


class Option(NamedTuple):
    """What is known of an option besides its default.

    Attributes
    ----------
    kind : callable
        Turns a text or a plain value into its value.
    group, help, metavar : str
    shown : str
        How its default reads; empty where it has none.
    perceptron : any
        Its default for the perceptron, where that is another.
    episodes : any
        Its default for episodes of an environment, where that is another.
    only : str
        Of "network", "perceptron" and "episodes" those that it applies to; empty for all.
    is_flag : bool
        Whether it can be given on the command line.
    """

    kind: Kind
    group: str
    help: str
    metavar: str = "N"
    shown: str = ""
    perceptron: Any = None
    episodes: Any = None
    only: str = ""
    is_flag: bool = True


def _option(default: Any, kind: Kind, group: str, help: str, metavar: str = "", **more: Any) -> Any:
    metavars: dict[Kind, str] = {kinds.whole: "N", kinds.real: "X", kinds.text: "TEXT", kinds.switch: ""}
    usual = metavars.get(kind, "NAME")
    more.setdefault("shown", "" if default is None else _shown(default))
    if "perceptron" in more:
        own = f"{more['perceptron']:g}"
        more["shown"] = own if more.get("only") == "perceptron" else f"{more['shown']}; perceptron: {own}"
    if "episodes" in more:
        own = "tune" if more["episodes"] is True else _shown(more["episodes"])
        more["shown"] = own if more.get("only") == "episodes" else f"{more['shown']}; episodes: {own}"
    return field(default=default, metadata={"option": Option(kind, group, help, metavar or usual, **more)})


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _name(default: str | None, names: Any, group: str, help: str, **more: Any) -> Any:
    return _option(default, one_of(tuple(names)), group, f"{help}: {', '.join(names)}.", **more)


@dataclass(frozen=True)
class Config:
    """Every option of ``trajens train``; None where it does not apply, or is left to the library."""

    problem: str = field(metadata={"option": Option(kinds.text, "Problem", "What to train.", is_flag=False)})
    model: str | None = _name(
        None, MODELS, "Problem", "Network", shown="mnist: cnn, a file: mlp, episodes: linear", only=NETWORKS
    )
    hidden: list[int] | None = _option(
        None, kinds.sizes, "Problem", "Hidden dense layers.", "N,..", shown=f"mlp: {HIDDEN}", only=NETWORKS
    )
    channels: list[int] | None = _option(
        None,
        kinds.sizes,
        "Problem",
        "Channels of the convolutions of --model conv.",
        "N,..",
        shown=CHANNELS,
        only="network",
    )
    kernel: list[int] | None = _option(
        None,
        kinds.sizes,
        "Problem",
        "Sides of their kernels: one number, or one for each.",
        "N,..",
        shown=str(KERNEL),
        only="network",
    )
    pooling: list[int] | None = _option(
        None,
        kinds.sizes,
        "Problem",
        "Sides of the max pools after them, likewise.",
        "N,..",
        shown=str(POOL),
        only="network",
    )
    shape: list[int] | None = _option(
        None, kinds.sizes, "Problem", "Of an image, written down by a run.", only="network", is_flag=False
    )
    outputs: int | None = _option(
        None, kinds.whole, "Problem", "Of a conv, written down by a run.", only="network", is_flag=False
    )
    sizes: list[int] | None = _option(
        None, kinds.sizes, "Problem", "Of all layers, written down by a run.", only=NETWORKS, is_flag=False
    )
    activation: str | None = _name(
        None, ACTIVATIONS, "Problem", "Activation of hidden layers", shown=ACTIVATION, only=NETWORKS
    )
    weights: str | None = _name(None, WEIGHTS, "Problem", "Weights of the network", shown=WEIGHTS[0], only=NETWORKS)
    loss: str | None = _name(None, LOSSES, "Problem", "Loss", shown="by the labels", only="network")
    label: str | None = _option(
        None,
        kinds.text,
        "Problem",
        "Label column of a table.",
        "COLUMN",
        shown="label, y, target or class",
        only="network",
    )
    drop: list[str] | None = _option(
        None, kinds.names, "Problem", "Columns of a table to leave out; may be repeated.", "COLUMN,..", only="network"
    )
    missing: str | None = _name(
        None,
        MISSING_VALUES,
        "Problem",
        "Missing values of a table: numbers become their mean and texts a category of their own, or",
        shown=MISSING_VALUES[0],
        only="network",
    )
    hold_out: float | None = _option(
        None,
        kinds.share,
        "Problem",
        "Share of a file that is not trained on, to see how well new data are predicted; 0 for none.",
        "X",
        shown=f"{HELD_OUT:g}; with --epochs 0",
        only="network",
    )
    standardise: bool | None = _option(
        None,
        kinds.switch,
        "Problem",
        "Scale inputs, and numbers to be fitted, to mean 0 and standard deviation 1.",
        shown="standardise for tables",
        only="network",
    )
    reading: str | None = _option(
        None, kinds.text, "Problem", "Columns and scales, written down by a run.", only="network", is_flag=False
    )
    num_data: int | None = _option(
        None, kinds.whole, "Problem", "Examples of the perceptron.", perceptron=256, only="perceptron"
    )
    noise: float | None = _option(
        None, kinds.real, "Problem", "Noise of the perceptron's labels.", perceptron=0.0, only="perceptron"
    )
    data_seed: int | None = _option(
        None, kinds.whole, "Problem", "Seed of the perceptron's data.", perceptron=0, only="perceptron"
    )
    returns: list[float] | None = _option(
        None,
        kinds.interval,
        "Problem",
        "Returns of an environment whose losses are 1 and 0.",
        "LOW,HIGH",
        shown="those known of it",
        only="episodes",
    )
    max_batch: int | None = _option(
        None, kinds.whole, "Problem", "Episodes that a decision may read.", episodes=MAX_EPISODES, only="episodes"
    )
    tau: int | None = _option(
        None,
        kinds.whole,
        "Target",
        "Models in a path.",
        shown=f"{TAU}, where s is searched for {TAU_OF_FEW}",
        perceptron=8,
    )
    s: Any = _option(
        None,
        kinds.tilt,
        "Target",
        "Tilt towards low loss; multiplies the mean loss. A number, several (5,10,20, --chains each), or with --epochs "
        "an annealing (60:1000).",
        "S",
        shown=f"what the budget allows; with --epochs {FIXED_S:g}",
        perceptron=20.0,
        episodes="3:30",
    )
    exchange: Any = _option(
        None,
        kinds.exchange,
        "Target",
        "Exchange paths between neighbouring values of --s every N epochs, or auto; burn-in adjusts those between.",
        "N|auto",
        shown="none",
    )
    until_loss: float | None = _option(
        None, kinds.positive, "Target", "Raise s until the loss per model is not above this.", "X"
    )
    anneal: int | None = _option(
        None, kinds.whole, "Target", "Epochs during which s is annealed.", shown="with --epochs burn-in"
    )
    sigma: float | None = _option(
        None,
        kinds.real,
        "Target",
        "Standard deviation of a step between models.",
        shown=f"1/{STEPS_OF_SIGMA:g} of the prior, less for wide layers",
        perceptron=0.1,
        episodes=0.3,
    )
    prior: Any = _option(
        None,
        kinds.prior,
        "Target",
        "Standard deviation of the first model.",
        "X|flat",
        shown=f"{PRIOR:g}; perceptron: flat",
        episodes=1.0,
    )
    fraction: float | None = _option(
        SingleSite.fraction,
        kinds.real,
        "Moves",
        "Share of the parameters that is redrawn.",
        shown=f"tuned; with --epochs all of up to {FEW_PARAMETERS}, {FRACTION_OF_MANY:g} of more",
    )
    refresh: float = _option(
        SingleSite.refresh,
        kinds.real,
        "Moves",
        "How far these are redrawn: 1 draws new values, less keeps a part of the old.",
    )
    tune: bool | None = _option(
        None,
        kinds.switch,
        "Moves",
        "Tune the size of moves in burn-in.",
        shown="tune; with --epochs no-tune",
        episodes=True,
    )
    by_layer: bool | None = _option(
        None,
        kinds.switch,
        "Moves",
        "Move one layer of the network at a time.",
        shown=f"by-layer from {LARGE} parameters and {FEW + 1} examples on, unless --epochs or --fraction is given",
    )
    segment: int | None = _option(None, kinds.whole, "Moves", "Redraw N neighbouring models at a time.", shown="one")
    centre_of_mass: float | None = _option(
        None, kinds.real, "Moves", "Also shift whole paths by this width, once per tau other moves."
    )
    scan: str = _name(str(Settings.scan), SCANS, "Moves", "Order of updates")
    repeats: int = _option(Checkerboard.repeats, kinds.whole, "Moves", "Proposals per model before the colours change.")
    acceptance: str | None = _name(
        None,
        ACCEPTANCE_TESTS,
        "Acceptance",
        "Test of a change",
        shown=f"{PENALTY}; a budget on {FEW} examples or fewer: {METROPOLIS}",
        episodes=PENALTY,
    )
    chunk: int | None = _option(
        None,
        kinds.whole,
        "Acceptance",
        "Number of examples by which minibatches grow.",
        shown=f"{CHUNK_OF_FEW}, or {CHUNK_OF_MANY} of more than {FEW_DATA} examples; full-data tests: all",
        episodes=8,
    )
    rho: float | None = _option(
        None,
        kinds.real,
        "Acceptance",
        "Largest noise (standard deviation) of a log-ratio to decide on.",
        shown=f"penalty {RHO_LARGEST:g} at most, minibatch-barker {MinibatchBarker.rho:g}",
    )
    tolerance: float | None = _option(
        None,
        kinds.real,
        "Acceptance",
        "Largest error of s, and shift of means in standard deviations; batches are planned to keep it.",
        shown=f"penalty {TOLERANCE:g}",
    )
    stages: int | None = _option(
        None,
        kinds.whole,
        "Acceptance",
        "Stages of the penalty test: with 2, hopeless proposals are refused early.",
        shown=f"penalty {Penalty.stages}",
    )
    pool: bool | None = _option(
        None,
        kinds.switch,
        "Acceptance",
        "One batch size for all models of a path, which pays on a GPU.",
        shown="pool; with --epochs no-pool",
    )
    scores: str | None = _name(
        None,
        SCORES,
        "Acceptance",
        "How examples are drawn",
        shown=f"{BY_LOSSES}; with --epochs {EVEN}",
        only="network perceptron",
    )
    ahead: int = _option(
        Settings.ahead, kinds.whole, "Acceptance", "Chunks evaluated at once; 4 to 8 pays on a GPU with few lanes."
    )
    budget: float | None = _option(
        None,
        kinds.real,
        "Run",
        "Pairs of losses that a run takes, all chains and the start included; other settings are then chosen for it.",
        shown=f"{BUDGET:g}",
        only="network",
    )
    minutes: float | None = _option(
        None,
        kinds.real,
        "Run",
        "In place of a budget: minutes that the run may take, compilation included.",
        only="network",
    )
    clock: float | None = _option(
        None, kinds.real, "Run", "Seconds of --minutes, written down by a run.", only="network", is_flag=False
    )
    epochs: int | None = _option(
        None,
        kinds.whole,
        "Run",
        "In place of a budget: proposals per chain, burn-in included; other settings then have fixed defaults.",
        perceptron=200_000,
        episodes=2000,
    )
    until: str | None = _name(None, (CONVERGED,), "Run", "After --epochs, go on until chains are")
    max_epochs: int | None = _option(None, kinds.whole, "Run", "The most that --until may take.")
    burn_in: int | None = _option(
        None,
        kinds.whole,
        "Run",
        "Epochs left out of averages.",
        shown=f"with --epochs a fifth; episodes: {RISING_EPISODES:g}",
    )
    chains: int | None = _option(
        None,
        kinds.whole,
        "Run",
        "Independent chains.",
        shown=f"{CHAINS_OF_FEW} on {FEW} examples or fewer, else 1; with --epochs {Settings.chains}",
        perceptron=64,
        episodes=1,
    )
    records: int | None = _option(
        None,
        kinds.whole,
        "Run",
        "How often the loss is measured.",
        shown=f"{RECORDS_BY_DATA}, on {FEW} examples or fewer up to {RECORDS_OF_FEW}; with --epochs {RECORDS}",
        episodes=32,
    )
    keep_paths: bool | None = _option(
        None,
        kinds.switch,
        "Run",
        "Keep the paths at every record, in DIR/history.bin.",
        shown=f"kept on a budget with {FEW} examples or fewer, if they take little",
    )
    seed: Any = _option(
        Settings.seed, kinds.seeds, "Run", "Seed of the sampling, or 1,2,3: the chains of each of them.", "N[,N..]"
    )
    start: str | None = _option(
        None,
        kinds.text,
        "Run",
        f"Where paths start: {EVOLUTION} (a strategy without gradients), {RANDOM}, or the last paths of another run.",
        "NAME|DIR",
        shown=f"{EVOLUTION}, where s is searched for {RANDOM}; with --epochs {RANDOM}",
    )
    checkpoint_seconds: float = _option(CHECKPOINT_SECONDS, kinds.seconds, "Run", "Time between checkpoints.", "X")

    @property
    def largest_tau(self) -> int:
        """Models in a path, at most where their number is left to the library."""
        return TAU if self.tau is None else self.tau

    def to_toml(self) -> str:
        """The options that apply, one a line."""
        for name, value in asdict(self).items():
            # Names of files may have bytes that are not UTF-8, for which Python has letters of its own.
            is_utf8 = not any("\ud800" <= letter <= "\udfff" for letter in str(value))
            require(is_utf8, f"{name} must be a text in UTF-8, got {value!r}; rename what it names.")
        # What TOML writes for a number, a text or a list of them is what JSON writes.
        return "".join(f"{name} = {_toml(value)}\n" for name, value in asdict(self).items() if value is not None)


OPTIONS: dict[str, Option] = {f.name: f.metadata["option"] for f in fields(Config)}
"""The table: name -> what is known of an option."""


def _toml(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False).replace("\x7f", "\\u007f")
