"""The pure core: a loop of one's own gives the same run, and takes tests, losses and records of one's own."""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import trajens as tj
from tests.laws.test_path_law import CHAINS, MOVES, SIGMA, TAU, S, perceptron
from tests.monte_carlo import assert_path_law
from tests.small_run import DATA, EPOCHS, SETTINGS, TARGET, assert_same_records, sample
from trajens.acceptance import Evidence, Reason, Verdict
from trajens.columns import NAMES
from trajens.losses import reference_losses


@pytest.fixture(scope="module")
def run():
    return sample(None)


@pytest.fixture(scope="module")
def sampler():
    return tj.Sampler(TARGET, tj.Settings(**{name: value for name, value in SETTINGS.items() if name != "records"}))


def counts(tallies):
    """All that is counted, without the sum of floats."""
    names = ("proposals", "accepted", "examples", "evaluations", "reasons")
    return {name: sum(np.asarray(getattr(tally, name)) for tally in tallies) for name in names}


@pytest.mark.parametrize("parts", [(700,), (1, 699), (350, 350), (7, 0, 193, 1, 499)], ids=str)
def test_a_loop_of_ones_own_is_the_run_however_it_is_divided(run, sampler, parts):
    state, tallies = sampler.init(), []
    assert state.epoch == 0
    for number, epochs in enumerate(parts):
        state, tally = sampler.advance(state, epochs)
        tallies.append(tally)
        assert state.epoch == sum(parts[: number + 1])
    np.testing.assert_array_equal(state.path, run.paths)
    for ours, theirs in zip(state.acceptance, run.state.acceptance, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    found = counts(tallies)
    assert (found["proposals"] == EPOCHS).all()
    np.testing.assert_array_equal(found["evaluations"], run.records["data_used"][:, -1])
    for reason in set(Reason) - {Reason.CAPPED}:
        np.testing.assert_array_equal(found["reasons"][:, reason], run.records[reason.label].sum(1))
    accepted = (run.records["acceptance"] * np.diff(run.records["epoch"], axis=1, prepend=0)).sum(1)
    np.testing.assert_allclose(found["accepted"], accepted, rtol=1e-12)
    measured = sampler.measure(state)
    np.testing.assert_array_equal(measured.loss, run.records["loss"][:, -1].astype(np.float32))
    np.testing.assert_array_equal(measured.weight_rms, run.records["weight_rms"][:, -1].astype(np.float32))


def test_a_state_can_be_advanced_twice_and_starts_where_it_is_told(run, sampler):
    paths = run.paths + 1
    state = sampler.init(paths)
    np.testing.assert_array_equal(state.path, paths)
    once, again = sampler.advance(state, 30)[0], sampler.advance(state, 30)[0]
    np.testing.assert_array_equal(once.path, again.path)
    assert state.epoch == 0
    assert (np.asarray(once.path) != paths).any()
    np.testing.assert_array_equal(sampler.place(once).path, once.path)


def test_measuring_some_examples_is_asked_for_in_their_range(run, sampler):
    some = sampler.measure(run.state, 64)
    assert (some.loss_error > 0).all()
    assert (sampler.measure(run.state).loss_error == 0).all()
    assert (np.abs(some.loss - sampler.measure(run.state).loss) < 6 * some.loss_error).all()
    for bad in (0, DATA.x.shape[0] + 1, 2.5):
        with pytest.raises(tj.InputError, match="examples must be"):
            sampler.measure(run.state, bad)
    with pytest.raises(tj.InputError, match="epochs must be"):
        sampler.advance(run.state, -1)


def test_a_loop_of_ones_own_samples_the_exact_law():
    data = perceptron()
    target = tj.Target(data.problem(), TAU, SIGMA, S, prior=None)
    settings = tj.Settings(chains=CHAINS, seed=4, move=MOVES["single site"], acceptance=tj.Metropolis())
    sampler = tj.Sampler(target, settings)
    state, _ = sampler.advance(sampler.init(np.full(3, 2.0)), 2000)
    paths, losses = [], []
    for _ in range(30):
        state, _ = sampler.advance(state, 40)
        paths.append(np.asarray(state.path))
        losses.append(sampler.measure(state).loss)
    exact = tj.exact.perceptron(data.x, data.y, TAU, SIGMA, S)
    assert_path_law(np.stack(paths, 1), np.stack(losses, 1), exact)


# Records of one's own

OBSERVE = {
    "squares": lambda path: jnp.sum(path**2),
    "first": lambda path: path[0, 0],
    "above": lambda path: (path > 0).sum(),
}


def test_records_of_ones_own_are_numbers_of_the_paths(run, tmp_path):
    observed = sample(tmp_path / "a", observe=OBSERVE, keep_paths=True)
    np.testing.assert_array_equal(observed.paths, run.paths)
    for name, values in run.records.items():
        # Measured by another program, which may round the last digit otherwise.
        np.testing.assert_allclose(observed.records[name], values, rtol=1e-5, err_msg=name)
    history = np.asarray(observed.history)
    np.testing.assert_array_equal(observed.records["first"], history[:, :, 0, 0])
    np.testing.assert_array_equal(observed.records["above"], (history > 0).sum((2, 3)))
    np.testing.assert_allclose(observed.records["squares"], (history**2).sum((2, 3)), rtol=1e-6)
    assert list(observed.records)[-3:] == list(OBSERVE)
    assert_same_records(tj.StoredRun(tmp_path / "a").records, observed.records)


def test_a_loop_of_ones_own_measures_them_too(run):
    sampler = tj.Sampler(TARGET, tj.Settings(chains=4, acceptance=SETTINGS["acceptance"], observe=OBSERVE))
    observed = sampler.measure(run.state).observed
    np.testing.assert_array_equal(observed["first"], run.paths[:, 0, 0])
    assert set(observed) == set(OBSERVE)


@pytest.mark.parametrize("name", [*NAMES, "two words", "", "1st", 3, "a,b"])
def test_names_that_are_taken_or_no_words_are_refused(name):
    with pytest.raises(tj.InputError, match="the name of a record must be a word that is not taken"):
        sample(None, observe={name: lambda path: path[0, 0]})


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda path: path[0], "must return one real number"),
        (lambda path: path[:1, 0], "must return one real number"),
        (lambda path: path[0, 0] * 1j, "must return one real number"),
        (lambda path: float(path[0, 0]), "failed on a path of shape"),
        (lambda path: path[0, 0] + "text", "failed on a path of shape"),
        (lambda: 1.0, "failed on a path of shape"),
        (None, "failed on a path of shape"),
    ],
)
def test_what_is_not_one_number_of_a_path_is_refused(function, message):
    with pytest.raises(tj.InputError, match=r"observe\['mine'\] " + message):
        sample(None, observe={"mine": function})


