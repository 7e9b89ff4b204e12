"""Votes, means and scores of an ensemble, against their definitions."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import trajens as tj
from tests.command import call
from trajens.ensemble import Applied, chosen_chains, expected_calibration_error, scores, vote

RNG = np.random.default_rng(2)


def random_members(tau=5, n=40, classes=4):
    raw = RNG.gamma(0.5, size=(tau, n, classes))
    return raw / raw.sum(-1, keepdims=True), RNG.integers(0, classes, n)


def test_votes_go_to_the_majority_and_ties_to_the_smallest_label():
    choices = np.array([[2, 1, 3], [2, 3, 0], [0, 1, 3], [0, 3, 1]])
    np.testing.assert_array_equal(vote(np.eye(4)[choices]), [0, 1, 3])


def test_scores_are_their_definitions():
    members, y = random_members()
    got = scores(members, y)
    mean = members.mean(0)
    assert got["nll"] == pytest.approx(-np.mean([np.log(mean[i, k]) for i, k in enumerate(y)]))
    one_hot = np.eye(4)[y]
    assert got["brier"] == pytest.approx(np.mean(np.sum((mean - one_hot) ** 2, axis=1)))
    assert got["mean_accuracy"] == pytest.approx(np.mean(mean.argmax(1) == y))
    assert got["single_accuracy"] == pytest.approx(np.mean([np.mean(m.argmax(1) == y) for m in members]))
    pairs = [(a, b) for a in range(5) for b in range(5) if a != b]
    differ = [np.mean(members[a].argmax(1) != members[b].argmax(1)) for a, b in pairs]
    assert got["disagreement"] == pytest.approx(np.mean(differ))
    assert len(got["accuracy_by_members"]) == 5
    assert got["accuracy_by_members"][-1] == got["vote_accuracy"]


def test_calibration_error_vanishes_for_calibrated_predictions_and_not_for_sure_ones():
    n = 150_000
    confidence = RNG.uniform(0.5, 1.0, n)
    probabilities = np.stack([confidence, 1 - confidence], axis=1)
    y = (RNG.random(n) > confidence).astype(int)
    # 15 bins of 10 000: each |accuracy - confidence| is a half-normal of at most 0.005.
    assert expected_calibration_error(probabilities, y) < 0.01
    sure = np.eye(2)[np.zeros(n, int)]
    assert expected_calibration_error(sure, y) == pytest.approx(np.mean(y), abs=1e-9)


def test_chunks_do_not_change_predictions():
    model = tj.models.mlp((6, 3, 3))
    ensemble = tj.Ensemble(model, np.stack([model.init(seed) for seed in range(4)]))
    x = RNG.standard_normal((23, 6)).astype(np.float32)
    whole = ensemble.member_proba(x)
    assert whole.shape == (4, 23, 3)
    np.testing.assert_allclose(whole.sum(-1), 1.0, rtol=1e-5)
    np.testing.assert_allclose(ensemble.member_proba(x, chunk=5), whole, rtol=1e-5)
    np.testing.assert_allclose(ensemble.predict_proba(x), whole.mean(0), rtol=1e-6)
    np.testing.assert_array_equal(ensemble.predict(x), vote(whole))
    assert ensemble.member_proba(x[:0]).shape == (4, 0, 3)


def assert_same_scores(got, expected, rel=1e-4):
    assert list(got) == list(expected)
    for name in got:
        assert got[name] == pytest.approx(expected[name], rel=rel), name


def softmax(logits):
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def test_a_classifier_says_the_softmax_of_what_its_network_gives():
    model = tj.models.mlp((5, 4, 3), "tanh")
    path = np.stack([model.init(seed) for seed in range(3)])
    x, y = RNG.standard_normal((17, 5)).astype(np.float32), RNG.integers(0, 3, 17)
    w, b, v, c = path[:, :20].reshape(3, 5, 4), path[:, 20:24], path[:, 24:36].reshape(3, 4, 3), path[:, 36:]
    logits = np.stack([np.tanh(x @ w[t] + b[t]) @ v[t] + c[t] for t in range(3)])
    ensemble = tj.Ensemble(model, path)
    assert ensemble.is_classifier
    np.testing.assert_allclose(ensemble.member_outputs(x), logits, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(ensemble.member_proba(x), softmax(logits), rtol=1e-4)
    expected = scores(softmax(logits), y)
    assert_same_scores(ensemble.evaluate(x, y), expected)
    assert list(expected) == [
        "vote_accuracy",
        "mean_accuracy",
        "single_accuracy",
        "nll",
        "brier",
        "brier_reliability",
        "brier_resolution",
        "brier_uncertainty",
        "ece",
        "ece_equal_width",
        "mce",
        "entropy",
        "expected_entropy",
        "mutual_information",
        "disagreement",
        "aurc",
        "risk_at_90",
        "accuracy_by_members",
    ]


# Chains ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A run of three chains in a directory, and the model and the data it is of."""
    model = tj.models.linear(2, 3)
    x = RNG.standard_normal((60, 2)).astype(np.float32)
    y = (x[:, 0] > 0) + (x[:, 1] > 0).astype(int)
    out = tmp_path_factory.mktemp("chains") / "run"
    run = tj.sample(tj.Target(model.problem(x, y), 2, 0.1, 20.0), 60, chains=3, records=2, out=out)
    return run, model, x, y, out


