"""Ensembles for scikit-learn: a classifier and a regressor that fit on a budget and choose the rest by the data."""

try:
    import sklearn as sklearn
except ImportError as error:
    raise ImportError(
        "trajens.estimators must have scikit-learn 1.6 or newer, got none; install trajens[sklearn], for instance with "
        "pip install 'trajens[sklearn]'."
    ) from error

from trajens.estimators.classifier import TrajectoryEnsembleClassifier
from trajens.estimators.regressor import TrajectoryEnsembleRegressor

__all__ = ["TrajectoryEnsembleClassifier", "TrajectoryEnsembleRegressor"]
