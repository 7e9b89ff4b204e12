"""`train` needs a problem and a budget: it ends, keeps to what it may use, and can be stopped anywhere."""

import json
import re
from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import trajens as tj
from tests.command import call
from tests.small_run import StopAfter, again, assert_same, fresh
from trajens import kernels
from trajens.columns import AUDITED
from trajens.losses import losses_of_pairs
from trajens.records import MAX_EPOCHS, after_burn_in, has_summary
from trajens.run import loop
from trajens.run.advice import RunFacts, findings
from trajens.run.control import BURN_IN, likelihood_s
from trajens.run.identity import describe
from trajens.run.outcome import report
from trajens.run.search import SEARCHING, best_likelihoods
from trajens.run.start import SHARE_OF_EVOLUTION, _constant, first_state, scale_of
from trajens.run.stored import StoredRun
from trajens.run.train import (
    FEW,
    HELD_OUT,
    RECORDS_OF_FEW,
    in_usual_precision,
    pairs_per_second,
    train_as_set_up,
    training_setup,
)
from trajens.run.train import RECORDS as USUAL_RECORDS
from trajens.sampling import starts
from trajens.sampling.sampler import Sampler

TAU, CHAINS, BUDGET, RECORDS = 4, 4, 4e5, 20
DATA = tj.datasets.perceptron(noise=0.3)
PERCEPTRON = DATA.problem()
TINY = {"tau": TAU, "chains": CHAINS, "budget": BUDGET, "records": RECORDS, "acceptance": tj.Penalty(pool=True)}
CLOCK = {"tau": TAU, "budget": BUDGET, "records": RECORDS}
_rng = np.random.default_rng(3)
X = _rng.uniform(-1, 1, (200, 3)).astype(np.float32)


def mistakes(theta, batch):
    """0 or 1: no gradient at all."""
    return jnp.where((batch.y > -1.2) == (batch.x @ theta > 0), 0.0, 1.0)


PROBLEMS = {
    "perceptron": lambda: PERCEPTRON,
    "mistakes": lambda: tj.Problem(mistakes, DATA, 2),
    "regression": lambda: tj.models.mlp([3, 4, 1]).problem(X, np.sin(3 * X[:, 0]) + X[:, 1], loss="squared"),
    "classification": lambda: tj.models.mlp([3, 6, 3]).problem(X, np.argmax(X, axis=1)),
}


@cache
def trained(name="perceptron", **changes):
    return tj.train(PROBLEMS[name](), **{**TINY, **changes})


def used(run):
    """Pairs of losses of all chains, the start included."""
    return float(run.records["data_used"][:, -1].sum())


@pytest.mark.parametrize("name", ["perceptron", *(pytest.param(n, marks=pytest.mark.slow) for n in list(PROBLEMS)[1:])])
def test_a_run_ends_within_its_budget_and_all_of_it_is_finite(name):
    run = trained(name)
    assert run.is_complete
    assert 0.7 * BUDGET < used(run) < 1.3 * BUDGET
    assert 0 < run.burn_in < run.epochs
    s = run.records["s"]
    is_before = run.records["data_used"].mean(0) < SEARCHING * BUDGET / CHAINS
    assert (np.diff(s if run.run_state.search[1].sum() == 0 else s[:, is_before]) >= 0).all()
    assert (s[:, run.records["epoch"][0] > run.burn_in] == run.s[:, None]).all()
    assert np.isfinite(run.paths).all()
    is_audited = set(sum(AUDITED, ()))
    assert all(np.isfinite(values).all() for column, values in run.records.items() if column not in is_audited)
    found = run.summary()
    assert np.isfinite([found["loss"], found["loss_stderr"], found["acceptance"]]).all()
    start = Sampler(run.target, run.settings)
    assert found["loss"] < float(start.measure(start.init()).loss.mean())


