"""Closed forms: golden values, independent formulas, and thermodynamic identities."""

import numpy as np
import pytest
from scipy import integrate

import trajens as tj

H = np.array([0.05585784, 1.27847245])
GOLDEN = [
    (8, 20.0, 0.01107497, 3.185711e-3),
    (16, 100.0, 0.00332061, 3.410776e-4),
    (64, 50.0, 0.00468963, 3.437736e-3),
]


def data_with_eigenvalues(h):
    """Two examples per eigenvalue, on the axes, so that X'X / N = diag(h); noiseless labels."""
    x = np.diag(np.sqrt(len(h) * np.asarray(h)))
    return x, x @ np.array([0.7, -1.3])


@pytest.mark.parametrize(("tau", "s", "loss", "variance"), GOLDEN)
def test_golden_values(tau, s, loss, variance):
    exact = tj.exact.perceptron(*data_with_eigenvalues(H), tau=tau, sigma=0.1, s=s)
    assert exact.loss == pytest.approx(loss, abs=6e-9)
    assert exact.variance == pytest.approx(variance, rel=4e-7)


@pytest.mark.parametrize("tau", [1, 2, 7])
def test_flat_prior_agrees_with_the_sum_over_modes(tau):
    s, sigma = 30.0, 0.2
    kappa = 2 - 2 * np.cos(np.pi * np.arange(tau) / tau)
    mode = s * H[:, None] + kappa / sigma**2
    exact = tj.exact.perceptron(*data_with_eigenvalues(H), tau=tau, sigma=sigma, s=s)
    assert exact.loss * tau == pytest.approx(0.5 * (H[:, None] / mode).sum(), rel=1e-10)
    assert exact.variance == pytest.approx(0.5 * (H[:, None] ** 2 / mode**2).sum(), rel=1e-10)
    assert exact.log_z == pytest.approx(-0.5 * np.log(mode).sum(), rel=1e-10)


def noisy_data():
    data = tj.datasets.perceptron(seed=3, size=40, noise=0.5)
    return data.x, data.y


@pytest.mark.parametrize("prior", [None, 0.5], ids=["flat", "gaussian"])
def test_derivatives_of_log_z_are_loss_and_variance(prior):
    x, y = noisy_data()
    tau, sigma, s, step = 4, 0.3, 5.0, 1e-3
    at = [tj.exact.perceptron(x, y, tau, sigma, s + k * step, prior) for k in (-1, 0, 1)]
    assert -(at[2].log_z - at[0].log_z) / (2 * step) == pytest.approx(tau * at[1].loss, rel=1e-6)
    assert -tau * (at[2].loss - at[0].loss) / (2 * step) == pytest.approx(at[1].variance, rel=1e-5)


@pytest.mark.parametrize("prior", [None, 0.5], ids=["flat", "gaussian"])
def test_log_z_difference_is_the_integral_of_the_loss_over_s(prior):
    x, y = noisy_data()
    tau, sigma = 4, 0.3
    path_loss = lambda ln_s: np.exp(ln_s) * tau * tj.exact.perceptron(x, y, tau, sigma, np.exp(ln_s), prior).loss  # noqa: E731
    integral, _ = integrate.quad(path_loss, np.log(1.0), np.log(50.0), epsabs=1e-10)
    ends = [tj.exact.perceptron(x, y, tau, sigma, s, prior).log_z for s in (1.0, 50.0)]
    assert ends[0] - ends[1] == pytest.approx(integral, rel=1e-8)


def test_gaussian_prior_moves_the_mean_off_the_least_squares_solution():
    x, y = noisy_data()
    flat = tj.exact.perceptron(x, y, 3, 0.2, 10.0)
    tight = tj.exact.perceptron(x, y, 3, 0.2, 10.0, prior=0.01)
    assert np.linalg.norm(tight.mean[0]) < 0.1 * np.linalg.norm(flat.mean[0])
    wide = tj.exact.perceptron(x, y, 3, 0.2, 10.0, prior=1e4)
    np.testing.assert_allclose(wide.mean, flat.mean, rtol=1e-5)
    assert wide.loss == pytest.approx(flat.loss, rel=1e-5)


def test_exact_mean_loss_is_that_of_direct_sampling():
    x, y = noisy_data()
    exact = tj.exact.perceptron(x, y, 3, 0.2, 10.0, prior=0.5)
    rng = np.random.default_rng(0)
    size = exact.mean.size
    paths = rng.multivariate_normal(exact.mean.ravel(), exact.covariance.reshape(size, size), 200_000)
    losses = 0.5 * ((y - paths.reshape(-1, 3, 2) @ x.T) ** 2).mean(-1).sum(-1)
    assert abs(losses.mean() - 3 * exact.loss) < 6 * losses.std() / np.sqrt(len(losses))
    spread = (
        losses.var() * np.sqrt(((losses - losses.mean()) ** 4).mean() / losses.var() ** 2 - 1) / np.sqrt(len(losses))
    )
    assert abs(losses.var() - exact.variance) < 6 * spread


def test_bad_input_is_refused():
    x, y = noisy_data()
    for bad in ({"tau": 0}, {"sigma": 0.0}, {"s": 0.0}, {"prior": -1.0}):
        with pytest.raises(tj.InputError):
            tj.exact.perceptron(x, y, **({"tau": 2, "sigma": 0.1, "s": 1.0} | bad))
    with pytest.raises(tj.InputError, match="shape"):
        tj.exact.perceptron(x, y[:-1], 2, 0.1, 1.0)
