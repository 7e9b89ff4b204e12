"""A result is a function of its inputs: not of blocks, devices, stops or what was compiled before."""

from dataclasses import replace
from functools import cache

import jax
import numpy as np
import pytest

import trajens as tj
from trajens.columns import COLUMNS, When
from trajens.run import loop
from trajens.sampling import sampler
from trajens.sampling.settings import Settings

DATA = tj.datasets.perceptron(noise=0.3)
TARGET = tj.Target(DATA.problem(), tau=5, sigma=0.1, s=80.0)
SETTINGS = {
    "penalty": {"move": tj.SingleSite(0.5), "acceptance": tj.Penalty(16), "scan": "checkerboard"},
    "paper": {"move": tj.SingleSite(), "acceptance": tj.paper_test(24), "scan": "random"},
    "mixture": {
        "move": tj.Mixture([(1.0, tj.Segment(2)), (1.0, tj.CentreOfMass(0.05)), (2.0, tj.SingleSite(0.5))]),
        "acceptance": tj.MinibatchBarker(32),
        "scan": "checkerboard",
    },
}
AUDITS = tuple(column.name for column in COLUMNS if column.when is When.AUDITS)
every_setting = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name == "paper" else []) for name in SETTINGS]
)


def sample(epochs=600, records=6, seed=0, chains=8, burn_in=100, target=TARGET, **settings):
    return tj.sample(target, epochs, chains=chains, seed=seed, burn_in=burn_in, records=records, **settings)


@cache
def usual(name):
    """The run that others are compared with."""
    return sample(**SETTINGS[name])


def assert_same_run(a, b, but=()):
    np.testing.assert_array_equal(a.paths, b.paths)
    for name in a.records.keys() - set(but):
        np.testing.assert_array_equal(a.records[name], b.records[name], err_msg=name)


@every_setting
def test_same_seed_gives_the_same_run_and_another_seed_another(name):
    assert_same_run(usual(name), sample(**SETTINGS[name]))
    assert (usual(name).paths != sample(seed=1, **SETTINGS[name]).paths).any()


@every_setting
def test_a_continued_run_equals_one_run_bit_for_bit(name):
    whole, settings = usual(name), SETTINGS[name]
    parts = sample(epochs=300, records=3, **settings).extend(300)
    # The end of the first part is audited where it was not since burn-in.
    assert_same_run(whole, parts, but=AUDITS)
    odd = sample(epochs=301, records=2, **settings).extend(7, records=1).extend(292, records=2)
    np.testing.assert_array_equal(whole.paths, odd.paths)


@every_setting
def test_paths_do_not_depend_on_how_often_is_recorded(name):
    # So short a run cannot pay for audits, which plan batches at records.
    np.testing.assert_array_equal(usual(name).paths, sample(records=50, **SETTINGS[name]).paths)


def test_paths_do_not_depend_on_block_sizes(monkeypatch):
    settings, whole = SETTINGS["penalty"], usual("penalty")
    monkeypatch.setattr(loop.Blocks, "adapt", lambda self, seconds: setattr(self, "epochs", 7))
    np.testing.assert_array_equal(whole.paths, sample(**settings).paths)
    program = Settings.program
    monkeypatch.setattr(Settings, "program", lambda self, target: replace(program(self, target), looks_every=3))
    np.testing.assert_array_equal(whole.paths, sample(**settings).paths)


@pytest.mark.parametrize(
    ("settings", "ahead"),
    [
        pytest.param(SETTINGS["penalty"], 3, marks=pytest.mark.slow),
        pytest.param(SETTINGS["paper"], 3, marks=pytest.mark.slow),
        # More than all data, and a last chunk that is not whole.
        pytest.param(
            {"move": tj.SingleSite(), "acceptance": tj.MinibatchBarker(100), "scan": "checkerboard"},
            5,
            marks=pytest.mark.slow,
        ),
        # Moves of several models take one chunk at a time, whatever is asked for.
        (SETTINGS["mixture"], 3),
    ],
    ids=["penalty", "paper", "all data", "mixture"],
)
def test_a_run_does_not_depend_on_how_many_chunks_are_evaluated_at_once(settings, ahead):
    one_by_one, at_once = sample(**settings), sample(ahead=ahead, **settings)
    np.testing.assert_array_equal(one_by_one.paths, at_once.paths)
    for name in ("acceptance", "data_used", "batch_size", "all_data", "cut_off"):
        np.testing.assert_array_equal(one_by_one.records[name], at_once.records[name], err_msg=name)
    # A sum of single-precision numbers, whose rounding is the compiler's.
    deciding = (run.records["loss_deciding"] for run in (one_by_one, at_once))
    np.testing.assert_allclose(*deciding, rtol=1e-5)


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(value, id=name, marks=pytest.mark.slow if name == "penalty" else pytest.mark.long)
        for name, value in SETTINGS.items()
    ],
)
def test_paths_do_not_depend_on_the_number_of_devices(settings):
    every = jax.devices()
    assert len(every) == 4
    one = sample(devices=every[:1], **settings)
    assert_same_run(one, sample(devices=every[:2], **settings))
    assert_same_run(one, sample(devices=every, **settings))