def test_the_ensemble_is_near_the_least_squares():
    run = trained()
    best = tj.exact.perceptron(DATA.x, DATA.y, 1, 1.0, 1.0).minimum
    assert run.summary()["loss"] - best < 0.05 * (np.mean(DATA.y**2) / 2 - best)


def test_burn_in_is_four_fifths_of_what_follows_the_start():
    run = trained()
    epochs, total = run.records["epoch"][0], run.records["data_used"].mean(0)
    begun = run.run_state.start_pairs
    assert begun == pytest.approx(SHARE_OF_EVOLUTION * BUDGET / CHAINS, rel=0.05)
    share = (total[epochs == run.burn_in][0] - begun) / (BUDGET / CHAINS - begun)
    assert BURN_IN <= share < BURN_IN + 4 / RECORDS
    assert (epochs > run.burn_in).sum() >= 4


def test_the_same_seed_trains_the_same_ensemble():
    assert_same(trained(), trained.__wrapped__())
    assert (trained().paths != trained(seed=1).paths).any()


def test_s_that_was_asked_for_is_reached_in_burn_in():
    run = trained(s=90.0, start="random")
    s = run.records["s"]
    assert s[0, 0] < 60.0
    is_before = run.records["data_used"].mean(0) < SEARCHING * BUDGET / CHAINS
    assert (np.diff(s if run.run_state.search[1].sum() == 0 else s[:, is_before]) >= 0).all()
    assert (s[:, run.records["epoch"][0] > run.burn_in] == 90.0).all()
    assert (run.s == 90.0).all()


def test_chains_may_have_an_s_of_their_own():
    asked = (20.0, 40.0, 60.0, 80.0)
    run = tj.train(PERCEPTRON, s=np.array(asked), start="random", **TINY)
    assert run.s == pytest.approx(asked)
    assert run.records["s"][:, -1] == pytest.approx(asked)
    np.testing.assert_allclose(
        run.records["s"] / run.records["s"][:1], np.array(asked)[:, None] / 20 + 0 * run.records["s"]
    )


def test_burn_in_ends_where_the_loss_that_was_asked_for_is_reached():
    best = tj.exact.perceptron(DATA.x, DATA.y, 1, 1.0, 1.0).minimum
    run = trained(loss=best + 0.1, start="random", sigma=0.05)
    epoch, loss = run.records["epoch"][0], run.records["loss"].mean(0)
    assert loss[epoch == run.burn_in] <= best + 0.1
    assert (loss[epoch < run.burn_in] > best + 0.1).all()
    assert (epoch > run.burn_in).sum() >= 4


def test_a_random_start_costs_nothing():
    assert trained(start="random", s=90.0).run_state.start_pairs == 0.0


class Seen(Exception):
    """Enough was seen."""


def first_paths(monkeypatch, start, **changes):
    """The paths at epoch 0 of a run that is not made."""
    seen = []

    def stop(*arguments):
        seen.append(first_state(*arguments))
        raise Seen

    with monkeypatch.context() as patch:
        patch.setattr("trajens.run.train.first_state", stop)
        with pytest.raises(Seen):
            tj.train(PERCEPTRON, start=start, **{**TINY, **changes})
    return np.asarray(seen[0].state.path), seen[0]


def test_a_model_becomes_a_path_that_stays_there(monkeypatch):
    model = np.float32([0.3, -0.7])
    paths, state = first_paths(monkeypatch, model)
    np.testing.assert_array_equal(paths, np.broadcast_to(model, (CHAINS, TAU, 2)))
    assert (state.start_pairs, state.epoch, state.control.burn_in) == (0.0, 0, MAX_EPOCHS)
    assert state.control.tilt > 0


def test_paths_are_started_from_as_they_are(monkeypatch):
    whole = np.random.default_rng(0).standard_normal((CHAINS, TAU, 2)).astype(np.float32)
    np.testing.assert_array_equal(first_paths(monkeypatch, whole)[0], whole)
    np.testing.assert_array_equal(first_paths(monkeypatch, whole[0])[0], np.broadcast_to(whole[0], whole.shape))


