"""Episodes of environments: physics, policies, steps that are counted, and runs on them."""

import importlib.util
import json
from dataclasses import dataclass
from math import cos, pi, sin

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import trajens as tj
from tests.command import call
from tests.small_run import StopAfter, again, assert_same, fresh
from trajens import rl
from trajens.app import cli
from trajens.app.resolve import resolve
from trajens.errors import InputError
from trajens.run.advice import _RECORDS
from trajens.run.control import plan_marks
from trajens.sampling.sampler import Sampler

needs_gymnax = pytest.mark.skipif(importlib.util.find_spec("gymnax") is None, reason="gymnax is not installed")


PLACES, TWO = rl.Box((-4.0, -np.inf), (4.0, np.inf), (2,)), rl.Discrete(2)


@dataclass(frozen=True)
class Walk:
    """Goes up or down by chance and by action, and is over below 0: episodes of all lengths up to `max_steps`."""

    name: str = "walk"
    max_steps: int = 7
    returns: tuple[float, float] = (-7.0, 7.0)
    observation_space: rl.Box = PLACES
    action_space: rl.Discrete | rl.Box = TWO

    def reset(self, key):
        at = jax.random.uniform(key)
        return jnp.stack([at, at**2]), at

    def step(self, key, state, action):
        at = state + jax.random.normal(key) + jnp.sum(2 * jnp.asarray(action, jnp.float32) - 1) / 2
        return jnp.stack([at, at**2]), at, at, at < 0


def by_hand(environment, act, key):
    """The same episode without any loop of JAX."""
    key_reset, key_steps = jax.random.split(key)
    observation, state = environment.reset(key_reset)
    total, steps = 0.0, 0
    while steps < environment.max_steps:
        observation, state, reward, is_over = environment.step(
            jax.random.fold_in(key_steps, steps), state, act(observation)
        )
        total, steps = total + float(reward), steps + 1
        if bool(is_over):
            break
    return total, steps


