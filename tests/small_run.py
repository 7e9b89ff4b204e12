"""One small run that several tests make, stop, store and resume; one program, so that it compiles once."""

import numpy as np

import trajens as tj

DATA = tj.datasets.perceptron(noise=0.3)
TARGET = tj.Target(DATA.problem(), tau=5, sigma=0.1, s=tj.schedule.exponential(20.0, 80.0, 300))
SETTINGS = {"chains": 4, "burn_in": 200, "records": 7, "acceptance": tj.Penalty(16), "scan": "checkerboard"}
EPOCHS = 700


class StopAfter:
    """Says stop after so many blocks."""

    def __init__(self, blocks):
        self.left = blocks

    def __call__(self):
        self.left -= 1
        return self.left < 0


def sample(out, epochs=EPOCHS, target=TARGET, stop=None, **changes):
    return tj.sample(target, epochs, out=out, stop=stop, **{**SETTINGS, **changes})


def fresh(path):
    """A new directory, with a checkpoint after every block."""
    return tj.RunDirectory(path, checkpoint_seconds=0.0)


def again(path):
    return tj.RunDirectory(path, resume=True, checkpoint_seconds=0.0)


def assert_same(a, b):
    np.testing.assert_array_equal(a.paths, b.paths)
    assert a.epochs == b.epochs
    assert_same_records(a.records, b.records)


def assert_same_records(a, b):
    assert list(a) == list(b)
    for name in a:
        # A sum of floats depends on where blocks end; everything else does not.
        tolerance = 1e-5 if name == "loss_deciding" else 0.0
        np.testing.assert_allclose(a[name], b[name], rtol=tolerance, err_msg=name)
        assert a[name].dtype == b[name].dtype


def content(folder):
    """Names, bytes and times of all files of a folder."""
    return {file.name: (file.read_bytes(), file.stat().st_mtime_ns) for file in sorted(folder.iterdir())}
