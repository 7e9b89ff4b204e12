"""Claims: verdicts follow from value, error and relation; figures share one file."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from scipy import stats

import trajens as tj
from trajens_paper.claims import LEVEL, Measured, claim, difference, errors_apart, least, read_claims, write_claims

Z = errors_apart()


@pytest.mark.parametrize(
    ("value", "relation", "verdict"),
    [
        (1.0, "=", "consistent"),
        (1.0 + 1.01 * Z * 0.1, "=", "refuted"),
        (1.0 - 1.01 * Z * 0.1, "=", "refuted"),
        (1.0 + 1.01 * Z * 0.1, ">", "confirmed"),
        (1.0 + 0.99 * Z * 0.1, ">", "undecided"),
        (1.0 - 1.01 * Z * 0.1, ">", "refuted"),
        (1.0 - 1.01 * Z * 0.1, "<", "confirmed"),
        (1.0 - 0.99 * Z * 0.1, "<", "undecided"),
        (1.0 + 1.01 * Z * 0.1, "<", "refuted"),
    ],
)
def test_a_verdict_needs_so_many_standard_errors(value, relation, verdict):
    assert claim("a", "text", value, 0.1, relation, 1.0).verdict == verdict


def test_figures_share_a_file_and_replace_only_their_own_claims(tmp_path):
    one, two = claim("one", "first", 1.0, 0.1, "=", 1.0), claim("two", "second", 2.0, 0.1, "<", 1.0)
    write_claims(tmp_path, "mnist", "quick", 0, (one,))
    write_claims(tmp_path, "curves", "quick", 0, (two,))
    file = write_claims(tmp_path, "mnist", "laptop", 5, (one, two))
    found = read_claims(file)
    assert list(found) == ["curves", "mnist"]
    assert found["mnist"]["scale"] == "laptop"
    assert found["mnist"]["seed"] == 5
    assert [c["verdict"] for c in found["mnist"]["claims"]] == ["consistent", "refuted"]
    assert found["curves"]["claims"] == [two._asdict()]


def test_figures_drawn_side_by_side_keep_each_others_claims(tmp_path):
    names = [str(i) for i in range(32)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: write_claims(tmp_path, name, "quick", 0, ()), names))
    assert set(read_claims(tmp_path / "claims.json")) == set(names)


@pytest.mark.parametrize("content", ["{", "[1, 2]"])
def test_a_file_that_holds_no_claims_is_refused_and_kept(tmp_path, content):
    (tmp_path / "claims.json").write_text(content)
    with pytest.raises(tj.InputError, match="must hold the claims of figures"):
        write_claims(tmp_path, "mnist", "quick", 0, ())
    assert (tmp_path / "claims.json").read_text() == content


def test_claims_are_plain_json(tmp_path):
    file = write_claims(tmp_path, "mnist", "quick", 0, (claim("a", "b", 1, 0, ">", 0),))
    assert json.loads(file.read_text())["mnist"]["claims"][0]["value"] == 1.0


def test_few_runs_need_more_errors():
    assert pytest.approx(3.090, abs=1e-3) == Z
    assert errors_apart(1e9) == pytest.approx(Z, abs=1e-3)
    assert stats.t.sf(errors_apart(5), 5) == pytest.approx(LEVEL)
    assert claim("a", "b", 5.0, 1.0, ">", 0.0).verdict == "confirmed"
    assert claim("a", "b", 5.0, 1.0, ">", 0.0, dof=5).verdict == "undecided"


def test_a_difference_has_the_degrees_of_freedom_of_welch():
    same = difference((3.0, 0.3), (1.0, 0.3), runs=6)
    assert (same.value, same.error, same.dof) == pytest.approx((2.0, 0.3 * 2**0.5, 10))
    assert difference((3.0, 0.3), (1.0, 0.0), runs=6).dof == pytest.approx(5)
    assert difference((3.0, 0.0), (1.0, 0.0), runs=6).dof is None


def test_the_least_certain_of_several_numbers_is_chosen_not_the_smallest():
    small_but_sure, large_and_vague = Measured(0.1, 0.001), Measured(1.0, 0.9)
    assert least([small_but_sure, large_and_vague]) == large_and_vague
    assert least([Measured(-1.0, 0.0), large_and_vague]) == Measured(-1.0, 0.0)


def test_a_number_without_an_error_decides_nothing_and_is_still_written(tmp_path):
    vague = claim("a", "b", 1.0, float("nan"), "=", 0.0)
    assert vague.verdict == "undecided"
    file = write_claims(tmp_path, "mnist", "own", 0, (vague,))
    assert read_claims(file)["mnist"]["claims"][0]["error"] is None
