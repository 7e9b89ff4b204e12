"""Losses on the host: what a run with them does, what is refused, and what becomes of an error inside."""

import threading
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import trajens as tj
from tests.monte_carlo import assert_path_law
from tests.small_run import assert_same
from trajens.workers import Callers

DATA = tj.datasets.perceptron(seed=3, size=48, noise=0.5)
MOVES = {"tau": 3, "sigma": 0.4, "s": 20.0, "prior": 1.0}


def squared(theta, batch):
    """The loss of the perceptron, in NumPy."""
    return 0.5 * (batch.y - batch.x @ theta) ** 2


def squared_of_many(thetas, batches):
    """The same of many models at once."""
    return 0.5 * (batches.y - np.einsum("kmd,kd->km", batches.x, thetas)) ** 2


def external(function=squared, **known):
    return tj.external(function, DATA, 2, **known)


def sampled(problem, epochs=120, **settings):
    settings = {"chains": 4, "records": 4, "acceptance": tj.Penalty(8), "seed": 1, **settings}
    return tj.sample(tj.Target(problem, **MOVES), epochs, **settings)


@pytest.fixture(scope="module")
def by_jax():
    """The run of the same loss in JAX."""
    return sampled(DATA.problem())


class Counting:
    """A loss that counts its calls, fails after some, and notes what it was given."""

    def __init__(self, fails_after=None, function=squared):
        self.calls, self.fails_after, self.function, self.batches = 0, fails_after, function, []

    def __call__(self, theta, batch):
        self.calls += 1
        if self.fails_after is not None and self.calls > self.fails_after:
            raise ArithmeticError("the solver has diverged")
        self.batches.append(batch.y.copy())
        return self.function(theta, batch)

    def __repr__(self):
        return "Counting()"


@pytest.mark.parametrize(
    "how",
    ["plain", "vectorised threads", *(pytest.param(how, marks=pytest.mark.slow) for how in ("vectorised", "threads"))],
)
def test_decisions_are_those_of_the_same_loss_in_jax(how, by_jax):
    is_many, workers = "vectorised" in how, 2 if "threads" in how else 1
    problem = external(squared_of_many if is_many else squared, vectorised=is_many, workers=workers)
    run = sampled(problem)
    np.testing.assert_array_equal(run.paths, by_jax.paths)
    for name in ("acceptance", "batch_size", "data_used"):
        np.testing.assert_array_equal(run.records[name], by_jax.records[name])
    np.testing.assert_allclose(run.records["loss"], by_jax.records["loss"], rtol=1e-5)


def test_a_run_does_not_depend_on_the_number_of_devices(by_jax):
    assert len(jax.devices()) == 4
    run = sampled(external(), devices=jax.devices()[:1])
    np.testing.assert_array_equal(run.paths, by_jax.paths)


def test_large_models_on_several_devices_do_not_hang():
    # With pure_callback this waits forever: copies of arrays this large are made by threads that wait for the host.
    dim = 200_000

    def loss(theta, batch):
        return np.full(len(batch), np.mean(theta) ** 2) + 0.0 * batch

    problem = tj.external(loss, np.zeros(8, np.float32), dim, initial=np.zeros(dim))
    target = tj.Target(problem, tau=2, sigma=0.1, s=1.0, prior=1.0)
    run = tj.sample(target, 3, chains=4, records=1, acceptance=tj.Metropolis(), burn_in=0)
    assert run.is_complete


def test_only_active_lanes_are_evaluated_and_pairs_share_their_examples():
    function = Counting()
    problem = external(function)
    function.calls, function.batches = 0, []
    run = sampled(problem, epochs=33, chains=1, records=1, burn_in=0, seed=2)
    decided, measured = int(run.records["data_used"][0, -1]), 2 * len(DATA.y)
    # Chunks of eight examples, which the sampler counts in full but the last of a batch; a pair has two models.
    chunks = decided // 8
    assert decided % 8 == 0
    probes = [batch for batch in function.batches if len(batch) not in (8, len(DATA.y))]
    assert len([batch for batch in function.batches if len(batch) == 8]) == 2 * chunks
    assert len(probes) == 0
    assert measured == 2 * len(function.batches[-1])
    pairs = [batch for batch in function.batches if len(batch) == 8]
    assert all(np.array_equal(one, two) for one, two in zip(pairs[::2], pairs[1::2], strict=True))


def test_an_error_inside_ends_the_run_and_nothing_is_lost(tmp_path):
    settings = {"epochs": 200, "records": 8}
    whole = sampled(external(), out=tmp_path / "whole", **settings)
    with pytest.raises(ArithmeticError, match="the solver has diverged") as raised:
        sampled(external(Counting(fails_after=900)), out=tmp_path / "failed", **settings)
    assert any(entry.name == "__call__" and "test_host" in str(entry.path) for entry in raised.traceback)
    stored = tj.StoredRun(tmp_path / "failed")
    assert 0 < stored.epoch < 200
    again = tj.RunDirectory(tmp_path / "failed", resume=True)
    resumed = sampled(external(Counting()), out=again, **settings)
    assert_same(resumed, whole)


def test_a_loss_of_other_values_is_refused_when_a_run_is_resumed(tmp_path):
    sampled(external(), out=tmp_path / "run")
    again = tj.RunDirectory(tmp_path / "run", resume=True)
    with pytest.raises(tj.InputError, match="a loss of other values"):
        sampled(external(lambda theta, batch: 3 * squared(theta, batch)), out=again, epochs=200)


