"""The page about a run: it needs nothing but itself, says what the library says, and judges what it is shown."""

import base64
import io
import json
import re
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import trajens as tj
from tests import small_run
from tests.command import call
from tests.run.test_run import finished
from trajens.acceptance.full_data import FullData
from trajens.app import cli
from trajens.app.report import chart, heat_map, history, load_view, numerals, page
from trajens.app.report.html import VOID, tag
from trajens.app.report.quality import _by_distance, features, matrix
from trajens.app.report.scales import POINTS, Scale, limits, thin
from trajens.ensemble.uncertainty import reliability
from trajens.errors import InputError
from trajens.records import error_of_s
from trajens.run.advice import ATTENTION, OK, UNKNOWN, RunFacts, advice, findings
from trajens.run.control import Budget, FixedEpochs
from trajens.run.identity import identify
from trajens.run.stored import StoredRun
from trajens.run.until import UntilConverged

LIMIT = 3_000_000
RNG = np.random.default_rng(0)
CLASSES = ("<script>alert(1)</script>", "b&c", 'd"e')
OPTIONS = ["--hidden", "4", "--tau", "3", "--s", "100", "--chunk", "16"]
OPTIONS += ["--epochs", "600", "--records", "30", "--chains", "2"]


def train(data, out, *more):
    with pytest.raises(SystemExit) as end:
        cli.app(["train", str(data), *OPTIONS, *more, "--out", str(out)])
    assert end.value.code == 0
    return out


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("report")


@pytest.fixture(scope="module")
def classes(folder):
    """Classes and a directory with the names of an enemy."""
    x = RNG.standard_normal((90, 3))
    labels = [CLASSES[k].replace('"', '""') for k in (x[:, 0] > 0).astype(int) + (x[:, 1] > 0.5)]
    rows = [f'{a},{b},{c},"{name}"' for (a, b, c), name in zip(x.tolist(), labels, strict=True)]
    file = folder / "classes.csv"
    file.write_text("\n".join(['<b>a,"b""&",c,label', *rows]))
    return train(file, folder / 'a&b"c')


@pytest.fixture(scope="module")
def numbers(folder):
    """A regression with a category among its inputs."""
    x = RNG.standard_normal((80, 2))
    towns = RNG.choice(["Bonn", "Cork"], 80)
    y = 100 + 10 * x[:, 0] + 5 * (towns == "Bonn")
    file = folder / "numbers.csv"
    lines = [f"{a:.3f},{b:.3f},{t},{v:.3f}" for (a, b), t, v in zip(x.tolist(), towns, y, strict=True)]
    file.write_text("\n".join(["area,age,town,label", *lines]))
    return train(file, folder / "numbers")


@pytest.fixture(scope="module")
def line(folder):
    """A run made in Python, without a network and without options."""
    small_run.sample(folder / "line")
    return folder / "line"


