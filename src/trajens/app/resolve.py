"""Resolution of options: from layers of them to a `Config`; later ones win, and what depends on others is filled in."""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

from trajens.app import kinds
from trajens.app.config import (
    CHANNELS,
    FIXED_S,
    OF_FILES,
    OPTIONS,
    PENALTY,
    PROBLEMS,
    RENAMED,
    RISING_EPISODES,
    STARTS,
    Config,
)
from trajens.datasets import Reading
from trajens.errors import integer, require
from trajens.losses import OF_CLASSES
from trajens.models.base import PRIOR
from trajens.models.conv import KERNEL, POOL
from trajens.models.mlp import HIDDEN
from trajens.records import EVOLUTION
from trajens.rl.catalogue import is_environment
from trajens.run.control import RECORDS
from trajens.run.start import BUDGET, HELD_OUT, RANDOM
from trajens.run.train import TAU, usual_sigma
from trajens.sampling.settings import Settings, default_burn_in

_OF_CONV = ("channels", "kernel", "pooling")


def resolve(*layers: dict[str, Any]) -> Config:
    """The layers of options on top of each other and of the defaults of their problem; None in a layer is no choice."""
    chosen: dict[str, Any] = {}
    for layer in layers:
        chosen |= {name: value for name, value in rename_options(layer).items() if value is not None}
    unknown = [name for name in chosen if name not in OPTIONS]
    require(not unknown, f"options must be among {', '.join(OPTIONS)}, got {', '.join(unknown)}; check the spelling.")
    chosen = {name: OPTIONS[name].kind(name, value) for name, value in chosen.items()}
    problem = chosen["problem"] = _problem(chosen)
    if chosen.get("start", RANDOM) not in STARTS:
        chosen["start"] = os.path.realpath(chosen["start"])
    kind = "perceptron" if problem == "perceptron" else "episodes" if is_environment(problem) else "network"
    for name, option in OPTIONS.items():
        require(
            name not in chosen or not option.only or kind in option.only.split(),
            f"{name} must be left out with {problem}, got {chosen.get(name)!r}; leave it out.",
        )
    usual_model = "conv" if "channels" in chosen else "cnn" if problem == "mnist" else "mlp"
    defaults: dict[str, Any] = {"model": usual_model, "prior": PRIOR}
    if kind != "network":
        usual = {"perceptron": {"prior": "flat"}, "episodes": {"model": "mlp" if "hidden" in chosen else "linear"}}
        own = {name: getattr(option, kind) for name, option in OPTIONS.items()}
        defaults = {**usual[kind], **{name: value for name, value in own.items() if value is not None}}
    if kind == "episodes" and chosen.get("max_batch", 0) > 1:
        defaults["chunk"] = min(defaults["chunk"], chosen["max_batch"])
    return _completed(Config(**{**defaults, **chosen}))


def rename_options(options: dict[str, Any]) -> dict[str, Any]:
    """Options under the names they have now, with a warning for those that were given an old one."""
    found = {}
    for name, value in options.items():
        if name in RENAMED and value is not None:
            now = RENAMED[name]
            require(
                options.get(now) is None, f"{now} must be given once, got {name} too, its old name; leave that out."
            )
            warnings.warn(
                f"{name} is now called {now}, and its old name will go in the next version.",
                FutureWarning,
                stacklevel=4,
            )
            found[now] = value
        elif name not in RENAMED and (name not in found or value is not None):
            found[name] = value
    return found


def _problem(chosen: dict[str, Any]) -> str:
    """The name of a problem, or the whole path of a file."""
    problem = chosen.get("problem")
    known = f"{', '.join(PROBLEMS)}, an environment such as CartPole-v1 or a file or folder with data"
    message = f"problem must be one of {known}, got"
    require(isinstance(problem, str), f"{message} {problem!r}; try mnist.")
    assert isinstance(problem, str)
    if problem in PROBLEMS or is_environment(problem):
        return problem
    # A run knows its network and how its data are read, and can be used without those it was trained on.
    is_known = "sizes" in chosen or "reading" in chosen
    require(
        Path(problem).is_file() or Path(problem).is_dir() or is_known,
        f"{message} '{problem}'; check the spelling.",
    )
    return os.path.realpath(problem)


