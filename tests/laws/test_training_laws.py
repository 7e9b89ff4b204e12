"""Copies, sizes that tune themselves and training in one call leave the law that is sampled as it is.

Everything adapts in burn-in, and averages after it are those of the exact law.
"""

import numpy as np
import pytest

import trajens as tj
from tests.laws.test_tolerance_laws import heavy
from tests.monte_carlo import assert_agrees, assert_path_law
from trajens.moves.base import FRACTION_OF_MANY
from trajens.records import error_of_s, is_beyond
from trajens.run import audits
from trajens.run.control import BURN_IN

STATED, SIGMAS = 0.01, 3.5
"""What a minibatch test may be off by, of the excess loss, and standard errors of independent chains."""

DATA = tj.datasets.perceptron(size=45, noise=1.0)
SCORES = np.where(np.arange(45) % 7 == 0, 20.0, np.linspace(0.0, 1.0, 45))
"""Strongly unequal: most of the copies are of seven examples."""


def assert_loss(found, exact):
    """The mean loss of many chains is exact to what is stated."""
    assert found["loss_stderr"] < 0.01 * exact.excess
    assert abs(found["loss"] - exact.loss) < STATED * exact.excess + SIGMAS * found["loss_stderr"]


# The paper's test is not among them: it stops when its estimate of the noise is low and leaves out the finite
# population, and among copies of so unequal weight that alone is worth three to seventeen per cent of the excess loss.
# For the same reason Barker's test takes large first batches and allows little noise here.
@pytest.mark.parametrize(
    "test",
    [
        pytest.param(tj.Penalty(16), id="default", marks=pytest.mark.slow),
        pytest.param(tj.Penalty(16, rho=0.6, tolerance=None, stages=1), id="one stage", marks=pytest.mark.long),
        pytest.param(tj.Penalty(45, rho=0.01, tolerance=None, stages=1), id="all copies", marks=pytest.mark.slow),
        pytest.param(tj.MinibatchBarker(45, rho=0.3), id="barker", marks=pytest.mark.long),
    ],
)
def test_weighted_minibatches_sample_the_exact_law(test):
    tau, sigma, s = 3, 0.5, 25.0
    exact = tj.exact.perceptron(DATA.x, DATA.y, tau, sigma, s)
    settings = {"chains": 448, "burn_in": 400, "records": 40, "acceptance": test, "initial": np.full(2, 1.5)}
    run = tj.sample(tj.Target(DATA.problem(), tau, sigma, s), 1700, scores=SCORES, **settings)
    assert_loss(run.summary(), exact)


def regression(dim, size):
    """Correlated inputs and noisy labels."""
    rng = np.random.default_rng(7)
    x = rng.standard_normal((size, dim)) @ (np.eye(dim) + 0.4 * rng.standard_normal((dim, dim)) / dim**0.5)
    y = x @ rng.standard_normal(dim) + 0.5 * rng.standard_normal(size)
    return tj.datasets.PerceptronData(x.astype(np.float32), y.astype(np.float32))


MOVES = {
    "single site": tj.SingleSite(),
    "segment": tj.Segment(2),
    "mixture": tj.Mixture([(1.0, tj.SingleSite()), (1.0, tj.Segment(3)), (1.0, tj.CentreOfMass(0.1))]),
    "layers": tj.BalancedMixture([(1.0, tj.LayerMove("first")), (2.0, tj.LayerMove("rest"))]),
}
SOON = ("mixture", "layers")
FEW, COLD = regression(3, 16), 120.0


def layered(data):
    """Its problem, with two layers of one and of all other parameters."""
    known, dim = data.problem(), data.x.shape[1]
    return tj.Problem(known.loss, known.data, dim, layers={"first": 1, "rest": dim - 1})


def tuned(data, tau, sigma, s, prior=None, move=None, epochs=6000, chains=288):
    """A run whose moves tune their sizes in the first half, and the records after that."""
    run = tj.sample(
        tj.Target(layered(data), tau, sigma, s, prior),
        epochs,
        chains=chains,
        burn_in=epochs // 2,
        records=100,
        move=move,
        acceptance=tj.Metropolis(),
        keep_paths=True,
        tune=True,
        initial=np.full(data.x.shape[1], 0.7),
    )
    is_after = run.records["epoch"][0] > run.burn_in
    sizes = run.records["move_size"]
    assert (sizes[:, -1] < 0.9).all()
    return run.history[:, is_after], run.records["loss"][:, is_after], run


@pytest.mark.parametrize(
    "move", [pytest.param(move, marks=pytest.mark.slow if move in SOON else pytest.mark.long) for move in MOVES]
)
def test_moves_that_tuned_their_sizes_sample_the_exact_law(move):
    s = COLD if move == "layers" else 40.0
    history, losses, _ = tuned(FEW, 4, 0.5, s, move=MOVES[move])
    assert_path_law(history, losses, tj.exact.perceptron(FEW.x, FEW.y, 4, 0.5, s), move)


