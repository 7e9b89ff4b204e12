"""The name that `trajens.app` had before, for what users were offered of it; it goes in the next version."""

import warnings

from trajens.app.config import Config
from trajens.app.experiment import Experiment
from trajens.app.resolve import resolve

__all__ = ["Config", "Experiment", "resolve"]

warnings.warn(
    "trajens.experiments is now trajens.app: from trajens.app.experiment import Experiment, and from "
    "trajens.app.resolve import resolve; the old name will go in the next version.",
    FutureWarning,
    stacklevel=2,
)
