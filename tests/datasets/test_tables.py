"""Tables and arrays are read by name, shape and scale, the same way every time, or refused with the place."""

import csv
import json
import re
import struct
import warnings

import numpy as np
import pytest

import trajens as tj
from tests.command import call
from trajens.app import cli
from trajens.app.experiment import Experiment
from trajens.app.resolve import resolve
from trajens.datasets import Feature, Label, Reading, classes_of, learn, tables
from trajens.errors import InputError
from trajens.storage.options import read_toml

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


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_quotes_and_delimiters_are_understood(tmp_path, delimiter):
    lines = [
        ["a", '"b, or; c"', "label"],
        ["1", '" 2 "', '"x ""y"""'],
        ["-3e1", "4.5", '"two\nlines"'],
        ["5", "6", "z"],
    ]
    file = written(tmp_path, "\n".join(delimiter.join(cells) for cells in lines) + "\n")
    table = tables.read_table(file, texts=["label"])
    assert list(table.columns) == ["a", "b, or; c", "label"]
    np.testing.assert_array_equal(table.columns["a"].numbers, [1, -30, 5])
    np.testing.assert_array_equal(table.columns["b, or; c"].numbers, [2, 4.5, 6])
    assert table.columns["label"].texts == ['x "y"', "two\nlines", "z"]
    # The quoted line break makes the third row begin two lines after the second.
    assert table.lines.tolist() == [2, 3, 5]


def test_marks_at_the_beginning_line_ends_and_empty_lines_are_no_content(tmp_path):
    file = tmp_path / "a.csv"
    file.write_bytes("\ufeffa,label\r\n1,0\r\n\r\n2,1\r\n".encode())
    table = tables.read_table(file)
    assert list(table.columns) == ["a", "label"]
    assert table.lines.tolist() == [2, 4]


def test_long_tables_are_read_in_blocks_as_in_one(tmp_path, monkeypatch):
    rows = [f"{i},{'uvw'[i % 3]},{'' if i == 7 else i / 8}" for i in range(50)]
    file = written(tmp_path, "a,b,c\n" + "\n".join(rows))
    whole = tables.read_table(file)
    monkeypatch.setattr(tables, "_BLOCK", 4)
    parts = tables.read_table(file)
    assert parts.lines.tolist() == whole.lines.tolist()
    for name in "abc":
        np.testing.assert_array_equal(parts.columns[name].numbers, whole.columns[name].numbers)
        assert parts.columns[name].texts == whole.columns[name].texts
        assert parts.columns[name].is_text == whole.columns[name].is_text == (name == "b")
    # A text that comes blocks after the numbers is found all the same, and so is a number after texts.
    text = file.read_text()
    mixed = tables.read_table(written(tmp_path, text + "\nx,7,1"))
    assert mixed.columns["a"].is_text
    assert mixed.columns["a"].texts[-2:] == ["49", "x"]
    assert mixed.columns["b"].is_text
    assert mixed.columns["b"].texts[-2:] == ["v", "7"]
    refused("'a'.*'x' in line 52 and 0 in line 2", learn, written(tmp_path, text + "\nx,u,1"), "c")