def test_one_model_per_chain_becomes_paths_that_stay_there():
    models, target = np.float32([[0.1, 0.0], [0.2, 0.0], [0.3, 0.0]]), tj.Target(PERCEPTRON, TAU, 0.1, 1.0)
    np.testing.assert_array_equal(_constant(models[:, None], target, 3), np.repeat(models[:, None], TAU, axis=1))


def test_a_run_starts_where_another_has_ended(monkeypatch, tmp_path):
    run = tj.train(PERCEPTRON, out=tmp_path / "a", **TINY)
    for start in (tmp_path / "a", str(tmp_path / "a")):
        np.testing.assert_array_equal(first_paths(monkeypatch, start)[0], run.paths)


# As many chains as models in a path: one shape for two things.
def test_an_evolved_start_is_one_model_per_chain_and_better_than_the_random_one(monkeypatch):
    paths, state = first_paths(monkeypatch, "evolution")
    assert (paths == paths[:, :1]).all()
    assert len(np.unique(paths[:, 0, 0])) == CHAINS
    assert 0 < state.start_pairs <= SHARE_OF_EVOLUTION * BUDGET / CHAINS
    random, _ = first_paths(monkeypatch, "random")
    losses = [0.5 * ((DATA.y - p[:, 0] @ DATA.x.T) ** 2).mean(1) for p in (paths, random)]
    assert (losses[0] < losses[1]).all()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"s": 10.0, "until_loss": 0.1}, "s and until_loss must not both be given"),
        ({"start": "nowhere"}, "start must be evolution, random, an array or the directory of a run, got 'nowhere'"),
        ({"start": np.zeros(3)}, r"start must be .* an array of shape \(2,\)"),
        ({"start": None}, "start must be"),
        ({"budget": 3999.0}, "budget must be a finite number >= 4000"),
        ({"budget": np.nan}, "budget must be a finite number"),
        ({"chains": 0}, "chains must be a whole number"),
        ({"models": 16}, "models must be given without tau and chains"),
        ({"records": 7}, "records must be a whole number at least 8"),
        ({"s": 0.0}, "s must be numbers > 0"),
        ({"s": tj.schedule.linear(1.0, 2.0, 10)}, "s must be numbers > 0"),
        ({"s": [1.0, 2.0, 3.0]}, "s must be one number, or some that chains can be divided into"),
        ({"until_loss": np.inf}, "loss must be a finite number"),
        ({"example_weights": "wins"}, "scores"),
        ({"prior": "wide"}, "prior"),
    ],
)
def test_what_cannot_be_meant_is_one_sentence(changes, sentence):
    with pytest.raises(tj.InputError, match=sentence):
        tj.train(PERCEPTRON, **{**TINY, **changes})


@pytest.mark.parametrize(
    ("models", "passes", "paths"),
    [(16, 800, 1), (16, 8000, 2), (16, 1e6, 2), (64, 1999, 1), (64, 8000, 4), (64, 1e6, 4), (50, 1e6, 2), (7, 1e6, 1)],
)
def test_models_are_divided_into_more_paths_the_larger_the_budget(models, passes, paths):
    setup = training_setup(PERCEPTRON, models=models, budget=passes * PERCEPTRON.size)
    assert setup.settings.chains == paths
    assert setup.target.tau * paths == models


