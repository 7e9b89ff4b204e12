"""The figure "transition": two phases are called so and one is not, runs are kept, the quick scale has a verdict."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import trajens as tj
from test_figures import drawn_again
from trajens import thermo
from trajens.thermo.fluctuations import variance_of
from trajens_paper import FIGURES
from trajens_paper.annealing import Branches, Digits, Ladder
from trajens_paper.claims import Measured
from trajens_paper.coexistence import (
    FLAT_BIMODALITY,
    FLAT_SHARE,
    bimodality,
    exponent,
    jump,
    over_runs,
    share,
)
from trajens_paper.escape import escapes, papers_runs, still_growing
from trajens_paper.figure_transition import figure_transition
from trajens_paper.frame import RESULTS
from trajens_paper.golf_hole import exact_hole, sampled_hole
from trajens_paper.resting import Rested, virial
from trajens_paper.transition_case import Case, Sampling
from trajens_paper.transition_claims import at_most, claims_of, hysteresis, share_of_jump, verdict_of
from trajens_paper.transition_scale import SCALES, Scale

SMALL = Digits(32, 4, 2, sigma=0.3, prior=1.0)
TINY = Scale(SMALL, (1, 2), (15.0, 60.0, 200.0), 2, 16, 40, looks=4)
RUNS, DRAWS = 6, 60
S = np.array([25.0, 35.0, 45.0, 55.0, 65.0, 75.0])


def two_points(weight):
    """Of 1000 values, 1000 `weight` are 1 and the others 0."""
    return (np.arange(1000) < 1000 * weight).astype(float)


def test_bimodality_of_laws_that_are_known():
    rng = np.random.default_rng(0)
    assert bimodality(two_points(0.5)) == pytest.approx(1.0)
    assert bimodality(two_points(0.1)) == pytest.approx(1.0)
    assert bimodality(np.linspace(0, 1, 10_001)) == pytest.approx(FLAT_BIMODALITY, rel=1e-3)
    assert bimodality(rng.normal(3, 0.2, 200_000)) == pytest.approx(1 / 3, rel=0.02)
    assert bimodality(rng.gamma(20, 0.1, 200_000)) < FLAT_BIMODALITY


def test_the_share_is_one_for_two_phases_and_a_third_for_a_flat_law():
    both, flat = two_points(0.5).var(), np.linspace(0, 1, 10_001).var()
    assert share(both, 1.0) == pytest.approx(1.0)
    assert share(flat, 1.0) == pytest.approx(FLAT_SHARE, rel=1e-3)
    assert jump(both) == pytest.approx(1.0)


def test_chains_that_are_stuck_in_either_phase_still_show_both():
    stuck = np.repeat([0.0, 1.0], 4)[:, None] + np.random.default_rng(1).normal(0, 0.05, (8, 30))
    assert over_runs(bimodality, stuck).value > 0.9
    assert share_of_jump(stuck).value > 0.9


def test_the_error_over_runs_is_the_scatter_of_what_it_is_of():
    rng = np.random.default_rng(2)
    found = [over_runs(lambda x: float(np.log(x.mean())), rng.exponential(2.0, (12, 5))) for _ in range(400)]
    scatter = np.std([number.value for number in found])
    predicted = np.sqrt(np.mean([number.error**2 for number in found]))
    assert found[0].dof == 11
    assert 0.85 * scatter < predicted < 1.25 * scatter


def test_the_exponent_is_that_of_a_power():
    taus = np.array([1.0, 2.0, 8.0])
    found = exponent(taus, [Measured(3 * tau**-0.7, 0.1 * tau**-0.7, 5) for tau in taus])
    assert found.value == pytest.approx(-0.7)
    x = np.log(taus) - np.log(taus).mean()
    assert found.error == pytest.approx((0.1 / 3) / np.sqrt((x**2).sum()))
    assert 5 < found.dof < 15


def test_hysteresis_is_the_mean_distance_in_ln_s():
    loss = np.zeros((2, 3, 2))
    loss[0] += 0.25
    np.testing.assert_allclose(hysteresis(np.array([1.0, 3.0, 50.0]), loss), 0.25)


def test_a_ladder_goes_up_and_down_by_equal_steps():
    ladder = Ladder((1.0, 2.0, 4.0), 40, 4)
    assert ladder.both_ways == (1.0, 2.0, 4.0, *(12.0,) * 20, 4.0, 2.0, 1.0)
    assert [ladder.steps(level) for level in range(3)] == [(0, 25), (1, 24), (2, 23)]
    assert ladder.late(2) == slice(10, 12)
    schedule = ladder.schedule(tau=3)
    assert [tj.schedule.value_at(schedule, epoch) for epoch in (0, 119, 120, 360, 2760)] == [1.0, 1.0, 2.0, 12.0, 4.0]
    with pytest.raises(tj.InputError, match="looks must be even and divide the epochs"):
        Ladder((1.0, 2.0, 4.0), 40, 3)


def case(at_rest, slow=0.1, fast=0.4, tau=1):
    """A Gaussian case of which the losses at rest (2, levels, runs, draws) and the lags are given."""
    rng = np.random.default_rng(5)
    mean, levels = at_rest.mean((-2, -1)), len(S)

    def lag(size):
        return Branches(
            S,
            mean[..., None] + np.array([1, -1])[:, None, None] * size + rng.normal(0, 0.01, (2, levels, RUNS)),
            np.ones((2, levels, RUNS)),
        )

    chains = at_rest.transpose(1, 0, 2, 3).reshape(levels * 2 * RUNS, DRAWS, 1)
    curve = thermo.curve(thermo.Observed(np.repeat(S, 2 * RUNS), chains * tau))
    ones = np.ones((2, levels, RUNS)) + rng.normal(0, 0.01, (2, levels, RUNS))
    rest = Rested(S, at_rest, chains.reshape(levels, 2 * RUNS, DRAWS, 1), ones, ones, curve)
    return Case(1.0, tau, lag(slow), lag(fast), ones, rest)


def phase(rng, s, plateau, variance=0.01):
    """Losses of one phase: a normal density of states, around 0 at the s where `plateau` would be the mean."""
    return plateau - variance * (s - S.mean()) + np.sqrt(variance) * rng.normal(size=(2, RUNS, DRAWS))


def one_phase_losses(seed=0):
    """Losses that fall smoothly from 2.1 to 0.9: P_s(L) ~ g(L) exp(-s L) with a normal g."""
    rng = np.random.default_rng(seed)
    return np.stack([phase(rng, s, 1.5, 0.02) for s in S], axis=1)


def two_phase_losses(seed=0, jump=0.8):
    """Two normal densities of states that weigh alike at the mean of S, which is no level."""
    rng = np.random.default_rng(seed)

    def at(s):
        is_low = rng.random((2, RUNS, DRAWS)) < 1 / (1 + np.exp(-jump * (s - S.mean())))
        return np.where(is_low, phase(rng, s, 1.5 - jump / 2), phase(rng, s, 1.5 + jump / 2))

    return np.stack([at(s) for s in S], axis=1)


def test_a_smooth_fall_is_a_crossover():
    found = case(one_phase_losses())
    words = verdict_of(found)
    assert words.startswith("crossover; two phases of equal weight would be less than 0.3")
    assert words.endswith("apart")
    assert found.ladders.gaps == []
    [(s, variance)] = found.ladders.curves
    assert len(s) > 2 * len(S)
    np.testing.assert_allclose(variance, 0.02, rtol=0.25)


def test_two_phases_are_called_coexistence_though_no_level_shows_them():
    found = case(two_phase_losses())
    at_levels = np.swapaxes(found.rest.loss, 0, 1)
    assert max(variance_of(np.concatenate(level)) for level in at_levels) < FLAT_SHARE * (found.ladders.fall / 2) ** 2
    assert found.ladders.steepest == pytest.approx(S.mean(), abs=2.0)
    assert found.ladders.law.variance == pytest.approx(0.4**2 + 0.01, rel=0.15)
    assert verdict_of(found) == "coexistence"


def test_levels_that_are_not_linked_leave_it_open_between_them():
    found, hole = case(two_phase_losses(jump=2.0)), np.tile(two_points(0.5), (8, 1))
    ladders = found.ladders
    [gap] = ladders.gaps
    assert (S[gap.low], S[gap.high]) == (45.0, 55.0)
    assert ladders.fall_in(gap) == pytest.approx(2.0 + 0.01 * 10, abs=0.05)
    assert len(ladders.curves) == 2
    assert verdict_of(found).startswith(
        "not settled between s = 45 and 55, which are not linked; two phases there would be"
    )
    with pytest.raises(tj.InputError, match="a level or between linked ones"):
        ladders.law_at(50.0)
    claims = {c.name: c.verdict for c in claims_of([found, case(two_phase_losses(jump=2.0), tau=2)], hole)}
    assert claims["variance at most, tau = 1"] == "refuted"
    assert "growth with tau" not in claims
    assert "growth with tau" in {c.name for c in claims_of([case(one_phase_losses(), tau=tau) for tau in (1, 2)], hole)}


def test_all_that_is_not_linked_is_named():
    loss = one_phase_losses()
    loss[:, 2:] -= 1.5
    loss[:, 4:] -= 1.0
    words = verdict_of(case(loss))
    assert words.startswith("not settled between s = 35 and 45 and between 55 and 65, which are not linked")
    assert "less than 1.7 and 1.2 apart" in words


def test_two_phases_that_are_close_together_are_left_possible():
    """Their variance is small beside the fall; the number that says how far they can be apart covers them."""
    found = case(two_phase_losses(jump=0.45))
    claims = {c.name: c for c in claims_of([found], np.tile(two_points(0.5), (8, 1)))}
    assert claims["variance, tau = 1"].verdict == "confirmed"
    assert claims["peaks, tau = 1"].verdict == "refuted"
    assert verdict_of(found).endswith("apart, and two peaks are possible")
    assert at_most(found.ladders.measured(lambda some: jump(some.law.variance))) > 0.45


def test_the_bound_is_that_of_the_largest_variance_and_not_of_the_largest_s_times_it():
    """The law at small s is wider: a normal density of states with a longer tail towards large losses."""
    rng = np.random.default_rng(7)
    variances = np.array([0.03, 0.03, 0.02, 0.02, 0.02, 0.02])
    means = 2.0 - np.cumsum(variances * 10)
    noise = rng.normal(size=(2, len(S), RUNS, DRAWS))
    ladders = case(means[:, None, None] + np.sqrt(variances)[:, None, None] * noise).ladders
    assert ladders.steepest < 45
    assert ladders.law.variance == pytest.approx(0.03, rel=0.2)


def test_branches_that_differ_next_to_the_steepest_point_leave_it_open():
    """Though they agree on average."""
    loss = two_phase_losses(jump=0.45)
    loss[0, 2] += 0.15
    loss[0, 3] -= 0.15
    found = case(loss)
    claims = {c.name: c.verdict for c in claims_of([found], np.tile(two_points(0.5), (8, 1)))}
    assert claims["branches agree, tau = 1"] == "consistent"
    assert verdict_of(found) == "not settled, the branches still differ at rest"


def test_branches_that_differ_at_rest_leave_it_open():
    loss = one_phase_losses()
    loss[0] += 0.1
    assert verdict_of(case(loss)) == "not settled, the branches still differ at rest"


def test_a_loss_that_still_changes_at_rest_leaves_it_open():
    """Branches may agree because both are late."""
    loss = one_phase_losses() + np.linspace(0.1, 0, DRAWS)
    assert verdict_of(case(loss)) == "not settled, the loss still changes at rest"


@pytest.mark.parametrize(("growth", "verdict"), [(1.5, "drift of the weights"), (1.0, "not settled")])
def test_weights_that_grow_under_a_flat_law_are_drift(growth, verdict):
    rng = np.random.default_rng(4)
    weights = np.array([1.0, growth])[:, None, None] + rng.normal(0, 0.02, (2, len(S), RUNS))
    seen = Branches(S, one_phase_losses().mean(-1), weights)
    virials = 0.5 + rng.normal(0, 0.02, (2, len(S), RUNS))
    assert verdict_of(Case(None, 1, seen, seen, virials, None)).startswith(verdict)


def test_the_virial_of_an_exact_sample_is_one():
    """Of the linear perceptron with a Gaussian law, whose paths can be drawn; twice s is not its s."""
    rng = np.random.default_rng(6)
    x = rng.normal(size=(50, 3)).astype(np.float32)
    y = np.zeros(50, np.float32)

    def loss(theta, batch):
        return (batch[1] - batch[0] @ theta) ** 2 / 2

    tau, s, sigma, prior, chains = 2, 5.0, 0.3, 0.2, 500
    target = tj.Target(tj.Problem(loss, (x, y), 3), tau, sigma, s, prior=prior)
    bonds = np.diff(np.eye(tau), axis=0)
    along = bonds.T @ bonds / sigma**2 + np.diag([prior**-2, 0])
    precision = np.kron(along, np.eye(3)) + s * np.kron(np.eye(tau), x.T @ x / 50)
    noise = np.linalg.solve(np.linalg.cholesky(precision).T, rng.normal(size=(tau * 3, chains)))
    paths = noise.T.reshape(chains, tau, 3)
    found = virial(target, np.full(chains, s), paths)
    error = found.std() / np.sqrt(chains)
    assert abs(found.mean() - 1) < 5 * error
    assert abs(virial(target, np.full(chains, 2 * s), paths).mean() - 1) > 5 * error


@pytest.mark.slow
def test_the_golf_hole_is_sampled_and_known(tmp_path):
    loss, weights = exact_hole()
    mean, second = (weights * loss).sum(), (weights * loss**2).sum()
    sampled = sampled_hole(tmp_path / "hole", 24, 2_000, seed=1)
    found = sampled.mean(1)
    assert abs(found.mean() - mean) < 5 * found.std(ddof=1) / np.sqrt(24)
    spread = share_of_jump(sampled)
    assert abs(spread.value - 4 * (second - mean**2)) < 5 * spread.error
    assert spread.value > FLAT_SHARE
    assert over_runs(bimodality, sampled).value > FLAT_BIMODALITY


@pytest.mark.slow
def test_a_tiny_figure_is_drawn_and_drawn_again_from_its_runs(tmp_path, monkeypatch):
    first = figure_transition(tmp_path, scale=TINY)
    again = drawn_again(monkeypatch, figure_transition, tmp_path, scale=TINY)
    assert again.claims == first.claims
    with (tmp_path / "figure_transition.csv").open() as file:
        rows = list(csv.DictReader(file))
    # Two ways of two annealings for each prior and tau, and at rest each way and both together, at three levels.
    assert len(rows) == 3 * (4 * 4 + 2 * 3)
    assert {row["prior"] for row in rows} == {"1", "flat"}
    home = tmp_path / "runs" / "transition-own-seed-0"
    assert (home / "1.0-tau-2-rest").is_dir()
    kept = Sampling(home, TINY, 0, 1.0, 2)
    from_file, from_runs = kept.kept(home), kept.sampled()
    np.testing.assert_array_equal(from_file.rest.loss, from_runs.rest.loss)
    np.testing.assert_array_equal(from_file.rest.curve.variance, from_runs.rest.curve.variance)
    np.testing.assert_array_equal(from_file.slow.weight_rms, from_runs.slow.weight_rms)
    np.testing.assert_array_equal(from_file.virial, from_runs.virial)
    assert replace(kept, seed=1).kept(home) is None
    assert replace(kept, scale=replace(TINY, rest=44)).kept(home) is None
    file = home / "1.0-tau-2.npz"
    file.write_bytes(file.read_bytes()[:-200])
    with pytest.raises(tj.InputError, match="must be whole, got a damaged one"):
        kept.kept(home)


@pytest.mark.long
def test_the_quick_figure_calls_the_fall_a_crossover_and_the_flat_prior_drift(tmp_path):
    finished = FIGURES["transition"](tmp_path, scale="quick")
    claims = {c.name: c for c in finished.claims}
    assert [claims[f"two phases: {what}"].verdict for what in ("peaks", "variance")] == ["confirmed"] * 2
    for tau in (1, 2, 4):
        assert claims[f"variance, tau = {tau}"].verdict == "confirmed"
        assert claims[f"lag, tau = {tau}"].verdict == "confirmed"
        for name in ("branches agree", "loss stays", "virial"):
            assert (
                abs(claims[f"{name}, tau = {tau}"].value - claims[f"{name}, tau = {tau}"].reference)
                < 5 * claims[f"{name}, tau = {tau}"].error
            )
        assert claims[f"weights grow, tau = {tau}"].verdict == "confirmed"
        assert claims[f"peaks, tau = {tau}"].value < FLAT_BIMODALITY
        assert f"Gaussian 1, tau = {tau}: crossover" in "\n".join(finished.remarks)


def test_escapes_and_returns_are_counted_by_what_runs_did():
    """In turn: guessed, learned, escaped, returned, and guessed before it learned."""
    guess, learn = [2.35] * 10, [1.2] * 10
    loss = np.array([guess * 3, guess + learn * 2, learn + guess * 2, learn + guess + learn, guess * 2 + learn])
    weights = np.ones((5, 30))
    weights[2, -1] = 2.0
    found = escapes({"loss": loss, "weight_rms": weights, "epoch": np.tile(np.arange(1, 31), (5, 1))})
    assert found[:4] == (5, 4, 2, 1)
    np.testing.assert_array_equal(found.grown, [2.0])
    assert list(still_growing([found])) == []
    [claim] = still_growing([found._replace(grown=np.tile([1.4, 1.5], 5))])
    assert claim.verdict == "confirmed"
    assert "of 5, 4 learned, 2 of these went back to guessing and 1 came back" in claim.claim


def test_the_papers_runs_escape_and_do_not_come_back(monkeypatch):
    monkeypatch.chdir(Path(__file__).parents[2])
    each = list(papers_runs())
    assert sum(e.runs for e in each) == 180
    assert sum(e.escaped for e in each) == 18
    assert sum(e.returned for e in each) == 0
    [claim] = still_growing(each)
    assert claim.verdict == "confirmed"


def test_what_cannot_have_an_error_or_a_slope_is_refused():
    for wrong, sentence in (
        ({"runs": 1}, "runs must be at least 2"),
        ({"strengths": (1.0, 2.0)}, "strengths must be 3 or more"),
        ({"epochs": 18}, "epochs must be a multiple of 4"),
    ):
        with pytest.raises(tj.InputError, match=sentence):
            replace(TINY, **wrong)


def test_the_papers_scale_is_drawn_from_what_is_kept(tmp_path, monkeypatch):
    """All branches agree at rest, and the short paths are linked from one end of the ladder to the other."""
    monkeypatch.chdir(Path(__file__).parents[2])
    verdicts = {}
    for prior in (0.3, None):
        for tau in SCALES["paper"].taus:
            found = Sampling(tmp_path, SCALES["paper"], 0, prior, tau).kept(RESULTS / "transition")
            assert found is not None
            verdicts[prior, tau] = verdict_of(found)
    assert all(verdicts[None, tau].startswith("drift") for tau in SCALES["paper"].taus)
    assert all(verdicts[0.3, tau].startswith("crossover") for tau in (1, 2, 4))
    gaps = {8: "6.875 and 9.375 and between 9.375 and 13.75", 16: "3.438 and 4.688", 32: "2.344 and 3.438, which"}
    for tau, gap in gaps.items():
        assert verdicts[0.3, tau].startswith(f"not settled between s = {gap}")


def test_the_paper_scale_needs_a_gpu(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("jax.default_backend", lambda: "cpu")
    with pytest.raises(tj.InputError, match="scale paper needs a GPU"):
        figure_transition(tmp_path, scale="paper")
