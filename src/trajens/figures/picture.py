"""One picture of a run: loss, acceptance and batch, accuracy against members, what the members disagree on."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np

from trajens.datasets import Labelled
from trajens.ensemble import Ensemble, scores, vote
from trajens.errors import integer, require
from trajens.figures import style
from trajens.files import storage_errors, write_atomically
from trajens.records import Records
from trajens.storage.stored import StoredRun

_DIGITS = (3, 6)


def draw(file: Path, run: StoredRun, ensemble: Ensemble, data: Labelled, name: str, chain: int = 0) -> None:
    """Write a picture of one chain of a run.

    Parameters
    ----------
    file : Path
        Ends in .png or .pdf; its folder is made if need be.
    run : StoredRun
        Whose records are drawn.
    ensemble : Ensemble
        The path of the chain.
    data : Labelled
        Inputs the ensemble is tried on.
    name : str
        What they are, as in "the test set".
    chain : int
    """
    style.require_matplotlib()
    require(file.suffix in (".png", ".pdf"), f"out must end in .png or .pdf, got '{file}'; choose one of them.")
    records = run.records
    require(bool(records), f"'{run.path}' must hold a record to draw, got none; train longer.")
    chain = integer("chain", chain, 0, "count from 0", len(records["epoch"]) - 1)
    curves = {column: values[chain] for column, values in records.items()}
    probabilities = ensemble.member_proba(data.x)
    with style.journal_style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(2 * style.COLUMN_WIDTH, 5.2))
        (left, right), (low_left, low_right) = figure.subplots(2, 2)
        _draw_loss(left, curves)
        _draw_work(right, curves)
        _draw_members(low_left, scores(probabilities, data.y), name)
        _draw_doubts(figure, low_right, probabilities, data)
        content = io.BytesIO()
        figure.savefig(content, format=file.suffix[1:])
    with storage_errors(file):
        file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, content.getvalue())


def _draw_loss(axes: Any, curves: Records) -> None:
    axes.plot(curves["epoch"], curves["loss"], color=style.COLOURS[0])
    axes.set(xlabel="epoch", ylabel="loss per model", ylim=(0, None))
    if len(set(curves["s"])) > 1:
        tilt = axes.twinx()
        tilt.plot(curves["epoch"], curves["s"], color=style.COLOURS[1], linestyle="--")
        tilt.set(ylabel="$s$ (dashed)", ylim=(0, None))
        axes.tick_params(right=False, which="both")


def _draw_work(axes: Any, curves: Records) -> None:
    axes.plot(curves["epoch"], curves["acceptance"], color=style.COLOURS[2])
    axes.set(xlabel="epoch", ylabel="acceptance", ylim=(0, 1))
    batch = axes.twinx()
    batch.plot(curves["epoch"], curves["batch_size"], color=style.COLOURS[3], linestyle="--")
    batch.set(ylabel="mean batch (dashed)", ylim=(0, None))
    axes.tick_params(right=False, which="both")


def _draw_members(axes: Any, numbers: dict[str, Any], name: str) -> None:
    by_members = numbers["accuracy_by_members"]
    members = np.arange(1, len(by_members) + 1)
    axes.plot(members, by_members, color=style.COLOURS[0], marker="o", markerfacecolor="white", label="vote")
    axes.axhline(numbers["mean_accuracy"], color=style.COLOURS[1], linestyle="--", label="mean probability, all")
    axes.axhline(numbers["single_accuracy"], color=style.COLOURS[6], linestyle=":", label="single model, mean")
    axes.set(xlabel=r"members $1, \ldots, n$ of the path", ylabel=f"accuracy on {name}")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.legend()


def _draw_doubts(figure: Any, axes: Any, probabilities: np.ndarray, data: Labelled) -> None:
    """The inputs on whose label the fewest members agree; of equals, those with the largest entropy."""
    chosen = vote(probabilities)
    agreement = (probabilities.argmax(-1) == chosen).mean(0)
    mean = probabilities.mean(0)
    entropy = -(mean * np.log(np.maximum(mean, 1e-38))).sum(-1)
    order = np.lexsort((-entropy, agreement))[: _DIGITS[0] * _DIGITS[1]]
    axes.set_axis_off()
    if data.x.ndim != 3:
        lines = [f"example {i}: label {data.y[i]}, vote {chosen[i]} ({agreement[i]:.0%})" for i in order[:12]]
        axes.text(0, 1, "members disagree most on\n" + "\n".join(lines), va="top", transform=axes.transAxes)
        return
    axes.set_title("members disagree most: vote (label)", fontsize=9)
    for k, i in enumerate(order):
        row, column = divmod(k, _DIGITS[1])
        place = (column / _DIGITS[1], 1 - (row + 1) / _DIGITS[0], 0.9 / _DIGITS[1], 0.78 / _DIGITS[0])
        tile = axes.inset_axes(place)
        tile.imshow(data.x[i], cmap="gray_r", interpolation="nearest")
        tile.set(xticks=[], yticks=[])
        is_right = chosen[i] == data.y[i]
        tile.set_title(
            f"{chosen[i]} ({data.y[i]})", fontsize=7, pad=1.5, color="black" if is_right else style.COLOURS[1]
        )
