"""What can be refused of options before their data are read: for those who start many runs and want to know first."""

from __future__ import annotations

from functools import cache

import numpy as np

from trajens import datasets, schedule
from trajens.errors import integer
from trajens.experiments.experiment import Experiment
from trajens.experiments.kinds import tilts
from trajens.experiments.options import Config
from trajens.experiments.parts import move_of
from trajens.problem import Problem
from trajens.sampling import marks
from trajens.sampling.adapted import MAX_EPOCHS
from trajens.sampling.settings import Settings
from trajens.target import Target, path_length


def require_sound(config: Config) -> None:
    """Refuse what no data could make right: lengths, numbers, moves and scans; a test needs the size of the data."""
    experiment, values, annealing = Experiment(config), *tilts(config.s if config.s is not None else 1.0)
    tau, chains = path_length(config.tau), experiment.chains
    s = np.repeat(values, chains // len(values))
    law = s if annealing is None else schedule.exponential(*annealing, integer("anneal", config.anneal, 1, "try 1000"))
    prior = None if config.prior == "flat" else config.prior
    target = Target(_stand_in(), tau, 1.0 if config.sigma is None else config.sigma, law, prior)
    burn_in = config.burn_in or 0
    move = move_of(config, config.fraction)
    Settings(chains, config.seed, burn_in, move, scan=experiment.scan, ahead=config.ahead).checked(target)
    if config.epochs is not None:
        epochs = integer("epochs", config.epochs, 1, "one epoch is one proposal", MAX_EPOCHS)
        marks.count(epochs, burn_in, integer("records", config.records, 1, "try 200"))


@cache
def _stand_in() -> Problem:
    """Two examples in place of the data."""
    return datasets.perceptron(0, 2).problem()
