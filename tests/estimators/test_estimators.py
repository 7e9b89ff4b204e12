"""Estimators are those of scikit-learn, by its own checks, and compile once for all folds."""

import pickle
import subprocess
import sys

import jax
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import trajens as tj
from trajens.estimators import TrajectoryEnsembleClassifier, TrajectoryEnsembleRegressor
from trajens.estimators.base import LEAST, common_size, pad
from trajens.losses import Weighted, compiled_losses_of_pairs
from trajens.run.control import LIKELIHOODS
from trajens.run.search import HIGHEST, LOWEST
from trajens.run.train import FEW, usual_acceptance

SMALL = {"tau": 2, "chains": 2, "hidden_layer_sizes": (4,), "budget": 1e6, "random_state": 0}
"""A fit of well below a second, once it is compiled."""
SIZE = 83
NAMES = ["length", "width", "constant"]
COMPILED = "/jax/core/compile/backend_compile_duration"


def features(size=SIZE):
    """Two columns of quite different scales and one that does not vary."""
    rng = np.random.default_rng(3)
    x = np.stack([1e4 + 20 * rng.standard_normal(size), 0.01 * rng.standard_normal(size), np.full(size, 1e6)], axis=1)
    return pd.DataFrame(x, columns=NAMES)


X = features()
Z = ((X - X.mean()) / X.std()).to_numpy()[:, :2]
CLASSES = np.where(Z.sum(1) > 0.5, "large", np.where(Z[:, 0] < -0.5, "left", "other"))
NUMBERS = 1e6 + 1e3 * (Z[:, 0] - 0.5 * Z[:, 1]) + 200 * np.random.default_rng(4).standard_normal(SIZE)


@pytest.fixture(scope="module")
def classifier():
    """Fitted to a table with names and classes that are texts."""
    return TrajectoryEnsembleClassifier(**SMALL).fit(X, CLASSES)


@pytest.fixture(scope="module")
def regressor():
    """Fitted to numbers far from 0."""
    return TrajectoryEnsembleRegressor(**SMALL).fit(X, NUMBERS)


@pytest.fixture
def compilations():
    """Counts the programs that are compiled."""
    counted = []

    def listen(name, seconds, **_):
        if name == COMPILED:
            counted.append(seconds)

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield counted
    jax.monitoring.unregister_event_duration_listener(listen)


@pytest.mark.slow
@parametrize_with_checks([TrajectoryEnsembleClassifier(**SMALL)])
def test_every_check_of_scikit_learn_passes(estimator, check):
    check(estimator)


@pytest.mark.long
@parametrize_with_checks([TrajectoryEnsembleRegressor(**SMALL)])
def test_every_check_of_a_regressor_passes(estimator, check):
    check(estimator)


@pytest.mark.parametrize("size", [2, 63, 64, 65, 127, 128, 129, 1437, 1438, 60_000])
def test_common_sizes_are_at_most_an_eighth_larger(size):
    found = common_size(size)
    assert max(size, LEAST) <= found <= max(LEAST, size * 9 / 8)
    assert common_size(found) == found


def test_nearly_all_neighbouring_sizes_have_a_common_one():
    sizes = [common_size(size) for size in range(128, 4096)]
    assert len(set(sizes)) == 5 * 8 + 1


def test_padded_data_have_the_mean_loss_of_the_data():
    model = tj.models.mlp((2, 3, 3))
    problem = model.problem(Z.astype(np.float32), np.arange(SIZE) % 3)
    is_held_out = np.arange(SIZE) % 5 == 0
    theta = model.init(1)
    losses = np.asarray(jax.jit(problem.loss)(theta, problem.data))
    for found, expected in (
        (pad(problem), losses.mean()),
        (pad(problem, is_held_out), losses[~is_held_out].mean()),
    ):
        assert found.size == common_size(SIZE) > SIZE
        assert found.loss == Weighted(problem.loss)
        weighted = np.asarray(jax.jit(found.loss)(theta, found.data))
        assert weighted.mean() == pytest.approx(expected, rel=1e-5)
        given = np.stack([theta, 2 * theta])[None], np.arange(found.size)[None], np.ones(1, bool)
        pairs = np.asarray(compiled_losses_of_pairs(found.loss, found.data, *given))
        np.testing.assert_allclose(pairs[0, 0], weighted, rtol=1e-5, atol=1e-6)


