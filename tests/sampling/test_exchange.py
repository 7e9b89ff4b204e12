"""Exchange of paths: who exchanges, when, what is counted; stops, resumes and other devices change nothing."""

import json

import jax
import numpy as np
import pytest
from typer.testing import CliRunner

import trajens as tj
from tests.small_run import StopAfter, again, assert_same, fresh
from trajens.app.cli.app import app
from trajens.columns import EXCHANGE
from trajens.randomness import key_of
from trajens.sampling.exchange import Ladder, exchange_of, exchange_paths, first_replicas, space_levels
from trajens.sampling.swaps import SwapProposals

DATA = tj.datasets.perceptron(noise=0.3)
S = np.tile([10.0, 25.0, 60.0], 4)
TARGET = tj.Target(DATA.problem(), tau=5, sigma=0.1, s=S)
SETTINGS = {
    "chains": len(S),
    "burn_in": 400,
    "records": 9,
    "acceptance": tj.Penalty(16),
    "exchange": tj.Exchange(every=6),
}


def sample(epochs=900, out=None, target=TARGET, **changes):
    return tj.sample(target, epochs, out=out, **{**SETTINGS, **changes})


@pytest.fixture(scope="module")
def whole():
    return sample()


def test_ladders_are_the_chains_of_every_s_in_their_order():
    np.testing.assert_array_equal(Ladder.of(np.array([5.0, 1.0, 1.0, 5.0, 3.0, 3.0])).chains, [[1, 4, 0], [2, 5, 3]])
    np.testing.assert_array_equal(Ladder.of(S).chains, np.arange(12).reshape(4, 3))


def test_pairs_alternate_and_each_chain_is_in_one():
    ladder = Ladder.of(np.arange(5.0))
    assert [tuple(map(list, ladder.pairs(k))) for k in (0, 1)] == [([0, 2], [1, 3]), ([1, 3], [2, 4])]
    two = Ladder.of(np.array([1.0, 2.0]))
    assert [list(two.pairs(k)[0]) for k in (0, 1)] == [[0], [0]]


def test_pairs_to_look_at_are_of_neighbouring_s_and_all_different():
    ladder = Ladder.of(S)
    lower, upper = ladder.pairs_across(24)
    assert len(lower) == 24
    np.testing.assert_array_equal(np.searchsorted([10, 25, 60], S[upper]), np.searchsorted([10, 25, 60], S[lower]) + 1)
    assert len({*zip(lower, upper, strict=True)}) == 24


@pytest.mark.parametrize("s", [[5.0, 5.0], [1.0, 2.0, 2.0]])
def test_what_is_no_ladder_is_refused(s):
    with pytest.raises(tj.InputError, match="as many chains of each of several s"):
        sample(target=tj.Target(DATA.problem(), 5, 0.1, s), chains=len(s))


@pytest.mark.parametrize("given", ["often", 0, -3, 2.5, object()])
def test_what_is_no_exchange_is_refused(given):
    with pytest.raises(tj.InputError, match=r"exchange|every"):
        exchange_of(given)


def test_what_may_be_given():
    assert [exchange_of(given) for given in (None, False)] == [None, None]
    assert exchange_of(True) == tj.Exchange()
    assert exchange_of(7) == tj.Exchange(every=7)
    assert tj.Exchange().epochs(5) == 160


def test_a_stream_refuses_exchanges_on_all_data():
    stream = tj.Stream(lambda theta, keys: jax.vmap(lambda key: (theta[0] - jax.random.normal(key)) ** 2)(keys), 1)
    target = tj.Target(stream, 3, 0.1, [1.0, 2.0])
    with pytest.raises(tj.InputError, match="minibatches for a stream"):
        sample(target=target, chains=2, exchange=tj.Exchange(acceptance=tj.Metropolis()))


def test_equal_parts_of_the_barrier_make_new_levels():
    """Where rejection goes like the distance in ln s, levels end at equal factors; the ends stay."""
    s = np.array([1.0, 2.0, 4.0, 64.0, 100.0])
    found = space_levels(s, 0.1 * np.diff(np.log(s)))
    np.testing.assert_allclose(found, np.geomspace(1.0, 100.0, 5), rtol=1e-12)
    from_zero = space_levels(np.append(0.0, s), np.append(0.5, 0.1 * np.diff(np.log(s))))
    np.testing.assert_allclose(from_zero, np.append(0.0, found), rtol=1e-12)
    np.testing.assert_array_equal(space_levels(np.array([0.0, 5.0]), np.array([0.3])), [0.0, 5.0])


def test_round_trips_are_counted_from_the_lowest_s_to_the_highest_and_back():
    ladder = Ladder.of(np.array([1.0, 2.0, 3.0]))
    replicas, always = first_replicas(3, tj.Metropolis(), counts_steps=True), np.array([True])
    trips = []
    for number in range(12):
        lower, upper = ladder.pairs(number)
        replicas = replicas.after(ladder, lower, upper, always, np.array([10]), np.array([7]))
        trips.append(replicas.trips.sum())
    # With all exchanges accepted, a path goes up in two, waits for one at the end, and comes down in two.
    assert trips[-1] == 3
    assert replicas.tried.tolist() == [6, 6, 0]
    assert (replicas.evaluations.sum(), replicas.steps.sum()) == (120, 84)
    assert sorted(replicas.at) == [0, 1, 2]


def test_chains_take_the_paths_they_exchange():
    source = exchange_paths(4, np.array([0, 2]), np.array([1, 3]), np.array([True, False]))
    np.testing.assert_array_equal(source, [1, 0, 2, 3])


