"""The scripts in `examples` run, at sizes that show that they do what they say."""

import runpy
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def main_of(name):
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"]


@pytest.mark.slow
def test_a_table_of_ones_own_is_learned(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLES / "own_table.py"))["make"]("flowers.csv")
    assert main_of("own_table")(budget=8e5)["mean_accuracy"] > 0.8


@pytest.mark.slow
def test_a_loss_of_ones_own_is_not_pulled_by_outliers():
    draws = main_of("own_loss")()
    assert (np.abs(draws.mean(0) / [2.0, 0.5] - 1) < 0.15).all()


@pytest.mark.slow
def test_evidence_is_the_exact_one_from_s_of_0_with_exchange():
    for found, error, exact in main_of("thermodynamics")():
        assert abs(found - exact) < 6 * error < 1.0


@pytest.mark.slow
def test_policies_of_the_example_learn():
    returns = main_of("reinforcement_learning")(epochs=1200, episodes=10)
    assert returns[-1] > returns[0] + 50


@pytest.mark.slow
def test_the_sweep_has_a_row_for_every_tau_and_s(tmp_path):
    plan = {**runpy.run_path(str(EXAMPLES / "sweep_on_slurm.py"))["PLAN"]}
    plan["options"] = {**plan["options"], "epochs": 400}
    swept = main_of("sweep_on_slurm")(tmp_path / "sweep", "local", plan)
    assert swept.is_complete
    table = swept.table()
    assert sorted(zip(table["tau"], table["s"], strict=True)) == [(t, s) for t in (2, 4, 8) for s in (5.0, 20.0, 80.0)]


@pytest.mark.slow
def test_images_of_a_folder_are_learned(tmp_path):
    pytest.importorskip("PIL")
    accuracy = runpy.run_path(str(EXAMPLES / "colour_images.py"))["main"](tmp_path / "stripes", budget=2e5)
    assert accuracy["convolutions"] > 0.4


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


def test_every_script_is_listed_and_run_here():
    scripts = sorted(file.name for file in EXAMPLES.glob("*.py"))
    page = (EXAMPLES.parent / "docs" / "start" / "examples.md").read_text(encoding="utf-8")
    here = Path(__file__).read_text(encoding="utf-8")
    assert len(scripts) == 8
    for script in scripts:
        assert f"| `{script}" in page
        assert script.removesuffix(".py") in here
