"""Tables and arrays are read by name, shape and scale, the same way every time, or refused with the place."""

import csv
import json
import struct
import warnings

import numpy as np
import pytest

import trajens as tj
from tests.test_cli import call
from trajens.app import cli
from trajens.app.experiment import Experiment
from trajens.app.resolve import resolve
from trajens.datasets import Feature, Label, Reading, classes_of, learn, tables
from trajens.errors import InputError
from trajens.storage.directory import read_toml

RNG = np.random.default_rng(0)
SMALL = ["--tau", "2", "--epochs", "20", "--records", "2", "--chains", "1", "--hidden", "4"]


def written(folder, text, name="data.csv"):
    file = folder / name
    file.write_text(text)
    return file


def refused(words, function, *arguments, **options):
    with pytest.raises(InputError, match=words) as caught:
        function(*arguments, **options)
    assert str(caught.value)[-1] in ".?"


# Text files


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_quotes_and_delimiters_are_understood(tmp_path, delimiter):
    lines = [
        ["a", '"b, or; c"', "label"],
        ["1", '" 2 "', '"x ""y"""'],
        ["-3e1", "4.5", '"two\nlines"'],
        ["5", "6", "z"],
    ]
    file = written(tmp_path, "\n".join(delimiter.join(cells) for cells in lines) + "\n")
    table = tables.read(file, texts=["label"])
    assert list(table.columns) == ["a", "b, or; c", "label"]
    np.testing.assert_array_equal(table.columns["a"].numbers, [1, -30, 5])
    np.testing.assert_array_equal(table.columns["b, or; c"].numbers, [2, 4.5, 6])
    assert table.columns["label"].texts == ['x "y"', "two\nlines", "z"]
    # The quoted line break makes the third row begin two lines after the second.
    assert table.lines.tolist() == [2, 3, 5]


def test_marks_at_the_beginning_line_ends_and_empty_lines_are_no_content(tmp_path):
    file = tmp_path / "a.csv"
    file.write_bytes("\ufeffa,label\r\n1,0\r\n\r\n2,1\r\n".encode())
    table = tables.read(file)
    assert list(table.columns) == ["a", "label"]
    assert table.lines.tolist() == [2, 4]


def test_long_tables_are_read_in_blocks_as_in_one(tmp_path, monkeypatch):
    rows = [f"{i},{'uvw'[i % 3]},{'' if i == 7 else i / 8}" for i in range(50)]
    file = written(tmp_path, "a,b,c\n" + "\n".join(rows))
    whole = tables.read(file)
    monkeypatch.setattr(tables, "_BLOCK", 4)
    parts = tables.read(file)
    assert parts.lines.tolist() == whole.lines.tolist()
    for name in "abc":
        np.testing.assert_array_equal(parts.columns[name].numbers, whole.columns[name].numbers)
        assert parts.columns[name].texts == whole.columns[name].texts
        assert parts.columns[name].is_text == whole.columns[name].is_text == (name == "b")
    # A text that comes blocks after the numbers is found all the same, and so is a number after texts.
    text = file.read_text()
    refused("'a'.*'x' in line 52 and 0 in line 2", tables.read, written(tmp_path, text + "\nx,u,1"))
    refused("'b'.*'u' in line 2 and 7 in line 52", tables.read, written(tmp_path, text + "\n1,7,1"))