def test_records_are_by_s_and_tell_of_exchanges(whole):
    records = whole.records
    assert set(EXCHANGE) - {"steps_exchanged"} <= set(records)
    np.testing.assert_array_equal(np.sort(records["replica"][:, -1].reshape(4, 3)), np.arange(12).reshape(4, 3))
    assert np.isnan(records["swap_acceptance"][2::3]).all()
    assert (records["swap_acceptance"][1::3, -1] > 0).any()
    assert (np.diff(records["data_exchanged"].sum(0)) > 0).all()
    # Levels between the ends move in burn-in, and stand still after it.
    s = records["s"].reshape(4, 3, -1)
    after = records["epoch"][0] >= whole.burn_in
    np.testing.assert_allclose(s[:, [0, 2]], np.broadcast_to([[[10.0], [60.0]]], s[:, [0, 2]].shape))
    assert len(np.unique(s[:, 1])) > 1
    assert len(np.unique(s[:, 1, after])) == 1
    np.testing.assert_allclose(whole.s, s[:, :, -1].ravel())
    summary = whole.summary(np.arange(0, 12, 3))
    assert 0 < summary["swap_acceptance"] < 1
    assert summary["data_exchanged"] == records["data_exchanged"][::3, -1].sum()


def test_a_run_without_exchange_has_none_of_its_columns():
    run = sample(exchange=None, epochs=500)
    assert not set(EXCHANGE) & set(run.records)
    assert "swap_acceptance" not in run.summary()


def test_a_continued_run_equals_one_run_bit_for_bit(whole):
    assert_same(whole, sample(epochs=600, records=6).extend(300, records=3))


def test_a_stopped_and_resumed_run_equals_one_run_bit_for_bit(whole, tmp_path):
    run = sample(out=fresh(tmp_path / "run"), stop=StopAfter(2))
    assert not run.is_complete
    while not run.is_complete:
        run = sample(out=again(tmp_path / "run"), stop=StopAfter(2))
    assert_same(whole, run)
    np.testing.assert_array_equal(run.records["s"], whole.records["s"])
    with pytest.raises(tj.InputError, match="exchange"):
        sample(epochs=1000, out=again(tmp_path / "run"), exchange=tj.Exchange(every=7))


@pytest.mark.slow
def test_the_result_does_not_depend_on_devices(whole):
    assert len(jax.devices()) > 1
    assert_same(whole, sample(devices=jax.devices()[:1]))


def test_paths_of_a_loss_that_is_not_finite_are_not_exchanged():
    def loss(theta, batch):
        return jax.numpy.where(theta[0] > 0, jax.numpy.inf, theta[0] ** 2) + 0.0 * batch

    problem = tj.Problem(loss, np.zeros(64, np.float32), dim=1)
    sampler = tj.Sampler(tj.Target(problem, 1, 0.1, [1.0, 5.0]), tj.Settings(chains=2))
    for acceptance in (tj.Metropolis(), tj.Penalty(16)):
        entries = jax.tree.map(lambda leaf: leaf[:, 0], acceptance.init(1, 1))
        # Two that may be exchanged, and one whose current path should be left by any means, but not to another chain.
        paths = np.array([[-2.0, -1.0], [1.0, -1.0], [-1.0, 1.0]])[..., None, None].astype(np.float32)
        asked = [
            SwapProposals(pair[None], np.ones(1, np.float32), key_of(np.zeros(1, np.uint32)), entries) for pair in paths
        ]
        found = [bool(sampler.decide_exchanges(acceptance, one, 3, sampler.control).is_accepted[0]) for one in asked]
        assert found == [True, False, False]


@pytest.mark.slow
def test_the_command_line_exchanges(tmp_path):
    arguments = "train perceptron --s 5,20 --exchange 40 --chains 2 --epochs 1200 --records 10 --tau 3 --json"
    out = str(tmp_path / "run")
    found = CliRunner().invoke(app, [*arguments.split(), "--out", out])
    assert found.exit_code == 0, found.output
    groups = json.loads(found.stdout)["by_s"]
    assert groups[0]["round_trips"] + groups[1]["round_trips"] >= 1
    assert tj.StoredRun(out).config["exchange"] == 40
    assert CliRunner().invoke(app, ["resume", out, "--epochs", "400"]).exit_code == 0
    refused = CliRunner().invoke(app, ["train", "perceptron", "--s", "5", "--exchange", "auto"])
    assert refused.exit_code == 2


@pytest.mark.slow
def test_training_on_a_budget_exchanges_while_s_rises():
    s = np.tile([20.0, 60.0], 2)
    run = tj.train(DATA.problem(), tau=3, budget=2e5, s=s, chains=4, start="random", exchange=20, progress=False)
    np.testing.assert_allclose(run.s, s)
    assert np.nanmax(run.records["swap_acceptance"]) > 0


@pytest.mark.long
@pytest.mark.parametrize("levels", [(5.0, 6.0, 7.0, 8.0, 80.0), (5.0, 50.0, 60.0, 70.0, 80.0)])
def test_badly_placed_levels_end_where_neighbours_exchange_equally_often(levels):
    target = tj.Target(DATA.problem(), tau=4, sigma=0.1, s=np.tile(levels, 16))

    def rates(space):
        exchange = tj.Exchange(every=20, space=space)
        run = sample(9000, target=target, chains=80, acceptance=tj.Metropolis(), exchange=exchange, burn_in=6000)
        after = run.records["epoch"][0] > run.burn_in
        return run.records["swap_acceptance"][:, after].reshape(16, 5, -1)[:, :4].mean((0, 2))

    # A rate is known to 0.02 or so.
    assert np.ptp(rates(False)) > 0.6
    assert np.ptp(rates(True)) < 0.2
