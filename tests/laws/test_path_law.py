"""Whole-path law: mean and covariance of every (t, d) entry against the exact Gaussian."""

import numpy as np
import pytest

import trajens as tj
from tests.monte_carlo import assert_path_law

TAU, SIGMA, S, DIM = 5, 0.5, 4.0, 3
CHAINS = 288
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


def check(data, tau, sigma, s, prior, epochs=3200, problem=None, **settings):
    target = tj.Target(problem or data.problem(), tau, sigma, s, prior)
    burn_in = epochs * 5 // 8
    run = tj.sample(
        target,
        epochs,
        chains=CHAINS,
        seed=11,
        burn_in=burn_in,
        initial=np.full(data.x.shape[1], 2.0),
        records=80,
        keep_paths=True,
        **settings,
    )
    exact = tj.exact.perceptron(data.x, data.y, tau, sigma, s, prior)
    is_after = run.records["epoch"][0] > burn_in
    assert_path_law(run.history[:, is_after], run.records["loss"][:, is_after], exact, f"with prior {prior}")


BOTH_SCANS = ("random", "checkerboard")
# What takes long to compile, or is the case of another with one thing left out.
LONGEST = [(move, scan) for move in ("all moves", "longest segment", "single site, masked") for scan in BOTH_SCANS]
LONGEST += [(move, "random") for move in MOVES if "partial refresh" in move]
LONGEST += [(move, scan) for move in ("centre of mass and single site", "segment") for scan in BOTH_SCANS]
LONGEST += [("segment, masked, partial refresh", "checkerboard")]
# Barker differs from Metropolis in one line, so that some moves will do.
QUICK = [(tj.Metropolis(), move, scan) for move in MOVES for scan in BOTH_SCANS if (move, scan) not in LONGEST] + [
    (tj.Barker(), "single site, masked", "checkerboard"),
    (tj.Barker(), "segment", "random"),
]
EVERY = [(test, move, scan) for test in (tj.Metropolis(), tj.Barker()) for move in MOVES for scan in BOTH_SCANS]
# All moves at once have every part of the others; Barker's test has nothing of its own but for that line.
SOON = [(tj.Metropolis(), "all moves", scan) for scan in BOTH_SCANS]
SOON += [(tj.Metropolis(), "segment, masked, partial refresh", "random"), (tj.Metropolis(), "segment", "random")]
SLOW = [
    pytest.param(*case, marks=pytest.mark.slow if case in SOON else pytest.mark.long)
    for case in EVERY
    if case not in QUICK
]


# Priors are no part of what is compiled: both in one test, which compiles once.
@pytest.mark.parametrize(("test", "move", "scan"), [*QUICK, *SLOW])
def test_path_law_is_the_exact_gaussian(test, move, scan):
    for prior in (None,) if isinstance(test, tj.Barker) else (None, 0.6):
        check(perceptron(), TAU, SIGMA, S, prior, move=MOVES[move], acceptance=test, scan=scan)


@pytest.mark.parametrize("scan", ["random", pytest.param("checkerboard", marks=pytest.mark.slow)])
def test_single_model_path_law_is_the_exact_gaussian(scan):
    move = tj.SingleSite(0.5, 0.8)
    for prior in (None, 0.3, 5.0):
        check(perceptron(), 1, SIGMA, S, prior, move=move, acceptance=tj.Metropolis(), scan=scan)


@pytest.mark.slow
def test_path_law_holds_when_a_phase_repeats_its_proposals():
    scan = tj.Checkerboard(repeats=3)
    check(perceptron(), 4, SIGMA, S, None, move=tj.SingleSite(), acceptance=tj.Barker(), scan=scan)


@pytest.mark.slow
def test_path_law_holds_when_data_come_in_unequal_chunks():
    test = tj.Metropolis(chunk=7)
    check(perceptron(), TAU, SIGMA, S, 0.6, move=tj.Segment(2), acceptance=test, scan="random")


@pytest.mark.parametrize("scan", BOTH_SCANS)
def test_moves_of_single_layers_sample_the_path_law(scan):
    data = perceptron()
    known = data.problem()
    problem = tj.Problem(known.loss, known.data, DIM, layers={"first": 1, "rest": 2})
    moves = [(1.0, tj.LayerMove("first")), (1.0, tj.LayerMove(-1)), (1.0, tj.LayerMove("rest", tj.Segment(2)))]
    check(data, TAU, SIGMA, S, 0.6, problem=problem, move=tj.Mixture(moves), acceptance=tj.Metropolis(), scan=scan)