BAD = {
    "many cells": ("a,label\n1,0\n2,1,9\n", "2 cells in every row.*got 3 in line 3"),
    "few cells": ("a,b,label\n1,2,0\n\n1,2\n", "3 cells in every row.*got 2 in line 4"),
    "comment": ("a,label\n# note\n1,0\n", "got 1 in line 2"),
    "comment with a comma": ("a,label\n1,0\n# note, 1\n", "column 'a'.*'# note' in line 3"),
    "text": ("a,label\n1,0\nx,1\n", "column 'a'.*'x' in line 3 and 1 in line 2"),
    "underscore": ("a,label\n1,0\n1_000,1\n", "column 'a'.*'1_000' in line 3"),
    "infinite": ("a,label\n1,0\ninf,1\n", "column 'a'.*inf in line 3"),
    "too large": ("a,label\n1,0\n1,0\n1e300,1\n1,1\n", "column 'a'.*float32.*line 4"),
    "empty": ("a,label\n1,0\n,1\n", "column 'a'.*got none in line 3; use --missing mean"),
    "NA": ("a,label\nNA,0\n1,1\n", "column 'a'.*got none in line 2"),
    "nan": ("a,label\n1,0\n1,0\nNaN,1\n", "column 'a'.*got none in line 4"),
    "category missing": ("a,label\nu,0\nv,0\n,1\n", "column 'a'.*got none in line 4; remove the row"),
    "label missing": ("a,label\n1,0\n2,\n", "label in every row, got none in line 3"),
    "mixed label": ("a,label\n1,0\n2,1\n3,maybe\n", "column 'label'.*'maybe' in line 4 and 0 in line 2"),
    "no name": ("a,,label\n1,2,0\n", "name every column, got none for number .2."),
    "no name, no index": (",a,label\n0,1,0\n2,2,1\n", "number 1, which does not count the rows"),
    "twice": ("a,a,label\n1,2,0\n", "name every column once, got 'a' twice"),
    "no rows": ("a,label\n", "must hold rows"),
    "nothing": ("", "names of its columns"),
    "no label": ("a,b\n1,2\n", "one label column.*--label"),
    "two labels": ("y,label\n1,2\n", "one label column"),
    "only a label": ("label\n1\n0\n", "columns besides the label"),
    "open quote": ('a,label\n"1,0\n2,1\n', "must be a table.*line 2"),
    "decimal comma": ("a;label\n1,5;0\n2,5;1\n", "column 'a'.*decimals with a point, got '1,5'"),
    "decimal comma in the label": ("a;label\n1;1,5\n2;2,5\n", "column 'label'.*with a point, got '1,5'"),
    "names as labels": ("a,label\n" + "".join(f"{i},n{i}\n" for i in range(30)), "column 'label'.*got 30 in 30 rows"),
    "names": ("a,label\n" + "".join(f"n{i},0\n" for i in range(30)), "column 'a'.*few different texts, got 30"),
    "column of nothing": ("a,b,label\n1,,0\n2,,1\n", "column 'b'.*none in any row"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_with_a_table_is_said_with_its_place(name, tmp_path):
    text, words = BAD[name]
    refused(words, learn, written(tmp_path, text))


def test_bytes_that_are_no_text_are_refused(tmp_path):
    (tmp_path / "a.csv").write_bytes("a,label\nü,0\n".encode("latin-1"))
    refused("UTF-8", learn, tmp_path / "a.csv")


def test_a_nameless_column_that_counts_is_left_out_with_a_warning(tmp_path):
    for first in (0, 1):
        rows = "".join(f"{i + first},{x},{i % 2}\n" for i, x in enumerate("579"))
        with pytest.warns(UserWarning, match="has no name and counts the rows"):
            reading, data = learn(written(tmp_path, ",a,label\n" + rows))
        assert [feature.name for feature in reading.features] == ["a"]
        assert data.x.shape == (3, 1)
        # Later it is a column that nobody asked for.
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            np.testing.assert_array_equal(reading.inputs(tmp_path / "data.csv"), data.x)


# Columns


def test_columns_are_known_by_their_names(tmp_path):
    reading, data = learn(written(tmp_path, "a,b,label\n1,10,0\n2,30,1\n4,20,0\n"))
    other = written(tmp_path, "note;label;b;a\nx;0;10;1\ny;1;30;2\nz;0;20;4\n", "other.csv")
    again = reading.labelled(other)
    np.testing.assert_array_equal(again.x, data.x)
    np.testing.assert_array_equal(again.y, data.y)
    np.testing.assert_array_equal(reading.inputs(other), data.x)
    assert not np.array_equal(data.x[:, 0], data.x[:, 1])
    refused("must have the columns 'b', got 'a', 'label'", reading.inputs, written(tmp_path, "a,label\n1,0\n", "b.csv"))
    no_label = written(tmp_path, "a,b\n1,10\n", "c.csv")
    assert reading.inputs(no_label).shape == (1, 2)
    refused("must have the columns 'label'", reading.labelled, no_label)
    np.savez(tmp_path / "d.npz", x=data.x)
    refused("must be a .csv with the columns a, b", reading.inputs, tmp_path / "d.npz")


def test_inputs_and_targets_are_standardised_by_the_training_data(tmp_path):
    a, target = RNG.normal(50.0, 7.0, 40), RNG.normal(1e5, 3e4, 40)
    rows = "".join(f"{x!r},3,{y!r}\n" for x, y in zip(a.tolist(), target.tolist(), strict=True))
    reading, data = learn(written(tmp_path, "a,constant,y\n" + rows))
    np.testing.assert_allclose(data.x[:, 0], (a - a.mean()) / a.std(), rtol=1e-5)
    np.testing.assert_array_equal(data.x[:, 1], 3)
    np.testing.assert_allclose(data.y, (target - target.mean()) / target.std(), rtol=1e-5)
    np.testing.assert_allclose(reading.label.undone(data.y), target, rtol=1e-5)
    new = reading.inputs(written(tmp_path, f"constant,a\n4,{a.mean() + 2 * a.std()}\n", "new.csv"))
    np.testing.assert_allclose(new, [[2.0, 4.0]], rtol=1e-6)
    plain = learn(tmp_path / "data.csv", standardise=False)[1]
    np.testing.assert_allclose(plain.x[:, 0], a, rtol=1e-6)
    np.testing.assert_allclose(plain.y, target, rtol=1e-6)


def test_categories_are_one_input_for_each_level(tmp_path):
    file = written(tmp_path, "colour,a,label\nred,1,0\nblue,2,1\nred,3,0\ngreen,4,1\n")
    reading, data = learn(file)
    assert reading.features[0] == Feature("colour", ("blue", "green", "red"))
    np.testing.assert_array_equal(data.x[:, :3], [[0, 0, 1], [1, 0, 0], [0, 0, 1], [0, 1, 0]])
    assert reading.shape == (4,)
    some = reading.inputs(written(tmp_path, "a,colour\n1,green\n", "some.csv"))
    np.testing.assert_array_equal(some[0, :3], [0, 1, 0])
    new = written(tmp_path, "a,colour\n1,green\n1,pink\n", "new.csv")
    refused("column 'colour'.*must hold blue, green, red.*got 'pink' in line 3", reading.inputs, new)
    number = written(tmp_path, "a,colour\nx,green\n", "number.csv")
    refused("column 'a'.*must hold numbers, got 'x' in line 2", reading.inputs, number)


def test_missing_numbers_become_the_mean_of_the_training_data_if_asked_for(tmp_path):
    file = written(tmp_path, "a,label\n1,0\n,1\n3,0\nNA,1\n8,1\n")
    reading, data = learn(file, missing="mean")
    mean, std = 4.0, np.std([1, 3, 8])
    np.testing.assert_allclose(data.x[:, 0], [(1 - mean) / std, 0, (3 - mean) / std, 0, (8 - mean) / std], rtol=1e-6)
    new = reading.inputs(written(tmp_path, "a\n\n100\n", "new.csv"))
    np.testing.assert_allclose(new[:, 0], [0, (100 - mean) / std], rtol=1e-6)
    plain = learn(file, missing="mean", standardise=False)[1]
    np.testing.assert_allclose(plain.x[:, 0], [1, 4, 3, 4, 8])
    refused("got none in line 3", learn, written(tmp_path, "a,label\n1,0\n2,\n", "label.csv"), missing="mean")
    refused("got none in line 3", learn, written(tmp_path, "a,label\nu,0\n,1\n", "text.csv"), missing="mean")


def test_a_reading_comes_back_from_its_text(tmp_path):
    file = written(tmp_path, 'a,"q""ü\\\nline\x7f",label\n0.1,u,x\n0.7,v,y\n')
    for reading in (learn(file)[0], Reading("array", Label(None, (0, 1)), shape=(28, 28), is_bytes=True)):
        assert Reading.from_json(reading.to_json()) == reading
        assert json.loads(reading.to_json())["kind"] == reading.kind
        config = resolve({"problem": str(file), "reading": reading.to_json()})
        (tmp_path / "config.toml").write_text(config.to_toml())
        assert Reading.from_json(read_toml(tmp_path / "config.toml")["reading"]) == reading
    for text in ("", "{}", "[]", '{"kind": "table"}', '{"features": [], "label": {}, "shape": 3}', "1"):
        refused("reading must be what a run wrote down", Reading.from_json, text)


# Classes or numbers


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (np.arange(300) % 3, 3),
        ((np.arange(300) % 3).astype(np.float32), 3),
        (np.arange(300) % 10, 10),
        (np.arange(12) % 10, 10),
        (np.arange(500) % 100, 100),
        (np.arange(300) % 100, None),
        (np.arange(300) % 3 + 1, None),
        (np.arange(300) % 2 * 2 - 1, None),
        (np.arange(300) % 2 * 2, None),
        (np.arange(300) % 3 / 2, None),
        (np.arange(300), None),
    ],
)
def test_labels_are_classes_or_numbers_by_one_rule(labels, classes, tmp_path):
    assert classes_of(labels) == (None if classes is None else tuple(range(classes)))
    np.savez(tmp_path / "a.npz", x=np.zeros((len(labels), 2)), y=labels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        experiment = Experiment(resolve({"problem": str(tmp_path / "a.npz")}))
        assert experiment.labels == ("numbers" if classes is None else f"classes ({classes})")
        assert experiment.loss == ("squared" if classes is None else "cross-entropy")
    assert experiment.model.outputs == (classes or 1)


def test_whole_numbers_that_look_like_classes_but_are_none_are_told(tmp_path):
    file = written(tmp_path, "a,label\n" + "".join(f"{i},{i % 2 * 2 - 1}\n" for i in range(20)))
    with pytest.warns(UserWarning, match="taken for numbers.*--loss cross-entropy"):
        assert learn(file)[0].label.classes is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        reading, data = learn(file, loss="cross-entropy")
        learn(file, loss="squared")
    assert reading.label.classes == (-1, 1)
    np.testing.assert_array_equal(data.y, np.arange(20) % 2)


def test_the_loss_overrides_the_rule(tmp_path):
    file = written(tmp_path, "a,label\n" + "".join(f"{i},{i % 3}\n" for i in range(30)))
    assert str(learn(file)[0].label) == "classes (3)"
    assert str(learn(file, loss="squared")[0].label) == "numbers"
    text = written(tmp_path, "a,label\n1,x\n2,y\n", "text.csv")
    refused("finite numbers as labels, got 'x' in line 2", learn, text, loss="squared")
    real = written(tmp_path, "a,label\n1,0.5\n2,1\n", "real.csv")
    refused("whole or texts for --loss cross-entropy", learn, real, loss="cross-entropy")
    refused("whole or texts for --loss 0-1", learn, real, loss="0-1")
    mixed = written(tmp_path, "a,label\n1,0\n2,maybe\n", "mixed.csv")
    assert learn(mixed, loss="cross-entropy")[0] == learn(mixed, loss="0-1")[0]
    assert learn(mixed, loss="0-1")[0].label.classes == ("0", "maybe")


def test_names_of_classes_are_kept(tmp_path):
    reading, data = learn(written(tmp_path, "a,kind\n1,dog\n2,cat\n3,dog\n"), label="kind")
    assert reading.label == Label("kind", ("cat", "dog"))
    np.testing.assert_array_equal(data.y, [1, 0, 1])
    new = written(tmp_path, "kind,a\ncat,1\ncow,1\n", "new.csv")
    refused("must have the labels cat, dog, got 'cow' in line 3", reading.labelled, new)
    refused("without 'sort'", learn, tmp_path / "data.csv", label="sort")


# Arrays


def reading_of(tmp_path, x):
    np.savez(tmp_path / "train.npz", x=x, y=np.arange(len(x)) % 2)
    return learn(tmp_path / "train.npz")[0]


def saved(tmp_path, x):
    np.savez(tmp_path / "new.npz", x=x)
    return tmp_path / "new.npz"


IMAGES = RNG.integers(0, 256, (6, 28, 28), dtype=np.uint8)


@pytest.mark.parametrize("dtype", [np.uint8, np.int64])
def test_bytes_are_bytes_whatever_they_are_stored_as(tmp_path, dtype):
    reading = reading_of(tmp_path, IMAGES.astype(dtype))
    assert reading.is_bytes
    for x in (IMAGES, IMAGES.astype(np.int32), IMAGES.astype(np.float64), IMAGES.reshape(6, 784)):
        found = reading.inputs(saved(tmp_path, x))
        assert found.dtype == np.uint8
        np.testing.assert_array_equal(found, IMAGES)
    scaled = reading.inputs(saved(tmp_path, IMAGES / 255))
    assert scaled.dtype == np.float32
    np.testing.assert_allclose(scaled, IMAGES / 255, rtol=1e-6)
    # Whole numbers are bytes, however dark: 1 is one part in 255.
    assert reading.inputs(saved(tmp_path, IMAGES.astype(int) % 2)).dtype == np.uint8
    for x in (IMAGES.astype(int) + 1, IMAGES.astype(int) - 1, IMAGES + 0.5, IMAGES / 128, IMAGES / 255 - 0.1):
        refused("whole numbers 0..255 or fractions 0..1", reading.inputs, saved(tmp_path, x))
    for shape in ((6, 14, 56), (6, 28, 28, 1), (3, 1568)):
        refused(r"inputs of shape \(28, 28\)", reading.inputs, saved(tmp_path, IMAGES.reshape(shape)))


def test_bytes_are_not_divided_for_a_run_that_was_trained_on_numbers(tmp_path):
    reading = reading_of(tmp_path, RNG.normal(size=(6, 4)))
    whole = np.array([[1, 2, 3, 4]], np.uint8)
    found = reading.inputs(saved(tmp_path, whole))
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, whole)
    for shape in ((1, 2, 2), (2, 2)):
        refused(r"inputs of shape \(4,\)", reading.inputs, saved(tmp_path, whole.reshape(shape)))
    images = reading_of(tmp_path, IMAGES.astype(int) * 2)
    assert not images.is_bytes
    assert images.inputs(saved(tmp_path, IMAGES.astype(int))).dtype == np.float32
    refused(r"inputs of shape \(28, 28\)", images.inputs, saved(tmp_path, IMAGES.reshape(6, 784)))


