"""Moves tune their sizes in burn-in, each chain its own, and keep them after it."""

from dataclasses import dataclass
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import trajens as tj
from trajens.moves.base import FEW_PARAMETERS, Site, partially_refreshed
from trajens.randomness import key_of
from trajens.sampling.tuning import ACCEPTANCE, DECISIONS, Sizes, initial_sizes, mean_sizes, share_renewed

CHAINS, BURN_IN, EPOCHS = 4, 4000, 6000
FEW, MANY = 2, 40
FEW_DATA = tj.datasets.perceptron(noise=0.3)
_rng = np.random.default_rng(1)
MANY_X = _rng.standard_normal((64, MANY)).astype(np.float32)
MANY_Y = (MANY_X @ _rng.standard_normal(MANY) * 0.3).astype(np.float32)


def many_loss(theta, batch):
    return 0.5 * (batch[1] - batch[0] @ theta) ** 2


TARGETS = {
    "few": tj.Target(FEW_DATA.problem(), tau=5, sigma=0.3, s=np.array([150.0, 300.0, 600.0, 1200.0])),
    "many": tj.Target(
        tj.Problem(many_loss, (MANY_X, MANY_Y), MANY), tau=5, sigma=0.3, s=np.array([20.0, 40.0, 80.0, 160.0])
    ),
}
each = pytest.mark.parametrize("name", TARGETS)


def settings(**changes):
    return tj.Settings(**{"chains": CHAINS, "acceptance": tj.Metropolis(), "tune": True, "burn_in": BURN_IN} | changes)


@cache
def sampled(name):
    """A run from the best model, far from which other sizes are right."""
    x, y = (FEW_DATA.x, FEW_DATA.y) if name == "few" else (MANY_X, MANY_Y)
    best = np.linalg.lstsq(x, y, rcond=None)[0]
    given = {"acceptance": tj.Metropolis(), "tune": True, "initial": best, "records": 30, "chains": CHAINS}
    return tj.sample(TARGETS[name], EPOCHS, burn_in=BURN_IN, **given)


@each
def test_after_burn_in_a_third_is_accepted_in_every_chain(name):
    run = sampled(name)
    is_after = run.records["epoch"][0] > BURN_IN
    acceptance = run.records["acceptance"][:, is_after].mean(1)
    # A size that was last tuned on 64 decisions is off by as much as they were; the rest is the error of what follows.
    assert (np.abs(acceptance - ACCEPTANCE) < 0.08 + 3.5 * (0.25 * 3 / (EPOCHS - BURN_IN)) ** 0.5).all()


@each
def test_each_chain_has_a_size_of_its_own_smaller_where_s_is_larger(name):
    size = sampled(name).records["move_size"][:, -1]
    assert (np.diff(size) < 0).all()
    assert ((size > 0) & (size < 1)).all()


@each
def test_sizes_change_in_burn_in_and_never_after_it(name):
    records = sampled(name).records
    is_early = records["epoch"][0] <= BURN_IN
    size = records["move_size"]
    assert (np.diff(size[:, is_early]) != 0).any(1).all()
    assert (size[:, ~is_early] == size[:, is_early][:, -1:]).all()


@each
def test_sizes_do_not_depend_on_how_epochs_are_divided_into_calls(name):
    sampler = tj.Sampler(TARGETS[name], settings(burn_in=700))
    start = sampler.init()
    whole, _ = sampler.advance(start, 1000)
    parts = start
    # The first one ends amid a phase, when enough was decided.
    for epochs in (DECISIONS, 1, 127, 335, 173, 300):
        parts, _ = sampler.advance(parts, epochs)
    assert parts.epoch == whole.epoch == 1000
    assert (whole.sizes.log_size != start.sizes.log_size).all()
    jax.tree.map(np.testing.assert_array_equal, whole, parts)


def test_a_run_that_goes_on_is_the_run_that_was_asked_for_at_once():
    run = tj.sample(TARGETS["few"], 1000, chains=CHAINS, acceptance=tj.Metropolis(), tune=True, burn_in=700, records=10)
    parts = tj.sample(
        TARGETS["few"], 800, chains=CHAINS, acceptance=tj.Metropolis(), tune=True, burn_in=700, records=8
    ).extend(200)
    np.testing.assert_array_equal(run.paths, parts.paths)
    np.testing.assert_array_equal(run.records["move_size"], parts.records["move_size"])


@pytest.mark.parametrize("move", [tj.SingleSite(0.5), tj.SingleSite(refresh=0.7), tj.Segment(2, fraction=1.0)])
def test_a_size_that_was_given_is_left_alone(move):
    assert not move.is_sized
    program = settings(move=move).checked(TARGETS["few"]).program(TARGETS["few"])
    assert not program.is_tuned
    assert tj.Sampler(TARGETS["few"], settings(move=move)).init().sizes == ()


def test_of_a_mixture_only_what_nobody_has_fixed_is_tuned():
    fixed, free = tj.SingleSite(refresh=0.5), tj.SingleSite()
    mixture = tj.Mixture([(1.0, fixed), (1.0, free)])
    assert mixture.is_sized
    law, path = TARGETS["few"].law, jnp.zeros((4, FEW))

    @jax.jit
    def proposed(kind, size):
        site = Site(kind, jnp.int32(1), jnp.int32(2))
        return mixture.propose_sized(key_of(np.uint32(0)), path, site, law, size).models

    small, large, second = np.float32([[0.1, 0.1], [0.9, 0.9], [0.1, 0.9]])
    np.testing.assert_array_equal(proposed(0, small), proposed(0, large))
    np.testing.assert_array_equal(proposed(1, second), proposed(1, large))
    assert (np.abs(proposed(1, small)) < np.abs(proposed(1, large))).all()


