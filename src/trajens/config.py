"""The options of a run as plain values: from a file, from flags, with defaults, and back into a file.

`Config` holds what a run directory needs to say what was done and to do it again. Later layers win: defaults of the
problem, then a TOML file, then flags.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from trajens.errors import InputError, integer, number, require

PROBLEMS = ("perceptron", "mnist")


@dataclass(frozen=True)
class Config:
    """Every option of ``trajens train``; None where it does not apply.

    `problem` is a name or a file that `datasets.load` reads; `s` is a number, a list of numbers (one group of chains
    each) or ``"a:b"``, which goes from a to b by equal factors during the first `anneal` epochs; `start` is the
    directory of a run whose last paths this one starts from. `sizes` of all layers are written down by a run, so that
    its networks can be used without the data they were trained on.
    """

    problem: str
    model: str | None = None
    hidden: Any = None
    sizes: Any = None
    activation: str | None = None
    loss: str | None = None
    num_data: int | None = None
    noise: float | None = None
    data_seed: int | None = None
    tau: int = 8
    s: Any = 50.0
    anneal: int | None = None
    sigma: float = 0.05
    prior: Any = 0.3
    fraction: float = 0.25
    refresh: float = 1.0
    segment: int | None = None
    centre_of_mass: float | None = None
    scan: str = "checkerboard"
    repeats: int = 1
    test: str = "penalty"
    chunk: int | None = None
    rho: float | None = None
    pool: bool | None = None
    ahead: int = 1
    epochs: int = 400_000
    burn_in: int | None = None
    chains: int = 1
    records: int = 200
    seed: int = 0
    start: str | None = None
    checkpoint_seconds: float = 5.0

    def to_toml(self) -> str:
        """The options that apply, one a line."""
        # What TOML writes for a number, a text or a list of them is what JSON writes.
        return "".join(f"{name} = {_toml(value)}\n" for name, value in asdict(self).items() if value is not None)


OPTIONS = tuple(field.name for field in fields(Config))
_TEXTS = ("problem", "model", "activation", "loss", "scan", "test", "start")
_OF_NETWORKS = ("model", "hidden", "sizes", "activation", "loss")
_OF_PERCEPTRON = ("num_data", "noise", "data_seed")
_PERCEPTRON = {
    "num_data": 256,
    "noise": 0.0,
    "data_seed": 0,
    "s": 20.0,
    "sigma": 0.1,
    "prior": "flat",
    "fraction": 1.0,
    "epochs": 200_000,
    "chains": 64,
}


def resolve(*layers: dict[str, Any]) -> Config:
    """The layers of options on top of each other and of the defaults of their problem; None in a layer is no choice."""
    chosen: dict[str, Any] = {}
    for layer in layers:
        chosen |= {name: value for name, value in layer.items() if value is not None}
    unknown = [name for name in chosen if name not in OPTIONS]
    require(not unknown, f"options must be among {', '.join(OPTIONS)}, got {', '.join(unknown)}; check the spelling.")
    _check_types(chosen)
    problem = chosen.get("problem")
    require(
        isinstance(problem, str),
        f"problem must be one of {', '.join(PROBLEMS)} or a file with data, got {problem!r}; try mnist.",
    )
    assert isinstance(problem, str)
    if problem not in PROBLEMS:
        require(
            Path(problem).is_file() or "sizes" in chosen,
            f"problem must be one of {', '.join(PROBLEMS)} or a file with data, got '{problem}'; check the spelling.",
        )
        chosen["problem"] = str(Path(problem).resolve())
    if "start" in chosen:
        chosen["start"] = str(Path(chosen["start"]).resolve())
    foreign = _OF_NETWORKS if problem == "perceptron" else _OF_PERCEPTRON
    for name in foreign:
        require(name not in chosen, f"{name} must be left out with {problem}, got {chosen.get(name)!r}; leave it out.")
    defaults = _PERCEPTRON if problem == "perceptron" else {"model": "cnn" if problem == "mnist" else "mlp"}
    config = Config(**{**defaults, **chosen})
    return _completed(config)


def _toml(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False).replace("\x7f", "\\u007f")


def _check_types(chosen: dict[str, Any]) -> None:
    """Refuse what is neither a number nor a text (or, for s and hidden, a list of numbers) before anything uses it."""
    for name, value in chosen.items():
        wanted: tuple[str, Any] = ("a number", (int, float))
        if name in _TEXTS:
            wanted = ("a text", str)
        elif name == "pool":
            wanted = ("true or false", bool)
        elif name == "sizes":
            wanted = ("a list of numbers", list)
        elif name in ("s", "hidden"):
            wanted = ("a number, a text or a list of numbers", (int, float, str, list))
        elif name == "prior":
            wanted = ("a number or flat", (int, float, str))
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 2**53
        is_right = isinstance(value, wanted[1]) and (is_number or not isinstance(value, (int, float)) or name == "pool")
        require(is_right, f"{name} must be {wanted[0]}, got {value!r}; see trajens train --help.")


def read_toml(file: Path) -> dict[str, Any]:
    """The options in a TOML file; a dash in a name may stand for an underscore."""
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"config must be a file that can be read, got '{file}': {error.strerror}; check it.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"config must be TOML, got '{file}': {error}; write lines like tau = 8.") from None
    return {name.replace("-", "_"): value for name, value in table.items()}


def tilts(s: Any) -> tuple[list[float], tuple[float, float] | None]:
    """`s` as (numbers, None), or as ([1.0], (first, last)) for an annealing written first:last."""
    message = f"s must be a number, several as 5,10,20, or an annealing as 60:1000, got {s!r}; try 50."
    if isinstance(s, str) and ":" in s:
        ends = s.split(":")
        require(len(ends) == 2, message)
        first, last = (number("s", _as_number(end, message), "try 60:1000", above=0.0) for end in ends)
        return [1.0], (first, last)
    parts = s.split(",") if isinstance(s, str) else s if isinstance(s, list) else [s]
    values = [number("s", _as_number(part, message), "try 1 to 1000", above=0.0) for part in parts]
    require(len(values) > 0, message)
    return values, None


def hidden_sizes(hidden: Any) -> list[int]:
    """Hidden layers as whole numbers, from 32, "64,32" or a list."""
    parts = hidden.split(",") if isinstance(hidden, str) else hidden if isinstance(hidden, list) else [hidden]
    message = f"hidden must be sizes of hidden layers such as 32 or 64,32, got {hidden!r}; try 32."
    return [integer("hidden", _as_number(part, message), 1, "try 32") for part in parts]


def _completed(config: Config) -> Config:
    """With the defaults that depend on other options."""
    values = asdict(config)
    epochs = integer("epochs", config.epochs, 1, "one epoch is one proposal")
    if config.burn_in is None:
        values["burn_in"] = epochs // 5
    _, annealing = tilts(config.s)
    require(
        annealing is not None or config.anneal is None,
        f"anneal must be left out with a fixed s, got {config.anneal}; write s as 60:1000 to anneal.",
    )
    if annealing is not None and config.anneal is None:
        values["anneal"] = max(1, values["burn_in"])
    if config.prior != "flat":
        message = f"prior must be flat or a standard deviation > 0, got {config.prior!r}; try 0.3."
        values["prior"] = number("prior", _as_number(config.prior, message), "use flat or try 0.3", above=0.0)
    if config.model == "mlp" and config.hidden is None:
        values["hidden"] = 32
    require(
        config.model == "mlp" or (config.hidden is None and config.activation is None),
        f"hidden and activation must be left out with --model {config.model}; use --model mlp to choose them.",
    )
    return Config(**values)


def _as_number(text: Any, message: str) -> Any:
    """The number in a text, whole where it is; anything else as it came."""
    if not isinstance(text, str):
        return text
    try:
        real = float(text)
    except ValueError:
        raise InputError(message) from None
    return int(real) if real.is_integer() else real