class Read(HTMLParser):
    """A page as a browser would read it: open and closed tags, attributes and text."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.texts = [], [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, name, attributes):
        self.tags.append((name, dict(attributes)))
        if name not in VOID:
            self.open.append(name)

    def handle_endtag(self, name):
        assert self.open.pop() == name

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "script"):
            self.texts.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).replace("\u00a0", " ").split())

    def panels(self):
        return {a["id"].removeprefix("panel-"): a["class"] for name, a in self.tags if name == "figure"}


def read(path, **more):
    """The page of a directory, checked to need nothing but itself."""
    text = page([load_view(Path(path), **more)])
    assert len(text.encode()) < LIMIT
    found = Read(text)
    assert_alone(found, text)
    return found


def assert_alone(found, text):
    for name, attributes in found.tags:
        assert name not in ("link", "iframe", "object", "embed", "base", "form")
        for key in ("src", "href", "xlink:href", "srcset", "action", "data"):
            assert attributes.get(key, "data:").startswith(("data:image/png;base64,", "data:")), attributes
        assert not any(key.startswith("on") for key in attributes)
    assert "@import" not in text
    assert "url(" not in text
    # The name of SVG, which nothing is loaded from.
    assert set(re.findall(r"https?://[^\s\"'<]*", text)) <= {"http://www.w3.org/2000/svg"}


def test_a_page_of_classes_has_every_panel_and_the_numbers_of_the_library(classes):
    found = read(classes)
    assert found.panels().keys() == {
        *("loss", "acceptance", "batch-size", "tilt-error", "weight-rms", "s"),
        *("members", "reliability", "disagreement", "information", "similarity", "distance", "doubts"),
    }
    ensemble, stored = tj.Ensemble.load(classes), tj.StoredRun(classes)
    experiment = tj.experiments.Experiment.load(stored)
    scores = ensemble.evaluate(*experiment.data)
    for key in ("vote_accuracy", "mean_accuracy", "single_accuracy", "ece", "disagreement"):
        assert f"{scores[key]:.2%}".replace("%", " %") in found.text, key
    for key in ("nll", "brier"):
        assert numerals.number(scores[key]) in found.text
    summary = stored.summary()
    assert f"{summary['loss']:.4g} ± {summary['loss_stderr']:.2g}" in found.text
    assert "6 models, tried on 90 examples of the training data. They were trained on these" in found.text
    for words in ("tau 3", "seed 0", "chains 2", "epochs 600", "Penalty(chunk=16", tj.__version__):
        assert words in found.text


def test_curves_are_those_of_the_records(classes):
    records = tj.StoredRun(classes).records
    groups = [a for name, a in read(classes).tags if name == "g" and a.get("data-label") == "chain 1"]
    losses = [pair.split("|")[1].split("_")[0] for pair in groups[0]["data-v"].split()]
    assert losses == [numerals.number(float(value)) for value in records["loss"][1]]
    accepted = [pair.split("|")[1] for pair in groups[1]["data-v"].split()]
    assert accepted == [f"{value:.2%}".replace("%", "_%") for value in records["acceptance"][1].astype(float)]


def points_of(found, panel):
    """What the mouse is told of every series in a panel."""
    names, inside = {}, ""
    for name, attributes in found.tags:
        inside = attributes["id"] if name == "figure" else inside
        if inside == f"panel-{panel}" and "data-v" in attributes:
            names[attributes["data-label"]] = [pair.split("|") for pair in attributes["data-v"].split()]
    return names


def test_diagrams_of_doubt_are_those_of_the_library(classes):
    found, evaluation = read(classes), load_view(classes).evaluation
    predictions = tj.Ensemble.load(classes).summarise_predictions(evaluation.x)
    bins = reliability(predictions.confidence, predictions.is_right(evaluation.y))
    [points] = points_of(found, "reliability").values()
    assert [x for x, _ in points] == [f"{c:.2%}".replace("%", "_%") for c in bins.confidence]
    assert [y.split("_")[0] for _, y in points] == [f"{a:.2%}".rstrip("%") for a in bins.accuracy]
    right = predictions.is_right(evaluation.y)
    for panel, values in (
        ("disagreement", predictions.disagreement),
        ("information", predictions.entropies.mutual_information),
    ):
        shares = points_of(found, panel)
        assert list(shares) == [f"right answers ({right.sum()})", f"wrong answers ({(~right).sum()})"]
        for stairs in shares.values():
            assert sum(float(y.split("_")[0]) for _, y in stairs) == pytest.approx(100, abs=0.1)
        assert f"{values[right].mean():.3g} of right, {values[~right].mean():.3g} of wrong" in found.text
    [by_members] = points_of(found, "members").values()
    assert [float(y.split("_")[0]) for _, y in by_members] == pytest.approx(
        [100 * a for a in evaluation.scores["accuracy_by_members"]], abs=0.01
    )
    first = int(np.lexsort((-predictions.entropies.total, -predictions.disagreement))[0])
    names = evaluation.classes
    row = " ".join(f"{name} {value}" for name, value in features(evaluation.x[first], evaluation.reading))
    shown = f"{row} label {names[evaluation.y[first]]} , vote {names[predictions.vote[first]]} "
    assert found.text.split("Examples in doubt ")[1].startswith(shown)


def test_audits_are_drawn_with_their_errors_and_the_tolerance(line):
    case = RunFacts.of(StoredRun(line))
    shape = case.records["epoch"].shape
    error, weight = np.full(shape, np.nan), np.zeros(shape)
    error[:, -1], weight[:, -1] = [0.01, 0.02, 0.03, np.nan], [1.0, 1.0, 2.0, 0.0]
    records = {**case.records, "tilt_error": error, "tilt_weight": weight, "tilt_stderr": np.full(shape, 0.004)}
    drawn = history.audit_series(replace(case, records=records))
    assert drawn.x.tolist() == [small_run.EPOCHS]
    assert drawn.y[0] == pytest.approx((0.01 + 0.02 + 2 * 0.03) / 4)
    assert drawn.high[0] - drawn.y[0] == pytest.approx(0.004 * 6**0.5 / 4)
    assert history.audit_series(replace(case, records={**records, "tilt_weight": 0 * weight})) is None
    assert "tolerance, ± 1 %" in "".join(history.panels(replace(case, records=records), 9, "nats"))


def test_names_of_an_enemy_are_text(classes):
    text = page([load_view(classes)])
    assert text.count("<script>") == 1
    assert "alert(1)</script>" not in text
    found = Read(text)
    assert 'a&b"c' in found.texts
    assert CLASSES[0] in found.texts
    assert "<b>a" in found.texts
    assert str(tag("p", "<i>", title='"&')) == '<p title="&quot;&amp;">&lt;i&gt;</p>'
    several = page([load_view(classes), load_view(classes)])
    assert several.count("<script>") == 1


def test_a_page_of_numbers_shows_errors_in_the_units_of_the_labels(numbers):
    found = read(numbers)
    assert {"errors", "truth", "spread", "similarity", "doubts"} <= found.panels().keys()
    assert "reliability" not in found.panels()
    evaluation = load_view(numbers).evaluation
    assert evaluation.y.mean() == pytest.approx(100, abs=5)
    assert numerals.number(evaluation.scores["rmse"]) in found.text
    written = (numbers.parent / "numbers.csv").read_text().splitlines()[1].split(",")
    area, age, town = (value for _, value in features(evaluation.x[0], evaluation.reading))
    assert (float(area), float(age)) == pytest.approx((float(written[0]), float(written[1])), abs=1e-3)
    assert town == written[2]
    assert f"town {town}" in found.text
    [points] = [a for name, a in found.tags if name == "g" and a.get("data-label") == "examples"][:1]
    assert points["data-v"].split()[0] == f"{numerals.number(evaluation.y[0])}|{numerals.number(evaluation.mean[0])}"


@pytest.mark.parametrize("shape", [(28, 28), (200, 150, 3), (8, 8, 1)])
def test_pictures_in_doubt_are_drawn_and_told(classes, shape):
    found = load_view(classes)
    x = RNG.integers(0, 256, (len(found.evaluation.y), *shape)).astype(np.uint8)
    text = page([replace(found, evaluation=replace(found.evaluation, x=x))])
    assert len(text.encode()) < LIMIT
    drawn = [a for name, a in Read(text).tags if name == "img"]
    assert 0 < len(drawn) <= 16
    assert all(a["src"].startswith("data:image/png;base64,") and a["alt"] for a in drawn)


def test_a_png_holds_its_pixels():
    imread = pytest.importorskip("matplotlib.image").imread
    pixels = RNG.integers(0, 256, (5, 7, 3)).astype(np.uint8)
    content = base64.b64decode(heat_map.data_address(pixels).partition(",")[2])
    np.testing.assert_allclose(255 * imread(io.BytesIO(content))[..., :3], pixels, atol=0.01)
    assert heat_map.picture(np.ones((200, 100, 1))).shape == (50, 25)


def test_a_run_without_a_network_says_why_and_keeps_its_curves(line):
    found = read(line)
    assert set(found.panels()) == {"loss", "acceptance", "batch-size", "tilt-error", "weight-rms", "s"}
    assert "The ensemble was not tried on data: the run must be one of a network" in found.text
    assert "mean of" not in found.text
    assert "chain 3" in found.text


def test_a_loss_and_a_test_of_ones_own_and_a_run_in_burn_in(tmp_path):
    problem = tj.Problem(lambda theta, batch: jnp.where(batch[0] @ theta > 0, 0.0, 1.0), (np.ones((20, 2)),), 2)
    target = tj.Target(problem, 2, 0.1, 5.0)
    stop = small_run.StopAfter(1)
    tj.sample(target, 10_000_000, chains=8, records=10, acceptance=tj.Metropolis(), out=tmp_path / "r", stop=stop)
    found = read(tmp_path / "r")
    assert "under way, or was stopped" in found.text
    assert "There is nothing to say before a record after burn-in" in found.text
    assert "made on all data" in found.text
    marks = {one.name: one.mark for one in load_view(tmp_path / "r").findings}
    assert marks["Loss"] == marks["Acceptance"] == UNKNOWN
    assert marks["Tolerance of s"] == OK


def test_other_data_and_other_chains_are_tried_as_evaluate_does(classes, folder):
    found = read(classes, data=folder / "classes.csv", chain="all")
    assert "6 models, tried on 90 examples of classes.csv." in found.text
    assert "They were trained on these" not in found.text
    both = tj.Ensemble.load(classes, "all")
    scores = both.evaluate(*tj.experiments.Experiment.load(classes).data)
    assert f"{scores['nll']:.4g}" in found.text
    for wrong in ({"chain": "7"}, {"data": folder / "nowhere.csv"}):
        with pytest.raises(InputError):
            load_view(classes, **wrong)


def test_a_long_run_and_a_long_path_make_a_small_page(classes):
    found = load_view(classes)
    n, tau = 40_000, 3000
    curve = RNG.standard_normal((6, n)) ** 2 + 0.1
    records = {name: np.resize(curve, (6, n)) for name in found.facts.records}
    records |= {"epoch": np.tile(np.arange(1, n + 1), (6, 1)), "s": np.full((6, n), 3.0)}
    members = np.arange(0, tau, tau // 64)[:64]
    scores = {**found.evaluation.scores, "accuracy_by_members": RNG.uniform(size=tau).tolist()}
    evaluation = replace(
        found.evaluation, models=tau, tau=tau, scores=scores, members=members, similarity=RNG.uniform(size=(64, 64))
    )
    text = page([replace(found, facts=replace(found.facts, records=records, burn_in=0), evaluation=evaluation)])
    Read(text)
    assert len(text.encode()) < LIMIT / 2
    assert max(len(a["data-v"].split()) for name, a in Read(text).tags if "data-v" in a) <= POINTS


@pytest.mark.parametrize("which", ["classes", "numbers"])
def test_a_path_of_one_model_leaves_out_what_members_would_show(request, which):
    found = load_view(request.getfixturevalue(which))
    evaluation, scores = found.evaluation, dict(found.evaluation.scores)
    for name in ("accuracy_by_members", "rmse_by_members"):
        scores[name] = scores.get(name, [])[:1]
    one = {"models": 1, "tau": 1, "members": np.arange(1), "similarity": np.ones((1, 1)), "scores": scores}
    if evaluation.predictions is not None:
        predictions = evaluation.predictions
        one["predictions"] = predictions._replace(
            disagreement=0 * predictions.disagreement, expected=predictions.entropies.total
        )
    panels = Read(page([replace(found, evaluation=replace(evaluation, **one, spread=0 * evaluation.spread))])).panels()
    absent = {name for name, kind in panels.items() if "absent" in kind} - {"tilt-error"}
    assert absent == (
        {"members", "disagreement", "information", "similarity"} if evaluation.predictions else {"errors", "similarity"}
    )


@pytest.mark.parametrize("values", [np.ones((2, 2)), np.array([[1, 0.7], [0.7, 1]]), np.full((3, 3), np.nan)])
def test_the_colours_of_a_matrix_are_of_shares(values):
    drawn = matrix(values, np.arange(len(values)), "t", "{v}")
    shown = [float(text) for text in re.findall(r">([\d.]+)\u00a0%<", drawn)]
    assert shown == [100.0, 50.0, 0.0]


def test_data_that_are_many_are_tried_on_an_even_choice(classes, monkeypatch):
    everything = load_view(classes).evaluation
    monkeypatch.setattr("trajens.app.report.run_view.INPUTS", 40)
    evaluation = load_view(classes).evaluation
    np.testing.assert_array_equal(evaluation.x[[0, -1]], everything.x[[0, -1]])
    assert evaluation.where == "an even choice of 40 of 90 examples of the training data"
    all_said = tj.Ensemble.load(classes).evaluate(evaluation.x, evaluation.y)
    assert evaluation.scores == all_said


def test_members_agree_as_they_do(classes, numbers):
    evaluation, ensemble = load_view(classes).evaluation, tj.Ensemble.load(classes)
    chosen = ensemble.member_proba(evaluation.x).argmax(-1)
    assert evaluation.similarity[0, 2] == pytest.approx((chosen[0] == chosen[2]).mean())
    evaluation, ensemble = load_view(numbers).evaluation, tj.Ensemble.load(numbers)
    both = replace(
        evaluation, members=np.array([0, 2, 5, 9]), tau=8, similarity=np.add.outer(np.arange(4), np.arange(4)) / 10
    )
    distances, alike = _by_distance(both)
    np.testing.assert_allclose(distances, [2.5, 5])
    np.testing.assert_allclose(alike, [0.2, 0.2])
    np.testing.assert_allclose(evaluation.similarity, np.corrcoef(ensemble.member_outputs(evaluation.x)), atol=1e-5)


@pytest.mark.parametrize(
    ("changes", "name", "mark", "part"),
    [
        ({"loss": np.linspace(2, 1, 40)}, "Loss", ATTENTION, "still falls"),
        ({"loss": np.ones(40)}, "Loss", OK, "has stopped falling"),
        ({"loss": np.ones(6)}, "Loss", UNKNOWN, "too few records after burn-in"),
        ({"loss": np.full(40, np.nan)}, "Finite loss", ATTENTION, "80 recorded losses were not finite"),
        ({"acceptance": 0.05}, "Acceptance", ATTENTION, "5.0%"),
        ({"acceptance": 0.95}, "Acceptance", ATTENTION, "95.0%"),
        ({"acceptance": 0.4}, "Acceptance", OK, "40.0%"),
        ({"weight_rms": np.linspace(1, 2, 40)}, "Weights", ATTENTION, "no prior keeps them"),
        ({"weight_rms": np.linspace(1, 2, 40), "prior": 0.3}, "Weights", ATTENTION, "not in equilibrium"),
        ({}, "Weights", OK, "do not drift"),
        ({}, "Length", OK, "400 epochs"),
        ({"loss": np.ones(7)}, "Convergence", UNKNOWN, "7 records after burn-in, of 8"),
        ({}, "Convergence", UNKNOWN, "400 are needed to tell for sure"),
        ({"loss": np.linspace(2, 1, 40)}, "Convergence", ATTENTION, "do not agree yet"),
        ({"loss": np.ones(1000)}, "Convergence", OK, "Chains agree"),
        ({"loss": np.ones(1000), "chains": 1}, "Convergence", OK, "The halves of the chain agree"),
        ({"loss": np.ones(1000), "weight_rms": np.linspace(1, 2, 1000)}, "Convergence", ATTENTION, "still moves"),
        ({"loss": np.where(np.arange(1000) == 500, np.nan, 1.0)}, "Convergence", UNKNOWN, "not finite"),
        ({}, "Tolerance of s", UNKNOWN, "no audit"),
    ],
)
def test_verdicts_change_when_they_should(changes, name, mark, part):
    run = finished(**{"loss": np.ones(40), **changes})
    [found] = [one for one in findings(RunFacts.of(run)) if one.name == name]
    assert (found.mark, part in found.sentence) == (mark, True), found


@pytest.mark.parametrize(
    ("error", "mark"), [(0.0, OK), (0.05, ATTENTION), (-0.05, ATTENTION), (0.0099, UNKNOWN), (np.nan, UNKNOWN)]
)
def test_the_tolerance_is_kept_broken_or_undecided(line, error, mark):
    case = RunFacts.of(StoredRun(line))
    assert case.tolerance == 0.01
    shape = case.records["epoch"].shape
    noise = 1e-3 * (-1.0) ** np.arange(shape[0])[:, None] * np.ones(shape)
    records = {**case.records, "tilt_error": error + noise, "tilt_weight": np.ones(shape)}
    if np.isnan(error):
        records["tilt_weight"] = np.zeros(shape)
    case = replace(case, records=records)
    [found] = [one for one in findings(case) if one.name == "Tolerance of s"]
    assert found.mark == mark, found.sentence
    assert error_of_s(records, case.burn_in).is_within(0.01) is {OK: True, ATTENTION: False, UNKNOWN: None}[mark]


def test_a_run_at_rest_is_judged_as_the_run_itself(line, tmp_path):
    run = small_run.sample(tmp_path / "a")
    stored = StoredRun(tmp_path / "a")
    assert findings(RunFacts.of(run)) == findings(RunFacts.of(stored))
    assert advice(run, "DIR") == advice(stored, "DIR")
    assert [one.mark for one in findings(RunFacts.of(StoredRun(line)))] == [
        one.mark for one in findings(RunFacts.of(run))
    ]


@dataclass(frozen=True)
class OwnTest(FullData):
    """A test on all data of a user's own."""

    def accepts(self, delta, words):
        return delta > 0