# Tests of one's own


@dataclass(frozen=True)
class FirstFew(tj.AcceptanceTest):
    """Accepts the first `count` proposals of every model that it may learn from, and no more."""

    count: int
    takes_all_data = True

    def chunk_size(self, size: int) -> int:
        return size

    def init(self, kinds: int, tau: int) -> Any:
        return {"seen": jnp.zeros((kinds, tau), jnp.int32)}

    def decide(self, state: Any, evidence: Evidence, words: Any) -> Verdict:
        return Verdict(evidence.is_complete, state["seen"] < self.count, jnp.int32(Reason.ALL_DATA))

    def learn(self, state: Any, evidence: Evidence) -> Any:
        return {"seen": state["seen"] + 1}


@pytest.mark.slow
def test_a_test_of_ones_own_has_a_memory():
    target = tj.Target(DATA.problem(), tau=3, sigma=0.1, s=20.0)
    run = tj.sample(target, 90, chains=4, burn_in=60, records=3, acceptance=FirstFew(7))
    seen = np.asarray(run.state.acceptance["seen"])
    # It learns until the end of burn-in: each model had a third of the proposals.
    assert seen.shape == (4, 1, 3)
    assert (seen == 20).all()
    accepted = run.records["acceptance"] * 30
    np.testing.assert_allclose(accepted[:, :2].sum(1), 3 * 7)
    assert (accepted[:, 2] == 0).all()
    always = tj.sample(target, 90, chains=4, burn_in=60, records=3, acceptance=FirstFew(10**6))
    assert (always.records["acceptance"] == 1).all()