def test_on_a_gpu_losses_of_a_kernel_are_in_half_precision_unless_single_was_asked_for(monkeypatch):
    """The programs are lowered for CUDA, which needs the library of its kernel and no GPU."""
    if not kernels.library("cuda").is_loaded:
        pytest.skip(kernels.library("cuda").explanation)
    monkeypatch.delenv("TRAJENS_CUDA_PRECISION", raising=False)
    pixels = np.zeros((20, 28, 28), np.uint8), np.zeros(20, np.uint8)
    problem = tj.models.cnn().problem(*pixels).hold_out(0.2)
    asked = problem.with_loss(replace(problem.loss, precision="single"))
    gpu, cpu = [SimpleNamespace(platform="gpu")], [SimpleNamespace(platform="cpu")]
    trained = in_usual_precision(problem, devices=gpu)
    assert trained.held_out.loss == trained.loss
    assert in_usual_precision(asked, devices=gpu) is asked
    assert in_usual_precision(problem, devices=cpu) is problem
    assert in_usual_precision(problem, None, gpu) is problem
    assert in_usual_precision(PERCEPTRON, devices=gpu) is PERCEPTRON

    def target(problem):
        losses = jax.jit(lambda *given: losses_of_pairs(problem.loss, problem.data, *given))
        given = np.zeros((1, 2, problem.dim), np.float32), np.zeros((1, 4), np.int32), np.ones(1, bool)
        text = losses.trace(*given).lower(lowering_platforms=("cuda",)).as_text()
        return re.search(r"@(trajens_cnn\w*)", text).group(1)

    names = {"trained": target(trained), "sampled": target(problem), "asked": target(asked)}
    assert names == {"trained": "trajens_cnn_half", "sampled": "trajens_cnn", "asked": "trajens_cnn"}
    monkeypatch.setenv("TRAJENS_CUDA_PRECISION", "single")
    assert target(trained) == "trajens_cnn"
    # What a run is known by does not change: one that was begun in single precision goes on.
    assert describe(trained.loss) == describe(problem.loss)


def test_only_a_problem_can_be_trained():
    with pytest.raises(tj.InputError, match=r"problem must be a trajens\.Problem, got PerceptronData"):
        tj.train(DATA)


def test_the_size_of_parameters_is_that_of_their_law():
    assert scale_of(PERCEPTRON) == pytest.approx(2**-0.5)
    assert scale_of(PERCEPTRON, 0.7) == 0.7
    around = tj.Problem(tj.datasets.perceptron_loss, DATA, 2, initial=[3.0, 4.0])
    assert scale_of(around) == pytest.approx(12.5**0.5)
    assert scale_of(PROBLEMS["regression"]()) == pytest.approx(0.3)


class StopAt:
    """Says stop when it was told of an epoch."""

    def __init__(self, epoch):
        self.epoch, self.told = epoch, 0

    def show(self, progress):
        self.told = progress.epoch

    def __call__(self):
        return self.told >= self.epoch


@pytest.mark.parametrize("part", [0.5, 1.1], ids=["in burn-in", "after burn-in"])
def test_a_run_that_was_stopped_goes_on_bit_for_bit(tmp_path, small_blocks, part):
    whole, given = trained(start="random"), {**TINY, "start": "random"}
    at = StopAt(part * whole.burn_in)
    run = tj.train(PERCEPTRON, out=fresh(tmp_path / "a"), stop=at, progress=at.show, **given)
    assert not run.is_complete
    assert (run.epochs < whole.burn_in) == (part < 1)
    assert run.burn_in == (MAX_EPOCHS if part < 1 else whole.burn_in)
    run = tj.train(PERCEPTRON, out=again(tmp_path / "a"), **given)
    assert_same(whole, run)
    assert run.burn_in == whole.burn_in
    np.testing.assert_array_equal(run.marks, whole.marks)


def test_a_run_stopped_after_every_few_blocks_is_the_run_that_was_not(tmp_path, small_blocks):
    whole, stops = trained(), 0
    # The start, in one piece, is asked too.
    run = tj.train(PERCEPTRON, out=fresh(tmp_path / "a"), stop=StopAfter(6), **TINY)
    while not run.is_complete:
        stops += 1
        run = tj.train(PERCEPTRON, out=again(tmp_path / "a"), stop=StopAfter(6), **TINY)
    assert stops > 3
    assert_same(whole, run)
    np.testing.assert_array_equal(tj.StoredRun(tmp_path / "a").records["s"], whole.records["s"])


