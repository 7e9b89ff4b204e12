"""Whole-path law: mean and covariance of every (t, d) entry against the exact Gaussian."""

import numpy as np
import pytest

import trajens as tj
from tests.monte_carlo import assert_agrees

TAU, SIGMA, S, DIM = 5, 0.5, 4.0, 3
MOVES = {
    "single site": tj.SingleSite(1.0),
    "single site, masked": tj.SingleSite(0.5),
    "single site, masked, partial refresh": tj.SingleSite(0.5, refresh=0.7),
    "segment": tj.Segment(2),
    "segment, masked, partial refresh": tj.Segment(3, fraction=0.5, refresh=0.7),
    "longest segment": tj.Segment(4),
    "centre of mass and single site": tj.Mixture([(1.0, tj.CentreOfMass(0.3)), (3.0, tj.SingleSite(1.0))]),
    "all moves": tj.Mixture(
        [(1.0, tj.CentreOfMass(0.3)), (1.0, tj.Segment(3)), (1.0, tj.Segment(2, fraction=0.5)), (1.0, tj.SingleSite())]
    ),
}


def perceptron(dim=DIM, size=16):
    """A small regression with correlated inputs and noisy labels."""
    rng = np.random.default_rng(7)
    x = rng.standard_normal((size, dim)) @ (np.eye(dim) + 0.4 * rng.standard_normal((dim, dim)))
    y = x @ rng.standard_normal(dim) + 0.5 * rng.standard_normal(size)
    return tj.datasets.PerceptronData(x.astype(np.float32), y.astype(np.float32))


def assert_path_law(data, tau, sigma, s, prior, epochs=3200, **settings):
    target = tj.Target(data.problem(), tau, sigma, s, prior)
    burn_in = epochs * 5 // 8
    run = tj.sample(
        target,
        epochs,
        chains=512,
        seed=11,
        burn_in=burn_in,
        initial=np.full(data.x.shape[1], 2.0),
        records=80,
        keep_paths=True,
        **settings,
    )
    exact = tj.exact.perceptron(data.x, data.y, tau, sigma, s, prior)
    history = run.history[:, run.records["epoch"][0] > burn_in].astype(np.float64)
    offset = (history - exact.mean).reshape(*history.shape[:2], -1)
    entries = offset.shape[-1]
    assert_agrees(offset.mean(1), 0.0, "mean")
    covariance = np.einsum("crj,crk->cjk", offset, offset) / offset.shape[1]
    upper = np.triu_indices(entries)
    assert_agrees(covariance[:, *upper], exact.covariance.reshape(entries, entries)[upper], "covariance")
    assert_agrees(run.records["loss"][:, run.records["epoch"][0] > burn_in].mean(1), exact.loss, "loss")
    return run


@pytest.mark.parametrize("scan", ["random", "checkerboard"])
@pytest.mark.parametrize("move", MOVES.values(), ids=MOVES.keys())
@pytest.mark.parametrize(
    ("test", "prior"),
    [(tj.Metropolis(), None), (tj.Metropolis(), 0.6), (tj.Barker(), None)],
    ids=["metropolis, flat", "metropolis, gaussian", "barker, flat"],
)
def test_path_law_is_the_exact_gaussian(test, prior, move, scan):
    assert_path_law(perceptron(), TAU, SIGMA, S, prior, move=move, test=test, scan=scan)


@pytest.mark.parametrize("prior", [None, 0.3, 5.0], ids=["flat", "narrow", "wide"])
@pytest.mark.parametrize("scan", ["random", "checkerboard"])
def test_single_model_path_law_is_the_exact_gaussian(scan, prior):
    assert_path_law(perceptron(), 1, SIGMA, S, prior, move=tj.SingleSite(0.5, 0.8), test=tj.Metropolis(), scan=scan)


def test_path_law_holds_when_a_phase_repeats_its_proposals():
    assert_path_law(
        perceptron(), 4, SIGMA, S, None, move=tj.SingleSite(), test=tj.Barker(), scan=tj.Checkerboard(repeats=3)
    )


def test_path_law_holds_when_data_come_in_unequal_chunks():
    assert_path_law(perceptron(), TAU, SIGMA, S, 0.6, move=tj.Segment(2), test=tj.Metropolis(chunk=7), scan="random")
