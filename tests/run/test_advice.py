"""What is said of a run: whether it has learned the training set by heart, and why s is what it is."""

import json

import numpy as np
import pytest

import trajens as tj
from tests.command import call
from trajens.run.advice import ATTENTION, OK, UNKNOWN, RunFacts, advice, findings
from trajens.run.control import likelihood_s
from trajens.run.outcome import among_examples
from trajens.run.search import HIGHEST, LOWEST

RECORDS, BURN_IN = 20, 80


def facts(training, held_out, **changes):
    """Those of a run with these losses at its records, (records,)."""
    epoch = np.arange(10, 10 * (RECORDS + 1), 10)
    noise = 1e-3 * np.random.default_rng(0).standard_normal((3, RECORDS))
    ones = np.ones((1, RECORDS))
    records = {
        "epoch": epoch[None],
        "s": 10.0 * ones,
        "loss": (training * (1 + noise[0]))[None],
        "loss_held_out": (held_out * (1 + noise[1]))[None],
        "acceptance": 0.4 * ones,
        "weight_rms": ones,
        **{f"projection_{k}": (1 + noise[2])[None] for k in (1, 2, 3)},
    }
    known = {"burn_in": BURN_IN, "epochs": 200, "last_epoch": 200, "is_complete": True, "prior": 0.3, "tolerance": None}
    return RunFacts(records=records, **known, is_exact=True, pairs=1e6, asked_loss=None, **changes)


def held_out(found):
    [finding] = [finding for finding in findings(found) if finding.name == "Held out"]
    return finding


CONSTANT = np.ones(RECORDS)
RISEN = np.linspace(1.0, 3.0, RECORDS)


@pytest.mark.parametrize(
    ("training", "fresh", "is_by_heart"),
    [
        (np.linspace(0.9, 0.001, RECORDS), RISEN, True),
        # Worse than on the training set, but as good as it has ever been: that is what few data are like.
        (0.2 * CONSTANT, 0.9 * CONSTANT, False),
        # It was better before, as the training set was too.
        (RISEN, RISEN, False),
        (0.5 * CONSTANT, 0.55 * CONSTANT, False),
    ],
)
def test_a_training_set_is_learned_by_heart_where_new_examples_get_worse(training, fresh, is_by_heart):
    finding = held_out(facts(training, fresh))
    assert (finding.mark == ATTENTION) == is_by_heart
    assert ("learned the training set by heart" in finding.sentence) == is_by_heart
    assert bool(finding.following) == is_by_heart


def test_nothing_is_said_of_examples_that_are_not_there():
    found = facts(CONSTANT, CONSTANT)
    del found.records["loss_held_out"]
    assert "Held out" not in [finding.name for finding in findings(found)]


def lag(found):
    return [(finding.mark, finding.sentence) for finding in findings(found) if finding.name == "Lag"]


def test_paths_that_were_renewed_few_times_since_s_stands_still_may_lag_behind_it():
    assert not lag(facts(CONSTANT, CONSTANT))
    found = facts(CONSTANT, CONSTANT)
    found.records["renewals"] = np.full((1, RECORDS), 2.0)
    [(mark, sentence)] = lag(found)
    assert mark == OK
    assert f"{2 * RECORDS} times" in sentence
    # It stands still from the twelfth record on, after which there are nine with that.
    found.records["s"][0, :11] = 5.0
    found.records["s"][0, 11] = 9.9
    [(mark, sentence)] = lag(found)
    assert mark == ATTENTION
    assert "18 times" in sentence
    assert "try a smaller --s" in " ".join(finding.following for finding in findings(found))


def test_renewals_are_what_was_accepted_times_what_a_move_renews():
    """A quarter of the moves of one parameter of three, the others of all of a model; paths of four models."""
    problem = tj.Problem(lambda theta, batch: (batch @ theta) ** 2, np.ones((20, 3), np.float32), dim=3, prior=1.0)
    move = tj.Mixture([(1.0, tj.SingleSite(1 / 3)), (3.0, tj.SingleSite())])
    run = tj.sample(tj.Target(problem, 4, 0.1, 1.0), 400, chains=2, records=4, burn_in=0, move=move)
    accepted = run.records["acceptance"] * 100
    np.testing.assert_allclose(run.records["renewals"], accepted * (1 / 3 + 3) / 4 / 4, rtol=1e-6)


def double_well(params, batch):
    """Two wells at -1 and 1 that no chain leaves at s = 60."""
    return (params["w"][0] ** 2 - 1) ** 2 + 0.0 * batch


