"""trajens: neural network ensembles by Monte Carlo in the space of trajectories, without gradients."""

from trajens import datasets, exact, models, schedule
from trajens.acceptance import Barker, Metropolis, MinibatchBarker, Penalty, paper_test
from trajens.directory import RunDirectory
from trajens.ensemble import Ensemble
from trajens.errors import InputError, StorageError
from trajens.moves import CentreOfMass, Mixture, Segment, SingleSite
from trajens.problem import Problem
from trajens.progress import Progress
from trajens.run import Run, sample
from trajens.scan import Checkerboard, RandomScan
from trajens.target import Target

__version__ = "0.1.0"

__all__ = [
    "Barker",
    "CentreOfMass",
    "Checkerboard",
    "Ensemble",
    "InputError",
    "Metropolis",
    "MinibatchBarker",
    "Mixture",
    "Penalty",
    "Problem",
    "Progress",
    "RandomScan",
    "Run",
    "RunDirectory",
    "Segment",
    "SingleSite",
    "StorageError",
    "Target",
    "datasets",
    "exact",
    "models",
    "paper_test",
    "sample",
    "schedule",
]
