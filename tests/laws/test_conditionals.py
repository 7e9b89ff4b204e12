"""Moves draw from the untilted conditional law, built here from the joint precision matrix."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import trajens as tj
from tests.evidence import ONE_STAGE
from tests.monte_carlo import assert_agrees
from trajens.moves import Site
from trajens.moves.scan import num_lanes, site_of_lane
from trajens.randomness import fold_in, key_of
from trajens.target import PathLaw

DRAWS = 2**16
SIGMA = 0.7


def chain_precision(tau, prior):
    """Precision matrix of one coordinate of the untilted path."""
    bonds = np.diff(np.eye(tau), axis=0)
    precision = bonds.T @ bonds / SIGMA**2
    if prior is not None:
        precision[0, 0] += prior**-2
    return precision


def conditional(precision, path, sites):
    """Mean (len(sites), dim) and covariance of the models at `sites` given all others."""
    others = np.setdiff1d(np.arange(len(precision)), sites)
    covariance = np.linalg.inv(precision[np.ix_(sites, sites)])
    return -covariance @ precision[np.ix_(sites, others)] @ path[others], covariance


def draw(move, path, site, prior, draws=DRAWS):
    """Independent proposals (draws, span, dim) for one site of one path."""
    [drawn] = draw_each([move], path, site, prior, draws)
    return drawn


def draw_each(moves, path, site, prior, draws):
    """The same of several moves, in one program."""
    law = PathLaw(jnp.float32(SIGMA), jnp.float32(0.0 if prior is None else prior**-2))
    return jax.tree.map(np.asarray, _proposals(tuple(moves), draws, path.astype(np.float32), site, law))


# The site, the path and its law are no part of what is compiled, so that cases share programs.
@partial(jax.jit, static_argnums=(0, 1))
def _proposals(moves, draws, path, site, law):
    keys = fold_in(key_of(5), jnp.arange(draws))
    return [jax.vmap(lambda key, move=move: move.propose(key, path, site, law))(keys) for move in moves]


def path_of(tau, dim=3):
    return np.random.default_rng(3).standard_normal((tau, dim)).astype(np.float32).astype(np.float64)


@pytest.mark.parametrize("prior", [None, 0.5], ids=["flat", "gaussian"])
@pytest.mark.parametrize("refresh", [1.0, 0.6])
@pytest.mark.parametrize(
    ("length", "first", "stop"),
    [(1, 0, 1), (1, 2, 3), (1, 4, 5), (3, 0, 3), (3, 1, 4), (3, 2, 5), (3, 0, 1), (3, 3, 5)],
)
def test_redrawn_models_follow_the_conditional_normal(length, first, stop, refresh, prior):
    tau = 5
    path = path_of(tau)
    sites = np.arange(first, stop)
    mean, covariance = conditional(chain_precision(tau, prior), path, sites)
    move = tj.SingleSite(refresh=refresh) if length == 1 else tj.Segment(length, refresh=refresh)
    site = Site(jnp.int32(0), jnp.int32(first), jnp.int32(stop))
    models = draw(move, path, site, prior).models[:, : len(sites)]
    kept = np.sqrt(1 - refresh**2)
    offset = models - (mean + kept * (path[sites] - mean))
    assert_agrees(offset, 0.0, "mean")
    products = np.einsum("njd,nkd->njkd", offset, offset)
    assert_agrees(products, refresh**2 * covariance[:, :, None], "covariance")


@pytest.mark.parametrize("refresh", [1.0, 0.6])
@pytest.mark.parametrize("prior", [0.4, 2.0])
def test_single_model_step_keeps_its_gaussian_prior(prior, refresh):
    law = PathLaw(jnp.float32(SIGMA), jnp.float32(prior**-2))
    keys = fold_in(key_of(6), jnp.arange(DRAWS))
    site = Site(jnp.int32(0), jnp.int32(0), jnp.int32(1))
    start = prior * np.random.default_rng(1).standard_normal((DRAWS, 1, 2))
    after = _steps(tj.SingleSite(refresh=refresh), keys, start.astype(np.float32), site, law)
    after = np.asarray(after, np.float64)
    assert_agrees(after, 0.0, "mean")
    assert_agrees(after**2, prior**2, "variance")
    # Reversible: the joint law of (before, after) is symmetric, so E[before^2 after] type moments agree.
    assert_agrees(start**2 * after - after**2 * start, 0.0, "reversibility")


@partial(jax.jit, static_argnums=0)
def _steps(move, keys, paths, site, law):
    return jax.vmap(lambda key, path: move.propose(key, path, site, law).models)(keys, paths)


def test_single_model_step_of_a_flat_prior_is_a_random_walk():
    site = Site(jnp.int32(0), jnp.int32(0), jnp.int32(1))
    path = path_of(1)
    models = draw(tj.SingleSite(refresh=0.5), path, site, None).models[:, 0]
    assert_agrees(models - path[0], 0.0, "mean")
    assert_agrees((models - path[0]) ** 2, (0.5 * SIGMA) ** 2, "variance")


FRACTIONS = 0.25, 0.5, 1.0


@pytest.mark.parametrize("dim", [2, 3, 10, 32, 33, 97])
@pytest.mark.parametrize("move", [tj.SingleSite, lambda fraction: tj.Segment(2, fraction)], ids=["single", "segment"])
def test_masks_change_exactly_the_asked_number_of_coordinates(move, dim):
    site = Site(jnp.int32(0), jnp.int32(1), jnp.int32(2))
    path = path_of(4, dim)
    for fraction, drawn in zip(FRACTIONS, draw_each(map(move, FRACTIONS), path, site, None, 512), strict=True):
        is_changed = drawn.models[:, 0] != path[1].astype(np.float32)
        assert (is_changed.sum(1) == max(1, round(fraction * dim))).all()


@pytest.mark.parametrize("dim", [5, 40])
def test_every_coordinate_and_pair_is_masked_equally_often(dim):
    site = Site(jnp.int32(0), jnp.int32(1), jnp.int32(2))
    path = path_of(3, dim)
    is_changed = (draw(tj.SingleSite(0.4), path, site, None).models[:, 0] != path[1].astype(np.float32)).astype(float)
    count = round(0.4 * dim)
    assert_agrees(is_changed, count / dim, "single")
    pairs = is_changed[:, :-1] * is_changed[:, 1:]
    assert_agrees(pairs, count * (count - 1) / (dim * (dim - 1)), "pair")


def test_segment_mask_is_the_same_for_all_its_models():
    site = Site(jnp.int32(0), jnp.int32(1), jnp.int32(4))
    path = path_of(5, 8)
    is_changed = draw(tj.Segment(3, 0.5), path, site, None, draws=256).models != path[1:4].astype(np.float32)
    assert (is_changed == is_changed[:, :1]).all()


@pytest.mark.parametrize("prior", [None, 0.5], ids=["flat", "gaussian"])
def test_centre_of_mass_shifts_all_models_and_weighs_the_prior(prior):
    site = Site(jnp.int32(0), jnp.int32(0), jnp.int32(5))
    path = path_of(5)
    proposal = draw(tj.CentreOfMass(0.3), path, site, prior)
    shift = proposal.models - path
    assert np.abs(shift - shift[:, :1]).max() < 1e-5
    assert_agrees(shift[:, 0], 0.0, "mean")
    assert_agrees(shift[:, 0] ** 2, 0.3**2, "variance")
    weight = 0.0 if prior is None else prior**-2
    expected = -0.5 * weight * ((proposal.models[:, 0] ** 2).sum(-1) - (path[0] ** 2).sum())
    np.testing.assert_allclose(proposal.log_ratio, expected, atol=2e-5, rtol=1e-4)


def flat_problem():
    return tj.datasets.perceptron(size=16).problem()


@pytest.mark.parametrize(
    ("scan", "test"),
    [
        ("random", tj.Metropolis()),
        ("checkerboard", tj.Metropolis()),
        pytest.param("checkerboard", tj.Penalty(8, **ONE_STAGE), marks=pytest.mark.slow),
        pytest.param("random", tj.Penalty(8, **ONE_STAGE), marks=pytest.mark.slow),
    ],
)
def test_without_tilt_everything_is_accepted_and_increments_are_normal(scan, test):
    target = tj.Target(flat_problem(), tau=6, sigma=SIGMA, s=0.0)
    run = tj.sample(
        target,
        2400,
        chains=512,
        burn_in=240,
        move=tj.SingleSite(),
        acceptance=test,
        scan=scan,
        initial=np.zeros((6, 2)),
        records=20,
        keep_paths=True,
    )
    assert run.summary()["acceptance"] == 1.0
    increments = np.diff(run.history[:, 2:], axis=2).mean(1)
    assert_agrees(increments, 0.0, "mean of increments")
    squares = (np.diff(run.history[:, 2:], axis=2) ** 2).mean(1)
    assert_agrees(squares, SIGMA**2, "variance of increments")


def test_sites_of_a_random_scan_reach_every_model_equally_often():
    keys = fold_in(key_of(9), jnp.arange(DRAWS))
    for move, tau in ((tj.SingleSite(), 7), (tj.Segment(3), 7)):
        site_of = lambda key, move=move, tau=tau: site_of_lane(tj.RandomScan(), move, key, 0, jnp.int32(0), tau)[0]  # noqa: E731
        site = jax.jit(jax.vmap(site_of))(keys)
        t = np.arange(tau)
        covers = (np.asarray(site.first)[:, None] <= t) & (t < np.asarray(site.stop)[:, None])
        share = 1 / tau if move.span(tau) == 1 else 3 / (tau + 2)
        assert_agrees(covers.astype(float), share, str(move))


@pytest.mark.parametrize("tau", [2, 3, 4, 5, 8, 9])
@pytest.mark.parametrize("length", [1, 2, 3])
def test_sites_of_a_phase_are_separated_and_cover_all_models_in_turn(length, tau):
    if length >= tau:
        length = 1
    move = tj.SingleSite() if length == 1 else tj.Segment(length)
    key = key_of(0)
    redrawn = np.zeros(tau, int)
    for phase in range(length + 1):
        owner = np.zeros(tau, int)
        for lane in range(num_lanes(tj.Checkerboard(), move, tau)):
            site, exists = site_of_lane(tj.Checkerboard(), move, key, jnp.int32(phase), jnp.int32(lane), tau)
            if exists:
                assert 0 <= site.first < site.stop <= tau
                owner[int(site.first) : int(site.stop)] += lane + 1
                redrawn[int(site.first) : int(site.stop)] += 1
        beside = (owner[1:] > 0) & (owner[:-1] > 0)
        assert (owner[1:][beside] == owner[:-1][beside]).all()
        assert (owner == 0).any()
    assert (redrawn == length).all()