BAD = {
    "many cells": ("a,label\n1,0\n2,1,9\n", "2 cells in every row.*got 3 in line 3"),
    "few cells": ("a,b,label\n1,2,0\n\n1,2\n", "3 cells in every row.*got 2 in line 4"),
    "comment": ("a,label\n# note\n1,0\n", "got 1 in line 2"),
    "comment with a comma": ("a,label\n" + 20 * "1,0\n" + "# note, 1\n", "column 'a'.*'# note' in line 22"),
    "text": ("a,label\n" + 20 * "1,0\n" + "x,1\n", "column 'a'.*'x' in line 22 and 1 in line 2; .*--drop a"),
    "underscore": ("a,label\n1,0\n1_000,1\n", "column 'a'.*'1_000' in line 3"),
    "hexadecimal": (
        "a,label\n0x1f,0\n0x2a,1\n",
        "column 'a'.*in one way, got '0x1f' in line 2; .* 1000.5, or .*--drop",
    ),
    "per cent or not": ("a,label\n5%,0\n5,1\n", "column 'a'.*in one way, got '5%' in line 2"),
    "two currencies": ("a,label\n$5,0\n€5,1\n", "column 'a'.*in one way, got '.5' in line 2"),
    "date": ("a b,label\n2020-01-31,0\nNA,1\n", "'a b'.*the date '2020-01-31' in line 2; .*--drop 'a b'"),
    "date and time": ("a,label\n1963-08-24 09:30:00,0\n,1\n", "the date '1963-08-24 09:30:00'"),
    "date with a month": ("a,label\n3 Jan 2020,0\n4 February 2020,1\n", "the date '3 Jan 2020'"),
    "date as a label": ("a,label\n1,1/2/2020\n2,1/3/2020\n", "column 'label'.*the date '1/2/2020'"),
    "infinite": ("a,label\n1,0\ninf,1\n", "column 'a'.*inf in line 3"),
    "too large": ("a,label\n1,0\n1,0\n1e300,1\n1,1\n", "column 'a'.*float32.*line 4"),
    "all labels missing": ("a,label\n1,\n2,NA\n", "label in every row, got none in line 2"),
    "mixed label": ("a,label\n1,0\n2,1\n3,maybe\n", "column 'label'.*'maybe' in line 4 and 0 in line 2"),
    "no name": ("a,,label\n1,2,0\n", "name every column, got none for number .2."),
    "no name, no index": (",a,label\n2,1,0\n2,2,1\n", "number 1, which neither counts nor names the rows"),
    "twice": ("a,a,label\n1,2,0\n", "name every column once, got 'a' twice"),
    "no rows": ("a,label\n", "must hold rows"),
    "nothing": ("", "names of its columns"),
    "no label": ("a,b b,c\n1,u,2.5\n3,v,4\n5,u,6\n", "one label column, got columns 'a', 'b b', 'c'; .*--label c"),
    "one column": ("a b label\n1 2 0\n", "others, got one, 'a b label'; separate columns with commas, semicolons"),
    "two labels": ("y,label\n1,2\n", "one label column"),
    "only a label": ("label\n1\n0\n", "columns besides the label"),
    "open quote": ('a,label\n"1,0\n2,1\n', "must be a table.*line 2"),
    "decimal comma": ("a;label\n1,5;0\n2,5;1\n", "column 'a'.*decimals with a point, got '1,5'"),
    "decimal comma in the label": ("a;label\n1;1,5\n2;2,5\n", "column 'label'.*with a point, got '1,5'"),
    "names as labels": ("a,label\n" + "".join(f"{i},n{i}\n" for i in range(30)), "column 'label'.*got 30 in 30 rows"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_with_a_table_is_said_with_its_place(name, tmp_path):
    text, words = BAD[name]
    refused(words, learn, written(tmp_path, text))


STRICT = {
    "empty": ("a,label\n1,0\n,1\n", "column 'a'.*got none in line 3; leave --missing refuse out"),
    "NA": ("a,label\nNA,0\n1,1\n", "column 'a'.*got none in line 2"),
    "nan": ("a,label\n1,0\n1,0\nNaN,1\n", "column 'a'.*got none in line 4"),
    "category": ("a,label\nu,0\nv,0\n,1\n", "column 'a'.*got none in line 4"),
    "label": ("a,label\n1,0\n2,\n", "label in every row, got none in line 3"),
}


@pytest.mark.parametrize("name", STRICT)
def test_missing_values_are_refused_if_asked_for(name, tmp_path):
    text, words = STRICT[name]
    refused(words, learn, written(tmp_path, text), missing="refuse")


def test_bytes_that_are_no_text_are_refused(tmp_path):
    (tmp_path / "a.csv").write_bytes("a,label\nü,0\n".encode("latin-1"))
    refused("UTF-8", learn, tmp_path / "a.csv")


@pytest.mark.parametrize("index", ["012", "123", "abc", "159", "1bc"])
def test_a_nameless_column_that_counts_or_names_the_rows_is_left_out_with_a_warning(tmp_path, index):
    rows = "".join(f"{row},{x},{i % 2}\n" for i, (row, x) in enumerate(zip(index, "579", strict=True)))
    said = "counts" if index in ("012", "123") else "names"
    with pytest.warns(UserWarning, match=f"has no name and {said} the rows"):
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
    new = written(tmp_path, "a,colour\n1,green\n1,pink\n1,\n", "new.csv")
    with pytest.warns(UserWarning, match=r"'new.csv': texts .* are 0 .*: colour \(2 of 3: 'pink' in line 3\)"):
        np.testing.assert_array_equal(reading.inputs(new)[:, :3], [[0, 1, 0], [0, 0, 0], [0, 0, 0]])
    number = written(tmp_path, "a,colour\nx,green\n", "number.csv")
    refused("column 'a'.*must hold numbers, got 'x' in line 2", reading.inputs, number)


def test_missing_numbers_become_the_mean_of_the_training_data_with_a_note(tmp_path):
    file = written(tmp_path, "a,b,label\n1,1,0\n,2,1\n3,3,0\nNA,4,1\n8,5,1\n")
    with pytest.warns(UserWarning, match=r"'data.csv': missing numbers are the mean of .*: a \(2 of 5: 4\)\."):
        reading, data = learn(file)
    assert reading.missing == "mean"
    assert reading.notes == ("missing numbers are the mean of the training data: a (2 of 5: 4).",)
    mean, std = 4.0, np.std([1, 3, 8])
    np.testing.assert_allclose(data.x[:, 0], [(1 - mean) / std, 0, (3 - mean) / std, 0, (8 - mean) / std], rtol=1e-6)
    new = written(tmp_path, "a,b\n,1\n100,1\n", "new.csv")
    with pytest.warns(UserWarning, match=r"'new.csv': missing numbers .*: a \(1 of 2: 4\)"):
        np.testing.assert_allclose(reading.inputs(new)[:, 0], [0, (100 - mean) / std], rtol=1e-6)
    with pytest.warns(UserWarning, match="missing numbers"):
        plain = learn(file, missing="mean", standardise=False)[1]
    np.testing.assert_allclose(plain.x[:, 0], [1, 4, 3, 4, 8])


@pytest.mark.parametrize("nothing", ["", "NA", "n/a", "?", "null"])
def test_missing_texts_are_a_level_of_their_own(tmp_path, nothing):
    reading, data = learn(written(tmp_path, f"a,label\nu,0\n{nothing},1\nv,0\n"))
    assert reading.features == (Feature("a", ("", "u", "v")),)
    np.testing.assert_array_equal(data.x, [[0, 1, 0], [1, 0, 0], [0, 0, 1]])
    new = written(tmp_path, "a\nv\nnan\n", "new.csv")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(reading.inputs(new), [[0, 0, 1], [1, 0, 0]])
    assert reading == Reading.from_json(reading.to_json())


def test_rows_without_a_label_are_left_out_with_a_note(tmp_path):
    file = written(tmp_path, "a,label\n1,u\n2,\n3,v\n4,NA\n")
    with pytest.warns(UserWarning, match="2 of 4 rows have no label in column 'label': they are left out"):
        reading, data = learn(file, standardise=False)
    np.testing.assert_array_equal(data.x, [[1], [3]])
    np.testing.assert_array_equal(data.y, [0, 1])
    with pytest.warns(UserWarning, match="2 of 4 rows"):
        np.testing.assert_array_equal(reading.labelled(file).x, data.x)
    assert len(reading.inputs(file)) == 4


def test_columns_that_say_nothing_are_left_out_with_a_note(tmp_path):
    rows = "".join(f"{i + 1},name {i},{i / 7},,{i % 2}\n" for i in range(30))
    with pytest.warns(UserWarning, match="left out"):
        reading, _ = learn(written(tmp_path, "id,name,a,empty,label\n" + rows))
    assert [feature.name for feature in reading.features] == ["a"]
    assert [note.split(":")[0] for note in reading.notes] == [
        "column 'id' counts the rows",
        "column 'name' has 30 different texts in 30 rows",
        "column 'empty' has no value in any row",
    ]


def test_columns_are_dropped(tmp_path):
    file = written(tmp_path, 'a,"b,c",d,e,label\n1,2020-01-01,3,4,0\n2,2020-01-02,5,6,1\n')
    for drop in (["b,c", "d", "e"], ["b,c", "d, e"], ["b,c", "d,e"]):
        assert [feature.name for feature in learn(file, drop=drop)[0].features] == ["a"]
    refused("drop must name columns.*got 'f'", learn, file, drop=["d,f"])
    refused("without 'label'; .* --label e", learn, file, label="label", drop=["label"])
    config = resolve({"problem": str(file), "drop": ["b,c", "d"]})
    (tmp_path / "config.toml").write_text(config.to_toml())
    assert read_toml(tmp_path / "config.toml")["drop"] == ["b,c", "d"]
    assert [feature.name for feature in Experiment(config).reading.features] == ["a", "e"]


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["5%", "12.5 %", "-1%"], [0.05, 0.125, -0.01]),
        (["$5", "-$1,000.5", "7"], [5, -1000.5, 7]),
        (["3 €", "€4", ""], [3, 4, np.nan]),
        (["1,000", "12,345,678", "5"], [1000, 12345678, 5]),
    ],
)
def test_amounts_are_numbers_with_a_note(tmp_path, cells, values):
    file = written(tmp_path, "a,b,label\n" + "".join(f'"{cell}",1,{i % 2}\n' for i, cell in enumerate(cells)))
    with pytest.warns(UserWarning, match=f"'a' has numbers that are not written plainly: '{re.escape(cells[0])}' is"):
        reading, data = learn(file, standardise=False)
    known = np.array(values)
    expected = np.where(np.isnan(known), np.nanmean(known), known)
    np.testing.assert_allclose(data.x[:, 0], expected, rtol=1e-6)
    with pytest.warns(UserWarning, match="written plainly|mean"):
        reading = learn(file, label="a", loss="squared", standardise=False)[0]
    assert reading.label.classes is None


