"""Where the paper is wrong or unclear and no other test shows it; docs/theory/errata.md has them all."""

import numpy as np
import pytest
from scipy.special import expit, ndtr

import trajens as tj

C_0, C_1 = 10.0, 5.0


@pytest.mark.parametrize("rho", [0.1, 0.3])
def test_the_printed_cut_off_overrules_barker_where_the_noise_is_small(rho):
    # |Delta*| / rho - c_1 > c_0 decides by the sign from here on, where Barker still goes the other way often.
    printed, right = (C_0 + C_1) * rho, C_0 + C_1 * rho
    assert expit(-printed) > 0.01
    assert expit(-right) < expit(-C_0) < 4.6e-5


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


def correction(width_x=10.0, width_y=20.0, cells=400, penalty=1.0):
    """Points and probabilities of the ridge regression at rho = 1.

    The grid is coarser than the paper's by ten, and the penalty smaller with it.
    """
    x, y = np.linspace(-width_x, width_x, 4 * cells + 1), np.linspace(-width_y, width_y, 2 * cells + 1)
    m = ndtr(x[:, None] - y)
    u = np.maximum(np.linalg.solve(m.T @ m + penalty * np.eye(y.size), m.T @ expit(x)), 0.0)
    u += u[::-1]
    return y, u / u.sum()


def test_cumulative_sum_and_interpolation_shift_the_correction_by_half_a_cell():
    y, p = correction()
    u = (np.arange(400_000) + 0.5) / 400_000
    assert ndtr(y) @ p == pytest.approx(0.5, abs=1e-12)
    at_0 = ndtr(np.interp(u, np.cumsum(p), y)).mean()
    # The slope of the logistic at 0 is 1/4. With the paper's cell of 0.005 this makes 0.0006.
    assert abs(at_0 - 0.5) == pytest.approx((y[1] - y[0]) / 2 / 4, rel=0.05)


def test_the_grids_of_the_correction_may_be_swapped_without_harm():
    delta = np.linspace(-14.0, 14.0, 561)

    def error(y, p):
        return np.abs(ndtr(delta[:, None] + y) @ p - expit(delta)).max()

    assert error(*correction(20.0, 10.0)) == pytest.approx(error(*correction(10.0, 20.0)), rel=0.2)


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