def test_an_episode_ends_where_its_steps_say_and_mapped_ones_do_not_disturb_each_other():
    walk, act = Walk(), lambda seen: (seen[0] > 0.5).astype(jnp.int32)
    keys = jax.random.split(jax.random.key(0), 24)
    found = jax.jit(jax.vmap(lambda key: rl.episode(walk, act, key)))(keys)
    expected = np.array([by_hand(walk, act, key) for key in keys])
    np.testing.assert_allclose(found.total, expected[:, 0], rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(found.steps, expected[:, 1])
    assert len(set(expected[:, 1])) > 3
    idle = rl.episode(walk, act, keys[0], is_active=False)
    assert (int(idle.steps), float(idle.total)) == (0, 0.0)


def test_an_episode_that_acts_on_what_is_no_number_has_no_return():
    @dataclass(frozen=True)
    class Fog(Walk):
        """Nothing is seen above 1.5, and the first logit is taken."""

        def step(self, key, state, action):
            observation, *others = super().step(key, state, action)
            return jnp.where(observation[0] > 1.5, jnp.nan, observation), *others

    policy = rl.Policy.of(Fog(), tj.models.linear(2, 2))
    path = np.stack([policy.network.init(0)])
    clear, steps = rl.single_returns(Walk(), policy, path, 40)
    found, _ = rl.single_returns(Fog(), policy, path, 40)
    assert 0 < np.isnan(found).sum() < found.size
    # What is not seen after the last step harms nobody.
    assert not np.isnan(found[steps == 1]).any()
    np.testing.assert_array_equal(found[~np.isnan(found)], clear[~np.isnan(found)])


@dataclass(frozen=True)
class Broken(Walk):
    """A walk with one thing that is not as it should be."""

    how: str = ""

    def reset(self, key):
        found = super().reset(key)
        return found[0] if self.how == "no state" else found

    def step(self, key, state, action):
        observation, state, reward, is_over = super().step(key, state, action)
        others = {
            "gym": (observation, state, reward, is_over, {}),
            "seen": (observation[:1], state, reward, is_over),
            "reward": (observation, state, reward[None], is_over),
            "end": (observation, state, reward, is_over[None]),
            "state": (observation, (state, state), reward, is_over),
        }
        if self.how == "raises":
            raise KeyError("wind")
        return others.get(self.how, (observation, state, reward, is_over))


class Mutable(Walk):
    """Not hashable."""

    __hash__ = None


NO_ENVIRONMENT = {
    "a name": ("CartPole-v1", "environment must have name, .*; make one of a name with tj.rl.environment"),
    "not hashable": (Mutable(), "environment must be hashable"),
    "no steps": (Walk(max_steps=0), "max_steps of walk must be a whole number at least 1, got 0"),
    "no state": (Broken(how="no state"), "reset of walk must return an observation and a state"),
    "gym": (Broken(how="gym"), "step of walk must return observation, state, reward and .*, got 5 things"),
    "seen": (Broken(how="seen"), r"observations of walk must have the shape \(2,\) .*, got shape \(1,\) of step"),
    "reward": (Broken(how="reward"), r"the reward of a step of walk must be one number, got shape \(1,\)"),
    "end": (Broken(how="end"), "the end of a step of walk must be one number"),
    "state": (Broken(how="state"), "the state of walk must keep its form"),
    "raises": (Broken(how="raises"), "step of walk must work on a key, a state and an action, got KeyError: 'wind'"),
}


@pytest.mark.parametrize("case", NO_ENVIRONMENT)
def test_what_is_no_environment_is_refused_in_one_sentence(case):
    environment, message = NO_ENVIRONMENT[case]
    with pytest.raises(InputError, match=message) as caught:
        rl.problem(environment, tj.models.linear(2, 2))
    assert str(caught.value).count("\n") == 0


def test_a_network_that_cannot_act_is_refused_in_one_sentence():
    for network, message in (
        (tj.models.linear(3, 2), "the network must take observations of walk, 2 numbers each, got"),
        (lambda theta, x: x, "network must have dim, outputs and apply"),
    ):
        with pytest.raises(InputError, match=message):
            rl.problem(Walk(), network)


def cartpole_by_hand(state, action):
    """Barto, Sutton and Anderson's equations, in double precision."""
    x, v, angle, w = state
    force = 10.0 if action else -10.0
    push = (force + 0.05 * w**2 * sin(angle)) / 1.1
    turn = (9.8 * sin(angle) - cos(angle) * push) / (0.5 * (4 / 3 - 0.1 * cos(angle) ** 2 / 1.1))
    pull = push - 0.05 * turn * cos(angle) / 1.1
    return np.array([x + 0.02 * v, v + 0.02 * pull, angle + 0.02 * w, w + 0.02 * turn])


def test_cartpole_has_the_standard_physics():
    pole, rng = rl.CartPole(), np.random.default_rng(0)
    key = jax.random.key(0)
    for _ in range(50):
        state, action = rng.normal(size=4) * (1.0, 1.0, 0.15, 1.0), int(rng.integers(2))
        observation, _, reward, is_over = pole.step(key, rl.cartpole.Pole(*map(jnp.float32, state)), action)
        expected = cartpole_by_hand(state, action)
        np.testing.assert_allclose(observation, expected, rtol=1e-4, atol=1e-5)
        assert float(reward) == 1.0
        assert bool(is_over) == (abs(expected[0]) > 2.4 or abs(expected[2]) > 12 * pi / 180)


@needs_gymnax
def test_cartpole_is_that_of_gymnax():
    ours, theirs = rl.CartPole(), rl.Gymnax("CartPole-v1")
    policy = rl.Policy.of(ours, tj.models.linear(4, 2))
    path = np.stack([policy.network.init(seed) for seed in range(6)])
    same = rl.Policy(policy.network, ours.observation_space, ours.action_space)
    found = [rl.single_returns(environment, same, path, 40) for environment in (ours, theirs)]
    # Rounding may end a few episodes a step sooner or later.
    assert (found[0][0] == found[1][0]).mean() > 0.9
    np.testing.assert_allclose(found[0][0].mean(), found[1][0].mean(), rtol=0.02)
    assert (found[0][0] == found[0][1]).all()


@needs_gymnax
def test_environments_of_gymnax_are_over_in_time_and_can_have_other_physics():
    pendulum = rl.Gymnax("Pendulum-v1")
    policy = rl.Policy.of(pendulum, rl.network(pendulum))
    path = np.stack([policy.network.init(seed) for seed in range(2)])
    total, steps = rl.single_returns(pendulum, policy, path, 4)
    assert (steps == 200).all()
    assert (total >= pendulum.returns[0]).all()
    assert (total <= 0).all()
    heavy = rl.single_returns(rl.Gymnax("Pendulum-v1", (("g", 12.0),)), policy, path, 4)[0]
    assert (heavy != total).any()
    with pytest.raises(InputError, match=r"physics of Pendulum-v1 must be among .*, got gravity; check"):
        rl.Gymnax("Pendulum-v1", (("gravity", 12.0),))
    with pytest.raises(InputError, match=r"the environment must be one of CartPole-v1, .*, got 'CartPole-v9'"):
        rl.Gymnax("CartPole-v9")
    with pytest.raises(InputError, match="returns must be given for Catch-bsuite"):
        rl.problem(rl.Gymnax("Catch-bsuite"), rl.network(rl.Gymnax("Catch-bsuite")))


def test_what_needs_gymnax_says_so(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "gymnax", None)
    rl.catalogue._made.cache_clear()
    with pytest.raises(InputError, match=r"Acrobot-v1 must come from gymnax, .*; pip install 'trajens\[rl\]', or use"):
        rl.environment("Acrobot-v1")
    rl.catalogue._made.cache_clear()


def test_policies_see_scaled_observations_and_act_alone_or_together():
    walk = Walk()
    policy = rl.Policy.of(walk, tj.models.linear(2, 2))
    theta = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], np.float32)
    # The first entry is scaled by its bounds -4..4, the second has none.
    np.testing.assert_allclose(policy.outputs(theta, jnp.array([2.0, 3.0])), [0.5 + 9 + 5, 1 + 12 + 6], rtol=1e-6)
    path = np.zeros((5, 6), np.float32)
    path[:3, 5], path[3:, 4] = 1.0, 10.0
    seen = jnp.zeros(2)
    assert [int(policy.alone(theta, seen)) for theta in path] == [1, 1, 1, 0, 0]
    assert int(policy.together(path, seen, rl.VOTE)) == 1
    assert int(policy.together(path, seen, rl.MEAN)) == 0
    assert int(policy.together(np.zeros((4, 6), np.float32), seen, rl.VOTE)) == 0
    with pytest.raises(InputError, match="the network must have 2 outputs, one for every action of walk, got 3"):
        rl.Policy.of(walk, tj.models.linear(2, 3))


