"""The plan of a sweep: every combination once, names that can be read, and refusals before anything starts."""

import re

import pytest

from trajens.app import experiment
from trajens.app.resolve import resolve
from trajens.app.sweeps.directory import SweepDirectory
from trajens.app.sweeps.plan import Plan, name_of
from trajens.errors import InputError

SMALL = {"problem": "perceptron", "epochs": 200, "chains": 2}


def names(plan):
    return [run.name for run in Plan.of(plan).runs]


def texts(plan):
    return {run.name: run.config.to_toml() for run in Plan.of(plan).runs}


def kept(path, plan):
    directory = SweepDirectory(path)
    directory.begin()
    directory.keep(texts(plan))
    return directory


def test_rows_times_the_grid_in_the_order_of_the_plan():
    plan = {"options": SMALL, "grid": {"tau": [4, 2], "seed": [1, 2]}, "list": [{"s": 5}, {"s": 20.0, "sigma": 0.2}]}
    assert names(plan) == [
        *("s=5,seed=1,tau=4", "s=5,seed=2,tau=4", "s=5,seed=1,tau=2", "s=5,seed=2,tau=2"),
        *("s=20,seed=1,sigma=0.2,tau=4", "s=20,seed=2,sigma=0.2,tau=4"),
        *("s=20,seed=1,sigma=0.2,tau=2", "s=20,seed=2,sigma=0.2,tau=2"),
    ]
    assert Plan.of(plan).runs[-1].config == resolve(SMALL, {"tau": 2, "seed": 2, "s": 20.0, "sigma": 0.2})
    assert Plan.of(plan).varied == ("tau", "s", "sigma", "seed")


def test_a_file_says_the_same_as_a_dict(tmp_path):
    file = tmp_path / "plan.toml"
    file.write_text(
        '[options]\nproblem = "perceptron"\nepochs = 200\nchains = 2\n[grid]\nburn-in = [10, 20]\n[[list]]\ns = [5, 10]'
    )
    assert Plan.of(file) == Plan.of({"options": SMALL, "grid": {"burn_in": [10, 20]}, "list": [{"s": [5, 10]}]})
    assert names(file) == ["burn_in=10,s=5+10", "burn_in=20,s=5+10"]


def test_a_plan_without_anything_to_vary_is_one_run():
    assert names({"options": SMALL}) == ["run"]


@pytest.mark.parametrize(
    ("own", "name"),
    [
        ({"tau": 4, "s": 20.0, "seed": 1}, "s=20,seed=1,tau=4"),
        ({"sigma": 1e-05}, "sigma=1e-05"),
        ({"keep_paths": True}, "keep_paths=yes"),
        ({"hidden": [64, 32]}, "hidden=64+32"),
        ({"s": "60:1000"}, "s=60_1000~"),
        ({"problem": "/home/somebody/somewhere/far/away/data.csv"}, "problem=body_somewhere_far_away_data.csv~"),
        ({"problem": "../../etc"}, "problem=etc~"),
        ({"label": ""}, "label=~"),
        ({"label": "größe / m"}, "label=gr__e___m~"),
    ],
)
def test_names_can_be_read_and_are_safe(own, name):
    found = name_of(own)
    assert found.startswith(name)
    assert len(found) <= len(name) + 6 + 12
    assert re.fullmatch(r"[A-Za-z0-9._+=,~-]+", found)


def test_long_names_are_cut_and_stay_different():
    def long(i):
        return name_of({f"option{k}": f"value-{k}" for k in range(20)} | {"z": i})

    assert len(long(1)) < 200
    assert long(1) != long(2)


@pytest.mark.parametrize(
    ("plan", "sentence"),
    [
        ({"options": {**SMALL, "tua": 3}}, "got tua; check the spelling"),
        ({"options": SMALL, "gird": {}}, "a plan must have the tables options, grid, list, got 'gird'"),
        ({"options": SMALL, "grid": {"tau": 4}}, "got 4 for tau; write tau = [..]"),
        ({"options": SMALL, "grid": {"tau": []}}, "got [] for tau"),
        ({"options": {**SMALL, "tau": 2}, "grid": {"tau": [4]}}, "got it in grid and in options"),
        ({"options": SMALL, "grid": {"tau": [4]}, "list": [{"tau": 2}]}, "got it in grid and in list"),
        ({"options": SMALL, "list": {"tau": 2}}, "write [[list]] before every one"),
        ({"options": SMALL, "grid": {"seed": list(range(200)), "tau": list(range(1, 101))}}, "got 20,000"),
        ({"options": SMALL, "grid": {"s": [5, 5.0]}}, "s = 5.0: settings must differ, got the same as s=5;"),
        ({"options": SMALL, "list": [{}, {"tau": 8}]}, "tau = 8: settings must differ, got the same as run"),
        ({"options": {"problem": "mnist", "minutes": 2}}, "minutes must be left out of a sweep"),
        ({"options": {"problem": "nowhere.csv"}}, "or a file or folder with data, got 'nowhere.csv'"),
        (7, "a plan must be a TOML file or a dict, got int"),
    ],
)
def test_what_cannot_be_planned_is_refused(plan, sentence):
    with pytest.raises(InputError, match=re.escape(sentence)):
        Plan.of(plan)