def test_all_chains_are_the_members_of_one_ensemble(stored):
    run, model, x, y, out = stored
    members = np.concatenate([run.paths[0], run.paths[1], run.paths[2]])
    assert members.shape == (6, model.dim)
    for ensemble in (tj.Ensemble.load(out, chain="all"), tj.Ensemble.from_run(run, model, chain="all")):
        np.testing.assert_array_equal(ensemble.path, members)
        assert ensemble.evaluate(x, y) == tj.Ensemble(model, members).evaluate(x, y)
    for chain in (1, "1", np.int64(1)):
        np.testing.assert_array_equal(tj.Ensemble.load(out, chain).path, run.paths[1])
        np.testing.assert_array_equal(tj.Ensemble.from_run(run, model, chain).path, run.paths[1])


def test_chains_are_chosen_by_number_or_all_at_once():
    assert chosen_chains("all", 3).tolist() == [0, 1, 2]
    assert chosen_chains("2", 3).tolist() == chosen_chains(2, 3).tolist() == [2]
    for bad in ("All", "", "1.5", "one", "-1", "3", 3, -1, 0.5, True, np.array([0, 1])):
        with pytest.raises(tj.InputError, match=r"chain must be a whole number in 0\.\.2") as error:
            chosen_chains(bad, 3)
        assert str(error.value).count("\n") == 0
        assert "all" in str(error.value)


def test_all_chains_are_evaluated_and_drawn_from_the_command_line(stored, capsys, tmp_path, monkeypatch):
    run, _, x, y, out = stored
    np.savez(tmp_path / "data.npz", x=x, y=y)
    data = ["--data", str(tmp_path / "data.npz")]
    code, said, err = call(capsys, "evaluate", str(out), *data, "--chain", "all")
    assert (code, "6 models on 60 examples" in said) == (0, True), err
    drawn = {}
    monkeypatch.setattr("trajens.app.picture._draw_loss", lambda axes, curves, unit: drawn.update(curves))
    code, _, err = call(capsys, "picture", str(out), *data, "--chain", "all", "--out", str(tmp_path / "all.png"))
    assert code == 0, err
    np.testing.assert_allclose(drawn["loss"], sum(run.records["loss"]) / 3, rtol=1e-6)
    np.testing.assert_allclose(drawn["epoch"], run.records["epoch"][0])
    for command in (["evaluate", str(out), *data], ["picture", str(out), *data, "--out", str(tmp_path / "no.png")]):
        code, said, err = call(capsys, *command, "--chain", "both")
        assert (code, said, err.count("\n")) == (2, "", 1)
        assert "chain must be a whole number in 0..2, all or s=X, got 'both'" in err


# One file and several runs -----------------------------------------------------------------------------------------


