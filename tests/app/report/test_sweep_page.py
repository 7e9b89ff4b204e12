"""The page about a sweep: what varies, numbers with the error that is said, and nothing averaged but seeds."""

import math
from pathlib import Path

import numpy as np
import pytest

from tests.app.report.sweep_rows import look, some_that_failed
from tests.app.report.test_page import LIMIT, Read, points_of
from tests.command import call
from trajens.app.experiment import Experiment
from trajens.app.report import SweepView, sweep_page
from trajens.app.report.sweep_charts import SLICES, Layout
from trajens.app.report.sweep_design import Design
from trajens.app.report.sweep_measures import QUANTITIES, errors_said, measure
from trajens.app.sweeps.directory import Outcome, SweepDirectory, TaskState, keep_outcome
from trajens.app.sweeps.lease import Lease
from trajens.app.sweeps.plan import Plan
from trajens.app.sweeps.results import looks_at
from trajens.records import of_few
from trajens.run.stored import StoredRun

LOSS = QUANTITIES[0]
SMALL = {"problem": "perceptron", "epochs": 200, "chains": 4, "records": 4, "tau": 2}


def page_of(looks, folder=Path("/nowhere")):
    text = sweep_page(SweepView(folder / "a sweep", tuple(looks)), folder)
    assert len(text.encode()) < LIMIT
    found = Read(text)
    for name, attributes in found.tags:
        assert name not in ("link", "iframe", "object", "embed", "base", "form")
        assert attributes.get("src", "data:").startswith("data:")
        assert name == "a" or attributes.get("href", "data:").startswith("data:")
    assert text.count("<script>") == 1
    return found


def roles(looks):
    design = Design.of(looks)
    return [axis.name for axis in design.axes], design.tied, design.has_repeats


def test_axes_are_what_varies_and_seeds_are_repeats():
    looks = [look(tau=tau, s=s, seed=seed) for tau in (8, 2) for s in (5.0, 20.0) for seed in (1, 2)]
    assert roles(looks) == (["tau", "s"], {}, True)
    assert Design.of(looks).axes[0].values == (2, 8)


def test_options_that_go_with_another_are_no_axes():
    """As in the figure mnist: longer paths have longer runs and a seed of their own."""
    looks = [look(tau=tau, s=s, epochs=10 * tau, seed=7 * tau % 5) for tau in (1, 2, 4) for s in (5.0, 20.0)]
    assert roles(looks) == (["tau", "s"], {"epochs": ("tau",), "seed": ("tau",)}, False)
    looks = [look(tau=tau, sigma=sigma, epochs=int(tau / sigma)) for tau in (1, 2) for sigma in (0.1, 0.2)]
    assert roles(looks) == (["tau", "sigma"], {"epochs": ("tau", "sigma")}, False)


def test_settings_drawn_at_random_go_with_nothing():
    rng = np.random.default_rng(0)
    looks = [look(sigma=float(a), s=float(b)) for a, b in rng.uniform(size=(20, 2))]
    assert roles(looks) == (["s", "sigma"], {}, False)
    looks = [look(s=float(a), acceptance=str(k % 3)) for k, a in enumerate(rng.uniform(size=20))]
    assert roles(looks) == (["s", "acceptance"], {}, False)


def test_names_are_in_the_order_of_the_plan_and_lists_are_values():
    looks = [look(model="mlp", hidden=[64, 32]), look(model="mlp", hidden=[8]), look(model="cnn"), look(prior="flat")]
    design = Design.of(looks)
    assert {axis.name: axis.labels for axis in design.axes}["hidden"] == ["64-32", "8", "default"]
    assert not any(axis.is_number for axis in design.axes)


def test_errors_are_over_seeds_or_else_over_chains():
    alone, other, third = (look(s=4.0, seed=seed) for seed in (1, 2, 3))
    point = measure([alone], LOSS)
    assert point == (14.0, 0.14, 1, 4)
    assert errors_said([point], LOSS) == "Errors: standard errors over the 4 chains of one run."
    both = measure([alone, other], LOSS)
    assert both == (19.0, pytest.approx(5.0 * of_few(2)), 2, 2)
    three = measure([alone, other, third, look(TaskState.RUNNING, s=4.0, seed=4)], LOSS)
    assert three == (24.0, pytest.approx(10 / math.sqrt(3) * of_few(3)), 3, 3)
    assert errors_said([both, three], LOSS) == "Errors: standard errors over 2 to 3 seeds, of the means of their runs."
    assert errors_said([both, point, point], LOSS).endswith(
        "; of 2 of 3 points standard errors over the 4 chains of one run."
    )
    single = measure([look(s=4.0, chains=1)], LOSS)
    assert errors_said([single], LOSS) == "Errors: none, since one chain of one run has no error."
    assert measure([look(TaskState.FAILED)], LOSS) is None
    assert measure([alone], next(q for q in QUANTITIES if q.key == "loss_held_out")) is None


