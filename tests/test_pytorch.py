"""Networks of PyTorch: the losses and outputs are the module's own, and models go back into it."""

import sys

import numpy as np
import pytest

import trajens as tj

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 3)).astype(np.float32)
Y = (X[:, 0] * X[:, 1] > 0).astype(np.int64)


@pytest.fixture(scope="module")
def torch():
    found = pytest.importorskip("torch")
    found.manual_seed(0)
    return found


def network(torch, *after, outputs=2):
    return torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Tanh(), *after, torch.nn.Linear(5, outputs))


def image_network(torch):
    """Convolutions, batch normalisation with running statistics of its own, dropout."""
    net = torch.nn.Sequential(
        torch.nn.Conv2d(1, 3, 3),
        torch.nn.BatchNorm2d(3),
        torch.nn.ReLU(),
        torch.nn.Dropout(0.5),
        torch.nn.Flatten(),
        torch.nn.Linear(3 * 4 * 4, 2),
    )
    net(torch.randn(50, 1, 6, 6))
    return net


def losses_of(torch, problem, net, thetas, x, y, loss):
    """Losses (k, m) by loading the parameters into the module."""
    found = []
    for state in tj.Ensemble(problem.network, thetas).state_dicts():
        net.load_state_dict(state)
        with torch.no_grad():
            found.append(loss(net.eval()(torch.from_numpy(x)), torch.from_numpy(y)).numpy())
    return np.stack(found)


@pytest.mark.parametrize("at_once", [1, 2, 64])
@pytest.mark.parametrize("name", ["cross-entropy", "squared", "0-1", "own"])
def test_losses_are_those_of_the_module(torch, name, at_once):
    own = {
        "cross-entropy": torch.nn.CrossEntropyLoss(reduction="none"),
        "squared": lambda out, y: 0.5 * (y - out[:, 0]) ** 2,
        "0-1": lambda out, y: (out.argmax(1) != y).float(),
        "own": lambda out, y: torch.nn.functional.smooth_l1_loss(out[:, 1], y.float(), reduction="none"),
    }[name]
    net = network(torch, outputs=1 if name == "squared" else 2)
    y = Y.astype(np.float32) if name == "squared" else Y
    problem = tj.from_torch(net, own if name == "own" else name, (torch.from_numpy(X), y), at_once=at_once)
    thetas = problem.initial + RNG.standard_normal((6, problem.dim)).astype(np.float32)
    indices = RNG.integers(0, len(X), (3, 7))
    is_active = np.array([True, False, True])
    found = problem.loss.of_pairs(problem.data, thetas.reshape(3, 2, -1), indices, is_active)
    for lane in (0, 2):
        some = indices[lane]
        expected = losses_of(torch, problem, net, thetas[2 * lane : 2 * lane + 2], X[some], y[some], own)
        np.testing.assert_allclose(found[lane], expected, rtol=2e-5, atol=2e-6)
    assert problem.likelihood == {"cross-entropy": "exact", "squared": "noise"}.get(name)


def test_what_a_problem_takes_from_the_module(torch):
    net = network(torch)
    before = torch.nn.utils.parameters_to_vector(net.parameters()).detach().numpy()
    problem = tj.from_torch(
        net.train(), "cross-entropy", torch.utils.data.TensorDataset(*map(torch.from_numpy, (X, Y)))
    )
    np.testing.assert_array_equal(problem.initial, before)
    assert net.training
    assert problem.layers == {"0": slice(0, 20), "2": slice(20, 32)}
    assert problem.prior == pytest.approx(max(0.3, np.sqrt((before**2).mean())))
    assert repr(problem.loss) == "External(function=TorchLoss(Sequential, cross-entropy))"


