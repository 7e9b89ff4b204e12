"""Claims as numbers: what a figure measured, with its error, against what is claimed, and a verdict.

A number is told from another when they are `Z` standard errors apart:

    value = reference   confirmed within Z errors, else refuted
    value < reference   confirmed if value + Z error < reference, refuted if value - Z error > reference, else undecided
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from trajens.checkpoint import write_atomically
from trajens.errors import InputError

Z = 4.0


class Claim(NamedTuple):
    """One claim of the paper, or of the theory, and what came out."""

    name: str
    claim: str
    value: float
    error: float
    relation: str
    reference: float
    verdict: str


def claim(name: str, text: str, value: float, error: float, relation: str, reference: float) -> Claim:
    """A claim and its verdict.

    Parameters
    ----------
    name : str
        Short, and unique in its figure.
    text : str
        The claim, as a sentence.
    value, error : float
        What was measured, and its standard error; 0 for a number that has none.
    relation : "=", "<" or ">"
    reference : float
    """
    value, error, reference = float(value), float(error), float(reference)
    return Claim(name, text, value, error, relation, reference, _verdict(value - reference, error, relation))


def _verdict(difference: float, error: float, relation: str) -> str:
    if relation == "=":
        return "confirmed" if abs(difference) <= Z * error else "refuted"
    above = difference if relation == ">" else -difference
    if above > Z * error:
        return "confirmed"
    return "refuted" if above < -Z * error else "undecided"


def write_claims(out: Path, figure: str, scale: str, seed: int, claims: tuple[Claim, ...]) -> Path:
    """Put the claims of one figure into ``claims.json``, in place of those it had there; other figures keep theirs."""
    file = out / "claims.json"
    everything: dict[str, Any] = read_claims(file) if file.exists() else {}
    everything[figure] = {"scale": scale, "seed": seed, "claims": [c._asdict() for c in claims]}
    text = json.dumps(dict(sorted(everything.items())), indent=1, allow_nan=False)
    write_atomically(file, (text + "\n").encode())
    return file


def read_claims(file: Path) -> dict[str, Any]:
    """What `write_claims` wrote: for every figure its scale, its seed and its claims."""
    try:
        content = json.loads(file.read_text())
    except (ValueError, OSError) as error:
        raise InputError(f"'{file}' must hold the claims of figures, got {error}; remove it.") from None
    if not isinstance(content, dict):
        raise InputError(f"'{file}' must hold the claims of figures, got something else; remove it.")
    return content