def test_numbers_and_texts_in_one_column_are_categories_with_a_note(tmp_path):
    rows = "".join(f"{('170', '171a', '172')[i % 3]},{i % 2}\n" for i in range(12))
    with pytest.warns(UserWarning, match="column 'a' has numbers and texts: all are taken for categories"):
        reading, _ = learn(written(tmp_path, "a,label\n" + rows))
    assert reading.features[0].levels == ("170", "171a", "172")
    np.testing.assert_array_equal(reading.inputs(written(tmp_path, "a\n172\n170\n", "b.csv")), [[0, 0, 1], [1, 0, 0]])


@pytest.mark.parametrize("word", ["-", "None", ".", "n.a."])
def test_a_word_among_numbers_that_says_there_is_none_is_a_missing_value(tmp_path, word):
    numbers = [i / 7 for i in range(30)]
    cells = [word if i % 5 == 0 else f"{number}" for i, number in enumerate(numbers)]
    file = written(tmp_path, "a,b,label\n" + "".join(f"{a},{i},{i % 2}\n" for i, a in enumerate(cells)))
    with pytest.warns(UserWarning, match=f"'a' has '{re.escape(word)}' among its numbers: it is taken for a missing"):
        reading, data = learn(file, standardise=False)
    assert [feature.levels for feature in reading.features] == [None, None]
    known = [number for i, number in enumerate(numbers) if i % 5]
    np.testing.assert_allclose(data.x[:6, 0], [np.mean(known), *numbers[1:5], np.mean(known)], rtol=1e-6)
    new = written(tmp_path, f"a,b\n{word},1\n,1\n3,1\n", "new.csv")
    with pytest.warns(UserWarning, match=r"a \(2 of 3: "):
        np.testing.assert_allclose(reading.inputs(new)[:, 0], [np.mean(known), np.mean(known), 3], rtol=1e-6)
    refused("column 'a'.*got none in line 2", learn, file, missing="refuse")
    few = written(tmp_path, "a,label\n" + f"{word},0\n1,1\n2,0\n" * 4, "few.csv")
    with pytest.warns(UserWarning, match="numbers and texts"):
        assert learn(few)[0].features[0].levels == tuple(sorted(["1", "2", word]))