def test_a_file_holds_all_there_is_to_an_ensemble(tmp_path, stored):
    _, _, x, y, out = stored
    ensemble = tj.Ensemble.load(out, chain="all")
    reading, _ = tj.datasets.learn(table(tmp_path))
    whole = tj.Ensemble(ensemble.model, ensemble.path, reading)
    again = tj.Ensemble.load(whole.save(tmp_path / "a.npz"))
    assert (again.model, again.reading, again.units) == (ensemble.model, reading, (0.0, 1.0))
    np.testing.assert_array_equal(again.path, ensemble.path)
    assert again.evaluate(x, y) == ensemble.evaluate(x, y)
    regressors = tj.Ensemble(tj.models.mlp((2, 3, 1), "tanh"), np.ones((2, 13))).rescaled(100.0, 2.0)
    back = tj.Ensemble.load(regressors.save(tmp_path / "b.npz"))
    assert (back.model.activation, back.units) == ("tanh", (100.0, 2.0))
    np.testing.assert_array_equal(back.predict(x), regressors.predict(x))
    binary = tj.Ensemble(tj.models.binary(ensemble.model), ensemble.path)
    assert tj.Ensemble.load(binary.save(tmp_path / "c.npz")).model == binary.model
    with np.load(tmp_path / "a.npz", allow_pickle=False) as plain:
        assert plain["path"].shape == (6, ensemble.model.dim)


def table(folder):
    file = folder / "table.csv"
    file.write_text("a,b,label\n1,2,no\n3,5,yes\n2,2,yes\n")
    return file


