"""Scores in words, the best known first; a form for each."""

from __future__ import annotations

from typing import Any, NamedTuple

from trajens.report import numerals
from trajens.report.chart import Shown
from trajens.report.trial import Trial


class Score(NamedTuple):
    """A number that an ensemble is judged by: its key, what it is called, and what it means."""

    key: str
    words: str
    shown: Shown
    meaning: str


CLASSIFIER = (
    Score("vote_accuracy", "accuracy of the vote", numerals.percent, "the class most models choose is right"),
    Score(
        "mean_accuracy", "accuracy of the mean", numerals.percent, "the class of the largest mean probability is right"
    ),
    Score("single_accuracy", "accuracy of one model", numerals.percent, "mean over models"),
    Score("nll", "negative log-likelihood", numerals.number, "nats per example, of the mean probabilities"),
    Score("ece", "calibration error", numerals.percent, "mean |accuracy - confidence|, 0 is best"),
    Score("brier", "Brier score", numerals.number, "squared error of probabilities, 0 is best"),
    Score("disagreement", "disagreement", numerals.percent, "two models choose different classes"),
)
REGRESSOR = (
    Score("rmse", "error of the mean", numerals.number, "root mean square, in the units of the labels"),
    Score("r2", "R², variance explained", numerals.percent, "100 % is best"),
    Score("single_rmse", "error of one model", numerals.number, "root mean square, mean over models"),
    Score("spread", "spread of the models", numerals.number, "root mean square, in the units of the labels"),
    Score("coverage_68", "labels within 68 %", numerals.percent, "of the normal law of the models alone"),
    Score("nll", "negative log-likelihood", numerals.number, "nats per example, of that normal law"),
)


def scores_of(trial: Trial) -> list[tuple[Score, str]]:
    """Every score and how it reads."""
    found: dict[str, Any] = trial.scores
    return [(score, score.shown(found[score.key])) for score in (REGRESSOR if trial.said is None else CLASSIFIER)]