def test_one_option_is_a_curve_with_the_numbers_of_the_runs():
    looks = [look(s=s, seed=seed) for s in (5.0, 20.0, 500.0) for seed in (1, 2)]
    found = page_of(looks)
    assert set(found.panels()) == {"loss", "acceptance", "batch-size"}
    [points] = points_of(found, "loss").values()
    assert points == [["5", "20_±_9.187"], ["20", "35_±_9.187"], ["500", "515_±_9.187"]]
    assert "standard errors over 2 seeds" in found.text
    assert "The lowest loss of a run is 15 ± 0.15, at s = 5, seed = 1." in found.text


def test_two_options_are_curves_and_a_map():
    looks = [look(tau=tau, s=s, accuracy=0.9) for tau in (1, 2, 4) for s in (5.0, 20.0)]
    found = page_of(looks[:-1])
    assert set(found.panels()) == {
        name + kind for name in ("loss", "acceptance", "batch-size", "vote-accuracy") for kind in ("", "-map")
    }
    assert list(points_of(found, "loss")) == ["s = 5", "s = 20"]
    [shown] = [a for _, a in found.tags if a.get("data-words") == "tau = {b}, s = {a}: {v}"][:1]
    assert shown["data-rows"] == "20|5"
    assert shown["data-columns"] == "1|2|4"
    assert shown["data-values"].replace("\u00a0", " ").split("|") == [
        *("20 ± 0.2", "10 ± 0.1", "nothing complete"),
        *("5 ± 0.05", "2.5 ± 0.025", "1.25 ± 0.013"),
    ]


def test_three_options_are_a_chart_for_every_value_of_the_third():
    looks = [look(tau=t, s=s, acceptance=a) for t in (1, 2, 4) for s in (5.0, 9.0) for a in ("paper", "penalty")]
    layout = Layout.of(Design.of(looks).axes)
    assert (layout.x.name, layout.lines.name, [axis.name for axis in layout.rest]) == ("tau", "s", ["acceptance"])
    found = page_of(looks)
    assert {"loss-0", "loss-1", "loss-0-map", "loss-1-map"} < set(found.panels())
    assert "Loss per model, acceptance = paper" in found.texts
    assert "One chart for every value of acceptance, all to one scale." in found.text
    assert points_of(found, "loss-1")["s = 9"][2] == ["4", "2.25_±_0.0225"]


def test_names_are_points_beside_each_other():
    found = page_of([look(acceptance=name) for name in ("penalty", "a name that is far too long for an axis", "b")])
    [points] = points_of(found, "acceptance").values()
    assert [x for x, _ in points] == ["penalty", "a_name_that_is_far_too_long_for_an_axis", "b"]
    assert all(len(text) < 20 for text in found.texts if "…" in text)


def test_settings_that_are_scattered_are_points_over_every_option():
    rng = np.random.default_rng(0)
    looks = [look(sigma=float(a), s=float(b), refresh=float(c)) for a, b, c in rng.uniform(0.1, 1, (40, 3))]
    found = page_of(looks)
    assert {name for name in found.panels() if name.startswith("loss")} == {"loss-0", "loss-1", "loss-2"}
    assert "nothing is held fixed, and nothing averaged but seeds" in found.text
    [points] = points_of(found, "loss-0").values()
    assert len(points) == 40


def test_what_failed_and_what_is_not_complete_is_said_and_not_drawn():
    looks = some_that_failed([look(s=float(s)) for s in range(1, 7)])
    found = page_of(looks)
    assert "3 of 6 runs complete, 1 running, 1 failed, 1 waiting." in found.text
    assert "a sentence with <b>" in found.texts
    [points] = points_of(found, "loss").values()
    assert [x for x, _ in points] == ["4", "5", "6"]
    found = page_of(some_that_failed([look(s=1.0), look(s=2.0)]))
    assert found.panels() == {}
    assert "No run is complete and has a record after burn-in." in found.text


def test_seeds_alone_are_one_number_each():
    found = page_of([look(seed=seed) for seed in (1, 2, 3)])
    assert found.panels() == {}
    assert "Loss per model 21 ± 7.6 (3 seeds) Errors: standard errors over 3 seeds" in found.text


