"""A network belongs to its run: a path is never used with another one, with or without the data of the training."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import trajens as tj
from tests.command import call
from trajens.app import cli
from trajens.convergence import Converged
from trajens.errors import InputError
from trajens.run.control import Budget, FixedEpochs
from trajens.run.identity import _inputs, describe, require_same
from trajens.run.until import UntilConverged
from trajens.storage import checkpoint

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 4)).astype(np.float32)
Y = RNG.integers(0, 3, 60)
SIZES = (4, 6, 3)
HOW = {"epochs": 40, "chains": 2, "records": 2, "burn_in": 20, "acceptance": tj.Metropolis()}


class Own:
    """The same network as one of the user's own, or nearly; it cannot be hashed."""

    __hash__ = None

    def __init__(self, activation=jax.nn.relu, scale=1.0, finish=jnp.asarray, sizes=SIZES):
        self._like, self._how = tj.models.mlp(sizes), (activation, scale, finish)
        self.dim, self.outputs = self._like.dim, sizes[-1]

    def apply(self, theta, x):
        activation, scale, finish = self._how
        (w1, b1), (w2, b2) = self._like.unpack(theta)
        return finish(scale * (activation(x.reshape(len(x), -1) @ w1 + b1) @ w2 + b2))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run in Python."""
    path = tmp_path_factory.mktemp("witness") / "run"
    target = tj.Target(tj.models.mlp(SIZES).problem(X, Y), 3, 0.2, 100.0)
    return tj.sample(target, out=path, **HOW), path


OTHERS = {
    "activation": lambda: tj.models.mlp(SIZES, "tanh"),
    "weights": lambda: tj.models.binary(tj.models.mlp(SIZES)),
    "own activation": lambda: Own(jnp.tanh),
    "larger": lambda: Own(scale=1.1),
    "swapped classes": lambda: Own(finish=lambda out: out[:, ::-1]),
    "as many parameters": lambda: tj.models.mlp((4, 3, 6, 1)),
    "fails": lambda: Own(finish=lambda out: out @ jnp.zeros((7, 7))),
    "function": lambda: tj.Ensemble.from_apply(Own(jnp.tanh).apply, np.zeros((1, Own().dim)), 3).model,
}


@pytest.mark.parametrize("name", OTHERS)
def test_another_network_is_refused(trained, name):
    run, path = trained
    model = OTHERS[name]()
    for make in (lambda: tj.Ensemble.load(path, model=model), lambda: tj.Ensemble.from_run(run, model)):
        with pytest.raises(InputError) as caught:
            make()
        assert "\n" not in str(caught.value)
        expected = {"as many parameters": "path must have shape", "fails": "must take inputs of shape (n, 4)"}
        assert expected.get(name, "whose outputs are others") in str(caught.value)


@pytest.mark.parametrize(
    "model",
    [
        tj.models.mlp(SIZES),
        Own(),
        # The same probabilities.
        Own(finish=jax.nn.log_softmax),
        # As computed elsewhere.
        Own(finish=lambda out: out.astype(jnp.bfloat16)),
        Own(scale=1.003),
    ],
)
def test_the_same_network_written_otherwise_is_taken(trained, model):
    run, path = trained
    expected = tj.Ensemble.load(path).predict(X)
    for ensemble in (tj.Ensemble.load(path, model=model), tj.Ensemble.from_run(run, model)):
        assert (ensemble.predict(X) == expected).mean() > 0.95


@pytest.mark.slow
def test_numbers_and_images_have_a_witness_too(tmp_path):
    line = tj.models.linear(4).problem(100 * X, X[:, 0], "squared")
    tj.sample(tj.Target(line, 2, 0.2, 10.0), out=tmp_path / "line", **HOW)
    tj.Ensemble.load(tmp_path / "line")
    own = Own(lambda h: h, 1.0, sizes=(4, 1))
    own.apply = lambda theta, x: 1.1 * tj.models.linear(4).apply(theta, x)
    with pytest.raises(InputError, match="whose outputs are others"):
        tj.Ensemble.load(tmp_path / "line", model=own)
    images = RNG.integers(0, 256, (40, 3, 3), dtype=np.uint8)
    pixels = tj.models.mlp((9, 4, 2))
    tj.sample(tj.Target(pixels.problem(images, Y[:40] % 2), 2, 0.2, 10.0), out=tmp_path / "pixels", **HOW)
    tj.Ensemble.load(tmp_path / "pixels", model=pixels)
    # Bytes that are not divided by 255.
    with pytest.raises(InputError, match="whose outputs are others"):
        tj.Ensemble.load(tmp_path / "pixels", model=Own(sizes=(9, 4, 2)))
    # Any of these takes flat inputs only.
    flat = Own(sizes=(9, 4, 2))
    flat.apply = lambda theta, x: pixels.apply(theta, x @ jnp.eye(9) / 255)
    tj.Ensemble.load(tmp_path / "pixels", model=flat)


def test_inputs_are_made_again_on_every_platform():
    assert _inputs((2,), 0.0)[0].tolist() == [163, 69]
    np.testing.assert_allclose(_inputs((2,), 2.0)[0], [0.948898, -1.594964], rtol=1e-5)


def test_a_loss_of_ones_own_and_runs_of_before_have_no_witness(trained, tmp_path):
    target = tj.Target(tj.Problem(lambda theta, batch: (batch - theta).sum(1) ** 2, X, 4), 2, 0.1, 2.0)
    run = tj.sample(target, out=tmp_path / "own", **HOW)
    linear = tj.models.mlp((3, 1))
    assert tj.Ensemble.load(tmp_path / "own", model=linear).path.shape == (4, 4)
    assert tj.Ensemble.from_run(run, linear).path.shape == (4, 4)
    _, path = trained
    (tmp_path / "before").mkdir()
    arrays = checkpoint.load(checkpoint.checkpoints(path)[0])
    kept = {name: values for name, values in arrays.items() if not name.startswith("witness")}
    checkpoint.save(tmp_path / "before", 40, kept)
    assert len(kept) < len(arrays)
    tj.Ensemble.load(tmp_path / "before", model=tj.models.mlp(SIZES, "tanh"))


def test_a_run_goes_on_with_its_network_only(tmp_path):
    """Losses of a fixed model are the same for both; outputs of the saved path are not."""

    class Clipped(tj.models.Mlp):
        def apply(self, theta, x):
            return jnp.clip(super().apply(theta, x), -4.0, 4.0)

    Clipped.__qualname__ = tj.models.Mlp.__qualname__

    def target(model):
        return tj.Target(model(SIZES, "relu").problem(X, Y), 3, 0.2, 100.0)

    large = {**HOW, "initial": np.full(tj.models.mlp(SIZES).dim, 3.0)}
    tj.sample(target(tj.models.Mlp), out=tmp_path / "run", **large)
    again = tj.RunDirectory(tmp_path / "run", resume=True)
    with pytest.raises(InputError, match="whose outputs are others"):
        tj.sample(target(Clipped), out=again, **large)
    assert tj.sample(target(tj.models.Mlp), out=again, **large).is_complete


@pytest.fixture(scope="module")
def command_line(tmp_path_factory):
    """A run of the command line and a file of inputs."""
    folder = tmp_path_factory.mktemp("line")
    np.savez(folder / "data.npz", x=X, y=Y)
    options = "--hidden 6 --tau 2 --epochs 40 --records 2 --chains 1 --acceptance metropolis"
    with pytest.raises(SystemExit) as exit_:
        cli.app(["train", str(folder / "data.npz"), *options.split(), "--out", str(folder / "run")])
    assert exit_.value.code == 0
    return folder


EDITS = {
    "activation": ('activation = "relu"', 'activation = "tanh"'),
    "sizes": ("sizes = [4, 6, 3]", "sizes = [4, 6, 4]"),
    "tau": ("tau = 2", "tau = 3"),
    "seed": ("seed = 0", "seed = 1"),
    "epochs": ("epochs = 40", "epochs = 400000000"),
    "problem": ('problem = "/', 'problem = "mnist/'),
    "reading": ('\\"is_standardised\\":false', '\\"is_standardised\\":true'),
}


@pytest.mark.parametrize("name", EDITS)
@pytest.mark.parametrize("command", ["evaluate", "predict", "resume"])
def test_an_option_that_was_changed_is_refused(capsys, command_line, command, name):
    config, data = command_line / "run" / "config.toml", str(command_line / "data.npz")
    right = config.read_text()
    assert EDITS[name][0] in right
    more = {"evaluate": [], "resume": [], "predict": [data, "--out", str(command_line / "p.csv"), "--overwrite"]}
    config.write_text(right.replace(*EDITS[name]))
    try:
        code, out, err = call(capsys, command, str(command_line / "run"), *more[command])
    finally:
        config.write_text(right)
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert f"must hold the options the run was begun with, got {name}" in err
    assert call(capsys, command, str(command_line / "run"), *more[command])[0] == 0


def test_what_does_not_matter_may_be_changed_and_a_lost_config_is_known(capsys, command_line, tmp_path):
    config, data = command_line / "run" / "config.toml", command_line / "data.npz"
    right = config.read_text()
    expected = call(capsys, "evaluate", str(command_line / "run"), "--json")[1]
    (tmp_path / "moved.npz").write_bytes(data.read_bytes())
    try:
        moved = right.replace(str(data), str(tmp_path / "moved.npz")).replace("seconds = 5.0", "seconds = 9.0")
        config.write_text("# moved\n" + moved)
        assert call(capsys, "evaluate", str(command_line / "run"), "--json")[:2] == (0, expected)
        config.unlink()
        assert call(capsys, "evaluate", str(command_line / "run"), "--json")[:2] == (0, expected)
    finally:
        config.write_text(right)


def test_what_an_earlier_version_did_not_know_of_a_controller_had_its_default(tmp_path):
    inner = FixedEpochs(20)
    for controller in (Budget(1e5, 20, 4, likely_size=300), UntilConverged(inner, Converged(), 100)):
        now = {"controller": json.loads(json.dumps(describe(controller))), "losses": [[1.0]]}
        before = {**now, "controller": dict(now["controller"])}
        for name in ("searched_on", "searching", "is_searched_before", "largest_variance"):
            before["controller"].pop(name, None)
        require_same(before, now, tmp_path)
        for changed in (
            ({"searched_on": 60}, {"pairs": 2e5}) if isinstance(controller, Budget) else ({"max_epochs": 9},)
        ):
            other = {**now, "controller": {**now["controller"], **changed}}
            with pytest.raises(tj.InputError, match="a run must be resumed with what it was begun with"):
                require_same(before, other, tmp_path)