def test_chains_that_began_together_agree_in_one_well_and_the_verdict_says_so(tmp_path):
    def sampled(name, **how):
        params = {"w": np.ones(1, np.float32)}
        problem = tj.Problem.from_pytree(double_well, np.zeros(4, np.float32), params, **how)
        target = tj.Target(problem, 2, 0.3, 60.0, prior=1.0)
        settings = {"chains": 32, "records": 40, "acceptance": tj.Metropolis(), "out": tmp_path / name}
        return tj.sample(target, 800, **settings)

    together, apart = sampled("together", spread=0.0), sampled("apart")
    assert (together.paths > 0).all()
    of_models = apart.paths[:, :, 0].mean(1)
    # Chains start at N(1, 1), a sixth of them on the left, which is as deep.
    assert (of_models < 0).any()
    assert (of_models > 0).sum() > 16
    for run in (together, tj.StoredRun(tmp_path / "together")):
        found = {finding.name: finding for finding in findings(RunFacts.of(run))}
        assert found["Start"].mark == UNKNOWN
    found = {finding.name: finding for finding in findings(RunFacts.of(apart))}
    assert "Start" not in found
    assert found["Convergence"].mark == ATTENTION


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A table of numbers, half of whose variance is noise."""
    rng = np.random.default_rng(2)
    x = rng.standard_normal((200, 2))
    y = 100 + 7 * (x[:, 0] + rng.standard_normal(200))
    file = tmp_path_factory.mktemp("table") / "cars.csv"
    lines = [f"{a:.4f},{b:.4f},{c:.4f}" for (a, b), c in zip(x, y, strict=True)]
    file.write_text("\n".join(["weight,power,y", *lines]) + "\n")
    return file


SMALL = ["--model", "linear", "--tau", "4", "--chains", "2", "--records", "20"]


@pytest.mark.slow
def test_a_table_of_numbers_is_trained_and_evaluated_with_the_noise_of_its_labels(table, tmp_path, capsys):
    out = tmp_path / "run"
    code, told, error = call(capsys, "train", str(table), *SMALL, "--budget", "8e6", "--out", str(out), "--json")
    assert code == 0, error
    numbers = json.loads(told)
    assert numbers["settings"]["hold_out"] == 0.2
    stored = tj.StoredRun(out)
    assert stored.description["examples"] == 160
    # v in units of the variance of the labels: one half, and a fifth of that for 40 examples.
    least, most = (likelihood_s(160, 4, 0.5, likelihoods) for likelihoods in (LOWEST, HIGHEST))
    assert 0.5 * least < numbers["s"] < 2 * most
    assert numbers["loss_held_out"] == pytest.approx(0.25, abs=0.2)
    code, told, error = call(capsys, "evaluate", str(out), "--json")
    assert code == 0, error
    scores = json.loads(told)
    assert (scores["data"], scores["examples"]) == ("the held-out part", 40)
    # Of a normal law of standard deviation 7: 3.36. Without the noise it is ten times that.
    assert scores["nll"] == pytest.approx(0.5 * np.log(2 * np.pi * 49) + 0.5, abs=0.5)
    assert 0.4 < scores["coverage_68"] < 0.95
    code, told, _ = call(capsys, "evaluate", str(out), "--noise", "0", "--json")
    assert json.loads(told)["nll"] > scores["nll"] + 3
    assert "s is what suits so many examples" in advice(stored) or "agree" in advice(stored)


def test_nothing_is_held_out_where_that_was_asked_for(table, capsys, tmp_path):
    short = ["--budget", "2e4", "--start", "random", "--out"]
    code, told, error = call(
        capsys, "train", str(table), *SMALL, "--hold-out", "0", "--s", "5", *short, str(tmp_path / "a")
    )
    assert code == 0, error
    assert "held-out" not in told
    assert tj.StoredRun(tmp_path / "a").description["examples"] == 200
    code, told, _ = call(capsys, "evaluate", str(tmp_path / "a"), "--json")
    assert json.loads(told)["data"] == "the training data"
    code, told, _ = call(capsys, "train", str(table), *SMALL, "--hold-out", "1.5", *short, str(tmp_path / "b"))
    assert code == 2


def test_findings_of_a_run_with_examples_held_out_are_in_order():
    assert held_out(facts(0.5 * CONSTANT, 0.6 * CONSTANT)).mark == OK


def test_a_batch_of_more_than_all_examples_says_how():
    assert among_examples(12.0, 40) == " of 40"
    assert among_examples(3104.0, 1785) == ", some of the 1785 several times"
