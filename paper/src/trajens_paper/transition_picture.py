"""The picture of the figure "transition": six panels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from trajens.plots import style
from trajens.records import mean_and_error
from trajens_paper.coexistence import FLAT_SHARE
from trajens_paper.transition_case import Case
from trajens_paper.transition_claims import hysteresis, share_of_fall, share_of_jump

_GUESSING = np.log(10)


def draw(cases: list[Case], hole: np.ndarray, stem: Path) -> tuple[Path, Path]:
    """Write `stem`.png and `stem`.pdf."""
    proper = [case for case in cases if not case.is_flat]
    flat = [case for case in cases if case.is_flat]
    with style.journal_style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(3 * style.COLUMN_WIDTH, 5.4))
        upper, lower = figure.subplots(2, 3)
        _draw_losses(upper[0], proper, "Gaussian first model")
        _draw_losses(upper[1], flat, "flat first model")
        _draw_weights(upper[2], proper, flat)
        _draw_susceptibility(lower[0], proper)
        _draw_laws(lower[1], proper, hole)
        _draw_growth(lower[2], proper, hole)
        for axes, letter in zip((*upper, *lower), "abcdef", strict=True):
            axes.set_title(f"({letter})", loc="left", fontsize=9)
        return style.save(figure, stem)


def _draw_losses(axes: Any, cases: list[Case], title: str) -> None:
    """Both branches of the slow annealing, and what is left of them at rest."""
    for i, case in enumerate(cases):
        look = style.look(i)
        for way, line in ((0, "-"), (1, "--")):
            loss = case.slow.loss[way].mean(-1)
            axes.plot(case.slow.s * case.tau, loss, line, color=look["color"], linewidth=0.8)
        if case.rest is not None:
            curve = case.rest.curve
            place, loss = curve.s * case.tau, curve.loss
            axes.errorbar(place, loss, curve.loss_stderr, linestyle="", markerfacecolor="white", **look)
        else:
            for way, line in ((0, "-"), (1, "--")):
                loss = case.fast.loss[way].mean(-1)
                axes.plot(case.fast.s * case.tau, loss, line, color=look["color"], linewidth=0.4)
    axes.axhline(_GUESSING, color="grey", linewidth=0.5, linestyle=":")
    axes.set(xscale="log", xlabel=r"$s\tau$", ylabel=r"$\langle L\rangle/\tau$")
    axes.set_title(title, fontsize=9)
    style.plain_logarithm(axes.xaxis)
    lines = {"color": "black", "marker": ""}
    ways = [lines | {"label": "up", "linestyle": "-"}, lines | {"label": "down", "linestyle": "--"}]
    taus = [style.look(i) | {"label": rf"$\tau = {case.tau}$", "linestyle": ""} for i, case in enumerate(cases)]
    if cases[0].rest is not None:
        style.legend(axes, [*taus, *ways], "lower left", 2)


def _draw_weights(axes: Any, proper: list[Case], flat: list[Case]) -> None:
    """RMS weight on the way up and down, slow and fast, for the shortest path."""
    for i, case in enumerate((proper[0], flat[0])):
        for seen, width in ((case.slow, 0.9), (case.fast, 0.4)):
            for way, line in ((0, "-"), (1, "--")):
                weights = seen.weight_rms[way].mean(-1)
                look = style.look(i) | {"marker": style.MARKERS[i] if width > 0.5 else ""}
                axes.plot(seen.s * case.tau, weights, line, linewidth=width, markerfacecolor="white", **look)
    axes.set(xscale="log", xlabel=r"$s\tau$", ylabel="RMS weight")
    style.plain_logarithm(axes.xaxis)
    labels = (f"Gaussian, $\\tau = {proper[0].tau}$", "flat")
    entries = [style.look(i) | {"label": label} for i, label in enumerate(labels)]
    thin = {"color": "black", "marker": "", "linewidth": 0.4, "label": "fast"}
    style.legend(axes, [*entries, thin], "center right")


def _draw_susceptibility(axes: Any, cases: list[Case]) -> None:
    """The susceptibility s Var L / tau against s tau: of the draws at a level, and of all draws at any s."""
    for i, case in enumerate(cases):
        assert case.rest is not None
        curve, look = case.rest.curve, style.look(i)
        factor = curve.s / case.tau
        place = curve.s * case.tau
        values, errors = factor * curve.variance, factor * curve.variance_stderr
        label = rf"$\tau = {case.tau}$"
        axes.errorbar(place, values, errors, linestyle="", markerfacecolor="white", label=label, **look)
        for s, variance in case.ladders.curves:
            axes.plot(s * case.tau, s * case.tau * variance, "-", color=look["color"], linewidth=0.7)
    axes.set(xscale="log", xlabel=r"$s\tau$", ylabel=r"$s\,\mathrm{Var}\,L/\tau$", ylim=(0, None))
    style.plain_logarithm(axes.xaxis)
    axes.legend(loc="best")


def _draw_laws(axes: Any, cases: list[Case], hole: np.ndarray) -> None:
    """The loss of paths at the steepest point, in units of half the fall: two phases would have peaks at -1 and 1."""
    edges = np.linspace(-1.5, 1.5, 41)
    for i, case in enumerate(cases):
        law = case.ladders.law
        place = (law.loss - law.weight @ law.loss) / (case.ladders.fall / 2)
        _stairs(axes, place, law.weight, edges, style.look(i)["color"], rf"$\tau = {case.tau}$")
    _stairs(axes, (hole - 0.5).ravel() * 2, None, edges, "grey", "two phases")
    axes.set(xlabel=r"$(L/\tau - \langle L\rangle/\tau)\,/\,$half the fall", ylabel="density", xlim=(-1.5, 1.5))
    axes.legend(loc="upper left")


def _stairs(
    axes: Any, values: np.ndarray, weights: np.ndarray | None, edges: np.ndarray, colour: str, label: str
) -> None:
    density, _ = np.histogram(values, edges, weights=weights, density=True)
    axes.stairs(density, edges, color=colour, label=label)


def _draw_growth(axes: Any, cases: list[Case], hole: np.ndarray) -> None:
    """Share of the fall, and hysteresis over the fall, against tau."""
    taus = [case.tau for case in cases]
    shares = [case.ladders.measured(share_of_fall) for case in cases]
    of_hole = share_of_jump(hole)
    _points(axes, taus, [v.value for v in shares], [v.error for v in shares], 0, r"$\mathrm{Var}$ at rest")
    axes.errorbar([1], [of_hole.value], [of_hole.error], color="grey", marker="*", label="two phases")
    hidden = [(case.tau, case.ladders.fall_in(gap) / case.ladders.fall) for case in cases for gap in case.ladders.gaps]
    if hidden:
        place, height = np.transpose(hidden)
        axes.plot(place, height**2, linestyle="", marker="v", color="black", label="at most, between levels")
    for i, name in enumerate(("slow", "fast"), 1):
        areas = []
        for case in cases:
            seen = getattr(case, name)
            areas.append(mean_and_error(hysteresis(seen.s, seen.loss) / case.ladders.fall))
        _points(axes, taus, [a for a, _ in areas], [e for _, e in areas], i, f"hysteresis, {name}")
    axes.axhline(1, color="grey", linewidth=0.5)
    axes.axhline(FLAT_SHARE, color="grey", linewidth=0.5, linestyle=":")
    # Room below the points for what they are.
    axes.set(xscale="log", yscale="log", xlabel=r"$\tau$", ylabel="share of the fall", ylim=(1.5e-3, 2))
    style.plain_logarithm(axes.xaxis)
    axes.legend(loc="lower center")


def _points(axes: Any, x: Any, y: Any, errors: Any, i: int, label: str) -> None:
    axes.errorbar(x, y, errors, markerfacecolor="white", label=label, **style.look(i))