def test_an_error_in_the_start_of_training_is_the_functions_own():
    problem = external(Counting(fails_after=40))
    with pytest.raises(ArithmeticError, match="the solver has diverged"):
        tj.train(problem, tau=2, budget=2e4, progress=False)


@pytest.mark.slow
def test_losses_that_are_not_finite_refuse_proposals():
    def fenced(theta, batch):
        return np.where(theta[0] > 0.3, np.nan, squared(theta, batch))

    run = sampled(external(fenced, initial=np.zeros(2)), epochs=400)
    assert run.records["not_finite"].sum() > 0
    assert (run.paths[..., 0] <= np.float32(0.3)).all()


@pytest.mark.slow
def test_training_audits_exchanges_and_held_out_examples():
    problem = external(initial=np.zeros(2)).hold_out(0.25)
    run = tj.train(problem, tau=2, budget=4e4, chains=2, progress=False)
    assert run.start_records["loss"].size > 0
    assert np.isfinite(run.records["loss_held_out"]).all()
    target = tj.Target(external(), tau=2, sigma=0.3, s=[5.0, 8.0, 12.0, 20.0], prior=1.0)
    ladder = tj.sample(target, 200, chains=4, records=4, acceptance=tj.Penalty(8), exchange=tj.Exchange(every=10))
    assert np.isfinite(ladder.records["loss"]).all()
    assert np.isfinite(tj.audit(ladder).tilt_error)


@pytest.mark.parametrize("workers", [1, 2])
def test_calls_overlap_with_several_workers_only(workers):
    now, most = [], []

    def slow(_):
        now.append(1)
        most.append(len(now))
        time.sleep(0.02)
        now.pop()

    callers = Callers(slow, workers)
    devices = [threading.Thread(target=callers.call, args=([(0,), (1,)],)) for _ in range(3)]
    for device in devices:
        device.start()
    for device in devices:
        device.join()
    assert max(most) == workers


@pytest.mark.slow
def test_processes_give_the_losses_of_the_function():
    callers = Callers(squared, 2, "processes")
    batch = tj.datasets.PerceptronData(DATA.x[:5], DATA.y[:5])
    thetas = np.random.default_rng(0).standard_normal((3, 2)).astype(np.float32)
    found = callers.call([(theta, batch) for theta in thetas])
    np.testing.assert_array_equal(found, [squared(theta, batch) for theta in thetas])


def depends_on_batch(theta, batch):
    losses = squared(theta, batch)
    return losses - losses.mean()


RNG = np.random.default_rng(0)
REFUSED = {
    "must be one of": (3.0, {}),
    "do not average": (lambda theta, batch: squared(theta, batch).mean(), {}),
    "real numbers": (lambda theta, batch: squared(theta, batch).astype(complex), {}),
    "failed on parameters of shape 2 and 8 examples with ZeroDivisionError": (lambda theta, batch: 1 // 0, {}),
    "finite losses where paths start": (lambda theta, batch: np.nan * batch.y, {}),
    "the same losses for the same": (lambda theta, batch: squared(theta, batch) + 0.01 * RNG.random(len(batch.y)), {}),
    "others in its batch": (depends_on_batch, {}),
    "other models": (lambda thetas, batches: squared_of_many(thetas.mean(0) + 0 * thetas, batches), {"vectorised": 1}),
    "got one of JAX": (lambda theta, batch: jnp.sum((batch.y - batch.x @ theta)[:, None] ** 2, -1), {}),
    "must be importable": (lambda theta, batch: squared(theta, batch), {"workers": 2, "pool": "processes"}),
    "one of 'threads', 'processes'": (squared, {"pool": "cores"}),
    "workers must be a whole number": (squared, {"workers": 0}),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_a_function_that_cannot_be_sampled_is_refused(sentence):
    function, known = REFUSED[sentence]
    with pytest.raises(tj.InputError, match=sentence) as raised:
        external(function, **known)
    assert str(raised.value).count(". ") == 0


@pytest.mark.parametrize("error", [ArithmeticError("mine"), KeyboardInterrupt()])
def test_an_error_on_one_device_is_the_functions_own(error):
    function = Counting()

    def fail(theta, batch):
        if function.calls > 600:
            raise error
        return squared(theta, batch)

    problem = external(function)
    function.function = fail
    one = jax.devices()[:1]
    if isinstance(error, KeyboardInterrupt):
        with pytest.warns(UserWarning, match="interrupted at epoch"):
            assert 0 < sampled(problem, 200, devices=one).epochs < 200
    else:
        with pytest.raises(ArithmeticError, match="mine"):
            sampled(problem, 200, devices=one)


def test_a_shape_that_changes_later_ends_the_run():
    function = Counting()
    problem = external(function)
    function.function = lambda theta, batch: squared(theta, batch)[:-1]
    with pytest.raises(tj.InputError, match="one loss per example"):
        sampled(problem)


@pytest.mark.slow
def test_paths_of_a_loss_in_numpy_have_the_exact_law():
    exact = tj.exact.perceptron(DATA.x, DATA.y, **MOVES)
    problem = external(squared_of_many, vectorised=True, initial=np.full(2, 1.5))
    settings = {"chains": 288, "burn_in": 300, "records": 40, "acceptance": tj.Metropolis(), "keep_paths": True}
    run = sampled(problem, 1500, **settings)
    kept = run.records["epoch"][0] > 300
    assert_path_law(run.history[:, kept], run.records["loss"][:, kept], exact)
