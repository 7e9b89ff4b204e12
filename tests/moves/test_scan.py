"""Where moves are made: lanes and sites of every scan against their formulas, and scans and moves of one's own."""

from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import trajens as tj
from tests.monte_carlo import assert_path_law
from trajens.moves import Proposal, Site
from trajens.moves.scan import num_lanes, site_of_lane
from trajens.randomness import Purpose, fold_in, key_of, normal, uniform, words

LONGEST = 40
KEYS = fold_in(key_of(3), jnp.arange(512))
SITE_WORDS = words(KEYS, Purpose.SITE, 1)[:, 0]
# One shape for all lengths of paths: operations are compiled once.
PHASE, LANE = np.indices((LONGEST + 1, LONGEST)).astype(np.int32)


def segments(tau):
    return [tj.Segment(length) for length in range(1, tau)]


@cache
def checkerboard(move, tau):
    """First, stop (phases, lanes) and whether there is one, of every lane there may be."""
    site, exists = site_of_lane(tj.Checkerboard(), move, key_of(0), jnp.asarray(PHASE), jnp.asarray(LANE), tau)
    assert int(site.kind) == 0
    first, stop, exists = (np.broadcast_to(np.asarray(leaf), PHASE.shape) for leaf in (site.first, site.stop, exists))
    return first, stop, exists


