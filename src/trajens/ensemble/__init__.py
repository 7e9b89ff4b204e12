"""Paths used for prediction: models that vote, or whose probabilities or outputs are averaged."""

from trajens.ensemble.ensemble import Ensemble, chosen_chains, model_of
from trajens.ensemble.members import CHUNK, Applied, Predictor
from trajens.ensemble.scores import (
    RegressionScores,
    Scores,
    calibrated_scores,
    expected_calibration_error,
    outside_scores,
    regression_scores,
    scores,
    vote,
)

__all__ = [
    "CHUNK",
    "Applied",
    "Ensemble",
    "Predictor",
    "RegressionScores",
    "Scores",
    "calibrated_scores",
    "chosen_chains",
    "expected_calibration_error",
    "model_of",
    "outside_scores",
    "regression_scores",
    "scores",
    "vote",
]