def test_a_run_stopped_in_its_start_goes_on_bit_for_bit(tmp_path, monkeypatch, small_blocks):
    monkeypatch.setattr(starts, "_GENERATIONS", 5)
    whole, file = trained(), tmp_path / "a" / "start.npz"
    with pytest.raises(tj.Stopped, match="stopped in the start of the run, after 10 of"):
        tj.train(PERCEPTRON, out=fresh(tmp_path / "a"), stop=StopAfter(1), **TINY)
    assert file.exists()
    with pytest.raises(tj.InputError, match="a run must be resumed with what it was begun with"):
        tj.train(PERCEPTRON, out=again(tmp_path / "a"), **TINY, seed=5)
    assert_same(whole, tj.train(PERCEPTRON, out=again(tmp_path / "a"), **TINY))
    assert not file.exists()


def test_a_start_that_is_damaged_is_made_again(tmp_path, monkeypatch, small_blocks):
    monkeypatch.setattr(starts, "_GENERATIONS", 5)
    with pytest.raises(tj.Stopped):
        tj.train(PERCEPTRON, out=fresh(tmp_path / "a"), stop=StopAfter(0), **TINY)
    file = tmp_path / "a" / "start.npz"
    file.write_bytes(file.read_bytes()[:-50])
    with pytest.warns(UserWarning, match="is damaged"):
        run = tj.train(PERCEPTRON, out=again(tmp_path / "a"), **TINY)
    assert_same(trained(), run)


def test_a_run_is_not_resumed_with_another_budget(tmp_path):
    tj.train(PERCEPTRON, out=tmp_path / "a", **TINY)
    with pytest.raises(tj.InputError, match="begun with controller Budget"):
        tj.train(PERCEPTRON, out=again(tmp_path / "a"), **{**TINY, "budget": 2 * BUDGET})


def test_a_trained_run_can_be_extended_with_everything_frozen():
    run = trained()
    more = run.extend(200)
    assert more.epochs == run.epochs + 200
    assert more.burn_in == run.burn_in
    assert (more.s == run.s).all()
    size = more.records["move_size"]
    assert (size[:, more.records["epoch"][0] > run.burn_in] == size[:, -1:]).all()
    np.testing.assert_array_equal(more.control.copies, run.control.copies)
    np.testing.assert_array_equal(more.paths, run.extend(70).extend(130).paths)


def test_a_run_says_what_it_has_chosen_and_what_to_do_next(capsys):
    tj.train(PERCEPTRON, **TINY, progress=True)
    told = capsys.readouterr().out
    for part in ("start: ", "chosen: s = ", "sigma = ", "moves of size", "examples drawn by their losses", "next: "):
        assert part in told
    assert "--" not in told
    run = tj.train(PERCEPTRON, **TINY, start="random", until_loss=1e-9, progress=False)
    assert capsys.readouterr().out == ""
    assert "the loss of 1e-09 that was asked for was not reached" in report(run)
    assert "start: " not in report(run)


