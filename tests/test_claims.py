"""Claims: verdicts follow from value, error and relation; figures share one file."""

import json

import pytest

import trajens as tj
from trajens.figures.claims import Z, claim, read_claims, write_claims


@pytest.mark.parametrize(
    ("value", "relation", "verdict"),
    [
        (1.0, "=", "confirmed"),
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
    write_claims(tmp_path, "3", "quick", 0, (one,))
    write_claims(tmp_path, "1c", "quick", 0, (two,))
    file = write_claims(tmp_path, "3", "laptop", 5, (one, two))
    found = read_claims(file)
    assert list(found) == ["1c", "3"]
    assert found["3"]["scale"] == "laptop"
    assert found["3"]["seed"] == 5
    assert [c["verdict"] for c in found["3"]["claims"]] == ["confirmed", "refuted"]
    assert found["1c"]["claims"] == [two._asdict()]


@pytest.mark.parametrize("content", ["{", "[1, 2]"])
def test_a_file_that_holds_no_claims_is_refused_and_kept(tmp_path, content):
    (tmp_path / "claims.json").write_text(content)
    with pytest.raises(tj.InputError, match="must hold the claims of figures"):
        write_claims(tmp_path, "3", "quick", 0, ())
    assert (tmp_path / "claims.json").read_text() == content


def test_claims_are_plain_json(tmp_path):
    file = write_claims(tmp_path, "3", "quick", 0, (claim("a", "b", 1, 0, ">", 0),))
    assert json.loads(file.read_text())["3"]["claims"][0]["value"] == 1.0