def test_an_error_about_the_label_names_a_likely_one_and_the_command(tmp_path):
    file = written(tmp_path, "a,the kind,c\n1,u,2.5\n3,v,4\n5,u,6\n" + "".join(f"{i},u,{i / 7}\n" for i in range(20)))
    refused(f"try trajens train {file} --label 'the kind'", learn, file)
    refused("without 'the kin'; try .* --label 'the kind'", learn, file, label="the kin")
    numbers = written(tmp_path, "a,b,c\n" + "".join(f"{i},{i / 3},{i / 7}\n" for i in range(20)), "numbers.csv")
    refused("--label c", learn, numbers)


def test_whole_numbers_of_classes_are_exact(tmp_path):
    ids = [2**53, 2**53 + 1, 2**53 + 2, 2**63 + 1]
    places = np.arange(20) % 4
    file = written(tmp_path, "a,label\n" + "".join(f"{i},{ids[k]}\n" for i, k in enumerate(places)))
    np.savez(tmp_path / "a.npz", x=np.zeros((20, 2)), y=np.array(ids, np.uint64)[places])
    for data in (file, tmp_path / "a.npz"):
        reading, learned = learn(data, loss="cross-entropy")
        assert reading.label.classes == tuple(ids)
        np.testing.assert_array_equal(learned.y, places)
        again = Reading.from_json(reading.to_json())
        np.testing.assert_array_equal(again.labelled(data).y, places)