def written(folder):
    """A table of two columns and two classes."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, 2))
    lines = [f"{a:.3f},{b:.3f},{'yes' if a > b else 'no'}" for a, b in x]
    (folder / "table.csv").write_text("\n".join(["a,b,label", *lines]) + "\n")
    return str(folder / "table.csv")


PENALTY = ["--acceptance", "penalty"]
SMALL = ["--tau", "2", "--hidden", "3", "--records", "8", "--seed", "1"]


def test_the_command_line_trains_by_itself_and_says_what_was_chosen(capsys, tmp_path, monkeypatch):
    out = str(tmp_path / "run")
    how = ["--budget", "3e4", "--start", "evolution", *SMALL, *PENALTY]
    code, shown, told = call(capsys, "train", written(tmp_path), *how, "--out", out)
    assert code == 0, told
    for row in ("start", "evolution", "examples drawn by", "losses", "size of moves, tuned", "error of s, audited"):
        assert row in shown
    stored = tj.StoredRun(out)
    assert (stored.config["budget"], stored.config["start"], stored.is_complete) == (3e4, "evolution", True)
    [row] = [line for line in shown.splitlines() if "pairs of the start, share, last loss" in line]
    pairs = stored.start_records["data_used"][0, -1]
    loss = stored.start_records["loss"][:, -1].mean()
    assert f"{pairs:,}, {pairs / 7.5e3:.0%}, {loss:.4g}" in row
    code, _, told = call(capsys, "resume", out, "--epochs", "40", "--json")
    assert code == 0, told
    assert tj.StoredRun(out).epoch == stored.epoch + 40
    code, again, _ = call(capsys, "train", "--config", f"{out}/config.toml", "--json")
    assert json.loads(again)["s"] == stored.records["s"][0, -1]


@pytest.mark.slow
def test_minutes_are_a_clock_that_a_run_keeps_to_and_writes_down(capsys, tmp_path, monkeypatch):
    # The speed at first sight is wrong by far.
    monkeypatch.setattr("trajens.app.experiment.pairs_per_second", lambda *_: 1e3)
    monkeypatch.setattr("trajens.app.cli.train._LOADING", 0.0)
    out, table = str(tmp_path / "run"), written(tmp_path)
    call(capsys, "train", table, "--budget", "3e4", *SMALL)
    code, _, told = call(capsys, "train", table, "--minutes", "0.1", *SMALL, "--out", out)
    assert code == 0, told
    assert "0.1 minutes are about" in told
    stored = tj.StoredRun(out)
    clock = stored.config["clock"]
    assert 0.5 * 6.0 < clock <= 6.0
    assert "minutes" not in stored.config
    # Many more than the first look has promised: as many as the clock came to, however fast the machine was.
    pairs = stored.records["data_used"][:, -1].mean()
    assert pairs == pytest.approx(float(stored.arrays["clock_pairs"]), rel=0.2)
    assert pairs * len(stored.records["s"]) > 10 * stored.config["budget"]
    code, _, told = call(capsys, "resume", out, "--epochs", "40", "--json")
    assert code == 0, told


@pytest.mark.slow
def test_a_run_on_a_clock_goes_on_with_what_was_decided(tmp_path, small_blocks):
    setup = training_setup(PERCEPTRON, **{**CLOCK, "settings": {"chains": CHAINS, "acceptance": tj.Penalty(pool=True)}})
    setup = setup._replace(budget=replace(setup.budget, seconds=12.0))
    first = train_as_set_up(setup, "random", out=fresh(tmp_path / "run"), stop=StopAfter(40))
    assert not first.is_complete
    assert first.run_state.recorded > 1
    decided = first.run_state.clock_pairs
    assert np.isfinite(decided)
    assert float(tj.StoredRun(tmp_path / "run").arrays["clock_pairs"]) == decided
    whole = train_as_set_up(setup, "random", out=again(tmp_path / "run"))
    assert whole.is_complete
    assert whole.seconds > first.seconds
    assert whole.run_state.pairs_used == pytest.approx(whole.run_state.clock_pairs, rel=0.2)


@pytest.fixture(scope="module")
def regression():
    """A regression with labels of a noise that is known, and half of the variance."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((300, 2)).astype(np.float32)
    return x, (x[:, 0] + rng.standard_normal(300)).astype(np.float32) / 2**0.5


