"""The benchmark of the sampler: its JSON contract, at sizes that say nothing about speed, and its textbook rival."""

import json
import sys
from importlib import import_module
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

import trajens as tj

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture
def script(monkeypatch):
    """A benchmark by its name, as a module."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    return import_module


@pytest.mark.long
def test_json_and_table_of_the_sampler(script, capsys, monkeypatch):
    bench = script("sampler")
    # With one chain the case of many trajectories is compiled already.
    tiny = bench.Size(tau=4, chunk=24, chains=1, examples=300, train_epochs=16, seconds=0.01, rounds=2, limit=0.1)
    # Compiling is most of the time: the paper's scheme takes the program of the others.
    monkeypatch.setattr(bench, "paper_test", tj.Penalty)
    monkeypatch.setattr(bench, "RandomScan", tj.Checkerboard)
    result = bench.bench_sampler(tiny)
    monkeypatch.setattr(bench, "bench_sampler", lambda: result)
    monkeypatch.setattr(sys, "argv", ["sampler.py", "--json"])
    bench.main()
    report = json.loads(capsys.readouterr().out)

    one, definition, many, kernel = bench.TRAJECTORY, bench.DEFINITION, bench.SAMPLER, bench.KERNEL
    timed = {one, definition, bench.PAPER, many, kernel, bench.TEXTBOOK} - set(report["left_out"])
    assert timed >= {one, definition, bench.PAPER}
    assert set(report["pairs_per_second"]) == set(report["rounds"]) == set(report["spread"]) == timed
    assert set(report["epochs_per_second"]) == set(report["batch_size"]) == timed - {kernel}
    for name, rate in report["epochs_per_second"].items():
        assert rate > 0
        assert 24 <= report["batch_size"][name] <= 300
        assert report["pairs_per_second"][name] == pytest.approx(rate * report["batch_size"][name])
    # The same path, the same proposals: losses differ by rounding only, which may tip a decision.
    assert report["batch_size"][definition] == pytest.approx(report["batch_size"][one], rel=0.2)
    rates = report["pairs_per_second"]
    assert report["ratios"]["sampler_to_kernel"] == rates[many] / rates[kernel]
    assert report["ratios"]["trajectory_to_jax"] > 0
    assert ("trajectory_to_textbook" in report["ratios"]) == (report["textbook"] is not None)
    assert report["start"]["epochs"] == 16
    assert report["lanes"] == 2
    for name in ("device", "platform", "kernel", "settings", "cores"):
        assert report[name]

    monkeypatch.setattr(sys, "argv", ["sampler.py"])
    bench.main()
    out = capsys.readouterr().out
    assert "epochs/s" in out
    assert "sampler to kernel" in out


def test_the_textbook_has_the_losses_of_the_model_and_the_batches_of_the_paper(script):
    pytest.importorskip("torch")
    textbook = script("textbook")

    digits, model = tj.datasets.mnist(), tj.models.cnn()
    x, y = digits.train_x[:200], digits.train_y[:200]
    path = np.stack([model.init(seed) for seed in range(4)])
    problem = model.problem(x, y)
    thetas, images, labels = textbook.tensors(path, x, y)
    for theta, numbers in zip(thetas, path, strict=True):
        ours = np.asarray(problem.loss(numbers, problem.data))
        np.testing.assert_allclose(textbook.losses(theta, images, labels).cpu(), ours, rtol=1e-3, atol=1e-4)

    before = thetas.clone()
    batches = list(islice(textbook.algorithm_1(thetas, images, labels, 20.0, 0.05, 0.25, 48), 30))
    assert set(batches) <= {48, 96, 144, 192, 200}
    is_changed = np.asarray((thetas != before).cpu())
    assert is_changed.any()
    assert np.isfinite(np.asarray(thetas.cpu())).all()


def test_laws_on_a_grid_are_those_of_linear_algebra_and_errors_of_s_are_what_they_are(script):
    laws, grid = script("tolerance_laws"), script("tolerance")
    known = laws.perceptron("gamma", 200, 2)
    law, s = laws.Law(4, 0.2, None), 30.0
    exact, found = known.moments(law, s), laws._on_a_grid(known.losses, 2)(law, s)
    assert found.loss == pytest.approx(exact.loss, rel=1e-9)
    assert found.slope == pytest.approx(exact.slope, rel=1e-5)
    np.testing.assert_allclose(found.mean, exact.mean, rtol=1e-7)
    np.testing.assert_allclose(found.spread, exact.spread, rtol=1e-7)

    # Losses of an s that is larger by a hundredth, and means that are off by a tenth of a standard deviation.
    shifted = known.moments(law, 1.01 * s).loss + np.array([-1e-6, 1e-6])
    draws = exact.mean + 0.1 * exact.spread + 1e-4 * np.array([-1.0, 1.0])[:, None, None, None] * np.ones((2, 5, 4, 2))
    row = grid.errors(exact, draws, np.broadcast_to(shifted[:, None, None], (2, 5, 4)))
    assert row["s_error"] == pytest.approx(0.01, rel=0.02)
    assert row["shift"] == pytest.approx(0.1, rel=1e-3)
    assert grid.outside(row)
    assert not grid.outside({**row, "shift": 0.005})
    assert len(grid.CASES) == 40