def test_a_run_whose_moves_are_tuned_is_not_resumed_without(tmp_path):
    given = {"chains": CHAINS, "acceptance": tj.Metropolis(), "burn_in": 20, "records": 2}
    tj.sample(TARGETS["few"], 40, tune=True, out=tmp_path / "a", **given)
    with pytest.raises(tj.InputError, match="begun with tune True"):
        tj.sample(TARGETS["few"], 60, out=tj.RunDirectory(tmp_path / "a", resume=True), **given)


def test_without_burn_in_nothing_is_tuned():
    sampler = tj.Sampler(TARGETS["few"], settings(burn_in=0))
    start = sampler.init()
    state, _ = sampler.advance(start, 1000)
    np.testing.assert_array_equal(state.sizes.log_size, start.sizes.log_size)


def test_a_size_grows_by_what_is_accepted_above_the_target_and_counts_from_nothing_again():
    sizes = Sizes(jnp.log(jnp.full((2, 2), 0.1)), jnp.zeros((2, 2), jnp.int32), jnp.zeros((2, 2), jnp.int32))
    kind = jnp.array([[0, 0, 1], [1, 1, 1]])
    is_decided, is_accepted = (
        jnp.array([[True, True, False], [True, True, True]]),
        jnp.array([[True, False, False]] * 2),
    )
    counted = sizes.plus(kind, is_decided, is_accepted)
    np.testing.assert_array_equal(counted.decided, [[2, 0], [0, 3]])
    np.testing.assert_array_equal(counted.accepted, [[1, 0], [0, 1]])
    tune = jax.jit(lambda sizes, may_tune: sizes.tuned(may_tune, FEW))
    full = counted._replace(decided=np.full((2, 2), DECISIONS), accepted=np.array([[DECISIONS, 0], [32, 32]]))
    tuned = tune(full, np.array([True, False]))
    assert tuned.log_size[0] == pytest.approx(np.log(0.1) + np.array([1 - ACCEPTANCE, -ACCEPTANCE]))
    np.testing.assert_array_equal(tuned.log_size[1], full.log_size[1])
    np.testing.assert_array_equal(tuned.decided, [[0, 0], [DECISIONS, DECISIONS]])
    few = tune(counted, np.array([True, True]))
    jax.tree.map(np.testing.assert_array_equal, few, counted)


def test_sizes_stay_between_one_parameter_and_all():
    full = lambda accepted: Sizes(jnp.zeros((1, 1)), jnp.full((1, 1), 100), jnp.full((1, 1), accepted))  # noqa: E731
    may = jnp.array([True])
    assert full(100).tuned(may, MANY).size[0, 0] == 1.0
    least = full(0)._replace(log_size=jnp.full((1, 1), -20.0))
    assert least.tuned(may, 10_000).size[0, 0] == pytest.approx(1e-4, rel=1e-5)
    assert least.tuned(may, FEW).size[0, 0] == pytest.approx(1e-3, rel=1e-5)


@pytest.mark.parametrize("dim", [FEW, FEW_PARAMETERS, FEW_PARAMETERS + 1, 10_000])
def test_a_share_of_a_model_becomes_a_size_that_moves_it(dim):
    sizes = initial_sizes(3, 2, dim, 0.03)
    assert sizes.log_size.shape == (3, 2)
    assert share_renewed(sizes, tj.SingleSite(), dim) == pytest.approx(0.03)
    # A move that is not tuned says itself what it does.
    assert share_renewed(sizes, tj.SingleSite(0.5, 0.5), dim) == pytest.approx(0.125)
    assert share_renewed((), tj.CentreOfMass(0.1), dim) == 1.0


def test_a_tuned_refresh_keeps_the_variance_it_redraws():
    one, none = jnp.float32(1), jnp.float32(0)
    size = jnp.exp(jnp.linspace(-np.log(1000.0), 0.0, 1000))
    kept, drawn = (
        np.asarray(jax.jit(partially_refreshed)(old, none, noise, size), np.float64)
        for old, noise in ((one, none), (none, one))
    )
    # The variance that steps x' = kept x + drawn xi have for ever.
    assert drawn**2 / (1 - kept**2) == pytest.approx(1.0, rel=1e-5)
    assert drawn == pytest.approx(np.asarray(size), rel=0.05)


def test_kinds_of_moves_that_are_not_tuned_have_their_own_part_in_a_mixture():
    sizes = initial_sizes(3, 2, 100, 0.04)
    mixture = tj.Mixture([(3.0, tj.SingleSite()), (1.0, tj.SingleSite(0.5))])
    assert share_renewed(sizes, mixture, 100) == pytest.approx(0.75 * 0.04 + 0.25 * 0.5)
    np.testing.assert_allclose(mean_sizes(sizes, mixture, 3), 0.04, rtol=1e-6)
    assert np.isnan(mean_sizes((), mixture, 3)).all()
    assert np.isnan(mean_sizes(sizes, tj.CentreOfMass(0.1), 3)).all()


@dataclass(frozen=True)
class OneParameter(tj.Move):
    """A move of a user's own, which says how little it changes."""

    def propose(self, key, path, site, law):
        raise NotImplementedError

    def renewed_share(self, size, dim):
        return 1 / dim


def test_a_move_of_ones_own_says_how_much_of_a_model_it_renews():
    assert share_renewed((), OneParameter(), 50) == 1 / 50
    both = tj.Mixture([(1.0, OneParameter()), (3.0, tj.SingleSite(0.5))])
    assert share_renewed((), both, 50) == pytest.approx(0.25 / 50 + 0.75 * 0.5)
    assert share_renewed((), tj.CentreOfMass(0.1), 50) == 1.0
