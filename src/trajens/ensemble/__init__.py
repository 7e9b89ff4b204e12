"""Paths used for prediction: models that vote, or whose probabilities or outputs are averaged."""

from trajens.ensemble.chains import chosen_chains
from trajens.ensemble.classification import (
    Scores,
    calibrated_scores,
    expected_calibration_error,
    outside_scores,
    scores,
    vote,
)
from trajens.ensemble.ensemble import Ensemble, model_of
from trajens.ensemble.members import CHUNK
from trajens.ensemble.predictor import Applied, Predictor
from trajens.ensemble.regression import RegressionScores, regression_scores

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
