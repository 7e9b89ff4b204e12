"""R-hat, effective draws and errors of chains are those of ArviZ, and those that are known in closed form."""

import warnings

import numpy as np
import pytest

import trajens as tj
from tests.monte_carlo import assert_agrees
from trajens.convergence import drift, ess_bulk, ess_mean, ess_tail, mcse, nested_rhat, rhat
from trajens.convergence.criteria import _told_apart

OURS = {"rhat": rhat, "bulk": ess_bulk, "tail": ess_tail, "mean": ess_mean, "mcse": mcse}


def autoregressive(chains, draws, phi, seed=0):
    """Stationary chains of variance 1 whose correlation at lag t is phi^t."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((chains, draws))
    for t in range(1, draws):
        x[:, t] = phi * x[:, t - 1] + np.sqrt(1 - phi**2) * x[:, t]
    return x


def cases():
    rng, slow = np.random.default_rng(1), autoregressive(4, 200, 0.95)
    return {
        "slow": slow,
        "odd length": autoregressive(3, 101, 0.5),
        "antithetic": autoregressive(4, 100, -0.7),
        "independent": rng.standard_normal((4, 100)),
        "heavy tails": rng.standard_cauchy((4, 300)),
        "apart": autoregressive(4, 60, 0.5) + np.arange(4)[:, None],
        "of other widths": autoregressive(4, 60, 0.5) * np.arange(1, 5)[:, None],
        "falling": autoregressive(4, 60, 0.5) - np.arange(60),
        "one of them stuck": np.vstack([autoregressive(3, 50, 0.5), np.zeros((1, 50))]),
        "stuck": np.repeat(rng.standard_normal((4, 1)), 50, axis=1),
        "constant": np.ones((4, 50)),
        "with ties": rng.integers(0, 3, (4, 99)).astype(float),
        "rarely other than 0": (rng.random((4, 80)) < 0.02).astype(float),
        "many and short": autoregressive(200, 20, 0.9),
        "short": slow[:2, :7],
        "of five draws": slow[:, :5],
        "of four draws": slow[:, :4],
        "of three draws": slow[:, :3],
        "one chain": slow[:1],
        "with a NaN": np.where(np.arange(200) == 3, np.nan, slow),
    }


@pytest.mark.parametrize("name", cases())
def test_all_of_it_is_what_arviz_says(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        az = pytest.importorskip("arviz")
    # It takes (chain, draw) arrays in every version.
    theirs = {
        "rhat": lambda x: az.rhat(x),
        "bulk": lambda x: az.ess(x, method="bulk"),
        "tail": lambda x: az.ess(x, method="tail", prob=(0.05, 0.95)),
        "mean": lambda x: az.ess(x, method="mean"),
        "mcse": lambda x: az.mcse(x),
    }
    values = cases()[name]
    for what, ours in OURS.items():
        if len(values) == 1 and what == "rhat":
            continue  # of a single chain ArviZ says nothing
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = float(theirs[what](values))
        assert ours(values) == pytest.approx(expected, rel=1e-6, nan_ok=True), what


def test_the_halves_of_a_single_chain_are_compared():
    whole = autoregressive(2, 100, 0.5)
    line = whole.reshape(1, -1)
    # Two halves of one chain are as two chains that are not cut.
    assert rhat(line) == pytest.approx(max(map(_plain_rhat_of_scores, (whole, np.abs(whole - np.median(whole))))))
    assert rhat(line + 3.0 * (np.arange(200) >= 100)) > 1.5


def _plain_rhat_of_scores(values):
    from scipy.stats import norm, rankdata

    z = norm.ppf((rankdata(values).reshape(values.shape) - 0.375) / (values.size + 0.25))
    draws = z.shape[1]
    return np.sqrt((draws - 1) / draws + z.mean(1).var(ddof=1) / z.var(1, ddof=1).mean())


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.9])
def test_the_error_of_a_mean_is_that_of_an_autoregressive_process(phi):
    chains, draws, runs = 4, 2000, 64
    several = autoregressive(chains * runs, draws, phi).reshape(runs, chains, draws)
    worth = (1 - phi) / (1 + phi) * chains * draws
    # An estimate with a window that adapts is off by some per cent, in a direction that is known of no window.
    for estimate in (ess_mean, ess_bulk):
        assert np.mean([estimate(one) for one in several]) == pytest.approx(worth, rel=0.08)
    assert_agrees(several.mean(2).reshape(-1), 0.0)
    z = several.mean((1, 2)) / [mcse(one) for one in several]
    assert np.mean(np.square(z)) == pytest.approx(1.0, abs=6 * np.sqrt(2 / runs))


def test_chains_that_agree_have_an_rhat_of_one_and_others_a_larger_one():
    alike = autoregressive(4, 4000, 0.5)
    assert rhat(alike) < 1.005
    # Of means m apart R-hat^2 = 1 + var(m) for draws of variance 1, but for the ranks.
    assert rhat(alike + np.array([[0.0], [0.0], [1.0], [1.0]])) == pytest.approx(np.sqrt(1 + 2 / 7), rel=0.06)
    # Chains of one mean and several widths differ in what is folded only.
    assert rhat(alike * np.array([[1.0], [1.0], [3.0], [3.0]])) > 1.1
    assert rhat(np.repeat([[1.0], [2.0]], 20, axis=1)) == np.inf


def test_a_drift_is_counted_in_its_own_errors():
    several = autoregressive(64 * 4, 400, 0.8).reshape(64, 4, 400)
    found = np.array([drift(one) for one in several])
    assert np.mean(np.square(found)) == pytest.approx(1.0, abs=6 * np.sqrt(2 / 64))
    assert drift(several[0] + np.linspace(0, 2, 400)) > 4
    assert drift(np.ones((2, 10))) == 0.0
    assert drift(np.repeat([[1.0, 0.0]], 5, axis=1)) == -np.inf
    assert np.isnan(drift(np.ones((2, 7))))


def test_nested_rhat_is_its_definition():
    rng = np.random.default_rng(0)
    superchains, chains, draws = 3, 4, 5
    x = rng.standard_normal((superchains, chains, draws)) + rng.standard_normal((superchains, 1, 1))
    between = np.var([one.mean() for one in x], ddof=1)
    within = np.mean([np.var(one.mean(1), ddof=1) + np.mean([np.var(c, ddof=1) for c in one]) for one in x])
    assert nested_rhat(x.reshape(-1, draws), superchains) == pytest.approx(np.sqrt(1 + between / within))
    # One draw of every chain is enough of them.
    assert nested_rhat(x[..., :1].reshape(-1, 1), superchains) == pytest.approx(
        np.sqrt(1 + x[..., 0].mean(1).var(ddof=1) / x[..., 0].var(1, ddof=1).mean())
    )
    assert np.isnan(nested_rhat(x[:, 0, :1], superchains))
    with pytest.raises(tj.InputError, match="superchains must be a divisor"):
        nested_rhat(x.reshape(-1, draws), 5)


def test_nested_rhat_is_near_one_for_short_chains_whose_rhat_is_not():
    superchains, each, draws = 4, 128, 8
    chains = autoregressive(superchains * each, draws, 0.9)
    assert rhat(chains) > 1.2
    assert nested_rhat(chains, superchains) < 1.01
    # Those of a superchain that still know where they started are found out.
    starts = np.repeat([-1.0, 0.0, 1.0, 2.0], each)[:, None]
    assert nested_rhat(chains + starts, superchains) > 1.1


def test_values_must_be_chains_of_draws():
    with pytest.raises(tj.InputError, match=r"shape \(chains, draws\), got \(3,\)"):
        rhat(np.ones(3))


@pytest.mark.parametrize(
    ("value", "asked", "text"),
    [
        (1.0104, 1.01, "1.0104"),
        (1.2345, 1.01, "1.23"),
        (399.6, 400, "399.6"),
        (1234.5, 2000, "1,230"),
        (np.nan, 1, "nan"),
    ],
)
def test_what_is_lacking_is_told_apart_from_what_was_asked(value, asked, text):
    assert _told_apart(value, asked) == text
