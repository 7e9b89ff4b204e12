"""A move of one layer changes that layer, and paces `tj.train` by what it renews of the model."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import trajens as tj
from trajens.moves import MoveContext, Site
from trajens.moves.scan import Checkerboard, site_of_lane
from trajens.randomness import fold_in, key_of
from trajens.run import loop
from trajens.run.train import training_setup
from trajens.sampling.tuning import initial_sizes, share_renewed
from trajens.target import PathLaw

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3)).astype(np.float32)
MODEL = tj.models.mlp([3, 10, 1])
PROBLEM = MODEL.problem(X, np.sin(X[:, 0]).astype(np.float32), "squared")
CONTEXT = MoveContext(4, 51, PROBLEM.layers)
MIXTURE = tj.Mixture(
    [(3.0, tj.LayerMove("dense1", tj.SingleSite(0.5))), (1.0, tj.LayerMove("dense2", tj.SingleSite(1.0)))]
)
SHARE = 0.75 * 20 / 51 + 0.25 * 11 / 51
"""Of 40 parameters of the first layer 20 are redrawn, of 11 of the second all."""


def test_models_know_the_slices_of_their_layers():
    assert PROBLEM.layers == {"dense1": slice(0, 40), "dense2": slice(40, 51)}
    cnn = tj.models.cnn()
    assert cnn.layer_sizes == {"conv1": 416, "conv2": 1160, "dense1": 330}
    theta = jnp.arange(51.0)
    for (weights, biases), place in zip(MODEL.unpack(theta), PROBLEM.layers.values(), strict=True):
        np.testing.assert_array_equal(np.concatenate([weights.ravel(), biases]), theta[place])


def changed_by(move, size=None):
    """Which parameters (draws, dim) proposals for the model at 1 of a path of 4 change."""
    path = jnp.asarray(RNG.normal(size=(4, 51)), jnp.float32)
    site, law = Site(jnp.int32(0), jnp.int32(1), jnp.int32(2)), PathLaw(jnp.float32(0.3), jnp.float32(0))
    propose = move.propose if size is None else lambda *given: move.propose_sized(*given, jnp.full(1, size))
    models = jax.jit(jax.vmap(lambda key: propose(key, path, site, law).models[0]))(fold_in(key_of(1), jnp.arange(64)))
    return np.asarray(models) != np.asarray(path[1])


@pytest.mark.parametrize(("layer", "place"), [("dense1", slice(0, 40)), (1, slice(40, 51)), (-1, slice(40, 51))])
def test_the_share_of_a_model_that_is_renewed_is_the_share_that_changes(layer, place):
    move = tj.LayerMove(layer, tj.SingleSite(0.5)).resolved(CONTEXT)
    is_changed = changed_by(move)
    assert is_changed[:, place].any(0).all()
    assert not np.delete(is_changed, np.r_[place], axis=1).any()
    assert is_changed.mean() == pytest.approx(move.renewed_share(None, 51), abs=0.5 / 51)


def test_a_tuned_size_is_the_share_of_a_layer_and_not_of_a_model():
    first, last = (tj.LayerMove(layer).resolved(CONTEXT) for layer in (0, 1))
    assert changed_by(first, 0.3).mean() == pytest.approx(first.renewed_share(0.3, 51)) == pytest.approx(12 / 51)
    # Few parameters are all changed, by less.
    assert changed_by(last, 0.3).mean() == pytest.approx(11 / 51)
    assert last.renewed_share(0.3, 51) == pytest.approx(0.09 * 11 / 51)
    both = tj.Mixture([(1.0, first), (1.0, last)])
    expected = 0.5 * (0.04 * 40 + 0.04**2 * 11) / 51
    assert share_renewed(initial_sizes(2, 2, 51, 0.04), both, 51) == pytest.approx(expected)


def test_a_balanced_mixture_makes_what_changes_less_more_often():
    layers = [(3.0, tj.LayerMove(0)), (1.0, tj.LayerMove(1)), (2.0, tj.SingleSite(0.5))]
    balanced = tj.BalancedMixture(layers).resolved(CONTEXT)
    # A move whose size is fixed has none that is tuned.
    size = jnp.array([0.25, 0.04, 0.01])
    expected = np.array([6.0, 5.0, 2.0]) / 13
    keys, phase = fold_in(key_of(2), jnp.arange(4096)), jnp.int32(0)
    found = jax.vmap(lambda key: site_of_lane(Checkerboard(), balanced, key, phase, jnp.int32(0), 4, size)[0].kind)
    share = np.bincount(found(keys), minlength=3) / 4096
    assert share == pytest.approx(expected, abs=6 * 0.5 / 64)
    sizes = initial_sizes(2, 3, 51)._replace(log_size=np.log(np.array([size, np.ones(3)])))
    of_kinds = np.array([[0.25 * 40, 0.04**2 * 11, 25.5], [40, 11, 25.5]]) / 51
    each = of_kinds[0] @ expected, of_kinds[1] @ [3 / 6, 1 / 6, 2 / 6]
    assert share_renewed(sizes, balanced, 51) == pytest.approx(np.mean(each), rel=1e-5)


def test_training_moves_layers_one_at_a_time_where_there_are_many_examples():
    inputs, labels = np.tile(X, (5, 1)), np.sin(np.tile(X[:, 0], 5)).astype(np.float32)
    many = tj.models.mlp([X.shape[1], 300, 1]).problem(inputs, labels, "squared")
    move = tj.BalancedMixture([(1.0, tj.LayerMove("dense1")), (1.0, tj.LayerMove("dense2"))])
    assert training_setup(many).settings.move == move
    assert training_setup(many, settings={"move": tj.SingleSite()}).settings.move == tj.SingleSite()
    assert training_setup(PROBLEM).settings.move == tj.SingleSite()
    assert training_setup(MODEL.problem(inputs, labels, "squared")).settings.move == tj.SingleSite()
    assert training_setup(tj.models.mlp([3, 1]).problem(*many.data, "squared")).settings.move == tj.SingleSite()


def test_training_paces_s_by_the_part_of_the_model_that_layers_renew(monkeypatch):
    told = []

    def record_info(**known):
        told.append(known)
        return RecordInfo(**known)

    RecordInfo = loop.RecordInfo
    monkeypatch.setattr(loop, "RecordInfo", record_info)
    # Without a search of its own, which would be told of too.
    problem, how = PROBLEM.hold_out(0.2), {"start": "random", "move": MIXTURE, "progress": False, "records": 8}
    run = tj.train(problem, tau=4, budget=1e5, chains=2, seed=1, **how)
    # Records have means over the epochs since the one before.
    accepted = run.records["acceptance"].mean(0) * np.diff(run.records["epoch"][0], prepend=0)
    renewals = np.array([known["renewals"] for known in told])
    assert len(renewals) == len(accepted) > 3
    is_sampled = accepted > 0
    np.testing.assert_allclose(renewals[is_sampled], SHARE * accepted[is_sampled] / 4, rtol=1e-5)


def test_layers_that_are_not_there_are_refused_in_a_sentence():
    for layer in ("dense3", 2):
        with pytest.raises(tj.InputError, match="layer must be one of dense1, dense2"):
            tj.sample(tj.Target(PROBLEM, 4, 0.1, 10.0), 10, move=tj.LayerMove(layer))
    plain = tj.datasets.perceptron().problem()
    with pytest.raises(tj.InputError, match="must know its layers"):
        tj.sample(tj.Target(plain, 4, 0.1, 10.0), 10, move=tj.LayerMove(0))
    with pytest.raises(tj.InputError, match="layers must have 2 parameters together, got 3"):
        tj.Problem(plain.loss, plain.data, 2, layers={"a": 1, "b": 2})
    with pytest.raises(tj.InputError, match="must be a single move"):
        tj.LayerMove(0, MIXTURE)
    with pytest.raises(tj.InputError, match="name or the number"):
        tj.LayerMove(0.5)
