"""How the loss falls in a start by evolution: what its generations saw, kept, resumed, drawn and told."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.figure import Figure

import trajens as tj
from tests.app.report.test_page import points_of, read
from tests.run.test_train import CHAINS, PERCEPTRON, TINY, trained
from tests.small_run import StopAfter, again, assert_same, assert_same_records, fresh
from trajens.app import picture
from trajens.app.cli import train
from trajens.app.report import history, numerals
from trajens.randomness import Key, Purpose, fold_in, key_of, normal, words
from trajens.records import EVOLUTION, Started, learning_curve
from trajens.run.advice import RunFacts
from trajens.run.outcome import report
from trajens.run.progress import Progress, ProgressBar
from trajens.sampling import starts
from trajens.sampling.starts import RECORDS, Evolution, Evolving, StartCurve, evolve
from trajens.storage import checkpoint


def test_losses_of_a_generation_are_those_of_the_models_that_it_tried(monkeypatch):
    monkeypatch.setattr(starts, "_GENERATIONS", 1)
    chains, how, generations = CHAINS, replace(Evolution(), examples=min(60, PERCEPTRON.size)), 5
    key = fold_in(key_of(np.uint32(3)), np.arange(chains))
    before, told = [np.float32([[2.0, -1.0], [0.3, 0.4], [0.0, 5.0], [-3.0, 0.1]])], []
    evolve(
        PERCEPTRON,
        key,
        Evolving.of(before[0]),
        generations,
        how,
        lambda now, losses: before.append(now.model) or told.append(losses),
    )
    x, y = (np.asarray(part, float) for part in PERCEPTRON.data)
    for number in range(generations):
        of_now = fold_in(key, np.full(chains, number))
        noise = np.asarray(normal(words(of_now, Purpose.START, how.pairs * 2))).reshape(chains, how.pairs, 2)
        word = words(of_now, Purpose.BATCH, 2)
        places = np.broadcast_to(np.arange(how.examples), (chains, how.examples))
        batch = np.asarray(PERCEPTRON.population.draw(Key(word[:, 0], word[:, 1]), places))
        spread = how.scale * how.spread[0] * (how.spread[1] / how.spread[0]) ** (number / (generations - 1))
        models = np.concatenate([before[number][:, None] + spread * noise, before[number][:, None] - spread * noise], 1)
        error = y[batch][:, None] - np.einsum("cbd,cmd->cmb", x[batch], models)
        np.testing.assert_allclose(told[number], [(0.5 * error**2).mean((1, 2))], rtol=1e-5)


def test_records_of_a_start_are_what_was_shown_of_it(monkeypatch):
    monkeypatch.setattr(starts, "_GENERATIONS", 1)
    shown = []
    run = tj.train(PERCEPTRON, **TINY, progress=shown.append)
    start = [now for now in shown if now.phase == "evolution"]
    assert run.start_records["loss"].shape == (CHAINS, len(start))
    assert len(start) > 20
    np.testing.assert_array_equal(run.start_records["data_used"].sum(0), [now.data_used for now in start])
    np.testing.assert_allclose(run.start_records["loss"].mean(0), [now.loss for now in start], rtol=1e-5)
    # They end where those of the path begin.
    assert (run.start_records["data_used"][:, -1] == run.run_state.start_pairs).all()
    assert (run.records["data_used"][:, 0] > run.run_state.start_pairs).all()
    assert_same(run, trained())
    assert_same_records(run.start_records, trained().start_records)


@pytest.mark.parametrize("generations", [1, 127, 128, 129, 1000])
def test_pieces_of_a_start_are_means_over_their_generations(generations):
    losses = np.random.default_rng(generations).uniform(0.1, 3.0, (generations, 2)).astype(np.float32)
    curves = [StartCurve(generations, 2), StartCurve(generations, 2)]
    for curve, step in zip(curves, (7, 64), strict=True):
        for done in range(0, generations, step):
            curve.add(min(done + step, generations), losses[done : done + step])
    records = curves[0].records(pairs=10)
    assert_same_records(records, curves[1].records(pairs=10))
    ends = records["data_used"][0] // 10
    assert len(ends) <= RECORDS
    assert len(ends) == generations or len(ends) > RECORDS // 2
    assert ends[-1] == generations
    pieces = np.split(losses.astype(float), ends[:-1])
    np.testing.assert_allclose(records["loss"], np.stack([piece.mean(0) for piece in pieces], axis=1))


# Kept, and gone on with --------------------------------------------------------------------------------------------


def without(file, *names):
    """Write an archive again as those of before, that had no such arrays."""
    arrays = checkpoint.load(file)
    kept = {name: values for name, values in arrays.items() if not name.startswith(names)}
    assert len(kept) < len(arrays)
    checkpoint.write(file, kept)


def test_a_run_at_rest_has_the_records_of_its_start(tmp_path, small_blocks):
    run = tj.train(PERCEPTRON, out=fresh(tmp_path / "a"), stop=StopAfter(6), **TINY)
    assert not run.is_complete
    whole = tj.train(PERCEPTRON, out=again(tmp_path / "a"), **TINY)
    for found in (run, whole, tj.StoredRun(tmp_path / "a"), trained().extend(3)):
        assert_same_records(found.start_records, trained().start_records)


def test_a_start_that_is_not_by_evolution_has_no_records():
    assert trained(start="random").start_records == {}
    assert RunFacts.of(trained(start="random")).started() is None


class Killed(Exception):
    """The process is gone."""


def kill_after(calls):
    """A stop that never returns again after so many calls; what was asked for last is not written down any more."""
    left = [calls]

    def stop():
        left[0] -= 1
        if left[0] < 0:
            raise Killed
        return False

    return stop


def test_a_start_that_was_killed_goes_on_with_its_records(tmp_path, monkeypatch, small_blocks):
    monkeypatch.setattr(starts, "_GENERATIONS", 5)
    with pytest.raises(Killed):
        tj.train(PERCEPTRON, out=fresh(tmp_path / "a"), stop=kill_after(2), **TINY)
    assert int(checkpoint.load(tmp_path / "a" / "start.npz")["done"]) == 10
    run = tj.train(PERCEPTRON, out=again(tmp_path / "a"), **TINY)
    assert_same(run, trained())
    assert_same_records(run.start_records, trained().start_records)
    assert_same_records(tj.StoredRun(tmp_path / "a").start_records, run.start_records)


def test_a_start_of_before_goes_on_and_has_the_records_that_come(tmp_path, monkeypatch, small_blocks):
    monkeypatch.setattr(starts, "_GENERATIONS", 5)
    with pytest.raises(tj.Stopped):
        tj.train(PERCEPTRON, out=fresh(tmp_path / "a"), stop=StopAfter(1), **TINY)
    without(tmp_path / "a" / "start.npz", "losses", "counted")
    run = tj.train(PERCEPTRON, out=again(tmp_path / "a"), **TINY)
    assert_same(run, trained())
    assert_same_records(run.start_records, {n: values[:, 10:] for n, values in trained().start_records.items()})


def test_a_run_of_before_goes_on_and_is_shown_without_its_start(tmp_path, small_blocks):
    tj.train(PERCEPTRON, out=fresh(tmp_path / "a"), stop=StopAfter(6), **TINY)
    for file in checkpoint.checkpoints(tmp_path / "a"):
        without(file, "start.")
    stored = tj.StoredRun(tmp_path / "a")
    assert stored.start_records == {}
    panels = list(read(tmp_path / "a").panels())
    assert panels[0] == "loss"
    assert "learning" not in panels
    run = tj.train(PERCEPTRON, out=again(tmp_path / "a"), **TINY)
    assert_same(run, trained())
    assert run.start_records == {}
    assert "evolution strategy\n" in report(run)


# Drawn, and told ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def at_rest(tmp_path_factory):
    """A run in a directory."""
    out = tmp_path_factory.mktemp("start") / "run"
    tj.train(PERCEPTRON, out=out, **TINY, progress=False)
    return tj.StoredRun(out)


def test_the_page_begins_with_the_start(at_rest):
    found = read(at_rest.path)
    assert next(iter(found.panels())) == "learning"
    share = at_rest.start_records["data_used"][0, -1] / (TINY["budget"] / CHAINS)
    assert f"start by evolution, {share:.0%} of the budget".replace("%", " %") in found.text
    points = points_of(found, "learning")
    assert list(points) == [f"chain {chain}" for chain in range(CHAINS)]
    for chain, told in enumerate(points.values()):
        start, path = (
            {n: t[n][chain] for n in ("data_used", "loss")} for t in (at_rest.start_records, at_rest.records)
        )
        pairs, loss = ([*start[name], *path[name]] for name in ("data_used", "loss"))
        assert told == [[numerals.number(a), numerals.number(b)] for a, b in zip(pairs, loss, strict=True)]


def test_before_the_first_record_the_page_has_the_start_alone(at_rest):
    [curve] = history.learning_curves(replace(RunFacts.of(at_rest), records={}))
    np.testing.assert_array_equal(curve.y, at_rest.start_records["loss"].mean(0))


def test_the_picture_begins_with_the_start(at_rest, monkeypatch, tmp_path):
    drawn, draw = [], picture._draw_learning
    monkeypatch.setattr(picture, "_draw_learning", lambda axes, *more: drawn.append(axes) or draw(axes, *more))
    monkeypatch.setattr(picture, "_draw_numbers", lambda *_: None)
    picture.draw(tmp_path / "a.png", at_rest, SimpleNamespace(is_classifier=False), None, "", 1)
    assert (tmp_path / "a.png").stat().st_size > 20_000
    [axes], begun = drawn, RunFacts.of(at_rest).started([1])
    pairs, loss = learning_curve(at_rest.start_records, at_rest.records, [1])
    [line], [shade] = axes.lines, axes.patches
    np.testing.assert_array_equal(line.get_xdata(), pairs)
    np.testing.assert_array_equal(line.get_ydata(), loss)
    np.testing.assert_array_equal(loss, [*at_rest.start_records["loss"][1], *at_rest.records["loss"][1]])
    assert (shade.get_x(), shade.get_width()) == (0, begun.pairs)
    share = f"{begun.share:.0%}".replace("%", "\u00a0%")
    assert axes.get_title() == f"start by evolution (shaded, {share} of the budget), then the path"


@pytest.mark.parametrize(("lowest", "scale"), [(0.2, "log"), (0.8, "linear"), (-1.0, "linear")])
def test_a_loss_that_falls_far_has_a_logarithmic_axis(lowest, scale):
    axes = Figure().subplots()
    begun, curve = Started(1.0, 0.5, 1.0, EVOLUTION), (np.arange(3.0), np.array([2.0, 1.0, lowest]))
    picture._draw_learning(axes, curve, begun, "nats")
    assert axes.get_yscale() == scale


def test_what_a_start_came_to_is_the_mean_over_the_chains_asked_for():
    run = trained()
    case, last = RunFacts.of(run), run.start_records["loss"][:, -1]
    assert case.started().loss == pytest.approx(last.mean())
    assert case.started([1, 3]).loss == pytest.approx(last[[1, 3]].mean())
    assert case.started().share == pytest.approx(run.run_state.start_pairs / (TINY["budget"] / CHAINS))
    assert f"{case.started().share:.0%} of the budget, to a loss of {last.mean():.4g}" in report(run)


def test_the_numbers_that_are_printed_have_the_start():
    numbers, begun = train._numbers(trained(), [2]), RunFacts.of(trained()).started([2])
    assert numbers["start"] == {"pairs": begun.pairs, "share": begun.share, "loss": begun.loss, "way": "evolution"}
    assert "start" not in train._numbers(trained(start="random"))


def test_the_bar_of_a_path_begins_with_the_start():
    bar = ProgressBar(100, 60, curve=True, unit="pairs", earlier=[(0.0, 2.0), (50.0, 2.0), (60.0, 1.0)])
    bar._losses.append((100.0, 1.0))
    heading, *rows = str(bar._drawn_curve()).split("\n")
    curve = np.array([list(row[10:]) for row in rows])
    half = curve.shape[1] // 2
    assert (curve[:, : half - 1] == "█").all()
    assert (curve[:4, -half // 2 :] == " ").all()
    assert heading == "loss per model"
    bar(Progress(0, 1.0, 1.0, 0.5, 32.0, 100, 1))
    bar.close()
