"""Claims as numbers: what a figure measured, with its error, against what is claimed, and a verdict.

Two numbers are told apart when chance alone would set them so far apart, to that side, with a probability below
`LEVEL`: 3.1 standard errors, and more where the error itself comes from few runs (Student's t distribution).

    value < reference   confirmed if it is told apart below, refuted if above, else undecided
    value = reference   refuted if they are told apart, else consistent: no proof, the error says how much could hide
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from trajens.errors import InputError
from trajens.files import Lock, write_atomically

LEVEL = 1e-3


class Claim(NamedTuple):
    """One claim of the paper, or of the theory, and what came out; `dof` are the degrees of freedom of the error."""

    name: str
    claim: str
    value: float
    error: float
    relation: str
    reference: float
    verdict: str
    dof: float | None = None


class Measured(NamedTuple):
    """A number, its standard error, and the degrees of freedom of that, None for many."""

    value: float
    error: float
    dof: float | None = None

    @property
    def certainty(self) -> float:
        """The number in units of its error."""
        return self.value / self.error if self.error else math.copysign(math.inf, self.value)


def difference(a: tuple[float, float], b: tuple[float, float], runs: int) -> Measured:
    """The difference a - b of two means with standard errors over `runs` runs each; degrees of freedom by Welch."""
    squares = a[1] ** 2, b[1] ** 2
    together = sum(squares)
    dof = (runs - 1) * together**2 / sum(square**2 for square in squares) if together > 0 else None
    return Measured(a[0] - b[0], math.sqrt(together), dof)


def least(numbers: Iterable[Measured]) -> Measured:
    """The least certain of several numbers that should all be positive."""
    return min(numbers, key=lambda number: number.certainty)


def claim(
    name: str, text: str, value: float, error: float, relation: str, reference: float, dof: float | None = None
) -> Claim:
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
    dof : float, optional
        Degrees of freedom of the error, where it comes from few runs.
    """
    value, error, reference = float(value), float(error), float(reference)
    verdict = _verdict(value - reference, error * errors_apart(dof), relation)
    return Claim(name, text, value, error, relation, reference, verdict, dof)


def errors_apart(dof: float | None = None) -> float:
    """How many standard errors set two numbers apart."""
    from scipy import stats

    return float(stats.norm.isf(LEVEL) if dof is None else stats.t.isf(LEVEL, dof))


def _verdict(difference: float, margin: float, relation: str) -> str:
    if not (math.isfinite(difference) and math.isfinite(margin)):
        return "undecided"
    if relation == "=":
        return "consistent" if abs(difference) <= margin else "refuted"
    above = difference if relation == ">" else -difference
    if above > margin:
        return "confirmed"
    return "refuted" if above < -margin else "undecided"


def write_claims(out: Path, figure: str, scale: str, seed: int, claims: tuple[Claim, ...]) -> Path:
    """Put the claims of one figure into ``claims.json``, in place of those it had there; other figures keep theirs."""
    file = out / "claims.json"
    # Figures drawn side by side wait for each other.
    with Lock(out):
        everything: dict[str, Any] = read_claims(file) if file.exists() else {}
        everything[figure] = {"scale": scale, "seed": seed, "claims": [_plain(c) for c in claims]}
        text = json.dumps(dict(sorted(everything.items())), indent=1, allow_nan=False)
        write_atomically(file, (text + "\n").encode())
    return file


def _plain(claim: Claim) -> dict[str, Any]:
    """JSON has no NaN."""
    is_missing = {name: isinstance(value, float) and math.isnan(value) for name, value in claim._asdict().items()}
    return {name: None if is_missing[name] else value for name, value in claim._asdict().items()}


def read_claims(file: Path) -> dict[str, Any]:
    """What `write_claims` wrote: for every figure its scale, its seed and its claims."""
    return read_table(file, "the claims of figures")


def read_table(file: Path, what: str) -> dict[str, Any]:
    """A JSON object that a figure wrote."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise InputError(f"'{file}' must hold {what}, got {error}; remove it.") from None
    if not isinstance(content, dict):
        raise InputError(f"'{file}' must hold {what}, got something else; remove it.")
    return content