def test_arrays_are_standardised_if_asked_for(tmp_path):
    x = RNG.normal(3.0, 2.0, (50, 4))
    x[:, 3] = 7
    np.savez(tmp_path / "a.npz", x=x, y=x[:, 0] * 10)
    plain = learn(tmp_path / "a.npz")[1]
    np.testing.assert_array_equal(plain.x, x)
    reading, data = learn(tmp_path / "a.npz", standardise=True)
    np.testing.assert_allclose(data.x.mean(0), [0, 0, 0, 7], atol=1e-6)
    np.testing.assert_allclose(data.x.std(0), [1, 1, 1, 0], atol=1e-6)
    np.testing.assert_allclose(data.y, data.x[:, 0], atol=1e-5)
    np.testing.assert_allclose(reading.inputs(saved(tmp_path, x[:3])), data.x[:3], rtol=1e-6)
    refused("label must be left out but for tables", learn, tmp_path / "a.npz", label="y")
    refused("missing must be left out but for tables", learn, tmp_path / "a.npz", missing="mean")


def test_a_table_of_pixels_is_taken_for_a_run_on_images(tmp_path):
    reading = reading_of(tmp_path, IMAGES)
    names = [f"p{i}" for i in range(784)]
    rows = [",".join(map(str, image.ravel())) for image in IMAGES]
    file = written(tmp_path, ",".join(names) + "\n" + "\n".join(rows))
    np.testing.assert_array_equal(reading.inputs(file), IMAGES)
    rows = [f"{i % 2},{row}" for i, row in enumerate(rows)]
    file = written(tmp_path, ",".join(["label", *names]) + "\n" + "\n".join(rows))
    np.testing.assert_array_equal(reading.inputs(file), IMAGES)
    np.testing.assert_array_equal(reading.labelled(file).y, np.arange(6) % 2)