@pytest.mark.slow
def test_a_single_model_that_tuned_its_steps_has_the_exact_law():
    for prior in (0.6, 3.0):
        history, losses, _ = tuned(FEW, 1, 0.8, 20.0, prior)
        assert_path_law(history, losses, tj.exact.perceptron(FEW.x, FEW.y, 1, 0.8, 20.0, prior), f"prior {prior}")


@pytest.mark.slow
def test_many_parameters_of_which_a_tuned_share_is_redrawn_have_the_exact_law():
    data, prior = regression(34, 40), 0.8
    exact = tj.exact.perceptron(data.x, data.y, 2, 0.5, 6.0, prior)
    history, losses, run = tuned(data, 2, 0.5, 6.0, prior, epochs=3600, chains=256)
    assert (run.records["move_size"][:, -1] < FRACTION_OF_MANY).all()
    assert_agrees(losses.mean(1), exact.loss, "loss")
    assert_agrees((history - exact.mean).mean(1), 0.0, "mean")


@pytest.mark.slow
def test_training_to_a_given_s_samples_the_exact_law_there():
    data, s, sigma = tj.datasets.perceptron(noise=1.0), 60.0, 0.3
    run = tj.train(data.problem(), tau=4, budget=1.2e5 * 448, s=s, sigma=sigma, chains=448, records=60)
    run = run.extend(2000, records=40)
    assert (run.s == s).all()
    assert_loss(run.summary(), tj.exact.perceptron(data.x, data.y, 4, sigma, s))


@pytest.mark.slow
def test_training_that_moves_one_layer_at_a_time_samples_the_exact_law():
    settings = {"move": MOVES["layers"], "chains": 288, "keep_paths": True, "progress": False, "records": 20}
    run = tj.train(layered(FEW), tau=4, sigma=0.5, s=COLD, budget=4e4 * 288, **settings)
    before = run.epochs
    run = run.extend(4000, records=100)
    sizes = np.exp(run.run_state.state.sizes.log_size)
    # Weights differ from chain to chain, and are frozen with the sizes.
    assert sizes.std(0).min() > 0
    is_after = run.records["epoch"][0] > before + 1000
    exact = tj.exact.perceptron(FEW.x, FEW.y, 4, 0.5, COLD)
    assert_path_law(run.history[:, is_after], run.records["loss"][:, is_after], exact, "layers")


@pytest.mark.slow
def test_plans_that_turn_out_too_loose_are_made_again_and_keep_the_tolerance(monkeypatch):
    data, s, sigma = heavy("student", 2, 400, seed=3), 60.0, 0.2
    problem, exact = data.problem(), tj.exact.perceptron(data.x, data.y, 4, sigma, s)
    settings = {"tau": 4, "s": s, "sigma": sigma, "chains": 256, "records": 60, "acceptance": tj.Penalty(16)}
    plan_batches, loose = audits.plan_batches, 1

    def plan(sampler, state, seen, tolerance, rng):
        """As loose as can be the first time, which is the end of burn-in."""
        nonlocal loose
        loose -= 1
        return plan_batches(sampler, state, seen, tolerance if loose < 0 else 1.0, rng)

    monkeypatch.setattr(audits, "plan_batches", plan)
    run = tj.train(problem, budget=3e5 * 256, progress=False, **settings)
    used = run.records["data_used"].mean(0)
    at_end = used[run.records["epoch"][0] == run.burn_in][0]
    assert loose < 0
    assert at_end > (BURN_IN + 1.5 / 60) * used[-1]
    is_after = run.records["epoch"][0] > run.burn_in
    found = error_of_s(run.records, run.burn_in)
    assert abs(found.value) < STATED + SIGMAS * found.error
    # Before it was taken up again, it was beyond.
    early = int(run.records["epoch"][0][used > BURN_IN * used[-1]][0])
    assert is_beyond({name: v[:, ~is_after] for name, v in run.records.items()}, early, STATED)
    run = run.extend(2000, records=40)
    assert_loss(run.summary(), exact)


@pytest.mark.slow
def test_training_after_a_search_for_s_samples_the_exact_law_of_all_examples():
    data, sigma = tj.datasets.perceptron(size=200, noise=1.0), 0.3
    known = data.problem()
    problem = tj.Problem(known.loss, known.data, 2, prior=1.0, likelihood="noise")
    settings = {"chains": 448, "seed": 2, "progress": False}
    run = tj.train(problem, tau=4, budget=3e5 * 448, sigma=sigma, **settings)
    assert run.target.problem.size == 200
    assert set(run.s) == {run.s[0]}
    # Paths come from four fifths of the examples, at many likelihoods.
    assert run.start_records["s"][0, -2] > 3 * run.s[0]
    assert_loss(run.summary(), tj.exact.perceptron(data.x, data.y, 4, sigma, float(run.s[0]), 1.0))
