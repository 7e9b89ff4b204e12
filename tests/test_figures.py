"""Figures: sampled numbers agree with the exact ones, and pictures are written."""

from __future__ import annotations

import csv
import sys

import numpy as np
import pytest
from rich.console import Console

import trajens as tj
from trajens.figures import FIGURES, figure_5
from trajens.figures import figure_acceptance as acceptance
from trajens.figures.figure_1c import SCALES, Point, Scale, figure_1c
from trajens.figures.figure_acceptance import figure_acceptance

Z = 6.0
TINY = Scale(taus=(1, 4), groups=((6_000, (10.0, 30.0)), (3_000, (100.0, 1000.0))), chains=16)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    return figure_1c(tmp_path_factory.mktemp("figure"), scale=TINY, seed=1)


@pytest.fixture(scope="module")
def points(drawn):
    with drawn.files[-1].open() as file:
        return [Point(int(row.pop("tau")), **{k: float(v) for k, v in row.items()}) for row in csv.DictReader(file)]


def test_figure_1c_writes_two_pictures_and_the_numbers(drawn):
    assert [path.name for path in drawn.files] == ["figure_1c.png", "figure_1c.pdf", "figure_1c.csv"]
    png, pdf, _ = (path.read_bytes() for path in drawn.files)
    assert png.startswith(b"\x89PNG")
    assert pdf.startswith(b"%PDF")


def test_figure_1c_has_a_point_for_every_tau_and_s(points):
    assert [(p.tau, p.s) for p in points] == [(tau, s) for tau in (1, 4) for s in (10.0, 30.0, 100.0, 1000.0)]


def test_figure_1c_agrees_with_the_exact_loss(points):
    data = tj.datasets.perceptron()
    for p in points:
        assert p.exact == tj.exact.perceptron(data.x, data.y, p.tau, 0.1, p.s).loss
        assert p.z == pytest.approx((p.loss - p.exact) / p.loss_stderr)
        assert abs(p.z) < Z
        assert p.loss_stderr < 0.2 * p.exact
        assert 0 < p.acceptance < 1
        assert 32 <= p.batch_size <= 256


def test_figure_1c_prints_a_row_for_every_point_and_the_sum_of_z_squared(drawn, points):
    assert drawn.table.row_count == len(points)
    mean = np.mean([p.z**2 for p in points])
    assert drawn.remarks[0].startswith(f"sum of z^2 / points = {mean:.2f} for {len(points)} points")


def test_the_table_of_the_figure_fits_80_columns_uncut(drawn):
    console = Console(width=80)
    with console.capture() as capture:
        console.print(drawn.table)
    assert "…" not in capture.get()


def test_the_quick_scale_covers_three_decades_of_s():
    s = SCALES["quick"].all_s
    assert max(s) / min(s) >= 999.9
    assert len({len(group) for _, group in SCALES["quick"].groups}) == 1, "groups of one size share a compilation"


def test_unknown_scale_is_refused(tmp_path):
    with pytest.raises(tj.InputError, match="scale must be one of 'quick', got 'enormous'"):
        FIGURES["1c"](tmp_path, scale="enormous")


def test_a_folder_that_cannot_be_written_is_refused_before_sampling(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(tj.InputError, match="out must be a folder"):
        figure_1c(tmp_path / "file")


def test_a_missing_matplotlib_is_named_before_sampling(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(tj.InputError, match=r"pip install 'trajens\[figures\]'"):
        figure_1c(tmp_path)


def test_the_figure_of_acceptance_tests_has_them_all_and_the_full_data_ones_are_unbiased(tmp_path):
    drawn = figure_acceptance(tmp_path, scale=acceptance.Scale(chains=64, epochs=1500), seed=2)
    with drawn.files[-1].open() as file:
        rows = {row["test"]: row for row in csv.DictReader(file)}
    assert list(rows) == list(acceptance.tests())
    for name, row in rows.items():
        numbers = {key: float(value) for key, value in row.items() if key != "test"}
        assert numbers["data_per_accepted"] == pytest.approx(numbers["batch_size"] / numbers["acceptance"])
        if name.startswith("full-data"):
            assert numbers["batch_size"] == 256
            assert abs(numbers["bias"]) < Z * numbers["bias_stderr"]
        elif "planned" in name:
            # The loss on the deciding batch is low by a sizeable part of the excess.
            assert numbers["bias_deciding"] < -0.1
    assert [path.suffix for path in drawn.files] == [".png", ".pdf", ".csv"]


def test_the_table_of_the_linear_program_is_far_closer_to_the_logistic_than_the_papers():
    delta = np.linspace(-10, 10, 201)
    ours, papers = (np.abs(acceptance.curve_error(method, 1.0, delta)).max() for method in ("lp", "ridge"))
    assert papers > 3e-4
    assert ours < 1e-6


def test_means_of_disjoint_batches_have_unit_spread_whatever_the_law_of_the_examples():
    rng = np.random.default_rng(3)
    for examples in (rng.standard_normal(60_000), rng.exponential(size=60_000) ** 2):
        means = figure_5.batch_means(examples)
        assert means.shape == (250,)
        assert means.mean() == pytest.approx(0, abs=1e-12)
        # The variance of 250 means has a relative error of sqrt(2 / 249).
        assert abs(means.var(ddof=1) - 1) < Z * np.sqrt(2 / 249)


def test_figure_5_writes_a_histogram_for_every_tau_and_epoch(tmp_path):
    drawn = figure_5.figure_5(tmp_path, scale=figure_5.Scale((1, 3), (8, 16)), seed=1)
    with drawn.files[-1].open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["tau"], row["epoch"]) for row in rows] == [("1", "8"), ("1", "16"), ("3", "8"), ("3", "16")]
    for row in rows:
        assert float(row["rho"]) > 0
        assert abs(float(row["spread"]) ** 2 - 1) < Z * np.sqrt(2 / 249)
    assert drawn.files[0].read_bytes().startswith(b"\x89PNG")