# Runs


def test_options_about_files_are_refused_where_there_is_none(tmp_path):
    for options in ({"label": "y"}, {"missing": "mean"}, {"standardise": True}):
        refused("must be left out with mnist", resolve, {"problem": "mnist", **options})
        refused("must be left out with perceptron", resolve, {"problem": "perceptron", **options})
    file = str(written(tmp_path, "a,label\n1,0\n2,1\n"))
    refused("missing must be one of 'refuse', 'mean'", resolve, {"problem": file, "missing": "zero"})
    reading = learn(file)[0].to_json()
    experiment = Experiment(resolve({"problem": file, "reading": reading, "label": "a"}))
    refused("label must be label, as the reading of the run says, got a", lambda: experiment.reading)


def test_runs_of_before_have_the_numbers_of_their_file(tmp_path):
    file = written(tmp_path, "a,label\n5,0\n7,1\n9,3\n")
    options = {"problem": str(file), "loss": "cross-entropy", "hidden": [2]}
    (tmp_path / "config.toml").write_text(resolve({**options, "sizes": [1, 2, 5]}).to_toml())
    before = Experiment.load(tmp_path)
    np.testing.assert_array_equal(before.data.x, [[5], [7], [9]])
    np.testing.assert_array_equal(before.data.y, [0, 1, 3])
    assert before.labels == "classes (5)"
    assert Experiment(resolve(options)).reading.is_standardised