CONTROLLERS = [
    Budget(1e5, 10, 3, False, 0.2),
    Budget(2.5e7, 10, 3),
    FixedEpochs(10),
    UntilConverged(FixedEpochs(10), tj.Converged(1.02, 300, superchains=2), 1000),
]


@pytest.mark.parametrize("acceptance", [tj.Penalty(16, tolerance=0.03), tj.MinibatchBarker(16), tj.Barker(), OwnTest()])
@pytest.mark.parametrize("controller", CONTROLLERS)
def test_the_description_of_a_run_is_enough(acceptance, controller, monkeypatch):
    run = finished(np.ones(40), prior=0.3)
    run = replace(run, settings=replace(run.settings, acceptance=acceptance), controller=controller)
    known = json.loads(json.dumps(identify(run.target, run.settings, controller)))
    at_rest = {"records": run.records, "identity": known, "burn_in": 10, "epoch": 400, "marks": run.marks}
    at_rest |= {
        "is_complete": True,
        "is_continuable": True,
        "start_records": {},
        "is_start_common": run.is_start_common,
    }
    for name, value in at_rest.items():
        monkeypatch.setattr(StoredRun, name, value)
    monkeypatch.setattr(type(run), "burn_in", 10)
    mine, its = RunFacts.of(run), RunFacts.of(StoredRun("anywhere"))
    assert mine == its
    assert mine.is_exact == acceptance.takes_all_data
    asked = [one.mark for one in findings(its) if one.name == "Loss asked for"]
    assert asked == ([ATTENTION] if mine.asked_loss else [])


