"""Damage to any file of a run, or to data: one sentence or the same result, never a traceback or another result."""

import csv
import gzip
import json
import math
import os
import shutil
import struct
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import trajens as tj
from tests.small_run import StopAfter, assert_same_records
from tests.storage.mutations import mutations
from trajens.app.cli.app import app
from trajens.app.experiment import Experiment
from trajens.app.resolve import resolve
from trajens.datasets import load_inputs
from trajens.errors import InputError

EXAMPLES = int(os.environ.get("TRAJENS_FUZZ_EXAMPLES", 60))
"""Of every test; with more, they are also others every time."""
SECONDS = 40.0
"""The time limit of a test, with the usual number of examples."""
FUZZ = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=EXAMPLES <= 60,
    database=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
RNG = np.random.default_rng(0)
SIZE = RNG.normal(5.0, 2.0, 40)
PLACE = RNG.choice(["meadow", "wood"], 40)
KIND = np.where(SIZE > 5, "rose", np.where(PLACE == "wood", "fern", "daisy"))
X = RNG.standard_normal((40, 3)).astype(np.float32)
IMAGES = RNG.integers(0, 256, (40, 3, 3), dtype=np.uint8)
SMALL = {"tau": 2, "epochs": 120, "records": 6, "chains": 2, "checkpoint_seconds": 0.0, "burn_in": 40}


def write_data(folder):
    """Data in all formats, by the names of their files."""
    rows = zip(SIZE, PLACE, KIND, strict=True)
    flowers = "size,site,kind\n" + "".join(f"{s:.3f},{p},{k}\n" for s, p, k in rows)
    (folder / "flowers.csv").write_text(flowers)
    (folder / "line.csv").write_text("a;b;y\n" + "".join(f"{a:.3f};{b:.3f};{a - 2 * b:.3f}\n" for a, b, _ in X))
    np.savez(folder / "arrays.npz", x=X, y=(X[:, 0] > 0).astype(int))
    np.savez_compressed(folder / "packed.npz", x=X, y=(X[:, 0] > 0).astype(int))
    images = b"\0\0\x08\x03" + struct.pack(">III", *IMAGES.shape) + IMAGES.tobytes()
    labels = b"\0\0\x08\x01" + struct.pack(">I", 40) + (IMAGES[:, 0, 0] > 128).astype(np.uint8).tobytes()
    for name, raw in (("images-idx3-ubyte", images), ("labels-idx1-ubyte", labels)):
        (folder / name).write_bytes(raw)
        with gzip.GzipFile(folder / f"{name}.gz", "wb", mtime=0) as stream:
            stream.write(raw)


RUNS = {
    "complete": ("flowers.csv", {"label": "kind", "hidden": [3]}, False),
    "stopped": ("arrays.npz", {"model": "linear", "keep_paths": True}, True),
    "fitted": ("line.csv", {"hidden": [3], "activation": "tanh"}, True),
    "many": ("perceptron", {"chains": 300, "num_data": 16, "keep_paths": True}, True),
}


class Limit:
    """Whether the time of a test is over."""

    def __init__(self):
        self._end = time.monotonic() + (SECONDS if EXAMPLES <= 60 else math.inf)

    def __call__(self):
        return time.monotonic() > self._end


class Place:
    """A run in a folder of its own, what its files hold and what it gives while they are whole."""

    def __init__(self, folder, name):
        data, options, is_stopped = RUNS[name]
        self.run, self.has_network = folder / name, data != "perceptron"
        self.data = folder / data
        problem = str(self.data) if self.has_network else data
        experiment = Experiment(resolve({"problem": problem, **SMALL, **options}))
        experiment.run(self.run, stop=StopAfter(4) if is_stopped else None)
        self.files = {file.name: file.read_bytes() for file in self.run.iterdir()}
        self.checkpoints = sorted(file for file in self.files if file.startswith("checkpoint"))
        assert len(self.checkpoints) == 2
        self.expected = self.outcome(), self.resumed()
        assert all(is_done for is_done, _ in self.expected[0])
        assert self.expected[1] is not None
        self.restore()
        # What an older checkpoint gives.
        (self.run / self.checkpoints[-1]).unlink()
        self.older = self.outcome()
        self.restore()
        assert self.older != self.expected[0]

    def restore(self):
        shutil.rmtree(self.run)
        self.run.mkdir()
        for name, raw in self.files.items():
            (self.run / name).write_bytes(raw)

    def outcome(self):
        """What is read of the run without going on with it: (done, what it gives) of every way to read it."""
        found = [_read(self.run)]
        if self.has_network:
            out = self.run.parent / "out.csv"
            found.append(_called("evaluate", self.run, "--data", self.data, "--json"))
            found.append(_called("evaluate", self.run, "--json"))
            predicted = _called("predict", self.run, self.data, "--out", out, "--overwrite")
            found.append((*predicted[:1], out.read_text() if predicted[0] else predicted[1]))
        return found

    def resumed(self):
        """The run after going on with it, or None where that is refused."""
        if not _called("resume", self.run, "--json")[0]:
            return None
        stored = tj.StoredRun(self.run)
        return stored.paths, stored.records, None if stored.history is None else stored.history.copy()