@pytest.mark.slow
def test_chains_that_do_not_divide_over_the_devices_still_run():
    assert sample(chains=3, **SETTINGS["paper"]).paths.shape == (3, 5, 2)


def test_a_chain_does_not_depend_on_how_many_others_there_are():
    few, many = sample(chains=3, **SETTINGS["paper"]), usual("paper")
    np.testing.assert_array_equal(few.paths, many.paths[:3])


@pytest.mark.slow
def test_chains_of_several_seeds_are_those_of_runs_with_one():
    settings = SETTINGS["penalty"]
    together = sample(seed=[3, 7, 3, 7, 7, 3], chains=6, **settings)
    for seed, places in ((3, [0, 2, 5]), (7, [1, 3, 4])):
        np.testing.assert_array_equal(together.paths[places], sample(seed=seed, chains=3, **settings).paths)


def test_the_second_call_does_not_compile(monkeypatch):
    sample(**SETTINGS["penalty"])
    before = sampler._advance._cache_size(), sampler._measure._cache_size()
    sample(seed=5, epochs=700, burn_in=50, **SETTINGS["penalty"])
    other = tj.Target(TARGET.problem, tau=5, sigma=0.2, s=np.full(8, 30.0), prior=0.7)
    sample(target=other, **SETTINGS["penalty"]).extend(50)
    assert (sampler._advance._cache_size(), sampler._measure._cache_size()) == before


def test_chains_and_epochs_and_purposes_draw_different_words():
    from trajens.randomness import Purpose, fold_in, key_of, words

    chains = fold_in(key_of(0), np.arange(50, dtype=np.int32))
    epochs = fold_in(jax.tree.map(lambda w: w[:, None], chains), np.arange(50, dtype=np.int32))
    drawn = np.concatenate([np.asarray(words(epochs, purpose, 4)).ravel() for purpose in Purpose])
    # 80 000 words of 32 bits: 0.75 collisions expected by chance, never dozens.
    assert len(drawn) - len(np.unique(drawn)) < 12


def test_memory_of_the_state_does_not_grow_with_epochs():
    short, long = sample(epochs=200, **SETTINGS["mixture"]), usual("mixture")
    size = lambda run: sum(leaf.nbytes for leaf in jax.tree.leaves(run.state))  # noqa: E731
    assert size(short) == size(long)


@pytest.mark.parametrize("scan", ["random", "checkerboard"])
def test_an_epoch_is_one_proposal(scan):
    run = sample(epochs=101, burn_in=0, records=1, move=tj.SingleSite(), acceptance=tj.Metropolis(), scan=scan)
    assert run.summary()["reasons"]["all_data"] == 101 * 8
    assert run.summary()["data_used"] == 101 * 8 * 256


def test_records_and_summary_have_the_promised_names():
    run = usual("penalty")
    promised = {"epoch", "loss", "loss_deciding", "acceptance", "batch_size", "data_used", "data_audited", "weight_rms"}
    promised |= {"tilt_error", "tilt_weight"}
    assert promised <= set(run.records)
    assert all(values.shape == (8, 6) for values in run.records.values())
    summary = run.summary()
    assert {"loss", "loss_stderr", "acceptance", "batch_size", "data_used", "data_audited", "reasons"} <= set(summary)
    assert {"tilt_error", "tilt_error_stderr", "s_effective"} <= set(summary)
    assert (run.records["epoch"][0] == np.arange(1, 7) * 100).all()
    assert run.summary(chains=[0, 1])["chains"] == 2


@pytest.mark.slow
def test_pytree_model_samples_the_same_paths_as_the_flat_one():
    start = {"slope": np.float32(0.2), "zero": np.float32(-0.5)}

    def loss(params, batch):
        residual = batch.y - batch.x[:, 0] * params["slope"]
        return 0.5 * (residual - batch.x[:, 1] * params["zero"]) ** 2

    tree = tj.Problem.from_pytree(loss, DATA, start, spread=0.0)
    flat = tj.Problem(tj.datasets.perceptron_loss, DATA, 2, initial=[0.2, -0.5])
    runs = [sample(target=tj.Target(p, tau=5, sigma=0.1, s=20.0), **SETTINGS["paper"]) for p in (tree, flat)]
    np.testing.assert_array_equal(runs[0].paths, runs[1].paths)
    assert set(tree.unravel(runs[0].paths[0, 0])) == {"slope", "zero"}
