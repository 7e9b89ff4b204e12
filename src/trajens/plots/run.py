"""Figures of a run and of an ensemble: what it does against epochs, the loss against s, and how reliable it is.

Each takes axes of Matplotlib, or makes them, and returns them. Matplotlib is loaded when one is drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from trajens import exact as closed_forms
from trajens.columns import BY_NAME
from trajens.datasets.perceptron import perceptron_loss
from trajens.ensemble.uncertainty import Predictions, reliability
from trajens.errors import choice, require
from trajens.plots import style
from trajens.records import Records, chains_by_s, learning_curve, way_of
from trajens.run.stored import HasRecords
from trajens.run.tables import rows_by_s

EPOCHS, PAIRS = "epochs", "pairs"
_PANELS = ("loss", "s", "acceptance", "batch_size")
_PAIRS_LABEL = "pairs of losses evaluated (per chain)"
_DECADE = 10.0
_CURVE = 200
"""Points of an exact curve."""


class DrawnCurve(NamedTuple):
    """A curve of the chains of one s, and where it is drawn."""

    label: str
    x: np.ndarray
    chains: np.ndarray


def plot_run(run: HasRecords, axes: Any = None, against: str | None = None) -> Any:
    """Loss, s, acceptance rate and mean batch of a run, in the mean over the chains of every s.

    Bands are standard errors over chains. A run with a start that took pairs of losses has its loss drawn too, dashed,
    and the end of burn-in is a vertical line.

    Parameters
    ----------
    run : Run or StoredRun
    axes : array of four axes of Matplotlib, optional
        Default those of a new figure.
    against : "epochs" or "pairs", optional
        What is drawn against: proposals per chain, or pairs of losses evaluated; default epochs, or pairs where the
        run has such a start, which has no epochs.

    Returns
    -------
    array of four axes
    """
    records, start = run.records, run.start_records
    require(bool(records), "a run must have a record to be drawn, got none yet; extend it.")
    usual = PAIRS if start else EPOCHS
    against = usual if against is None else choice("against", against, (EPOCHS, PAIRS))
    panels = _given(axes, len(_PANELS))
    x = records["epoch"] if against == EPOCHS else records["data_used"]
    groups = chains_by_s(records["s"][:, -1], 4)
    curves = [DrawnCurve(f"$s = {value:.4g}$", x[chains].mean(0), chains) for value, chains in groups]
    for name, panel in zip(_PANELS, panels, strict=True):
        for k, curve in enumerate(curves):
            _draw_band(panel, curve, records[name][curve.chains], style.COLOURS[k % len(style.COLOURS)])
        panel.set(xlabel="epoch" if against == EPOCHS else _PAIRS_LABEL, ylabel=_label(name))
        at_end = _at_burn_in(x, records, run.burn_in)
        if at_end is not None:
            panel.axvline(at_end, color="0.6", linewidth=0.6, linestyle=":")
        style.engineering(panel.xaxis)
        _scale(panel, np.concatenate([records[name][curve.chains].mean(0) for curve in curves]))
    if start and against == PAIRS:
        pairs, loss = learning_curve(start, {})
        panels[0].plot(pairs, loss, color="0.4", linestyle="--", label=f"start by {way_of(start)}")
    if len(curves) > 1 or (start and against == PAIRS):
        panels[0].legend()
    return panels


def _scale(axes: Any, values: np.ndarray) -> None:
    """A logarithmic scale where values are more than a decade apart."""
    if values.min() > 0 and values.max() > _DECADE * values.min():
        axes.set_yscale("log")
        style.plain_logarithm(axes.yaxis)


def _draw_band(axes: Any, curve: DrawnCurve, values: np.ndarray, colour: str) -> None:
    mean = values.mean(0)
    if len(values) > 1:
        error = values.std(0, ddof=1) / np.sqrt(len(values))
        axes.fill_between(curve.x, mean - error, mean + error, color=colour, alpha=0.25, linewidth=0)
    axes.plot(curve.x, mean, color=colour, label=curve.label)


def _at_burn_in(x: np.ndarray, records: Records, burn_in: int) -> float | None:
    """Where burn-in ends on the axis that is drawn against; None where the run has not come so far."""
    epochs = records["epoch"][0]
    if not 0 < burn_in <= epochs[-1]:
        return None
    return float(np.interp(burn_in, epochs, x.mean(0)))


def plot_by_s(run: HasRecords, exact: Any = None, axes: Any = None) -> Any:
    """Mean loss per model after burn-in against s, with error bars.

    Parameters
    ----------
    run : Run or StoredRun
    exact : callable or bool, optional
        The exact loss per model as a function of s, drawn as a line. True takes that of the linear perceptron, for a
        run on ``tj.datasets.perceptron``. Default: that where it is known, else none; False draws none.
    axes : axes of Matplotlib, optional
        Default those of a new figure.

    Returns
    -------
    axes
    """
    rows = rows_by_s(run.records, run.burn_in)
    require(len(rows) > 0, "a run must have a record after burn-in to be drawn, got none yet; extend it.")
    curve = exact if callable(exact) else _closed_form(run)
    require(
        exact is not True or curve is not None,
        f"exact must be a function of s for {getattr(run, 'target', 'a stored run')}, whose exact loss is not known, "
        "got True; give one, for instance lambda s: tj.exact.perceptron(x, y, tau, sigma, s, prior).loss.",
    )
    require(
        exact is None or isinstance(exact, bool) or callable(exact),
        f"exact must be a function of s, True or False, got {type(exact).__name__}; try lambda s: ...",
    )
    (panel,) = _given(axes, 1)
    s, loss, stderr, mcse = (rows[name] for name in ("s", "loss", "loss_stderr", "loss_mcse"))
    error = np.nan_to_num(np.where(np.isfinite(stderr), stderr, mcse))
    is_log = len(s) > 1 and s[0] > 0 and s[-1] / s[0] > 5
    panel.errorbar(s, loss, error, fmt="o", markerfacecolor="white", color=style.COLOURS[0], label="sampled")
    if curve is not None and exact is not False:
        low, high = (s[0], s[-1]) if len(s) > 1 else (s[0] / 2, 2 * s[0])
        at = np.geomspace(low, high, _CURVE) if is_log else np.linspace(low, high, _CURVE)
        panel.plot(at, _values(curve, at), color="black", label="exact", zorder=1)
        panel.legend()
    if is_log:
        panel.set_xscale("log")
        style.plain_logarithm(panel.xaxis)
    panel.set(xlabel="$s$", ylabel="mean loss per model")
    return panel


def _values(curve: Callable[[float], float], at: np.ndarray) -> np.ndarray:
    """Numbers, one for every s; or an `InputError`."""
    found = [np.asarray(curve(float(one))) for one in at]
    shapes = {one.shape for one in found}
    require(shapes == {()}, f"exact must give one number for every s, got shape {max(shapes)}; give that of the loss.")
    return np.array(found)


def _closed_form(run: HasRecords) -> Callable[[float], float] | None:
    """The exact loss as a function of s, of a run on the linear perceptron; None of another."""
    target = getattr(run, "target", None)
    if target is None or target.problem.loss is not perceptron_loss or target.schedule is not None:
        return None
    data = target.problem.data
    return lambda s: closed_forms.perceptron(data.x, data.y, target.tau, target.sigma, s, target.prior).loss


def plot_reliability(predictions: Predictions, y: np.ndarray, axes: Any = None) -> Any:
    """Share of right answers against the probability of the class that is answered, in bins of equal mass.

    Parameters
    ----------
    predictions : Predictions
        What an ensemble says of inputs, `Ensemble.summarise_predictions`.
    y : (n,)
        Their labels.
    axes : axes of Matplotlib, optional
        Default those of a new figure.

    Returns
    -------
    axes
    """
    (panel,) = _given(axes, 1)
    shape = predictions.confidence.shape
    require(np.shape(y) == shape, f"y must have one label per input, shape {shape}, got {np.shape(y)}; check it.")
    found = reliability(predictions.confidence, predictions.is_right(y))
    count = found.weight * len(y)
    # Of a bin with n answers, of which a share p is right.
    error = np.sqrt(found.accuracy * (1 - found.accuracy) / np.maximum(count, 1))
    low = max(0.0, float(min(found.confidence.min(), (found.accuracy - error).min())) - 0.05)
    panel.plot([low, 1], [low, 1], color="0.6", linestyle="--", label="calibrated")
    panel.errorbar(
        found.confidence,
        found.accuracy,
        error,
        color=style.COLOURS[0],
        marker="o",
        markerfacecolor="white",
        label=f"ECE {found.expected_error:.3f}",
    )
    panel.set(xlabel="probability of the answer", ylabel="share that is right", xlim=(low, 1.02), ylim=(low, 1.02))
    panel.legend()
    return panel


def _label(name: str) -> str:
    column = BY_NAME[name]
    return {"s": "$s$"}.get(name, column.title)


def _given(axes: Any, count: int) -> np.ndarray:
    """The axes that were given, or those of a new figure of pyplot, which a notebook shows by itself."""
    style.require_matplotlib()
    if axes is None:
        import matplotlib.pyplot as plt

        shape = (1, 1) if count == 1 else (2, count // 2)
        width, height = style.COLUMN_WIDTH, 2.6
        _, axes = plt.subplots(
            *shape, figsize=(shape[1] * width, shape[0] * height), layout="constrained", squeeze=False
        )
    found = np.asarray(axes, dtype=object).reshape(-1)
    are_axes = len(found) == count and all(hasattr(one, "errorbar") for one in found)
    require(are_axes, f"axes must be {count} of Matplotlib, got {axes!r}; leave them out for new ones.")
    return found