@pytest.fixture(scope="module")
def flowers(tmp_path_factory):
    """A run on a table of numbers, categories and named classes, whose file is gone."""
    folder = tmp_path_factory.mktemp("flowers")
    size, site = RNG.normal(5.0, 2.0, 90), RNG.choice(["meadow", "wood"], 90)
    kind = np.where(size > 5, "rose", np.where(site == "wood", "fern", "daisy"))
    rows = "".join(f"{s:.3f},{t},{k}\n" for s, t, k in zip(size, site, kind, strict=True))
    file = written(folder, "size,site,kind\n" + rows, "flowers.csv")
    with pytest.raises(SystemExit) as exit_:
        cli.app(["train", str(file), "--label", "kind", *SMALL, "--out", str(folder / "run")])
    assert exit_.value.code == 0
    file.rename(folder / "moved.csv")
    return folder


def read(file):
    with file.open(newline="") as lines:
        return list(csv.DictReader(lines))


def test_a_run_on_a_table_is_used_without_its_data(capsys, flowers, tmp_path):
    code, out, err = call(capsys, "evaluate", str(flowers / "run"), "--data", str(flowers / "moved.csv"), "--json")
    assert code == 0, err
    experiment = Experiment.load(flowers / "run")
    assert experiment.labels == "classes (3)"
    data = experiment.labelled(flowers / "moved.csv")
    ensemble = tj.Ensemble.load(flowers / "run")
    assert json.loads(out)["vote_accuracy"] == ensemble.evaluate(data.x, data.y)["vote_accuracy"]
    shuffled = written(tmp_path, "note,site,size\nx,wood,1.5\ny,meadow,9\n")
    answers = tmp_path / "deep" / "answers.csv"
    arguments = ["predict", str(flowers / "run"), str(shuffled), "--out", str(answers)]
    code, _, err = call(capsys, *arguments)
    assert code == 0, err
    rows = read(answers)
    probabilities = ["p_daisy", "p_fern", "p_rose"]
    assert list(rows[0]) == ["note", "site", "size", "vote", "agreement", "mean", *probabilities]
    assert [row["note"] for row in rows] == ["x", "y"]
    x = experiment.inputs(shuffled)
    assert [row["vote"] for row in rows] == [("daisy", "fern", "rose")[k] for k in ensemble.predict(x)]
    found = np.array([[float(row[name]) for name in probabilities] for row in rows])
    np.testing.assert_allclose(found, ensemble.predict_proba(x), rtol=1e-5)
    code, _, err = call(capsys, *arguments)
    assert (code, "add --overwrite" in err) == (2, True)
    assert call(capsys, *arguments, "--overwrite")[0] == 0
    code, _, err = call(capsys, "predict", str(flowers / "run"), str(shuffled), "--out", str(shuffled), "--overwrite")
    assert (code, "must not be the file of the inputs" in err) == (2, True)