def _completed(config: Config) -> Config:
    """With the defaults that depend on other options."""
    config = _by_data(config) if config.epochs is None else _by_epochs(config)
    if config.model == "mlp" and config.hidden is None and config.sizes is None:
        config = replace(config, hidden=[HIDDEN])
    if config.model == "conv":
        config = _with_defaults(
            config, channels=kinds.sizes("channels", CHANNELS), kernel=[KERNEL], pooling=[POOL], hidden=[]
        )
    of_files = [name for name in OF_FILES if getattr(config, name) is not None]
    require(
        config.problem != "mnist" or not of_files,
        f"{', '.join(of_files)} must be left out with mnist; use your own file with them.",
    )
    require(
        config.model not in ("cnn", "conv") or not is_environment(config.problem),
        f"model must be linear or mlp with {config.problem}, got {config.model}; leave it out.",
    )
    require(
        config.model in ("mlp", "conv") or (config.hidden is None and config.activation is None),
        f"hidden and activation must be left out with --model {config.model}; use --model mlp to choose them.",
    )
    of_conv = [name for name in _OF_CONV if getattr(config, name) is not None]
    require(
        config.model == "conv" or not of_conv,
        f"{', '.join(of_conv)} must be left out with --model {config.model}; use --model conv to choose them.",
    )
    return config


def _by_data(config: Config) -> Config:
    """A run that is as long as its budget, and chooses the rest."""
    for name in ("anneal", "burn_in", "until", "max_epochs"):
        value = getattr(config, name)
        require(
            value is None, f"{name} must be left out without --epochs, got {value}; the run chooses it by its data."
        )
    require(
        config.minutes is None or config.budget is None,
        f"budget must be left out with --minutes {config.minutes}, got {config.budget}; give one of them.",
    )
    require(
        config.s is None or kinds.tilts(config.s)[1] is None,
        f"s must be where it ends, got {config.s}; it rises by itself, or give --epochs.",
    )
    budget = BUDGET if config.budget is None and config.minutes is None else config.budget
    is_file = config.problem not in PROBLEMS and not is_environment(config.problem)
    config = _with_defaults(config, hold_out=HELD_OUT) if is_file else config
    return _with_defaults(config, budget=budget)


def _by_epochs(config: Config) -> Config:
    """A run of fixed length, of which everything is said."""
    for name in ("budget", "minutes", "until_loss"):
        value = getattr(config, name)
        require(value is None, f"{name} must be left out with --epochs {config.epochs}, got {value}; give one of them.")
    require(
        config.start != EVOLUTION,
        f"start must be {RANDOM} or the directory of a run with --epochs, got {EVOLUTION}; give a --budget instead.",
    )
    return _with_annealing(
        _with_defaults(
            config,
            tau=TAU,
            s=FIXED_S,
            chains=Settings.chains,
            records=RECORDS,
            sigma=usual_sigma(PRIOR),
            acceptance=PENALTY,
        )
    )


def _with_defaults(config: Config, **defaults: Any) -> Config:
    return replace(config, **{name: value for name, value in defaults.items() if getattr(config, name) is None})


def _with_annealing(config: Config) -> Config:
    if config.burn_in is None:
        epochs = integer("epochs", config.epochs, 1, "one epoch is a proposal")
        # The s of episodes rises for most of a run: policies must be found first.
        usual = round(RISING_EPISODES * epochs) if is_environment(config.problem) else default_burn_in(epochs)
        # Averages begin when s has stopped to rise, unless it rises to the end.
        rise = config.anneal if config.anneal is not None and config.anneal < epochs else 0
        config = replace(config, burn_in=max(usual, rise))
    _, annealing = kinds.tilts(config.s)
    require(
        annealing is not None or config.anneal is None,
        f"anneal must be left out with a fixed s, got {config.anneal}; write s as 60:1000 to anneal.",
    )
    if annealing is not None and config.anneal is None:
        config = replace(config, anneal=max(1, config.burn_in or 0))
    return config


def require_agreement(config: Config, reading: Reading) -> Reading:
    """Refuse options that say otherwise than what a run wrote down."""
    is_classes = reading.label.classes is not None
    said = {
        "label": (config.label, reading.label.name),
        "missing": (config.missing, reading.missing),
        "standardise": (config.standardise, reading.is_standardised),
        "loss": (config.loss, _loss_of(is_classes, config.loss)),
    }
    for name, (given, known) in said.items():
        require(
            given is None or given == known,
            f"{name} must be {known}, as the reading of the run says, got {given}; leave out the reading and the "
            "sizes to learn them again.",
        )
    return reading


def _loss_of(is_classes: bool, given: str | None) -> str:
    """The loss of such labels, the given one if it is."""
    if not is_classes:
        return "squared"
    return given if given in OF_CLASSES else " or ".join(OF_CLASSES)
