"""A checkpoint is whole or it is not there: damage is noticed, failures leave the last good one."""

import errno
import os
import resource

import numpy as np
import pytest

from trajens.errors import InputError, StorageError
from trajens.storage import checkpoint

ARRAYS = {"path": np.arange(6, dtype=np.float32).reshape(2, 3), "epoch": np.array(7), "note": np.array("text")}


def assert_equal(a, b):
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name])
        assert a[name].dtype == b[name].dtype


def test_what_is_saved_is_loaded_and_plain_numpy_reads_it(tmp_path):
    file = checkpoint.save(tmp_path, 7, ARRAYS)
    assert_equal(checkpoint.load_newest(tmp_path), ARRAYS)
    with np.load(file, allow_pickle=False) as plain:
        np.testing.assert_array_equal(plain["path"], ARRAYS["path"])
    assert [f.name for f in tmp_path.iterdir()] == [file.name], "no temporary file is left"


def test_the_last_two_are_kept(tmp_path):
    for epoch in (5, 90, 100, 1000):
        checkpoint.save(tmp_path, epoch, {**ARRAYS, "epoch": np.array(epoch)})
    assert [f.name for f in checkpoint.checkpoints(tmp_path)] == [
        "checkpoint-0000001000.npz",
        "checkpoint-0000000100.npz",
    ]
    assert checkpoint.load_newest(tmp_path)["epoch"] == 1000


def test_every_damaged_byte_is_noticed(tmp_path):
    file = checkpoint.save(tmp_path, 7, ARRAYS)
    whole = file.read_bytes()
    rng = np.random.default_rng(0)
    changed = 0
    for position in rng.choice(len(whole), 200, replace=False):
        damaged = bytearray(whole)
        damaged[position] ^= 0xFF
        file.write_bytes(bytes(damaged))
        try:
            loaded = checkpoint.load(file)
        except Exception:
            changed += 1
            continue
        # Bytes that carry nothing (dates, spare fields of the archive) may differ: then nothing was lost.
        assert_equal(loaded, ARRAYS)
    assert changed > 100


@pytest.mark.parametrize("damage", ["cut", "empty", "changed number", "text"])
def test_a_damaged_newest_checkpoint_falls_back_with_a_warning(tmp_path, damage):
    checkpoint.save(tmp_path, 1, {**ARRAYS, "epoch": np.array(1)})
    newest = checkpoint.save(tmp_path, 2, {**ARRAYS, "epoch": np.array(2)})
    content = newest.read_bytes()
    if damage == "changed number":
        # A correct archive with another number in it: only the checksum can tell.
        with np.load(newest) as stored:
            arrays = {name: stored[name] for name in stored.files}
        np.savez(newest, **{**arrays, "path": arrays["path"] + 1})
    else:
        newest.write_bytes({"cut": content[: len(content) // 2], "empty": b"", "text": b"not an archive"}[damage])
    with pytest.warns(UserWarning, match="checkpoint-0000000002.npz' is damaged"):
        assert checkpoint.load_newest(tmp_path)["epoch"] == 1


def test_nothing_but_damage_is_an_error_and_nothing_at_all_is_none(tmp_path):
    assert checkpoint.load_newest(tmp_path) is None
    checkpoint.save(tmp_path, 1, ARRAYS).write_bytes(b"")
    with pytest.warns(UserWarning, match="damaged"), pytest.raises(InputError, match="1 damaged ones"):
        checkpoint.load_newest(tmp_path)


def test_a_full_disk_is_a_clear_error_and_keeps_the_last_good_one(tmp_path):
    checkpoint.save(tmp_path, 1, ARRAYS)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(StorageError, match=r"free some space, what was saved before is intact"):
            checkpoint.save(tmp_path, 2, {"path": np.zeros(100_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [f.name for f in tmp_path.iterdir()] == ["checkpoint-0000000001.npz"]
    assert_equal(checkpoint.load_newest(tmp_path), ARRAYS)


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failure_at_any_step_keeps_the_last_good_one(tmp_path, monkeypatch, step):
    checkpoint.save(tmp_path, 1, ARRAYS)

    def fails(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, step, fails)
    with pytest.raises(StorageError, match="No space left on device; free some space"):
        checkpoint.save(tmp_path, 2, ARRAYS)
    assert [f.name for f in tmp_path.iterdir()] == ["checkpoint-0000000001.npz"]


def test_a_folder_that_is_not_there_is_a_clear_error(tmp_path):
    with pytest.raises(StorageError, match="No such file or directory; check the path and its permissions"):
        checkpoint.save(tmp_path / "missing", 1, ARRAYS)