def test_every_bad_setting_is_named_with_its_sentence():
    grid = {"tau": [0, 4], "sigma": [0.1, -1.0]}
    with pytest.raises(InputError) as refusal:
        Plan.of({"options": SMALL, "grid": grid})
    text = str(refusal.value)
    assert "got 3 of 4" in text
    assert "tau = 0, sigma = 0.1: tau must be a whole number in 1..32768, got 0;" in text
    assert "tau = 4, sigma = -1.0: sigma must be a finite number > 0, got -1.0;" in text


@pytest.mark.parametrize("option", [{"seed": -1}, {"repeats": 0}, {"burn_in": 200}, {"records": 0}, {"segment": 99}])
def test_options_that_need_no_data_are_checked(option):
    with pytest.raises(InputError, match="got 1 of 1"):
        Plan.of({"options": {**SMALL, **option}})


def test_a_kept_plan_may_grow_but_not_change(tmp_path):
    plan = {"options": SMALL, "grid": {"tau": [2, 4]}}
    directory = kept(tmp_path / "a", plan)
    assert resolve(directory.options()["tau=4"]) == Plan.of(plan).runs[1].config
    kept(tmp_path / "a", plan)
    grown = kept(tmp_path / "a", {"options": SMALL, "grid": {"tau": [2, 3, 4]}})
    assert list(grown.options()) == ["tau=2", "tau=3", "tau=4"]
    with pytest.raises(InputError, match="tau=2 is not in it any more; use the same plan"):
        kept(tmp_path / "a", {"options": SMALL, "grid": {"tau": [3, 4]}})
    with pytest.raises(InputError, match=r"tau=2 has burn_in 60 for 40, epochs 300 for 200, tau=3 has"):
        kept(tmp_path / "a", {"options": {**SMALL, "epochs": 300}, "grid": {"tau": [2, 3, 4]}})
    assert list(grown.options()) == ["tau=2", "tau=3", "tau=4"]


def test_a_folder_with_something_else_is_no_place_for_a_sweep(tmp_path):
    (tmp_path / "letter.txt").touch()
    with pytest.raises(InputError, match=r"with letter\.txt in it; choose another name"):
        kept(tmp_path, {"options": SMALL})


def test_a_damaged_plan_is_refused(tmp_path):
    directory = kept(tmp_path / "a", {"options": SMALL})
    (directory.path / "plan.toml").write_text("[runs")
    with pytest.raises(InputError, match="must be as a sweep wrote it"):
        directory.options()
    with pytest.raises(InputError, match="must be that of a sweep, got"):
        SweepDirectory(tmp_path / "b").options()


def test_seeds_and_tilts_of_the_grid_become_chains_of_one_run():
    tables = {"options": SMALL, "grid": {"tau": [2, 4], "s": [5, 10.5], "seed": [1, 2, 3]}}
    together = Plan.of({**tables, "together": ["seed", "s"]})
    assert [run.name for run in together.runs] == ["s=5+10.5,seed=1+2+3,tau=2", "s=5+10.5,seed=1+2+3,tau=4"]
    assert together.runs[0].config.seed == [1, 2, 3]
    assert len(Plan.of({**tables, "together": ["seed"]}).runs) == 4
    assert len(Plan.of(tables).runs) == 12


@pytest.mark.parametrize(
    ("together", "grid", "sentence"),
    [
        ("seed", {"seed": [1, 2]}, "together must be a list of s and seed, as far as the grid has them, got 'seed'"),
        (["tau"], {"tau": [1, 2]}, "together must be a list of s and seed"),
        (["s"], {"seed": [1, 2]}, "as far as the grid has them, got ['s']"),
        (["s"], {"s": ["60:1000", 5]}, "s must be numbers in the grid to be chains together"),
        (["seed"], {"seed": [1, 1]}, "seed must be a whole number or several that differ, got [1, 1]"),
    ],
)
def test_what_cannot_be_chains_together_is_refused(together, grid, sentence):
    with pytest.raises(InputError, match=re.escape(sentence)):
        Plan.of({"options": SMALL, "grid": grid, "together": together})


def test_data_are_checked_and_read_once(tmp_path, monkeypatch):
    read = []
    learn = experiment.datasets.learn
    monkeypatch.setattr(experiment.datasets, "learn", lambda *a, **k: read.append(a) or learn(*a, **k))
    rows = "\n".join(f"{i},{i % 3},{i % 2}" for i in range(40))
    (tmp_path / "a.csv").write_text(f"x,y,z\n{rows}\n")
    options = {"problem": str(tmp_path / "a.csv"), "epochs": 100, "model": "linear"}
    Plan.of({"options": options, "grid": {"tau": [2, 4], "label": ["y", "z"], "seed": [1, 2]}})
    assert len(read) == 2
    with pytest.raises(InputError) as refusal:
        Plan.of({"options": options, "grid": {"label": ["y", "w"], "chunk": [10, 50]}})
    assert "got 3 of 4" in str(refusal.value)
    assert "label = 'y', chunk = 50: chunk" in str(refusal.value)
    assert "without 'w'" in str(refusal.value)