@pytest.mark.slow
def test_s_of_numbers_follows_the_noise_of_labels_that_are_held_out(regression):
    problem = tj.models.linear(2, 1).problem(*regression, "squared").hold_out(HELD_OUT)
    run = tj.train(problem, tau=TAU, chains=2, budget=2e7, records=RECORDS, progress=False)
    assert run.target.problem.size == 300 - round(HELD_OUT * 300)
    assert run.target.problem.held_out.size == round(HELD_OUT * 300)
    variance = 2 * run.records["loss_held_out"][:, run.records["epoch"][0] <= run.burn_in].mean(0)
    # That of the record before the last of burn-in, at which s was changed for the last time.
    best = best_likelihoods(run.run_state.search, 60)
    assert run.s[0] == pytest.approx(likelihood_s(240, TAU, variance[-2], best))
    # Half of the variance of the labels is noise; its error in 60 examples is 18 %.
    assert variance[-1] == pytest.approx(0.5, abs=6 * 0.18 * 0.5)
    assert not (run.records["loss_held_out"] == run.records["loss"]).any()
    assert "likelihoods of the examples" in report(run)


def test_an_s_that_was_asked_for_holds_nothing_out_and_many_classes_neither(regression):
    x, y = regression
    numbers = tj.models.linear(2, 1).problem(x, y, "squared")
    assert training_setup(numbers, s=10.0).target.problem.held_out is None
    # For a search some are held out, and come back.
    classes = training_setup(tj.models.linear(2, 2).problem(x, (y > 0).astype(int)))
    assert (classes.target.problem.size, classes.target.problem.held_out) == (300, None)
    assert (classes.budget.searched_on, classes.budget.is_searched_before) == (60, True)
    many = training_setup(tj.models.linear(2, 2).problem(np.tile(x, (5, 1)), np.tile(y > 0, 5).astype(int)))
    assert many.target.problem.held_out is None
    assert many.budget.largest_s(np.nan) == likelihood_s(1500, 16)
    # A loss that is no likelihood says nothing of an s.
    mistakes = tj.models.linear(2, 2).problem(x, (y > 0).astype(int), "0-1")
    assert training_setup(mistakes).budget.largest_s(0.1) == np.inf


@pytest.mark.slow
def test_a_run_whose_burn_in_is_taken_up_again_goes_on_bit_for_bit_wherever_it_was_stopped(tmp_path, monkeypatch):
    told = []

    def is_beyond(records, burn_in, tolerance):
        """Once, of what is written down, so that a run that is resumed is told the same."""
        told.append(int(after_burn_in(records, burn_in).sum()))
        return told[-1] == 2 and records["data_used"][:, -1].sum() < 0.86 * BUDGET

    monkeypatch.setattr(loop, "is_beyond", is_beyond)
    monkeypatch.setattr(loop.Blocks, "adapt", lambda self, seconds: None)
    how = {**TINY, "start": "random", "acceptance": tj.Penalty(16), "records": 40, "keep_paths": True}
    whole = tj.train(PERCEPTRON, **how)
    used = whole.records["data_used"].sum(0)
    assert 2 in told
    assert used[whole.records["epoch"][0] == whole.burn_in][0] > (BURN_IN + 3 / 40) * BUDGET
    assert whole.draws.shape[1] == (whole.records["epoch"][0] > whole.burn_in).sum() >= 4
    run, is_seen = tj.train(PERCEPTRON, out=tmp_path / "a", stop=StopAfter(0), **how), False
    while not run.is_complete:
        run = tj.resume(tmp_path / "a", PERCEPTRON, stop=StopAfter(0))
        if run.burn_in == MAX_EPOCHS and used[np.searchsorted(whole.marks, run.epochs)] > BURN_IN * BUDGET:
            is_seen, stored = True, StoredRun(tmp_path / "a")
            assert stored.burn_in == MAX_EPOCHS
            assert not has_summary(stored.records, stored.burn_in)
            assert {finding.name for finding in findings(RunFacts.of(stored))} >= {"Length", "Tolerance of s"}
    assert is_seen
    assert_same(run, whole)
    assert run.burn_in == whole.burn_in
    np.testing.assert_array_equal(run.draws, whole.draws)


