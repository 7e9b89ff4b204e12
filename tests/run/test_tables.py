"""Tables of a run: one row for every s, summaries and records that can be read, and s spread over chains."""

import sys

import numpy as np
import pytest

import trajens as tj
from tests.small_run import DATA, fresh
from trajens.records import after_burn_in

S = (5.0, 20.0, 80.0)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    target = tj.Target(DATA.problem(), tau=5, sigma=0.1, s=S)
    out = fresh(tmp_path_factory.mktemp("tables") / "run")
    return tj.sample(target, 600, chains=6, records=12, acceptance=tj.Metropolis(), keep_paths=True, out=out)


def test_several_s_are_spread_evenly_over_chains(run):
    np.testing.assert_allclose(run.s, np.repeat(S, 2), rtol=1e-6)
    with pytest.raises(tj.InputError, match="3 numbers for 4 chains; set chains to a multiple of 3, for instance 48"):
        tj.sample(run.target, 10, chains=4)


def test_by_s_has_a_row_for_every_s(run):
    table = run.by_s()
    is_after = after_burn_in(run.records, run.burn_in)
    for k, row in enumerate(table):
        mine = slice(2 * k, 2 * k + 2)
        assert (row["s"], row["chains"], row["draws"]) == (pytest.approx(S[k]), 2, int(is_after.sum()))
        assert row["loss"] == pytest.approx(run.records["loss"][mine, is_after].mean())
        expected = run.summary(range(2 * k, 2 * k + 2))
        for name, other in (("loss_stderr", "loss_stderr"), ("acceptance_rate", "acceptance"), ("ess", "ess")):
            assert row[name] == pytest.approx(expected[other], nan_ok=True)
    np.testing.assert_allclose(table["s"], S)
    assert len(table) == 3
    with pytest.raises(tj.InputError, match="a column must be one of s, chains"):
        table["los"]
    stored = tj.StoredRun(run.out.path).by_s()
    np.testing.assert_allclose(stored["loss"], table["loss"], rtol=1e-6)


def test_tables_are_read_as_text_html_and_data_frames(run):
    text = repr(run.by_s()).splitlines()
    assert len(text) == 4
    assert text[0].split() == run.by_s().columns
    assert len({len(line) for line in text}) == 1
    assert run.by_s()._repr_html_().count("<tr>") == 4
    pandas = pytest.importorskip("pandas")
    frame = run.by_s().to_dataframe()
    assert isinstance(frame, pandas.DataFrame)
    np.testing.assert_allclose(frame["loss"], run.by_s()["loss"])
    long = run.to_dataframe()
    assert len(long) == run.records["loss"].size
    np.testing.assert_allclose(long[long.chain == 3]["loss"], run.records["loss"][3])


def test_runs_and_summaries_say_what_they_are(run, tmp_path):
    for said in (repr(run), repr(tj.StoredRun(run.out.path))):
        assert "6 chains of tau = 5 models with 2 parameters" in said
        assert said.endswith(repr(run.by_s()))
    assert "<table>" in run._repr_html_()
    assert "burn-in" in tj.StoredRun(run.out.path)._repr_html_()
    assert repr(tj.StoredRun(tmp_path / "none")).startswith("StoredRun('")
    summary = run.summary()
    assert isinstance(summary, dict)
    assert ["loss", f"{summary['loss']:.6g}"] in [line.split() for line in str(summary).splitlines()]
    assert str(summary).count("\n") + 1 == len(summary)
    assert summary._repr_html_().count("<tr>") == len(summary)


def test_draws_are_what_was_kept_after_burn_in(run):
    is_after = after_burn_in(run.records, run.burn_in)
    np.testing.assert_array_equal(run.draws, run.history[:, is_after])
    assert tj.StoredRun(run.out.path).draws.shape == (6, int(is_after.sum()), 5, 2)
    how = {"chains": 6, "burn_in": 599, "records": 2, "acceptance": tj.Metropolis(), "keep_paths": True}
    short = tj.sample(run.target, 600, stop=lambda: True, **how)
    assert len(short.by_s()) == 0
    with pytest.raises(tj.InputError, match="got none yet; extend"):
        short.draws  # noqa: B018


def test_without_pandas_a_data_frame_is_refused(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(tj.InputError, match="try pip install pandas"):
        run.to_dataframe()
