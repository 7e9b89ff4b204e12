"""A run until it has converged: looks at planned epochs, decides by its records, and can be stopped and resumed."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

import trajens as tj
from tests.small_run import StopAfter, again, assert_same, fresh
from trajens.columns import PROJECTIONS
from trajens.convergence import by_s
from trajens.convergence.criteria import in_words
from trajens.run.advice import ATTENTION, OK, RunFacts, findings
from trajens.run.control import FixedEpochs, RecordInfo
from trajens.run.until import FURTHER, UntilConverged, left_out
from trajens.sampling.program import Control

DATA = tj.datasets.perceptron(size=32, noise=0.3)
TAU, SIGMA, S = 2, 0.3, 30.0
TARGET = tj.Target(DATA.problem(), TAU, SIGMA, S)
SOON = tj.Converged(rhat=1.1, ess=100)
CHAINS, FIRST, MOST, EVERY = 4, 512, 17496, 8
"""From the fewest epochs on, all looks up to the last are whole multiples of the distance of records."""


def sample(until=SOON, epochs=FIRST, max_epochs=MOST, target=TARGET, **changes):
    usual = {"chains": CHAINS, "acceptance": tj.Metropolis(), "records": epochs // EVERY, "burn_in": 96, "seed": 3}
    return tj.sample(target, epochs, until=until, max_epochs=max_epochs, **{**usual, **changes})


def noise(n, chains=CHAINS, s=S, epochs=EVERY, slow=0.0):
    """Records of chains that have long converged; `slow` is the share of every number that is the chain's own."""
    rng = np.random.default_rng(0)
    names = ("loss", "weight_rms", *PROJECTIONS)
    drawn = {name: rng.standard_normal((chains, n)) + slow * rng.standard_normal((chains, 1)) for name in names}
    return {"epoch": np.tile(epochs * np.arange(1, n + 1), (chains, 1)), "s": np.full((chains, n), s), **drawn}


