"""One picture of a run on episodes: return against steps, episodes per decision against s, and who acts how well."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from trajens.ensemble import chosen_chains
from trajens.experiments.acting import Acting, curve
from trajens.figures import style
from trajens.figures.picture import draw_work, drawable, written
from trajens.records import Records
from trajens.rl.scores import Score
from trajens.storage.stored import StoredRun

_LABELS = {"single": "single", "best": "best\nsingle", "vote": "vote", "mean": "mean"}


def draw_returns(file: Path, run: StoredRun, acting: Acting, chain: int | str = 0) -> None:
    """Write a picture of one chain of a run, or of all chains.

    Parameters
    ----------
    file : Path
        Ends in .png or .pdf; its folder is made if need be.
    run : StoredRun
    acting : Acting
        The policies of the chain, or of all chains.
    chain : int or str
        With "all", records are averaged over chains.
    """
    records = drawable(file, run)
    chosen = chosen_chains(chain, len(records["epoch"]))
    curves = {column: values[chosen].mean(0) for column, values in records.items()}
    scores = acting.scores()

    def drawn(panels: Any) -> None:
        (left, right), (low_left, low_right) = panels
        _draw_return(left, *(values[chosen].mean(0) for values in curve(acting.episodes, records)))
        _draw_batch(right, curves)
        draw_work(low_left, curves)
        _draw_scores(low_right, scores)

    written(file, drawn)


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
