"""Commands that look at a run in its directory: show, convergence, thermo, and its records for ArviZ."""

import json

import numpy as np
import pytest

import trajens as tj
from tests.command import call
from tests.small_run import DATA

S = (0.0, 5.0, 20.0)
OPTIONS = "--s 0,5,20 --prior 1 --tau 3 --chains 4 --epochs 2000 --records 40 --acceptance metropolis --keep-paths"


@pytest.fixture(scope="module")
def ladder(tmp_path_factory):
    out = tmp_path_factory.mktemp("look") / "run"
    from trajens.app.cli import app

    with pytest.raises(SystemExit) as exit_:
        app(["train", "perceptron", *OPTIONS.split(), "--out", str(out)], prog_name="trajens")
    assert exit_.value.code == 0
    return out


def test_show_prints_the_table_of_train_once_more(capsys, ladder):
    code, said, err = call(capsys, "show", str(ladder))
    assert code == 0, err
    assert "z = (measured" in " ".join(said.split())
    _, as_json, _ = call(capsys, "show", str(ladder), "--json")
    by_s = json.loads(as_json)["by_s"]
    np.testing.assert_allclose([row["loss"] for row in by_s], tj.StoredRun(ladder).by_s()["loss"], rtol=1e-6)


def test_show_has_a_row_by_s_of_a_run_made_in_python(capsys, tmp_path):
    target = tj.Target(DATA.problem(), 3, 0.1, s=[5.0, 20.0])
    tj.sample(target, 100, chains=4, records=5, acceptance=tj.Metropolis(), out=tmp_path / "a")
    code, said, err = call(capsys, "show", str(tmp_path / "a"), "--json")
    assert code == 0, err
    assert [row["s"] for row in json.loads(said)["rows"]] == [5.0, 20.0]


def test_convergence_is_that_of_the_library(capsys, ladder):
    code, said, err = call(capsys, "convergence", str(ladder), "--json")
    assert code == 0, err
    groups = tj.StoredRun(ladder).convergence()
    rows = [row for row in json.loads(said)["rows"] if row["quantity"] == "loss"]
    np.testing.assert_allclose([row["rhat"] for row in rows], [g.observed["loss"].rhat for g in groups])
    assert "converged" in call(capsys, "convergence", str(ladder))[1]


def test_thermo_is_relative_to_the_smallest_s_which_may_be_zero(capsys, ladder):
    code, said, err = call(capsys, "thermo", str(ladder), "--json")
    assert code == 0, err
    rows = json.loads(said)["rows"]
    assert [row["s"] for row in rows] == list(S)
    observed = tj.thermo.observe(tj.StoredRun(ladder))
    np.testing.assert_allclose([row["log_z"] for row in rows], tj.thermo.log_z(observed).log_z, rtol=1e-9)
    assert rows[0]["log_z"] == 0.0
    assert "log_z" in call(capsys, "thermo", str(ladder))[1]


def test_records_are_written_for_arviz(capsys, ladder, tmp_path):
    az = pytest.importorskip("arviz")
    pytest.importorskip("h5netcdf")
    file = tmp_path / "new" / "run.nc"
    code, _, err = call(capsys, "export", str(ladder), "--arviz", str(file), "--chain", "s=20")
    assert code == 0, err
    found = az.from_netcdf(str(file))
    assert found["posterior"]["theta"].shape[2:] == (3, 2)
    assert found["posterior"].sizes["chain"] == 4
    code, _, err = call(capsys, "export", str(ladder), "--arviz", str(file), "--chain", "s=20")
    assert (code, "must be a new file" in err) == (2, True)
    code, _, err = call(capsys, "export", str(ladder), "--arviz", str(tmp_path / "b.nc"))
    assert (code, "s = 0, 5, 20" in err) == (2, True)


def test_parameters_are_given_where_they_are_few_or_asked_for(ladder):
    pytest.importorskip("arviz")
    stored = tj.StoredRun(ladder)
    theta = stored.to_arviz(s=5.0)["posterior"]["theta"].values
    np.testing.assert_array_equal(theta, stored.draws[4:8])
    one = stored.to_arviz(s=5.0, parameters=[1])["posterior"]["theta"]
    np.testing.assert_array_equal(one.values, stored.draws[4:8][..., [1]])
    assert one.coords["parameter"].values.tolist() == [1]
    assert "theta" not in stored.to_arviz(s=5.0, parameters=False)["posterior"]
    with pytest.raises(tj.InputError, match=r"numbers in 0\.\.1"):
        stored.to_arviz(s=5.0, parameters=[2])


def test_an_s_of_zero_is_sampled_and_has_no_exact_loss_without_a_prior(capsys):
    options = "--s 0,5 --tau 2 --epochs 60 --records 3 --acceptance metropolis"
    code, said, err = call(capsys, "train", "perceptron", *options.split())
    assert code == 0, err
    assert "nan" in said
    code, _, err = call(capsys, "train", "perceptron", "--s", "-1")
    assert (code, err.count("\n")) == (2, 1)
