"""Paths used for prediction: models that vote, or whose probabilities or outputs are averaged."""

import warnings
from typing import Any

from trajens.ensemble.ensemble import Ensemble, model_of
from trajens.ensemble.members import CHUNK, Applied, Predictor
from trajens.ensemble.scores import (
    RegressionScores,
    Scores,
    calibrated_scores,
    expected_calibration_error,
    ood_scores,
    regression_scores,
    scores,
    vote,
)
from trajens.ensemble.selection import chosen_chains, drawn_paths, has_draws, last_paths

__all__ = [
    "CHUNK",
    "Applied",
    "Ensemble",
    "Predictor",
    "RegressionScores",
    "Scores",
    "calibrated_scores",
    "chosen_chains",
    "drawn_paths",
    "expected_calibration_error",
    "has_draws",
    "last_paths",
    "model_of",
    "ood_scores",
    "regression_scores",
    "scores",
    "vote",
]


def __getattr__(name: str) -> Any:
    if name == "outside_scores":
        message = (
            "trajens.ensemble.outside_scores is now called ood_scores, and its old name will go in the next version."
        )
        warnings.warn(message, FutureWarning, stacklevel=2)
        return ood_scores
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