def looked(asked, records, max_epochs, first):
    """Marks at which a controller looks, and where it ends, in a made-up run with these records."""
    controller = UntilConverged(FixedEpochs(first // 5), asked, max_epochs)
    planned, looks, control, at = list(range(EVERY, first + 1, EVERY)), [], Control(first // 5), 0
    while at < len(planned):
        epoch, is_last, n = planned[at], at + 1 == len(planned), at + 1

        def so_far(n=n, is_last=is_last):
            assert is_last
            return {name: values[:, :n] for name, values in records.items()}

        told = {"pairs_used": 0.0, "start_pairs": 0.0, "pairs": 1.0, "renewals": 0.0, "loss": 1.0, "loss_error": 0.0}
        info = RecordInfo(epoch=epoch, epochs=EVERY, recorded=0, marks=np.array(planned), records=so_far, **told)
        update = controller.update(info, control)
        if is_last:
            looks.append(epoch)
            planned += update.marks
        control, at = update.control, at + 1
    return looks, planned, control


def test_looks_are_geometric_from_the_minimum_to_the_maximum():
    stuck = noise(3000, slow=3.0)
    looks, planned, adapted = looked(tj.Converged(), stuck, 4000, 512)
    assert looks == [512, 768, 1152, 1728, 2592, 3888, 4000]
    assert np.diff(planned).max() <= EVERY + 1
    assert planned[-1] == 4000
    assert adapted.burn_in == 800


def test_it_ends_at_the_first_look_that_finds_nothing_lacking():
    records = noise(3000)
    assert looked(SOON, records, 4000, 512)[0] == [512]
    assert looked(tj.Converged(ess=1000), records, 20_000, 512)[0][-1] in (2592, 3888)
    # The error of n independent draws is the root of 1 / n: of 691 at the fourth look, 0.038.
    assert looked(replace(SOON, error=0.04), records, 20_000, 512)[0][-1] in (1152, 1728, 2592)


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({}, None),
        ({"loss": 3.0 * (np.arange(CHAINS)[:, None] > 1)}, "R-hat"),
        ({"projection_2": 3.0 * (np.arange(CHAINS)[:, None] > 1)}, "R-hat"),
        ({"loss": np.linspace(0, 0.6, 200)}, "halves that differ"),
        ({"weight_rms": np.linspace(0, 0.6, 200)}, "halves that differ"),
        ({"loss": np.where(np.arange(200) == 150, np.nan, 0.0)}, "R-hat nan"),
    ],
)
def test_what_is_lacking_is_said(change, part):
    records = noise(200)
    records |= {name: records[name] + values for name, values in change.items()}
    lacking = tj.Converged().lacking(by_s(records, 0))
    assert lacking == [] if part is None else any(part in one for one in lacking), lacking


def test_all_values_of_s_must_have_converged():
    both = {name: np.concatenate([noise(200, s=s)[name] for s in (5.0, 9.0)]) for name in noise(200)}
    assert [group.s for group in by_s(both, 0)] == [5.0, 9.0]
    assert tj.Converged().lacking(by_s(both, 0)) == []
    both["loss"][-1] += 3.0
    [lacking, *_] = tj.Converged().lacking(by_s(both, 0))
    assert "at s = 9" in lacking
    # Chains of two s are not compared with each other.
    both["loss"][-1] -= 3.0
    both["loss"][:CHAINS] += 100.0
    assert tj.Converged().lacking(by_s(both, 0)) == []


def test_superchains_ask_for_nested_rhat():
    # Sixteen chains that each stay where they are, all over the law: too short for R-hat, not for all of them together.
    short = noise(12, chains=64, slow=2.0)
    for name in ("loss", "weight_rms", *PROJECTIONS):
        short[name] -= short[name].reshape(4, 16, -1).mean((1, 2)).repeat(16)[:, None]
    assert by_s(short, 0)[0].rhat > 1.3
    assert by_s(short, 0, 4)[0].rhat < 1.01
    with pytest.raises(tj.InputError, match="superchains must divide the chains of every s, got 3 for 4"):
        sample(tj.Converged(superchains=3))


def test_what_never_changes_is_left_out_of_the_worst():
    records = noise(400)
    records["loss"] = np.zeros((CHAINS, 400))
    [group] = by_s(records, 0)
    assert math.isnan(group.observed["loss"].rhat)
    assert group.rhat < 1.02
    [stuck] = by_s(
        {name: np.zeros_like(values) if name in ("loss", *PROJECTIONS) else values for name, values in records.items()},
        0,
    )
    assert math.isnan(stuck.rhat)
    assert math.isnan(stuck.ess)
    assert tj.Converged().lacking([stuck])


def test_words_say_what_is_lacking():
    assert in_words(by_s(noise(400), 0)) == "converged"
    assert in_words(by_s(noise(400, slow=1.0), 0)).startswith("not converged: R-hat ")
    assert in_words(by_s(noise(4), 0)) == "not converged: fewer than 8 records after burn-in"


@pytest.mark.slow
def test_a_run_ends_at_a_look_and_says_that_it_has_converged():
    run = sample()
    assert run.is_complete
    assert run.epochs in {512, 768, 1152, 1728, 2592, 3888}
    assert not SOON.lacking(run.convergence())
    before = {name: values[:, : int(run.epochs / FURTHER) // EVERY] for name, values in run.records.items()}
    assert run.epochs == FIRST or SOON.lacking(by_s(before, left_out(before, 96)))
    found = run.summary()
    assert found["ess"] >= 100
    assert found["rhat"] <= 1.1
    assert found["convergence"] == in_words(run.convergence())
    assert found["burn_in"] == run.burn_in == max(96, run.epochs // 5 // EVERY * EVERY)
    assert {one.name: one.mark for one in findings(RunFacts.of(run))}["Convergence"] == OK
    # The chains are those of a run that was asked for as many epochs at once.
    whole = sample(None, run.epochs, None, records=run.epochs // EVERY)
    np.testing.assert_array_equal(whole.paths, run.paths)
    assert whole.records["loss"].shape == run.records["loss"].shape


@pytest.mark.slow
def test_stopped_and_resumed_it_is_the_same_run(tmp_path):
    asked = tj.Converged(rhat=1.1, ess=150)
    whole = sample(asked, out=tmp_path / "whole")
    assert whole.epochs > FIRST
    part, blocks = sample(asked, out=fresh(tmp_path / "parts"), stop=StopAfter(20)), 1
    while not part.is_complete:
        part, blocks = sample(asked, out=again(tmp_path / "parts"), stop=StopAfter(40)), blocks + 1
    assert blocks > 2
    assert_same(part, whole)
    assert part.burn_in == whole.burn_in
    stored = tj.StoredRun(tmp_path / "parts")
    assert stored.is_complete
    assert stored.burn_in == whole.burn_in
    assert stored.summary()["rhat"] == whole.summary()["rhat"]
    assert findings(RunFacts.of(stored)) == findings(RunFacts.of(whole))
    # Without a burn-in, and with more epochs, the directory knows what it was begun with.
    assert sample(asked, out=again(tmp_path / "parts"), burn_in=None).epochs == whole.epochs
    with pytest.raises(tj.InputError, match="begun with controller"):
        sample(tj.Converged(), out=again(tmp_path / "parts"))


def test_a_run_that_has_not_converged_says_so_and_can_be_extended(tmp_path):
    with pytest.warns(RuntimeWarning, match=r"has not converged in its 600 epochs: .*effective draws"):
        run = sample(tj.Converged(), max_epochs=600, out=tmp_path / "r")
    assert run.epochs == 600
    found = {one.name: one for one in findings(RunFacts.of(tj.StoredRun(tmp_path / "r")), "DIR")}["Convergence"]
    assert found.mark == ATTENTION
    assert "Asked for and not reached" in found.sentence
    assert "trajens resume DIR" in found.following
    with pytest.warns(RuntimeWarning, match="has not converged in its 700 epochs"):
        assert run.extend(100).epochs == 700


def test_an_extended_run_looks_again():
    run = sample()
    longer = run.extend(8)
    assert longer.epochs >= run.epochs + 8
    assert longer.is_complete
    assert not SOON.lacking(longer.convergence())


@pytest.mark.slow
def test_a_single_chain_and_several_s():
    one = sample(chains=1, max_epochs=MOST)
    assert not SOON.lacking(one.convergence())
    assert one.convergence()[0].rhat <= 1.1
    several = sample(target=tj.Target(DATA.problem(), TAU, SIGMA, [10.0, 10.0, 30.0, 30.0]))
    assert [group.s for group in several.convergence()] == [10.0, 30.0]
    assert not SOON.lacking(several.convergence())


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"until": "done"}, "until must be 'converged' or a trajens.Converged, got 'done'"),
        ({"max_epochs": None}, "max_epochs must be given with until"),
        ({"until": None}, "max_epochs must be left out without until"),
        ({"max_epochs": 100}, "max_epochs must be a whole number at least 512, got 100"),
    ],
)
def test_what_makes_no_sense_is_refused(given, match):
    with pytest.raises(tj.InputError, match=match):
        sample(**given)


@pytest.mark.parametrize("wrong", [{"rhat": 1.0}, {"ess": 50}, {"error": 0.0}, {"superchains": 1}])
def test_what_cannot_be_asked_for_is_refused(wrong):
    with pytest.raises(tj.InputError, match=f"{next(iter(wrong))} must be"):
        tj.Converged(**wrong)


def looks_of(records, first):
    """Epochs of all looks at a run with these records, and the group it would be judged by, made when it is needed."""
    epochs, known = records["epoch"][0], {}
    looks = [first]
    while looks[-1] < epochs[-1]:
        looks.append(min(math.ceil(FURTHER * looks[-1]), int(epochs[-1])))

    def group(epoch):
        if epoch not in known:
            now = {name: values[:, epochs <= epoch] for name, values in records.items()}
            [known[epoch]] = by_s(now, left_out(now, first // 5 // EVERY * EVERY))
        return known[epoch]

    return looks, group


def ended(looks, group, asked):
    """Where such a run ends: its epochs, and the group it is judged by."""
    epoch = next((epoch for epoch in looks if not asked.lacking([group(epoch)])), looks[-1])
    return epoch, group(epoch)


@pytest.mark.parametrize("runs", [pytest.param(96, marks=pytest.mark.slow), pytest.param(1024, marks=pytest.mark.long)])
def test_the_error_of_a_run_that_ends_when_it_looks_good_covers_the_truth(runs):
    first = 1024
    many = tj.sample(
        TARGET,
        MOST,
        chains=CHAINS * runs,
        seed=np.repeat(np.arange(runs), CHAINS),
        burn_in=first // 5 // EVERY * EVERY,
        acceptance=tj.Metropolis(),
        records=MOST // EVERY,
    )
    exact = tj.exact.perceptron(DATA.x, DATA.y, TAU, SIGMA, S, None).loss
    of_run = [
        looks_of({name: many.records[name][CHAINS * k : CHAINS * (k + 1)] for name in noise(1)}, first)
        for k in range(runs)
    ]
    # The chains of a seed are those of a run of its own, which ends as is worked out here.
    epoch, group = ended(*of_run[3], tj.Converged())
    own = sample("converged", first, burn_in=first // 5 // EVERY * EVERY)
    assert own.epochs == epoch
    mine, its = (tuple(one.observed["loss"]) for one in (own.convergence()[0], group))
    assert mine == pytest.approx(its, rel=1e-3)
    for asked in (tj.Converged(), tj.Converged(error=5e-4), tj.Converged(rhat=1.05, ess=100)):
        ends = [ended(*one, asked) for one in of_run]
        assert len({epoch for epoch, _ in ends}) > 2
        z = np.array([(g.observed["loss"].mean - exact) / g.observed["loss"].mcse for _, g in ends])
        for bound, share in ((1.0, 0.6827), (1.96, 0.95)):
            inside = int((np.abs(z) < bound).sum())
            assert min(binom.cdf(inside, runs, share), binom.sf(inside - 1, runs, share)) > 1e-6, (asked, inside / runs)
