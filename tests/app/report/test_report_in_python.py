"""The page about a run that is in memory, and about one in a directory, from Python."""

import numpy as np
import pytest

import trajens as tj

X = np.random.default_rng(0).normal(size=(60, 2)).astype(np.float32)
Y = (X.sum(1) > 0).astype(int)
MODEL = tj.models.mlp((2, 3, 2), "tanh")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("page") / "run"
    target = tj.Target(MODEL.problem(X, Y), 3, 0.1, s=20.0, prior=1.0)
    how = {"chains": 4, "records": 10, "acceptance": tj.Metropolis(), "keep_paths": True}
    return tj.sample(target, 300, **how), tj.sample(target, 300, out=out, **how)


def test_a_run_in_memory_has_a_page(run, tmp_path):
    memory, stored = run
    text = tj.report(memory, tmp_path / "new" / "page.html", X, Y).read_text()
    accuracy = tj.Ensemble.from_run(memory).evaluate(X, Y)["vote_accuracy"]
    assert "Verdict" in text
    assert "60 examples of the data given" in text
    assert f"{accuracy:.3f}" in text or f"{100 * accuracy:.1f}" in text or f"{accuracy:.4g}" in text
    without = tj.report(memory, tmp_path / "page.html").read_text()
    assert "none were given; give x and y" in without
    assert "trajens resume" not in without
    of_directory = tj.report(stored.out.path, tmp_path / "other.html").read_text()
    assert "Verdict" in of_directory


def test_what_cannot_be_a_page_is_refused(run, tmp_path):
    memory, stored = run
    with pytest.raises(tj.InputError, match=r"must end in \.html"):
        tj.report(memory, tmp_path / "page.txt")
    with pytest.raises(tj.InputError, match="given together"):
        tj.report(memory, tmp_path / "page.html", X)
    with pytest.raises(tj.InputError, match="for a run in memory"):
        tj.report(stored.out.path, tmp_path / "page.html", X, Y)
