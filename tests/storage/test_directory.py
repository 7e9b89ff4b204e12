"""A run in a directory can be stopped anywhere and goes on as if nothing had happened."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import trajens as tj
from tests.small_run import DATA, EPOCHS, SETTINGS, TARGET, StopAfter, again, assert_same, fresh, sample
from trajens.errors import InputError, StorageError
from trajens.files import in_shell, write_atomically
from trajens.storage.checkpoint import checkpoints, load, save


def test_a_run_stopped_after_every_block_is_the_run_that_was_not(tmp_path, small_blocks):
    whole = tj.sample(TARGET, EPOCHS, **SETTINGS)
    out, stops = fresh(tmp_path / "a"), 0
    run = sample(out, stop=StopAfter(0))
    while not run.is_complete:
        stops += 1
        run = sample(again(tmp_path / "a"), stop=StopAfter(stops % 3))
    assert stops > 10
    assert_same(whole, run)
    sessions = [json.loads(line) for line in (tmp_path / "a" / "sessions.jsonl").read_text().splitlines()]
    assert len(sessions) == stops + 1
    assert {"trajens", "jax", "python", "devices", "seed", "command", "host"} <= sessions[0].keys()


def test_records_cut_in_the_middle_of_a_line_are_read_and_written_again(tmp_path, small_blocks):
    whole = sample(tmp_path / "whole")
    run = sample(fresh(tmp_path / "a"), stop=StopAfter(12))
    records = tmp_path / "a" / "records.csv"
    with records.open("a") as stream:
        stream.write("0,9999,20.0,0.5,0.1,0.1,0.5,16.0,1,1,0.1,0.1,1,0,0,0,0\n1,9999,20")
    read = tj.StoredRun(tmp_path / "a").records
    np.testing.assert_array_equal(read["epoch"], run.records["epoch"])
    run = sample(again(tmp_path / "a"))
    assert_same(whole, run)
    assert_same(whole, run.__class__(**{**run.__dict__, "records": tj.StoredRun(tmp_path / "a").records}))


def test_records_are_a_table_that_every_reader_of_csv_reads(tmp_path):
    run = sample(tmp_path / "a")
    table = np.genfromtxt(tmp_path / "a" / "records.csv", delimiter=",", names=True)
    assert len(table) == 4 * 7
    np.testing.assert_array_equal(table["loss"].reshape(7, 4).T, run.records["loss"])
    assert table.dtype.names[:3] == ("chain", "epoch", "s")


def test_extending_goes_on_in_the_directory(tmp_path):
    whole = sample(None, epochs=EPOCHS)
    run = sample(tmp_path / "a", epochs=500, records=5).extend(200, records=2)
    assert_same(whole, run)
    assert_same(whole, sample(again(tmp_path / "a")))
    more = sample(again(tmp_path / "a"), epochs=800)
    assert more.epochs == 800
    np.testing.assert_array_equal(more.paths, sample(None, epochs=800, records=8).paths)


def test_a_damaged_checkpoint_goes_back_one_and_gives_the_same_run(tmp_path, small_blocks):
    whole = sample(None)
    sample(fresh(tmp_path / "a"), stop=StopAfter(8))
    newest, _ = checkpoints(tmp_path / "a")
    newest.write_bytes(newest.read_bytes()[:-100])
    with pytest.warns(UserWarning, match="damaged"):
        run = sample(again(tmp_path / "a"))
    assert_same(whole, run)


def test_a_copy_without_the_newest_checkpoint_is_refused_and_can_be_resumed(tmp_path, small_blocks):
    whole = sample(fresh(tmp_path / "a b"))
    newest, older = checkpoints(tmp_path / "a b")
    epoch = int(load(older)["epoch"])
    newest.unlink()
    for read in ("epoch", "paths", "records", "is_complete"):
        with pytest.raises(InputError, match=f"newest checkpoint, got one of epoch {epoch} where records go on to 700"):
            getattr(tj.StoredRun(tmp_path / "a b"), read)
    with pytest.raises(InputError, match=f"trajens resume '{tmp_path}/a b' goes on"):
        tj.Ensemble.load(tmp_path / "a b", DATA.problem())
    assert_same(whole, sample(again(tmp_path / "a b")))
    assert tj.StoredRun(tmp_path / "a b").is_complete


def test_a_run_that_writes_is_read_at_the_only_checkpoint_it_has(tmp_path, small_blocks):
    seen = []

    def stop():
        seen.append(tj.StoredRun(tmp_path / "a").epoch)
        return False

    run = sample(tj.RunDirectory(tmp_path / "a", checkpoint_seconds=1e9), stop=stop)
    assert run.is_complete
    assert len(seen) > 10
    assert set(seen) == {0}


def test_a_directory_that_is_removed_is_not_called_intact(tmp_path, small_blocks):
    def stop():
        shutil.rmtree(tmp_path / "a", ignore_errors=True)
        return False

    with pytest.raises(StorageError, match="must stay while a run writes, got it removed, and what was saved") as told:
        sample(fresh(tmp_path / "a"), stop=stop)
    assert "intact" not in str(told.value)
    with pytest.raises(StorageError, match="must be written, got No such file or directory") as told:
        write_atomically(tmp_path / "a" / "file", b"")
    assert "intact" not in str(told.value)


@pytest.mark.parametrize(
    ("path", "typed"), [("runs/a", "runs/a"), ("my runs/a", "'my runs/a'"), ("a$b;c", "'a$b;c'"), ("-a", "./-a")]
)
def test_paths_are_quoted_as_a_shell_reads_them(path, typed):
    assert in_shell(path) == in_shell(Path(path)) == typed


def test_a_directory_with_a_run_is_not_overwritten(tmp_path):
    sample(tmp_path / "a")
    with pytest.raises(InputError, match="which holds a run; continue it with trajens resume"):
        sample(tmp_path / "a")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"seed": 1}, "seed 0 .now 1."),
        ({"acceptance": tj.Penalty(32)}, "acceptance Penalty"),
        ({"burn_in": 100}, "burn_in 200 .now 100."),
        ({"target": tj.Target(tj.datasets.perceptron(1).problem(), 5, 0.1, TARGET.s)}, "data_checksum"),
        ({"target": tj.Target(DATA.problem(), 5, 0.1, 80.0)}, "schedule"),
    ],
)
def test_another_run_cannot_go_on_where_this_one_stopped(tmp_path, change, named):
    sample(tmp_path / "a", epochs=300)
    with pytest.raises(InputError, match=f"begun with.*{named}"):
        sample(again(tmp_path / "a"), epochs=300, **change)


def test_a_second_process_is_refused_until_the_first_is_gone(tmp_path):
    script = (
        "import sys, trajens as tj\n"
        f"with tj.RunDirectory({str(tmp_path / 'a')!r}):\n"
        "    print('locked', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    other = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout.readline() == "locked\n"
        with pytest.raises(InputError, match="one process at a time"):
            sample(tmp_path / "a", epochs=300)
    finally:
        other.kill()
        other.wait()
    assert sample(tmp_path / "a", epochs=300).is_complete


def test_a_directory_that_cannot_be_made_is_a_clear_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="Not a directory; check the path"):
        sample(tmp_path / "file" / "a")


def test_missing_records_are_noticed(tmp_path):
    sample(tmp_path / "a", epochs=300)
    os.truncate(tmp_path / "a" / "records.csv", 300)
    with pytest.raises(InputError, match="must hold the 7 records of 4 chains"):
        sample(again(tmp_path / "a"), epochs=300)


def test_a_stopped_run_in_memory_can_be_extended(small_blocks):
    whole = sample(None, epochs=800, records=8)
    run = sample(None, stop=StopAfter(7))
    assert not run.is_complete
    assert_same(whole, run.extend(100, records=1))
    with pytest.raises(InputError, match="a summary needs a record after burn-in"):
        sample(None, stop=StopAfter(2)).summary()


def test_a_state_that_was_left_behind_cannot_go_on(tmp_path):
    first = sample(tmp_path / "a", epochs=300)
    second = first.extend(200)
    with pytest.raises(InputError, match=r"must go on from its last state, got epoch 300 where .* is at 500"):
        first.extend(100)
    assert second.extend(100).epochs == 600
    assert sample(again(tmp_path / "a"), epochs=300).epochs == 600


def test_an_extension_is_remembered_before_and_after_its_checkpoints(tmp_path, small_blocks):
    sample(tmp_path / "a", epochs=300)
    # Killed before the first checkpoint of the extension: only the plan knows of it.
    older = {file.name: file.read_bytes() for file in checkpoints(tmp_path / "a")}
    whole = sample(again(tmp_path / "a"), epochs=500)
    for file in checkpoints(tmp_path / "a"):
        file.unlink()
    for name, content in older.items():
        (tmp_path / "a" / name).write_bytes(content)
    run = sample(again(tmp_path / "a"), epochs=300)
    assert run.epochs == 500
    assert_same(whole, run)


def test_a_larger_number_of_epochs_needs_no_other_settings(tmp_path):
    settings = {name: value for name, value in SETTINGS.items() if name != "burn_in"}
    tj.sample(TARGET, 400, out=tmp_path / "a", **settings)
    assert tj.sample(TARGET, 600, out=again(tmp_path / "a"), **settings).settings.burn_in == 300


@pytest.mark.parametrize("damage", [b"\xff\xfe", b"x,y\n1,2\n", b"\0" * 300, b"chain,epoch\n0,a\n"])
def test_damaged_records_are_one_sentence(tmp_path, damage):
    sample(tmp_path / "a", epochs=300)
    (tmp_path / "a" / "records.csv").write_bytes(damage)
    with pytest.raises(InputError, match=r"records.csv' must"):
        sample(again(tmp_path / "a"), epochs=300)


def test_a_damaged_checkpoint_does_not_count_as_one_of_the_last_two(tmp_path, small_blocks):
    sample(fresh(tmp_path / "a"), stop=StopAfter(8))
    checkpoints(tmp_path / "a")[0].write_bytes(b"")
    with pytest.warns(UserWarning, match="damaged"):
        sample(again(tmp_path / "a"), stop=StopAfter(2))
    assert len(checkpoints(tmp_path / "a")) == 2
    assert all(load(file) for file in checkpoints(tmp_path / "a"))


def test_paths_kept_in_half_precision_can_be_started_from_and_not_resumed(tmp_path):
    sample(tmp_path / "run", epochs=300, burn_in=200)
    file = checkpoints(tmp_path / "run")[0]
    arrays = load(file)
    save(tmp_path / "run", 300, {**arrays, "state.path": arrays["state.path"].astype(np.float16)})
    with pytest.raises(InputError, match="must hold paths in single precision"):
        sample(again(tmp_path / "run"))
    paths = tj.StoredRun(tmp_path / "run").paths
    assert paths.dtype == np.float32
    assert paths.shape == (4, 5, 2)
