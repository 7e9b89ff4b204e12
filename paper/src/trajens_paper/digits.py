"""The runs on handwritten digits that the figures mnist, curves and drift are drawn from: found, or sampled and kept.

The setup is the paper's: its test, models redrawn one at a time with a mask of 25 %, all 60 000 digits, no annealing,
and the flat prior that its moves imply. Two networks: the paper's convolutional one, and, where an answer is wanted
within a minute, softmax regression on digits averaged to 7 x 7 pixels (500 parameters), which shows the same things.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

import trajens as tj
from trajens.app.config import Config
from trajens.app.experiment import Experiment
from trajens.app.resolve import resolve
from trajens.datasets import Labelled
from trajens.ensemble import Ensemble, model_of
from trajens.errors import require
from trajens.files import storage_errors, write_atomically
from trajens.records import Records, chains_by_s, mean_and_error
from trajens_paper.frame import RESULTS, Show

_SIDE = 7


@dataclass(frozen=True)
class Setup:
    """A network and how it is sampled, apart from tau and s.

    Attributes
    ----------
    is_small : bool
        Softmax regression on 7 x 7 pixels instead of the paper's network.
    sigma, chunk
    records : int
    """

    is_small: bool
    sigma: float = 0.05
    chunk: int = 240
    records: int = 100

    @property
    def network(self) -> str:
        """What is trained, in words."""
        return "softmax regression on 7 x 7 digits" if self.is_small else "the paper's network"


SMALL = Setup(True, sigma=0.1, chunk=60, records=40)
PAPER = Setup(False)


class Group(NamedTuple):
    """Independent runs with one tau and one s: records (runs, records) and the scores of their last paths."""

    tau: int
    s: float
    records: Records
    scores: list[dict[str, Any]]

    @property
    def runs(self) -> int:
        """How many."""
        return len(self.records["epoch"])

    def late(self, name: str) -> tuple[float, float]:
        """Mean of a record over the second half of the epochs, and its standard error over runs."""
        return mean_and_error(self.late_by_run(name))

    def late_by_run(self, name: str) -> np.ndarray:
        """The same for every run."""
        epoch = self.records["epoch"][0]
        return np.asarray(self.records[name][:, epoch > epoch[-1] / 2].mean(1))

    def score(self, name: str) -> tuple[float, float]:
        """Mean of a score of the last path, and its standard error over runs."""
        return mean_and_error(np.array([score[name] for score in self.scores]))


def found_results(name: str) -> Path | None:
    """The folder of a run below paper/results/mnist of the current folder, if there is one."""
    folder = Path.cwd() / RESULTS / "mnist" / name
    return folder if tj.StoredRun(folder).files.is_begun else None


def require_gpu() -> None:
    """Refuse what would take days on a CPU."""
    require(
        jax.default_backend() == "gpu",
        f"scale paper needs a GPU, or what was sampled for mnist, curves and transition in the folder {RESULTS} below "
        "the current one, got neither; change to the folder that holds it, or use --scale laptop.",
    )


def config_of(home: Path, setup: Setup, **options: Any) -> Config:
    """The options of a run; small digits are kept in `home`."""
    return resolve(_options(home, setup), options)


def sampled(folder: Path, config: Config, progress: bool | Show = False) -> tj.Run:
    """Sample a run into `folder`, go on with one that is there, or leave alone one that is complete."""
    return Experiment(config).run(out=folder, resume=folder.exists(), progress=progress)


def groups(folder: Path, scores_of_chains: Sequence[dict[str, Any]] = ()) -> list[Group]:
    """The runs in one folder by their s, with the scores of their last paths where these are given."""
    stored = tj.StoredRun(folder)
    records, tau = stored.records, stored.paths.shape[1]
    found = []
    for value, chains in chains_by_s(records["s"][:, -1]):
        chosen = [scores_of_chains[chain] for chain in chains] if scores_of_chains else []
        found.append(Group(tau, value, {name: table[chains] for name, table in records.items()}, chosen))
    return found


def evaluated(folder: Path, setup: Setup) -> list[dict[str, Any]]:
    """Scores of every chain's last path on the test set, computed once and kept beside it."""
    stored = tj.StoredRun(folder)
    found = stored.evaluation
    if found is None:
        model, (x, y) = model_of(stored), test_data(setup)
        found = [Ensemble(model, path).evaluate(x, y) for path in stored.paths]
        stored.keep_evaluation(found)
    return found


def test_data(setup: Setup) -> Labelled:
    """The 10 000 test digits, as the network sees them."""
    digits = tj.datasets.mnist()
    return Labelled(averaged(digits.test_x) if setup.is_small else digits.test_x, digits.test_y)


def _options(home: Path, setup: Setup) -> dict[str, Any]:
    """The options of ``trajens train`` that all runs share."""
    problem = {"problem": "mnist", "model": "cnn"}
    if setup.is_small:
        problem = {"problem": str(_small_digits(home)), "model": "linear"}
    return {
        **problem,
        "sigma": setup.sigma,
        "chunk": setup.chunk,
        "prior": "flat",
        "acceptance": "paper",
        "fraction": 0.25,
        "scan": "checkerboard",
        "records": setup.records,
    }


def _small_digits(folder: Path) -> Path:
    """A file with the training digits of 7 x 7 pixels."""
    file = folder / f"digits-{_SIDE}x{_SIDE}.npz"
    if not file.exists():
        digits = tj.datasets.mnist()
        with storage_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        content = io.BytesIO()
        np.savez(content, x=averaged(digits.train_x), y=digits.train_y)
        write_atomically(file, content.getvalue())
    return file


def averaged(images: np.ndarray, side: int = _SIDE) -> np.ndarray:
    """Images (n, 28, 28) in bytes as (n, side^2) means of square blocks of pixels, between 0 and 1."""
    width = images.shape[-1] // side
    means = images.reshape(-1, side, width, side, width).mean((2, 4), dtype=np.float32) / 255
    return np.asarray(means.reshape(len(images), -1), np.float32)