def _called(*command):
    """Whether a command was done, and what it printed; what is refused is refused in one sentence."""
    result = CliRunner().invoke(app, [str(part) for part in command])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code in (0, 2, 3), result.output
    assert "Traceback" not in result.output
    if result.exit_code:
        said = [line for line in result.stderr.splitlines() if line.startswith("trajens: error: ")]
        assert len(said) == 1, result.stderr
    return result.exit_code == 0, result.stdout


def _read(run):
    """All that a stored run knows, in words."""
    try:
        stored = tj.StoredRun(run)
        history = stored.history
        # In words, where a number that is not known equals itself.
        return True, repr(
            (
                stored.paths.tolist(),
                {name: values.tolist() for name, values in stored.records.items()},
                None if history is None else history.tolist(),
                (stored.epoch, stored.last_epoch, stored.seconds, stored.burn_in, stored.summary()),
            )
        )
    except InputError:
        return False, None


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """The runs, made once."""
    folder = tmp_path_factory.mktemp("fuzz")
    write_data(folder)
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setattr("trajens.run.loop.Blocks.__init__", lambda self, *_: setattr(self, "epochs", 23))
        patch.setattr("trajens.run.loop.Blocks.adapt", lambda self, seconds: None)
        yield {name: Place(folder, name) for name in RUNS}


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_a_damaged_file_of_a_run_changes_no_result(places, name):
    place, is_over = places[name], Limit()

    @FUZZ
    @given(st.sampled_from(sorted(place.files)), mutations())
    def check(file, mutation):
        if is_over():
            return
        raw = mutation(place.files[file])
        try:
            (place.run / file).unlink() if raw is None else (place.run / file).write_bytes(raw)
            outcome = place.outcome()
            # A checkpoint that is gone is not missed where no record came after the older one.
            is_older = file == place.checkpoints[-1] and raw is None
            expected = place.older if is_older else place.expected[0]
            for (is_done, found), (_, right) in zip(outcome, expected, strict=True):
                assert not is_done or found == right
            resumed = place.resumed()
            if resumed is not None:
                paths, records, history = resumed
                np.testing.assert_array_equal(paths, place.expected[1][0])
                assert_same_records(records, place.expected[1][1])
                np.testing.assert_array_equal(history, place.expected[1][2])
        finally:
            place.restore()

    check()


DATA = ["flowers.csv", "line.csv", "arrays.npz", "packed.npz", "images-idx3-ubyte", "images-idx3-ubyte.gz"]


@pytest.fixture
def data(tmp_path):
    write_data(tmp_path)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("name", DATA)
def test_damaged_data_are_read_or_refused_in_one_sentence(data, name):
    whole, is_over = (data / name).read_bytes(), Limit()

    @settings(FUZZ, max_examples=10 * EXAMPLES)
    @given(mutations(), st.sampled_from([name, name.replace("images-idx3", "labels-idx1")]))
    def check(mutation, file):
        if is_over():
            return
        right = (data / file).read_bytes()
        raw = mutation(right)
        (data / file).unlink() if raw is None else (data / file).write_bytes(raw)
        try:
            for read in (tj.datasets.load, _inputs_of, tj.datasets.learn):
                _finite_or_refused(read, data / name)
        finally:
            (data / file).write_bytes(right)
        assert (data / name).read_bytes() == whole

    check()


def _inputs_of(file):
    return (load_inputs(file),)


def _finite_or_refused(read, file):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            found = read(file)
    except InputError:
        return
    arrays = [part for part in found if isinstance(part, np.ndarray)]
    assert all(np.isfinite(array).all() and len(array) == len(arrays[0]) for array in arrays)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["complete", "fitted", "stopped"])
