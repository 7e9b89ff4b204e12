"""What ``trajens evaluate`` says of a run on episodes: returns over fresh ones, of models alone and together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from trajens.cli.numbers import finite, whole
from trajens.errors import require
from trajens.experiments.acting import WORDS, acting
from trajens.rl.scores import EPISODES


def evaluate_returns(
    sources: list[Path], data: list[Path] | None, noise: str | None, chain: str, episodes: str | None, as_json: bool
) -> None:
    """Print the returns of the policies of a run."""
    require(len(sources) == 1, f"one run on episodes can be evaluated at a time, got {len(sources)}; give one.")
    for name, given in (("data", data), ("noise", noise)):
        require(given is None, f"{name} must be left out with a run on episodes, got {given}; leave it out.")
    found = acting(sources[0], chain)
    count = EPISODES if episodes is None else whole("episodes", episodes)
    returns = found.scores(count)
    name = found.episodes.environment.name
    if as_json:
        scores: dict[str, Any] = {how: score._asdict() for how, score in returns.items()}
        print_json({"environment": name, "models": len(found.path), "episodes": count, "returns": scores})
        return
    models = "1 model" if len(found.path) == 1 else f"{len(found.path)} models"
    table = Table(title=f"{models} in {count:,} fresh episodes of {escape(name)}")
    for heading in ("", "return", "standard error", "steps"):
        table.add_column(heading, justify="left" if not heading else "right")
    for how, score in returns.items():
        table.add_row(WORDS[how], f"{score.mean:.2f}", f"{score.stderr:.2f}", f"{score.steps:.1f}")
    Console().print(table)


def print_json(numbers: dict[str, Any]) -> None:
    """One JSON object."""
    typer.echo(json.dumps(finite(numbers), allow_nan=False))
