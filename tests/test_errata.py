"""Where the paper is wrong or unclear and no other test shows it; docs/theory/errata.md has them all."""

import numpy as np
import pytest
from scipy.special import expit, ndtr

import trajens as tj
from trajens.acceptance.barker import CorrectionTable, _ridge

C_0, C_1 = 10.0, 5.0


def test_plain_barker_on_a_minibatch_does_not_satisfy_detailed_balance():
    # Algorithm 1 as printed: b <- N, so the loop is skipped, and the branch for all data decides on m examples.
    delta, noise = np.linspace(-14.0, 14.0, 561), np.linspace(-10.0, 10.0, 4001)
    weight = np.exp(-(noise**2) / 2)
    accepted = expit(delta[:, None] + noise) @ weight / weight.sum()
    assert np.abs(accepted - expit(delta)).max() == pytest.approx(0.039, abs=5e-4)
    log_ratio = np.log(accepted / accepted[::-1])
    assert np.interp(3.0, delta, log_ratio) < 2.65


@pytest.mark.parametrize("rho", [1.01, 1.5, 2.0, 10.0])
@pytest.mark.parametrize(("c_0", "c_1"), [(C_0, C_1), (C_1, C_0)], ids=["the program's", "as printed"])
def test_the_printed_cut_off_is_the_stricter_one_wherever_algorithm_1_asks_it(rho, c_0, c_1):
    # It is a condition of a loop that runs while rho > 1; |Delta*| / rho - c_1 > c_0 there asks for a larger |Delta*|.
    delta = np.linspace(0.0, 300.0, 30_001)
    is_cut_off, is_cut_off_as_printed = delta > C_0 + C_1 * rho, np.maximum(delta / rho - c_1, 0.0) > c_0
    assert is_cut_off_as_printed.any()
    assert is_cut_off[is_cut_off_as_printed].all()
    assert is_cut_off.sum() > is_cut_off_as_printed.sum()


def test_the_chance_of_a_wrong_cut_off_is_that_of_either_noise_beyond_its_share():
    # Delta* > c_0 + c_1 rho, and yet Delta + X_log < 0: one of the two noises is larger than its share.
    bound = expit(-C_0) + ndtr(-C_1)
    assert bound == pytest.approx(4.6e-5, rel=0.01)
    x = np.linspace(-60.0, 60.0, 240_001)
    logistic = expit(x) * expit(-x) * (x[1] - x[0])
    for rho in (0.1, 1.0, 3.0):
        # P(X_log < -(c_0 + c_1 rho) - rho xi), at the edge of the cut-off.
        wrong = float(logistic @ ndtr(-(C_0 + C_1 * rho + x) / rho))
        assert wrong < bound


def solution(width_x=10.0, width_y=20.0, cells=400, penalty=1.0):
    """Points and solution of the ridge regression at rho = 1, negative elements set to 0.

    The grid is coarser than the paper's by ten, and the penalty smaller with it.
    """
    x, y = np.linspace(-width_x, width_x, 4 * cells + 1), np.linspace(-width_y, width_y, 2 * cells + 1)
    m = ndtr(x[:, None] - y)
    return y, np.maximum(np.linalg.solve(m.T @ m + penalty * np.eye(y.size), m.T @ expit(x)), 0.0)


def correction(*grids, **options):
    """Points and probabilities of that regression, made symmetric."""
    y, u = solution(*grids, **options)
    u = u + u[::-1]
    return y, u / u.sum()


def error_of(y, p):
    """Largest error of the acceptance probability."""
    delta = np.linspace(-14.0, 14.0, 561)
    return np.abs(ndtr(delta[:, None] + y) @ p - expit(delta)).max()


def test_cumulative_sum_and_interpolation_shift_the_correction_by_half_a_cell():
    y, p = correction()
    u = (np.arange(400_000) + 0.5) / 400_000
    assert ndtr(y) @ p == pytest.approx(0.5, abs=1e-12)
    at_0 = ndtr(np.interp(u, np.cumsum(p), y)).mean()
    # The slope of the logistic at 0 is 1/4. With the paper's cell of 0.005 this makes 0.0006.
    assert abs(at_0 - 0.5) == pytest.approx((y[1] - y[0]) / 2 / 4, rel=0.05)


def test_the_grids_of_the_correction_may_be_swapped_without_harm():
    assert error_of(*correction(20.0, 10.0)) == pytest.approx(error_of(*correction(10.0, 20.0)), rel=0.2)


@pytest.mark.slow
def test_either_strength_of_the_regularisation_is_as_good():
    # 10 is printed, 25 is the default of the authors' program; at the paper's grids, of which the table has one half.
    delta = np.linspace(-14.0, 14.0, 561)
    tables = (CorrectionTable(1.0, *_ridge(1.0, penalty=penalty)) for penalty in (10.0, 25.0))
    errors = [np.abs(table.acceptance(delta) - expit(delta)).max() for table in tables]
    assert errors == pytest.approx([6.0e-4, 6.7e-4], abs=1e-5)


def test_the_solution_of_the_regression_is_a_mass_and_not_a_cumulative_distribution():
    y, u = solution()
    assert u.sum() == pytest.approx(1.0, abs=0.02)
    assert np.abs(y) @ u < 3.0
    assert (np.diff(u) < 0).any()


def test_detailed_balance_as_printed_samples_the_untilted_distribution():
    rng = np.random.default_rng(0)
    untilted, loss, s = rng.dirichlet(np.ones(4)), rng.uniform(size=4), 3.0
    # Proposals that obey Eq. 7: Metropolis steps for the untilted distribution, to another state.
    proposal = np.minimum(1.0, untilted / untilted[:, None]) / 4
    np.fill_diagonal(proposal, 0.0)

    def stationary(accepted):
        chain = proposal * accepted
        chain += np.diag(1.0 - chain.sum(1))
        return np.linalg.matrix_power(chain, 10_000)[0]

    delta = -s * (loss - loss[:, None])
    tilted = untilted * np.exp(-s * loss) / (untilted * np.exp(-s * loss)).sum()
    # Eq. 6 and 7 as printed make A(b, a) / A(a, b) = 1.
    np.testing.assert_allclose(stationary(np.full((4, 4), 0.5)), untilted, rtol=1e-6)
    np.testing.assert_allclose(stationary(expit(delta)), tilted, rtol=1e-6)
    assert np.abs(tilted - untilted).max() > 0.05


def test_the_last_input_of_every_point_is_one():
    data = tj.datasets.perceptron()
    assert data.x.shape == (256, 2)
    np.testing.assert_array_equal(data.x[:, -1], 1.0)


@pytest.mark.parametrize("rho", [0.1, 0.5, 1.0])
def test_no_exact_correction_exists(rho):
    # Its characteristic function would be that of the logistic over that of the normal; a law has none above 1.
    t = np.geomspace(1e-3, 1e3 / rho**2, 1000)
    log_logistic = np.log(2 * np.pi * t) - np.pi * t - np.log1p(-np.exp(-2 * np.pi * t))
    assert (log_logistic + rho**2 * t**2 / 2).max() > 0.0


def test_a_flat_prior_has_a_direction_in_which_nothing_ends():
    # Adding one number to all output biases changes no probability: the density is constant along a line.
    model = tj.models.mlp((2, 4, 3), "tanh")
    theta = model.init(0)
    x, y = np.ones((3, 2), np.float32), np.arange(3)
    problem = model.problem(x, y)
    moved = theta.copy()
    moved[-3:] += 100.0
    np.testing.assert_allclose(problem.loss(moved, problem.data), problem.loss(theta, problem.data), rtol=1e-4)