def test_masked_values_are_refused(tmp_path):
    x, y = np.ma.masked_greater(RNG.normal(size=(20, 3)), 1.0), np.arange(20) % 2
    masked = np.ma.masked_array(y, mask=np.arange(20) == 3)
    model = tj.models.mlp((3, 2, 2))
    ensemble = tj.Ensemble(model, model.init()[None])
    count = int(x.mask.sum())
    assert count > 0
    refused(f"x must have all its values, got {count} masked ones", model.problem, x, y)
    refused("y must have all its values, got 1 masked", model.problem, x.filled(0), masked)
    refused("x must have all its values", ensemble.predict, x)
    refused("labels must have all its values", ensemble.evaluate, x.filled(0), masked)
    refused("labels must have all its values", classes_of, masked)
    refused("data must have all its values", tj.Problem, lambda theta, batch: batch[:, 0], x, 3)
    model.problem(np.ma.masked_array(x.filled(0), mask=False), y)
    estimators = pytest.importorskip("trajens.estimators")
    for estimator in (estimators.TrajectoryEnsembleClassifier, estimators.TrajectoryEnsembleRegressor):
        refused("X must have all its values", estimator().fit, x, y)
        refused("y must have all its values", estimator().fit, x.filled(0), masked)


def test_readings_of_versions_before_are_read(tmp_path):
    text = (
        '{"kind":"table","label":{"name":"label","classes":["x","y"],"mean":0.0,"std":1.0},"features":'
        '[{"name":"a","levels":null,"mean":2.0,"std":1.0},{"name":"b","levels":["n/a","u"],"mean":0.0,"std":0.0}],'
        '"shape":[3],"is_bytes":false,"missing":"refuse","is_standardised":true}'
    )
    reading = Reading.from_json(text)
    assert reading.notes == ()
    data = reading.labelled(written(tmp_path, "a,b,label\n3,u,x\n2,n/a,y\n"))
    np.testing.assert_array_equal(data.x, [[1, 0, 1], [0, 1, 0]])
    np.testing.assert_array_equal(data.y, [0, 1])
    refused("column 'a'.*got none in line 2", reading.inputs, written(tmp_path, "a,b\n,u\n", "a.csv"))
    refused("label in every row", reading.labelled, written(tmp_path, "a,b,label\n1,u,\n1,u,x\n", "b.csv"))


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
    for options in ({"label": "y"}, {"missing": "mean"}, {"standardise": True}, {"drop": ["a"]}):
        refused("must be left out with mnist", resolve, {"problem": "mnist", **options})
        refused("must be left out with perceptron", resolve, {"problem": "perceptron", **options})
    file = str(written(tmp_path, "a,label\n1,0\n2,1\n"))
    refused("missing must be one of 'mean', 'refuse'", resolve, {"problem": file, "missing": "zero"})
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
    probabilities = ["probability_daisy", "probability_fern", "probability_rose"]
    answered = ["predicted_class", "class_probability", "vote", "vote_agreement", *probabilities]
    assert list(rows[0]) == ["note", "site", "size", *answered]
    assert [row["note"] for row in rows] == ["x", "y"]
    x = experiment.inputs(shuffled)
    assert [row["vote"] for row in rows] == [("daisy", "fern", "rose")[k] for k in ensemble.predict(x)]
    found = np.array([[float(row[name]) for name in probabilities] for row in rows])
    np.testing.assert_allclose(found, ensemble.predict_proba(x), rtol=1e-5)
    assert [row["predicted_class"] for row in rows] == [("daisy", "fern", "rose")[k] for k in found.argmax(1)]
    np.testing.assert_allclose([float(row["class_probability"]) for row in rows], found.max(1))
    again = tmp_path / "again.csv"
    assert call(capsys, "predict", str(flowers / "run"), str(answers), "--out", str(again))[0] == 0
    assert list(read(again)[0]) == [*rows[0], *(f"{name}_2" for name in answered)]
    code, _, err = call(capsys, *arguments)
    assert (code, "add --overwrite" in err) == (2, True)
    assert call(capsys, *arguments, "--overwrite")[0] == 0
    code, _, err = call(capsys, "predict", str(flowers / "run"), str(shuffled), "--out", str(shuffled), "--overwrite")
    assert (code, "must not be the file of the inputs" in err) == (2, True)