def test_a_table_with_names_and_classes_of_texts(classifier):
    assert classifier.feature_names_in_.tolist() == NAMES
    assert classifier.classes_.tolist() == ["large", "left", "other"]
    said = classifier.predict_proba(X)
    np.testing.assert_allclose(said.sum(1), 1, rtol=1e-12)
    np.testing.assert_array_equal(classifier.predict(X), classifier.classes_[said.argmax(1)])
    assert classifier.score(X, CLASSES) > 0.7
    assert classifier.path_.shape == (2, 2, classifier.ensemble_.model.dim)
    assert classifier.n_draws_ > 1
    assert len(classifier.ensemble_.path) == 2 * classifier.n_draws_
    # s was searched for, and is that of all examples.
    assert LOWEST <= classifier.likelihoods_ <= HIGHEST
    assert classifier.s_ == pytest.approx(classifier.likelihoods_ * SIZE / 2)
    assert classifier.tilt_error_ == 0


def test_columns_that_do_not_vary_have_no_part(classifier):
    others = X.assign(constant=-5.0)
    assert (classifier.inputs(X)[:, 2] == 0).all()
    np.testing.assert_array_equal(classifier.predict_proba(X), classifier.predict_proba(others))


@pytest.mark.parametrize("unit", [1e200, 1e-200])
def test_inputs_in_any_unit_are_scaled(unit):
    x = np.random.default_rng(0).standard_normal((60, 2))
    y = (x[:, 0] > 0).astype(int)
    usual, scaled = (
        TrajectoryEnsembleClassifier(**SMALL).fit(one * x, y).predict_proba(one * x) for one in (1.0, unit)
    )
    np.testing.assert_allclose(scaled, usual, atol=1e-3)


@pytest.mark.parametrize("given", ["sparse", "weights"])
def test_sparse_inputs_and_weights_are_refused(given):
    x, y = np.eye(20), np.arange(20) % 2
    estimator = TrajectoryEnsembleClassifier(**SMALL)
    if given == "sparse":
        with pytest.raises(TypeError, match="toarray"):
            estimator.fit(scipy.sparse.csr_array(x), y)
    else:
        with pytest.raises(TypeError, match="sample_weight"):
            estimator.fit(x, y, sample_weight=np.ones(20))


def test_a_vote_is_the_class_of_most_models_and_leaves_probabilities_as_they_are(classifier):
    voting = pickle.loads(pickle.dumps(classifier)).set_params(decision="vote")
    members = voting.ensemble_.member_proba(voting.inputs(X)).argmax(-1)
    votes = (members[..., None] == np.arange(3)).sum(0)
    np.testing.assert_array_equal(voting.predict(X), voting.classes_[votes.argmax(1)])
    np.testing.assert_array_equal(voting.predict_proba(X), classifier.predict_proba(X))


def test_numbers_come_in_their_units_with_an_error_of_their_own(regressor):
    mean, std = regressor.predict(X, return_std=True)
    np.testing.assert_array_equal(mean, regressor.predict(X))
    assert regressor.score(X, NUMBERS) > 0.8
    _, spread = regressor.ensemble_.predict(regressor.inputs(X), return_std=True)
    np.testing.assert_allclose(std**2, spread**2 + regressor.noise_**2)
    assert 100 < regressor.noise_ < 600
    assert 0.5 < (np.abs(NUMBERS - mean) < std).mean() < 0.95


@pytest.mark.parametrize("name", ["classifier", "regressor"])
def test_what_is_fitted_can_be_pickled_and_cloned(name, request):
    fitted = request.getfixturevalue(name)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))
    assert clone(fitted).get_params() == fitted.get_params()
    assert not any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(vars(fitted)))


def test_folds_compile_nothing_after_the_first(classifier, regressor, compilations):
    jax.jit(lambda x: x + 1)(np.arange(7))
    assert len(compilations) == 1  # they are counted
    after = []

    def scored(estimator, x, y):
        score = estimator.score(x, y)
        after.append(len(compilations))
        return score

    more = features(103)
    grid = {"s": [3.0, 10.0]}
    # Folds of 82 and 83 rows are padded to 88, as those of the fixtures.
    first, *_, last = KFold(5).split(more)
    assert (len(first[0]), len(last[0])) == (82, 83)
    for fitted, y in ((classifier, np.resize(CLASSES, 103)), (regressor, np.resize(NUMBERS, 103))):
        GridSearchCV(clone(fitted), grid, scoring=scored, refit=False, cv=[first, last]).fit(more, y)
    assert len(after) == 2 * 2 * 2
    # The first of each has a start by evolution, which the fixtures, that were not told s, have not.
    assert len(set(after[:4])) == len(set(after[4:])) == 1
    assert after[-1] <= 7


def test_in_pipelines_and_what_calibrates_them(classifier):
    # Folds of the size that is compiled already.
    x, y = pd.concat([X, X[:20]]), np.resize(CLASSES, SIZE + 20)
    assert cross_val_score(make_pipeline(StandardScaler(), clone(classifier)), x, y).mean() > 0.6
    calibrated = CalibratedClassifierCV(clone(classifier)).fit(x, y)
    assert calibrated.predict_proba(X).shape == (SIZE, 3)
    assert calibrated.score(X, CLASSES) > 0.7