def test_actions_that_are_numbers_stay_between_their_bounds_and_are_averaged():
    walk = Walk(action_space=rl.Box((-1.0,), (3.0,), (1,)))
    policy = rl.Policy.of(walk, tj.models.linear(2, 1))
    path = np.array([[0, 0, 0.0], [0, 0, 1.0], [0, 0, 99.0]], np.float32)
    alone = [float(policy.alone(theta, jnp.zeros(2))[0]) for theta in path]
    np.testing.assert_allclose(alone, [1.0, 1 + 2 * np.tanh(1.0), 3.0], rtol=1e-6)
    np.testing.assert_allclose(policy.together(path, jnp.zeros(2)), [np.mean(alone)], rtol=1e-6)
    assert list(rl.scores(walk, policy, path, 8)) == ["single", "best", "mean"]
    with pytest.raises(InputError, match="how must be one of 'mean', got 'vote'"):
        rl.joint_returns(walk, policy, path, rl.VOTE, 8)


def test_a_policy_may_be_a_function_of_a_pytree():
    def apply(params, x):
        return jnp.tanh(x @ params["w"]) @ params["v"]

    params = {"w": np.ones((2, 3), np.float32), "v": np.ones((3, 2), np.float32)}
    problem = rl.problem(Walk(), apply=apply, params=params)
    assert problem.dim == 12
    np.testing.assert_array_equal(problem.unravel(problem.initial)["w"], params["w"])
    for message, arguments in (("network and apply", {"network": tj.models.linear(2, 2)}), ("network must", {})):
        with pytest.raises(InputError, match=message):
            rl.problem(Walk(), **arguments, **({"apply": apply, "params": params} if arguments else {}))