def test_new_levels_and_lost_columns_are_refused_by_name(capsys, flowers, tmp_path):
    for text, words in (("size,site\n1,bog\n", "'bog' in line 2"), ("size\n1\n", "columns 'site'")):
        file = written(tmp_path, text)
        code, _, err = call(capsys, "predict", str(flowers / "run"), str(file), "--out", str(tmp_path / "out.csv"))
        assert (code, err.count("\n"), words in err) == (2, 1, True)
        assert not (tmp_path / "out.csv").exists()


def test_a_run_is_resumed_with_the_same_numbers(capsys, flowers):
    (flowers / "moved.csv").rename(flowers / "flowers.csv")
    try:
        code, _, err = call(capsys, "resume", str(flowers / "run"), "--epochs", "10")
        assert code == 0, err
    finally:
        (flowers / "flowers.csv").rename(flowers / "moved.csv")


def test_a_regression_is_told_in_the_units_of_its_file(capsys, tmp_path):
    x = RNG.normal(size=60)
    rows = "".join(f"{a:.4f},{1e4 + 500 * a:.3f}\n" for a in x)
    file = written(tmp_path, "mean,price\n" + rows)
    run, answers = str(tmp_path / "run"), tmp_path / "answers.csv"
    assert call(capsys, "train", str(file), "--label", "price", *SMALL, "--out", run)[0] == 0
    code, _, err = call(capsys, "predict", run, str(file), "--out", str(answers))
    assert code == 0, err
    found = read(answers)
    assert list(found[0]) == ["mean", "price", "predicted_mean", "spread"]
    told = np.array([[float(row["predicted_mean"]), float(row["spread"])] for row in found])
    experiment, ensemble = Experiment.load(run), tj.Ensemble.load(run)
    mean, spread = ensemble.predict(experiment.inputs(file), return_std=True)
    price = 1e4 + 500 * x
    np.testing.assert_allclose(told[:, 0], price.mean() + price.std() * mean, rtol=1e-5)
    np.testing.assert_allclose(told[:, 1], price.std() * spread, rtol=1e-4)
    code, out, err = call(capsys, "evaluate", run, "--data", str(file), "--json")
    assert code == 0, err
    error = np.sqrt(((told[:, 0] - price) ** 2).mean())
    assert json.loads(out)["rmse"] == pytest.approx(error, rel=1e-4)