def test_an_ensemble_predicts_with_the_module_and_gives_its_models_back(torch, tmp_path):
    problem = tj.from_torch(net := network(torch), "cross-entropy", (X, Y))
    target = tj.Target(problem, tau=3, sigma=0.2, s=100.0)
    run = tj.sample(target, 60, chains=2, records=3, acceptance=tj.Penalty(8), out=tmp_path / "run")
    ensemble = tj.Ensemble.from_run(run)
    outputs = ensemble.member_outputs(X)
    states = ensemble.state_dicts()
    assert len(states) == len(ensemble.path)
    for state, said, theta in zip(states, outputs, ensemble.path, strict=True):
        net.load_state_dict(state)
        np.testing.assert_array_equal(np.concatenate([value.numpy().ravel() for value in state.values()]), theta)
        np.testing.assert_allclose(net(torch.from_numpy(X)).detach().numpy(), said, rtol=1e-5, atol=1e-6)
    file = ensemble.save(tmp_path / "ensemble.npz")
    np.testing.assert_array_equal(tj.Ensemble.load(file, model=problem.network).member_outputs(X), outputs)
    stored = tj.Ensemble.load(tmp_path / "run", model=problem.network)
    np.testing.assert_array_equal(stored.member_outputs(X), outputs[: len(stored.path)])

    again = tj.from_torch(network(torch).train(), "cross-entropy", (X, Y), initial=problem.initial)
    resumed = tj.sample(
        tj.Target(again, tau=3, sigma=0.2, s=100.0),
        90,
        chains=2,
        records=3,
        acceptance=tj.Penalty(8),
        burn_in=12,
        out=tj.RunDirectory(tmp_path / "run", resume=True),
    )
    assert resumed.epochs == 90


def test_buffers_are_kept_and_frozen_parameters_stay(torch):
    net = image_network(torch)
    net[0].weight.requires_grad_(False)
    images = RNG.standard_normal((20, 1, 6, 6)).astype(np.float32)
    labels = RNG.integers(0, 2, 20)
    problem = tj.from_torch(net, "cross-entropy", (images, labels))
    assert problem.layers == {"0": slice(0, 3), "1": slice(3, 9), "5": slice(9, 107)}
    thetas = problem.initial + RNG.standard_normal((2, problem.dim)).astype(np.float32)
    found = problem.loss.losses(thetas, tj.losses.Batch(*(np.stack([part, part]) for part in (images, labels))))
    before = {name: value.clone() for name, value in net.state_dict().items()}
    loss = torch.nn.CrossEntropyLoss(reduction="none")
    expected = losses_of(torch, problem, net, thetas, images, labels, loss)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    for name, value in net.state_dict().items():
        is_sampled = name in dict(net.named_parameters()) and name != "0.weight"
        assert torch.equal(value, before[name]) != is_sampled


def test_tied_parameters_are_one(torch):
    net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Tanh(), torch.nn.Linear(3, 3))
    net[2].weight = net[0].weight
    problem = tj.from_torch(net, "cross-entropy", (X, Y))
    assert problem.dim == 9 + 3 + 3
    state = problem.network.state_dicts(np.arange(15.0)[None])[0]
    assert torch.equal(state["0.weight"], state["2.weight"])
    assert set(state) == set(net.state_dict())


def test_what_cannot_be_sampled_is_refused(torch):
    with pytest.raises(tj.InputError, match=r"must be a torch\.nn\.Module"):
        tj.from_torch(lambda x: x, "squared", (X, Y))
    with pytest.raises(tj.InputError, match="must be one of 'cross-entropy'"):
        tj.from_torch(network(torch), "crossentropy", (X, Y))
    with pytest.raises(tj.InputError, match=r"pair \(inputs, targets\)"):
        tj.from_torch(network(torch), "squared", X)
    with pytest.raises(tj.InputError, match="module failed on inputs of shape"):
        tj.from_torch(network(torch), "cross-entropy", (X[:, :2], Y))
    with pytest.raises(tj.InputError, match=r"whole numbers in 0\.\.1"):
        tj.from_torch(network(torch), "cross-entropy", (X, Y + 1))
    with pytest.raises(tj.InputError, match="1 output, got 2"):
        tj.from_torch(network(torch), "squared", (X, Y))
    with pytest.raises(tj.InputError, match="one loss per example"):
        tj.from_torch(network(torch), torch.nn.CrossEntropyLoss(), (X, Y))
    with pytest.raises(tj.InputError, match="parameters must be float32"):
        tj.from_torch(network(torch).double(), "cross-entropy", (X, Y))
    by_batch = torch.nn.BatchNorm1d(5, track_running_stats=False)
    with pytest.raises(tj.InputError, match="others in its batch"):
        tj.from_torch(network(torch, by_batch), "cross-entropy", (X, Y))


def test_without_pytorch_it_is_refused_in_a_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(tj.InputError, match=r"from_torch needs PyTorch, got .* pip install torch"):
        tj.from_torch(None, "squared", (X, Y))


def test_state_dicts_are_of_modules_only():
    ensemble = tj.Ensemble(model := tj.models.mlp((3, 2)), np.zeros((1, model.dim)))
    with pytest.raises(tj.InputError, match="state dicts are those of PyTorch"):
        ensemble.state_dicts()