def test_few_examples_are_recorded_as_often_as_a_tenth_of_the_budget_allows():
    def chosen(size, budget, **asked):
        x = np.zeros((size, 2), np.float32)
        problem = tj.models.linear(2, 2).problem(x, np.arange(size) % 2)
        return training_setup(problem, budget=budget, **asked).budget.records

    assert chosen(FEW, 1e9) == RECORDS_OF_FEW
    assert chosen(FEW + 1, 1e9) == USUAL_RECORDS
    assert chosen(200, 1e5) == USUAL_RECORDS
    # Four chains of 4 models: a record takes 8 pairs of losses for an example.
    assert chosen(200, 250 * 10 * 8 * 200) == 250
    assert chosen(200, 1e9, records=20) == 20


def test_examples_that_are_held_out_are_a_random_share_and_never_the_others():
    x = np.arange(50, dtype=np.float32)
    problem = tj.Problem(lambda theta, batch: (batch - theta[0]) ** 2, x, 1)
    left = problem.hold_out(0.3)
    assert left.held_out.size == 15
    assert sorted([*np.asarray(left.data), *np.asarray(left.held_out.data)]) == x.tolist()
    assert not np.array_equal(np.asarray(left.held_out.data), x[:15])
    assert problem.held_out is None
    with pytest.raises(tj.InputError, match="examples must be left to train on, got 3 of which 2 are held out"):
        tj.Problem(problem.loss, x[:3], 1).hold_out(0.5)
    with pytest.raises(tj.InputError, match="share held out must be"):
        problem.hold_out(1.5)


def test_a_run_is_not_resumed_with_other_examples_held_out(tmp_path, regression):
    problem = tj.models.linear(2, 1).problem(*regression, "squared")
    how = {"tau": 2, "chains": 1, "budget": 2e4, "records": 8, "start": "random", "progress": False}
    with_held_out = problem.hold_out(0.2)
    tj.train(with_held_out, **how, out=fresh(tmp_path / "run"))
    other = problem.hold_out(0.2)
    other.held_out = problem.hold_out(0.2, seed=1).held_out
    with pytest.raises(tj.InputError, match="held_out_checksum"):
        tj.train(other, **how, out=again(tmp_path / "run"))


def test_a_start_that_was_stopped_on_the_command_line_is_resumed(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(starts, "_GENERATIONS", 1)
    small, out = [written(tmp_path), "--budget", "3e4", *SMALL, "--json"], str(tmp_path / "run")
    small += ["--start", "evolution"]
    _, whole, _ = call(capsys, "train", *small)
    monkeypatch.setattr("trajens.app.cli.signals.StopOnSignal.__call__", lambda self: True)
    code, _, told = call(capsys, "train", *small, "--out", out)
    assert (code, "stopped in the start of the run" in told, f"trajens resume {out}" in told) == (75, True, True)
    monkeypatch.undo()
    code, resumed, told = call(capsys, "resume", out, "--json")
    assert code == 0, told
    assert json.loads(resumed)["loss"] == json.loads(whole)["loss"]


def test_a_speed_is_measured_in_seconds(monkeypatch):
    monkeypatch.setattr("trajens.run.train._TIMED_SECONDS", 0.1)
    setup = training_setup(PERCEPTRON, tau=TAU, budget=BUDGET, settings={"chains": CHAINS})
    assert 0 < pairs_per_second(setup) < 1e12


@pytest.mark.slow
def test_a_start_at_which_nothing_changes_does_not_make_s_endless():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((400, 4)).astype(np.float32)
    # One in forty is of the other class, so that a model which never says so is hard to leave.
    y = (x[:, 0] > 1.96).astype(int)
    problem = tj.models.mlp((4, 4, 2), "step").problem(x, y, "0-1")
    never = np.zeros(problem.dim, np.float32)
    never[-2:] = 30.0, -30.0
    run = tj.train(problem, tau=2, budget=1e5, start=never, progress=False)
    assert 0 < run.s[0] < 1e5
