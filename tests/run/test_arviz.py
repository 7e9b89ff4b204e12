"""What ArviZ is given of a run: the records after burn-in, chains x draws, of one s."""

import warnings

import jax.numpy as jnp
import numpy as np
import pytest

import trajens as tj
from trajens.columns import REASONS
from trajens.sampling.measure import directions

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    az = pytest.importorskip("arviz")

BURN_IN, EPOCHS, TAU, RECORDS = 40, 240, 3, 24
S = [5.0, 20.0, 20.0, 5.0]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    target = tj.Target(tj.datasets.perceptron(size=32, noise=0.3).problem(), TAU, 0.2, S)
    return tj.sample(
        target,
        EPOCHS,
        chains=4,
        burn_in=BURN_IN,
        records=RECORDS,
        acceptance=tj.Penalty(16),
        keep_paths=True,
        observe={"largest": lambda path: jnp.abs(path).max()},
        out=tmp_path_factory.mktemp("runs") / "r",
    )


def test_it_holds_the_records_after_burn_in(run):
    data = run.to_arviz(s=20.0)
    is_after = run.records["epoch"][0] > BURN_IN
    after = {name: values[1:3][:, is_after] for name, values in run.records.items()}
    posterior, stats = data["posterior"], data["sample_stats"]
    np.testing.assert_array_equal(posterior["loss"], after["loss"])
    np.testing.assert_array_equal(posterior["largest"], after["largest"])
    for k in range(3):
        np.testing.assert_array_equal(posterior["projection"][..., k], after[f"projection_{k + 1}"])
    for name in ("acceptance", "batch_size", "s", "tilt_error", "weight_rms", *REASONS):
        if name in after:
            np.testing.assert_array_equal(stats[name], after[name])
    assert not {"epoch", "loss", "projection_1"} & set(stats.data_vars)
    assert posterior["loss"].dims == ("chain", "draw")
    for group in (posterior, stats):
        np.testing.assert_array_equal(group["epoch"], run.records["epoch"][0, is_after])
        np.testing.assert_array_equal(group["chain"], [1, 2])
        assert group.attrs["inference_library"] == "trajens"
        assert group.attrs["inference_library_version"] == tj.__version__
        assert group.attrs["arviz_version"] == az.__version__


def test_kept_paths_are_projected_model_by_model(run):
    found = run.to_arviz(s=5.0)["posterior"]
    assert found["model_projection"].dims == ("chain", "draw", "model", "direction")
    history = np.asarray(run.history, np.float64)[[0, 3]][:, run.records["epoch"][0] > BURN_IN]
    np.testing.assert_allclose(found["model_projection"], history @ directions(2).T.astype(float), rtol=1e-12)
    # That of the mean model, which is recorded in any case, is their mean.
    np.testing.assert_allclose(found["model_projection"].mean("model"), found["projection"], rtol=1e-5, atol=1e-6)


def test_a_run_at_rest_gives_the_same(run):
    stored = tj.StoredRun(run.out.path)
    for mine, its in zip(
        *([d[g] for g in ("posterior", "sample_stats")] for d in (run.to_arviz(5), stored.to_arviz(5))), strict=True
    ):
        assert set(mine.data_vars) == set(its.data_vars)
        for name in mine.data_vars:
            np.testing.assert_array_equal(mine[name], its[name])


def test_its_numbers_are_ours(run):
    data = run.to_arviz(chains=[1, 2])
    [group] = [group for group in run.convergence() if group.s == 20.0]
    table = az.summary(data, var_names=["loss", "projection"], round_to="none")
    # Tails are elsewhere in ArviZ 1.
    loss, first = table.loc["loss"], table.iloc[1]
    for row, name in ((loss, "loss"), (first, "projection_1")):
        found = group.observed[name]
        for theirs, ours in (
            ("r_hat", found.rhat),
            ("ess_bulk", found.ess_bulk),
            ("mean", found.mean),
        ):
            assert float(row[theirs]) == pytest.approx(ours, rel=1e-6), (name, theirs)


def test_it_can_be_written_down(run, tmp_path):
    pytest.importorskip("h5netcdf")
    run.to_arviz(s=5.0).to_netcdf(str(tmp_path / "run.nc"))
    assert (tmp_path / "run.nc").stat().st_size > 0


def test_chains_of_several_s_are_not_put_together(run):
    with pytest.raises(tj.InputError, match=r"chains must be of one s, .* got some of 5, 20; choose one: s=5"):
        run.to_arviz()
    with pytest.raises(tj.InputError, match=r"got none of 5, 20; choose one: s=5"):
        run.to_arviz(s=7.0)
    for wrong in ([4], [0.5], [-1], [[0]]):
        with pytest.raises(tj.InputError, match="chains must be numbers of the 4 chains"):
            run.to_arviz(chains=wrong)


def test_without_arviz_it_says_what_to_install(run, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "arviz", None)
    with pytest.raises(tj.InputError, match=r"needs ArviZ, which is not installed .*trajens\[arviz\]"):
        run.to_arviz(s=5.0)


def test_a_run_in_burn_in_has_nothing_to_give(run):
    # One that was stopped before its first record has none at all.
    early = tj.sample(run.target, 10**6, chains=4, records=4, acceptance=tj.Penalty(16), stop=lambda: True)
    with pytest.raises(tj.InputError, match="to_arviz needs a record after burn-in"):
        early.to_arviz(s=5.0)
