"""The default test samples the law it is asked for within its tolerance, on data with heavy tails too.

Inputs and labels of the perceptrons are products of normal numbers or have Student's law with 4 degrees of freedom, so
that loss differences have tails that means of small batches do not lose. What is measured is ln of the excess loss,
whose error is about that of s.
"""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import trajens as tj
from tests.monte_carlo import Z, assert_path_law

TOLERANCE, ERRORS = 0.01, 3.5


def heavy(kind, dim, size, seed):
    """Data whose inputs and labels have heavy tails; inputs are scaled to a spread of 1."""
    rng = np.random.default_rng(seed)

    def draw(*shape):
        if kind == "student":
            return rng.standard_t(4, shape) / np.sqrt(2)
        return rng.standard_normal(shape) * rng.standard_normal(shape)

    x = draw(size, dim)
    x /= np.sqrt((x**2).mean(0))
    y = x @ rng.standard_normal(dim) + draw(size)
    return tj.datasets.PerceptronData(x.astype(np.float32), y.astype(np.float32))


def excess(data, test, tau, sigma, s, chains, epochs, burn_in, move=None, seed=1):
    """ln(measured / exact) of the excess loss, its standard error over chains, and the summary."""
    exact = tj.exact.perceptron(data.x, data.y, tau, sigma, s)
    rng = np.random.default_rng(seed)
    entries = exact.mean.size
    # Chains begin in the law itself, so that burn-in is there to plan only.
    root = np.linalg.cholesky(exact.covariance.reshape(entries, entries))
    initial = exact.mean + (rng.standard_normal((chains, entries)) @ root.T).reshape(chains, *exact.mean.shape)
    run = tj.sample(
        tj.Target(data.problem(), tau, sigma, s),
        epochs,
        chains=chains,
        seed=seed,
        burn_in=burn_in,
        acceptance=test,
        move=move,
        initial=initial.astype(np.float32),
        records=epochs // 20,
        keep_paths=True,
    )
    found = run.summary()
    ratio, error = (found["loss"] - exact.minimum) / exact.excess, found["loss_stderr"] / exact.excess
    return np.log(ratio), error / ratio, found, run, exact


# Kind of tails, parameters, examples, chunk, tau, sigma, s, epochs.
CASES = {
    "2 parameters": ("product", 2, 500, 16, 12, 0.15, 50.0, 1000),
    "4 parameters, few data": ("student", 4, 300, 25, 10, 0.15, 40.0, 900),
}


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=pytest.mark.slow if case == "2 parameters" else pytest.mark.long) for case in CASES],
)
def test_the_excess_loss_of_heavy_tailed_data_is_within_the_tolerance(case):
    kind, dim, size, chunk, tau, sigma, s, epochs = CASES[case]
    data = heavy(kind, dim, size, seed=len(case))
    bias, error, *_ = excess(data, tj.Penalty(chunk), tau, sigma, s, chains=1024, epochs=epochs, burn_in=300)
    assert error < 0.0028
    assert abs(bias) < TOLERANCE + ERRORS * error


@pytest.mark.slow
def test_the_plan_is_what_keeps_the_tolerance():
    # Without one the bias is over ten per cent, which a few chains see.
    kind, dim, size, chunk, tau, sigma, s, _ = CASES["4 parameters, few data"]
    data = heavy(kind, dim, size, seed=22)
    loose = tj.Penalty(chunk, rho=2.38, tolerance=None)
    for test, is_kept in ((tj.Penalty(chunk), True), (loose, False)):
        bias, error, *_ = excess(data, test, tau, sigma, s, chains=192, epochs=600, burn_in=300)
        assert error < 0.015
        assert bool(abs(bias) < TOLERANCE + ERRORS * error) is is_kept


def errors_of(theta, batch):
    """0-1 loss of a threshold (one parameter) or a line (two)."""
    line = batch.x[:, 0] * theta[0] + (batch.x[:, 1] * theta[1] if theta.shape[0] > 1 else 0.3)
    return ((line > 0) != (batch.y > 0)).astype(jnp.float32)


@pytest.mark.parametrize("dim", [pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.long)])
def test_the_law_of_a_0_1_loss_is_that_of_quadrature(dim):
    size, s, prior, chains = 300, 25.0, 1.5, 512
    rng = np.random.default_rng(dim)
    x = rng.standard_normal((size, 2)).astype(np.float32)
    y = np.sign(x @ [1.0, 0.5] + rng.standard_t(4, size)).astype(np.float32)
    problem = tj.Problem(errors_of, tj.datasets.PerceptronData(x, y), dim)
    run = tj.sample(
        tj.Target(problem, tau=1, sigma=1.0, s=s, prior=prior),
        1500,
        chains=chains,
        burn_in=700,
        records=75,
        keep_paths=True,
        move=tj.SingleSite(refresh=0.7),
        acceptance=tj.Penalty(16),
    )
    found = run.history[:, run.records["epoch"][0] > 700, 0]
    # The law on a grid, and cells of its first parameter with equal probability.
    axis = np.linspace(-7.0, 7.0, 4001 if dim == 1 else 401)
    grid = axis[:, None] if dim == 1 else np.stack(np.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2)
    constant = 0.3 if dim == 1 else grid[:, 1:] * x[:, 1]
    wrong = ((grid[:, :1] * x[:, 0] + constant > 0) != (y > 0)).mean(1)
    density = np.exp(-0.5 * (grid**2).sum(1) / prior**2 - s * wrong)
    first = density.reshape(len(axis), -1).sum(1)
    cumulative = np.concatenate([[0.0], np.cumsum(first)]) / first.sum()
    borders = np.append(axis - (axis[1] - axis[0]) / 2, axis[-1])
    edges = np.interp(np.linspace(0, 1, 11)[1:-1], cumulative, borders)
    expected = np.diff(np.concatenate([[0.0], np.interp(edges, borders, cumulative), [1.0]]))
    cells = np.searchsorted(edges, found[..., 0])
    frequencies = np.stack([(cells == cell).mean(1) for cell in range(10)], 1)
    # Chains are independent: their scatter is the covariance of the histogram, of which one cell follows from the rest.
    offset = (frequencies.mean(0) - expected)[:-1]
    covariance = np.cov(frequencies[:, :-1].T) / chains
    chi2 = offset @ np.linalg.solve(covariance, offset)
    assert np.sqrt(np.diag(covariance)).max() < 0.005
    assert chi2 < stats.chi2.isf(2 * stats.norm.sf(Z), 9)
    mean_loss = (density * wrong).sum() / density.sum()
    assert abs(run.summary()["loss"] - mean_loss) < Z * run.summary()["loss_stderr"]


@pytest.mark.long
def test_mixed_moves_sample_the_path_law():
    data = tj.datasets.perceptron(size=96, noise=0.5)
    moves = [(1.0, tj.SingleSite()), (1.0, tj.Segment(2)), (0.5, tj.CentreOfMass(0.1))]
    *_, run, exact = excess(
        data, tj.Penalty(16), 4, 0.2, 40.0, chains=384, epochs=900, burn_in=400, move=tj.Mixture(moves)
    )
    is_after = run.records["epoch"][0] > 400
    assert (run.records["tilt_weight"][:, run.records["epoch"][0] == 400] > 0).any()
    assert_path_law(run.history[:, is_after], run.records["loss"][:, is_after], exact, "mixed moves")
