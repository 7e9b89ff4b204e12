"""The state of a run: all a decision depends on, as one object and as arrays, and questions it answers by itself."""

import contextlib
from dataclasses import replace

import jax
import numpy as np
import pytest

import trajens as tj
from tests.small_run import StopAfter
from trajens.run import identity
from trajens.run.run import _state_like
from trajens.run.state import FORMAT, Spent, first_run_state, pack, unpack
from trajens.sampling.lanes import add_tallies, no_tally
from trajens.sampling.sampler import first_control

LADDER = tj.Target(tj.datasets.perceptron(noise=0.3).problem(), tau=3, sigma=0.1, s=[10.0, 20.0])
SETTINGS = tj.Settings(chains=2, burn_in=40, scores="losses", exchange=4).checked(LADDER)


def state(epoch=70, burn_in=40, recorded=3):
    """A state in which nothing is as at the beginning."""
    like = _state_like(LADDER, SETTINGS)
    control = first_control(LADDER, SETTINGS)._replace(burn_in=burn_in, tilt=0.5, levels=np.array([9.0, 21.0]))
    spent = Spent(*(np.arange(2) + k for k in range(3)), steps=np.arange(6).reshape(3, 2))
    drawn = jax.tree.map(
        lambda leaf: np.random.default_rng(0).integers(0, 9, leaf.shape).astype(leaf.dtype), like.state
    )
    more = {
        "is_start_common": True,
        "last_audit": 50,
        "start_pairs": 7.0,
        "reference_loss": 0.25,
        "seconds": 1.5,
        "replicas": like.replicas,
    }
    curve = {"data_used": np.array([[3]]), "loss": np.array([[0.5]])}
    whole = replace(
        like, state=drawn, control=control, spent=spent, epoch=epoch, recorded=recorded, start=curve, **more
    )
    return replace(whole, marks=np.array([20, 40, 60, 80]))


def assert_equal(a, b):
    for one, other in zip(jax.tree.leaves(a.__dict__), jax.tree.leaves(b.__dict__), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_state_is_what_its_arrays_are_unpacked_to():
    run = state()
    arrays = pack(run)
    assert int(arrays["format"]) == FORMAT
    assert_equal(unpack(arrays, _state_like(LADDER, SETTINGS), run.marks), run)


def test_a_checkpoint_of_before_knows_nothing_of_a_common_start():
    arrays = pack(state())
    del arrays["is_start_common"]
    assert unpack(arrays, _state_like(LADDER, SETTINGS), state().marks).is_start_common is False


@pytest.mark.parametrize("name", ["control.tilt", "spent.decided", "state.path", "last_audit", "tally.reasons"])
def test_an_array_that_is_missing_is_missed(name):
    arrays = pack(state())
    del arrays[name]
    with pytest.raises(KeyError, match=name):
        unpack(arrays, _state_like(LADDER, SETTINGS), state().marks)


@pytest.mark.parametrize(("burn_in", "records"), [(0, 3), (20, 2), (40, 1), (60, 0)])
def test_records_after_burn_in_are_counted(burn_in, records):
    assert state(burn_in=burn_in).recorded_after_burn_in == records


def test_tallies_are_added_in_64_bits():
    most = np.full(2, 2**31 - 1, np.int32)
    tally = no_tally(2)._replace(evaluations=most)
    assert (add_tallies(tally, tally, tally).evaluations == 3 * (2**31 - 1)).all()


def test_a_first_state_has_spent_its_start():
    run = first_run_state(_state_like(LADDER, SETTINGS).state, first_control(LADDER, SETTINGS), np.array([5]), 12.0)
    assert (run.spent.decided == 12).all()
    assert (run.epoch, run.recorded, run.last_audit, run.is_complete) == (0, 0, -1, False)


@pytest.mark.parametrize("kind", ["sample", "train"])
def test_data_are_read_once_for_the_identity_of_a_run(kind, tmp_path, monkeypatch):
    read, checksum = [], identity.checksum
    monkeypatch.setattr(identity, "checksum", lambda data: read.append(data) or checksum(data))

    def go_on(is_resumed, blocks):
        out = tj.RunDirectory(tmp_path / "r", resume=is_resumed, checkpoint_seconds=0.0)
        if kind == "sample":
            return tj.sample(LADDER, 200, chains=2, out=out, stop=StopAfter(blocks))
        return tj.train(LADDER.problem, tau=3, budget=2e4, out=out, progress=False, stop=StopAfter(blocks))

    with contextlib.suppress(tj.Stopped):
        go_on(False, 0)
    assert len(read) == 1
    go_on(True, 10**9)
    assert len(read) == 2
