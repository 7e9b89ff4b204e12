"""Runs in other hands: copied, pickled, handed to a process that was spawned, and refused in one that was forked."""

import copy
import multiprocessing
import os
import pickle

import jax
import numpy as np
import pytest

import trajens as tj
from tests.small_run import DATA, EPOCHS, SETTINGS, TARGET, assert_same, sample
from trajens.errors import InputError

HALF = 300


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return sample(tmp_path_factory.mktemp("runs") / "a", HALF, records=3)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda run: pickle.loads(pickle.dumps(run))])
def test_a_copy_is_the_run_and_goes_on_as_it_would(copied):
    run = sample(None, HALF, records=3)
    found = copied(run)
    assert_same(found, run)
    assert found.settings.devices == run.settings.devices
    assert_same(found.extend(100, records=1), run.extend(100, records=1))


def test_a_copy_holds_no_lock(tmp_path):
    with tj.RunDirectory(tmp_path / "a") as out:
        found = pickle.loads(pickle.dumps(out))
        assert out._lock.is_held()
        assert not found._lock.is_held()
        found._lock.release()
        assert out._lock.is_held()


def test_devices_of_another_process_become_those_of_this_one():
    settings = tj.Settings(devices=jax.devices()[1:3])
    assert copy.deepcopy(settings).devices == tuple(jax.devices()[1:3])
    state = settings.__getstate__()
    found = tj.Settings()
    found.__setstate__({**state, "devices": (("gpu", 77),)})
    assert found.devices == tuple(jax.devices())


@pytest.mark.parametrize("devices", [["a"], 3, "cpu"])
def test_what_are_no_devices_is_refused(devices):
    with pytest.raises(InputError, match=r"devices must be devices of JAX, got .*; try jax\.devices"):
        sample(None, devices=devices)


@pytest.mark.parametrize("out", [3, b"a", ["a"]])
def test_what_names_no_directory_is_refused(out):
    with pytest.raises(InputError, match="out must be a path or a RunDirectory, got "):
        sample(out)
    with pytest.raises(InputError, match="out must be a path or a RunDirectory, got "):
        tj.train(DATA.problem(), out=out)


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::DeprecationWarning")
def test_a_forked_process_is_refused_and_does_not_hang(run):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            for use in (lambda: run.extend(10), lambda: tj.sample(TARGET, EPOCHS, **SETTINGS)):
                try:
                    use()
                except InputError as error:
                    os.write(writer, f"{error}\n".encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answers:
        said = answers.read().splitlines()
    os.waitpid(child, 0)
    assert len(said) == 2
    assert all("got one that was forked after JAX had run" in line and "'spawn'" in line for line in said)


def loss_of(run):
    """What a spawned process makes of a run."""
    return float(run.summary()["loss"]), np.asarray(run.paths)


def test_a_spawned_process_reads_a_run(run):
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        loss, paths = pool.apply(loss_of, (run,))
    assert loss == run.summary()["loss"]
    np.testing.assert_array_equal(paths, run.paths)