def test_damaged_data_give_finite_answers_or_none(places, name):
    place, is_over = places[name], Limit()
    whole, out = place.data.read_bytes(), place.run.parent / "answers.csv"

    @FUZZ
    @given(mutations())
    def check(mutation):
        if is_over():
            return
        raw = mutation(whole)
        try:
            place.data.unlink() if raw is None else place.data.write_bytes(raw)
            is_done, printed = _called("evaluate", place.run, "--data", place.data, "--json")
            if is_done:
                scores = json.loads(printed)
                assert all(math.isfinite(v) for n, v in scores.items() if isinstance(v, float) and n != "r2")
            is_done, _ = _called("predict", place.run, place.data, "--out", out, "--overwrite")
            if is_done:
                with out.open(newline="") as stream:
                    rows = list(csv.reader(stream))
                assert all(len(row) == len(rows[0]) for row in rows)
                assert all(math.isfinite(float(row[-1])) for row in rows[1:])
            # Going on needs the data it was begun with, to the last bit.
            done, _ = _called("resume", place.run, "--json")
            assert not done or _same_data(raw, whole, place)
        finally:
            place.data.write_bytes(whole)
            place.restore()

    check()


def _same_data(raw, whole, place):
    """Whether two files say the same, as far as a run can tell."""
    stored = Experiment.load(place.run)
    found = []
    for content in (raw, whole):
        place.data.write_bytes(content)
        found.append(stored.labelled(place.data))
    return all(np.array_equal(a, b) for a, b in zip(*found, strict=True))


# Found that way, or meant to be: files that claim more than they hold, or hold what must not be run


def test_a_file_that_claims_more_than_it_holds_is_refused_without_room_for_it(tmp_path):
    huge = b"\0\0\x08\x03" + struct.pack(">III", 65536, 65536, 65536)
    (tmp_path / "a-idx3").write_bytes(huge + b"abc")
    # Sizes whose product is 0 in 64 bits.
    (tmp_path / "b-idx3").write_bytes(b"\0\0\x08\x04" + struct.pack(">IIII", *4 * [65536]))
    (tmp_path / "c-idx3").write_bytes(b"\0\0\x08\xff" + 255 * struct.pack(">I", 1) + b"a")
    with gzip.open(tmp_path / "d-idx3.gz", "wb") as stream:
        stream.write(huge + bytes(1000))
    for name in ("a-idx3", "b-idx3", "c-idx3", "d-idx3.gz"):
        with pytest.raises(InputError, match=r"must (hold|start)"):
            load_inputs(tmp_path / name)


def test_a_bomb_is_not_unpacked_beyond_what_its_header_says(tmp_path):
    with gzip.open(tmp_path / "a-idx3.gz", "wb", 9) as stream:
        stream.write(b"\0\0\x08\x01" + struct.pack(">I", 8))
        for _ in range(200):
            stream.write(bytes(2**20))
    before = _peak()
    with pytest.raises(InputError, match=r"must hold 8 bytes for shape .*, got more"):
        load_inputs(tmp_path / "a-idx3.gz")
    assert _peak() - before < 100 * 2**10


def _peak():
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@pytest.mark.parametrize("shape", [(10**7, 1000), (2**32, 2**32)])
def test_an_array_that_claims_more_than_its_archive_holds_is_refused(tmp_path, monkeypatch, shape):
    import io
    import zipfile

    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"shape": shape, "fortran_order": False, "descr": "<f8"})
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x.npy", header.getvalue() + b"abc")
    # Not reached: it would set the room aside.
    monkeypatch.setattr(np.lib.npyio.NpzFile, "__getitem__", None)
    with pytest.raises(InputError, match="for which the file is too short"):
        load_inputs(tmp_path / "a.npz")


def test_what_would_have_to_be_run_is_refused(tmp_path):
    class Trap:
        def __reduce__(self):
            return Path.touch, (tmp_path / "sprung",)

    np.savez(tmp_path / "a.npz", x=np.array([Trap()], object), y=np.zeros(1))
    np.save(tmp_path / "b.npy", np.array([Trap()], object))
    shutil.copy(tmp_path / "b.npy", tmp_path / "b.npz")
    for name in ("a.npz", "b.npz"):
        with pytest.raises(InputError, match=r"must be a complete .npz of plain arrays"):
            load_inputs(tmp_path / name)
    assert not (tmp_path / "sprung").exists()


def test_a_path_that_no_file_system_takes_is_refused():
    with pytest.raises(InputError, match="problem must be a text"):
        resolve({"problem": "/tmp/\0", "sizes": [2, 2]})
