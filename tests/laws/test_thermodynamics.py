"""ln Z by integrating the sampled loss over s, against the closed form."""

import numpy as np
import pytest

import trajens as tj
from tests.evidence import ONE_STAGE
from tests.monte_carlo import Z, z_scores


@pytest.mark.parametrize(
    "prior",
    [
        pytest.param(None, id="flat", marks=pytest.mark.long),
        pytest.param(0.6, id="gaussian", marks=pytest.mark.long),
    ],
)
def test_log_z_by_thermodynamic_integration_is_the_closed_form(prior):
    data = tj.datasets.perceptron(seed=2, size=64, noise=0.2)
    tau, sigma, low, high = 4, 0.2, 2.0, 200.0
    nodes, weights = np.polynomial.legendre.leggauss(12)
    half = 0.5 * np.log(high / low)
    s = low * np.exp(half * (nodes + 1.0))
    per_node = 64
    target = tj.Target(data.problem(), tau, sigma, np.repeat(s, per_node), prior)
    move = tj.Mixture([(2.0, tj.SingleSite()), (1.0, tj.CentreOfMass(0.3)), (1.0, tj.CentreOfMass(0.06))])
    run = tj.sample(
        target,
        10_000,
        chains=len(s) * per_node,
        burn_in=4000,
        move=move,
        acceptance=tj.Penalty(16, rho=1.0, **ONE_STAGE),
        scan="random",
        records=120,
    )
    loss = run.records["loss"][:, run.records["epoch"][0] > 4000].mean(1).reshape(len(s), per_node)
    exact = [tj.exact.perceptron(data.x, data.y, tau, sigma, value, prior) for value in s]
    assert np.abs([z_scores(by_chain, e.loss) for by_chain, e in zip(loss, exact, strict=True)]).max() < Z

    # d ln Z = -<L> ds = -tau <L>/tau s d(ln s); the rule is exact to far below the Monte Carlo error.
    change = -half * np.sum(weights * s * tau * loss.mean(1))
    error = half * np.sqrt(np.sum((weights * s * tau) ** 2 * loss.var(axis=1, ddof=1) / per_node))
    ends = [tj.exact.perceptron(data.x, data.y, tau, sigma, value, prior).log_z for value in (low, high)]
    assert abs(change - (ends[1] - ends[0])) < Z * error


@pytest.mark.slow
def test_golden_loss_is_sampled():
    h = np.array([0.05585784, 1.27847245])
    x = np.tile(np.diag(np.sqrt(2 * h)), (8, 1)).astype(np.float32)
    y = (x @ np.array([0.4, -0.9])).astype(np.float32)
    target = tj.Target(tj.datasets.PerceptronData(x, y).problem(), tau=8, sigma=0.1, s=20.0)
    move = tj.Mixture([(4.0, tj.SingleSite()), (1.0, tj.CentreOfMass(0.4)), (1.0, tj.CentreOfMass(0.1))])
    run = tj.sample(
        target, 24_000, chains=512, burn_in=8000, move=move, acceptance=tj.Metropolis(), scan="random", records=180
    )
    loss = run.records["loss"][:, run.records["epoch"][0] > 8000]
    assert abs(z_scores(loss.mean(1), 0.01107497)) < Z
    # Var L from the fluctuations around the exact mean.
    assert abs(z_scores(((8 * (loss - 0.01107497)) ** 2).mean(1), 3.185711e-3)) < Z
