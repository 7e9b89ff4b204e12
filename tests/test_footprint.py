"""A run that cannot fit into memory is refused before it starts."""

import numpy as np
import pytest

import trajens as tj
from trajens.sampling import footprint
from trajens.sampling.footprint import bytes_free, bytes_needed

DATA = tj.datasets.perceptron(size=64)
PROBLEM = DATA.problem()
PATH = 4 * 2  # bytes of a model


def target(tau=8, problem=PROBLEM):
    return tj.Target(problem, tau=tau, sigma=0.1, s=20.0)


def needed(tau=8, kept=0, problem=PROBLEM, **settings):
    one = target(tau, problem)
    return bytes_needed(one, tj.Settings(**settings).checked(one), kept)


@pytest.fixture(autouse=True)
def _nothing_is_compiled(monkeypatch):
    def compiled(*args):
        raise AssertionError("the sampler was reached")

    for name in ("_init", "_advance", "_measure", "_chain_keys"):
        monkeypatch.setattr(f"trajens.sampling.devices.{name}", compiled)


def test_an_impossible_size_is_refused_in_one_sentence():
    with pytest.raises(tj.InputError, match="a run must fit into memory, got 1000000 chains of 32768 models") as caught:
        tj.sample(target(2**15), 100, chains=10**6)
    message = str(caught.value)
    assert "GiB" in message
    assert message.endswith("use fewer chains or a shorter path.")
    assert "\n" not in message


def test_records_that_cannot_be_held_are_refused_before_they_are_planned(monkeypatch):
    monkeypatch.setattr("trajens.sampling.marks.planned", None)
    with pytest.raises(tj.InputError, match=r"got 1000000000 records of 4 chains, .* ask for fewer records"):
        tj.sample(target(), 2 * 10**9, records=10**9)


def test_what_is_kept_in_memory_is_counted_and_what_is_kept_on_disk_is_not(monkeypatch, tmp_path):
    kept = 500 * 4 * 8 * PATH
    free = needed(chains=4, keep_paths=True) + kept // 2
    monkeypatch.setattr(footprint, "bytes_free", lambda device: free)
    settings = {"chains": 4, "records": 500, "burn_in": 0}
    with pytest.raises(tj.InputError, match=r"and 500 kept paths, .* keep the paths on disk with out"):
        tj.sample(target(), 1000, keep_paths=True, **settings)
    for fits in ({}, {"keep_paths": True, "out": tmp_path / "a"}):
        with pytest.raises(AssertionError, match="the sampler was reached"):
            tj.sample(target(), 1000, **settings, **fits)


def test_what_fits_exactly_is_not_refused_and_a_byte_more_is(monkeypatch):
    for spare in (0, -1):
        monkeypatch.setattr(footprint, "bytes_free", lambda device, spare=spare: needed(chains=4) + spare)
        with pytest.raises(tj.InputError if spare else AssertionError):
            tj.sample(target(), 100, chains=4)


def test_where_nobody_knows_what_is_free_nothing_is_refused(monkeypatch):
    monkeypatch.setattr(footprint, "bytes_free", lambda device: None)
    monkeypatch.setattr(footprint, "_bytes_of_host", lambda: None)
    with pytest.raises(AssertionError, match="the sampler was reached"):
        tj.sample(target(2**15), 100, chains=10**6)


def test_the_need_grows_with_chains_models_lanes_and_kept_paths():
    data = sum(leaf.nbytes for leaf in DATA)
    # Four copies of the paths, and of the proposals of half as many lanes.
    assert needed(chains=1) == data + 4 * 8 * PATH + 4 * 4 * PATH
    assert needed(chains=10) - data == 10 * (needed(chains=1) - data)
    assert needed(tau=16, chains=1) - data == 2 * (needed(chains=1) - data)
    assert needed(chains=1, scan="random") == data + 4 * 8 * PATH + 4 * PATH
    assert needed(chains=1, move=tj.CentreOfMass(0.1)) == data + 4 * 8 * PATH + 4 * 8 * PATH
    assert needed(chains=2, kept=10, keep_paths=True) - needed(chains=2) == 10 * 2 * 8 * PATH
    assert needed(chains=2, kept=10) == needed(chains=2)
    larger = tj.datasets.perceptron(size=640).problem()
    assert needed(problem=larger, chains=1) - needed(chains=1) == 9 * data


def test_the_need_of_a_run_is_no_less_than_its_state_takes():
    model = tj.models.mlp((6, 5, 3))
    problem = model.problem(np.zeros((20, 6), np.float32), np.zeros(20, int))
    assert needed(problem=problem, chains=3) > 3 * 8 * model.dim * 4


def test_memory_of_this_machine_is_known_or_not():
    import jax

    free = bytes_free(jax.devices()[0])
    assert free is None or 2**20 < free < 2**50