def test_a_memory_comes_back_from_a_directory(tmp_path):
    target = tj.Target(DATA.problem(), tau=3, sigma=0.1, s=20.0)
    settings = {"chains": 4, "burn_in": 60, "acceptance": FirstFew(7)}
    first = tj.sample(target, 70, records=7, out=tmp_path / "a", **settings)
    on = tj.sample(target, 90, out=tj.RunDirectory(tmp_path / "a", resume=True), **settings)
    whole = tj.sample(target, 90, records=9, **settings)
    assert (np.asarray(on.state.acceptance["seen"]) == np.asarray(whole.state.acceptance["seen"])).all()
    np.testing.assert_array_equal(on.paths, whole.paths)
    assert first.epochs == 70


# Losses of one's own


class Marked:
    """Squared residuals, whose implementation for pairs says by a constant that it was used."""

    MARK = 5.0

    def __call__(self, theta, batch):
        return tj.datasets.perceptron_loss(theta, batch)

    def of_pairs(self, data, theta_pairs, indices, is_active):
        return reference_losses(self, data, theta_pairs, indices) + self.MARK


class Broken(Marked):
    """An implementation for pairs that does what `change` says to the right answer."""

    def __init__(self, change):
        self.change = change

    def of_pairs(self, *arguments):
        return self.change(super().of_pairs(*arguments))


def test_a_loss_with_an_implementation_for_pairs_is_asked_for_it():
    assert isinstance(Marked(), tj.PairLoss)
    assert not isinstance(tj.datasets.perceptron_loss, tj.PairLoss)
    settings = {"chains": 4, "burn_in": 20, "records": 2, "acceptance": tj.Metropolis()}
    marked, plain = (
        tj.sample(tj.Target(tj.Problem(loss, DATA, 2), tau=3, sigma=0.1, s=20.0), 60, **settings)
        for loss in (Marked(), tj.datasets.perceptron_loss)
    )
    # Measured and deciding losses have the mark; it changes no decision.
    for name in ("loss", "loss_deciding"):
        np.testing.assert_allclose(marked.records[name] - Marked.MARK, plain.records[name], atol=1e-4)
    np.testing.assert_allclose(marked.paths, plain.paths, atol=1e-5)


@pytest.mark.parametrize(
    "change",
    [
        lambda losses: losses[:, 0],
        lambda losses: losses[:, :, :1],
        lambda losses: losses.swapaxes(1, 2),
        lambda losses: losses.mean(),
        lambda losses: losses.astype(jnp.float16),
        lambda losses: [losses],
        lambda losses: None,
    ],
    ids=["one model", "one example", "swapped", "mean", "half", "list", "nothing"],
)
def test_an_implementation_for_pairs_of_another_shape_is_refused(change):
    with pytest.raises(
        tj.InputError, match=r"of_pairs of the loss must return float32 of shape \(3, 2, \d\)"
    ) as caught:
        tj.Problem(Broken(change), DATA, 2)
    assert "\n" not in str(caught.value)


def test_an_implementation_for_pairs_that_fails_is_refused_with_its_own_error():
    def fails(losses):
        raise KeyError("weights")

    with pytest.raises(tj.InputError, match=r"of_pairs of the loss failed on 3 lanes .* KeyError"):
        tj.Problem(Broken(fails), DATA, 2)