def test_pages_of_runs_are_linked_from_where_the_page_is(tmp_path):
    looks = [look(model=name) for name in ("a b", "c&d")]
    sweep = tmp_path / "a sweep"
    for run in looks[:1]:
        (sweep / "runs" / run.run).mkdir(parents=True)
        (sweep / "runs" / run.run / "report.html").touch()
    for folder, way in ((sweep, ""), (tmp_path / "pages", "../a%20sweep/")):
        text = sweep_page(SweepView(sweep, tuple(looks)), folder)
        links = [a["href"] for name, a in Read(text).tags if name == "a"]
        assert links == [f"{way}runs/model%3Da%20b/report.html"]


def test_ten_thousand_runs_make_a_page_that_can_be_read():
    values = np.linspace(0.1, 1, 10).round(2).tolist()
    looks = [
        look(tau=t, s=s, sigma=a, fraction=b) for t in range(1, 11) for s in values for a in values for b in values
    ]
    found = page_of(looks)
    assert sum(name.startswith("loss") for name in found.panels()) == 2 * SLICES
    assert f"An even choice of {SLICES} of 100 charts is drawn" in found.text
    assert "The first 1,000 of 10,000 rows." in found.text


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """One run with two s is complete, another waits."""
    directory = SweepDirectory(tmp_path_factory.mktemp("sweep") / "a")
    plan = Plan.of({"options": {**SMALL, "chains": 2, "s": [5, 10]}, "grid": {"sigma": [0.1, 0.2]}})
    directory.begin()
    directory.keep({run.name: run.config.to_toml() for run in plan.runs})
    Experiment(plan.runs[0].config).run(directory.run(plan.runs[0].name))
    keep_outcome(directory, plan.runs[0].name, Outcome(TaskState.COMPLETE))
    return directory


def test_the_command_writes_the_page_of_a_sweep(swept, capsys, tmp_path):
    code, said, _ = call(capsys, "report", str(swept.path), "--out", str(tmp_path / "p.html"))
    assert (code, said) == (0, f"wrote {tmp_path / 'p.html'}\n")
    found = Read((tmp_path / "p.html").read_text())
    stored = StoredRun(swept.run("sigma=0.1"))
    [loss] = points_of(found, "loss")["sigma = 0.1"][:1]
    assert loss[0] == "5"
    assert loss[1].startswith(f"{stored.summary([0, 1])['loss']:.4g}_±_")
    assert "standard errors over the 2 chains of one run" in found.text
    assert "1 of 2 runs complete, 1 waiting." in found.text


def test_accuracy_that_is_kept_is_drawn(swept):
    stored = StoredRun(swept.run("sigma=0.1"))
    assert all("vote_accuracy" not in one.summary for one in looks_at(swept))
    stored.keep_evaluation([{"vote_accuracy": value} for value in (0.5, 0.7, 0.8, 0.8)])
    first, second = [one.summary for one in looks_at(swept) if one.summary]
    assert first["vote_accuracy"] == pytest.approx(0.6)
    assert first["vote_accuracy_stderr"] == pytest.approx(0.1 * of_few(2))
    assert (second["vote_accuracy"], second["vote_accuracy_stderr"]) == (0.8, 0.0)
    file = stored.path / "evaluation.json"
    file.write_text(file.read_text().replace(f'"epoch": {stored.epoch}', '"epoch": 1'))
    assert all("vote_accuracy" not in one.summary for one in looks_at(swept))
    file.unlink()


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (["."], "a sweep must be reported alone, got"),
        (["--data", "x.csv"], "data must be left out with a sweep"),
        (["--chain", "1"], "chain must be left out with a sweep"),
    ],
)
def test_what_there_is_not_of_a_sweep_is_refused(swept, capsys, tmp_path, more, sentence):
    code, _, err = call(capsys, "report", str(swept.path), *more, "--out", str(tmp_path / "p.html"))
    assert code == 2
    assert sentence in err


def test_watching_a_sweep_renews_the_page_until_nobody_goes_on(swept, capsys, monkeypatch, tmp_path):
    file, looks, lease = tmp_path / "p.html", [], Lease(swept.lease)

    def sleep(_):
        looks.append(file.read_text() if file.exists() else "")
        if len(looks) == 1:
            lease.take()
            keep_outcome(swept, "sigma=0.2", Outcome(TaskState.FAILED, "a sentence"))
        elif len(looks) == 2:
            lease.release()

    monkeypatch.setattr("trajens.app.cli.report.time.sleep", sleep)
    code, _, _ = call(capsys, "report", str(swept.path), "--out", str(file), "--watch", "--every", "7")
    assert code == 0
    assert '<meta http-equiv="refresh" content="7">' in looks[0]
    assert "1 waiting" in looks[0]
    assert "1 failed" in looks[1]
    assert "http-equiv" not in file.read_text()
    assert len(looks) == 2
    swept.task("sigma=0.2", "json").unlink()
