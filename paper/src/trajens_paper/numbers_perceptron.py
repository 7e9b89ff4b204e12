"""The numbers of figure 1(c), and what they say.

Means of relative deviations from the exact loss have weights 1 / Var(L / <L>). Those are exact too, so they cannot lean
towards points that came out low.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from trajens_paper.claims import Claim, Measured, claim, least

_NAMES = {"paper": "the paper's test", "ours": "the penalty test"}
_BY_S = "falls with s for every tau: least certain fall between neighbours."


class Point(NamedTuple):
    """One symbol of the figure; the names are the columns of the CSV file.

    `deviation` is (loss - exact) / exact and `weight` the inverse of the exact variance of L / <L>.
    """

    tau: int
    s: float
    test: str
    loss: float
    loss_stderr: float
    exact: float
    z: float
    deviation: float
    deviation_stderr: float
    weight: float
    acceptance: float
    batch_size: float


def mean_deviation(points: list[Point]) -> tuple[float, float]:
    """Weighted mean of the relative deviations of `points`, and its standard error."""
    weights = np.array([p.weight for p in points])
    weights /= weights.sum()
    errors = weights * [p.deviation_stderr for p in points]
    return float(weights @ [p.deviation for p in points]), float(np.sqrt(errors @ errors))


def student_z2(chains: int, points: int) -> tuple[float, float]:
    """Expected mean of z^2 and its error; z has Student's t distribution, as its error is measured on few chains."""
    nu = chains - 1
    if nu <= 4:
        return float("nan"), float("nan")
    return nu / (nu - 2), float(np.sqrt(2 * nu**2 * (nu - 1) / ((nu - 2) ** 2 * (nu - 4)) / points))


def claims_of(points: list[Point], chains: int) -> tuple[Claim, ...]:
    """What the points say; `chains` are those behind every one of them."""
    found = []
    expected, error = student_z2(chains, len(points) // 2)
    for name, title in _NAMES.items():
        here = [p for p in points if p.test == name]
        text = f"The loss sampled with {title} is the exact one: mean relative deviation."
        found.append(claim(f"{name}: exact loss", text, *mean_deviation(here), "=", 0.0))
        if np.isfinite(expected):
            text = f"Points sampled with {title} scatter around the exact loss by their errors: mean of z^2."
            found.append(claim(f"{name}: z^2", text, float(np.mean([p.z**2 for p in here])), error, "=", expected))
    return (*found, *_exact_orders(points), *(order for name in _NAMES for order in _orders(name, points)))


def _exact_orders(points: list[Point]) -> list[Claim]:
    """Between all neighbours in s and in tau, on the exact curves."""
    loss = {(p.tau, p.s): (p.exact, 0.0) for p in points}
    taus, values = _axes(points)
    by_s = min(_fall(loss[tau, a], loss[tau, b]) for tau in taus for a, b in pairwise(values))
    by_tau = min(_fall(loss[a, s], loss[b, s]) for s in values for a, b in pairwise(taus))
    text = "The exact loss {}: smallest fall between neighbours."
    return [
        claim("exact: falls with s", text.format("falls with s for every tau"), *by_s[:2], ">", 0.0),
        claim("exact: falls with tau", text.format("is lower for longer paths, at every s"), *by_tau[:2], ">", 0.0),
    ]


def _orders(name: str, points: list[Point]) -> list[Claim]:
    """The same for what was sampled with a test; neighbouring tau are too close at large s, so first and last."""
    loss = {(p.tau, p.s): (p.loss, p.loss_stderr) for p in points if p.test == name}
    taus, values = _axes(points)
    by_s = least(_fall(loss[tau, a], loss[tau, b]) for tau in taus for a, b in pairwise(values))
    by_tau = [_fall(loss[taus[0], s], loss[taus[-1], s]) for s in values]
    mean = np.mean([fall.value for fall in by_tau])
    error = np.sqrt(sum(fall.error**2 for fall in by_tau)) / len(values)
    start = f"The loss sampled with {_NAMES[name]}"
    text = f"{start} is lower for longer paths: fall from tau = {taus[0]} to {taus[-1]}, mean over s."
    return [
        claim(f"{name}: falls with s", f"{start} {_BY_S}", *by_s[:2], ">", 0.0),
        claim(f"{name}: falls with tau", text, float(mean), float(error), ">", 0.0),
    ]


def _axes(points: list[Point]) -> tuple[list[int], list[float]]:
    return sorted({p.tau for p in points}), sorted({p.s for p in points})


def _fall(before: tuple[float, float], after: tuple[float, float]) -> Measured:
    """1 - after / before."""
    ratio = after[0] / before[0]
    return Measured(1.0 - ratio, float(ratio * np.hypot(before[1] / before[0], after[1] / after[0])))


def remarks(points: list[Point], chains: int) -> tuple[str, ...]:
    """Lines to print below the table."""
    lines = ["deviations from the exact loss in per cent, with standard errors; z is their ratio"]
    expected, _ = student_z2(chains, len(points) // 2)
    for name, title in _NAMES.items():
        here = [p for p in points if p.test == name]
        chi2 = np.mean([p.z**2 for p in here])
        known = f"{expected:.2f}" if np.isfinite(expected) else "not defined"
        lines.append(
            f"{title}: sum of z^2 / points = {chi2:.2f} for {len(here)} points; expected for {chains} chains: {known}"
        )
    return tuple(lines)