def test_several_runs_are_compared_side_by_side(capsys, classes, numbers, line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = call(capsys, "report", str(classes), str(numbers), str(line))
    assert (code, out) == (0, "wrote report.html\n"), err
    text = (tmp_path / "report.html").read_text()
    found = Read(text)
    assert_alone(found, text)
    for words in (
        "3 runs compared",
        "What differs",
        "tried on",
        "not tried",
        "accuracy of the vote",
        "error of the mean",
    ):
        assert words in found.text
    labels = {a["data-label"] for name, a in found.tags if name == "g" and "data-label" in a}
    assert {'a&b"c', "numbers", "line"} == labels
    names = [a["id"] for _, a in found.tags if "id" in a]
    assert len(names) == len(set(names))
    assert "order of updates" not in found.text


def test_the_command_writes_into_the_directory_and_changes_nothing_else(capsys, numbers):
    before = small_run.content(numbers)
    code, out, _ = call(capsys, "report", str(numbers))
    assert (code, out) == (0, f"wrote {numbers / 'report.html'}\n")
    after = small_run.content(numbers)
    assert "refresh" not in after.pop("report.html")[0].decode().split("</style>")[0]
    assert after == before
    (numbers / "report.html").unlink()


@pytest.mark.parametrize(
    ("more", "code", "sentence"),
    [
        (["nowhere"], 2, "directory must be that of a run, got 'nowhere'"),
        (["numbers.csv", "--watch"], 2, "directory must be that of a run, got 'numbers.csv', a file"),
        (["numbers", "--out", "records.csv"], 2, "out must end in .html, got 'records.csv'"),
        (["numbers", "--chain", "9"], 2, "chain must be"),
        (["numbers", "--data", "nowhere.csv"], 2, "nowhere.csv"),
        (["numbers", "--every", "0", "--watch"], 2, "every must be a finite number > 0"),
        (["numbers", "--out", "numbers.csv/x.html"], 3, "must be written"),
        (["empty"], 2, "must hold a checkpoint"),
        ([], 2, "see trajens report --help."),
    ],
)
def test_what_cannot_be_is_one_sentence(capsys, monkeypatch, folder, numbers, more, code, sentence):
    monkeypatch.chdir(folder)
    (folder / "empty").mkdir(exist_ok=True)
    found, out, err = call(capsys, "report", *more)
    assert (found, out, err.count("\n")) == (code, "", 1)
    assert sentence in err


def test_watching_waits_renews_and_ends_with_the_run(capsys, monkeypatch, tmp_path):
    out, file, looks = tmp_path / "run", tmp_path / "page.html", []
    made = []

    def sleep(seconds):
        assert seconds == 7.0
        looks.append(file.read_text() if file.exists() else "")
        made.append(file.stat().st_ino if file.exists() else 0)
        if len(looks) == 1:
            small_run.sample(small_run.fresh(out), stop=small_run.StopAfter(1))
        elif len(looks) == 3:
            small_run.sample(small_run.again(out))

    monkeypatch.setattr("trajens.app.cli.report.time.sleep", sleep)
    code, said, err = call(capsys, "report", str(out), "--out", str(file), "--watch", "--every", "7")
    assert (code, said) == (0, f"wrote {file}\n")
    assert "waiting for a first checkpoint" in err
    assert looks[0] == ""
    assert '<meta http-equiv="refresh" content="7">' in looks[1]
    # Nothing had changed: the page was not made again.
    assert made[2] == made[1] != file.stat().st_ino
    assert "http-equiv" not in file.read_text()
    assert "The run is complete" in file.read_text()


def test_ctrl_c_ends_watching_with_its_code(capsys, monkeypatch, tmp_path):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("trajens.app.cli.report.time.sleep", interrupted)
    code, _, err = call(capsys, "report", str(tmp_path), "--watch")
    assert code == 130
    assert "interrupted" in err
    assert list(tmp_path.iterdir()) == []


def test_curves_keep_their_peaks_when_they_are_thinned():
    y = RNG.standard_normal(10_000)
    y[4321], y[777] = 99.0, np.nan
    kept = thin(y)
    assert len(kept) <= POINTS
    assert {0, 4321, 9999} <= set(kept.tolist())
    assert (np.diff(kept) > 0).all()
    assert thin(y[:5]).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    "values", [[0, 1], [3, 3], [-1e-9, 1e-9], [1e12, 2e12], [0, 0], [np.nan, 2], [], [1e-300, 1e-299], [0.2, 0.95]]
)
def test_axes_hold_their_values_and_have_ticks(values):
    values = np.array(values, float)
    for holds in ((), (0.0,), tuple(values[np.isfinite(values)])):
        low, high = limits(values, holds=holds)
        assert high > low
        assert 1 < len(Scale(low, high, 0.0, 100.0).ticks()) < 13
    low, high = limits(values)
    scale = Scale(low, high, 0.0, 100.0)
    ticks = scale.ticks()
    assert 2 <= len(ticks) <= 12
    assert all(low <= tick <= high for tick in ticks)
    finite = values[np.isfinite(values)]
    assert ((scale(finite) >= 0) & (scale(finite) <= 100)).all()


def test_logarithmic_axes_have_powers_of_ten():
    assert Scale(0.5, 2000.0, 0.0, 1.0, True).ticks() == [1.0, 10.0, 100.0, 1000.0]
    assert Scale(4.0, 30.0, 0.0, 1.0, True).ticks() == [5.0, 10.0, 20.0]


def test_a_curve_is_broken_where_a_number_is_missing():
    x, y = np.arange(4.0), np.array([1.0, np.nan, 2.0, 3.0])
    drawn = chart.Chart("t", "x", "y", [chart.Series("a", x, y)]).svg()
    [d] = re.findall(r'class="curve" d="([^"]*)"', drawn.split("legend")[0])
    assert (d.count("M"), d.count("L")) == (2, 1)
    assert "nan" not in drawn


def test_numbers_read_well():
    assert [numerals.number(v) for v in (0.123456, 12345.6, 3.0, np.nan)] == ["0.1235", "12,346", "3", "n/a"]
    assert [numerals.duration(v) for v in (3.21, 130, 8000)] == ["3.2 s", "2 min 10 s", "2 h 13 min"]
    assert [numerals.short(v) for v in (0, 25_000, 2e6, 0.25)] == ["0", "25k", "2M", "0.25"]
