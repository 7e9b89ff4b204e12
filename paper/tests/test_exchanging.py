"""Ladders whose paths exchange: sittings add up, and controls whose answer is known are called what they are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import trajens as tj
from trajens_paper import exchanging
from trajens_paper.annealing import Branches, Digits
from trajens_paper.coexistence import FLAT_BINDER, barrier, binder
from trajens_paper.controls import Perceptron
from trajens_paper.exchanging import Asked, Exchanged, Exchanging, Plan, joined
from trajens_paper.steepest import Ladders
from trajens_paper.transition_claims import verdict_at_rest
from trajens_paper.transition_hypotheses import HYPOTHESES, OPEN, growth, in_words, round_trips
from trajens_paper.transition_scale import LADDERS

Z = 6.0
TINY = Asked(Digits(32, 4, 2, sigma=0.3, prior=1.0), 2, Plan((15.0, 60.0), 4, 4, 8, 24, 16, 4, 2))
S = np.linspace(29.0, 71.0, 7)


def drawn(jump, seed=0, s=S, ladders=8, draws=100):
    """Losses (ladders, levels, draws) of two normal densities of states, `jump` apart, that weigh alike at s = 50."""
    rng = np.random.default_rng(seed)
    shape = ladders, len(s), draws
    is_low = rng.random(shape) < 1 / (1 + np.exp(-jump * (s - 50.0)))[:, None]
    return 1.5 + np.where(is_low, -jump / 2, jump / 2) - 0.01 * (s - 50.0)[:, None] + 0.1 * rng.normal(size=shape)


def verdicts(ladders):
    return {hypothesis.name: hypothesis.verdict_on(ladders).verdict for hypothesis in HYPOTHESES}


def test_binder_of_laws_that_are_known():
    rng = np.random.default_rng(0)
    assert binder(np.array([0.0, 1.0])) == pytest.approx(2 / 3)
    assert binder(np.linspace(0, 1, 10_001)) == pytest.approx(FLAT_BINDER, rel=1e-3)
    assert binder(rng.normal(3, 0.2, 400_000)) == pytest.approx(0.0, abs=0.01)
    weight = np.array([0.5, 0.25, 0.25])
    assert binder(np.array([0.0, 1.0, 1.0]), weight) == pytest.approx(2 / 3)


def test_the_barrier_is_that_of_two_normal_laws():
    """Of equal weight, distance d and variance 1 + width^2: ln p(peak) / p(valley), on a grid of draws."""
    draws = np.linspace(-8, 8, 20_001)
    for distance, width in ((5.0, 0.5), (4.0, 0.2)):
        weight = sum(np.exp(-((draws - side * distance / 2) ** 2) / 2) for side in (-1, 1))
        places = np.linspace(-6, 6, 2001)
        wide = sum(np.exp(-((places - side * distance / 2) ** 2) / (2 * (1 + width**2))) for side in (-1, 1))
        exact = np.log(wide.max() / wide[1000])
        assert barrier(draws, weight / weight.sum(), width) == pytest.approx(exact, rel=0.03)


def test_one_peak_has_no_barrier_and_a_few_draws_in_a_tail_make_none():
    even = np.linspace(-3, 3, 2001)
    law = np.exp(-(even**2) / 2)
    assert barrier(even, law / law.sum(), 0.2) == pytest.approx(0.0, abs=1e-9)
    tail = np.append(even, 9.0)
    assert barrier(tail, np.append(0.99 * law / law.sum(), 0.01), 0.2) == pytest.approx(0.0, abs=1e-9)


def test_two_phases_refute_what_one_phase_confirms():
    two = Ladders(S, drawn(1.2), tau=1)
    assert two.gaps == []
    assert verdict_at_rest(two) == "coexistence"
    found = verdicts(two)
    assert (found["hysteresis"], found["rest"]) == ("consistent", "consistent")
    assert [found[name] for name in ("variance", "Binder", "barrier")] == ["refuted"] * 3
    one = Ladders(S, drawn(0.0), tau=1)
    assert verdict_at_rest(one).startswith("crossover")
    assert [verdicts(one)[name] for name in ("variance", "Binder", "barrier")] == ["confirmed"] * 3


def test_what_is_seen_beside_a_gap_is_open():
    apart = drawn(0.0)
    apart[:, 3:] -= 1.5
    ladders = Ladders(S, apart, tau=1)
    assert len(ladders.gaps) == 1
    assert [verdicts(ladders)[name] for name in ("variance", "Binder", "barrier")] == [OPEN] * 3
    assert verdicts(ladders)["hysteresis"] == "consistent"
    assert [c.name for c in growth([ladders, ladders])] == []


def test_branches_that_differ_refute_rest():
    loss = drawn(0.0)
    loss[:4] += 0.2
    ladders = Ladders(S, loss, tau=1)
    assert verdicts(ladders)["hysteresis"] == "refuted"
    assert verdict_at_rest(ladders) == "not settled, the branches still differ at rest"


def test_growth_finds_the_exponents_of_stiff_paths():
    """Of which tau models have the law of one at tau s: Var(L / tau) and s tau stay as they are."""
    each = [Ladders(S / tau, drawn(0.0, seed=tau), tau) for tau in (1, 2, 4)]
    found = {c.name: c for c in growth(each)}
    assert found["Var(L / tau) with tau"].verdict == "consistent"
    assert abs(found["Var(L / tau) with tau"].value) < 0.3
    lines = list(in_words(each))
    assert len(lines) == len(HYPOTHESES) + len(found)
    assert "tau = 4: " in lines[2]


def test_sittings_add_up_only_where_levels_are_the_same():
    def sitting(draws, s=S):
        models = np.full((4, len(s), draws, 2), float(draws), np.float16)
        return Exchanged(s, models, np.full(4, draws), np.full(len(s) - 1, draws / 10), np.array([[draws, 2.0, 3.0]]))

    both = joined([sitting(2), sitting(6)])
    assert both.loss.shape == (4, len(S), 8)
    assert both.tau == 2
    np.testing.assert_array_equal(both.trips, [8] * 4)
    np.testing.assert_allclose(both.swapped, (2 * 0.2 + 6 * 0.6) / 8)
    assert round_trips(both).value == pytest.approx(8 / len(S))
    with pytest.raises(tj.InputError, match="sittings must have the same levels"):
        joined([sitting(2), sitting(2, 2 * S)])
    with pytest.raises(tj.InputError, match="sittings must be one or more"):
        joined([])


def test_a_plan_needs_ladders_of_both_branches():
    with pytest.raises(tj.InputError, match="ladders must be an even number"):
        replace_plan(ladders=5)
    with pytest.raises(tj.InputError, match="levels must be 3 or more"):
        replace_plan(levels=2)


def replace_plan(**changes):
    return replace(TINY.plan, **changes)


@pytest.mark.slow
def test_a_sitting_goes_on_from_the_files_of_the_one_before(tmp_path):
    home, out = tmp_path / "home", tmp_path / "out"
    Exchanging(home, "tiny", TINY).go_on(600.0, out, parts=2)
    assert sorted(file.name for file in out.iterdir()) == ["exchange-tiny-0.npz", "exchange-tiny-paths.npz"]
    # All that the next one has is what came back.
    again = Exchanging(out, "tiny", TINY)
    first = again.found()
    assert first.loss.shape == (4, 4, 8)
    again.go_on(600.0, parts=1)
    both = again.found()
    np.testing.assert_array_equal(both.loss[..., :8], first.loss)
    assert both.loss.shape == (4, 4, 12)
    np.testing.assert_allclose(both.cost[:, 0], [24 + 2 * 16, 6 + 16])
    with np.load(out / "exchange-tiny-paths.npz") as last:
        assert last["paths"].shape == (16, 2, TINY.seen.problem.dim)
        np.testing.assert_allclose(last["s"], first.s, rtol=1e-6)


@pytest.mark.slow
def test_a_sitting_that_has_no_time_leaves_paths_to_begin_with(tmp_path):
    ladders = Exchanging(tmp_path, "tiny", TINY)
    ladders.go_on(0.0)
    assert not ladders.has_begun
    assert (tmp_path / "exchange-tiny-paths.npz").exists()
    ladders.go_on(600.0, parts=1)
    assert ladders.has_begun


def test_half_of_the_ladders_begin_with_the_branch_up(tmp_path, monkeypatch):
    """A ladder has one run at all levels, and chains go through the levels of one ladder first."""
    ends = np.arange(2 * 4 * 2, dtype=float).reshape(2, 4, 2, 1, 1) * np.ones((2, 3))
    seen = Branches(S[:4], ends[..., 0, 0], ends[..., 0, 0], ends)
    monkeypatch.setattr(exchanging, "annealed", lambda *_, **settings: seen)
    levels, paths = Exchanging(tmp_path, "tiny", TINY)._first()
    np.testing.assert_allclose(levels * 2, np.geomspace(15.0, 60.0, 4))
    by_ladder = paths[:, 0, 0].reshape(4, 4)
    np.testing.assert_array_equal(by_ladder[0], ends[0, :, 0, 0, 0])
    np.testing.assert_array_equal(by_ladder[1], ends[0, :, 1, 0, 0])
    np.testing.assert_array_equal(by_ladder[2], ends[1, :, 0, 0, 0])


@pytest.mark.slow
def test_a_hole_is_called_coexistence_by_the_programs_of_the_network(tmp_path):
    asked = LADDERS["control"]["hole"]
    ladders = Exchanging(tmp_path, "hole", asked)
    ladders.go_on(600.0, parts=4)
    found = ladders.found().ladders
    assert verdict_at_rest(found) == "coexistence"
    assert [verdicts(found)[name] for name in ("variance", "Binder", "barrier")] == ["refuted"] * 3
    assert round_trips(ladders.found()).value > 0


@pytest.mark.long
def test_a_perceptron_is_called_a_crossover_and_has_its_exact_law_at_every_level(tmp_path):
    seen, tau, plan = LADDERS["control"]["perceptron"]
    assert isinstance(seen, Perceptron)
    short = replace(plan, strengths=(30.0, 200.0), levels=6, burn_in=300, part=300)
    ladders = Exchanging(tmp_path, "perceptron", Asked(seen, tau, short))
    ladders.go_on(600.0, parts=2)
    found = ladders.found()
    each = found.loss.mean(-1)
    error = each.std(0, ddof=1) / np.sqrt(len(each))
    exact = [seen.exact(tau, s) for s in found.s]
    assert (np.abs(each.mean(0) - [one.loss for one in exact]) < Z * error).all()
    second = ((found.loss - [[one.loss] for one in exact]) ** 2).mean(-1)
    error = second.std(0, ddof=1) / np.sqrt(len(second))
    assert (np.abs(second.mean(0) - [one.variance / tau**2 for one in exact]) < Z * error).all()
    assert verdict_at_rest(found.ladders).startswith("crossover")
    assert verdicts(found.ladders)["variance"] == "confirmed"
