"""MNIST comes with the package and is intact; a user's own files are read or refused in a sentence."""

import gzip
import hashlib
import struct

import numpy as np
import pytest

import trajens as tj

MD5 = {
    "train_x": "6bbc9ace898e44ae57da46a324031adb",
    "train_y": "a25bea736e30d166cdddb491f175f624",
    "test_x": "2646ac647ad5339dbf082846283269ea",
    "test_y": "27ae3e4e09519cfbb04c329615203637",
}


def idx_bytes(array):
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TRAJENS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "mnist.bin"


def test_mnist_is_the_standard_split_byte_for_byte(cache):
    data = tj.datasets.mnist()
    assert data.train_x.shape == (60_000, 28, 28)
    assert data.test_y.shape == (10_000,)
    for name, digest in MD5.items():
        assert hashlib.md5(idx_bytes(getattr(data, name))).hexdigest() == digest
    again = tj.datasets.mnist()
    assert cache.is_file()
    np.testing.assert_array_equal(data.train_x, again.train_x)


def test_a_damaged_cache_is_replaced(cache):
    tj.datasets.mnist()
    whole = cache.read_bytes()
    cache.write_bytes(whole[:-1] + b"\xff")
    assert (tj.datasets.mnist().test_y == np.frombuffer(whole[-10_000:], np.uint8)).all()
    assert cache.read_bytes() == whole


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("TRAJENS_CACHE", str(tmp_path / "file" / "cache"))
    monkeypatch.setattr("lzma.decompress", lambda _: bytes(54_950_048))
    assert tj.datasets.mnist().train_x.shape == (60_000, 28, 28)


X = np.arange(24, dtype=np.uint8).reshape(4, 2, 3)
Y = np.array([0, 1, 2, 1], np.uint8)


def assert_loaded(data):
    np.testing.assert_array_equal(data.x.reshape(4, -1), X.reshape(4, -1))
    np.testing.assert_array_equal(data.y, Y)


def test_npz_idx_and_csv_files_load_to_the_same_arrays(tmp_path):
    np.savez(tmp_path / "a.npz", x=X, y=Y)
    assert_loaded(tj.datasets.load(tmp_path / "a.npz"))
    (tmp_path / "t-images-idx3-ubyte").write_bytes(idx_bytes(X))
    (tmp_path / "t-labels-idx1-ubyte").write_bytes(idx_bytes(Y))
    assert_loaded(tj.datasets.load(tmp_path / "t-images-idx3-ubyte"))
    (tmp_path / "u-images-idx3.gz").write_bytes(gzip.compress(idx_bytes(X)))
    assert_loaded(tj.datasets.load(tmp_path / "u-images-idx3.gz", labels=tmp_path / "t-labels-idx1-ubyte"))
    rows = "\n".join(",".join(map(str, [y, *x])) for x, y in zip(X.reshape(4, -1), Y, strict=True))
    (tmp_path / "a.csv").write_text("digit,a,b,c,d,e,f\n" + rows + "\n")
    assert_loaded(tj.datasets.load(tmp_path / "a.csv", labels="digit", num_classes=3))


def write_npz(path, **arrays):
    np.savez(path, **arrays)


BAD = {
    "missing.npz": (None, "exists"),
    "data.txt": (lambda p: p.write_text("1 2 3"), "must end in"),
    "names.npz": (lambda p: write_npz(p, a=X), "arrays x and y"),
    "shape.npz": (lambda p: write_npz(p, x=X, y=Y[:3]), "shape"),
    "nan.npz": (lambda p: write_npz(p, x=np.full((2, 2), np.nan), y=Y[:2]), "NaN"),
    "text.npz": (lambda p: write_npz(p, x=X, y=np.array(["a", "b", "c", "d"])), "numbers"),
    "pickled.npz": (lambda p: write_npz(p, x=X, y=np.array([{}, 1, 2, 3], object)), "plain arrays"),
    "negative.npz": (lambda p: write_npz(p, x=X, y=Y.astype(int) - 1), "from 0"),
    "range.npz": (lambda p: write_npz(p, x=X, y=Y.astype(int) + 9), "0..9"),
    "cut.npz": (lambda p: p.write_bytes(b"PK\x03\x04 not a zip"), "complete .npz"),
    "cut-idx3": (lambda p: p.write_bytes(idx_bytes(X)[:-1]), "cut off"),
    "header-idx3": (lambda p: p.write_bytes(b"\0\0\x08\x03\0\0"), "cut off"),
    "other-idx3": (lambda p: p.write_bytes(b"hello world"), "IDX header"),
    "half-idx3.gz": (lambda p: p.write_bytes(gzip.compress(idx_bytes(X))[:20]), "gzip"),
    "no-label.csv": (lambda p: p.write_text("a,b\n1,2\n"), "label column"),
    "words.csv": (lambda p: p.write_text("a,label\n" + 20 * "1,2\n" + "x,1\n"), "got 'x' in line 22 and 1 in line 2"),
    "ragged.csv": (lambda p: p.write_text("a,b,label\n1,2\n"), "3 cells in every row.*got 2 in line 2"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_refused_in_a_sentence(name, tmp_path):
    write, words = BAD[name]
    if write is not None:
        write(tmp_path / name)
    labels = None
    if "idx3" in name:
        labels = tmp_path / "labels-idx1"
        labels.write_bytes(idx_bytes(Y))
    with pytest.raises(tj.InputError, match=words) as refused:
        tj.datasets.load(tmp_path / name, labels=labels, num_classes=10)
    assert str(refused.value)[-1] in ".?"
