"""All that ``import trajens`` offers; loaded with JAX when the first of it is asked for."""

from trajens import acceptance, convergence, datasets, exact, losses, models, moves, randomness, schedule
from trajens.acceptance import AcceptanceTest, Barker, Metropolis, MinibatchBarker, Penalty, paper_test
from trajens.convergence import Converged
from trajens.ensemble import Ensemble
from trajens.errors import InputError, Stopped, StorageError
from trajens.host import external
from trajens.losses import PairLoss
from trajens.moves import BalancedMixture, CentreOfMass, LayerMove, Mixture, Move, Segment, SingleSite
from trajens.moves.scan import Checkerboard, RandomScan, Scan
from trajens.problem import Problem
from trajens.pytorch import from_torch
from trajens.run.audits import Audit, audit
from trajens.run.progress import Progress
from trajens.run.resume import resume
from trajens.run.run import Run, sample
from trajens.run.stored import StoredRun
from trajens.run.train import train
from trajens.sampling.exchange import Exchange
from trajens.sampling.sampler import Sampler
from trajens.sampling.settings import Settings
from trajens.storage.directory import RunDirectory
from trajens.stream import Stream
from trajens.target import Target

__all__ = [
    "AcceptanceTest",
    "Audit",
    "BalancedMixture",
    "Barker",
    "CentreOfMass",
    "Checkerboard",
    "Converged",
    "Ensemble",
    "Exchange",
    "InputError",
    "LayerMove",
    "Metropolis",
    "MinibatchBarker",
    "Mixture",
    "Move",
    "PairLoss",
    "Penalty",
    "Problem",
    "Progress",
    "RandomScan",
    "Run",
    "RunDirectory",
    "Sampler",
    "Scan",
    "Segment",
    "Settings",
    "SingleSite",
    "Stopped",
    "StorageError",
    "StoredRun",
    "Stream",
    "Target",
    "acceptance",
    "audit",
    "convergence",
    "datasets",
    "exact",
    "external",
    "from_torch",
    "losses",
    "models",
    "moves",
    "paper_test",
    "randomness",
    "resume",
    "sample",
    "schedule",
    "train",
]
