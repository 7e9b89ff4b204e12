"""The formula of `scaling.py`'s points: its constants, its errors, and the pictures of both.

    python benchmarks/scaling_figure.py paper/results/scaling docs/figures/scaling

An iteration of the sampler with L lanes, chunks of m examples, P parameters and F multiply-adds for a pair of losses
takes t0 + L (a P + m (g + c F)), and a decision on b examples needs b / m iterations, so that one epoch takes

    (b / m) (t0 / L + a P) + b (g + c F)

The four constants are fitted to every other point of the mlp, by least squares of relative errors and none below 0; the
points between are what the formula is checked on. The cnn has a kernel of its own, and a g of its own in place of
g + c F, from one point of its curves.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import nnls

from trajens.plots import style

Row = dict[str, Any]
AXES = {"parameters": "parameters P", "examples": "examples N", "tau": "models tau", "chains": "chains"}
NAMES = ("t0", "a", "g", "c")


def terms(row: Row) -> np.ndarray:
    """What the four constants are multiplied by."""
    b, iterations = row["batch"], row["batch"] / row["chunk"]
    return np.array([iterations / row["lanes"], iterations * row["parameters"], b, b * row["work"]])


class Formula:
    """Seconds per epoch, fitted to every other point of the curves of the mlp."""

    def __init__(self, rows: list[Row]):
        mlp = [row for row in rows if row["network"] == "mlp"]
        self.fitted = [row for curve in _curves(mlp).values() for row in curve[::2]]
        self.checked = [row for curve in _curves(mlp).values() for row in curve[1::2]]
        seconds = np.array([row["seconds"] for row in self.fitted])
        self.constants, _ = nnls(
            np.stack([terms(row) for row in self.fitted]) / seconds[:, None], np.ones(len(seconds))
        )
        kernel = [row for row in rows if row["network"] == "cnn"]
        self.per_pair = 0.0
        if kernel:
            most = max(kernel, key=lambda row: float(row["lanes"]))
            self.per_pair = (most["seconds"] - terms(most)[:2] @ self.constants[:2]) / most["batch"]
            self.checked += [row for row in kernel if row is not most]

    def __call__(self, row: Row) -> float:
        per_pair = self.per_pair if row["network"] == "cnn" else self.constants[2] + self.constants[3] * row["work"]
        return float(terms(row)[:2] @ self.constants[:2] + row["batch"] * per_pair)

    def errors(self, rows: list[Row]) -> np.ndarray:
        """Relative."""
        return np.array([self(row) / row["seconds"] - 1 for row in rows])


def report(name: str, formula: Formula) -> str:
    """Constants, and errors on points that were not fitted."""
    constants = ", ".join(f"{key} = {value:.3g} s" for key, value in zip(NAMES, formula.constants, strict=True))
    lines = [f"{name}: {constants}; the cnn {formula.per_pair:.3g} s a pair"]
    for what, rows in (("fitted", formula.fitted), ("not fitted", formula.checked)):
        errors = formula.errors(rows)
        worst = rows[int(np.abs(errors).argmax())]
        lines.append(
            f"  {what}: {len(rows)} points, median of |error| {np.median(np.abs(errors)):.1%}, largest "
            f"{errors[np.abs(errors).argmax()]:+.1%} (P = {worst['parameters']}, N = {worst['examples']}, tau = "
            f"{worst['tau']}, {worst['chains']} chains, {worst['network']}, {worst['curve']})"
        )
    return "\n".join(lines)


def draw(found: dict[str, list[Row]], out: Path) -> None:
    """A panel for each thing that grows, points and formula of every machine; seconds per epoch of all chains."""
    from matplotlib.figure import Figure

    with style.journal_style():
        figure = Figure()
        width, height = figure.get_size_inches()
        figure.set_size_inches(2 * width, 2 * height + 0.6)
        grid = figure.subplots(2, 2).ravel()
        kinds: dict[str, str] = {}
        entries: dict[str, Any] = {}
        for marker, (machine, rows) in zip(style.MARKERS, found.items(), strict=False):
            formula = Formula(rows)
            for curve, points in _curves(rows).items():
                axis, _, kind = curve.partition(", ")
                axes = grid[list(AXES).index(axis)]
                kind = kind or "mlp"
                colour = kinds.setdefault(kind, style.COLOURS[len(kinds)])
                look = {"color": colour, "marker": marker, "markerfacecolor": "white", "linestyle": ""}
                x = [point[axis] for point in points]
                spread = [point["spread"] * point["seconds"] / 2 for point in points]
                seconds = [point["seconds"] for point in points]
                entries[f"{machine}, {kind}"] = axes.errorbar(x, seconds, spread, **look)
                axes.plot(x, [formula(point) for point in points], color=colour)
        for axes, label in zip(grid, AXES.values(), strict=True):
            axes.set(xscale="log", yscale="log", xlabel=label, ylabel="seconds per epoch")
        figure.legend(list(entries.values()), list(entries), loc="outside lower center", ncols=4)
        for file in style.save(figure, out.with_suffix("")):
            print(f"wrote {file}")


def draw_devices(rows: list[Row], out: Path) -> None:
    """How many times faster chains are on several virtual devices than on one."""
    with style.journal_style():
        figure, (axes, weak_axes) = style.panels(2)
        kinds = [("strong", "perceptron"), ("strong", "mlp"), ("strong", "cnn"), ("one core", "perceptron")]
        for i, kind in enumerate(kinds):
            here = [row for row in rows if (row["kind"], row["network"]) == kind]
            text = f"{kind[1]}, {here[0]['chains']} chains" + (", one core" if kind[0] == "one core" else "")
            devices = [row["devices"] for row in here]
            axes.plot(devices, [here[0]["wall"] / row["wall"] for row in here], label=text, **_hollow(i))
        weak = [row for row in rows if row["kind"] == "weak"]
        devices = [row["devices"] for row in weak]
        efficiency = [weak[0]["wall"] / row["wall"] / row["devices"] for row in weak]
        weak_axes.plot(devices, efficiency, label="perceptron, 16 chains a device", **_hollow(0))
        axes.plot(devices, devices, color="0.6", linestyle=":", marker="")
        weak_axes.axhline(1.0, color="0.6", linestyle=":")
        axes.set(xscale="log", yscale="log", xlabel="virtual devices", ylabel="times faster")
        weak_axes.set(
            xscale="log", ylim=(0, 1.15), xlabel="virtual devices", ylabel="efficiency, work per device fixed"
        )
        for one in (axes, weak_axes):
            style.plain_logarithm(one.xaxis)
            one.legend()
        style.plain_logarithm(axes.yaxis)
        for file in style.save(figure, out.with_suffix("")):
            print(f"wrote {file}")


def draw_memory(results: Path, out: Path) -> None:
    """Bytes that were measured against those of the formula; and what records take."""
    rows = {name: _rows(results, name) for name in ("peaks-cpu", "peaks-gpu", "limit", "records")}
    with style.journal_style():
        figure, (axes, time_axes) = style.panels(2)
        groups = {"CPU, whole runs": "peaks-cpu", "H200, whole runs": "peaks-gpu", "H200, near its limit": "limit"}
        groups |= {"records": "records"}
        for i, (label, name) in enumerate(groups.items()):
            needed, peak = ([row[key] / 1e9 for row in rows[name]] for key in ("needed", "peak"))
            axes.plot(needed, peak, linestyle="", label=label, **_hollow(i))
        axes.plot([1e-3, 200], [1e-3, 200], color="0.6", linestyle=":")
        axes.set(xscale="log", yscale="log", xlabel="GB by the formula", ylabel="GB measured")
        for i, chains in enumerate((1, 64, 1024)):
            here = [row for row in rows["records"] if row["chains"] == chains]
            label = f"{chains} chain{'s' if chains > 1 else ''}"
            time_axes.plot(
                [row["records"] for row in here], [row["seconds"] for row in here], label=label, **_hollow(i)
            )
        time_axes.set(xscale="log", yscale="log", xlabel="records", ylabel="CPU seconds")
        style.plain_logarithm(time_axes.xaxis)
        style.plain_logarithm(time_axes.yaxis)
        axes.legend()
        time_axes.legend()
        for file in style.save(figure, out.with_suffix("")):
            print(f"wrote {file}")


def _rows(results: Path, name: str) -> list[Row]:
    found: list[Row] = json.loads((results / f"{name}.json").read_text())["rows"]
    return found


def _hollow(i: int) -> Row:
    return {"markerfacecolor": "white", **style.look(i)}


def _curves(rows: list[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["curve"], []).append(row)
    return found


def main() -> None:
    """Fit, print and draw."""
    results, out = Path(sys.argv[1]), Path(sys.argv[2])
    files = {"one core": "growth-cpu", "H200": "growth-gpu"}
    found = {name: _rows(results, file) for name, file in files.items()}
    for name, rows in found.items():
        print(report(name, Formula(rows)))
    draw(found, out)
    draw_devices(_rows(results, "devices"), out.with_name(out.name + "-devices"))
    draw_memory(results, out.with_name(out.name + "-memory"))


if __name__ == "__main__":
    main()
