"""Experiments: a table of options, and the run they mean. The library itself knows nothing of them."""

from trajens.experiments.experiment import Experiment
from trajens.experiments.options import Config
from trajens.experiments.resolving import resolve

__all__ = ["Config", "Experiment", "resolve"]
