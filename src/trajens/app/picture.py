"""One picture of a run: its loss with that of its start, acceptance and batch, its members together, and its doubts.

The last two panels show accuracy and the inputs that members disagree on for classifiers, and the error of the mean and
predictions against the truth for regressors. A run on episodes shows return against steps, episodes per decision
against s, and who acts how well.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from trajens.app.evaluation import Acting, curve
from trajens.app.report.heat_map import is_picture, picture
from trajens.app.report.history import PAIRS, is_steep
from trajens.app.report.numerals import whole_percent
from trajens.app.report.words import loss_unit
from trajens.datasets import Labelled
from trajens.ensemble import Ensemble, RegressionScores, Scores, chosen_chains, vote
from trajens.errors import require
from trajens.files import write_with_folder
from trajens.plots import style
from trajens.records import Records, Started, learning_curve
from trajens.rl.evaluation import Score
from trajens.run.advice import RunFacts
from trajens.run.stored import StoredRun

_DIGITS = (3, 6)
_POINTS = 200
"""Predictions that are drawn with error bars."""
_LABELS = {"single": "single", "best": "best\nsingle", "vote": "vote", "mean": "mean"}


def draw(
    file: Path, run: StoredRun, ensemble: Ensemble, data: Labelled, name: str, chain: int | str | None = None
) -> None:
    """Write a picture of one chain of a run, or of all chains.

    Parameters
    ----------
    file : Path
        Ends in .png or .pdf; its folder is made if need be.
    run : StoredRun
        Whose records are drawn.
    ensemble : Ensemble
        The paths of these chains.
    data : Labelled
        Inputs the ensemble is tried on.
    name : str
        What they are, as in "the test set".
    chain : int or str
        Over whose records is averaged; default all, where they are of one s.
    """
    records = drawable(file, run)
    chosen = chosen_chains(chain, len(records["epoch"]), run.s)
    curves = {column: values[chosen].mean(0) for column, values in records.items()}
    last_panels = _draw_classes if ensemble.is_classifier else _draw_numbers

    def drawn(panels: Any) -> None:
        (left, right), (low_left, low_right) = panels
        begun = RunFacts.of(run).started(chosen)
        if begun is None:
            _draw_loss(left, curves, loss_unit(run))
        else:
            _draw_learning(left, learning_curve(run.start_records, records, chosen), begun, loss_unit(run))
            _draw_tilt(left, *learning_curve(run.start_records, records, chosen, "s"))
        draw_work(right, curves)
        last_panels(low_left, low_right, ensemble, data, name)

    write_picture(file, drawn)


def drawable(file: Path, run: StoredRun) -> Records:
    """The records of a run that can be drawn into a file."""
    style.require_matplotlib()
    require(file.suffix in (".png", ".pdf"), f"out must end in .png or .pdf, got '{file}'; choose one of them.")
    records = run.records
    require(bool(records), f"'{run.path}' must hold a record to draw, got none; train longer.")
    return records


def write_picture(file: Path, drawn: Callable[[Any], None]) -> None:
    """Write a picture of two by two panels, which `drawn` is given."""
    with style.journal_style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(2 * style.COLUMN_WIDTH, 5.2))
        drawn(figure.subplots(2, 2))
        content = io.BytesIO()
        figure.savefig(content, format=file.suffix[1:])
    write_with_folder(file, content.getvalue())


def _draw_loss(axes: Any, curves: Records, unit: str) -> None:
    axes.plot(curves["epoch"], curves["loss"], color=style.COLOURS[0])
    axes.set(xlabel="epoch", ylabel=f"loss per model ({unit})", ylim=(0, None))
    if len(set(curves["s"])) > 1:
        _draw_tilt(axes, curves["epoch"], curves["s"])


def _draw_learning(axes: Any, curve: tuple[np.ndarray, np.ndarray], begun: Started, unit: str) -> None:
    """The loss of a start, which is shaded, and of the path after it, against the pairs that they took."""
    from matplotlib.ticker import EngFormatter

    pairs, loss = curve
    axes.axvspan(0, begun.pairs, color="0.92", linewidth=0)
    axes.plot(pairs, loss, color=style.COLOURS[0])
    axes.set(xlabel=PAIRS, ylabel=f"loss per model ({unit})", xlim=(0, pairs[-1]))
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    if is_steep(loss):
        axes.set_yscale("log")
        style.plain_logarithm(axes.yaxis)
    share = whole_percent(begun.share)
    axes.set_title(f"start by {begun.way} (shaded, {share} of the budget), then the path", fontsize=9)


def _draw_tilt(axes: Any, x: np.ndarray, s: np.ndarray) -> None:
    """The tilt on an axis to the right."""
    tilt = axes.twinx()
    tilt.plot(x, s, color=style.COLOURS[1], linestyle="--")
    tilt.set(ylabel="$s$ (dashed)", ylim=(0, 1.1 * s.max()))
    axes.tick_params(right=False, which="both")


def draw_work(axes: Any, curves: Records) -> None:
    """Acceptance and mean batch."""
    axes.plot(curves["epoch"], curves["acceptance"], color=style.COLOURS[2])
    axes.set(xlabel="epoch", ylabel="acceptance rate", ylim=(0, 1))
    batch = axes.twinx()
    batch.plot(curves["epoch"], curves["batch_size"], color=style.COLOURS[3], linestyle="--")
    batch.set(ylabel="mean batch (dashed)", ylim=(0, None))
    axes.tick_params(right=False, which="both")


def _draw_classes(left: Any, right: Any, ensemble: Ensemble, data: Labelled, name: str) -> None:
    """How accurate more and more members are, and what they disagree on."""
    found = Scores(len(ensemble.path), ensemble.model.outputs)
    y = found.labels(data.y, len(data.x))
    parts = []
    for place, probabilities in ensemble.parts(data.x):
        found.add(probabilities, y[place])
        chosen, mean = vote(probabilities), probabilities.mean(0)
        entropy = -(mean * np.log(np.maximum(mean, 1e-38))).sum(-1)
        parts.append((chosen, (probabilities.argmax(-1) == chosen).mean(0), entropy))
    _draw_accuracy(left, found.result(), name)
    _draw_doubts(right, data, *(np.concatenate(column) for column in zip(*parts, strict=True)))


def _draw_numbers(left: Any, right: Any, ensemble: Ensemble, data: Labelled, name: str) -> None:
    """How exact the mean of more and more members is, and predictions against the truth."""
    found = RegressionScores(len(ensemble.path))
    y = found.labels(data.y, len(data.x))
    parts = []
    for place, outputs in ensemble.parts(data.x):
        found.add(outputs, y[place])
        parts.append((outputs.mean(0, np.float64), outputs.std(0, np.float64)))
    _draw_error(left, found.result(), name)
    _draw_truth(right, y, *(np.concatenate(column) for column in zip(*parts, strict=True)))


def _draw_accuracy(axes: Any, numbers: dict[str, Any], name: str) -> None:
    _draw_by_members(axes, numbers["accuracy_by_members"], "vote", f"accuracy on {name}")
    axes.axhline(numbers["mean_accuracy"], color=style.COLOURS[1], linestyle="--", label="mean probability, all")
    axes.axhline(numbers["single_accuracy"], color=style.COLOURS[6], linestyle=":", label="single model, mean")
    axes.legend()


def _draw_error(axes: Any, numbers: dict[str, Any], name: str) -> None:
    _draw_by_members(axes, numbers["rmse_by_members"], "mean of members", f"RMSE on {name}")
    axes.axhline(numbers["single_rmse"], color=style.COLOURS[6], linestyle=":", label="single model, mean")
    axes.legend()


def _draw_by_members(axes: Any, by_members: list[float], label: str, name: str) -> None:
    """A number of the first 1, 2, ... members."""
    members = np.arange(1, len(by_members) + 1)
    axes.plot(members, by_members, color=style.COLOURS[0], marker="o", markerfacecolor="white", label=label)
    axes.set(xlabel=r"members $1, \ldots, n$", ylabel=name)
    axes.xaxis.get_major_locator().set_params(integer=True)


def _draw_truth(axes: Any, y: np.ndarray, mean: np.ndarray, spread: np.ndarray) -> None:
    """Predictions against labels, of at most so many inputs, with the spread of the members."""
    some = np.unique(np.linspace(0, len(y) - 1, min(_POINTS, len(y))).round().astype(int))
    axes.axline((y[0], y[0]), slope=1, color=style.COLOURS[6], linestyle=":", linewidth=0.6)
    axes.errorbar(y[some], mean[some], spread[some], color=style.COLOURS[0], fmt="o", markersize=2.5, elinewidth=0.5)
    axes.set(xlabel="label", ylabel="mean and spread of the members")


def _draw_doubts(axes: Any, data: Labelled, chosen: np.ndarray, agreement: np.ndarray, entropy: np.ndarray) -> None:
    """The inputs on whose label the fewest members agree; of equals, those with the largest entropy."""
    order = np.lexsort((-entropy, agreement))[: _DIGITS[0] * _DIGITS[1]]
    axes.set_axis_off()
    if data.x.ndim != 3 and not is_picture(data.x.shape[1:]):
        lines = [f"example {i}: label {data.y[i]}, vote {chosen[i]} ({agreement[i]:.0%})" for i in order[:12]]
        axes.text(0, 1, "members disagree most on\n" + "\n".join(lines), va="top", transform=axes.transAxes)
        return
    axes.set_title("members disagree most: vote (label)", fontsize=9)
    for k, i in enumerate(order):
        row, column = divmod(k, _DIGITS[1])
        place = (column / _DIGITS[1], 1 - (row + 1) / _DIGITS[0], 0.9 / _DIGITS[1], 0.78 / _DIGITS[0])
        tile = axes.inset_axes(place)
        tile.imshow(picture(data.x[i]), cmap="gray_r", interpolation="nearest")
        tile.set(xticks=[], yticks=[])
        is_right = chosen[i] == data.y[i]
        tile.set_title(
            f"{chosen[i]} ({data.y[i]})", fontsize=7, pad=1.5, color="black" if is_right else style.COLOURS[1]
        )


def draw_returns(file: Path, run: StoredRun, acting: Acting, chain: int | str | None = None) -> None:
    """Write a picture of one chain of a run, or of all chains.

    Parameters
    ----------
    file : Path
        Ends in .png or .pdf; its folder is made if need be.
    run : StoredRun
    acting : Acting
        The policies of these chains.
    chain : int or str
        Over whose records is averaged; default all, where they are of one s.
    """
    records = drawable(file, run)
    chosen = chosen_chains(chain, len(records["epoch"]), run.s)
    curves = {column: values[chosen].mean(0) for column, values in records.items()}
    scores = acting.scores()

    def drawn(panels: Any) -> None:
        (left, right), (low_left, low_right) = panels
        _draw_return(left, *(values[chosen].mean(0) for values in curve(acting.episodes, records)))
        _draw_batch(right, curves)
        draw_work(low_left, curves)
        _draw_scores(low_right, scores)

    write_picture(file, drawn)


def _draw_return(axes: Any, steps: np.ndarray, returns: np.ndarray, error: np.ndarray) -> None:
    axes.fill_between(steps, returns - error, returns + error, color=style.COLOURS[0], alpha=0.25, linewidth=0)
    axes.plot(steps, returns, color=style.COLOURS[0])
    axes.set(xlabel="steps of the environment, decisions", ylabel="return per model")


def _draw_batch(axes: Any, curves: Records) -> None:
    axes.plot(curves["s"], curves["batch_size"], color=style.COLOURS[3], marker="o", markerfacecolor="white")
    axes.set(xlabel="$s$", ylabel="episodes per decision", ylim=(0, None), xscale="log")


def _draw_scores(axes: Any, scores: dict[str, Score]) -> None:
    for place, score in enumerate(scores.values()):
        axes.errorbar(place, score.mean, score.stderr, color=style.COLOURS[place], fmt="o", capsize=3)
    axes.set_xticks(range(len(scores)), [_LABELS[how] for how in scores])
    axes.set(ylabel="return in fresh episodes", xlim=(-0.5, len(scores) - 0.5))
