"""A run at rest: all of it can be read, reading changes nothing, and only what it was begun with goes on with it."""

import csv
import json
import shutil
from functools import cached_property
from pathlib import Path

import numpy as np
import pytest

import trajens as tj
from tests.small_run import (
    EPOCHS,
    TARGET,
    StopAfter,
    again,
    assert_same,
    assert_same_records,
    content,
    fresh,
    sample,
)
from trajens.errors import InputError
from trajens.run.advice import RunFacts, findings
from trajens.run.identity import write_out

TESTS = Path(__file__).parents[1]
FORMAT_1 = TESTS / "data" / "run_format_1"
RESULTS = sorted(file.parent for file in (TESTS.parent / "paper" / "results" / "mnist").glob("*/records.csv"))
PROPERTIES = [name for name, kind in vars(tj.StoredRun).items() if isinstance(kind, (property, cached_property))]


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A run with all that can be stored, and its directory."""
    path = tmp_path_factory.mktemp("runs") / "a"
    out = tj.RunDirectory(path, config='tau = 5\nmove-name = "single"\n')
    return sample(out, keep_paths=True), path


def test_a_stored_run_is_the_run(stored):
    run, path = stored
    found = tj.StoredRun(path)
    np.testing.assert_array_equal(found.paths, run.paths)
    assert found.paths.dtype == np.float32
    np.testing.assert_array_equal(found.marks, run.marks)
    for name, values in run.records.items():
        np.testing.assert_array_equal(found.records[name], values, err_msg=name)
        assert found.records[name].dtype == values.dtype
    assert list(found.records) == list(run.records)
    np.testing.assert_equal(found.summary(), run.summary())
    np.testing.assert_equal(found.summary([1, 2]), run.summary([1, 2]))
    assert (found.epoch, found.last_epoch, found.chains, found.recorded) == (EPOCHS, EPOCHS, 4, 7)
    assert (found.seconds, found.burn_in, found.is_complete) == (run.seconds, 200, True)
    assert found.config == {"tau": 5, "move_name": "single"}
    assert write_out(found.identity["acceptance"]) == repr(run.settings.acceptance)
    assert {name: found.description[name] for name in run.description} == json.loads(json.dumps(run.description))
    assert [session["epoch"] for session in found.sessions] == [0]
    np.testing.assert_array_equal(found.history, run.history)


def test_a_run_that_was_stopped_knows_it_is_not_complete(tmp_path, small_blocks):
    run = sample(fresh(tmp_path / "a"), stop=StopAfter(10))
    found = tj.StoredRun(tmp_path / "a")
    assert not run.is_complete
    assert not found.is_complete
    assert (found.epoch, found.last_epoch) == (run.epochs, EPOCHS)
    assert found.config is None
    assert_same_records(found.records, run.records)
    np.testing.assert_array_equal(found.paths, run.paths)


def test_reading_changes_nothing(stored):
    _, path = stored
    before = content(path)
    found = tj.StoredRun(path)
    assert len(PROPERTIES) > 10
    for name in PROPERTIES:
        getattr(found, name)
    found.summary()
    assert content(path) == before


def test_a_complete_run_is_returned_and_nothing_is_written(stored, monkeypatch):
    run, path = stored

    def compiled(*_):
        raise AssertionError("the sampler was reached")

    before = content(path)
    monkeypatch.setattr("trajens.sampling.sampler._advance", compiled)
    same = sample(again(path), keep_paths=True)
    assert_same(run, same)
    assert same.is_complete
    assert same.seconds == run.seconds
    assert sample(again(path), epochs=300, keep_paths=True).epochs == EPOCHS
    assert content(path) == before


def test_what_is_not_there_is_one_sentence_and_is_not_made(tmp_path):
    found = tj.StoredRun(tmp_path / "none")
    assert not found.files.is_begun
    assert not found.is_complete
    assert found.history is None
    assert found.last_epoch == 0
    for name in ("records", "paths", "epoch", "seconds", "identity", "sessions"):
        with pytest.raises(InputError) as caught:
            getattr(found, name)
        assert "\n" not in str(caught.value)
    assert not (tmp_path / "none").exists()


# Paths at every record


def test_paths_kept_on_disk_are_those_kept_in_memory(stored, tmp_path):
    run, _ = stored
    in_memory = sample(None, keep_paths=True)
    assert not isinstance(in_memory.history, np.memmap)
    assert isinstance(run.history, np.memmap)
    assert run.history.shape == (4, 7, 5, 2)
    np.testing.assert_array_equal(run.history, in_memory.history)
    np.testing.assert_array_equal(run.history[:, -1], run.paths)
    assert sample(tmp_path / "b", epochs=300).history is None


@pytest.mark.parametrize("rows", [0.5, 1.0, 2.5])
def test_paths_kept_on_disk_do_not_depend_on_a_stop(stored, tmp_path, small_blocks, rows):
    whole, _ = stored
    out = tmp_path / "a"
    run = sample(fresh(out), stop=StopAfter(12), keep_paths=True)
    recorded = run.records["epoch"].shape[1]
    assert 0 < recorded < 7
    # What a kill leaves behind: paths whose record was not written, and a part of one more.
    with (out / "history.bin").open("ab") as stream:
        stream.write(b"\x07" * int(rows * run.paths.nbytes))
    np.testing.assert_array_equal(tj.StoredRun(out).history, whole.history[:, :recorded])
    np.testing.assert_array_equal(run.history, whole.history[:, :recorded])
    on = sample(again(out), keep_paths=True)
    assert_same(whole, on)
    np.testing.assert_array_equal(on.history, whole.history)
    np.testing.assert_array_equal(tj.StoredRun(out).history, whole.history)


def test_extending_appends_paths(stored, tmp_path):
    whole, _ = stored
    run = sample(tmp_path / "a", epochs=500, records=5, keep_paths=True).extend(200, records=2)
    np.testing.assert_array_equal(run.history, whole.history)


@pytest.mark.slow
def test_many_chains_write_bytes_and_go_on(tmp_path, small_blocks):
    many = {"chains": 300, "keep_paths": True}
    whole = sample(None, epochs=300, **many)
    run = sample(fresh(tmp_path / "a"), epochs=300, stop=StopAfter(9), **many)
    assert not run.is_complete
    assert not (tmp_path / "a" / "records.csv").exists()
    assert_same_records(tj.StoredRun(tmp_path / "a").records, run.records)
    # A record that the checkpoint does not know, and a part of another.
    file = tmp_path / "a" / "records.bin"
    size = (file.stat().st_size - file.read_bytes().index(b"\n") - 1) // run.records["epoch"].shape[1]
    with file.open("ab") as stream:
        stream.write(file.read_bytes()[-size:] + b"abc")
    run = sample(again(tmp_path / "a"), epochs=300, **many)
    assert_same(whole, run)
    found = tj.StoredRun(tmp_path / "a")
    assert_same_records(found.records, run.records)
    np.testing.assert_array_equal(found.history, whole.history)
    np.testing.assert_equal(found.summary(), run.summary())


# Runs of the version before


def read_csv(file):
    with file.open() as stream:
        rows = list(csv.reader(stream))
    names = [name.replace(" ", "_") for name in rows[0]]
    table = dict(zip(names, np.array(rows[1:], float).T, strict=True))
    chains = int(table.pop("chain").max()) + 1
    return {name: values.reshape(-1, chains).T for name, values in table.items()}


@pytest.mark.parametrize("path", [FORMAT_1, *RESULTS], ids=lambda path: path.name)
def test_runs_of_the_version_before_can_be_read(path):
    before = content(path)
    found = tj.StoredRun(path)
    expected = read_csv(path / "records.csv")
    assert list(found.records) == list(expected)
    for name, values in expected.items():
        assert " " not in name
        np.testing.assert_array_equal(found.records[name], values, err_msg=name)
    assert {"tested", "cut_off", "all_data", "not_finite", "current_not_finite"} <= set(found.records)
    file = max(path.glob("checkpoint-*.npz"))
    with np.load(file) as arrays:
        np.testing.assert_array_equal(found.paths, arrays["state.path"].astype(np.float32))
    assert found.epoch == int(file.stem.split("-")[1]) >= found.records["epoch"][0, -1]
    assert found.chains == len(found.paths) == len(found.records["epoch"])
    assert found.is_complete == (found.epoch == found.config["epochs"])
    assert found.seconds > 0
    assert found.config["tau"] == found.paths.shape[1]
    assert found.burn_in == found.config["burn_in"]
    # There is nothing to average where not all records were kept, or none is after burn-in.
    if found.is_complete and len(expected["epoch"][0]) == found.recorded:
        assert found.summary()["chains"] == found.chains
        assert np.isfinite(found.summary()["loss"])
    assert content(path) == before


def test_a_run_of_the_version_before_is_not_gone_on_with(tmp_path):
    path = tmp_path / "old"
    shutil.copytree(FORMAT_1, path)
    target = tj.Target(tj.datasets.perceptron(size=256).problem(), tau=3, sigma=0.1, s=20.0)
    settings = {"chains": 2, "seed": 5, "burn_in": 100}
    with pytest.raises(InputError, match="must be of this version of trajens to be continued") as caught:
        tj.sample(target, 800, out=tj.RunDirectory(path, resume=True), **settings)
    assert "initial=StoredRun(path).paths" in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="which holds a run"):
        tj.sample(target, 800, out=path, **settings)
    assert {file.name for file in path.iterdir()} - {"lock"} == {file.name for file in FORMAT_1.iterdir()}
    # What the sentence says to do.
    sampler = tj.Sampler(target, tj.Settings(**settings))
    np.testing.assert_array_equal(sampler.init(tj.StoredRun(path).paths).path, tj.StoredRun(path).paths)


# What must not change


X = np.random.default_rng(0).standard_normal((24, 3)).astype(np.float32)
Y = np.arange(24) % 2


def scaled(scale):
    """Functions of one name and other values."""

    def loss(theta, batch):
        return scale * (batch - theta).sum(1) ** 2

    return loss


def own(scale=1.0, data=X):
    return tj.Target(tj.Problem(scaled(scale), data, 3), tau=2, sigma=0.1, s=2.0)


def network(activation="tanh", data=X, labels=Y):
    return tj.Target(tj.models.mlp((3, 2, 2), activation).problem(data, labels), tau=2, sigma=0.1, s=2.0)


TINY = {"epochs": 20, "chains": 1, "records": 2, "burn_in": 10, "acceptance": tj.Penalty(8)}


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """Two runs, one with a loss of one's own and one of a network."""
    paths = {make: tmp_path_factory.mktemp("runs") / make.__name__ for make in (own, network)}
    for make, path in paths.items():
        tj.sample(make(), out=path, **TINY)
    return paths