def test_a_file_is_never_replaced_nor_left_half_written(tmp_path, monkeypatch):
    ensemble = tj.Ensemble(tj.models.linear(2, 3), np.ones((1, 9)))
    file = ensemble.save(tmp_path / "a.npz")
    before = file.read_bytes()
    with pytest.raises(tj.InputError, match="must be a new one"):
        ensemble.save(file)
    assert ensemble.save(file, overwrite=True) == file

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("trajens.storage.checkpoint.np.savez", full)
    for target in (file, tmp_path / "b.npz"):
        with pytest.raises(tj.StorageError, match="free some space"):
            ensemble.save(target, overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.npz"]
    assert file.read_bytes() == before


def test_files_that_are_damaged_or_of_something_else_are_refused(tmp_path):
    file = tj.Ensemble(tj.models.linear(2, 3), np.ones((4, 9))).save(tmp_path / "a.npz")
    content = bytearray(file.read_bytes())
    for place in range(0, len(content), 97):
        damaged = content.copy()
        damaged[place] ^= 0xFF
        (tmp_path / "b.npz").write_bytes(damaged)
        try:
            # A byte that nothing is made of, as a time in the archive, may differ.
            np.testing.assert_array_equal(tj.Ensemble.load(tmp_path / "b.npz").path, np.ones((4, 9)))
        except tj.InputError as error:
            assert "b.npz' must be" in str(error)  # noqa: PT017
    (tmp_path / "b.npz").write_bytes(content[:200])
    np.savez(tmp_path / "c.npz", x=np.ones(3))
    for name in ("b.npz", "c.npz", "none.npz"):
        with pytest.raises(tj.InputError, match=rf"{name}' must be"):
            tj.Ensemble.load(tmp_path / name)


def test_a_model_that_is_not_that_of_the_file_is_refused(tmp_path):
    model = tj.models.mlp((2, 3, 2), "tanh")
    file = tj.Ensemble(model, np.stack([model.init(0), model.init(1)])).save(tmp_path / "a.npz")
    with pytest.raises(tj.InputError, match="outputs are others"):
        tj.Ensemble.load(file, model=tj.models.mlp((2, 3, 2), "relu"))
    assert tj.Ensemble.load(file, model=model).model == model


def test_a_file_of_pytrees_asks_for_its_model(tmp_path):
    models, x = [one_model(0), one_model(1)], RNG.standard_normal((5, 2)).astype(np.float32)
    ensemble = tj.Ensemble.from_apply(apply, models, 3)
    file = ensemble.save(tmp_path / "a.npz")
    with pytest.raises(tj.InputError, match=r"\['in'\]\['w'\] float32\[2, 4\]"):
        tj.Ensemble.load(file)
    again = tj.Ensemble.load(file, model=Applied.of(apply, 3, like=one_model(7)))
    np.testing.assert_array_equal(again.member_proba(x), ensemble.member_proba(x))
    other = {**one_model(0), "out": np.zeros((3, 4), np.float32)}
    with pytest.raises(tj.InputError, match="model must be the one of"):
        tj.Ensemble.load(file, model=Applied.of(apply, 3, like=other))


def test_members_come_in_the_form_of_the_model():
    models = [one_model(0), one_model(1)]
    for given, found in zip(models, tj.Ensemble.from_apply(apply, models, 3).members, strict=True):
        jax.tree.map(np.testing.assert_array_equal, given, found)
    model = tj.models.mlp((2, 4, 3))
    path = np.stack([model.init(0), model.init(1)])
    for theta, found in zip(path, tj.Ensemble(model, path).members, strict=True):
        np.testing.assert_array_equal(model.pack(found), theta)


def test_joined_ensembles_are_one(stored):
    run, _, x, y, out = stored
    joined = tj.Ensemble.join([tj.Ensemble.load(out, k) for k in range(3)])
    assert joined.evaluate(x, y) == tj.Ensemble.load(out, "all").evaluate(x, y)
    assert joined.evaluate(x, y) == tj.Ensemble.from_run(run, chain="all").evaluate(x, y)
    trees = [tj.Ensemble.from_apply(apply, [one_model(seed)], 3) for seed in (0, 1)]
    np.testing.assert_array_equal(
        tj.Ensemble.join(trees).member_proba(x),
        tj.Ensemble.from_apply(apply, [one_model(0), one_model(1)], 3).member_proba(x),
    )
    line = tj.Ensemble(tj.models.linear(2), np.zeros((1, 3)))
    for bad, words in (
        ([], "one or more"),
        ([joined, tj.Ensemble(tj.models.linear(3, 3), np.zeros((1, 12)))], "of one model"),
        ([line, line.rescaled(5.0, 2.0)], "read and scaled alike"),
        ([trees[0], tj.Ensemble.from_apply(lambda p, x: apply(p, x), [one_model(0)], 3)], "of one model"),
    ):
        with pytest.raises(tj.InputError, match=words):
            tj.Ensemble.join(bad)


def test_a_run_of_pytrees_makes_an_ensemble_of_its_function(stored):
    x = RNG.standard_normal((50, 2)).astype(np.float32)
    problem = tj.Problem.from_pytree(lambda params, batch: (apply(params, batch) ** 2).sum(1), x, one_model(0))
    run = tj.sample(tj.Target(problem, 3, 0.3, 2.0, 1.0), 4, chains=2, records=1)
    found = tj.Ensemble.from_run(run, apply=apply, outputs=3, chain="all")
    expected = [apply(params, x) for params in found.members]
    np.testing.assert_allclose(found.member_outputs(x), expected, rtol=1e-4, atol=1e-5)
    for more, words in (({}, "model must be given"), ({"apply": apply}, "outputs must be given")):
        with pytest.raises(tj.InputError, match=words):
            tj.Ensemble.from_run(run, **more)
    with pytest.raises(tj.InputError, match="not both"):
        tj.Ensemble.from_run(stored[0], stored[1], apply=apply, outputs=3)


def test_a_prediction_shows_how_far_it_is(monkeypatch, capsys):
    ensemble = tj.Ensemble(tj.models.linear(2, 3), np.ones((2, 9)))
    x = np.zeros((2500, 2), np.float32)
    monkeypatch.setattr("trajens.run.progress._LINE_SECONDS", -1.0)
    assert len(ensemble.predict(x, progress=True)) == 2500
    assert capsys.readouterr().err.split("\n")[-2] == "predicting  2,000 of 2,500"
    ensemble.predict(x)
    assert capsys.readouterr().err == ""


# Models of other libraries ----------------------------------------------------------------------------------------


def apply(params, x):
    return jnp.tanh(x @ params["in"]["w"] + params["in"]["b"]) @ params["out"]


def one_model(seed):
    rng = np.random.default_rng(seed)
    parts = {"w": rng.standard_normal((2, 4), np.float32), "b": rng.standard_normal(4, np.float32)}
    return {"in": parts, "out": rng.standard_normal((4, 3), np.float32)}


@pytest.mark.slow
def test_an_ensemble_of_a_problem_of_pytrees_is_that_of_its_models():
    x = RNG.standard_normal((50, 2)).astype(np.float32)
    y = RNG.integers(0, 3, 50)

    def loss(params, batch):
        log_p = jax.nn.log_softmax(apply(params, batch[0]))
        return -jnp.take_along_axis(log_p, batch[1][:, None], axis=1)[:, 0]

    problem = tj.Problem.from_pytree(loss, (x, y), one_model(0))
    run = tj.sample(tj.Target(problem, 3, 0.3, 20.0, 1.0), 40, chains=2, records=1)
    ensemble = tj.Ensemble.from_apply(apply, run.paths[1], 3, problem.unravel)
    models = [jax.tree.map(np.asarray, problem.unravel(theta)) for theta in run.paths[1]]
    probabilities = softmax(np.stack([np.asarray(apply(params, x)) for params in models]))
    np.testing.assert_allclose(ensemble.member_proba(x), probabilities, rtol=1e-4)
    assert_same_scores(ensemble.evaluate(x, y), scores(probabilities, y))
    np.testing.assert_array_equal(ensemble.predict(x), vote(probabilities))
    np.testing.assert_allclose(tj.Ensemble.from_apply(apply, models, 3).path, run.paths[1])


def test_parameters_are_those_that_were_given():
    models = [one_model(seed) for seed in range(3)]
    x = RNG.standard_normal((1203, 2)).astype(np.float32)
    ensemble = tj.Ensemble.from_apply(apply, models, outputs=3)
    expected = np.stack([np.asarray(apply(params, x)) for params in models])
    np.testing.assert_allclose(ensemble.member_outputs(x), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(ensemble.predict_proba(x), softmax(expected).mean(0), rtol=1e-4)


def test_parameters_of_another_precision_are_given_back_in_it():
    kinds = set()

    def multiply(params, x):
        kinds.add(params["w"].dtype)
        return x @ params["w"].astype(x.dtype)

    found = tj.Ensemble.from_apply(multiply, [{"w": jnp.full((2, 2), 1.5, jnp.bfloat16)}], 2)
    np.testing.assert_allclose(found.member_outputs(np.ones((1, 2))), np.full((1, 1, 2), 3.0))
    assert kinds == {jnp.dtype(jnp.bfloat16)}


@dataclass
class Scaled:
    """A model of one's own, which is not hashable."""

    factor: float
    dim: int = 2
    outputs: int = 2

    def apply(self, theta, x):
        return self.factor * x * theta


def test_any_object_with_outputs_and_apply_is_a_model():
    x, path = np.array([[1.0, 2.0], [3.0, -1.0]]), np.array([[1.0, 1.0], [-1.0, 2.0]])
    for factor in (1.0, 2.0):
        found = tj.Ensemble(Scaled(factor), path).member_outputs(x)
        np.testing.assert_allclose(found, factor * x * path[:, None])


def test_whole_numbers_reach_a_function_as_they_are():
    kinds = set()

    def count(theta, x):
        kinds.add(x.dtype)
        return x[:, 0, :2] * theta

    tj.Ensemble.from_apply(count, np.ones((1, 2)), 2).predict(np.ones((4, 3, 3), np.int32))
    assert kinds == {np.dtype(np.int32)}


def test_functions_that_do_not_fit_are_refused():
    models, x = [one_model(0), one_model(1)], np.zeros((4, 2), np.float32)
    with pytest.raises(tj.InputError, match=r"must return outputs of shape \(4, 2\).*got \(4, 3\)"):
        tj.Ensemble.from_apply(apply, models, 2).predict(x)
    with pytest.raises(tj.InputError, match="apply failed on parameters of size 24"):
        tj.Ensemble.from_apply(apply, models, 3).predict(np.zeros((4, 5)))
    with pytest.raises(tj.InputError, match="same shapes"):
        tj.Ensemble.from_apply(apply, [one_model(0), {**one_model(1), "out": np.zeros((4, 2))}], 3)
    with pytest.raises(tj.InputError, match="empty"):
        tj.Ensemble.from_apply(apply, [], 3)
    with pytest.raises(tj.InputError, match="unravel must be left out"):
        tj.Ensemble.from_apply(apply, models, 3, lambda theta: theta)
    with pytest.raises(tj.InputError, match="reshape"):
        tj.Ensemble.from_apply(apply, np.zeros((2, 3, 24)), 3)
    with pytest.raises(tj.InputError, match="outputs must be"):
        tj.Ensemble.from_apply(apply, models, 0)
    with pytest.raises(tj.InputError, match="apply must be a function"):
        tj.Ensemble.from_apply(models, models, 3)


def test_bad_input_is_refused():
    model = tj.models.mlp((6, 3))
    with pytest.raises(tj.InputError, match="tau, 21"):
        tj.Ensemble(model, np.zeros(model.dim))
    ensemble = tj.Ensemble(model, np.zeros((2, model.dim)))
    with pytest.raises(tj.InputError, match="shape"):
        ensemble.predict(np.zeros((4, 5)))
    with pytest.raises(tj.InputError, match="one label"):
        ensemble.evaluate(np.zeros((4, 6)), np.zeros(3, int))