def test_lost_columns_are_refused_by_name_and_new_levels_are_not(capsys, flowers, tmp_path):
    arguments = ["predict", str(flowers / "run"), str(tmp_path / "data.csv"), "--out", str(tmp_path / "out.csv")]
    written(tmp_path, "size\n1\n")
    code, _, err = call(capsys, *arguments)
    assert (code, err.count("\n"), "columns 'site'" in err) == (2, 1, True)
    assert not (tmp_path / "out.csv").exists()
    written(tmp_path, "size,site\n1,bog\n")
    with pytest.warns(UserWarning, match=r"site \(1 of 1: 'bog' in line 2\)"):
        assert call(capsys, *arguments)[0] == 0
    assert len(read(tmp_path / "out.csv")) == 1


def test_classes_that_a_spreadsheet_would_run_are_written_harmlessly(capsys, tmp_path):
    names = ("=cmd|' /C calc'!A0", "+x", "-y", "@z", "-5")
    rows = "".join(f'{k},"{name}"\n' for _ in range(4) for k, name in enumerate(names))
    file, run = written(tmp_path, "a,label\n" + rows), str(tmp_path / "run")
    assert call(capsys, "train", str(file), "--loss", "cross-entropy", *SMALL, "--out", run)[0] == 0
    assert call(capsys, "predict", run, str(file), "--out", str(tmp_path / "out.csv"))[0] == 0
    known = {f"'{name}" for name in names[:-1]} | {"-5"}
    with (tmp_path / "out.csv").open(newline="") as lines:
        head, *answers = csv.reader(lines)
    assert {row[i] for row in answers for i in (2, 4)} <= known
    assert all(name[0] not in "=+-@\t\r" for name in head)
    # What is written so is read back as the class it is.
    labels = written(tmp_path, "a,label\n" + "".join(f'1,"{name}"\n' for name in sorted(known)), "back.csv")
    reading = Experiment.load(run).reading
    found = [reading.label.classes[k] for k in reading.labelled(labels).y]
    assert found == [name[1:] if name != "-5" else name for name in sorted(known)]


def test_a_run_on_a_table_as_it_comes_writes_its_notes_down(capsys, tmp_path):
    rows = "".join(f"name {i},{'' if i == 3 else i},{'uv'[i % 2]},{i % 2}\n" for i in range(40))
    file, run = written(tmp_path, "name,a,b,label\n" + rows), str(tmp_path / "run")
    options = ["--drop", "b", *SMALL, "--out", run]
    with pytest.warns(UserWarning, match="left out"):
        assert call(capsys, "train", str(file), *options)[0] == 0
    reading = Experiment.load(run).reading
    assert [feature.name for feature in reading.features] == ["a"]
    assert ["name" in reading.notes[0], "a (1 of 40" in reading.notes[1]] == [True, True]
    code, _, err = call(capsys, "train", str(file), "--missing", "refuse", *SMALL)
    assert (code, "got none in line 5" in err) == (2, True)


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
    assert list(found[0]) == ["mean", "price", "predicted_mean", "std_of_models"]
    told = np.array([[float(row["predicted_mean"]), float(row["std_of_models"])] for row in found])
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
    assert texts[0].startswith(
        "index,predicted_class,class_probability,vote,vote_agreement,probability_0,probability_1,probability_2\n0,"
    )
    np.savez(tmp_path / "wrong.npz", x=images.reshape(30, 2, 8))
    code, _, err = call(capsys, "predict", run, str(tmp_path / "wrong.npz"), "--out", str(tmp_path / "no.csv"))
    assert (code, "shape (4, 4)" in err) == (2, True)


def test_names_in_single_quotes_are_names(tmp_path):
    file = written(tmp_path, "'a'\t'it''s'\t'y'\n1\t'x\ty'\t0\n2\tz\t1\n")
    assert tables.header(file) == ["a", "it's", "y"]
    # An apostrophe in some names is none.
    assert tables.header(written(tmp_path, "'a',b\n1,2\n")) == ["'a'", "b"]
