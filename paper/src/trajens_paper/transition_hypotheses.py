"""What was claimed of ladders of s before they were sampled, what would refute it, and what came of it.

They are asked of any `Ladders` of a distribution that has an equilibrium: of the network for every tau, of controls
whose answer is known, and of sittings that are still to come. Where neighbouring levels are not linked, what is
confirmed at the others is called open, since phases between the levels would be seen at neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from trajens_paper.claims import Claim, Measured, claim
from trajens_paper.coexistence import FLAT_BINDER, FLAT_SHARE, binder, exponent
from trajens_paper.exchanging import Exchanged
from trajens_paper.steepest import Ladders
from trajens_paper.transition_claims import claims_at_rest, share_of_fall

VALLEY = float(np.log(2))
"""A valley half as high as the peaks beside it."""
OPEN = "open"


class Hypothesis(NamedTuple):
    """A number of the ladders of one tau; `refuted` says what would be seen if it were wrong."""

    name: str
    says: str
    refuted: str
    number: Callable[[Ladders], Measured]
    relation: str
    reference: float
    is_of_phases: bool = True

    def verdict_on(self, ladders: Ladders) -> Claim:
        """What came out."""
        value, error, dof = self.number(ladders)
        name = f"{self.name}, tau = {ladders.tau}"
        found = claim(name, self.says, value, error, self.relation, self.reference, dof)
        is_open = self.is_of_phases and bool(ladders.gaps) and found.verdict != "refuted"
        return found._replace(verdict=OPEN) if is_open else found


def _at_rest(name: str) -> Callable[[Ladders], Measured]:
    def number(ladders: Ladders) -> Measured:
        found = next(c for c in claims_at_rest(ladders) if c.name.startswith(f"{name},"))
        return Measured(found.value, found.error, found.dof)

    return number


HYPOTHESES = (
    Hypothesis(
        "hysteresis",
        "at rest the branches up and down are one",
        "their losses differ by more than errors: what is seen depends on the past",
        _at_rest("branches agree"),
        "=",
        0.0,
        is_of_phases=False,
    ),
    Hypothesis(
        "rest",
        "at rest the loss stays",
        "an earlier and a later half differ by more than errors",
        _at_rest("loss stays"),
        "=",
        0.0,
        is_of_phases=False,
    ),
    Hypothesis(
        "variance",
        "the largest variance of L / tau, as a share of that of two phases, is less than 1/3; its inverse is the "
        "width of the fall in s, in units of that of two phases",
        "a share above 1/3, that of a law flat between the two ends",
        lambda ladders: ladders.measured(share_of_fall),
        "<",
        FLAT_SHARE,
    ),
    Hypothesis(
        "Binder",
        "the fourth-order cumulant where the loss falls most steeply is less than 2/5",
        "one above 2/5, that of a flat law; two phases have 2/3",
        lambda ladders: ladders.measured(lambda some: binder(*some.law)),
        "<",
        FLAT_BINDER,
    ),
    Hypothesis(
        "barrier",
        "at no s are losses between two equal peaks rarer than half of these: the barrier is less than ln 2",
        "a barrier above ln 2 where two peaks are equally high",
        lambda ladders: ladders.measured(lambda some: some.barrier),
        "<",
        VALLEY,
    ),
)


def growth(each: list[Ladders]) -> Iterator[Claim]:
    """How the largest variance and the place of the steepest point go with tau, of ladders without gaps."""
    whole = [ladders for ladders in each if not ladders.gaps]
    if len(whole) < 2:
        return
    taus = np.array([ladders.tau for ladders in whole])
    numbers: tuple[tuple[str, Callable[[Ladders], float], str], ...] = (
        ("Var(L / tau)", lambda some: some.law.variance, "two phases that form with tau: it grows (exponent above 0)"),
        ("s tau", lambda some: some.steepest * some.tau, "paths that fall to pieces or unbind: it grows"),
    )
    for name, number, text in numbers:
        found = exponent(taus, [ladders.measured(number) for ladders in whole])
        yield claim(f"{name} with tau", text, found.value, found.error, "=", 0.0, found.dof)


def round_trips(found: Exchanged) -> Claim:
    """Whether paths get from one end of the ladder to the other and back."""
    per_path = found.trips / len(found.s)
    error = float(per_path.std(ddof=1) / np.sqrt(len(per_path)))
    text = "paths pass the steepest point both ways (round trips of each); refuted if none does"
    return claim(f"round trips, tau = {found.tau}", text, per_path.mean(), error, ">", 0.0, len(per_path) - 1)


def in_words(each: list[Ladders]) -> Iterator[str]:
    """A line for every hypothesis, with the number, its error and its verdict for every tau."""
    for hypothesis in HYPOTHESES:
        found = [hypothesis.verdict_on(ladders) for ladders in each]
        verdicts = [f"{_tau(c)}: {c.value:.3g} +- {c.error:.2g}, {c.verdict}" for c in found]
        yield f"{hypothesis.name}: {hypothesis.says}. {'; '.join(verdicts)}"
    for c in growth(each):
        yield f"{c.name}: exponent {c.value:.2f} +- {c.error:.2f}. {c.claim}"


def _tau(found: Claim) -> str:
    return found.name.rsplit(", ", 1)[1]
