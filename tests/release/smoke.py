"""What an installed trajens must do before anyone is given it: ``python smoke.py kernel`` or ``python smoke.py pure``.

It is run by the Python of a bare environment, from anywhere but the source tree, without pytest.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import trajens as tj
from trajens.kernels import library
from trajens.losses import losses_of_pairs, reference_losses

SIZE = 64


def check_kernel(is_wanted: bool) -> None:
    """The C++ kernel is loaded where it must be, and gives the losses of the definition on this processor."""
    loaded = library("cpu")
    assert loaded.is_loaded == is_wanted, loaded.explanation
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (SIZE, 28, 28), dtype=np.uint8)
    problem = tj.models.cnn().problem(images, (np.arange(SIZE) % 10).astype(np.uint8))
    pairs = rng.standard_normal((2, 2, 1906)).astype(np.float32)
    indices = rng.integers(0, SIZE, (2, 50)).astype(np.int32)
    got = np.asarray(losses_of_pairs(problem.loss, problem.data, pairs, indices, np.ones(2, bool)), np.float64)
    expected = np.asarray(reference_losses(problem.loss, problem.data, pairs, indices), np.float64)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6 * expected.max())


def check_commands() -> None:
    """The program says what it is, trains, and reads what it has kept."""
    with tempfile.TemporaryDirectory() as folder:
        run = str(Path(folder) / "run")
        size = ["--epochs", "60", "--chains", "2", "--records", "2", "--tau", "2", "--s", "100"]
        for arguments in (["info"], ["train", "mnist", *size, "--out", run], ["evaluate", run]):
            print("$ trajens", *arguments, flush=True)
            subprocess.run([sys.executable, "-m", "trajens", *arguments], check=True)


def check_paper() -> None:
    """The figures of the paper are no part of the library, and their command says how to get them."""
    done = subprocess.run([sys.executable, "-m", "trajens", "figure", "perceptron"], capture_output=True, text=True)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "pip install ./paper" in done.stderr, done.stderr
    here = {folder.name for folder in Path(tj.__file__).parent.iterdir()}
    assert not here & {"figures", "bench", "paper", "results"}, here


if __name__ == "__main__":
    print(f"trajens {tj.__version__} from {Path(tj.__file__).parent}")
    check_kernel({"kernel": True, "pure": False}[sys.argv[1]])
    check_commands()
    check_paper()