def test_an_s_is_searched_for_where_nothing_else_is_said_of_it(classifier, regressor):
    for fitted, y in ((classifier, CLASSES), (regressor, NUMBERS)):
        asked = clone(fitted).set_params(s=5.0).fit(X, y)
        assert asked.s_ == 5.0
        again = pickle.loads(pickle.dumps(fitted)).set_params(warm_start=True).fit(X, y)
        assert again.path_.shape == fitted.path_.shape
        # As many likelihoods as were found, of labels as noisy as it finds now.
        assert again.likelihoods_ == pytest.approx(fitted.likelihoods_, rel=1e-5 if y is CLASSES else 1.0)
    few = clone(classifier).fit(X[:20], CLASSES[:20])
    assert few.likelihoods_ == pytest.approx(LIKELIHOODS)


def test_the_same_random_state_gives_the_same_models(classifier):
    again = clone(classifier).fit(X, CLASSES)
    np.testing.assert_array_equal(again.path_, classifier.path_)
    other = clone(classifier).set_params(random_state=np.random.RandomState(5)).fit(X, CLASSES)
    assert (other.path_ != classifier.path_).any()


@pytest.mark.parametrize("name", ["classifier", "regressor"])
def test_a_warm_start_goes_on_from_the_path_of_before(name, request, monkeypatch):
    fitted = pickle.loads(pickle.dumps(request.getfixturevalue(name))).set_params(warm_start=True)
    before, scale, starts = fitted.path_, fitted.scale_, []
    run = type(fitted)._run

    def noted(self, problem, s, budget, start, seed):
        starts.append(start)
        return run(self, problem, s, budget, start, seed)

    monkeypatch.setattr(type(fitted), "_run", noted)
    fitted.fit(2 * X, CLASSES if name == "classifier" else NUMBERS)
    np.testing.assert_array_equal(starts[0], before)
    assert (fitted.path_ != before).any()
    np.testing.assert_array_equal(fitted.scale_, scale)
    with pytest.raises(ValueError, match="warm_start must go on with"):
        fitted.set_params(tau=3).fit(X, CLASSES if name == "classifier" else NUMBERS)


def test_a_network_of_ones_own(classifier):
    own = clone(classifier).set_params(hidden_layer_sizes=(99,))
    made = own.set_params(model=lambda inputs, outputs: tj.models.mlp((inputs, 4, outputs))).fit(X, CLASSES)
    np.testing.assert_array_equal(made.path_, classifier.path_)
    given = own.set_params(model=tj.models.mlp((3, 4, 3))).fit(X, CLASSES)
    np.testing.assert_array_equal(given.path_, classifier.path_)
    with pytest.raises(ValueError, match="model must have 3 outputs for these labels, got 2"):
        clone(classifier).set_params(model=tj.models.linear(3, 2)).fit(X, CLASSES)
    with pytest.raises(ValueError, match="without dim, outputs, apply, problem"):
        clone(classifier).set_params(model=lambda inputs, outputs: np.zeros((inputs, outputs))).fit(X, CLASSES)


@pytest.mark.parametrize(
    ("estimator", "y", "message"),
    [
        (TrajectoryEnsembleClassifier(), ["a"] * SIZE, "y must have 2 classes or more, got 1 class"),
        (TrajectoryEnsembleClassifier(decision="most"), CLASSES, "decision must be one of"),
        (TrajectoryEnsembleRegressor(), np.stack([NUMBERS, NUMBERS], axis=1), "y should be a 1d array"),
        (TrajectoryEnsembleRegressor(tau=0), NUMBERS, "tau must be a whole number"),
        (TrajectoryEnsembleRegressor(budget=10), NUMBERS, "budget must be"),
    ],
)
def test_what_cannot_be_fitted_is_refused(estimator, y, message):
    with pytest.raises(ValueError, match=message):
        estimator.fit(X, y)


def test_few_data_decide_all_together_and_many_by_minibatches():
    estimator = TrajectoryEnsembleClassifier(tolerance=0.03)
    for size, is_few in ((FEW, True), (FEW + 1, False)):
        problem = tj.models.linear(1, 2).problem(np.zeros((size, 1)), np.zeros(size, int))
        test = usual_acceptance(problem, 4, tolerance=estimator.tolerance)
        assert test.takes_all_data is is_few
        assert is_few or test.tolerance == 0.03


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import trajens; trajens.train; import sys; assert 'sklearn' not in sys.modules", ""),
        ("import sys; sys.modules['sklearn'] = None; import trajens.estimators", "install trajens[sklearn]"),
    ],
)
def test_scikit_learn_is_needed_by_the_estimators_alone(code, said):
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert said in result.stderr
    assert (result.returncode == 0) == (said == "")