def random_sites(move, tau):
    """First and stop for every key at once: the words of all keys stand in for those of one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "trajens.moves.scan.words",
            lambda key, purpose, count: SITE_WORDS[None] if purpose is Purpose.SITE else None,
        )
        site, exists = site_of_lane(tj.RandomScan(), move, KEYS, jnp.int32(0), jnp.int32(0), tau)
    assert bool(exists)
    return (np.broadcast_to(np.asarray(leaf), SITE_WORDS.shape) for leaf in (site.first, site.stop))


def floor_of_words(bound):
    """A whole number below `bound` for every key, floor(word bound / 2^32)."""
    return (np.asarray(SITE_WORDS).astype(np.uint64) * np.uint64(bound) >> np.uint64(32)).astype(int)


def assert_sites(move, tau, lanes, start, stop, exists):
    got_first, got_stop, got_exists = checkerboard(move, tau)
    np.testing.assert_array_equal(got_exists, exists)
    np.testing.assert_array_equal(got_first[exists], start[exists])
    np.testing.assert_array_equal(got_stop[exists], stop[exists])
    assert num_lanes(tj.Checkerboard(), move, tau) == lanes == exists.sum(1).max()
    assert not exists[:, lanes:].any()


@pytest.mark.parametrize("tau", range(1, LONGEST))
def test_sites_of_single_models(tau):
    t = (PHASE % 2 if tau > 1 else 0) + 2 * LANE
    assert_sites(tj.SingleSite(), tau, (tau + 1) // 2, t, t + 1, t < tau)
    first, stop = random_sites(tj.SingleSite(), tau)
    np.testing.assert_array_equal(first, floor_of_words(tau))
    np.testing.assert_array_equal(stop, first + 1)


def test_random_sites_are_drawn_by_the_key_of_the_phase():
    for move, tau in ((tj.SingleSite(), 7), (tj.Segment(3), 9)):
        at = lambda key, move=move, tau=tau: site_of_lane(tj.RandomScan(), move, key, 0, jnp.int32(0), tau)[0]  # noqa: E731
        site = jax.jit(jax.vmap(at))(KEYS)
        for got, expected in zip((site.first, site.stop), random_sites(move, tau), strict=True):
            np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("tau", range(2, LONGEST))
def test_sites_of_segments(tau):
    for move in segments(tau):
        length = move.length
        start = 1 - length + PHASE % (length + 1) + (length + 1) * LANE
        lanes = -(-(tau - 1 + length) // (length + 1))
        assert_sites(move, tau, lanes, np.maximum(start, 0), np.minimum(start + length, tau), start < tau)
        first, stop = random_sites(move, tau)
        start = floor_of_words(tau + length - 1) + 1 - length
        np.testing.assert_array_equal(first, np.maximum(start, 0))
        np.testing.assert_array_equal(stop, np.minimum(start + length, tau))


@pytest.mark.parametrize("tau", range(1, LONGEST))
def test_the_site_of_a_shift_is_the_whole_path(tau):
    zero = np.zeros_like(PHASE)
    assert_sites(tj.CentreOfMass(0.1), tau, 1, zero, zero + tau, LANE == 0)
    first, stop = random_sites(tj.CentreOfMass(0.1), tau)
    assert (first == 0).all()
    assert (stop == tau).all()


@pytest.mark.parametrize("tau", range(1, LONGEST))
def test_sites_of_a_phase_are_apart_and_all_models_are_changed_equally_often_in_a_period(tau):
    for move in [tj.SingleSite(), *segments(tau)]:
        first, stop, exists = checkerboard(move, tau)
        changed = np.zeros(tau, int)
        for phase in range(move.period(tau)):
            sites = sorted(zip(first[phase][exists[phase]], stop[phase][exists[phase]], strict=True))
            assert all(0 <= a < b <= tau for a, b in sites)
            assert all(before[1] < after[0] for before, after in pairwise(sites))
            for a, b in sites:
                changed[a:b] += 1
        assert (changed == move.span(tau)).all()


@pytest.mark.parametrize("scan", [tj.RandomScan(), tj.Checkerboard()], ids=["random", "checkerboard"])
def test_a_mixture_has_the_sites_of_the_move_that_is_drawn(scan):
    tau, lanes = 7, np.arange(4)
    moves = [tj.SingleSite(), tj.Segment(3), tj.CentreOfMass(0.1)]
    mixture = tj.Mixture(list(zip((1.0, 2.0, 1.0), moves, strict=True)))
    assert num_lanes(scan, mixture, tau) == max(num_lanes(scan, move, tau) for move in moves)

    def sites(move):
        at = lambda key, phase, lane: site_of_lane(scan, move, key, phase, lane, tau)  # noqa: E731
        phases = jnp.arange(512)
        return jax.tree.map(np.asarray, jax.vmap(jax.vmap(at, (None, None, 0)), (0, 0, None))(KEYS, phases, lanes))

    (kind, first, stop), exists = sites(mixture)
    u = np.asarray(uniform(words(KEYS, Purpose.KIND, 1)[:, 0]))
    np.testing.assert_array_equal(kind, np.broadcast_to(np.digitize(u, [0.25, 0.75])[:, None], kind.shape))
    for number, move in enumerate(moves):
        (_, one_first, one_stop), one_exists = sites(move)
        is_here = kind == number
        assert is_here.any()
        np.testing.assert_array_equal(exists[is_here], one_exists[is_here])
        is_here &= exists
        np.testing.assert_array_equal(first[is_here], np.broadcast_to(one_first, first.shape)[is_here])
        np.testing.assert_array_equal(stop[is_here], np.broadcast_to(one_stop, stop.shape)[is_here])


@dataclass(frozen=True)
class Sweep(tj.Scan):
    """One model after the other."""

    def lanes(self, positions, period):
        return 1

    def place(self, key, phase, lane, positions, period):
        return phase % positions, lane == 0


@dataclass(frozen=True)
class Nudge(tj.Move):
    """A step of one model in any direction; what the untilted chain makes of it is in the ratio."""

    width: float

    def positions(self, tau):
        return tau

    def period(self, tau):
        return min(tau, 2)

    def site_at(self, i, tau):
        return i, i + 1

    def span(self, tau):
        return 1

    def propose(self, key, path, site, law):
        new = path[site.first] + self.width * normal(words(key, Purpose.NOISE, path.shape[1]))

        def energy(path):
            steps = jnp.sum(jnp.diff(path, axis=0) ** 2) / law.sigma**2
            return 0.5 * (steps + law.prior_precision * jnp.sum(path[0] ** 2))

        return Proposal(new[None], energy(path) - energy(path.at[site.first].set(new)))


DATA = tj.datasets.perceptron(size=16, noise=0.5)
TARGET = tj.Target(DATA.problem(), tau=3, sigma=0.5, s=4.0, prior=0.6)
FOREIGN = {"chains": 288, "seed": 2, "burn_in": 1200, "acceptance": tj.Metropolis()}


def test_a_scan_and_a_move_of_ones_own_sample_the_exact_law():
    run = tj.sample(TARGET, 2400, move=Nudge(0.5), scan=Sweep(), records=120, keep_paths=True, **FOREIGN)
    exact = tj.exact.perceptron(DATA.x, DATA.y, 3, 0.5, 4.0, 0.6)
    is_after = run.records["epoch"][0] > 1200
    assert_path_law(run.history[:, is_after], run.records["loss"][:, is_after], exact)


def test_a_scan_of_ones_own_is_followed():
    sampler = tj.Sampler(TARGET, tj.Settings(move=Nudge(0.5), scan=Sweep(), **FOREIGN))
    state = sampler.init(np.zeros(2))
    for epoch in range(7):
        before = np.asarray(state.path)
        state, tally = sampler.advance(state, 1)
        is_changed = (np.asarray(state.path) != before).any(2)
        others = np.arange(3) != epoch % 3
        assert is_changed[:, epoch % 3].sum() == tally.accepted.sum() > 0
        assert not is_changed[:, others].any()


def test_a_move_of_ones_own_works_on_a_checkerboard_too():
    site = Site(jnp.int32(0), jnp.int32(1), jnp.int32(2))
    proposal = Nudge(0.1).propose(key_of(0), jnp.zeros((3, 2)), site, TARGET.law)
    # Two bonds of the middle model, stretched from 0.
    expected = -float((proposal.models**2).sum()) / 0.5**2
    assert float(proposal.log_ratio) == pytest.approx(expected, rel=1e-5)
    assert num_lanes(tj.Checkerboard(), Nudge(0.1), 5) == 3