def test_the_loss_is_the_return_in_units_of_its_range():
    problem = rl.problem(Walk(), tj.models.linear(2, 2), returns=(-10, 30))
    loss = rl.episodes_of(problem)
    theta, keys = np.ones(6, np.float32), jax.random.split(jax.random.key(1), 5)
    total = np.array([by_hand(Walk(), lambda seen: loss.policy.alone(theta, seen), key)[0] for key in keys])
    np.testing.assert_allclose(loss(theta, keys), (30 - total) / 40, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(loss.return_of(loss.loss_of(total)), total, rtol=1e-5)
    # Both models of a pair meet the same episodes; a lane that is not active takes no step.
    pairs, lanes = np.stack([[theta, theta], [theta, -theta]]), jnp.stack([keys, keys])
    losses, steps = jax.jit(lambda *given: loss.counted((), *given))(pairs, lanes, jnp.array([True, False]))
    np.testing.assert_array_equal(losses[0, 0], losses[0, 1])
    assert steps.tolist() == [
        2 * sum(by_hand(Walk(), lambda seen: loss.policy.alone(theta, seen), k)[1] for k in keys),
        0,
    ]
    for returns in ((3, 3), (1, 2, 3), 5):
        with pytest.raises(InputError, match="returns must be"):
            rl.problem(Walk(), tj.models.linear(2, 2), returns=returns)


PROBLEM = rl.problem(Walk(), tj.models.linear(2, 2), max_batch=32)
TARGET = tj.Target(PROBLEM, tau=3, sigma=0.5, s=8.0, prior=1.0)
SETTINGS = {"chains": 2, "burn_in": 40, "records": 5, "acceptance": tj.Penalty(4), "progress": False}


@dataclass(frozen=True)
class Even(Walk):
    """Always three steps."""

    max_steps: int = 3

    def step(self, key, state, action):
        return *super().step(key, state, action)[:3], jnp.bool_(False)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the run samples an s:RuntimeWarning")  # audits of two proposals say nothing
def test_steps_are_counted_where_they_are_taken(monkeypatch):
    monkeypatch.setattr("trajens.run.audits._LEAST", 1)
    monkeypatch.setattr("trajens.run.audits._FEW", 16)
    monkeypatch.setattr("trajens.run.audits.PROPOSALS", 2)
    monkeypatch.setattr("trajens.run.audits.SHARE", 0.5)
    problem = rl.problem(Even(), tj.models.linear(2, 2), max_batch=32)
    told: list[tj.Progress] = []
    run = tj.sample(tj.Target(problem, 3, 0.5, 8.0, 1.0), 120, **{**SETTINGS, "progress": told.append})
    found = run.records
    assert told[-1].steps_used == tuple(found["steps_used"][:, -1])
    assert (found["steps_used"] == 2 * 3 * found["data_used"]).all()
    # Models are measured in pairs, of which tau = 3 have two.
    assert (found["steps_measured"] == 3 * 4 * found["data_measured"] // 3).all()
    assert (found["steps_audited"] == 2 * 3 * found["data_audited"]).all()
    assert found["data_audited"].max() > 0
    assert run.summary()["steps_used"] == found["steps_used"][:, -1].sum()


@pytest.mark.slow
def test_steps_of_exchanges_are_counted_too(monkeypatch):
    monkeypatch.setattr("trajens.run.exchange._LEAST", 1)
    monkeypatch.setattr("trajens.run.exchange.SHARE_AT_MOST", 1e9)
    problem = rl.problem(Even(), tj.models.linear(2, 2), max_batch=32)
    target = tj.Target(problem, 3, 0.5, np.array([4.0, 8.0, 4.0, 8.0]), 1.0)
    looks: list[int] = []
    look = Sampler.look_at_exchanges
    monkeypatch.setattr(Sampler, "look_at_exchanges", lambda *given: looks.append(given[-1]) or look(*given))
    run = tj.sample(
        target, 240, **{**SETTINGS, "burn_in": 120, "chains": 4, "exchange": tj.Exchange(every=2, space=False)}
    )
    found = run.records
    # Both paths of every example, and what plans have looked at.
    assert found["steps_exchanged"][:, -1].sum() == 2 * 3 * found["data_exchanged"][:, -1].sum()
    assert found["steps_exchanged"][:, -1].sum() > 0
    assert looks
    assert run.summary()["steps_exchanged"] == found["steps_exchanged"][:, -1].sum()


def test_steps_of_many_words_are_whole_numbers():
    from trajens.sampling.lanes import add_steps, whole_steps

    words = jnp.array([[2**32 - 3, 1], [5, 0]], jnp.uint32)
    np.testing.assert_array_equal(whole_steps(add_steps(words, jnp.array([7, 7], jnp.uint32))), [2**33 + 4, 12])


@pytest.mark.slow
def test_losses_without_steps_have_no_columns_of_them():
    stream = tj.Stream(lambda theta, keys: jax.vmap(jax.random.uniform)(keys) + (theta**2).sum(), 2, 32)
    records = tj.sample(tj.Target(stream, 2, 0.5, 1.0, 1.0), 20, **{**SETTINGS, "burn_in": 5}).records
    assert not [name for name in records if name.startswith("steps")]


@pytest.mark.slow
def test_a_run_on_episodes_is_resumed_bit_for_bit(tmp_path):
    whole = tj.sample(TARGET, 160, out=fresh(tmp_path / "whole"), **SETTINGS)
    part = tj.sample(TARGET, 160, out=fresh(tmp_path / "part"), stop=StopAfter(1), **SETTINGS)
    assert part.epochs < 160
    assert_same(whole, tj.sample(TARGET, 160, out=again(tmp_path / "part"), **SETTINGS))
    assert (np.diff(whole.records["steps_used"], axis=1) > 0).all()


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    out = tmp_path_factory.mktemp("rl") / "run"
    options = ["--tau", "3", "--epochs", "30", "--s", "1:3", "--chunk", "2", "--max-batch", "4", "--records", "10"]
    with pytest.raises(SystemExit) as left:
        cli.app(["train", "CartPole-v1", *options, "--out", str(out)], prog_name="trajens")
    assert left.value.code == 0
    return out


def test_evaluate_tells_returns_with_errors(capsys, trained):
    code, out, _ = call(capsys, "evaluate", str(trained), "--episodes", "30", "--json")
    assert code == 0
    found = json.loads(out)
    assert (found["environment"], found["models"], found["episodes"]) == ("CartPole-v1", 3, 30)
    policy = rl.Policy.of(rl.CartPole(), tj.models.linear(4, 2))
    expected = rl.scores(rl.CartPole(), policy, tj.StoredRun(trained).paths[0], 30)
    assert found["returns"] == {how: score._asdict() for how, score in expected.items()}
    single = rl.single_returns(rl.CartPole(), policy, tj.StoredRun(trained).paths[0], 30)[0].mean(0)
    assert found["returns"]["single"]["mean"] == pytest.approx(single.mean())
    assert found["returns"]["single"]["stderr"] == pytest.approx(single.std(ddof=1) / 30**0.5)


@pytest.mark.slow
def test_picture_and_report_show_the_return_against_steps(capsys, trained, tmp_path):
    assert call(capsys, "picture", str(trained), "--out", str(tmp_path / "a.png"))[0] == 0
    assert (tmp_path / "a.png").stat().st_size > 10_000
    assert call(capsys, "report", str(trained), "--out", str(tmp_path / "a.html"))[0] == 0
    page = (tmp_path / "a.html").read_text()
    for words in (
        "Return against steps of the environment",
        "Episodes per decision against s",
        "return, all models, by vote",
        "a stream, of which a decision reads 4 examples at most",
        "linear 4-2, 10 parameters",
        "afresh for every decision",
        "Look for fewer than max_batch",
    ):
        assert words in page


def test_resume_and_audit_know_what_a_run_on_episodes_is(capsys, trained):
    before = tj.StoredRun(trained)
    assert before.config["problem"] == "CartPole-v1"
    assert call(capsys, "resume", str(trained), "--json")[0] == 0
    code, out, _ = call(capsys, "audit", str(trained), "--proposals", "4", "--examples", "16", "--json")
    assert code == 0
    assert json.loads(out)["examples"] == 16


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["evaluate", "DIR", "--data", "a.csv"], "data must be left out with a run on episodes"),
        (["evaluate", "DIR", "--noise", "1"], "noise must be left out with a run on episodes"),
        (["picture", "DIR", "--data", "a.csv"], "data must be left out with a run on episodes"),
        (["export", "DIR", "--out", "a.npz"], "the run must be one on labelled data, got CartPole-v1"),
        (["train", "CartPole-v1", "--acceptance", "barker"], "acceptance must be a test on minibatches for a stream"),
    ],
)
def test_what_does_not_go_with_episodes_is_refused_in_a_sentence(capsys, trained, arguments, sentence):
    code, _, err = call(capsys, *(str(trained) if word == "DIR" else word for word in arguments))
    assert code == 2
    assert err.startswith(f"trajens: error: {sentence}")
    assert err.count("\n") == 1


def test_defaults_of_episodes_go_together():
    assert resolve({"problem": "CartPole-v1", "max_batch": 4}).chunk == 4
    usual = resolve({"problem": "CartPole-v1"})
    assert usual.chunk == 8
    marks = plan_marks(usual.epochs, usual.burn_in, usual.records)
    # Enough to be told whether the loss still falls.
    assert (marks > usual.burn_in).sum() >= _RECORDS


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"label": "y"}, "label must be left out with CartPole-v1"),
        ({"scores": "losses"}, "scores must be left out with CartPole-v1"),
        ({"budget": 1e5}, "budget must be left out with CartPole-v1"),
        ({"model": "cnn"}, "model must be linear or mlp with CartPole-v1, got cnn"),
        ({"returns": "5,1"}, "returns must be two numbers such as -200,0"),
        (
            {"problem": "CartPole"},
            "problem must be one of perceptron, mnist, an environment such as CartPole-v1 or a file",
        ),
        ({"problem": "mnist", "returns": "0,1"}, "returns must be left out with mnist"),
    ],
)
def test_options_of_episodes_are_checked(options, sentence):
    with pytest.raises(InputError) as caught:
        resolve({"problem": "CartPole-v1", **options})
    assert str(caught.value).startswith(sentence)
