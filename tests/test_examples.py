"""The scripts in `examples` run, at sizes that show that they do what they say."""

import runpy
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.mark.slow
def test_the_simulator_in_numpy_is_fitted():
    example = runpy.run_path(str(EXAMPLES / "numpy_simulator.py"))
    logs = example["main"](epochs=600)
    # One counted epidemic says the rates to some ten per cent.
    assert (np.abs(logs.mean(0) - example["TRUTH"]) < 0.3).all()


@pytest.mark.slow
def test_the_network_of_pytorch_is_trained():
    pytest.importorskip("torch")
    found = runpy.run_path(str(EXAMPLES / "torch_network.py"))["main"]()
    assert found["mean_accuracy"] > 0.9
