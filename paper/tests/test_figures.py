"""Figures: sampled numbers agree with the exact ones, and pictures are written."""

from __future__ import annotations

import csv
import sys

import numpy as np
import pytest
from rich.console import Console

import trajens as tj
from trajens_paper import FIGURES, figure_normality, frame
from trajens_paper import figure_acceptance as acceptance
from trajens_paper.claims import read_claims
from trajens_paper.command import named
from trajens_paper.figure_perceptron import SCALES, Scale, figure_perceptron
from trajens_paper.numbers_perceptron import Point, claims_of, mean_deviation, student_z2

Z = 6.0
TINY = Scale(taus=(1, 4), groups=((1_500, (100.0, 300.0, 1000.0)),), chains=16, records=20)


def files_of_runs(out):
    """Name -> time of the last change and content, of every file in the run directories of a figure."""
    return {file: (file.stat().st_mtime_ns, file.read_bytes()) for file in (out / "runs").rglob("*") if file.is_file()}


def refuse(*_args, **_settings):
    raise AssertionError("sampled again")


def drawn_again(monkeypatch, draw, out, **options):
    """A figure that is drawn a second time: nothing is sampled, and no file of its runs is touched."""
    before = files_of_runs(out)
    with monkeypatch.context() as patch:
        patch.setattr("trajens.sampling.sampler.Sampler.advance_to", refuse)
        finished = draw(out, **options)
    assert len(before) > 0
    assert files_of_runs(out) == before
    return finished


def fits(table, width=80):
    console = Console(width=width)
    with console.capture() as capture:
        console.print(table)
    return "…" not in capture.get()


def rows_of(figure):
    with figure.files[2].open() as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("figure")


@pytest.fixture(scope="module")
def tiny(folder):
    return figure_perceptron(folder, scale=TINY, seed=1)


@pytest.fixture(scope="module")
def points(tiny):
    return [
        Point(int(row.pop("tau")), test=row.pop("test"), **{k: float(v) for k, v in row.items()})
        for row in rows_of(tiny)
    ]


@pytest.mark.slow
def test_figure_perceptron_writes_two_pictures_the_numbers_and_the_claims(tiny):
    names = ["figure_perceptron.png", "figure_perceptron.pdf", "figure_perceptron.csv", "claims.json"]
    assert [path.name for path in tiny.files] == names
    png, pdf, _, claims = (path.read_bytes() for path in tiny.files)
    assert png.startswith(b"\x89PNG")
    assert pdf.startswith(b"%PDF")
    assert read_claims(tiny.files[3])["perceptron"]["scale"] == "own"
    assert b"ours: exact loss" in claims


@pytest.mark.slow
def test_figure_perceptron_has_a_point_for_every_tau_s_and_test(points):
    expected = [(tau, s, test) for tau in (1, 4) for s in (100.0, 300.0, 1000.0) for test in ("ours", "paper")]
    assert [(p.tau, p.s, p.test) for p in points] == expected


@pytest.mark.slow
def test_figure_perceptron_agrees_with_the_exact_loss(points):
    data = tj.datasets.perceptron()
    for p in points:
        assert p.exact == tj.exact.perceptron(data.x, data.y, p.tau, 0.1, p.s).loss
        assert p.z == pytest.approx((p.loss - p.exact) / p.loss_stderr)
        assert p.deviation == pytest.approx(p.loss / p.exact - 1)
        assert abs(p.z) < Z
        assert p.loss_stderr < 0.2 * p.exact
        assert 0 < p.acceptance < 1
        assert 32 <= p.batch_size <= 256


@pytest.mark.slow
def test_figure_perceptron_prints_a_row_for_every_tau_and_s_and_the_sum_of_z_squared(tiny, points):
    assert tiny.table.row_count == len(points) / 2
    assert fits(tiny.table)
    for line, test in zip(tiny.remarks[1:], ("paper", "ours"), strict=True):
        z = [p.z for p in points if p.test == test]
        assert f"sum of z^2 / points = {np.mean(np.square(z)):.2f} for {len(z)} points" in line


