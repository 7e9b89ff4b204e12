"""The move and the acceptance test that options mean."""

from __future__ import annotations

from typing import Any

from trajens.acceptance import AcceptanceTest, Barker, Metropolis, MinibatchBarker, Penalty, paper_test
from trajens.acceptance.base import minibatch_chunk
from trajens.errors import integer, number, require
from trajens.experiments.options import Config
from trajens.moves import CentreOfMass, Mixture, Move, Proposer, Segment, SingleSite


def move_of(config: Config, fraction: float | None) -> Proposer:
    """How models are redrawn, `fraction` of their parameters, or as many as are tuned."""
    move: Move = SingleSite(fraction, config.refresh)
    if config.segment is not None:
        length = integer("segment", config.segment, 1, "try 2 to 8 models")
        move = Segment(length, fraction, config.refresh)
    if config.centre_of_mass is None:
        return move
    width = number("centre-of-mass", config.centre_of_mass, "try sigma or more at small s", above=0.0)
    return Mixture([(config.tau, move), (1, CentreOfMass(width))])


def acceptance_of(config: Config, size: int, usual_chunk: int | None) -> AcceptanceTest:
    """How changes are accepted on `size` examples; None is the library's own chunk."""
    name = config.acceptance
    require(
        config.rho is None or name in ("penalty", "minibatch-barker"),
        f"rho must be left out with --acceptance {name}, got {config.rho}; use penalty or minibatch-barker for that.",
    )
    for option, advice in (("pool", "pool plans"), ("tolerance", "keep a tolerance"), ("stages", "refuse early")):
        value = getattr(config, option)
        require(
            name == "penalty" or value in (None, False),
            f"{option} must be left out with --acceptance {name}, got {value}; use penalty to {advice}.",
        )
    if config.chunk is not None:
        advice = f"a decision can read {size} examples at most, leave it out for the usual number"
        integer("chunk", config.chunk, 2, advice, size)
    if name in ("barker", "metropolis"):
        return Barker(config.chunk) if name == "barker" else Metropolis(config.chunk)
    chunk = minibatch_chunk(usual_chunk if config.chunk is None else config.chunk, size)
    if name == "paper":
        return paper_test(chunk)
    if name == "penalty":
        given = {"tolerance": config.tolerance, "stages": config.stages}
        chosen: dict[str, Any] = {option: value for option, value in given.items() if value is not None}
        return Penalty(chunk, config.rho, pool=bool(config.pool), **chosen)
    return MinibatchBarker(chunk, MinibatchBarker.rho if config.rho is None else config.rho)
