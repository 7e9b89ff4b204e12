"""The figures as `trajens figure NAME` makes them: what theory asks for is confirmed, and kept runs are used again.

What theory gives exactly is allowed `Z` standard errors, and not the 3.1 of a verdict: with a dozen numbers that would
fail once in fifty times on a machine that rounds differently.
"""

import csv
import math

import numpy as np
import pytest

from test_figures import drawn_again
from trajens_paper import FIGURES
from trajens_paper.claims import read_claims

pytestmark = pytest.mark.long


def drawn_twice(name, folder, monkeypatch):
    """Claims by name and rows of the CSV file of a figure that was sampled, and then drawn again from what is kept."""
    first = FIGURES[name](folder)
    content = [path.read_bytes() for path in first.files]
    assert [path.read_bytes() for path in drawn_again(monkeypatch, FIGURES[name], folder).files] == content
    stem = f"figure_{name}"
    assert [path.name for path in first.files] == [f"{stem}.png", f"{stem}.pdf", f"{stem}.csv", "claims.json"]
    assert content[0].startswith(b"\x89PNG")
    assert content[1].startswith(b"%PDF")
    written = read_claims(folder / "claims.json")[name]
    assert (written["scale"], written["seed"]) == ("quick", 0)
    assert written["claims"] == [c._asdict() for c in first.claims]
    with first.files[2].open() as file:
        rows = list(csv.DictReader(file))
    assert all(math.isfinite(float(value)) for row in rows for key, value in row.items() if key != "test")
    return {c.name: c for c in first.claims}, rows


Z = 5.0


def is_as_expected(claim):
    return abs(claim.value - claim.reference) < Z * claim.error


def verdicts(claims, *names):
    return {name: claims[name].verdict for name in names}


def test_figure_perceptron_lies_on_the_exact_curves(tmp_path, monkeypatch):
    claims, rows = drawn_twice("perceptron", tmp_path, monkeypatch)
    assert len(rows) == 5 * 9 * 2
    falls = [name for name in claims if "falls" in name]
    assert len(falls) == 6
    assert set(verdicts(claims, *falls).values()) == {"confirmed"}
    # That the paper's test is unbiased is no claim of the theory; here, a bias below about 1 % would not be seen.
    assert is_as_expected(claims["ours: exact loss"])
    assert is_as_expected(claims["ours: z^2"])
    assert claims["ours: exact loss"].error < 0.005


# Heavy tails at a tolerance of 0.03 move means by 0.13 to 0.22 standard deviations, and are rightly warned of.
@pytest.mark.filterwarnings("ignore:the mean model is off by:RuntimeWarning")
def test_the_acceptance_tests_have_the_biases_that_theory_gives_them(tmp_path, monkeypatch):
    claims, rows = drawn_twice("acceptance", tmp_path, monkeypatch)
    exact = [f"bias: {row['problem']}, {row['test']}" for row in rows if row["test"].startswith("full-data")]
    assert len(exact) == 4
    assert all(is_as_expected(claims[name]) for name in exact)
    others = ("acceptance curve at 1", "acceptance curve at 1.3", "data per accepted move: noisy labels")
    assert set(verdicts(claims, *others).values()) == {"confirmed"}
    # Theory, section 2d: the paper's scheme is low by 3.0 +- 0.25 % and sequential stopping high by 2.7 +- 0.25 %.
    for name, known in (("the paper's scheme", -0.030), ("sequential penalty, 1.35", 0.027)):
        measured = claims[f"bias: noisy labels, {name}"]
        assert abs(measured.value - known) < 6 * np.hypot(measured.error, 0.0025), name
    for row in rows:
        bias, error, predicted = (float(row[name]) for name in ("bias", "bias_stderr", "bias_predicted"))
        if row["test"].startswith("full-data"):
            assert float(row["batch_size"]) == (256 if row["problem"] == "noisy labels" else 300)
        elif row["test"] == "planned penalty, 1.35":
            # The loss on the deciding batch is low by a sizeable part of the excess.
            assert float(row["bias_deciding"]) < -0.1
            # The audit knows the bias from the decisions alone.
            assert abs(bias - predicted) < 6 * np.hypot(error, 0.004)
        elif row["test"] == "tolerance 0.01":
            assert abs(bias) < 0.01 + 6 * error


def test_figure_normality_finds_the_spread_of_normal_batches(tmp_path, monkeypatch):
    claims, rows = drawn_twice("normality", tmp_path, monkeypatch)
    assert [(row["tau"], row["epoch"]) for row in rows] == [
        (tau, epoch) for tau in ("2", "8") for epoch in ("1000", "2000", "4000", "6000")
    ]
    assert is_as_expected(claims["spread"])
    assert claims["skewness when deciding"].verdict == "confirmed"
    assert claims["normality"].value > 1e-3
    for row in rows:
        assert float(row["rho"]) > 0
        assert abs(float(row["spread"]) ** 2 - 1) < 6 * np.sqrt(2 / 249)