def test_the_tables_of_the_figures_fit_80_columns_uncut():
    numbers = (-0.1234, 0.0123, -0.5, -0.123, 0.01, -0.1234, 0.123, 256.0, 1234.0, 1.0)
    assert fits(acceptance._table([acceptance.Point("noisy labels", "sequential penalty, 1.35", *numbers)]))
    assert fits(
        figure_normality._table(
            [figure_normality.Point(16, 20_000, 0.123, -123.4, 0.1234, -12.34, 0.00123, 0.999, 0.0123)]
        )
    )


@pytest.mark.parametrize("scale", SCALES.values())
def test_every_scale_of_figure_perceptron_covers_four_decades_of_s(scale):
    assert max(scale.all_s) / min(scale.all_s) == pytest.approx(1e4)
    assert len({len(group) for _, group in scale.groups}) == 1, "groups of one size share a compilation"


def test_the_paper_scale_of_figure_perceptron_has_the_epochs_of_the_paper():
    scale = SCALES["paper"]
    for phases, _ in scale.groups:
        assert scale.chains * (scale.epochs(1, phases) // 4) >= 2e7


@pytest.mark.slow
def test_figures_read_kept_runs_back_and_give_the_same_numbers(tiny, folder, monkeypatch):
    before = [path.read_bytes() for path in tiny.files]
    again = drawn_again(monkeypatch, figure_perceptron, folder, scale=TINY, seed=1)
    assert [path.read_bytes() for path in again.files] == before
    monkeypatch.setattr("trajens.sampling.sampler.Sampler.advance_to", refuse)
    with pytest.raises(AssertionError, match="sampled again"):
        figure_perceptron(folder, scale=TINY, seed=2)


@pytest.mark.slow
def test_an_interrupted_run_of_a_figure_goes_on_where_it_was(tmp_path):
    problem = tj.datasets.perceptron().problem()
    # The program of the figure perceptron above, so that nothing is compiled.
    target, test = tj.Target(problem, 1, 0.1, 10.0), tj.Penalty(32)
    settings = {"chains": 48, "seed": 3, "burn_in": 100, "acceptance": test, "records": 10}
    blocks = iter([False, True])
    kept = frame.kept_run(tmp_path / "whole", target, 1000, lambda _: None, **settings)
    whole = tj.sample(target, 1000, **settings)
    tj.sample(target, 1000, out=tmp_path / "part", stop=lambda: next(blocks), **settings)
    resumed = frame.kept_run(tmp_path / "part", target, 1000, False, **settings)
    for run in (kept, resumed):
        for name, values in whole.records.items():
            np.testing.assert_array_equal(run.records[name], values)
    with pytest.raises(tj.InputError, match="must hold a run of 500 epochs, got one of 1000"):
        frame.kept_run(tmp_path / "whole", target, 500, False, **settings)


@pytest.mark.slow
def test_a_tiny_figure_of_acceptance_tests_is_drawn_from_kept_runs(tmp_path, monkeypatch):
    # Compiling is most of the time: all tests take one program.
    same = dict.fromkeys(acceptance.tests(), tj.Penalty(16, tolerance=None))
    monkeypatch.setattr(acceptance, "tests", lambda: same)
    scale = acceptance.Scale(chains=4, epochs=60, records=6)
    first = acceptance.figure_acceptance(tmp_path, scale=scale)
    again = drawn_again(monkeypatch, acceptance.figure_acceptance, tmp_path, scale=scale)
    assert again.claims == first.claims
    points = rows_of(first)
    assert [point["test"] for point in points] == 2 * list(same)
    assert {point["problem"] for point in points} == {"noisy labels", "heavy tails"}
    assert all(16 <= float(point["batch_size"]) <= 300 for point in points)
    assert all(float(point["data_per_accepted"]) > 0 for point in points)


@pytest.mark.slow
def test_a_tiny_figure_normality_is_drawn_from_kept_runs(tmp_path, monkeypatch):
    scale = figure_normality.Scale((2,), (4, 8))
    first = figure_normality.figure_normality(tmp_path, scale=scale)
    again = drawn_again(monkeypatch, figure_normality.figure_normality, tmp_path, scale=scale)
    assert again.claims == first.claims
    points = rows_of(first)
    assert [(point["tau"], point["epoch"]) for point in points] == [("2", "4"), ("2", "8")]
    assert all(float(point["rho"]) > 0 for point in points)
    assert fits(first.table)


def made_up(deviation, order=1.0):
    """Points of both tests whose losses are off the exact ones by `deviation`, with errors of 1 %."""
    return [
        Point(tau, s, test, exact * (1 + deviation), 0.01 * exact, exact, 0.0, deviation, 0.01, 1.0, 0.5, 32.0)
        for tau in (1, 2)
        for s in (1.0, 10.0)
        for test in ("ours", "paper")
        for exact in [order / (tau * s)]
    ]


def test_claims_of_figure_perceptron_follow_the_numbers():
    verdicts = {c.name: c.verdict for c in claims_of(made_up(0.0), 24)}
    assert verdicts["ours: exact loss"] == "consistent"
    assert verdicts["ours: falls with s"] == "confirmed"
    assert verdicts["exact: falls with tau"] == verdicts["paper: falls with tau"] == "confirmed"
    verdicts = {c.name: c.verdict for c in claims_of(made_up(0.03), 24)}
    assert verdicts["ours: exact loss"] == "refuted"


def test_the_mean_deviation_weighs_points_and_their_errors():
    one, two = made_up(0.02)[0]._replace(weight=3.0), made_up(-0.02)[0]
    mean, error = mean_deviation([one, two])
    assert mean == pytest.approx(0.01)
    assert error == pytest.approx(0.01 * np.hypot(0.75, 0.25))


def test_the_expected_mean_of_z_squared_is_that_of_students_law():
    from scipy import stats

    second, fourth = (stats.t(23).moment(k) for k in (2, 4))
    assert student_z2(24, 10) == pytest.approx((second, np.sqrt((fourth - second**2) / 10)))


def test_unknown_scale_is_refused(tmp_path):
    with pytest.raises(tj.InputError, match="scale must be one of 'quick', 'laptop', 'paper', got 'enormous'"):
        FIGURES["perceptron"](tmp_path, scale="enormous")


@pytest.mark.parametrize("number", ["1c", "2", "3", "4", "5"])
def test_numbers_of_figures_are_refused_with_their_names(number):
    with pytest.raises(
        tj.InputError, match=f"figure must be a name, got {number}; .* 1.c. is perceptron, 2 is mnist, 3 is"
    ):
        named(number)
    assert [named(name) for name in FIGURES] == list(FIGURES)


def test_a_folder_that_cannot_be_written_is_refused_before_sampling(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(tj.StorageError, match="must be written, got File exists"):
        figure_perceptron(tmp_path / "file")


def test_a_missing_matplotlib_is_named_before_sampling(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(tj.InputError, match=r"pip install 'trajens\[figures\]'"):
        figure_perceptron(tmp_path)


def test_the_table_of_the_linear_program_is_far_closer_to_the_logistic_than_the_papers():
    delta = np.linspace(-10, 10, 201)
    ours, papers = (np.abs(acceptance.curve_error(method, 1.0, delta)).max() for method in ("lp", "ridge"))
    assert papers > 3e-4
    assert ours < 1e-6


def test_means_of_disjoint_batches_have_unit_spread_whatever_the_law_of_the_examples():
    rng = np.random.default_rng(3)
    for examples in (rng.standard_normal(60_000), rng.exponential(size=60_000) ** 2):
        means = figure_normality.batch_means(examples)
        assert means.shape == (250,)
        assert means.mean() == pytest.approx(0, abs=1e-12)
        # The variance of 250 means has a relative error of sqrt(2 / 249).
        assert abs(means.var(ddof=1) - 1) < Z * np.sqrt(2 / 249)