CHANGES = {
    "loss": (own, {"scale": 2.0}, {}, "a loss of other values"),
    "data": (own, {"data": X + 1}, {}, "data_checksum"),
    "activation": (network, {"activation": "relu"}, {}, "tanh"),
    "inputs": (network, {"data": X + 1}, {}, "data_checksum"),
    "labels": (network, {"labels": 1 - Y}, {}, "data_checksum"),
    "another test": (own, {}, {"acceptance": tj.MinibatchBarker(8)}, "acceptance Penalty"),
    "noise of the test": (own, {}, {"acceptance": tj.Penalty(8, rho=1.0)}, "acceptance Penalty"),
    "move": (own, {}, {"move": tj.SingleSite(0.5)}, "move SingleSite"),
    "scan": (own, {}, {"scan": "random"}, "scan Checkerboard"),
    "paths": (own, {}, {"keep_paths": True}, "keep_paths False"),
    "chains": (own, {}, {"chains": 2}, "chains 1"),
    "observe": (own, {}, {"observe": {"first": lambda path: path[0, 0]}}, "observe"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_run_is_resumed_with_what_it_was_begun_with_or_refused(begun, change):
    make, problem, settings, named = CHANGES[change]
    before = content(begun[make])
    with pytest.raises(InputError, match=f"begun with .*{named}") as caught:
        tj.sample(make(**problem), out=again(begun[make]), **{**TINY, **settings})
    assert "\n" not in str(caught.value)
    assert content(begun[make]) == before


def test_a_loss_of_slightly_other_values_is_refused(begun):
    with pytest.raises(InputError, match="a loss of other values"):
        tj.sample(own(scale=1.1), out=again(begun[own]), **TINY)


def test_an_equal_problem_made_again_goes_on(begun):
    for make, path in begun.items():
        assert tj.sample(make(), out=again(path), **TINY).is_complete


def test_a_target_of_another_tilt_is_refused(stored):
    _, path = stored
    other = tj.Target(TARGET.problem, tau=5, sigma=0.1, s=tj.schedule.exponential(20.0, 90.0, 300))
    with pytest.raises(InputError, match="schedule"):
        sample(again(path), target=other, keep_paths=True)


@pytest.mark.parametrize("damage", ["removed", "cut", "changed"])
def test_kept_paths_that_are_damaged_are_not_gone_on_with(tmp_path, damage):
    sample(tj.RunDirectory(tmp_path / "a", checkpoint_seconds=1e9), epochs=300, keep_paths=True)
    file = tmp_path / "a" / "history.bin"
    raw = bytearray(file.read_bytes())
    raw[-1] ^= 1
    file.unlink()
    if damage != "removed":
        file.write_bytes(raw[:-1] if damage == "cut" else raw)
    with pytest.raises(InputError, match=r"history.bin' must hold the 7 records of 4 chains"):
        sample(again(tmp_path / "a"), epochs=300, keep_paths=True)


def test_a_run_of_the_version_before_is_read_and_not_gone_on_with(tmp_path):
    shutil.copytree(TESTS / "data" / "run_format_2", tmp_path / "r")
    stored = tj.StoredRun(tmp_path / "r")
    assert (stored.epoch, stored.burn_in, stored.is_complete, stored.chains) == (200, 40, True, 2)
    assert stored.summary()["loss"] == pytest.approx(0.0564293)
    assert stored.history.shape == (2, 5, 3, 2)
    np.testing.assert_array_equal(stored.history[:, -1], stored.paths)
    facts = RunFacts.of(stored)
    assert (facts.tolerance, facts.is_exact, facts.pairs, facts.asked) == (0.01, False, None, None)
    assert "Convergence" in {one.name for one in findings(facts)}
    how = {"chains": 2, "burn_in": 40, "records": 5, "acceptance": tj.Penalty(16), "keep_paths": True}
    target = tj.Target(TARGET.problem, 3, 0.1, 80.0)
    with pytest.raises(InputError, match="must be of this version of trajens to be continued, got an earlier one"):
        tj.sample(target, 300, out=again(tmp_path / "r"), **how)
    assert tj.sample(target, 300, initial=stored.paths, **how).is_complete


def test_records_of_ones_own_in_another_order_are_refused(tmp_path):
    own = {"a": lambda path: path[0, 0], "b": lambda path: path[0, 1]}
    sample(fresh(tmp_path / "r"), stop=StopAfter(0), observe=own)
    with pytest.raises(InputError, match="observe"):
        sample(again(tmp_path / "r"), observe=dict(reversed(own.items())))
    assert sample(again(tmp_path / "r"), observe=own).is_complete


def test_a_run_killed_after_its_first_record_and_stopped_before_it_goes_on(tmp_path, small_blocks):
    whole = sample(None, keep_paths=True)
    sample(fresh(tmp_path / "r"), stop=StopAfter(0), keep_paths=True)
    # As a kill leaves it: a row that no checkpoint counts.
    (tmp_path / "r" / "history.bin").write_bytes(b'{"shape": [4, 5, 2], "dtype": "<f4"}\n' + bytes(160))
    part = sample(again(tmp_path / "r"), stop=StopAfter(0), keep_paths=True)
    assert part.history is None
    run = sample(again(tmp_path / "r"), keep_paths=True)
    assert_same(whole, run)
    np.testing.assert_array_equal(run.history, whole.history)