@pytest.mark.slow
def test_a_run_on_bytes_predicts_the_same_from_every_form_of_them(capsys, tmp_path):
    images = RNG.integers(0, 256, (30, 4, 4), dtype=np.uint8)
    np.savez(tmp_path / "data.npz", x=images, y=np.arange(30) % 3)
    run = str(tmp_path / "run")
    assert call(capsys, "train", str(tmp_path / "data.npz"), *SMALL, "--out", run)[0] == 0
    np.savez(tmp_path / "flat.npz", x=images.reshape(30, 16).astype(np.float64))
    (tmp_path / "a-images-idx3").write_bytes(struct.pack(">BBBB3I", 0, 0, 8, 3, 30, 4, 4) + images.tobytes())
    texts = []
    for name in ("data.npz", "flat.npz", "a-images-idx3"):
        out = tmp_path / f"{name}.csv"
        code, _, err = call(capsys, "predict", run, str(tmp_path / name), "--out", str(out))
        assert code == 0, err
        texts.append(out.read_text())
    assert texts[0] == texts[1] == texts[2]
    assert texts[0].startswith("index,vote,agreement,mean,p0,p1,p2\n0,")
    np.savez(tmp_path / "wrong.npz", x=images.reshape(30, 2, 8))
    code, _, err = call(capsys, "predict", run, str(tmp_path / "wrong.npz"), "--out", str(tmp_path / "no.csv"))
    assert (code, "shape (4, 4)" in err) == (2, True)
