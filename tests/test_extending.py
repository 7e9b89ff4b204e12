"""Parts that are not of trajens, made with its public names alone, work in it as its own do."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import trajens as tj
from tests.monte_carlo import assert_agrees
from trajens.randomness import Purpose, normal, uniform, words

TAU, SIGMA, S, CHAINS = 4, 0.5, 4.0, 256
DATA = tj.datasets.perceptron(size=64, noise=0.5)


@dataclass(frozen=True)
class AlongALine(tj.Move):
    """Redraw one model from its conditional law along one random direction."""

    def check(self, tau):
        if tau < 2:
            raise tj.InputError(f"tau must be at least 2 for AlongALine, got {tau}; use SingleSite.")

    def span(self, tau):
        return 1

    def positions(self, tau):
        return tau

    def period(self, tau):
        return 2

    def site_at(self, i, tau):
        return i, i + 1

    def propose(self, key, path, site, law):
        (tau, dim), t = path.shape, site.first
        before, after = path[jnp.maximum(t - 1, 0)], path[jnp.minimum(t + 1, tau - 1)]
        mean, std = law.given_next(*law.forward(before, t > 0, 1.0), after, t < tau - 1)
        xi = normal(words(key, Purpose.NOISE, dim + 1))
        direction = xi[1:] / jnp.linalg.norm(xi[1:])
        step = direction @ (mean - path[t]) + std * xi[0]
        return tj.moves.Proposal((path[t] + step * direction)[None], 0.0)


@dataclass(frozen=True)
class Stretch(tj.Move):
    """Stretch a path about its first model by a factor exp(width xi), which changes the untilted law."""

    width: float

    def span(self, tau):
        return tau

    def positions(self, tau):
        return 1

    def period(self, tau):
        return 1

    def site_at(self, i, tau):
        return 0, tau

    def propose(self, key, path, site, law):
        tau, dim = path.shape
        log_factor = self.width * normal(words(key, Purpose.NOISE, 1))[0]
        energy = jnp.sum(jnp.diff(path, axis=0) ** 2) / (2 * law.sigma**2)
        volume = (tau - 1) * dim * log_factor
        new = path[0] + jnp.exp(log_factor) * (path - path[0])
        return tj.moves.Proposal(new, volume - energy * jnp.expm1(2 * log_factor))


@dataclass(frozen=True)
class Between(tj.acceptance.FullData):
    """min(1, exp(Delta)) / (1 + doubt exp(-|Delta|)): Metropolis for doubt 0, Barker for 1."""

    doubt: float = 0.5

    def accepts(self, delta, words):
        log_factor = jnp.log1p(self.doubt * jnp.exp(-jnp.abs(delta)))
        return jnp.log(uniform(words[0])) < jnp.minimum(delta, 0.0) - log_factor


@dataclass(frozen=True)
class Staircase(tj.AcceptanceTest):
    """A penalty test; every model's batch goes up a little after a noisy decision and down after a quiet one."""

    chunk: int = 16
    rho: float = 1.0

    def chunk_size(self, size):
        return min(self.chunk, size)

    def init(self, kinds, tau):
        return jnp.full((kinds, tau), 4.0 * self.chunk, jnp.float32)

    def decide(self, state, evidence, words):
        rho2, b = evidence.noise(), evidence.b
        u = rho2 / 2 + rho2**2 / (4 * (b + 1)) + rho2**3 / (3 * (b + 1) * (b + 3))
        is_accepted = jnp.log(uniform(words[0])) < evidence.delta - u
        is_decided = evidence.is_complete | (b >= state)
        return tj.acceptance.Verdict(is_decided, is_accepted, tj.acceptance.Reason.TESTED)

    def learn(self, state, evidence):
        step = jnp.where(evidence.noise() > self.rho**2, 1.05, 1 / 1.05)
        return jnp.clip(state * step, self.chunk, evidence.size)


@dataclass(frozen=True)
class Sweep(tj.Scan):
    """One place after the other, from the first to the last and back."""

    def lanes(self, positions, period):
        return 1

    def place(self, key, phase, lane, positions, period):
        i = phase % (2 * positions)
        return jnp.minimum(i, 2 * positions - 1 - i), lane == 0


@dataclass(frozen=True)
class ByOneProduct:
    """The perceptron's loss, with one einsum for all lanes."""

    def __call__(self, theta, batch):
        return 0.5 * (batch.y - batch.x @ theta) ** 2

    def of_pairs(self, data, theta_pairs, indices, is_active):
        outputs = jnp.einsum("lmd,lpd->lpm", data.x[indices], theta_pairs)
        return 0.5 * (data.y[indices][:, None] - outputs) ** 2


def extent(path):
    """Squared distance of the ends of a path."""
    return jnp.sum((path[-1] - path[0]) ** 2)


def sampled(prior=None, epochs=1600, s=S, **settings):
    """A run whose second half is averaged, and the exact law."""
    target = tj.Target(DATA.problem(), TAU, SIGMA, s, prior)
    how = {"chains": CHAINS, "burn_in": epochs // 2, "records": 40, "acceptance": tj.Metropolis(), **settings}
    how["observe"] = {"extent": extent}
    return tj.sample(target, epochs, **how), tj.exact.perceptron(DATA.x, DATA.y, TAU, SIGMA, s, prior)


def assert_samples(run, exact):
    is_after = run.records["epoch"][0] > run.settings.burn_in
    bond, c = exact.mean[-1] - exact.mean[0], exact.covariance
    spread = np.trace(c[0, :, 0] + c[-1, :, -1] - c[0, :, -1] - c[-1, :, 0])
    assert_agrees(run.records["loss"][:, is_after].mean(1), exact.loss, "loss")
    assert_agrees(run.records["extent"][:, is_after].mean(1), bond @ bond + spread, "extent")
    assert_agrees(run.paths, exact.mean, "mean of the last paths")


@pytest.mark.parametrize(
    ("prior", "scan"),
    [
        (None, "checkerboard"),
        pytest.param(0.6, "random", marks=pytest.mark.slow),
        pytest.param(None, "random", marks=pytest.mark.slow),
        pytest.param(0.6, "checkerboard", marks=pytest.mark.slow),
    ],
)
def test_a_foreign_move_samples_the_exact_law(prior, scan):
    assert_samples(*sampled(prior, move=AlongALine(), scan=scan))


@pytest.mark.slow
def test_a_foreign_move_with_a_ratio_of_its_own_samples_the_exact_law():
    move = tj.Mixture([(1.0, Stretch(0.3)), (3.0, tj.SingleSite())])
    assert_samples(*sampled(0.6, move=move, scan="random"))


def test_a_foreign_move_may_refuse_a_path():
    with pytest.raises(tj.InputError, match="AlongALine"):
        tj.sample(tj.Target(DATA.problem(), 1, SIGMA, S), 10, move=AlongALine())


@pytest.mark.parametrize("test", [Between(), pytest.param(Staircase(), marks=pytest.mark.slow)], ids=repr)
def test_a_foreign_acceptance_test_samples_the_exact_law(test):
    run, exact = sampled(s=10.0, epochs=2400, acceptance=test)
    assert_samples(run, exact)
    assert 0.1 < run.summary()["acceptance"] < 0.95


def test_a_foreign_acceptance_test_remembers_until_burn_in_is_over():
    target = tj.Target(DATA.problem(), TAU, SIGMA, s=200.0)
    sampler = tj.Sampler(target, tj.Settings(burn_in=200, acceptance=Staircase()))
    start = sampler.init()
    learnt, _ = sampler.advance(start, 200)
    later, _ = sampler.advance(learnt, 200)
    assert (start.acceptance != learnt.acceptance).all()
    assert np.array_equal(learnt.acceptance, later.acceptance)


def test_a_foreign_scan_samples_the_exact_law():
    assert_samples(*sampled(scan=Sweep()))


def test_a_foreign_scan_visits_its_places_in_its_own_order():
    target = tj.Target(DATA.problem(), TAU, SIGMA, s=0.0)
    sampler = tj.Sampler(target, tj.Settings(chains=1, acceptance=tj.Metropolis(), scan=Sweep()))
    state, visited = sampler.init(), []
    for _ in range(2 * TAU):
        before = np.asarray(state.path)
        state, _ = sampler.advance(state, 1)
        visited.append(np.flatnonzero((before != np.asarray(state.path)).any((0, 2))).tolist())
    assert visited == [[0], [1], [2], [3], [3], [2], [1], [0]]


def test_a_foreign_loss_gives_the_losses_of_its_definition():
    rng = np.random.default_rng(1)
    pairs, indices = rng.standard_normal((6, 2, 2)).astype(np.float32), rng.integers(0, 64, (6, 9))
    data = jax.tree.map(jnp.asarray, DATA)
    found = tj.losses.losses_of_pairs(ByOneProduct(), data, pairs, indices, np.ones(6, bool))
    assert isinstance(ByOneProduct(), tj.PairLoss)
    np.testing.assert_allclose(found, tj.losses.reference_losses(ByOneProduct(), data, pairs, indices), rtol=1e-5)


@pytest.mark.slow
def test_a_foreign_loss_gives_the_path_of_the_plain_one():
    how = {"epochs": 1000, "chains": 4, "records": 5, "acceptance": tj.Metropolis()}
    loss = ByOneProduct()
    plain, own = (
        tj.sample(tj.Target(tj.Problem(one, DATA, 2), TAU, SIGMA, S), **how) for one in (lambda *a: loss(*a), loss)
    )
    assert np.array_equal(plain.paths, own.paths)
    np.testing.assert_allclose(plain.records["loss"], own.records["loss"], rtol=1e-5)


def test_a_foreign_loss_of_another_shape_is_refused():
    class Wrong(ByOneProduct):
        def of_pairs(self, data, theta_pairs, indices, is_active):
            return super().of_pairs(data, theta_pairs, indices, is_active).mean(-1)

    with pytest.raises(tj.InputError, match="of_pairs"):
        tj.Problem(Wrong(), DATA, 2)


@pytest.mark.parametrize("is_stored", [False, True], ids=["in memory", "on disk"])
def test_a_foreign_record_is_that_of_the_kept_paths(is_stored, tmp_path):
    how = {"chains": 4, "epochs": 400, "records": 8, "keep_paths": True, "burn_in": 0}
    run, _ = sampled(out=tmp_path / "run" if is_stored else None, **how)
    expected = ((run.history[:, :, -1] - run.history[:, :, 0]) ** 2).sum(-1)
    np.testing.assert_allclose(run.records["extent"], expected, rtol=1e-5)
    if is_stored:
        stored = tj.StoredRun(tmp_path / "run")
        assert np.array_equal(stored.records["extent"], run.records["extent"])
        assert np.array_equal(stored.history, run.history)


# What cannot work is refused before anything is compiled


@dataclass(frozen=True)
class TooFarApart(tj.Move):
    """A period that no two places have."""

    def period(self, tau):
        return tau + 1

    def propose(self, key, path, site, law):
        return tj.moves.Proposal(path[site.first][None], 0.0)


@dataclass(frozen=True)
class Neighbours(tj.Scan):
    """All places at once."""

    def lanes(self, positions, period):
        return positions

    def place(self, key, phase, lane, positions, period):
        return lane, lane < positions


@dataclass(frozen=True)
class LastLaneFirst(tj.Scan):
    """A phase whose first lane has no place."""

    def lanes(self, positions, period):
        return 2

    def place(self, key, phase, lane, positions, period):
        return 0 * lane, lane == 1


@dataclass
class Thawed(tj.Move):
    """A dataclass that is not frozen has no hash."""

    def propose(self, key, path, site, law):
        return tj.moves.Proposal(path[site.first][None], 0.0)


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ({"move": TooFarApart()}, "a move must have a span of at least 1 and a period in 1..positions"),
        ({"scan": Neighbours()}, "places of a phase must be in 0..3, different, a multiple of 2 apart"),
        ({"scan": LastLaneFirst()}, "places of a phase must be"),
        ({"move": Thawed()}, "move must be hashable"),
    ],
    ids=["period", "neighbours", "lanes", "hash"],
)
def test_a_part_that_would_stand_still_or_break_the_law_is_refused(how, sentence):
    target = tj.Target(tj.datasets.perceptron(size=16).problem(), 4, 0.1, 1.0)
    with pytest.raises(tj.InputError) as caught:
        tj.sample(target, 10, **how)
    assert str(caught.value).startswith(sentence)


@dataclass(frozen=True)
class Undecided(tj.AcceptanceTest):
    """Never has enough."""

    def chunk_size(self, size):
        return 16

    def decide(self, state, evidence, words):
        return tj.acceptance.Verdict(False, evidence.delta > 0, tj.acceptance.Reason.TESTED)


@pytest.mark.slow
def test_a_test_that_never_decides_is_taken_at_its_word_after_all_data():
    target = tj.Target(tj.datasets.perceptron(size=40).problem(), 4, 0.1, 1.0)
    run = tj.sample(target, 20, chains=2, records=1, burn_in=0, acceptance=Undecided())
    assert (run.records["batch_size"] == 40).all()
